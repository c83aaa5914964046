"""What 2SMO and SesquiSMO share: their options, the paper's plain rule, and the ways to fewer updates.

By default the multiplier of the largest violation moves next, and steps of all multipliers at once stand in
for updates by the sweep: the minimum over the plane of the last sweeps, and conjugate gradients.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from squaresvm.linalg.lapack import NotPositiveSemidefiniteError
from squaresvm.operators import RowCache
from squaresvm.problem import Loss, Problem
from squaresvm.runtime.arguments import check_choice, check_flag, check_integer
from squaresvm.solution import Solution
from squaresvm.solvers.base import (
    Monitor,
    RowSolver,
    by_column,
    ended,
    first_multipliers,
    size_of_targets,
    tell,
)
from squaresvm.solvers.block_cg import NotDefiniteError, conjugate_gradients
from squaresvm.solvers.row_descent import solve_by_rows
from squaresvm.typing import FloatArray, IntArray

__all__ = [
    "CONJUGATE_STEPS",
    "FIRST_STEPS",
    "MAX_SWEEPS",
    "REFRESHES",
    "SHORT_PATIENCE",
    "PenalisedDual",
    "Quadratic",
    "SmoSolver",
    "beside_diagonal",
    "conjugate_steps",
    "next_rows",
]

#: Sweeps, of as many updates as there are rows, that a search may take by default.
MAX_SWEEPS = 1000
#: Times that a gradient that was kept up to date may turn out to have lost digits.
REFRESHES = 10
#: Steps of all multipliers at once before single updates, and before those have their turn again: each costs
#: what a sweep does.
FIRST_STEPS, CONJUGATE_STEPS = 3, 200
#: Sweeps that are given single updates once they have crawled.
SHORT_PATIENCE = 3
#: Orders in which the plain rule picks multipliers.
_ORDERS = ("cyclic", "random", "largest")
#: Rows by which K is told to be close to its diagonal.
_LOOKED_AT = 9


@dataclass(frozen=True)
class SmoSolver(RowSolver):
    """Single updates of one loss: options and order of the two solvers of the relaxed paper."""

    plain: str | None = None
    checks: bool = True
    parallel: int = 1
    seed: int = 0

    name: ClassVar[str]
    loss: ClassVar[Loss]

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_flag("checks", self.checks)
        check_integer("parallel", self.parallel, 1)
        check_integer("seed", self.seed, 0)
        if self.plain is None:
            if not self.checks or self.parallel != 1:
                raise ValueError(
                    "checks and parallel are options of a plain rule: say which, as in plain='random'"
                )
            return
        check_choice("plain", self.plain, _ORDERS)
        if self.plain == "largest" and not self.checks:
            raise ValueError("plain='largest' picks by the violation, which needs checks=True")

    @property
    def solves(self) -> str:
        """The problems that it solves, in words."""
        return f"the {self.loss} with a penalised or no bias, linear models with any"

    def accepts(self, problem: Problem) -> bool:
        """Return whether the loss is its own, and the bias not free unless the rows are at hand."""
        carries_w = problem.operator.features is not None and self.plain is None
        return problem.loss == self.loss and (carries_w or not problem.bias.is_free)

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets, one after the other."""
        limit = MAX_SWEEPS if max_iter is None else max_iter
        monitor = self._monitor()
        if self.plain is None and problem.operator.features is not None:
            return solve_by_rows(problem, tol, limit, monitor, start)
        self._check_problem(problem)
        rows = RowCache(problem.operator, self.memory)
        if self.plain is None:
            return by_column(problem, start, monitor, self._columns(problem, rows, tol, limit, monitor))

        def solve(column: Problem, first: Solution | None) -> Solution:
            scale = size_of_targets(column) if column.loss == Loss.SQUARED else 1.0
            search = _PlainSearch(column, rows, first_multipliers(column, first), self)
            reached = not monitor.stopped and search.run(tol * scale, limit, monitor)
            found = ended(search.beta, search.bias, search.sweeps, reached, monitor)
            return replace(found, work={"updates": float(search.moved)})

        return by_column(problem, start, monitor, solve)

    def _check_problem(self, problem: Problem) -> None:
        """Raise where updates would end at a point that is none."""

    @abstractmethod
    def _columns(
        self, problem: Problem, rows: RowCache, tol: float, limit: int, monitor: Monitor
    ) -> Callable[[Problem, Solution | None], Solution]:
        """Return what solves one column, given its problem and where to start."""


def beside_diagonal(rows: RowCache, inverse_h: FloatArray) -> float:
    """Return how long rows of K are beside their diagonal, squared and in units of that of H.

    It is the median of a few rows; NaN where K is not at hand.
    """
    if np.any(rows.place < 0):
        return float("nan")
    looked_at = np.unique(np.linspace(0, inverse_h.size - 1, _LOOKED_AT).astype(np.intp))
    beside = [rows.row(i) @ rows.row(i) - rows.row(i)[i] ** 2 for i in looked_at.tolist()]
    return float(np.median(beside * np.square(inverse_h[looked_at])))


