"""2SMO and SesquiSMO on linear kernels: single updates that carry w, shuffled, for either loss and any bias.

With w = sum_i beta_i x_i at hand, the gradient of one row costs its own entries, and so does the update of w.
No entry of K is computed, and none of Z'Z. It is what LIBLINEAR does for the squared hinge (Hsieh et al.
2008): rows in a new order of chance each sweep, rows at their bound put aside.

The bias is a column of the rows, 1/sqrt(A), where A is of the size of 1/K_ii or larger. Where it is smaller,
or the bias free, 1/A would hold the steps back. There the updates are those of a larger A', around a centre c
that moves after each sweep:

    A' (b - c) = 1'beta,    c = b (1 - A / A')

whose fixed point has A b = 1'beta (for A = 0 it is the method of multipliers). Equation numbers are those of
the relaxed paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from squaresvm.linalg.blas import times
from squaresvm.problem import Loss, Problem
from squaresvm.problem.products import is_wide
from squaresvm.solution import Solution
from squaresvm.solvers.base import Crawling, Monitor, by_column, ended, origin, tell
from squaresvm.solvers.newton import Newton
from squaresvm.typing import FloatArray, Matrix

__all__ = ["RowDescent", "solve_by_rows"]

#: Steps go beyond the minimum by up to this share, the more so the less of the diagonal is ridge.
_BEYOND = 0.4
#: Tolerance below which the rounding of the updates of w matters: there w is computed anew.
_FINE = 1e-9
#: Penalty of the updates times K_ii where the bias has a centre: the larger, the less a step is held back.
_LOOSE = 4.0
#: Share of the costs that the penalty of the updates is at most, so that the centre moves fast.
_SHARE_OF_COSTS = 0.1
#: Sweeps over which the residual must fall to a tenth, else Newton's method goes on: where its Hessian is
#: formed, and where its steps take products by the hundred.
_PATIENCE, _LONG_PATIENCE = 30, 400


def _as_rows(Z: Matrix) -> tuple[Any, Any, Any]:
    """Return values, column numbers and where rows begin, of dense or CSR rows."""
    if isinstance(Z, np.ndarray):
        flat = np.ascontiguousarray(Z).reshape(-1)
        return flat, np.empty(0, dtype=np.uint32), np.arange(Z.shape[0] + 1, dtype=np.uint64) * Z.shape[1]
    unsigned = np.uint32 if Z.indices.dtype == np.int32 else np.uint64
    return Z.data, Z.indices.view(unsigned), Z.indptr.astype(np.uint64)


class RowDescent:
    """Updates of one column of targets.

    Parameters
    ----------
    problem : Problem
        Linear, with one column of targets.
    norms : ndarray of shape (m,)
        Diagonal of K.
    start : Solution
        In multipliers.
    """

    def __init__(self, problem: Problem, norms: FloatArray, start: Solution) -> None:
        assert problem.operator.features is not None
        assert start.beta is not None
        self.problem = problem
        self._Z = problem.operator.features
        self._rows = _as_rows(self._Z)
        self.y = np.ascontiguousarray(problem.targets[:, 0])
        self.bounded = problem.loss == Loss.SQUARED_HINGE
        beta = start.beta[:, 0].copy()
        self.beta = np.where(self.y * beta > 0, beta, 0.0) if self.bounded else beta
        self._ridge = np.ascontiguousarray(problem.ridge)
        self._A = self._penalty_of_updates(norms)
        self._inverse_A = 1.0 / self._A
        self._h = norms + self._ridge + self._inverse_A  # The denominator of (31).
        self._length = 1.0 + _BEYOND * float(np.mean(1.0 - self._ridge / self._h)) ** 2
        self._true_h = self._h
        if problem.bias.is_free:
            self._true_h = norms + self._ridge
        elif problem.bias.penalty < self._A:
            self._true_h = norms + self._ridge + 1.0 / problem.bias.penalty
        self.sweeps, self.crawls = 0, False
        self._active, self._shrinks_at, self._seed = self.y.size, np.inf, 1
        self._order = np.arange(self.y.size)
        self._centre = 0.0
        self._refresh()
        if self.beta.any() and self._is_centred:
            self._centre = float(start.bias[0]) * (1.0 - problem.bias.penalty / self._A)
            self.b = self._centre + self._inverse_A * float(self.beta.sum())

    def _penalty_of_updates(self, norms: FloatArray) -> float:
        """Return A, or A' where that is larger."""
        A, mean = self.problem.bias.penalty, float(norms.mean())
        fast = _SHARE_OF_COSTS * float(self.problem.costs.sum())
        return max(A, min(_LOOSE / mean if mean > 0.0 else fast, fast))

    @property
    def _is_centred(self) -> bool:
        """Whether the bias has a centre that moves."""
        return self.problem.bias.penalty < self._A

    def _refresh(self) -> None:
        """Compute w and b from the multipliers."""
        self.w = times(self._Z.T, self.beta[:, None])[:, 0] if self.beta.any() else np.zeros(self._Z.shape[1])
        self.w = np.ascontiguousarray(self.w)  # (15)
        self.b = self._centre + self._inverse_A * float(self.beta.sum())  # (16), around the centre.

    @property
    def gradient(self) -> FloatArray:
        """Return r of all rows, by the w that was carried."""
        along = times(self._Z, self.w[:, None])[:, 0]
        return np.asarray(along + self.b + self._ridge * self.beta - self.y)  # (18)

    def violation(self) -> float:
        """Return the largest violation of the rows and of A b = 1'beta, as the certificate measures them."""
        gradient = self.gradient
        if self.bounded:
            found = np.abs(np.minimum(self._true_h * self.y * self.beta, self.y * gradient))  # (34), (35).
        else:
            found = np.abs(gradient) / self._scale  # (18)
        return max(float(found.max()), self._imbalance)

    @property
    def _scale(self) -> float:
        """What violations of rows are measured by."""
        return 1.0 if self.bounded else float(np.abs(self.y).max()) or 1.0

    @property
    def _imbalance(self) -> float:
        if not self._is_centred:
            return 0.0
        pull = self.problem.bias.penalty * self.b
        size = abs(pull) + float(np.abs(self.beta).sum())
        return abs(pull - float(self.beta.sum())) / size if size > 0.0 else 0.0

    def sweep(self) -> float:
        """Update each active multiplier once; return the largest violation that was found on the way."""
        from squaresvm.solvers._loops import row_updates

        worst, self._active, self.b, self._seed = row_updates(
            *self._rows,
            self.y,
            self._h,
            self._ridge,
            self._inverse_A,
            self._length,
            self.bounded,
            self.beta,
            self.w,
            self.b,
            self._order,
            self._active,
            self._shrinks_at,
            self._seed,
        )
        self.sweeps += 1
        self._shrinks_at = worst
        if self._is_centred:
            total = self._inverse_A * float(self.beta.sum())
            self._centre = (self._centre + total) * (1.0 - self.problem.bias.penalty / self._A)  # c
            self.b = self._centre + total
        return worst / self._scale

    def run(self, tol: float, limit: int, watch: Callable[[], bool]) -> bool:
        """Update until nothing violates by more than `tol`; return whether that was reached."""
        crawling = Crawling(_LONG_PATIENCE if is_wide(self._Z.shape[1]) else _PATIENCE)
        while self.sweeps < limit:
            worst = self.sweep()
            if worst <= tol:
                self._active, self._shrinks_at = self.y.size, np.inf
                if tol < _FINE:
                    self._refresh()
                if self.violation() <= tol:
                    return True
            if watch():
                return False
            if crawling.after(worst):
                self.crawls = True
                return False
        return self.violation() <= tol


