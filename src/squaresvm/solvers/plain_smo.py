"""2SMO and SesquiSMO as the relaxed paper prints them: update (31) in a plain order, with the bias inside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from squaresvm.linalg.lapack import NotPositiveSemidefiniteError
from squaresvm.operators import RowCache
from squaresvm.problem import Loss, Problem
from squaresvm.runtime.arguments import check_choice, check_flag, check_integer
from squaresvm.solution import Solution
from squaresvm.solvers.base import Monitor, by_column, ended, origin, tell
from squaresvm.typing import FloatArray, IntArray

__all__ = ["PlainRule", "plain_rule"]

#: Orders in which multipliers are picked.
_ORDERS = ("cyclic", "random", "largest")
#: Times that a gradient that was kept up to date may turn out to have lost digits.
_REFRESHES = 10


@dataclass(frozen=True)
class PlainRule:
    """Which multiplier is picked next, and when the updates end.

    Parameters
    ----------
    order : {'cyclic', 'random', 'largest'}
        One after the other; in an order that is drawn anew for each sweep; or that of the largest violation.
    checks : bool
        Whether multipliers that satisfy the optimality conditions within tol are passed over, and the updates
        end when all do. Else every multiplier is updated in turn, until none changes by more than tol in a
        sweep: what the paper calls simpler and less efficient.
    parallel : int
        Multipliers that are updated at once, all from the same f. Their steps are those of (31), and a common
        factor takes them to the minimum along their joint direction: alone, each would go as if the others
        stayed, and together they overshoot.
    seed : int
        Of the random order.
    """

    order: str = "largest"
    checks: bool = True
    parallel: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice("plain", self.order, _ORDERS)
        check_flag("checks", self.checks)
        check_integer("parallel", self.parallel, 1)
        check_integer("seed", self.seed, 0)
        if self.order == "largest" and not self.checks:
            raise ValueError("plain='largest' picks by the violation, which needs checks=True")

    def solve(
        self,
        problem: Problem,
        rows: RowCache,
        start: Solution | None,
        tol: float,
        limit: int,
        monitor: Monitor,
    ) -> Solution:
        """Return the solution of all columns of targets, one after the other; an iteration is a sweep."""

        def solve(column: Problem, first: Solution | None) -> Solution:
            beta = (first or origin(column)).beta
            assert beta is not None
            scale = float(np.abs(column.targets).max()) if column.loss == Loss.SQUARED else 1.0
            search = PlainSearch(column, rows, beta[:, 0], self)
            reached = not monitor.stopped and search.run(
                tol * max(scale, np.finfo(float).tiny), limit, monitor
            )
            found = ended(search.beta, search.bias, max(search.sweeps, 1), reached, monitor)
            return replace(found, work={"updates": float(search.updates)})

        return by_column(problem, start, monitor, solve)


def plain_rule(plain: str | None, checks: bool, parallel: int, seed: int) -> PlainRule | None:
    """Return the rule of a solver's options; None where no plain order was asked for."""
    if plain is not None:
        return PlainRule(plain, checks, parallel, seed)
    if not checks or parallel != 1:
        raise ValueError("checks and parallel are options of a plain rule: say which, as in plain='random'")
    return None