def conjugate_steps(
    gradient: FloatArray,
    scales: FloatArray,
    product: Callable[[FloatArray], FloatArray],
    count: int,
    arrived: Callable[[FloatArray, FloatArray], bool],
) -> None:
    """Take conjugate steps of all multipliers at once, as long as the quadratic is seen to be convex.

    Parameters
    ----------
    gradient : ndarray of shape (m,)
        Where they begin.
    scales : ndarray of shape (m,)
        Of each multiplier: the steps go along the gradient times these, so that a 0 keeps a multiplier where
        it is. With C_i, the reciprocals of the ridge, all of H but K becomes the identity: a K of rank r then
        needs r + 1 steps, whatever the costs are, where single updates need sweeps by the hundred. With the
        reciprocals of the diagonal a few steps are worth a sweep where K is close to its diagonal.
    product : callable
        Of the matrix with a vector.
    count : int
        Most steps.
    arrived : callable
        Given how far the steps have come and the gradient there; returns whether to stop.
    """
    with suppress(NotDefiniteError):
        conjugate_gradients(
            lambda way, _: product(way[:, 0])[:, None],
            lambda left, _: scales[:, None] * left,
            -gradient[:, None],
            np.zeros(1),
            count,
            lambda _, X, R: arrived(X[:, 0].copy(), -R[:, 0]),
        )


def next_rows(violation: FloatArray, rows: RowCache, missing: int) -> IntArray:
    """Return the missing row, and those that will be missed next: of large violation and not at hand."""
    others = np.where(rows.place < 0, violation, -np.inf)
    others[missing] = np.inf
    count = min(rows.batch, int((rows.place < 0).sum()))
    return np.argpartition(others, -count)[-count:]


class Quadratic:
    """1/2 beta'M beta - t'beta of one column, M = K + diag(ridge) + shift 1' - 1 drift', symmetric.

    Parameters
    ----------
    problem : Problem
        For K and the costs.
    rows : RowCache
    target : ndarray of shape (m,)
        t.
    beta : ndarray of shape (m,)
        Where to start; changed in place.
    shift, drift : ndarray of shape (m,)
        With shift_i - drift_j = shift_j - drift_i, so that M is symmetric; with shift = 1/A it is Q of (21).

    Attributes
    ----------
    h : ndarray of shape (m,)
        The diagonal of M: the denominators of (31).
    gradient : ndarray of shape (m,)
        M beta - t, y_k times what (18) asks to vanish; kept up to date by the updates.
    """

    is_bounded = False

    def __init__(
        self,
        problem: Problem,
        rows: RowCache,
        target: FloatArray,
        beta: FloatArray,
        shift: FloatArray,
        drift: FloatArray,
    ) -> None:
        self.problem, self.rows, self.ridge, self.sweeps = problem, rows, problem.ridge, 0
        self.target, self.beta, self.shift, self.drift = target, beta, shift, drift
        self.h = problem.operator.diagonal() + self.ridge + shift - drift
        if not np.all(self.h > 0):  # (24)
            raise NotPositiveSemidefiniteError
        self.gradient = self.exact_gradient() if beta.any() else -1.0 * target

    def product(self, beta: FloatArray) -> FloatArray:
        """Return M beta."""
        product = self.problem.operator.matmul(beta[:, None])[:, 0] + self.ridge * beta
        # sum_i beta_i (shift_i - drift_j) in row j.
        return np.asarray(product + self.shift @ beta - self.drift * beta.sum())

    def exact_gradient(self) -> FloatArray:
        """Return the gradient with the digits that updates may have lost."""
        return self.product(self.beta) - self.target

    def updates(self, lengths: FloatArray, tol: float, count: int) -> tuple[int, int]:
        """Update by the largest violation; return how many were done, and the row that is not at hand or -1.

        Parameters
        ----------
        lengths : ndarray of shape (m,)
            Of the step of each row in units of its gradient: 1 / h leads to the minimum.
        tol : float
        count : int
        """
        from squaresvm.solvers._loops import greedy_updates

        return greedy_updates(
            *self.rows.arrays,
            lengths,
            self.ridge,
            self.shift,
            self.drift,
            self.beta,
            self.gradient,
            self.target if self.is_bounded else None,
            self.h,
            tol,
            count,
        )


class PenalisedDual(Quadratic):
    """The dual (20) of one column with 1 1'/A in H, bounded by y_i beta_i >= 0 for the squared hinge.

    Parameters
    ----------
    problem : Problem
        With one column of targets.
    rows : RowCache
    start : ndarray of shape (m,)
        Where to begin; where multipliers are bounded, those of the wrong sign are set to zero.
    """

    def __init__(self, problem: Problem, rows: RowCache, start: FloatArray) -> None:
        m, self.inverse_A = problem.n_rows, 1.0 / problem.bias.penalty
        self.y = np.array(problem.targets[:, 0], dtype=np.float64)
        self.is_bounded = problem.loss == Loss.SQUARED_HINGE
        beta = np.where(self.y * start > 0, start, 0.0) if self.is_bounded else start
        super().__init__(problem, rows, self.y, beta, np.full(m, self.inverse_A), np.zeros(m))

    @property
    def bias(self) -> float:
        """The bias, 1'beta / A, by (16)."""
        return self.inverse_A * float(self.beta.sum())

    @property
    def violation(self) -> FloatArray:
        """Violation of (18), or of (34) or (35), by each row, as the certificate measures it."""
        if not self.is_bounded:
            return np.abs(self.gradient)
        return np.abs(np.minimum(self.h * self.y * self.beta, self.y * self.gradient))

    def tell(self, monitor: Monitor) -> bool:
        """Tell the monitor of a sweep; return whether to stop."""
        return tell(self.problem, self.beta, self.bias, self.gradient, self.sweeps, monitor)


