"""RLSSVM of Peng, Rafferty and Ferguson as published: S -> S(e(S)), and the factor that is carried along.

``ActiveSet(plain=True, reuse="switches")`` is this file and nothing else; by default `active_set` has a line
search, without which the iteration can go round, and factors by LAPACK where many rows change. Equation
numbers are those of the paper; theta_i is y_i beta_i. The factor of a set, 5.1 and 5.2, comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from squaresvm.linalg.blas import multiply_add, solve_triangular_in_place
from squaresvm.linalg.lapack import NotPositiveDefiniteError, NotPositiveSemidefiniteError, cholesky_in_place
from squaresvm.problem import Problem
from squaresvm.runtime.resources import compiled
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.base import Monitor, tell
from squaresvm.solvers.equalities import SetSystem, bias_of_no_rows, changes, factoring
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = ["LDLFactor", "SwitchedSystem", "plain_active_sets", "stratified"]


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
        out = np.array(rhs, order="F")  # A = L D L', (60).
        L = self._L[: self.size, : self.size]
        solve_triangular_in_place(L, out)  # (62)
        out /= self._D[: self.size, None]
        solve_triangular_in_place(L, out, transpose=True)
        return out

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


def plain_active_sets(
    problem: Problem,
    system: SetSystem,
    first: BoolArray,
    cap: int | None,
    limit: int,
    monitor: Monitor,
) -> Solution:
    """Return where the paper's iteration S -> S(e(S)) comes to rest, or where it was when a set came back.

    No more than `cap` rows, n_SVmax, are taken, in decreasing order of their errors. Its `note` says so where
    the sets go round: then it is no optimum, and the certificate tells how far.
    """
    y, ridge = problem.targets[:, 0], problem.ridge
    active, seen, b = first, set[bytes](), 0.0  # Step 1: s_i = 1, or n_SVmax of them.
    beta, note, outcome, iteration = np.zeros(y.size), "", Outcome.MAX_ITER, 0
    while iteration < limit and not monitor.stopped:
        iteration += 1
        seen.add(active.tobytes())
        beta, b = system.solve(active, b)  # Steps 2 and 3: (48).
        f = problem.operator.matmul(beta[:, None])[:, 0] + b  # (49)
        errors = 1.0 - y * f  # (57), below: e_0.
        errors[active] = (y * ridge * beta)[active]  # (57), above: e_S = theta / C, (53).
        now = _chosen(errors, cap)  # Step 4: (10).
        tell(problem, beta, b, f + ridge * beta - y, iteration, monitor)
        if np.array_equal(now, active):  # Step 5.
            outcome = Outcome.FINISHED
            break
        if now.tobytes() in seen:
            note = f"S -> S(e(S)) goes round: the set of iteration {iteration + 1} has been there before"
            break
        active = now
    if monitor.stopped:
        outcome = Outcome.STOPPED
    bias = np.array([b])
    return Solution(beta=beta[:, None], bias=bias, n_iter=max(iteration, 1), outcome=outcome, note=note)


def _chosen(errors: FloatArray, cap: int | None) -> BoolArray:
    """Return the rows whose indicator is one: those with an error, the largest where they are too many."""
    wanted = errors > 0.0  # (10)
    if cap is not None and int(wanted.sum()) > cap:
        kept = np.argsort(-errors, kind="stable")[:cap]
        wanted = np.zeros(errors.size, dtype=bool)
        wanted[kept] = True
    return wanted


def stratified(y: FloatArray, count: int) -> BoolArray:
    """Return `count` rows or so, the same share of each class, evenly spread over the rows."""
    chosen = np.zeros(y.size, dtype=bool)
    for side in (y > 0, y <= 0):
        members = np.flatnonzero(side)
        take = min(members.size, max(1, round(count * members.size / y.size)))
        if members.size:
            chosen[members[np.linspace(0, members.size - 1, take).round().astype(np.intp)]] = True
    return chosen


class SwitchedSystem:
    """(48) by (58)-(64): the factor of the last set is always reused, whatever rows come and go.

    Parameters
    ----------
    problem : Problem
        With one column of targets.

    Attributes
    ----------
    is_updated : bool
        Whether the factor was updated since it was made, and so may have lost precision.
    anew : float
        Operations that it would have taken to factor each set anew.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.is_updated = False
        self.anew = 0.0
        self._factor = LDLFactor()
        self._rows: IntArray = np.empty(0, dtype=np.intp)
        self._last = np.zeros(problem.n_rows), 0.0

    @property
    def work(self) -> dict[str, float]:
        """Operations spent on factors, and those that factoring each set anew would have taken."""
        return {"factor": self._factor.work, "refactoring": self.anew}

    def solve(self, active: BoolArray, bias: float) -> tuple[FloatArray, float]:
        """Return beta over all rows, and b, with the active rows as equalities and the others left out."""
        if not active.any():
            return np.zeros(self.problem.n_rows), bias_of_no_rows(self.problem, bias)
        if self._rows.size == 0:
            return self.rebuild(active)
        leave, come = changes(self._rows, active)
        if leave.size:
            self._rows = self._rows[self._factor.remove(leave)]  # (64)
        self._append(come)
        self.is_updated = True
        return self._solved()

    def rebuild(self, active: BoolArray) -> tuple[FloatArray, float]:
        """Factor anew; return beta over all rows, and b."""
        self._rows = np.empty(0, dtype=np.intp)
        self._factor.size = 0
        self._append(np.flatnonzero(active))
        self.is_updated = False
        return self._solved()

    def _append(self, rows: IntArray) -> None:
        if rows.size:
            operator = self.problem.operator
            corner = operator.block(rows, rows) + np.diag(self.problem.ridge[rows])
            self._factor.append(operator.block(self._rows, rows), corner)  # (61)
            self._rows = np.concatenate([self._rows, rows])
        self.anew += factoring(self._rows.size)

    def improve(self, active: BoolArray) -> tuple[FloatArray, float]:
        """Return beta and b more precisely: by a new factor after updates, else by refinement."""
        if self.is_updated:
            return self.rebuild(active)
        problem, rows = self.problem, self._rows
        beta, b = self._last
        product = problem.operator.matmul(beta[:, None])[rows, 0] + problem.ridge[rows] * beta[rows]
        pull = 0.0 if problem.bias.is_absent else problem.bias.penalty * b
        step, shift = self._bordered(problem.targets[rows, 0] - product - b, pull - float(beta.sum()))
        return self._kept(beta[rows] + step, b + shift)

    def _solved(self) -> tuple[FloatArray, float]:
        return self._kept(*self._bordered(self.problem.targets[self._rows, 0], 0.0))

    def _kept(self, beta: FloatArray, b: float) -> tuple[FloatArray, float]:
        everywhere = np.zeros(self.problem.n_rows)
        everywhere[self._rows] = beta
        self._last = everywhere, b
        return self._last

    def _bordered(self, rhs: FloatArray, border: float) -> tuple[FloatArray, float]:
        """Return beta and b of the set; the border is what 1'beta - A b shall be, 0 in the paper."""
        bias = self.problem.bias
        u, v = self._factor.solve(np.column_stack([np.ones(rhs.size), rhs])).T  # (58), by (62).
        if bias.is_absent:
            return v, 0.0  # (50)
        b = float((v.sum() - border) / (bias.penalty + u.sum()))  # (59), where A = 0.
        return v - b * u, b  # (59): Y theta.
