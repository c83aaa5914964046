"""Kernels: k(X, Z) in blocks, with scikit-learn's parameter meanings.

======================  ==================================================
name                    k(x, z)
======================  ==================================================
``linear``              x'z
``rbf``                 exp(-gamma |x - z|^2)
``poly``                (gamma x'z + coef0)^degree
``sigmoid``             tanh(gamma x'z + coef0), often not semidefinite
``laplacian``           exp(-gamma |x - z|_1)
a callable              whatever ``f(X, Z)`` of shape (rows, rows) says
======================  ==================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.utils.extmath import row_norms

from squaresvm.linalg.blas import times
from squaresvm.runtime.arguments import check_integer, check_positive
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["KERNEL_NAMES", "Augmented", "Kernel", "KernelFunction", "check_kernel", "scale_gamma"]

KernelFunction: TypeAlias = Callable[[Any, Any], Any]

#: Kernels that are computed from features, by name.
KERNEL_NAMES = ("linear", "rbf", "poly", "sigmoid", "laplacian")

#: A sparse block is made dense for a product when it takes no more than this many bytes.
_DENSE_BLOCK_BYTES = 64 * 2**20


def inner_products(X: Matrix, Z: Matrix) -> FloatArray:
    """Return X Z' as a dense float64 array, for dense or sparse rows."""
    if sp.issparse(X) or sp.issparse(Z):
        if Z.shape[0] * Z.shape[1] * 8 <= _DENSE_BLOCK_BYTES:
            # Sparse times dense is several times faster than sparse times sparse.
            dense = Z.toarray() if sp.issparse(Z) else Z
            return np.asarray(X @ np.asarray(dense, dtype=np.float64).T, dtype=np.float64)
        if sp.issparse(X) and sp.issparse(Z) and Z.shape[1] > 2 * Z.nnz:
            X, Z = _on_used_columns(X, Z)
        sparse = X @ Z.T
        return np.asarray(sparse.toarray() if sp.issparse(sparse) else sparse, dtype=np.float64)
    return times(X, Z.T)


def _on_used_columns(X: Matrix, Z: Matrix) -> tuple[Matrix, Matrix]:
    """Return sparse rows on the columns that rows of Z use.

    A product with Z' takes memory for every column, and indices may name any column up to 2^31.
    """
    used, own = np.unique(Z.indices, return_inverse=True)
    narrow = sp.csr_matrix((Z.data, own, Z.indptr), shape=(Z.shape[0], used.size))
    # Where each entry of X would be among the used columns, and whether its column is there.
    places = np.searchsorted(used, X.indices)
    met = np.flatnonzero(places < used.size)
    met = met[used[places[met]] == X.indices[met]]
    counts = np.searchsorted(met, X.indptr)
    return sp.csr_matrix((X.data[met], places[met], counts), shape=(X.shape[0], used.size)), narrow


def squared_norms(X: Matrix) -> FloatArray:
    """Return |x_i|^2 in float64, whatever the rows' own type."""
    wide = X.astype(np.float64, copy=False)
    return np.asarray(row_norms(wide, squared=True), dtype=np.float64)