class _PlainSearch(PenalisedDual):
    """The paper's rule and nothing else: update (31), in the order of a solver's options.

    Attributes
    ----------
    moved : int
        Multipliers moved so far.
    """

    def __init__(self, problem: Problem, rows: RowCache, start: FloatArray, rule: SmoSolver) -> None:
        super().__init__(problem, rows, start)
        self.moved = 0
        self._rule = rule
        self._random = np.random.default_rng(rule.seed)

    def run(self, tol: float, limit: int, monitor: Monitor) -> bool:
        """Update until the rule says that it is enough; return whether it did."""
        refreshes, checks = 0, self._rule.checks
        while self.sweeps < limit:
            if checks and self.violation.max() <= tol:  # Step 2.
                self.gradient = self.exact_gradient()
                refreshes += 1
                if self.violation.max() <= tol:
                    return True
                if refreshes > REFRESHES:
                    return False
            change = self._sweep(tol)
            self.sweeps += 1
            if not np.all(np.isfinite(self.gradient)):
                raise NotPositiveSemidefiniteError
            if self.tell(monitor):
                return False
            if not checks and change <= tol:
                return True
        return checks and bool(self.violation.max() <= tol)

    def _sweep(self, tol: float) -> float:
        """Do as many updates as there are rows; return the largest change of a multiplier."""
        if self._rule.parallel > 1:
            return max(self._move_together(group, tol) for group in self._groups())
        if self._rule.plain == "largest":
            self._by_violation(tol)
            return np.inf
        return self._in_order(tol)

    def _order(self) -> IntArray:
        m = self.y.size
        return self._random.permutation(m) if self._rule.plain == "random" else np.arange(m)

    def _groups(self) -> Iterator[IntArray]:
        """Yield the multipliers of a sweep, as many at a time as are updated at once."""
        order, size = self._order(), min(self._rule.parallel, self.y.size)
        for low in range(0, order.size, size):
            if self._rule.plain == "largest":
                yield np.argpartition(self.violation, -size)[-size:]  # Those that violate most by now.
            else:
                yield order[low : low + size]

    def _move_together(self, group: IntArray, tol: float) -> float:
        """Update several multipliers from the same f, by a common share of (31); return the largest step.

        The share leads to the minimum along their joint direction: alone, each would go as if the others
        stayed, and together they overshoot.
        """
        if self._rule.checks:
            group = group[self.violation[group] > tol]  # Step 1.
        if group.size == 0:
            return 0.0
        way = self._new(group) - self.beta[group]
        K = np.column_stack([self.rows.row(int(k)).copy() for k in group])
        bend = float(way @ (K[group] @ way) + way @ (self.ridge[group] * way))
        bend += self.inverse_A * float(way.sum()) ** 2
        if not bend > 0.0:
            return 0.0
        share = -float(self.gradient[group] @ way) / bend
        share = min(share, 1.0) if self.is_bounded else share  # The bounds are kept up to the whole step.
        step = share * way
        self.beta[group] = np.where(share == 1.0, self._new(group), self.beta[group] + step)
        self.gradient += K @ step + self.inverse_A * step.sum()
        self.gradient[group] += self.ridge[group] * step
        self.moved += group.size
        return float(np.abs(step).max())

    def _new(self, group: IntArray) -> FloatArray:
        """Return what (31) makes of some multipliers, cut at zero where they are bounded."""
        new = self.beta[group] - self.gradient[group] / self.h[group]  # (31), numerator 1 - y f - lambda / C.
        return np.where(self.y[group] * new > 0, new, 0.0) if self.is_bounded else new

    def _in_order(self, tol: float) -> float:
        from squaresvm.solvers._loops import ordered_updates

        order, rows = self._order(), self.rows
        begin, largest = 0, 0.0
        while begin < order.size:
            begin, done, change = ordered_updates(
                *rows.arrays,
                self.h,
                self.ridge,
                self.inverse_A,
                self.y,
                self.beta,
                self.gradient,
                order,
                begin,
                tol if self._rule.checks else -1.0,
                self.is_bounded,
            )
            largest = max(largest, change)
            self.moved += done
            if begin < order.size:
                coming = order[begin : begin + rows.batch]
                rows.fetch(coming, coming[:1])
        return largest

    def _by_violation(self, tol: float) -> None:
        left, missing = self.y.size, 0
        while left > 0 and missing >= 0:
            done, missing = self.updates(1.0 / self.h, tol, left)
            left -= done
            self.moved += done
            if missing >= 0:
                self.rows.row(missing)
