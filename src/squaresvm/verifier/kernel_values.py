"""Kernel values from their definitions, tile by tile, with the size that rounding in float64 is measured by.

======================  ===========================  =====================================================
name                    k(x, z)                      size of what float64 rounds on the way
======================  ===========================  =====================================================
``linear``              x'z                          |x| |z|
``rbf``                 exp(-gamma |x - z|^2)        k (1 + gamma (|x - c|^2 + |z - c|^2)), c the mean row
``laplacian``           exp(-gamma |x - z|_1)        k (1 + gamma |x - z|_1)
``poly``                (gamma x'z + coef0)^degree   degree (gamma |x| |z| + |coef0|)^degree
``sigmoid``             tanh(gamma x'z + coef0)      1 + gamma |x| |z| + |coef0|
precomputed, callable   as given                     sqrt(k(x, x) k(z, z)), or |k| where that is larger
======================  ===========================  =====================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.typing import FloatArray, Matrix
from squaresvm.verifier.wide import Wide, exponential, product, row_squares

__all__ = ["KernelValues", "Products"]

#: Rows and columns of a tile at most: what is computed of it stays in the processor's cache.
_LARGEST_TILE = 256
#: Arrays of the size of a tile that are there at one time, about.
_ARRAYS = 40
#: Numbers that a row of features takes in slices, about, on both sides of a tile.
_SLICES = 16


@dataclass(frozen=True, eq=False)
class Products:
    """K times some vectors, what float64 may have lost of it, and the diagonal of K.

    Parameters
    ----------
    values : Wide of shape (m, q)
    sizes : ndarray of shape (m, q)
        sum_j e_ij |v_j|, with e the sizes of the table above.
    """

    values: Wide
    sizes: FloatArray


@dataclass(frozen=True, eq=False)
class KernelValues:
    """The kernel matrix of some rows, never held.

    Parameters
    ----------
    name : str
        As in the table above.
    X : array or CSR matrix of shape (m, n)
    gamma, degree, coef0 : numbers
    given : callable or None
        ``given(these, those)`` returns k between two ranges of rows, where it is not computed here.
    max_memory : float
        Bytes that one tile may take.
    """

    name: str
    X: Matrix
    gamma: float
    degree: int
    coef0: float
    given: Callable[[Any, Any], FloatArray] | None
    max_memory: float

    @property
    def is_semidefinite(self) -> bool | None:
        """Whether the kernel is known to be positive semidefinite; None: that is up to who gave it."""
        if self.given is not None:
            return None
        return self.name != "sigmoid" and (self.name != "poly" or self.coef0 >= 0.0)

    @cached_property
    def _squares(self) -> Wide:
        return row_squares(self.X)

    @cached_property
    def _norms(self) -> FloatArray:
        """|x|, or |x - c| for distances."""
        if self.name != "rbf":
            return np.sqrt(self._squares.hi)
        centre = np.asarray(self.X.mean(axis=0), dtype=np.float64).ravel()
        away = self._squares.hi - 2.0 * np.asarray(self.X @ centre, dtype=np.float64) + centre @ centre
        return np.sqrt(np.maximum(away, 0.0))

    @cached_property
    def diagonal(self) -> Wide:
        """k(x, x) of every row."""
        m = self.X.shape[0]
        if self.name in ("rbf", "laplacian"):
            return Wide.of(np.ones(m))
        if self.given is not None:
            parts = [np.diagonal(self.given(these, these)) for these in _ranges(m, 32)]
            return Wide.of(np.concatenate(parts).astype(np.float64))
        return self._of_inner(self._squares)

    def _of_inner(self, inner: Wide) -> Wide:
        """Return the kernel of an inner product."""
        if self.name == "linear":
            return inner
        affine = inner * self.gamma + self.coef0
        if self.name == "sigmoid":
            return _tanh(affine)
        found = Wide.of(np.ones_like(affine.hi))
        for _ in range(self.degree):
            found = found * affine
        return found

    def _tile(self, these: slice, those: slice) -> tuple[Wide, FloatArray]:
        """Return k between two ranges of rows, and the sizes of what rounding works on."""
        if self.given is not None:
            K = Wide.of(np.array(self.given(these, those), dtype=np.float64))
            own = np.sqrt(np.abs(self.diagonal.hi))
            return K, np.maximum(np.abs(K.hi), np.outer(own[these], own[those]))
        if self.name == "laplacian":
            apart = _manhattan(self.X[these], self.X[those]) * self.gamma
            K = exponential(-apart)
            return K, K.hi * (1.0 + apart.hi)
        inner = product(self.X[these], self.X[those])
        norms = self._norms[these][:, None], self._norms[those][None, :]
        if self.name == "rbf":
            ends = self._squares[these], self._squares[those]
            apart = (Wide(ends[0].hi[:, None], ends[0].lo[:, None]) + ends[1]) - inner * 2.0
            K = exponential(-apart.where(apart.hi > 0.0) * self.gamma)
            return K, K.hi * (1.0 + self.gamma * (norms[0] ** 2 + norms[1] ** 2))
        most = norms[0] * norms[1]
        if self.name == "poly":
            return self._of_inner(inner), max(1, self.degree) * (
                self.gamma * most + abs(self.coef0)
            ) ** self.degree
        if self.name == "sigmoid":
            return self._of_inner(inner), 1.0 + self.gamma * most + abs(self.coef0)
        return inner, most

    def times(self, V: FloatArray | Wide, magnitude: FloatArray | None = None) -> Products:
        """Return K V: every tile above the diagonal is computed once, and used for both of its sides.

        `magnitude` takes the place of |V| where V is a result with a rounding of its own.
        """
        V = Wide.of(V)
        m, q = V.hi.shape
        values, sizes = Wide.of(np.zeros((m, q))), np.zeros((m, q))
        magnitude = np.abs(V.hi) if magnitude is None else magnitude
        for these in _ranges(m, self._rows_a_tile):
            for those in _ranges(m, self._rows_a_tile):
                if those.start < these.start:
                    continue
                K, size = self._tile(these, those)
                self._add(values, these, K, V[those])
                sizes[these] += size @ magnitude[those]
                if those.start > these.start:
                    self._add(values, those, Wide(K.hi.T, K.lo.T), V[these])
                    sizes[those] += size.T @ magnitude[these]
        return Products(values, sizes)

    @staticmethod
    def _add(values: Wide, rows: slice, K: Wide, V: Wide) -> None:
        across = Wide(V.hi.T, V.lo.T)
        more = values[rows] + (product(K.hi, across) + K.lo @ V.hi)
        values.hi[rows], values.lo[rows] = more.hi, more.lo

    @property
    def _rows_a_tile(self) -> int:
        columns = 0 if self.given is not None else int(self.X.shape[1])
        by_entries = np.sqrt(self.max_memory / (8 * 2 * _ARRAYS))
        by_rows = self.max_memory / (8 * 4 * _SLICES * max(1, columns))
        return int(max(1, min(_LARGEST_TILE, by_entries, by_rows)))


def _ranges(m: int, rows: int) -> Iterator[slice]:
    for start in range(0, m, rows):
        yield slice(start, min(start + rows, m))


def _manhattan(X: Matrix, Z: Matrix) -> Wide:
    """Return |x - z|_1 of all pairs, column by column: no difference is rounded."""
    X, Z = (np.asarray(A.toarray() if sp.issparse(A) else A, dtype=np.float64) for A in (X, Z))
    found = Wide.of(np.zeros((X.shape[0], Z.shape[0])))
    for j in np.flatnonzero(X.any(axis=0) | Z.any(axis=0)):
        found = found + (Wide.of(X[:, j][:, None]) - Z[:, j][None, :]).size
    return found


def _tanh(z: Wide) -> Wide:
    """Return tanh(z) = 1 - 2 / (exp(2 z) + 1), which is +-1 to all digits beyond 40."""
    near = Wide(np.clip(z.hi, -40.0, 40.0), np.where(np.abs(z.hi) < 40.0, z.lo, 0.0))
    return 1.0 - Wide.of(np.full_like(z.hi, 2.0)) / (exponential(near * 2.0) + 1.0)
