"""The search over active sets: the one driver behind factors and conjugate gradients.

The RLSSVM paper iterates S -> S(e(S)), its (57): rows with an error, (10), are taken as equalities, (48),
and the errors follow from those. Correction: that can go round. Each such step is a Newton step for the
primal problem (6), and so an exact line search along it makes the objective fall: along a line the objective
is piecewise quadratic. How the equalities of a set are solved is left to an `Equalities`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from squaresvm.problem import Problem
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.base import Monitor
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["Equalities", "Iterate", "Target", "minimise_on_line", "search_active_sets"]


@dataclass
class Iterate:
    """f at the rows, b and |w|^2 of a point of the primal problem."""

    decision: FloatArray
    bias: float
    norm: float

    @classmethod
    def origin(cls, problem: Problem) -> Iterate:
        """Return w = 0, b = 0."""
        return cls(np.zeros(problem.n_rows), 0.0, 0.0)

    @classmethod
    def at(cls, problem: Problem, solution: Solution) -> Iterate:
        """Return the point of a solution in multipliers, of one column."""
        assert solution.beta is not None
        if not solution.beta.any():
            bias = float(solution.bias[0])
            return cls(np.full(problem.n_rows, bias), bias, 0.0)
        decision, bias = problem.decision(solution)[:, 0], float(solution.bias[0])
        return cls(decision, bias, max(float(solution.beta[:, 0] @ (decision - bias)), 0.0))

    def move(self, target: Iterate, inner: float, t: float) -> Iterate:
        """Return the point a share t of the way to `target`; `inner` is w'w_target."""
        return Iterate(
            (1 - t) * self.decision + t * target.decision,
            (1 - t) * self.bias + t * target.bias,
            (1 - t) ** 2 * self.norm + 2 * t * (1 - t) * inner + t**2 * target.norm,
        )


@dataclass(frozen=True, eq=False)
class Target:
    """The solution of the equalities on a set of rows: where a step leads to.

    Parameters
    ----------
    beta : ndarray of shape (m,)
        Zero outside the set.
    point : Iterate
    residual : float
        As the certificate measures it, over the rows that count.
    is_exact : bool, default=True
        Whether the residual is known to full precision.
    cost : int, default=1
        Iterations spent on it.
    """

    beta: FloatArray
    point: Iterate
    residual: float
    is_exact: bool = True
    cost: int = 1

    @property
    def solution(self) -> Solution:
        """Multipliers and bias."""
        return Solution(beta=self.beta[:, None].copy(), bias=np.array([self.point.bias]))


class Equalities(Protocol):
    """The equalities (48) of a set of rows that changes, and how they are solved."""

    @property
    def enough(self) -> float:
        """Share of tol at which the search may end although the set has not come to rest."""
        ...

    @property
    def is_spent(self) -> bool:
        """Whether the search has cost what it may, and ends where it is."""
        ...

    def solve(self, active: BoolArray, bias: float, tol: float, limit: int) -> Target:
        """Return the solution with the active rows as equalities and the others left out.

        Parameters
        ----------
        active : ndarray of bool of shape (m,)
        bias : float
            What a free bias stays at where the set is empty.
        tol : float
        limit : int
            Largest number of iterations.
        """
        ...

    def exactly(self) -> Target:
        """Return the last target with its residual known to full precision."""
        ...

    def goes_on(self, settled: bool, improved: bool) -> bool:
        """Return whether another step may help after an exact residual above what is wanted.

        Parameters
        ----------
        settled : bool
            Whether the set is that of its own errors.
        improved : bool
            Whether the residual is less than half of the least one before.
        """
        ...


