"""L D L' of K + diag(1/C) over an ordered set of rows, reused from set to set: RLSSVM paper, 5.1 and 5.2."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from squaresvm.linalg.blas import multiply_add, solve_triangular_in_place
from squaresvm.linalg.lapack import NotPositiveDefiniteError, NotPositiveSemidefiniteError, cholesky_in_place
from squaresvm.runtime.jit import compiled
from squaresvm.typing import FloatArray, IntArray

__all__ = ["LDLFactor"]


class LDLFactor:
    """A = L D L', equation (60), of a set of rows that come at the end and leave from anywhere.

    A row that leaves is switched with the next one, (64), until it stands at the end, and is cut off there.
    Rows that come are appended by (61), many at once. L has its unit diagonal stored.

    Attributes
    ----------
    size : int
        Number of rows.
    work : float
        Floating-point operations so far, switches counted as the paper does.
    """

    def __init__(self) -> None:
        self.size = 0
        self.work = 0.0
        self._L = np.empty((0, 0), order="F")
        self._D = np.empty(0)

    def factorise(self, A: FloatArray) -> None:
        """Factor A anew."""
        self.size = 0
        self.append(np.empty((0, A.shape[0])), A)

    def append(self, cross: FloatArray, corner: FloatArray) -> None:
        """Append rows by (61).

        Parameters
        ----------
        cross : ndarray of shape (size, q)
            A between the rows held and the new ones.
        corner : ndarray of shape (q, q)
            A of the new rows, its diagonal with 1/C.
        """
        n, q = cross.shape
        self._reserve(n + q)
        rows = np.array(cross, order="F")
        solve_triangular_in_place(self._L[:n, :n], rows)  # (61), below, times D_j.
        below = np.array(corner, order="F")
        scaled = rows / self._D[:n, None]
        # (61): the sums over the rows held; then those over the new ones, D and L of which LAPACK finds.
        multiply_add(below, np.asfortranarray(rows.T), np.asfortranarray(scaled), alpha=-1.0)
        try:
            cholesky_in_place(below)
        except NotPositiveDefiniteError as error:
            raise NotPositiveSemidefiniteError(n + error.row) from error
        roots = np.diagonal(below).copy()
        self._L[n : n + q, :n] = scaled.T
        self._L[n : n + q, n : n + q] = np.tril(below) / roots
        self._D[n : n + q] = roots**2  # (61), above.
        self.size = n + q
        self.work += float(q) * n**2 + float(q) ** 2 * n + float(q) ** 3 / 3.0

    def remove(self, positions: IntArray) -> IntArray:
        """Switch rows out; return where each row that is left stood before, in the new order."""
        order = np.arange(self.size)
        last = np.sort(positions)[::-1].astype(np.intp)
        self.work += float(_switches()(self._L, self._D, order, last, self.size))
        self.size -= positions.size
        return order[: self.size]

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return inv(A) rhs by forward and backward substitution, (62)."""
        out = np.array(rhs, order="F")
        L = self._L[: self.size, : self.size]
        solve_triangular_in_place(L, out)  # (62)
        out /= self._D[: self.size, None]
        solve_triangular_in_place(L, out, transpose=True)
        return out

    def matrix(self) -> FloatArray:
        """Return L D L', to check it against what was factored."""
        L = np.tril(self._L[: self.size, : self.size])
        return np.asarray((L * self._D[: self.size]) @ L.T)  # (60)

    def _reserve(self, size: int) -> None:
        if size <= self._D.size:
            return
        capacity = size + size // 8 + 8
        L, D = np.empty((capacity, capacity), order="F"), np.empty(capacity)
        L[: self.size, : self.size] = self._L[: self.size, : self.size]
        D[: self.size] = self._D[: self.size]
        self._L, self._D = L, D


@cache
def _switches() -> Callable[[FloatArray, FloatArray, IntArray, IntArray, int], float]:
    """Return `_switch_out`, compiled when a factor is first switched: importing Numba takes half a second."""
    return compiled()(_switch_out)


def _switch_out(L: FloatArray, D: FloatArray, order: IntArray, positions: IntArray, size: int) -> float:
    """Move the rows at `positions`, largest first, behind the last by switches (64); return their cost.

    A switch exchanges rows p and q = p + 1 of A, (63), and brings L and D up to date.
    """
    work = 0.0
    end = size - 1
    for start in positions:
        for p in range(start, end):
            q = p + 1
            below, upper, lower = L[q, p], D[p], D[q]
            mu = upper * below  # (64), last line; its other mu is first * between.
            first = lower + mu * below  # (64), line 1: D_p.
            between = mu / first  # (64), line 2: L_qp.
            second = upper - first * between * between  # (64), line 3: D_q.
            if second <= 0.0:  # upper lower / first in exact arithmetic, and never negative.
                second = upper * lower / first
            for j in range(p):
                L[p, j], L[q, j] = L[q, j], L[p, j]  # (64), line 4.
            left, right = L[:size, p], L[:size, q]
            share, inverse = lower / first, upper / second
            for i in range(q + 1, size):
                old = left[i]
                new = share * right[i] + between * old  # (64), line 5: L_ip.
                left[i] = new
                right[i] = inverse * old - mu / second * new  # (64), line 6: L_iq.
            L[q, p] = between
            D[p], D[q] = first, second
            order[p], order[q] = order[q], order[p]  # (63)
            work += 8.0 * (size - q)  # As in 5.3, where rows are counted from 1.
        end -= 1
    return work
