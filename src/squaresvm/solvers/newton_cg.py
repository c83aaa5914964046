"""The squared hinge by Newton steps, each solved by conjugate gradients on the rows with an error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.problem import Problem
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.base import Monitor
from squaresvm.solvers.kernel_system import KernelSystem
from squaresvm.solvers.line_search import minimise_on_line
from squaresvm.solvers.preconditioner import Preconditioner
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["search_active_sets"]

#: Share of tol that is aimed at, and reduction of the residual asked of one Newton step.
_SHARE, _REDUCTION = 0.25, 1e-3
#: Exact residuals that may fail to improve before the search ends.
_STALLS = 3


@dataclass
class _Point:
    """f at the rows, b and |w|^2."""

    decision: FloatArray
    bias: float
    norm: float


class _Target:
    """The solution of the equalities on a set of rows, carried from set to set.

    K beta comes along by products with what changes, quick ones; where beta hardly changes, little is lost.
    """

    def __init__(self, problem: Problem, system: KernelSystem, start: Solution) -> None:
        assert start.beta is not None
        self.problem, self.system = problem, system
        self.beta: FloatArray = start.beta[:, 0].copy()
        self.bias = float(start.bias[0])
        self.product: FloatArray = np.zeros(problem.n_rows)
        self.is_exact = not self.beta.any()
        self._ones: FloatArray | None = None
        self._active: BoolArray | None = None
        self._preconditioner: Preconditioner | None = None
        if not self.is_exact:
            self.refresh()

    @property
    def solution(self) -> Solution:
        """Multipliers and bias as they are."""
        return Solution(beta=self.beta[:, None].copy(), bias=np.array([self.bias]))

    def refresh(self) -> None:
        """Take K beta exactly."""
        self.product = self.system.exactly(self.beta[:, None])[:, 0]
        self.is_exact = True

    def _add(self, change: FloatArray) -> None:
        if not change.any():
            return
        self.beta = self.beta + change
        self.product = self.product + self.system.times(change[:, None])[:, 0]
        self.is_exact = self.is_exact and self.system.single is None

    def _enter(self, active: BoolArray) -> None:
        if self._active is not None and np.array_equal(active, self._active):
            return
        self._add(np.where(active, 0.0, -self.beta))
        # What rounding may have left there.
        self.beta[~active] = 0.0
        self._active, self._ones = active, None
        self._preconditioner = self.system.preconditioner.restricted(active)

    def solve(self, active: BoolArray, tol: float, limit: int) -> int:
        """Go to the solution on the active rows, or closer to it; return the iterations taken."""
        if not active.any():
            # Nothing but 1/2 |w|^2 is left: go towards w = 0 and keep b.
            self._add(-self.beta)
            self._active = None
            return 0
        self._enter(active)
        problem, A = self.problem, self.problem.bias.penalty
        missing = problem.targets[:, 0] - self.product - self.bias - problem.ridge * self.beta
        rhs = np.where(active, missing, 0.0)[:, None]
        wanted = np.maximum(_SHARE * tol, _REDUCTION * np.abs(rhs).max(axis=0))
        has_bias = not problem.bias.is_absent
        if has_bias and self._ones is None:
            rhs = np.column_stack([rhs, active.astype(np.float64)])
            wanted = np.append(wanted, max(_SHARE * tol, _REDUCTION**2))
        X, count = self.system.solve(rhs, wanted, limit, lambda *_: False, self._preconditioner, active)
        if X.shape[1] > 1:
            self._ones = X[:, 1]
        change, step = X[:, 0], 0.0
        if has_bias:
            assert self._ones is not None
            for _ in range(2):  # The second time for what rounding left of the sum.
                left = float((self.beta + change).sum() - A * (self.bias + step)) / float(
                    A + self._ones.sum()
                )
                change, step = change - left * self._ones, step + left
        self._add(change)
        self.bias += step
        return count

    def point(self) -> tuple[_Point, float]:
        """Return the point that the multipliers stand for, and its residual."""
        problem, decision = self.problem, self.product + self.bias
        everyone = np.arange(problem.n_rows)
        residual = float(problem.residual_at(self.solution, decision[:, None], everyone)[0])
        norm = max(float(self.beta @ self.product), 0.0)
        return _Point(decision, self.bias, norm), residual


def search_active_sets(
    problem: Problem, system: KernelSystem, tol: float, limit: int, start: Solution, monitor: Monitor
) -> Solution:
    """Return the solution of one column of targets."""
    y = problem.targets[:, 0]
    target = _Target(problem, system, start)
    point, least = target.point()
    best, used, stalls, tried = target.solution, 0, 0, set[bytes]()
    while least > tol and used < limit and not monitor.stopped:
        active = y * point.decision < 1.0
        used += max(target.solve(active, tol, limit - used), 1)
        goal, residual = target.point()
        settled = np.array_equal(y * goal.decision < 1.0, active)
        if residual <= tol or settled:
            if not target.is_exact:
                target.refresh()
                goal, residual = target.point()
            stalls = 0 if residual < 0.5 * least else stalls + 1
        if target.is_exact and residual < least:
            best, least = target.solution, residual
        _tell(problem, target.solution, goal, residual, used, monitor)
        if stalls >= _STALLS:
            if not system.widen("products in float32 did not reach tol"):
                break
            stalls = 0
        if settled:
            point = goal
            continue
        moved = _moved(problem, point, goal, target.beta)
        if moved is None or np.array_equal(y * moved.decision < 1.0, active):
            # The line search is lost in rounding. The full step is what is left, once for each set.
            moved = goal
            mark = (y * goal.decision < 1.0).tobytes()
            if mark in tried:
                break
            tried.add(mark)
        point = moved
    if least > tol and not target.is_exact:
        target.refresh()
        _, residual = target.point()
        best, least = (target.solution, residual) if residual < least else (best, least)
    outcome = Outcome.MAX_ITER if used >= limit and least > tol else Outcome.FINISHED
    if monitor.stopped:
        outcome = Outcome.STOPPED
    return Solution(beta=best.beta, bias=best.bias, n_iter=max(used, 1), outcome=outcome)


def _moved(problem: Problem, point: _Point, goal: _Point, beta: FloatArray) -> _Point | None:
    """Return the least point on the way to the goal; None where the objective does not fall."""
    y = problem.targets[:, 0]
    # w'w_goal = sum_i beta_i w'phi(x_i): no kernel values are needed.
    inner = float(beta @ (point.decision - point.bias))
    step = goal.bias - point.bias
    penalty = 0.0 if problem.bias.is_absent else problem.bias.penalty
    curvature = max(goal.norm - 2 * inner + point.norm, 0.0) + penalty * step**2
    margin, change = 1.0 - y * point.decision, y * (goal.decision - point.decision)
    # A Newton step: the objective starts to fall by as much as its model is curved.
    decrement = curvature + float(problem.costs @ np.where(margin > 0, change**2, 0.0))
    t = minimise_on_line(-decrement, curvature, margin, change, problem.costs)
    if t == 0.0:
        return None
    return _Point(
        (1 - t) * point.decision + t * goal.decision,
        (1 - t) * point.bias + t * goal.bias,
        (1 - t) ** 2 * point.norm + 2 * t * (1 - t) * inner + t**2 * goal.norm,
    )


def _tell(
    problem: Problem, solution: Solution, point: _Point, residual: float, used: int, monitor: Monitor
) -> None:
    if monitor.listens:
        objective = float(problem.objective_at(solution, point.decision[:, None])[0])
        assert solution.beta is not None
        monitor.tell(used, objective, residual, float(solution.beta.sum()))
