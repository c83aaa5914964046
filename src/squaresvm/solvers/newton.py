"""Newton's method in (w, b) for linear models of either loss, by passes over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from squaresvm.family import Loss
from squaresvm.linalg.blas import times
from squaresvm.problem import Problem
from squaresvm.problem.linear import LinearProblem, Point
from squaresvm.problem.products import is_wide
from squaresvm.problem.runners import MemoryRunner
from squaresvm.runtime.resources import threads_for_blas
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.base import IterativeSolver, Monitor
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.solvers.newton_hessian import Direction, FormedHessian, Hessian, ProductHessian
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
#: Share of the wanted residual below which a step need not go.
_SPARE = 0.3
#: Decrements below this share of the objective are lost in its rounding.
_LOST = 1e-14


@dataclass(frozen=True)
class Newton(IterativeSolver):
    """Newton steps in (w, b) for linear models, each with an exact line search.

    Large problems are solved on a sample of rows first, so that few passes over all rows are left. After the
    first of them, only rows that change sides touch the Hessian; where passes are cheap, part of the rows
    tells enough about it, and the gradients of the passes (BFGS) tell the rest. With many features, the
    Hessian is not formed: conjugate gradients find the step by passes that multiply with it.

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

    name = "newton"
    solves = "linear models on their rows, either loss, any bias"

    def accepts(self, problem: Problem) -> bool:
        """Return whether Z with K = Z Z' is at hand."""
        return problem.operator.features is not None

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets."""
        limit = _MAX_ITER if max_iter is None else max_iter
        Z = problem.operator.features
        assert Z is not None
        if start is not None and start.beta is not None:
            start = Solution(primal=times(Z.T, start.beta), bias=start.bias)
        # Passes share out blocks of rows, where those are many. Threads inside the products of few rows, and
        # in the factors of small systems between them, would wait for one another more than they work.
        with threads_for_blas():
            found = search(problem.linear, tol, limit, self._monitor(), start)
            if found.outcome != Outcome.FINISHED:
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
        Its factor is :class:`~squaresvm.factors.ColumnFactors`, of the active rows of each column; None where
        there are too many features to form any.
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
class _Way:
    """How far a search has come.

    Parameters
    ----------
    point : Point
    hessian : Hessian
    estimate : ndarray of shape (k,)
        About what the residual is.
    steps : int
        Taken so far.
    stalled : ndarray of bool of shape (k,)
        Columns that rounding keeps from getting any further.
    """

    point: Point
    hessian: Hessian
    estimate: FloatArray
    steps: int
    stalled: BoolArray


def _first(problem: LinearProblem, start: Solution | None, keep: Keep | None = None) -> _Way:
    """Return the point to start from: the optimum of a sample, where there are many rows."""
    n, k = problem.runner.n_features, problem.runner.n_columns
    if start is not None:
        assert start.primal is not None
        return _begun(problem, start.primal, start.bias)
    sample = None
    # With many features, rows that are enough of them are no sample any more.
    if problem.loss == Loss.SQUARED_HINGE and not is_wide(n):
        sample = problem.runner.sample(max(_LEAST_SAMPLE, _SAMPLE_A_FEATURE * n))
    if sample is None:
        return _begun(problem, np.zeros((n, k)), np.zeros(k))
    runner = MemoryRunner(sample.Z, sample.targets, sample.costs, sample.compiled)
    small = LinearProblem(runner, problem.loss, problem.bias, problem.scale)
    found = _descend(small, _first(small, None), _ROUGH, _MAX_ITER, Monitor())
    if keep is not None:
        keep(found.point.w, found.point.b)
    every = _THINNED if problem.runner.passes_are_cheap else 1
    return _begun(problem, found.point.w, found.point.b, every)


def _begun(problem: LinearProblem, w: FloatArray, b: FloatArray, every: int = 1) -> _Way:
    """Return the way that begins at a point; its Hessian is formed unless there are many features."""
    point: Point
    hessian: Hessian
    if is_wide(problem.runner.n_features):
        point, hessian = ProductHessian.at(problem, w, b)
    else:
        point, hessian = FormedHessian.at(problem, w, b, every)
    return _Way(point, hessian, hessian.estimate(point), 0, np.zeros(b.size, dtype=bool))


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
        step = way.hessian.step(way.point, _enough(wanted, way.estimate, way.stalled))
        # Where the objective cannot tell steps apart any more, the decrement still can, until it stays.
        lost = step.decrement <= _LOST * np.abs(way.point.objective)
        stuck = (lost & (step.decrement >= 0.25 * last)) | (step.decrement <= 0.0)
        stalled = way.stalled | (stuck & (way.estimate > wanted))
        way = replace(way, stalled=stalled)
        resting = stalled | (way.estimate <= wanted)
        if resting.all():
            break
        if not way.hessian.is_exact and np.any(~resting & (step.decrement > _WORTHWHILE**2 * last)):
            # The Hessian of some rows is too far from that of all: take theirs from now on.
            anew = _begun(problem, way.point.w, way.point.b)
            way = replace(anew, steps=way.steps, stalled=way.stalled)
            last = np.full_like(last, np.inf)
            continue
        last = step.decrement
        way = _stepped(problem, way, step, resting, lost)
        if keep is not None:
            keep(way.point.w, way.point.b)
        if monitor.listens:
            residual, balance = problem.verify(way.point).residual, way.point.sums.in_b
            monitor.tell(way.steps, way.point.objective, residual, balance)
    return way


def _enough(wanted: float, estimate: FloatArray, stalled: BoolArray) -> FloatArray:
    """Return the share of the gradient that a step may leave; all of it where a column has come to rest."""
    share = np.divide(_SPARE * wanted, estimate, out=np.ones_like(estimate), where=estimate > wanted)
    return np.where(stalled, 1.0, share)


def _stepped(problem: LinearProblem, way: _Way, step: Direction, resting: BoolArray, lost: BoolArray) -> _Way:
    """Return the way after one step of the columns that do not rest: a full one, or to the line's minimum."""
    point, times = way.point, np.where(resting, 0.0, 1.0)
    trial, hessian = _at(way, step, times)
    enough = trial.objective <= point.objective - _ARMIJO * times * step.decrement
    short = ~resting & ~lost & ~enough
    if short.any():
        times = np.where(short, _line_minimum(problem, point, step, short), times)
        trial, hessian = _at(way, step, times)
    # Where the objective cannot tell, the gradient does: a step that rounding spoiled is not taken.
    estimate = hessian.estimate(trial)
    worse = ~resting & lost & (estimate > way.estimate)
    if worse.any():
        trial = trial.with_columns(point, np.flatnonzero(worse))
        hessian = hessian.with_columns(way.hessian, worse)
        estimate = np.where(worse, way.estimate, estimate)
    stalled = way.stalled | worse | (short & (times == 0.0))
    return _Way(trial, hessian, estimate, way.steps + 1, stalled)


