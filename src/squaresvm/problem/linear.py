"""Problem (P) of a linear model whose rows are reached by passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol, TypeVar

import numpy as np

from squaresvm.factors import Moments
from squaresvm.family import Bias, Loss
from squaresvm.problem.judgement import (
    Largest,
    Magnitude,
    Reach,
    Verify,
    Weighing,
    error_by_norms,
    error_by_sums,
)
from squaresvm.problem.passes import (
    Along,
    Collect,
    Curvature,
    Evaluate,
    Moved,
    RowBlock,
    Slopes,
    Sums,
    Totals,
    added,
)
from squaresvm.problem.products import Multiply, Outline, Outlining, Sides, is_wide
from squaresvm.problem.verdict import EPSILON, ROUNDING, Verdict, within_gap
from squaresvm.solution import Certificate, Solution
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = ["ROUNDING", "LinearProblem", "Point", "Runner", "Verdict"]

T = TypeVar("T")
S = TypeVar("S", bound=Totals)


class Runner(Protocol):
    """Who runs the blocks."""

    @property
    def n_features(self) -> int:
        """Number of features, n."""
        ...

    @property
    def n_columns(self) -> int:
        """Number of columns of targets, k."""
        ...

    def map(self, task: Callable[[RowBlock], T]) -> Iterator[T]:
        """Yield `task(block)` for every block, in order."""
        ...

    @property
    def passes_are_cheap(self) -> bool:
        """Whether several passes cost less than the Hessian of all rows."""
        ...

    @property
    def rows_stay(self) -> bool:
        """Whether a block's `first` tells its rows, so that something can be remembered of each."""
        ...

    def sample(self, size: int) -> RowBlock | None:
        """Return about so many rows at random, their costs scaled to stand for all; None: there are few."""
        ...


@dataclass(frozen=True, eq=False)
class Point:
    """(w, b) with the objective and its gradient there, for every column.

    Parameters
    ----------
    w : ndarray of shape (n, k)
    b : ndarray of shape (k,)
    sums : Sums
    objective : ndarray of shape (k,)
    down_w : ndarray of shape (n, k)
        Minus the gradient in w, Z'beta - w.
    down_b : ndarray of shape (k,)
        Minus the gradient in b, 1'beta - A b; zero where there is no bias.
    """

    w: FloatArray
    b: FloatArray
    sums: Sums
    objective: FloatArray
    down_w: FloatArray
    down_b: FloatArray

    def with_columns(self, other: Point, columns: Sequence[int] | IntArray) -> Point:
        """Return this point with some columns of another."""
        take = np.isin(np.arange(self.b.size), columns)

        def chosen(mine: FloatArray, theirs: FloatArray) -> FloatArray:
            return np.where(take, theirs, mine)

        sums = Sums(
            chosen(self.sums.loss, other.sums.loss),
            chosen(self.sums.in_w, other.sums.in_w),
            chosen(self.sums.in_b, other.sums.in_b),
        )
        return Point(
            chosen(self.w, other.w),
            chosen(self.b, other.b),
            sums,
            chosen(self.objective, other.objective),
            chosen(self.down_w, other.down_w),
            chosen(self.down_b, other.down_b),
        )