def search_active_sets(
    problem: Problem,
    equalities: Equalities,
    tol: float,
    limit: int,
    start: Solution | None = None,
    monitor: Monitor | None = None,
    counted: BoolArray | None = None,
    first: Target | None = None,
) -> Solution:
    """Return the solution of one column of targets.

    Parameters
    ----------
    problem : Problem
    equalities : Equalities
    tol : float
    limit : int
        Largest number of iterations.
    start : Solution, optional
        In multipliers; the origin by default.
    monitor : Monitor, optional
    counted : ndarray of bool, optional
        The rows that count: all by default.
    first : Target, optional
        The start with its residual, where that is known: the search may be over before it begins.

    Returns
    -------
    Solution
        Where the bias is free and all rows that count are of one class, it is w = 0, b = their label: of the
        optima, all of objective zero, the limit of those with a penalised bias.
    """
    counted = np.ones(problem.n_rows, dtype=bool) if counted is None else counted
    monitor = Monitor() if monitor is None else monitor
    alone = _one_class(problem, counted)
    if alone is not None:
        return alone
    return _Search(problem, equalities, tol, limit, monitor, counted).run(start, first)


def _one_class(problem: Problem, counted: BoolArray) -> Solution | None:
    labels = problem.targets[counted, 0]
    if not problem.bias.is_free or labels.size == 0 or labels.min() != labels.max():
        return None
    return Solution(beta=np.zeros((problem.n_rows, 1)), bias=np.array([float(labels[0])]))


class _Search:
    """One run of the driver."""

    def __init__(
        self,
        problem: Problem,
        equalities: Equalities,
        tol: float,
        limit: int,
        monitor: Monitor,
        counted: BoolArray,
    ) -> None:
        self.problem, self.equalities, self.counted = problem, equalities, counted
        self.tol, self.limit, self.monitor = tol, limit, monitor
        self.y = problem.targets[:, 0]
        self.best: Target | None = None
        self._tried = set[bytes]()

    @property
    def least(self) -> float:
        """The least residual so far."""
        return np.inf if self.best is None else self.best.residual

    @property
    def _is_over(self) -> bool:
        return self.monitor.stopped or self.equalities.is_spent

    def _with_error(self, point: Iterate) -> BoolArray:
        """Return the rows with an error."""
        return np.asarray((self.y * point.decision < 1.0) & self.counted)  # (10)

    def run(self, start: Solution | None, first: Target | None) -> Solution:
        """Return the solution."""
        if start is None:
            start = Solution(beta=np.zeros((self.problem.n_rows, 1)), bias=np.zeros(1))
        self.best, target, used = first, first, 0
        point = Iterate.at(self.problem, start) if first is None else first.point
        enough, goes_on = self.equalities.enough * self.tol, True
        while goes_on and self.least > enough and used < self.limit and not self._is_over:
            active = self._with_error(point)
            target = self.equalities.solve(active, point.bias, self.tol, self.limit - used)  # (48)
            used += max(target.cost, 1)
            settled = np.array_equal(self._with_error(target.point), active)
            if settled or target.residual <= self.tol:
                target = target if target.is_exact else self.equalities.exactly()
                goes_on = self.equalities.goes_on(settled, target.residual < 0.5 * self.least)
            self._keep(target)
            self._tell(target, used)
            following = target.point if settled else self._next(point, target, active)
            goes_on, point = goes_on and following is not None, following or point
        if target is not None and not target.is_exact:
            self._keep(self.equalities.exactly())
        return self._ended(start, used)

    def _keep(self, target: Target) -> None:
        if target.is_exact and target.residual < self.least:
            self.best = target

    def _tell(self, target: Target, used: int) -> None:
        if not self.monitor.listens:
            return
        decision = target.point.decision[:, None]
        objective = float(self.problem.objective_at(target.solution, decision)[0])
        self.monitor.tell(used, objective, target.residual, float(target.beta.sum()))

    def _next(self, point: Iterate, target: Target, active: BoolArray) -> Iterate | None:
        """Return the least point on the way to the target; None where all ways have been tried."""
        # w'w_target = sum_i beta_i w'phi(x_i): no kernel values are needed.
        inner = float(target.beta @ (point.decision - point.bias))
        t = self._line_minimum(point, target.point, inner)
        moved = point.move(target.point, inner, t)
        if t > 0.0 and not np.array_equal(self._with_error(moved), active):
            return moved
        # The line search is lost in rounding. The paper's own step is what is left, once for each set.
        mark = self._with_error(target.point).tobytes()  # S(e(S)) of (57).
        if mark in self._tried:
            return None
        self._tried.add(mark)
        return target.point

    def _line_minimum(self, point: Iterate, target: Iterate, inner: float) -> float:
        problem, step = self.problem, target.bias - point.bias
        penalty = 0.0 if problem.bias.is_absent else problem.bias.penalty
        curvature = max(target.norm - 2 * inner + point.norm, 0.0) + penalty * step**2
        margin = (1.0 - self.y * point.decision)[self.counted]
        change = (self.y * (target.decision - point.decision))[self.counted]
        costs = problem.costs[self.counted]
        # A Newton step: the objective starts to fall by as much as its model is curved.
        decrement = curvature + float(costs @ np.where(margin > 0, change**2, 0.0))
        return minimise_on_line(-decrement, curvature, margin, change, costs)

    def _ended(self, start: Solution, used: int) -> Solution:
        found = start if self.best is None else self.best.solution
        outcome = Outcome.MAX_ITER if used >= self.limit and self.least > self.tol else Outcome.FINISHED
        if self.monitor.stopped:
            outcome = Outcome.STOPPED
        return Solution(beta=found.beta, bias=found.bias, n_iter=max(used, 1), outcome=outcome)