def _at(way: _Way, step: Direction, times: FloatArray) -> tuple[Point, Hessian]:
    """Return point and Hessian after a step: one pass."""
    return way.hessian.after(way.point, way.point.w + times * step.dw, way.point.b + times * step.db)


def _line_minimum(problem: LinearProblem, point: Point, step: Direction, wanted: BoolArray) -> FloatArray:
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


def _polished(problem: Problem, found: Solution, tol: float) -> Solution:
    """Return the solution in multipliers where some columns are better in them.

    Made from w, a multiplier is C times a slack, and with it comes C times the rounding of the slack. Where
    the slacks are small, the multipliers of the active rows are better solved for. But f is then a sum of
    K_ij beta_j, which loses all precision where columns are large: what is taken is better by its gap as
    well.
    """
    before = problem.verdict(found)
    if np.all(before.residual <= tol):
        return found
    beta, bias = problem.multipliers(found), found.bias.copy()
    better = False
    for j in np.flatnonzero(before.residual > tol):
        active = beta[:, j] != 0.0
        if not 0 < active.sum() <= _POLISHED_ROWS:
            continue
        column = problem.column(int(j))
        its_beta, its_bias = EqualitySystem(column).solve(active, float(found.bias[j]))
        after = column.verdict(Solution(beta=its_beta[:, None], bias=np.array([its_bias])))
        allowed = max(float(before.gap[j]), tol * abs(float(before.objective[j])))
        if after.residual[0] < before.residual[j] and after.gap[0] <= allowed:
            beta[:, j], bias[j], better = its_beta, its_bias, True
    return replace(found, primal=None, beta=beta, bias=bias) if better else found
