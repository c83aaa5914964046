"""Newton's method in (w, b) for linear models of either loss, by passes over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.family import Bias, Loss
from squaresvm.linear import LinearProblem, MemoryPieces, Point
from squaresvm.problem import Problem
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.solvers.monitor import Callback, Monitor
from squaresvm.solvers.options import check_callback
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["Newton", "search"]

#: Is told the iterate (w, b) after each step.
Keep: TypeAlias = Callable[[FloatArray, FloatArray], None]

_MAX_ITER = 200
#: Active rows up to which the multipliers themselves may be solved for.
_POLISHED_ROWS = 2000
#: Rows of a first solve on a sample, for each feature and at least.
_SAMPLE_A_FEATURE, _LEAST_SAMPLE = 200, 20_000
#: Out of how many rows one tells about the Hessian where passes are cheap, and by how much each step must
#: shrink the gradient then.
_THINNED, _WORTHWHILE = 8, 0.2
#: Share of the predicted decrease that a full step must reach; else the minimum on the line is looked for.
_ARMIJO = 1e-4
#: Times at which one pass takes the derivative along a line, passes at most, and a bracket that will do.
_TIMES, _LINE_PASSES, _NARROW = 16, 12, 1e-12
#: Share of `tol` at which the estimated residual is small enough, and its bound on a sample.
_GOOD, _ROUGH = 0.05, 1e-4
#: Decrements below this share of the objective are lost in its rounding.
_LOST = 1e-14
#: Loss of relative accuracy by subtraction after which moments are taken anew.
_DIGITS = 1e6


@dataclass(frozen=True)
class Newton:
    """Newton steps in (w, b) for linear models, each with an exact line search.

    Large problems are solved on a sample of rows first, so that few passes over all rows are left. After the
    first of them, only rows that change sides touch the Hessian; where passes are cheap, part of the rows
    tells enough about it, and the gradients of the passes (BFGS) tell the rest.

    Parameters
    ----------
    callback, trace : optional
        See :class:`~squaresvm.solvers.Progress`.

    See Also
    --------
    ActiveSet : The same search where K is not linear.
    Direct : One system, for the squared loss.

    Notes
    -----
    A step leads to the minimum of the active rows' quadratic. The objective is piecewise quadratic and falls
    at each step, so the active set never recurs and the search is finite. w, not beta, is the iterate: it
    stays accurate where K is rank-deficient.

    Examples
    --------
    >>> from squaresvm import LagrangianSVC
    >>> from squaresvm.datasets import make_ndc
    >>> from squaresvm.solvers import Newton
    >>> X, y = make_ndc(5000, random_state=0)
    >>> model = LagrangianSVC(kernel="linear", solver=Newton()).fit(X, y)
    >>> model.n_iter_ < 20
    True
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
        """Return the solution of all columns of targets."""
        limit = _MAX_ITER if max_iter is None else max_iter
        Z = problem.operator.features
        assert Z is not None
        if start is not None and start.primal is None:
            start = Solution(primal=np.asarray(Z.T @ start.beta), bias=start.bias)
        found = search(problem.linear, tol, limit, Monitor(self.callback, self.trace), start)
        if found.outcome is not Outcome.FINISHED:
            return found
        return _polished(problem, found, tol)


def search(
    problem: LinearProblem,
    tol: float,
    limit: int,
    monitor: Monitor,
    start: Solution | None = None,
    keep: Keep | None = None,
) -> Solution:
    """Return the solution of all columns of targets, in w; every pass serves all of them.

    Parameters
    ----------
    problem : LinearProblem
    tol : float
        Bound on the residual; the search ends well below it where float64 permits.
    limit : int
        Steps at most.
    monitor : Monitor
    start : Solution, optional
        In w.
    keep : callable, optional
        Called with (w, b) after each step, and with the optimum of a sample.

    Returns
    -------
    Solution
        Its factor is a tuple of :class:`~squaresvm.factors.MomentsFactor`, of the active rows of each column.
    """
    way = _first(problem, start, keep)
    wanted = _GOOD * tol
    while True:
        way = _descend(problem, way, wanted, limit, monitor, keep)
        done = (problem.verify(way.point).residual <= tol) | way.stalled
        if done.all() or way.steps >= limit or monitor.stopped or wanted < _GOOD**3 * tol:
            break
        wanted *= _GOOD  # The estimate of the residual was too hopeful.
    outcome = Outcome.FINISHED if done.all() or way.steps < limit else Outcome.MAX_ITER
    return Solution(
        primal=way.point.w,
        bias=way.point.b,
        n_iter=max(way.steps, 1),
        outcome=Outcome.STOPPED if monitor.stopped else outcome,
        trace=monitor.trace,
        factor=way.hessian.factors,
    )