def scale_gamma(X: Matrix, weights: FloatArray) -> float:
    """Return 1 / (n_features * weighted variance of all entries of X), the meaning of ``'scale'``.

    Without weights this is the value of :class:`sklearn.svm.SVC`. It is also the only one under which
    a row of weight 2 equals the same row twice.

    Parameters
    ----------
    X : array or CSR matrix of shape (m, n)
    weights : ndarray of shape (m,)

    Returns
    -------
    float
        1.0 where X is constant.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 2.0], [4.0, 2.0]])
    >>> scale_gamma(X, np.ones(2)) == float(1 / (2 * X.var()))
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean, variance = _mean_and_variance(X, weights / weights.sum())
        # Of constant rows rounding leaves a variance that is not quite zero.
        rounding = np.square(8.0 * np.finfo(np.float64).eps * mean)
    if not np.isfinite(variance):
        raise ValueError(
            "gamma='scale' needs the variance of the features, which is out of the range of float64: scale "
            "the features, or give gamma as a number"
        )
    return float(1.0 / (X.shape[1] * variance)) if variance > rounding else 1.0


def _mean_and_variance(X: Matrix, share: FloatArray) -> tuple[float, float]:
    """Return mean and variance of all entries of X; of each row, `share` is its share in the weights."""
    n = X.shape[1]
    wide = X.astype(np.float64, copy=False) if sp.issparse(X) else X
    mean = float(share @ np.asarray(wide.sum(axis=1, dtype=np.float64)).ravel()) / n
    # Around the mean: the difference of two large numbers would lose all precision.
    if sp.issparse(X):
        away = np.square(wide.data - mean)
        entries = sp.csr_matrix((away, X.indices, X.indptr), shape=X.shape)
        zeros = n - np.diff(X.indptr)
        return mean, float(share @ (np.asarray(entries.sum(axis=1)).ravel() + zeros * np.square(mean))) / n
    dense = np.asarray(X, dtype=np.float64)
    variance = sum(
        float(share[i : i + 4096] @ ((dense[i : i + 4096] - mean) ** 2).sum(axis=1))
        for i in range(0, dense.shape[0], 4096)
    )
    return mean, variance / n


#: Rows that tell where the rows are, and how large squared means of columns may be beside their variances.
_ORIGIN_ROWS, _OFF_CENTRE = 64, 1.0


def _around_an_origin(X: Matrix, Z: Matrix) -> list[tuple[Matrix, Matrix]]:
    """Return the rows in parts, some columns each, moved to where squared distances keep their precision.

    Distances do not depend on the origin, so any that is near the rows will do: the mean of some of them.
    Sparse rows are moved only in columns with a large mean, which are mostly full, and stay sparse in the
    others. Rows that are near zero already are returned as they are.
    """
    if sp.issparse(X) and sp.issparse(Z) and X.shape[1] > X.nnz + Z.nnz:
        X, Z = _on_any_used_column(X, Z)
    some = Z[:: max(1, Z.shape[0] // _ORIGIN_ROWS)]
    sample = np.asarray(some.toarray() if sp.issparse(some) else some, dtype=np.float64)
    if sample.size == 0:
        return [(X, Z)]
    origin = sample.mean(axis=0)
    spread = np.square(sample - origin).mean(axis=0)
    if sample.shape[0] == 1:
        # One row has no spread of its own, but the rows that it is compared with are where they are.
        other = X[:: max(1, X.shape[0] // _ORIGIN_ROWS)]
        others = np.asarray(other.toarray() if sp.issparse(other) else other, dtype=np.float64)
        spread = np.square(others - origin).mean(axis=0)
    if np.square(origin).sum() <= _OFF_CENTRE * spread.sum():
        return [(X, Z)]
    if not sp.issparse(X) and not sp.issparse(Z):
        return [(X - origin, Z - origin)]
    columns = np.flatnonzero(np.square(origin) > _OFF_CENTRE * spread)
    near = origin[columns]
    moved = _dense_columns(X, columns) - near, _dense_columns(Z, columns) - near
    return [(_without_columns(X, columns), _without_columns(Z, columns)), moved]


def _on_any_used_column(X: Any, Z: Any) -> tuple[Matrix, Matrix]:
    """Return sparse rows on the columns that either of them uses: all others add nothing to a distance."""
    used, places = np.unique(np.concatenate([X.indices, Z.indices]), return_inverse=True)
    first, second = places[: X.nnz], places[X.nnz :]
    width = used.size
    return (
        sp.csr_matrix((X.data, first, X.indptr), shape=(X.shape[0], width)),
        sp.csr_matrix((Z.data, second, Z.indptr), shape=(Z.shape[0], width)),
    )


def _dense_columns(X: Matrix, columns: IntArray) -> FloatArray:
    chosen = X[:, columns]
    return np.asarray(chosen.toarray() if sp.issparse(chosen) else chosen, dtype=np.float64)


def _without_columns(X: Matrix, columns: IntArray) -> Matrix:
    """Return the rows with zeros in some columns."""
    keep = np.ones(X.shape[1])
    keep[columns] = 0.0
    if not sp.issparse(X):
        return X * keep
    return sp.csr_matrix((X.data * keep[X.indices], X.indices, X.indptr), shape=X.shape)


def _sum_of(terms: Iterable[FloatArray]) -> FloatArray:
    """Return the sum of some arrays, the first of which is changed."""
    first, *others = terms
    for term in others:
        first += term
    return first


def _for_distances(X: Matrix) -> Matrix:
    """Return rows in float64, and with the 32-bit indices that compiled distances ask for."""
    wide = X.astype(np.float64, copy=False)
    if not sp.issparse(wide) or wide.indices.dtype == np.int32:
        return wide
    return sp.csr_matrix(
        (wide.data, wide.indices.astype(np.int32), wide.indptr.astype(np.int32)), shape=wide.shape
    )


def _integer_power(base: FloatArray, degree: int) -> FloatArray:
    """Return base ** degree by repeated multiplication, much faster than ``numpy.power``."""
    if degree == 0:
        return np.ones_like(base)
    result = base.copy() if degree > 1 else base
    for _ in range(degree - 1):
        result *= base
    return result


@dataclass(frozen=True)
class Augmented:
    """A callable kernel on rows with one more column, -1, as the Lagrangian SVM paper has it.

    Parameters
    ----------
    function : callable
        Kernel of the augmented rows.
    """

    function: KernelFunction

    def __call__(self, X: Matrix, Z: Matrix) -> Any:
        """Return function([X, -1], [Z, -1])."""
        return self.function(self._augment(X), self._augment(Z))

    @staticmethod
    def _augment(X: Matrix) -> Matrix:
        column = np.full((X.shape[0], 1), -1.0)
        if sp.issparse(X):
            return sp.hstack([X, column], format="csr")
        return np.hstack([X, column])


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters resolved to numbers.

    Parameters
    ----------
    function : str or callable
        One of ``KERNEL_NAMES``, or a callable ``f(X, Z)`` that returns a (len(X), len(Z)) array.
    gamma : float, default=1.0
    degree : int, default=3
    coef0 : float, default=0.0

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.kernels import Kernel
    >>> Kernel("poly", gamma=1.0, degree=2, coef0=1.0)(np.array([[1.0]]), np.array([[2.0], [3.0]]))
    array([[ 9., 16.]])
    """

    function: str | KernelFunction
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    @property
    def name(self) -> str:
        """The kernel's name; ``'callable'`` for a callable."""
        return self.function if isinstance(self.function, str) else "callable"

    def __call__(self, X: Matrix, Z: Matrix) -> FloatArray:
        """Return the block k(X, Z), a new float64 array of shape (len(X), len(Z))."""
        if callable(self.function):
            return self._call(self.function, X, Z)
        if self.function == "linear":
            return inner_products(X, Z)
        if self.function == "rbf":
            return self._rbf(X, Z)
        if self.function == "laplacian":
            distances = manhattan_distances(_for_distances(X), _for_distances(Z))
            distances *= -self.gamma
            return np.asarray(np.exp(distances, out=distances), dtype=np.float64)
        affine = inner_products(X, Z)
        affine *= self.gamma
        affine += self.coef0
        if self.function == "poly":
            return _integer_power(affine, self.degree)
        return np.asarray(np.tanh(affine, out=affine), dtype=np.float64)

    def _rbf(self, X: Matrix, Z: Matrix) -> FloatArray:
        # -|x - z|^2 = 2 x'z - |x|^2 - |z|^2: far from the origin nothing is left of the difference.
        parts = _around_an_origin(X, Z)
        block = _sum_of(inner_products(x, z) for x, z in parts)
        block *= 2.0 * self.gamma
        block -= self.gamma * _sum_of(squared_norms(x) for x, _ in parts)[:, None]
        block -= self.gamma * _sum_of(squared_norms(z) for _, z in parts)[None, :]
        # A squared distance is not negative, whatever rounding says.
        np.minimum(block, 0.0, out=block)
        return np.exp(block, out=block)

    @staticmethod
    def _call(function: KernelFunction, X: Matrix, Z: Matrix) -> FloatArray:
        try:
            found: Any = function(X, Z)
            values = np.asarray(found.toarray() if sp.issparse(found) else found)
            if np.iscomplexobj(values):
                raise ValueError("it returned complex values")
            block = np.array(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the callable kernel failed on rows of shape {X.shape} and {Z.shape}: {error}"
            ) from error
        expected = (X.shape[0], Z.shape[0])
        if block.shape != expected:
            raise ValueError(
                f"the callable kernel returned shape {block.shape} for {expected[0]} and "
                f"{expected[1]} rows; it must return shape {expected}"
            )
        if not np.isfinite(block).all():
            raise ValueError("the callable kernel returned NaN or infinity")
        return block

    def augmented(self) -> tuple[Kernel, bool]:
        """Return the kernel of rows [x, -1], and whether that is this kernel with a penalised bias.

        The extra column is never stored: it cancels in the distances of ``rbf`` and ``laplacian``
        (no bias at all), adds gamma to ``coef0`` in ``poly`` and ``sigmoid``, and is the penalised
        bias, A = 1, of ``linear``.
        """
        if callable(self.function):
            return replace(self, function=Augmented(self.function)), False
        if self.function in ("poly", "sigmoid"):
            return replace(self, coef0=self.coef0 + self.gamma), False
        return self, self.function == "linear"

    def check_range(self, X: Matrix) -> None:
        """Raise a ValueError where kernel values of these rows would be too large for float64."""
        if callable(self.function):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            if self.function == "linear" and _total_squares(X) < 0.25 * np.sqrt(np.finfo(np.float64).max):
                return  # No row alone can be larger than all rows together.
            # No value of the kernel is larger than the largest on its diagonal; distances are up to 4 times.
            size = 4.0 * squared_norms(X)
            # Solvers in w square products of rows with sums over rows.
            size = size**2 if self.function == "linear" else self.gamma * size + abs(self.coef0)
            if self.function == "poly":
                size = size ** max(self.degree, 1)
        if not np.isfinite(size).all():
            row = int(np.flatnonzero(~np.isfinite(size))[0])
            raise ValueError(
                f"kernel values of row {row} are too large for float64 (its largest entry is "
                f"{abs(X[row]).max():g}): scale the columns"
            )

    def diagonal(self, X: Matrix) -> FloatArray:
        """Return k(x_i, x_i) for each row."""
        m = X.shape[0]
        if self.function in ("rbf", "laplacian"):
            return np.ones(m)
        if callable(self.function):
            pieces = [np.diag(self(X[i : i + 32], X[i : i + 32])) for i in range(0, m, 32)]
            return np.concatenate(pieces) if pieces else np.empty(0)
        squares = squared_norms(X)
        if self.function == "linear":
            return squares
        affine = self.gamma * squares + self.coef0
        return _integer_power(affine, self.degree) if self.function == "poly" else np.tanh(affine)