class PlainSearch:
    """Minimise (20), or its like with lambda >= 0, by update (31) alone.

    Parameters
    ----------
    problem : Problem
        With one column of targets.
    rows : RowCache
    start : ndarray of shape (m,)
    rule : PlainRule

    Attributes
    ----------
    updates : int
        Multipliers moved so far.
    """

    def __init__(self, problem: Problem, rows: RowCache, start: FloatArray, rule: PlainRule) -> None:
        self.problem = problem
        self.rows = rows
        self.rule = rule
        self.y = np.ascontiguousarray(problem.targets[:, 0])
        self.is_bounded = problem.loss == Loss.SQUARED_HINGE
        self.beta = np.where(self.y * start > 0, start, 0.0) if self.is_bounded else start.copy()
        self.ridge = problem.ridge
        self._inverse_A = 1.0 / problem.bias.penalty
        self.h = problem.operator.diagonal() + self.ridge + self._inverse_A  # Q_kk of (21).
        if not np.all(self.h > 0):  # (24)
            raise NotPositiveSemidefiniteError
        self.sweeps = self.updates = 0
        self._random = np.random.default_rng(rule.seed)
        self.gradient = self._exact_gradient()

    @property
    def bias(self) -> float:
        """The bias, by (16)."""
        return self._inverse_A * float(self.beta.sum())

    def _exact_gradient(self) -> FloatArray:
        product = self.problem.operator.matmul(self.beta[:, None])[:, 0] + self.ridge * self.beta
        return np.asarray(product + self._inverse_A * self.beta.sum() - self.y)  # y_k times (18).

    @property
    def violation(self) -> FloatArray:
        """Violation of (18), or of (34) and (35), by each row."""
        if not self.is_bounded:
            return np.abs(self.gradient)
        return np.abs(np.minimum(self.h * self.y * self.beta, self.y * self.gradient))

    def run(self, tol: float, limit: int, monitor: Monitor) -> bool:
        """Update until the rule says that it is enough; return whether it did."""
        refreshes = 0
        while self.sweeps < limit:
            if self.rule.checks and self.violation.max() <= tol:  # Step 2.
                self.gradient = self._exact_gradient()
                refreshes += 1
                if self.violation.max() <= tol:
                    return True
                if refreshes > _REFRESHES:
                    return False
            change = self._sweep(tol)
            self.sweeps += 1
            if not np.all(np.isfinite(self.gradient)):
                raise NotPositiveSemidefiniteError
            if tell(self.problem, self.beta, self.bias, self.gradient, self.sweeps, monitor):
                return False
            if not self.rule.checks and change <= tol:
                return True
        return self.rule.checks and bool(self.violation.max() <= tol)

    def _sweep(self, tol: float) -> float:
        """Do as many updates as there are rows; return the largest change of a multiplier."""
        if self.rule.parallel > 1:
            return max(self._move_together(group, tol) for group in self._groups())
        if self.rule.order == "largest":
            self._by_violation(tol)
            return np.inf
        return self._in_order(tol)

    def _groups(self) -> Iterator[IntArray]:
        """Yield the multipliers of a sweep, as many at a time as are updated at once."""
        m, size = self.y.size, min(self.rule.parallel, self.y.size)
        order = self._random.permutation(m) if self.rule.order == "random" else np.arange(m)
        for low in range(0, m, size):
            if self.rule.order == "largest":
                yield np.argpartition(self.violation, -size)[-size:]  # Those that violate most by now.
            else:
                yield order[low : low + size]

    def _move_together(self, group: IntArray, tol: float) -> float:
        """Update several multipliers from the same f, by a common share of (31); return the largest step."""
        if self.rule.checks:
            group = group[self.violation[group] > tol]  # Step 1.
        way = self._new(group) - self.beta[group]
        K = np.column_stack([self.rows.row(int(k)).copy() for k in group]) if group.size else np.empty((0, 0))
        bend = 0.0
        if group.size:
            bend = float(way @ (K[group] @ way) + way @ (self.ridge[group] * way))
            bend += self._inverse_A * float(way.sum()) ** 2
        if not bend > 0.0:
            return 0.0
        share = -float(self.gradient[group] @ way) / bend
        share = min(share, 1.0) if self.is_bounded else share  # The bounds are kept up to the whole step.
        step = share * way
        self.beta[group] = np.where(share == 1.0, self._new(group), self.beta[group] + step)
        self.gradient += K @ step + self._inverse_A * step.sum()
        self.gradient[group] += self.ridge[group] * step
        self.updates += group.size
        return float(np.abs(step).max())

    def _new(self, group: IntArray) -> FloatArray:
        """Return what (31) makes of some multipliers, cut at zero where they are bounded."""
        new = self.beta[group] - self.gradient[group] / self.h[group]  # (31), numerator 1 - y f - lambda / C.
        return np.where(self.y[group] * new > 0, new, 0.0) if self.is_bounded else new

    def _in_order(self, tol: float) -> float:
        from squaresvm.solvers import _smo_loops

        m, rows = self.y.size, self.rows
        order = self._random.permutation(m) if self.rule.order == "random" else np.arange(m)
        begin, largest = 0, 0.0
        while begin < m:
            begin, done, change = _smo_loops.plain_updates(
                rows.values,
                rows.stride,
                rows.place,
                self.h,
                self.ridge,
                self._inverse_A,
                self.y,
                self.beta,
                self.gradient,
                order,
                begin,
                tol if self.rule.checks else -1.0,
                self.is_bounded,
            )
            largest = max(largest, change)
            self.updates += done
            if begin < m:
                coming = order[begin : begin + rows.batch]
                rows.fetch(coming, coming[:1])
        return largest

    def _by_violation(self, tol: float) -> None:
        from squaresvm.solvers import _smo_loops

        m, rows, left = self.y.size, self.rows, self.y.size
        lengths = 1.0 / self.h
        while left > 0:
            if self.is_bounded:
                done, missing = _smo_loops.sesqui_updates(
                    rows.values,
                    rows.stride,
                    rows.place,
                    self.h,
                    lengths,
                    self.ridge,
                    self._inverse_A,
                    self.y,
                    self.beta,
                    self.gradient,
                    self.h * self.y * self.beta,
                    tol,
                    left,
                )
            else:
                shift = np.full(m, self._inverse_A)
                done, missing = _smo_loops.two_updates(
                    rows.values,
                    rows.stride,
                    rows.place,
                    lengths,
                    self.ridge,
                    shift,
                    np.zeros(m),
                    self.beta,
                    self.gradient,
                    tol,
                    left,
                )
            left -= done
            self.updates += done
            if missing < 0:
                return
            self.rows.row(missing)
