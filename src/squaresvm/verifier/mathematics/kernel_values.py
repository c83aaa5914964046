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

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from squaresvm.typing import FloatArray, Matrix
from squaresvm.verifier.mathematics.subject import Rows, Subject
from squaresvm.verifier.mathematics.wide import Wide, exponential, product, row_squares

__all__ = ["KernelValues"]

#: Rows and columns of a tile at most: what is computed of it stays in the processor's cache.
_LARGEST_TILE = 256
#: Arrays of the size of a tile that are there at one time, and numbers that a row takes in slices, about.
_ARRAYS, _SLICES = 40, 16


@dataclass(frozen=True, eq=False)
class KernelValues:
    """The kernel matrix of the rows of a model, never held: a tile takes `max_memory` bytes at most."""

    of: Subject
    max_memory: float

    @property
    def is_semidefinite(self) -> bool | None:
        """Whether the kernel is known to be positive semidefinite; None: that is up to who gave it."""
        if self.of.given is not None:
            return None
        return self.of.kernel != "sigmoid" and (self.of.kernel != "poly" or self.of.coef0 >= 0.0)

    @property
    def rows(self) -> Rows:
        """The rows."""
        assert self.of.rows is not None
        return self.of.rows

    @property
    def _X(self) -> Matrix:
        return self.rows.Z

    @cached_property
    def _squares(self) -> Wide:
        return row_squares(self._X)

    @cached_property
    def _norms(self) -> FloatArray:
        """|x|, or |x - c| for distances."""
        if self.of.kernel != "rbf":
            return np.sqrt(self._squares.hi)
        centre = np.asarray(self._X.mean(axis=0), dtype=np.float64).ravel()
        away = self._squares.hi - 2.0 * np.asarray(self._X @ centre, dtype=np.float64) + centre @ centre
        return np.sqrt(np.maximum(away, 0.0))

    @cached_property
    def diagonal(self) -> Wide:
        """k(x, x) of every row."""
        m = self._X.shape[0]
        if self.of.given is not None:
            parts = [np.diagonal(self.of.given(these, these)) for these in _ranges(m, 32)]
            return Wide.of(np.concatenate(parts).astype(np.float64))
        return Wide.of(np.ones(m)) if self.of.kernel in ("rbf", "laplacian") else self._of(self._squares)

    def _of(self, inner: Wide) -> Wide:
        """Return the kernel of an inner product."""
        if self.of.kernel == "linear":
            return inner
        affine = inner * self.of.gamma + self.of.coef0
        if self.of.kernel == "sigmoid":
            return _tanh(affine)
        found = Wide.of(np.ones_like(affine.hi))
        for _ in range(self.of.degree):
            found = found * affine
        return found

    def _tile(self, these: slice, those: slice) -> tuple[Wide, FloatArray]:
        """Return k between two ranges of rows, and the sizes of what rounding works on."""
        name, gamma, coef0 = self.of.kernel, self.of.gamma, abs(self.of.coef0)
        if self.of.given is not None:
            K = Wide.of(np.array(self.of.given(these, those), dtype=np.float64))
            own = np.sqrt(np.abs(self.diagonal.hi))
            return K, np.maximum(np.abs(K.hi), np.outer(own[these], own[those]))
        if name == "laplacian":
            apart = _manhattan(self._X[these], self._X[those]) * gamma
            K = exponential(-apart)
            return K, K.hi * (1.0 + apart.hi)
        inner = product(self._X[these], self._X[those])
        left, right = self._norms[these][:, None], self._norms[those][None, :]
        if name == "rbf":
            apart = self._squares[these][:, None] + self._squares[those] - inner * 2.0
            K = exponential(-apart.where(apart.hi > 0.0) * gamma)
            return K, K.hi * (1.0 + gamma * (left**2 + right**2))
        most = left * right
        if name == "poly":
            return self._of(inner), max(1, self.of.degree) * (gamma * most + coef0) ** self.of.degree
        return self._of(inner), most if name == "linear" else 1.0 + gamma * most + coef0

    def times(self, V: FloatArray | Wide, magnitude: FloatArray | None = None) -> tuple[Wide, FloatArray]:
        """Return K V, and sum_j e_ij |v_j| with e the sizes of the table above.

        Every tile above the diagonal is computed once, and used for both of its sides. `magnitude` takes the
        place of |V| where V is a result with a rounding of its own.
        """
        V = Wide.of(V)
        values, sizes = Wide.of(np.zeros(V.hi.shape)), np.zeros(V.hi.shape)
        magnitude = np.abs(V.hi) if magnitude is None else magnitude
        ranges = list(_ranges(V.hi.shape[0], self._rows_a_tile))
        for place, these in enumerate(ranges):
            for those in ranges[place:]:
                K, size = self._tile(these, those)
                sides = [(these, those, K, size), (those, these, K.T, size.T)]
                for rows, columns, part, own in sides[: 1 + (these is not those)]:
                    more = values[rows] + (product(part.hi, V[columns].T) + part.lo @ V.hi[columns])
                    values.hi[rows], values.lo[rows] = more.hi, more.lo
                    sizes[rows] += own @ magnitude[columns]
        return values, sizes

    @property
    def _rows_a_tile(self) -> int:
        columns = 0 if self.of.given is not None else int(self._X.shape[1])
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