@dataclass(frozen=True, eq=False)
class _Step:
    """Where the Hessian sends each column, and by how much the objective falls, to first order."""

    dw: FloatArray
    db: FloatArray
    decrement: FloatArray


@dataclass(frozen=True, eq=False)
class _Hessian:
    """The Hessian of each column, or of all of them, by the moments of the active rows.

    Parameters
    ----------
    moments : tuple of Moments
    bias : Bias
    is_exact : bool, default=True
        Whether it is that of all rows at the current point, and not that of some.
    pairs : tuple, default=()
        Steps, and what they changed in the gradient, each of shape (n + 1, k): what a Hessian of some rows
        has learned since.
    """

    moments: tuple[Moments, ...]
    bias: Bias
    is_exact: bool = True
    pairs: tuple[tuple[FloatArray, FloatArray], ...] = ()

    @classmethod
    def at(
        cls, problem: LinearProblem, w: FloatArray, b: FloatArray, every: int = 1
    ) -> tuple[Point, _Hessian]:
        """Return the point and the Hessian there: one pass."""
        point, moments = problem.with_curvature(w, b, every)
        return point, cls(moments, problem.bias, is_exact=every == 1)

    @cached_property
    def factors(self) -> tuple[MomentsFactor, ...]:
        """A factor for each of the moments."""
        return tuple(MomentsFactor(moments, self.bias) for moments in self.moments)

    def step(self, point: Point) -> _Step:
        """Return the Newton step of every column."""
        down = np.vstack([point.down_w, point.down_b])
        found = self._solve(down)
        return _Step(found[:-1], found[-1], (found * down).sum(axis=0))

    def _solve(self, down: FloatArray) -> FloatArray:
        """Return the inverse of the Hessian times `down`, by the two loops of the BFGS formula."""
        down, taken = down.copy(), []
        for moved, changed in reversed(self.pairs):
            scale = (moved * changed).sum(axis=0)
            share = np.divide((moved * down).sum(axis=0), scale, out=np.zeros_like(scale), where=scale > 0.0)
            down -= share * changed
            taken.append((share, scale))
        found = self._solve_by_factors(down)
        for (moved, changed), (share, scale) in zip(self.pairs, reversed(taken), strict=True):
            back = (changed * found).sum(axis=0)
            found += moved * (share - np.divide(back, scale, out=np.zeros_like(scale), where=scale > 0.0))
        return found

    def _solve_by_factors(self, down: FloatArray) -> FloatArray:
        if len(self.factors) == 1:
            return np.vstack(self.factors[0].step(down[:-1], down[-1]))
        steps = [factor.step(down[:-1, [j]], down[-1, [j]]) for j, factor in enumerate(self.factors)]
        return np.hstack([np.vstack([w, b]) for w, b in steps])

    def learned(self, before: Point, after: Point) -> _Hessian:
        """Return the Hessian after a step has shown what it changes in the gradient."""
        moved = np.vstack([after.w - before.w, after.b - before.b])
        changed = np.vstack([before.down_w - after.down_w, before.down_b - after.down_b])
        return replace(self, pairs=(*self.pairs, (moved, changed)))

    def with_columns(self, other: _Hessian, columns: BoolArray) -> _Hessian:
        """Return this Hessian with some columns of another; one that serves all columns is the same."""
        if len(self.moments) == 1:
            return other if columns.all() else self
        pairs = zip(self.moments, other.moments, columns, strict=True)
        return replace(self, moments=tuple(its if take else mine for mine, its, take in pairs))

    def estimate(self, point: Point, scale: FloatArray) -> FloatArray:
        """Return about what the residual of each column is: its root mean square over the active rows."""
        found = np.empty_like(point.b)
        for j in range(point.b.size):
            moments, g = self.moments[min(j, len(self.moments) - 1)], point.down_w[:, j]
            if moments.total == 0.0:
                found[j] = np.abs(g).max(initial=0.0)
                continue
            rows = float(g @ moments.scatter @ g) / moments.total + float(moments.mean @ g) ** 2
            # |beta|_1 is at most this, by the inequality of Cauchy and Schwarz.
            weight = np.sqrt(moments.total * point.sums.loss[j])
            along = abs(point.down_b[j]) / weight if weight > 0.0 else 0.0
            found[j] = max(np.sqrt(max(rows, 0.0)) / scale[j], along)
        return found