def solve_by_rows(
    problem: Problem, tol: float, limit: int, monitor: Monitor, start: Solution | None
) -> Solution:
    """Return the solution of all columns of targets of a linear problem, each on a thread of its own.

    Parameters
    ----------
    problem : Problem
    tol : float
    limit : int
        Sweeps at most, of each column.
    monitor : Monitor
    start : Solution, optional

    Returns
    -------
    Solution
        In multipliers; in w where the updates crawled, and Newton's method went on from where they had come.
    """
    norms = problem.operator.diagonal()
    crawled: list[bool] = []

    def solve(column: Problem, first: Solution | None) -> Solution:
        search = RowDescent(column, norms, origin(column) if first is None else first)

        def watch() -> bool:
            if not monitor.listens:
                return False  # The gradient of all rows costs what a sweep does.
            return tell(column, search.beta, search.b, search.gradient, search.sweeps, monitor)

        reached = not monitor.stopped and search.run(tol, limit, watch)
        crawled.append(search.crawls)
        bias = 0.0 if problem.bias.is_absent else search.b
        return ended(search.beta, bias, search.sweeps, reached, monitor)

    together = by_column(problem, start, monitor, solve, on_threads=True)
    if monitor.stopped or not any(crawled):
        return together
    Z, beta = problem.operator.features, together.beta
    assert Z is not None
    assert beta is not None
    begun = Solution(primal=times(Z.T, beta), bias=together.bias)
    left = max(1, limit - together.n_iter)
    found = Newton().solve(problem, tol=tol, max_iter=left, start=begun)
    note = (
        f"updates crawled after {together.n_iter} sweeps, and Newton steps in w went on from where they were"
    )
    return replace(found, n_iter=together.n_iter + found.n_iter, trace=monitor.trace, note=note, factor=None)