#: Entries that one thread reads as fast as several can be woken.
_FEW_ENTRIES = 2_000_000


def _total_squares(X: Matrix) -> float:
    """Return the sum of squares of all entries, in one read; infinite where it is too large."""
    entries = X.data if sp.issparse(X) else X
    if not entries.flags.c_contiguous:
        return float("inf")
    flat = entries.reshape(-1)
    # For few entries a BLAS would wake threads, which go on spinning in the way of what follows.
    return float(np.einsum("i,i->", flat, flat) if flat.size < _FEW_ENTRIES else np.dot(flat, flat))


def check_kernel(kernel: Any, gamma: Any, degree: Any, coef0: Any) -> None:
    """Raise a ValueError unless the kernel and its parameters are usable."""
    known = isinstance(kernel, str) and kernel in (*KERNEL_NAMES, "precomputed")
    if not known and not callable(kernel):
        names = ", ".join(repr(name) for name in (*KERNEL_NAMES, "precomputed"))
        raise ValueError(f"kernel must be one of {names}, or a callable; got {kernel!r}")
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise ValueError(f"gamma must be 'scale', 'auto' or a number; got {gamma!r}")
    else:
        check_positive("gamma", gamma)
    check_integer("degree", degree, 0)
    if not isinstance(coef0, Real) or not np.isfinite(float(coef0)):
        raise ValueError(f"coef0 must be a finite number; got {coef0!r}")