@dataclass(frozen=True, eq=False)
class _Way:
    """How far a search has come.

    Parameters
    ----------
    point : Point
    hessian : _Hessian
    steps : int
        Taken so far.
    stalled : ndarray of bool of shape (k,)
        Columns that rounding keeps from getting any further.
    """

    point: Point
    hessian: _Hessian
    steps: int
    stalled: BoolArray


def _first(problem: LinearProblem, start: Solution | None, keep: Keep | None = None) -> _Way:
    """Return the point to start from: the optimum of a sample, where there are many rows."""
    n, k = problem.pieces.n_features, problem.pieces.n_columns
    nowhere = np.zeros(k, dtype=bool)
    if start is not None:
        assert start.primal is not None
        return _Way(*_Hessian.at(problem, start.primal, start.bias), 0, nowhere)
    sample = None
    if problem.loss is Loss.SQUARED_HINGE:
        sample = problem.pieces.sample(max(_LEAST_SAMPLE, _SAMPLE_A_FEATURE * n))
    if sample is None:
        return _Way(*_Hessian.at(problem, np.zeros((n, k)), np.zeros(k)), 0, nowhere)
    pieces = MemoryPieces(sample.Z, sample.targets, sample.costs, sample.compiled)
    small = LinearProblem(pieces, problem.loss, problem.bias, problem.scale)
    found = _descend(small, _first(small, None), _ROUGH, _MAX_ITER, Monitor())
    if keep is not None:
        keep(found.point.w, found.point.b)
    every = _THINNED if problem.pieces.passes_are_cheap else 1
    return _Way(*_Hessian.at(problem, found.point.w, found.point.b, every), 0, nowhere)


def _descend(
    problem: LinearProblem,
    way: _Way,
    wanted: float,
    limit: int,
    monitor: Monitor,
    keep: Keep | None = None,
) -> _Way:
    """Return the way after steps until the estimated residual of every column is as small as wanted."""
    last = np.full_like(way.point.b, np.inf)
    while way.steps < limit and not monitor.stopped:
        step = way.hessian.step(way.point)
        # Where the objective cannot tell steps apart any more, the decrement still can, until it stays.
        lost = step.decrement <= _LOST * np.abs(way.point.objective)
        stalled = way.stalled | (lost & (step.decrement >= 0.25 * last)) | (step.decrement <= 0.0)
        way = replace(way, stalled=stalled)
        resting = stalled | (way.hessian.estimate(way.point, problem.scale) <= wanted)
        if resting.all():
            break
        if not way.hessian.is_exact and np.any(~resting & (step.decrement > _WORTHWHILE**2 * last)):
            # The Hessian of some rows is too far from that of all: take theirs from now on.
            point, hessian = _Hessian.at(problem, way.point.w, way.point.b)
            way, last = replace(way, point=point, hessian=hessian), np.full_like(last, np.inf)
            continue
        last = step.decrement
        way = _stepped(problem, way, step, resting, lost)
        if keep is not None:
            keep(way.point.w, way.point.b)
        if monitor.listens:
            _tell(problem, way, monitor)
    return way


