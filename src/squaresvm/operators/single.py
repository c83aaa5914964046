"""K in float32, for products that need not be exact: half the memory, and half of that by symmetry."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from squaresvm.kernels import Kernel
from squaresvm.runtime.resources import on_threads, thread_count
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["TILE", "SingleKernel", "Tiles", "symmetric_sum"]


class SingleKernel:
    """Products with K rounded to float32, its tiles held where memory allows and computed anew where not.

    Only tiles on and below the diagonal are held, about 2 m^2 bytes; sums run in float64.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (m, n)
    memory : float
        Bytes that tiles may take.
    """

    def __init__(self, kernel: Kernel, X: Matrix, memory: float) -> None:
        self._tiles = Tiles(kernel, X, np.float32)
        self.n_rows = self._tiles.n_rows
        self._held: list[list[Values]] | None = None
        if self.bytes_held(self.n_rows) <= memory:
            self._held = self._fill()

    @staticmethod
    def bytes_held(n_rows: int) -> int:
        """Return the bytes that the tiles of so many rows take."""
        return 2 * n_rows * (n_rows + min(n_rows, TILE[4]))

    @property
    def is_held(self) -> bool:
        """Whether tiles are kept from one product to the next."""
        return self._held is not None

    def _fill(self) -> list[list[Values]]:
        tiles = self._tiles
        sizes = [tiles.part(i).stop - tiles.part(i).start for i in range(tiles.count)]
        held = [
            [np.empty((sizes[i], sizes[j]), np.float32) for j in range(i + 1)] for i in range(tiles.count)
        ]

        def share(t: int, threads: int) -> None:
            places = [(i, j) for i in range(tiles.count) for j in range(i + 1)]
            for i, j in places[t::threads]:
                tiles.fill(tiles.part(i), tiles.part(j), held[i][j])

        on_threads(share, tiles.threads)
        return held

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b."""
        held, tiles = self._held, self._tiles
        if held is None:
            return tiles.matmul(b)

        def share(t: int, threads: int) -> FloatArray:
            return symmetric_sum(tiles, b, t, threads, lambda i, j: held[i][j])

        return np.sum(on_threads(share, tiles.threads), axis=0)

    def columns(self, chosen: IntArray) -> FloatArray:
        """Return K[:, chosen] in float64, Fortran-ordered."""
        return self._tiles.columns(chosen)


#: Rows and columns of a tile by bytes of a value: what the cache holds while it is used twice.
TILE = {4: 1024, 8: 512}
#: Sparse rows are made dense where that takes no more than this many bytes.
_DENSE_BYTES = 256 * 2**20
#: Columns up to which products of a tile with one vector at a time are faster than with a matrix.
_FEW_COLUMNS = 3
#: gamma |x|^2 up to which exponents of the RBF kernel are taken in float32.
_SMALL_EXPONENT = 16.0

Values: TypeAlias = npt.NDArray[Any]


