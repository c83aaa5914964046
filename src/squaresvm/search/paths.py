"""Exact leave-one-out values for every C from one decomposition.

With weights w_i and C_i = C w_i, let G = W^1/2 K W^1/2. Then

    inv(K + diag(1/C_i)) = W^1/2 inv(G + I/C) W^1/2                                                      (1)

and G = Q T Q' with T tridiagonal turns each C into O(m^2) work: T + I/C = L D L' with L bidiagonal, so

    diag inv(G + I/C) = column sums of the squares of D^-1/2 L^-1 Q'                                     (2)

is one sweep over the columns of Q, for all C at once. Of an eigendecomposition, which would serve as well,
this is the first third. The border of a free bias is added as in
:class:`~squaresvm.factors.CholeskyFactor`, and y_i - f^(-i)(x_i) = beta_i / N_ii gives the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from squaresvm.factors import Moments
from squaresvm.linalg.blas import product
from squaresvm.linalg.lapack import tridiagonalise_in_place
from squaresvm.runtime.memory import row_blocks
from squaresvm.typing import FloatArray, Matrix

__all__ = ["KernelPath", "LinearPath", "Path"]


class Path(Protocol):
    """Leave-one-out values over C."""

    def leave_one_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C; None where the problem is not convex."""
        ...


class KernelPath:
    """Leave-one-out values of a kernel model over C.

    Parameters
    ----------
    K : ndarray of shape (m, m), Fortran-ordered
        Overwritten.
    targets : ndarray of shape (m, k)
    weights : ndarray of shape (m,)
        All positive.
    free_bias : bool
        Free bias (True) or none.
    """

    def __init__(self, K: FloatArray, targets: FloatArray, weights: FloatArray, *, free_bias: bool) -> None:
        self._targets = targets
        self._root = np.sqrt(weights)
        self._free_bias = free_bias
        if not np.all(weights == 1.0):
            K *= self._root
            K *= self._root[:, None]
        self._diagonal, self._beside = tridiagonalise_in_place(K)
        self._Q = K
        columns = [np.ones((targets.shape[0], 1)), targets] if free_bias else [targets]
        self._right = product(K.T, np.asfortranarray(self._root[:, None] * np.hstack(columns)))

    def leave_one_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C; None where K + diag(1/C) is not positive definite."""
        shifts = 1.0 / np.asarray(Cs, dtype=np.float64)
        pivots = self._pivots(shifts)
        usable = np.flatnonzero((pivots > 0).all(axis=1))
        diagonals = self._diag_inverse(pivots[usable])
        places = dict(zip(usable.tolist(), range(usable.size), strict=True))
        for index, shift in enumerate(shifts.tolist()):
            place = places.get(index)
            yield None if place is None else self._values(shift, diagonals[place])

    def _pivots(self, shifts: FloatArray) -> FloatArray:
        """Return D of T + shift I = L D L', a row for each shift."""
        m = self._diagonal.size
        pivots = np.empty((shifts.size, m))
        squares = self._beside**2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            pivots[:, 0] = self._diagonal[0] + shifts
            for k in range(1, m):
                pivots[:, k] = self._diagonal[k] + shifts - squares[k - 1] / pivots[:, k - 1]
        return np.nan_to_num(pivots, nan=-1.0)

    def _diag_inverse(self, pivots: FloatArray) -> FloatArray:
        """Return the diagonal of inv(G + shift I), a row for each row of pivots: equation (2)."""
        m = self._diagonal.size
        total = np.zeros((pivots.shape[0], m))
        if total.size == 0:
            return total
        multipliers = self._beside / pivots[:, :-1]
        inverse = 1.0 / pivots
        row, square = np.zeros_like(total), np.empty_like(total)
        for k in range(m):
            if k:
                row *= -multipliers[:, [k - 1]]
            row += self._Q[:, k]
            np.multiply(row, row, out=square)
            square *= inverse[:, [k]]
            total += square
        return total

    def _values(self, shift: float, diagonal: FloatArray) -> FloatArray:
        inner = scipy.linalg.solveh_banded(self._band(shift), self._right, lower=True, check_finite=False)
        solved = self._root[:, None] * product(self._Q, np.asfortranarray(inner))
        pivot = self._root**2 * diagonal
        if not self._free_bias:
            return np.asarray(self._targets - solved / pivot[:, None])
        u = solved[:, [0]]
        schur = u.sum()
        bias = solved[:, 1:].sum(axis=0) / schur
        pivot -= u[:, 0] ** 2 / schur
        return np.asarray(self._targets - (solved[:, 1:] - u * bias) / pivot[:, None])

    def _band(self, shift: float) -> FloatArray:
        band = np.zeros((2, self._diagonal.size))
        band[0] = self._diagonal + shift
        band[1, :-1] = self._beside
        return band


class LinearPath:
    """Leave-one-out values of a linear model over C, by the eigenvectors of its scatter.

    With rows z_i around their mean, scatter sum_i w_i z_i z_i' = V diag(s) V' and p_i = V'z_i, the leverage
    of a row is h_i = w_i (1 / sum w + sum_j p_ij^2 / (s_j + 1/C)), and

        y_i - f^(-i)(x_i) = (y_i - f_i) / (1 - h_i)                                                      (3)

    Parameters
    ----------
    Z : array or CSR matrix of shape (m, n)
    targets : ndarray of shape (m, k)
    weights : ndarray of shape (m,)
        All positive.
    free_bias : bool
        Free bias (True) or none.
    """

    def __init__(self, Z: Matrix, targets: FloatArray, weights: FloatArray, *, free_bias: bool) -> None:
        moments = Moments.of(Z, weights, targets)
        centre = moments.mean if free_bias else np.zeros_like(moments.mean)
        self._offset = moments.target if free_bias else np.zeros_like(moments.target)
        self._own = weights / moments.total if free_bias else np.zeros_like(weights)
        scatter, response = moments.scatter, moments.response
        if not free_bias:
            scatter = scatter + moments.total * np.outer(moments.mean, moments.mean)
            response = response + moments.total * np.outer(moments.mean, moments.target)
        spread, V = np.linalg.eigh(scatter)
        self._spread = np.maximum(spread, 0.0)
        self._response = V.T @ response
        self._targets, self._weights = targets, weights
        self._P = np.empty(Z.shape)
        for part in row_blocks(*Z.shape):
            block = Z[part]
            self._P[part] = (block.toarray() if sp.issparse(block) else block - 0.0) @ V
        self._P -= centre @ V

    def leave_one_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C."""
        for C in Cs:
            shrink = 1.0 / (self._spread + 1.0 / C)
            leverage = self._own + self._weights * self._squares(shrink)
            fitted = self._offset + self._P @ (shrink[:, None] * self._response)
            yield self._targets - (self._targets - fitted) / (1.0 - leverage)[:, None]

    def _squares(self, shrink: FloatArray) -> FloatArray:
        out = np.empty(self._P.shape[0])
        for part in row_blocks(*self._P.shape):
            out[part] = self._P[part] ** 2 @ shrink
        return out