def minimise_on_line(
    derivative: float, curvature: float, margin: FloatArray, change: FloatArray, costs: FloatArray
) -> float:
    """Return the t >= 0 that minimises a quadratic plus squared hinge terms, (6) with (7) along a line.

        phi(t) = slope t + curvature/2 t^2 + 1/2 sum_i C_i max(0, margin_i - t change_i)^2

    Between two values of t at which a term appears or vanishes, phi' is linear, and it only grows; so the
    minimum is where the sorted pieces first reach zero. Not the slope of the quadratic is asked for but
    phi'(0): for a Newton step that is minus its decrement, and as a difference of the slope and of hinge
    terms, 1e8 times larger at C = 1e8, it would have no digit left.

    Parameters
    ----------
    derivative : float
        phi'(0), hinge terms included.
    curvature : float
        Of the quadratic part.
    margin : ndarray of shape (m,)
        1 - y_i f_i where the line starts.
    change : ndarray of shape (m,)
        y_i times the change of f_i along the line.
    costs : ndarray of shape (m,)

    Returns
    -------
    float
        0.0 where the objective does not fall along the line.

    Examples
    --------
    >>> import numpy as np
    >>> minimise_on_line(-3.0, 1.0, np.array([1.0]), np.array([1.0]), np.array([3.0]))
    0.75
    """
    active = (margin > 0) | ((margin == 0) & (change < 0))
    intercept = derivative
    growth = curvature + float(np.sum((costs * change**2)[active]))
    if intercept >= 0:
        return 0.0
    switches = (active & (change > 0)) | (~active & (change < 0))
    times = margin[switches] / change[switches]
    order = np.argsort(times, kind="stable")
    times = times[order]
    sign = np.where(active[switches][order], -1.0, 1.0)
    moved = (costs[switches] * change[switches])[order]
    intercepts = np.concatenate([[intercept], intercept - np.cumsum(sign * moved * margin[switches][order])])
    growths = np.concatenate([[growth], growth + np.cumsum(sign * moved * change[switches][order])])
    reached = np.flatnonzero(intercepts[:-1] + growths[:-1] * times >= 0)
    piece = int(reached[0]) if reached.size else times.size
    if growths[piece] <= 0:
        return float(times[-1]) if times.size else 0.0
    return float(-intercepts[piece] / growths[piece])