class Tiles:
    """Tiles of K = k(X, X) in float64 or float32.

    For dense RBF rows one product of matrices gives the exponents themselves, rows centred at their mean:

        -gamma |x - z|^2 = [sqrt(2 gamma) x, -gamma |x|^2, 1] [sqrt(2 gamma) z, 1, -gamma |z|^2]'          (1)

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (m, n)
    dtype : dtype, default=float64
        Of the values. Where (1) would lose precision in float32, values are computed in float64 and rounded.
    """

    def __init__(self, kernel: Kernel, X: Matrix, dtype: npt.DTypeLike = np.float64) -> None:
        self.kernel = kernel
        self.X = X
        self.dtype = np.dtype(dtype)
        self.n_rows = int(X.shape[0])
        # Somebody's own function may not be made for two threads at once.
        self.threads = 1 if callable(kernel.function) else thread_count()
        self._left: Values | None = None
        if kernel.function == "rbf" and X.shape[0] * X.shape[1] * 8 <= _dense_limit(X):
            self._left, self._right = _exponent_factors(kernel.gamma, X, self.dtype)

    @property
    def step(self) -> int:
        """Rows and columns of a tile."""
        return TILE[self.dtype.itemsize]

    @property
    def count(self) -> int:
        """Tiles along one side."""
        return -(-self.n_rows // self.step)

    def part(self, index: int) -> slice:
        """Return the rows of a tile."""
        return slice(index * self.step, min((index + 1) * self.step, self.n_rows))

    def fill(self, rows: slice, columns: slice, out: Values) -> Values:
        """Write k(X[rows], X[columns]) into `out`, C-contiguous; return it."""
        if self._left is None:
            out[...] = self.kernel(self.X[rows], self.X[columns])
            return out
        np.dot(self._left[rows], self._right[:, columns], out=out)
        return _exponentials(out)

    def columns(self, chosen: IntArray) -> FloatArray:
        """Return K[:, chosen] in float64, Fortran-ordered."""
        out = np.empty((self.n_rows, chosen.size), order="F")
        landmarks = self.X[chosen]

        def share(t: int, threads: int) -> None:
            for index in range(t, self.count, threads):
                rows = self.part(index)
                out[rows] = self.kernel(self.X[rows], landmarks)

        on_threads(share, self.threads)
        return out

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b, every tile computed now and used twice."""
        size = self.step**2

        def tile_of(buffer: Values, i: int, j: int) -> Values:
            rows, columns = self.part(i), self.part(j)
            shape = (rows.stop - rows.start, columns.stop - columns.start)
            return self.fill(rows, columns, buffer[: shape[0] * shape[1]].reshape(shape))

        def share(t: int, threads: int) -> FloatArray:
            buffer = np.empty(min(size, self.n_rows**2), dtype=self.dtype)
            return symmetric_sum(self, b, t, threads, lambda i, j: tile_of(buffer, i, j))

        return np.sum(on_threads(share, self.threads), axis=0)


def symmetric_sum(tiles: Tiles, b: FloatArray, t: int, threads: int, tile: Any) -> FloatArray:
    """Return the part of K b that the tiles of thread t give, summed up in float64.

    Parameters
    ----------
    tiles : Tiles
    b : ndarray of shape (m, k)
    t, threads : int
    tile : callable
        ``tile(i, j)`` returns a tile with i >= j.
    """
    total = _Columns(b, tiles.dtype) if b.shape[1] <= _FEW_COLUMNS else _Matrix(b, tiles.dtype)
    places = [(i, j) for i in range(tiles.count) for j in range(i + 1)]
    for i, j in places[t::threads]:
        total.add(tile(i, j), tiles.part(i), tiles.part(j), i != j)
    return total.value()


class _Columns:
    """The sum of tiles times b, column by column: for few of them."""

    def __init__(self, b: FloatArray, dtype: np.dtype[Any]) -> None:
        self._sum = np.zeros(b.shape, order="F")
        self._b = np.asarray(b, dtype=dtype, order="F")

    def add(self, tile: Values, rows: slice, columns: slice, twice: bool) -> None:
        """Add a tile times its part of b, and with `twice` its transpose times the other part."""
        for k in range(self._b.shape[1]):
            self._sum[rows, k] += tile @ self._b[columns, k]
            if twice:
                self._sum[columns, k] += tile.T @ self._b[rows, k]

    def value(self) -> FloatArray:
        """Return the sum."""
        return self._sum


class _Matrix:
    """The sum of tiles times b, all columns at once.

    BLAS is a third faster with a multiple of four columns, and with the transpose of a tile on the right of
    a row-major product: so columns of zeros stand beside b, and each side has a sum of its own.
    """

    def __init__(self, b: FloatArray, dtype: np.dtype[Any]) -> None:
        m, self._width = b.shape
        self._b = np.zeros((m, -(-self._width // 4) * 4), dtype=dtype)
        self._b[:, : self._width] = b
        self._b_transposed = np.ascontiguousarray(self._b.T)
        self._sum = np.zeros(self._b.shape)
        self._sum_transposed = np.zeros(self._b_transposed.shape)

    def add(self, tile: Values, rows: slice, columns: slice, twice: bool) -> None:
        """Add a tile times its part of b, and with `twice` its transpose times the other part."""
        self._sum[rows] += tile @ self._b[columns]
        if twice:
            self._sum_transposed[:, columns] += self._b_transposed[:, rows] @ tile

    def value(self) -> FloatArray:
        """Return the sum."""
        return np.asfortranarray((self._sum + self._sum_transposed.T)[:, : self._width])


def _dense_limit(X: Matrix) -> float:
    return _DENSE_BYTES if sp.issparse(X) else float("inf")


def _exponentials(block: Values) -> Values:
    # A squared distance is not negative, whatever rounding says.
    np.minimum(block, 0.0, out=block)
    return np.exp(block, out=block)


def _exponent_factors(gamma: float, X: Matrix, dtype: np.dtype[Any]) -> tuple[Values | None, Values]:
    """Return the two factors of (1); None where float32 would lose precision in them."""
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    scaled = np.sqrt(2.0 * gamma) * (dense - dense.mean(axis=0))
    half = -0.5 * np.einsum("ij,ij->i", scaled, scaled)
    if dtype == np.float32 and -half.min(initial=0.0) > _SMALL_EXPONENT:
        return None, scaled
    one = np.ones_like(half)
    left = np.column_stack([scaled, half, one]).astype(dtype)
    right = np.ascontiguousarray(np.column_stack([scaled, one, half]).T.astype(dtype))
    return left, right
