"""What 2SMO and SesquiSMO share: their options, the quadratic that updates lower, and the paper's plain rule.

Equation numbers are those of Joshi, Jayadeva, Ramakrishnan and Chandra; lambda_k is y_k beta_k.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
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
from squaresvm.solvers.row_descent import solve_by_rows
from squaresvm.typing import FloatArray, IntArray

__all__ = ["MAX_SWEEPS", "REFRESHES", "Quadratic", "SmoSolver", "beside_diagonal", "next_rows"]

#: Sweeps, of as many updates as there are rows, that a search may take by default.
MAX_SWEEPS = 1000
#: Times that a gradient that was kept up to date may turn out to have lost precision.
REFRESHES = 10
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
            search = _PlainUpdates(column, rows, first_multipliers(column, first), self)
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


def next_rows(violation: FloatArray, rows: RowCache, missing: int) -> IntArray:
    """Return the missing row, and those that will be missed next: of large violation and not at hand."""
    others = np.where(rows.place < 0, violation, -np.inf)
    others[missing] = np.inf
    count = min(rows.batch, int((rows.place < 0).sum()))
    return np.argpartition(others, -count)[-count:]


class Quadratic:
    """1/2 beta'M beta - y'beta of one column, M = K + diag(ridge) + shift 1' - 1 drift', symmetric.

    By default it is the dual (20), with Q of (21). Under the squared hinge y_i beta_i >= 0.

    Parameters
    ----------
    problem : Problem
        With one column of targets.
    rows : RowCache
    start : ndarray of shape (m,)
        Where to begin; changed in place. Where multipliers are bounded, those of the wrong sign are zero.
    y : ndarray of shape (m,), optional
        The targets of the column by default.
    shift, drift : ndarray of shape (m,), optional
        With shift_i - drift_j = shift_j - drift_i, so that M is symmetric; 1/A and nothing by default.

    Attributes
    ----------
    h : ndarray of shape (m,)
        The diagonal of M: the denominators of (31).
    gradient : ndarray of shape (m,)
        M beta - y, y_k times what (18) asks to vanish; kept up to date by the updates.
    """

    def __init__(
        self,
        problem: Problem,
        rows: RowCache,
        start: FloatArray,
        y: FloatArray | None = None,
        shift: FloatArray | None = None,
        drift: FloatArray | None = None,
    ) -> None:
        m = problem.n_rows
        self.problem, self.rows, self.ridge, self.sweeps = problem, rows, problem.ridge, 0
        self.is_bounded = problem.loss == Loss.SQUARED_HINGE
        self.y = np.ascontiguousarray(problem.targets[:, 0] if y is None else y)
        self.beta = np.where(self.y * start > 0, start, 0.0) if self.is_bounded else start
        self.shift = np.full(m, self.inverse_A) if shift is None else shift
        self.drift = np.zeros(m) if drift is None else drift
        self.h = problem.operator.diagonal() + self.ridge + self.shift - self.drift  # Q_kk of (21), (31).
        if not np.all(self.h > 0):  # (24)
            raise NotPositiveSemidefiniteError
        self.gradient = self.exact_gradient() if self.beta.any() else -1.0 * self.y

    def product(self, beta: FloatArray) -> FloatArray:
        """Return M beta."""
        product = self.problem.operator.matmul(beta[:, None])[:, 0] + self.ridge * beta
        # (21), with 1/A here.
        return np.asarray(product + self.shift @ beta - self.drift * beta.sum())

    def exact_gradient(self) -> FloatArray:
        """Return the gradient with the precision that updates may have lost."""
        return self.product(self.beta) - self.y  # (18)

    @property
    def inverse_A(self) -> float:
        """1/A."""
        return 1.0 / self.problem.bias.penalty

    @property
    def bias(self) -> float:
        """The bias of the dual (20), 1'beta / A."""
        return self.inverse_A * float(self.beta.sum())  # (16)

    @property
    def violation(self) -> FloatArray:
        """What each row violates the optimality conditions by, as the certificate measures it."""
        if not self.is_bounded:
            return np.abs(self.gradient)  # (18)
        return np.abs(np.minimum(self.h * self.y * self.beta, self.y * self.gradient))  # (34) and (35).

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
            self.y if self.is_bounded else None,
            self.h,
            tol,
            count,
        )

    def tell(self, monitor: Monitor) -> bool:
        """Tell the monitor of a sweep; return whether to stop."""
        return tell(self.problem, self.beta, self.bias, self.gradient, self.sweeps, monitor)


class _PlainUpdates(Quadratic):
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
            if checks and self.violation.max() <= tol:  # Step 2 of 2SMO, step 1 of SesquiSMO: stop.
                self.gradient = self.exact_gradient()
                refreshes += 1
                if self.violation.max() <= tol:
                    return True
                if refreshes > REFRESHES:
                    return False
            change = self._sweep(tol)  # Steps 1 and 3, step 2 of SesquiSMO, over and over.
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
        everyone = np.arange(self.y.size)
        return self._random.permutation(everyone) if self._rule.plain == "random" else everyone

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
        bend += self.inverse_A * float(way.sum()) ** 2  # (20) along the way, with Q of (21).
        if not bend > 0.0:
            return 0.0
        share = -float(self.gradient[group] @ way) / bend
        share = min(share, 1.0) if self.is_bounded else share  # The bounds are kept up to the whole step.
        step = share * way
        self.beta[group] = np.where(share == 1.0, self._new(group), self.beta[group] + step)
        self.gradient += K @ step + self.inverse_A * step.sum()  # f of (19) at all rows.
        self.gradient[group] += self.ridge[group] * step  # 1/C of (18).
        self.moved += group.size
        return float(np.abs(step).max())

    def _new(self, group: IntArray) -> FloatArray:
        """Return what (31) makes of some multipliers, cut at zero where they are bounded."""
        # Corrections: the numerator is 1 - y_k f(x_k) - lambda_k / C; (34) and (35) rest on lambda_k >= 0.
        new = self.beta[group] - self.gradient[group] / self.h[group]  # (31)
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
