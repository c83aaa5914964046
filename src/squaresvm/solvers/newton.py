"""Newton's method in (w, b) for linear models of either loss."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.problem import Loss, Problem, columns_of
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.solvers.line_search import minimise_on_line
from squaresvm.solvers.monitor import Callback, Monitor
from squaresvm.solvers.options import check_callback
from squaresvm.typing import FloatArray, IntArray

__all__ = ["Newton"]

_MAX_ITER = 200
#: Active rows up to which the multipliers themselves may be solved for.
_POLISHED_ROWS = 2000


@dataclass(frozen=True)
class Newton:
    """Minimise (P) over (w, b): a step to the minimum of the active rows' quadratic, an exact line search.

    The objective is piecewise quadratic and falls at each step, so the active set never recurs and the
    search is finite. w, not beta, is the iterate: it stays accurate where K is rank-deficient.

    Parameters
    ----------
    callback : callable, optional
        Called with a :class:`~squaresvm.solvers.Progress` after each iteration; True stops.
    trace : bool, default=False
        Whether to keep what the callback would be told.
    """

    callback: Callback | None = None
    trace: bool = False

    name = "newton"
    solves = "linear models with fewer columns than rows, either loss, any bias"

    def __post_init__(self) -> None:
        """Check the options."""
        check_callback(self.callback, self.trace)

    def accepts(self, problem: Problem) -> bool:
        """Return whether K = Z Z' with few columns is at hand."""
        return problem.operator.features is not None

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets, one after the other."""
        limit = _MAX_ITER if max_iter is None else max_iter
        Z = problem.operator.features
        assert Z is not None
        w, b = np.zeros((Z.shape[1], problem.n_columns)), np.zeros(problem.n_columns)
        if start is not None:
            b = start.bias
            w = np.asarray(Z.T @ start.beta) if start.primal is None else start.primal
        monitor = Monitor(self.callback, self.trace)
        columns, found = [problem.column(index) for index in range(problem.n_columns)], []
        for index, column in enumerate(columns):
            monitor.column = index
            found.append(search_in_w(column, w[:, [index]], b[[index]], tol, limit, monitor))
        if any(solution.beta is not None for solution in found):
            # Some were better in multipliers, so all are given in them.
            found = [
                replace(solution, beta=column.multipliers(solution), primal=None)
                for solution, column in zip(found, columns, strict=True)
            ]
        return columns_of(found, monitor.trace)


def search_in_w(
    problem: Problem,
    w: FloatArray,
    b: FloatArray,
    tol: float,
    limit: int,
    monitor: Monitor | None = None,
) -> Solution:
    """Return the solution of one column of targets, from (w, b) on."""
    Z = problem.operator.features
    assert Z is not None
    decision = np.asarray(Z @ w) + b
    best, least = Solution(primal=w, bias=b), np.inf
    factor: MomentsFactor | None = None
    factored: IntArray | None = None
    for iteration in range(1, limit + 1):
        active = _active_rows(problem, decision)
        settled = factored is not None and np.array_equal(active, factored)
        if factor is None or not settled:
            moments = Moments.of(Z[active], problem.costs[active], problem.targets[active])
            factor, factored = MomentsFactor(moments, problem.bias), active
        dw, db = factor.step(*problem.descent(Solution(primal=w, bias=b)))
        along = np.asarray(Z @ dw) + db
        t = _line_search(problem, dw, db, decision, along)
        w, b = w + t * dw, b + t * db
        # Z w anew, not decision + t along: sums of steps would collect rounding.
        decision = np.asarray(Z @ w) + b
        solution = Solution(primal=w, bias=b, n_iter=iteration)
        residual = float(problem.residual(solution)[0])
        stalled = settled and residual >= 0.5 * least
        if residual < least:
            best, least = solution, residual
        if monitor is not None and monitor.listens:
            objective = float(problem.objective_at(solution, decision)[0])
            balance = float(problem.costs @ problem.slack(decision)[:, 0])
            if monitor.tell(iteration, objective, residual, balance):
                return replace(best, n_iter=iteration, outcome=Outcome.STOPPED)
        if least <= 1e-3 * tol or t == 0.0 or stalled:
            break
    outcome = Outcome.MAX_ITER if iteration == limit and least > tol else Outcome.FINISHED
    if least > tol and outcome is Outcome.FINISHED:
        best = _polished(problem, best, least)
    return replace(best, n_iter=iteration, outcome=outcome)


def _polished(problem: Problem, found: Solution, residual: float) -> Solution:
    """Return the solution in multipliers where that is better.

    Made from w, a multiplier is C times a slack, and with it comes C times the rounding of the slack. Where
    the slacks are small, the multipliers of the active rows are better solved for.
    """
    active = np.zeros(problem.n_rows, dtype=bool)
    active[_active_rows(problem, problem.decision(found))] = True
    if not 0 < active.sum() <= _POLISHED_ROWS:
        return found
    beta, bias = EqualitySystem(problem).solve(active, float(found.bias[0]))
    polished = Solution(beta=beta[:, None], bias=np.array([bias]))
    return polished if problem.residual(polished)[0] < residual else found


def _active_rows(problem: Problem, decision: FloatArray) -> IntArray:
    if problem.loss is Loss.SQUARED:
        return np.arange(problem.n_rows)
    return np.flatnonzero(problem.targets[:, 0] * decision[:, 0] < 1.0)


def _pull(problem: Problem, b: FloatArray) -> FloatArray:
    return np.zeros_like(b) if problem.bias.is_absent else problem.bias.penalty * b


def _line_search(
    problem: Problem, dw: FloatArray, db: FloatArray, decision: FloatArray, along: FloatArray
) -> float:
    if problem.loss is Loss.SQUARED:
        return 1.0
    y = problem.targets[:, 0]
    curvature = float((dw * dw).sum() + (_pull(problem, db) * db).sum())
    margin, change = 1.0 - y * decision[:, 0], y * along[:, 0]
    decrement = curvature + float(problem.costs @ np.where(margin > 0, change**2, 0.0))
    return minimise_on_line(-decrement, curvature, margin, change, problem.costs)