class _Judged:
    """The point that was judged last, by its numbers, and what was found there.

    A search judges the point that it ends at, and the certificate then asks for the same: two passes less.
    """

    def __init__(self) -> None:
        self._last: tuple[FloatArray, FloatArray, Verdict] | None = None

    def keep(self, point: Point, verdict: Verdict) -> None:
        """Remember a verdict; copies, so that nobody changes the point that it belongs to."""
        self._last = (point.w.copy(), point.b.copy(), verdict)

    def at(self, w: FloatArray, b: FloatArray) -> Verdict | None:
        """Return the verdict on the very same numbers; None where they are others."""
        if self._last is None:
            return None
        known_w, known_b, verdict = self._last
        return verdict if np.array_equal(known_b, b) and np.array_equal(known_w, w) else None


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """Problem (P) of a linear model, every quantity a sum over blocks.

    Parameters
    ----------
    runner : Runner
    loss : Loss
    bias : Bias
    scale : ndarray of shape (k,)
        Largest |y| of each column: what residuals of the squared loss are measured by.
    """

    runner: Runner
    loss: Loss
    bias: Bias
    scale: FloatArray
    _judged: _Judged = field(default_factory=_Judged, init=False, repr=False)

    def _penalty_of(self, b: FloatArray) -> FloatArray:
        return np.zeros_like(b) if self.bias.is_absent else self.bias.penalty * b

    def _point(self, w: FloatArray, b: FloatArray, sums: Sums) -> Point:
        pull = self._penalty_of(b)
        objective = 0.5 * (np.square(w).sum(axis=0) + pull * b + sums.loss)
        down_b = np.zeros_like(b) if self.bias.is_absent else sums.in_b - pull
        return Point(w, b, sums, objective, sums.in_w - w, down_b)

    def at(self, w: FloatArray, b: FloatArray) -> Point:
        """Return objective and gradient: one pass."""
        return self._point(w, b, _total(self.runner.map(Evaluate(self.loss, w, b))))

    def with_curvature(
        self, w: FloatArray, b: FloatArray, every: int = 1
    ) -> tuple[Point, tuple[Moments, ...]]:
        """Return objective, gradient and the moments of active rows, a column each: one pass.

        With `every` above one, the moments are about those of all rows, from one out of so many.
        """
        sums: list[Sums] = []
        moments: tuple[Moments, ...] = ()
        for some, its in self.runner.map(Curvature(Evaluate(self.loss, w, b), every)):
            sums.append(some)
            moments = _joined(moments, its)
        return self._point(w, b, _total(iter(sums))), moments

    def moments(self) -> Moments:
        """Return the moments of all rows: one pass."""
        found: tuple[Moments, ...] = ()
        for its in self.runner.map(Collect()):
            found = _joined(found, its)
        return found[0]

    def moved(
        self, w: FloatArray, b: FloatArray, since: Point, moments: tuple[Moments, ...]
    ) -> tuple[Point, tuple[Moments, ...]]:
        """Return the same as `with_curvature`, from the moments at another point and rows that changed."""
        sums: list[Sums] = []
        came: tuple[Moments, ...] = ()
        left: tuple[Moments, ...] = ()
        for some, new, old in self.runner.map(Moved(Evaluate(self.loss, w, b), since.w, since.b)):
            sums.append(some)
            came, left = _joined(came, new), _joined(left, old)
        now = tuple(_less(held.joined(new), old) for held, new, old in zip(moments, came, left, strict=True))
        return self._point(w, b, _total(iter(sums))), now

    def outlined(self, w: FloatArray, b: FloatArray) -> tuple[Point, Outline, Sides]:
        """Return objective, gradient, the outline of active rows and which they are: one pass."""
        at = Evaluate(self.loss, w, b)
        task = Outlining(at, self.runner.rows_stay and self.loss == Loss.SQUARED_HINGE)
        sides: list[BoolArray] = []

        def parts() -> Iterator[Outline]:
            for found, active in self.runner.map(task):
                if active is not None:
                    sides.append(active)
                yield found

        found = _total(parts())
        held = np.concatenate(sides) if sides else None
        return self._point(w, b, found), found, Sides(at, held)

    def product(self, sides: Sides, V: FloatArray, shift: FloatArray, columns: IntArray) -> FloatArray:
        """Return sum C_i z_i (z_i'v - shift) over the active rows of each vector's column: one pass."""
        return _total(self.runner.map(Multiply(sides, V, shift, columns))).in_w

    def slopes(
        self, start: Point, dw: FloatArray, db: FloatArray, times: FloatArray, decrement: FloatArray
    ) -> FloatArray:
        """Return the derivative of the objective along (dw, db) at some times of each column: one pass.

        Parameters
        ----------
        start : Point
        dw : ndarray of shape (n, k)
        db : ndarray of shape (k,)
        times : ndarray of shape (q, k)
        decrement : ndarray of shape (k,)
            Minus the derivative at the start.

        Returns
        -------
        ndarray of shape (q, k)
        """
        found: Slopes = _total(self.runner.map(Along(start.w, start.b, dw, db, times)))
        growth = found.growth + np.square(dw).sum(axis=0) + self._penalty_of(db) * db
        return times * growth - decrement + found.bends

    def certify(self, solution: Solution, tol: float) -> Certificate:
        """Return the certificate of a solution in w.

        Parameters
        ----------
        solution : Solution
            Its outcome tells whether the search was stopped.
        tol : float
            Bound on the residual.

        Returns
        -------
        Certificate
        """
        w, b = solution.primal, solution.bias
        assert w is not None
        return self.verdict(w, b).certified(
            tol,
            solution.outcome,
            lambda: self.rounding(w, b),
            lambda verdict: self.decision_error(w, b, verdict),
        )

    def verdict(self, w: FloatArray, b: FloatArray) -> Verdict:
        """Return residual, gap and objective at (w, b); without a pass where it was the last to be judged."""
        known = self._judged.at(w, b)
        return self.verify(self.at(w, b)) if known is None else known

    def verify(self, point: Point) -> Verdict:
        """Return residual, gap and objective: one pass."""
        at = Evaluate(self.loss, point.w, point.b)
        weighing: Weighing | None = None
        worst = np.zeros_like(point.b)
        for rows, sums in self.runner.map(Verify(at, point.sums.in_w, self.bias.penalty)):
            worst = np.maximum(worst, rows)
            weighing = sums if weighing is None else added(weighing, sums)
        assert weighing is not None
        if self.loss == Loss.SQUARED:
            worst = worst / self.scale
        residual = np.maximum(worst, self._bias_residual(point, weighing))
        verdict = Verdict(residual, self._gap(point, weighing), point.objective)
        self._judged.keep(point, verdict)
        return verdict

    def rounding(self, w: FloatArray, b: FloatArray) -> FloatArray:
        """Return the residual that float64 cannot be expected to beat, of shape (k,): two passes."""
        at = Evaluate(self.loss, w, b)
        found = self._reach(at)
        reach = ROUNDING * found.size + EPSILON * np.sqrt(found.squares)
        largest = np.zeros_like(b)
        for some in self.runner.map(Largest(at, reach, ROUNDING)):
            largest = np.maximum(largest, some)
        rows = largest / (self.scale if self.loss == Loss.SQUARED else 1.0)
        if self.bias.is_absent:
            return np.asarray(rows)
        along = ROUNDING * found.multipliers + EPSILON * found.together
        return np.maximum(rows, self._share_of_bias(along, b, found.multipliers))

    def _reach(self, at: Evaluate) -> Reach:
        return _total(self.runner.map(Magnitude(at)))

    def decision_error(self, w: FloatArray, b: FloatArray, verdict: Verdict) -> float:
        """Return a bound on |f - f*| at the rows, over the scale of the targets: three passes.

        Where there are too many features for a factor of the Hessian, by the norms of the rows alone.
        """
        at = Evaluate(self.loss, w, b)
        # Z'beta is a sum, with the rounding of what goes into it; half its square goes into the gap.
        reach = EPSILON * self._reach(at).size
        gap = within_gap(verdict.gap, 0.5 * np.square(reach).sum(axis=0))
        bound = error_by_norms if is_wide(self.runner.n_features) else error_by_sums
        return float((bound(self.runner, at, self.bias, gap) / self.scale).max())

    def _share_of_bias(self, violation: FloatArray, b: FloatArray, size: FloatArray) -> FloatArray:
        """Return a violation of A b = 1'beta over A |b| + |beta|_1."""
        scale = np.abs(self._penalty_of(b)) + size
        return np.divide(violation, scale, out=np.zeros_like(scale), where=scale > 0)

    def _bias_residual(self, point: Point, weighing: Weighing) -> FloatArray:
        if self.bias.is_absent:
            return np.zeros_like(point.b)
        return self._share_of_bias(np.abs(point.down_b), point.b, weighing.size)

    def _gap(self, point: Point, weighing: Weighing) -> FloatArray:
        """Return the objective less that of a feasible point of the dual beside it."""
        if not self.bias.is_free:
            total = np.square(point.down_w).sum(axis=0)
            if not self.bias.is_absent:
                total = total + point.down_b**2 / self.bias.penalty
            return np.asarray(0.5 * total)
        if self.loss == Loss.SQUARED:
            # Centred, the multipliers add up to zero.
            mean = point.sums.in_b / weighing.rows
            away = point.down_w - np.outer(weighing.column, mean)
            return np.asarray(0.5 * (np.square(away).sum(axis=0) + mean**2 * weighing.ridge))
        # The heavier side is scaled down until both weigh the same.
        up, down = weighing.sum_up, weighing.size - weighing.sum_up
        lighter = np.minimum(up, down)
        by_up = np.divide(lighter, up, out=np.zeros_like(up), where=up > 0)
        by_down = np.divide(lighter, down, out=np.zeros_like(down), where=down > 0)
        below = point.sums.in_w - weighing.up
        away = point.w - by_up * weighing.up - by_down * below
        loss_down = point.sums.loss - weighing.loss_up
        left = (1.0 - by_up) ** 2 * weighing.loss_up + (1.0 - by_down) ** 2 * loss_down
        return np.asarray(0.5 * (np.square(away).sum(axis=0) + left))


def _total(parts: Iterator[S]) -> S:
    return reduce(added, parts)


def _joined(one: tuple[Moments, ...], other: tuple[Moments, ...]) -> tuple[Moments, ...]:
    if not one:
        return other
    return tuple(mine.joined(theirs) for mine, theirs in zip(one, other, strict=True))


def _less(one: Moments, other: Moments) -> Moments:
    return one if other.total == 0.0 else one.minus(other)