def _stepped(problem: LinearProblem, way: _Way, step: _Step, resting: BoolArray, lost: BoolArray) -> _Way:
    """Return the way after one step of the columns that do not rest: a full one, or to the line's minimum."""
    point, times = way.point, np.where(resting, 0.0, 1.0)
    trial, hessian = _at(problem, way, step, times)
    enough = trial.objective <= point.objective - _ARMIJO * times * step.decrement
    short = ~resting & ~lost & ~enough
    if short.any():
        times = np.where(short, _line_minimum(problem, point, step, short), times)
        trial, hessian = _at(problem, way, step, times)
    # Where the objective cannot tell, the gradient does: a step that rounding spoiled is not taken.
    before, after = way.hessian.estimate(point, problem.scale), hessian.estimate(trial, problem.scale)
    worse = ~resting & lost & (after > before)
    if worse.any():
        trial = trial.with_columns(point, np.flatnonzero(worse))
        hessian = hessian.with_columns(way.hessian, worse)
    return _Way(trial, hessian, way.steps + 1, way.stalled | worse | (short & (times == 0.0)))


def _at(problem: LinearProblem, way: _Way, step: _Step, times: FloatArray) -> tuple[Point, _Hessian]:
    """Return point and Hessian after a step: one pass."""
    w, b = way.point.w + times * step.dw, way.point.b + times * step.db
    if problem.loss is Loss.SQUARED:
        return problem.at(w, b), way.hessian
    if not way.hessian.is_exact:
        point = problem.at(w, b)
        return point, way.hessian.learned(way.point, point)
    point, moments = problem.moved(w, b, way.point, way.hessian.moments)
    if max(its.loss_of_digits(ridge=1.0) for its in moments) > _DIGITS:
        return _Hessian.at(problem, w, b)
    return point, replace(way.hessian, moments=moments)


def _line_minimum(problem: LinearProblem, point: Point, step: _Step, wanted: BoolArray) -> FloatArray:
    """Return the time in (0, 1) at which each wanted column is least along its step.

    The derivative is piecewise linear and only grows: a grid brackets its root, a finer one within it, and
    so on.
    """
    k = point.b.size
    low, high = np.zeros(k), np.ones(k)
    slope_low, slope_high = -step.decrement, np.full(k, np.inf)
    for _ in range(_LINE_PASSES):
        shares = np.arange(1, _TIMES + 1)[:, None] / _TIMES
        times = low + shares * (high - low)
        slopes = problem.slopes(point, step.dw, step.db, times, step.decrement)
        for j in np.flatnonzero(wanted):
            above = np.flatnonzero(slopes[:, j] >= 0.0)
            first = int(above[0]) if above.size else _TIMES - 1
            if first > 0:
                low[j], slope_low[j] = times[first - 1, j], slopes[first - 1, j]
            high[j], slope_high[j] = times[first, j], slopes[first, j]
        if np.all(~wanted | (high - low <= _NARROW * high)):
            break
    rise = slope_high - slope_low
    secant = low - np.divide(slope_low, rise, out=np.zeros(k), where=rise > 0.0) * (high - low)
    return np.where(slope_high <= 0.0, high, np.clip(secant, low, high))


def _tell(problem: LinearProblem, way: _Way, monitor: Monitor) -> None:
    residual = problem.verify(way.point).residual
    for j in range(way.point.b.size):
        monitor.column = j
        objective, balance = float(way.point.objective[j]), float(way.point.sums.in_b[j])
        monitor.tell(way.steps, objective, float(residual[j]), balance)


def _polished(problem: Problem, found: Solution, tol: float) -> Solution:
    """Return the solution in multipliers where some columns are better in them.

    Made from w, a multiplier is C times a slack, and with it comes C times the rounding of the slack. Where
    the slacks are small, the multipliers of the active rows are better solved for.
    """
    residual = problem.residual(found)
    if np.all(residual <= tol):
        return found
    beta, bias = problem.multipliers(found), found.bias.copy()
    better = False
    for j in np.flatnonzero(residual > tol):
        active = beta[:, j] != 0.0
        if not 0 < active.sum() <= _POLISHED_ROWS:
            continue
        column = problem.column(int(j))
        its_beta, its_bias = EqualitySystem(column).solve(active, float(found.bias[j]))
        polished = Solution(beta=its_beta[:, None], bias=np.array([its_bias]))
        if column.residual(polished)[0] < residual[j]:
            beta[:, j], bias[j], better = its_beta, its_bias, True
    return replace(found, primal=None, beta=beta, bias=bias) if better else found
