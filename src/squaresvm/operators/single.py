"""K in float32, for products that need not be exact: half the memory, and half of that by symmetry."""

from __future__ import annotations

import numpy as np

from squaresvm.kernels import Kernel
from squaresvm.operators.threads import on_threads
from squaresvm.operators.tiles import TILE, Tiles, Values, symmetric_sum
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["SingleKernel"]


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
