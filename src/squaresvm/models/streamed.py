"""Models fitted from a stream: coefficients, a certificate, and for the squared loss the sums behind them."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.judging.calibration import Calibration
from squaresvm.judging.receipt import Receipt
from squaresvm.models.checkpoint import Checkpoint
from squaresvm.models.state import Settings, State, check_costs, find_classes, warn_unless_converged
from squaresvm.problem import Loss
from squaresvm.problem.linear import LinearProblem
from squaresvm.problem.products import is_wide
from squaresvm.problem.runners import Encoding, SourceRunner
from squaresvm.problem.survey import Look, Sample, Survey
from squaresvm.rows import Ids, Rows
from squaresvm.runtime.memory import available_memory
from squaresvm.runtime.progress import Progress
from squaresvm.runtime.threads import thread_count
from squaresvm.solution import Certificate, Outcome, Solution, Status
from squaresvm.solvers.base import Monitor
from squaresvm.solvers.direct import from_sums
from squaresvm.solvers.newton import search
from squaresvm.solvers.newton_products import ProductHessian
from squaresvm.streaming import Source
from squaresvm.typing import FloatArray, Matrix

__all__ = ["StreamedState", "fit_source", "forget_rows", "learn_rows", "no_rows"]

#: Rows of the sample that the first pass takes, at least and for each feature.
_SAMPLE, _SAMPLE_A_FEATURE = 20_000, 200
#: Rows of it that probabilities are calibrated on.
_CALIBRATED = 10_000
#: Bytes of such a sample at most, and rows all the same.
_SAMPLE_BYTES, _LEAST_SAMPLE = 2**28, 2000
#: Steps of a search at most.
_MAX_ITER = 200
#: Share of tol down to which a solution of the squared loss is refined: each step takes two passes.
_ENOUGH = 0.1
#: Loss of relative accuracy by subtraction beyond which sums are of no use.
_DIGITS = 1e10


@dataclass(frozen=True, eq=False)
class StreamedState(State):
    """A model without its rows.

    Parameters
    ----------
    n_rows : int
        Rows of positive weight that it was fitted on.
    counts : ndarray
        Of them, those of each class; empty for regression.
    judged : Certificate
    sums : Moments or None
        Of all rows, for the squared loss.
    """

    n_rows: int = 0
    counts: FloatArray | None = None
    judged: Certificate | None = None
    sums: Moments | None = None

    @property
    def certificate(self) -> Certificate:
        """Residual of all rows, gap, objective, status: of the last pass, or from the sums since."""
        assert self.judged is not None
        return self.judged

    def _absent(self, what: str) -> AttributeError:
        return AttributeError(f"a model fitted from a stream keeps no rows, and so has no {what}")

    @property
    def support(self) -> Any:
        """Not there."""
        raise self._absent("support vectors")

    @property
    def expansion(self) -> Any:
        """Not there."""
        raise self._absent("dual coefficients")

    dual_coef = expansion

    def detached(self) -> StreamedState:
        """Return the model itself: requests change nothing in it."""
        return self

    def flushed(self) -> StreamedState:
        """Return the model with sums that tell nothing of single rows that were taken out of them."""
        if self.sums is None or self.sums.peak is None:
            return self
        after = replace(self, sums=self.sums.blurred())
        if "calibration" in self.__dict__:
            after.__dict__["calibration"] = self.__dict__["calibration"]
        return after

    def __getstate__(self) -> dict[str, Any]:
        """Return everything: it is small."""
        return dict(self.__dict__)


def no_rows(n_features: int, y: np.ndarray[Any, Any], weights: FloatArray) -> Rows:
    """Return what stands for rows that are not kept: labels and weights, and no features worth reading."""
    return Rows(np.empty((y.shape[0], n_features)), y, weights, Ids.numbered(y.shape[0]))


def fit_source(
    source: Source,
    settings_of: Callable[[Rows], Settings],
    has_labels: bool,
    checkpoint: Any = None,
) -> StreamedState:
    """Return the model of a source: a first look, then passes until the certificate is within tol.

    Parameters
    ----------
    source : Source
    settings_of : callable
        Resolves the estimator's parameters from one row a label, with the weight of all its rows.
    has_labels : bool
        Whether y holds labels; values of a regression otherwise.
    checkpoint : path, optional

    Returns
    -------
    StreamedState
    """
    n = source.n_features
    progress = Progress(source.n_rows)
    try:
        survey = _look(source, has_labels, _sample_size(n), progress)
        progress.n_rows = source.n_rows or survey.rows
        settings = settings_of(no_rows(n, survey.labels, survey.weights))
        classes = find_classes(survey.labels, settings)
        encoding = _encoding(settings, classes)
        runner = SourceRunner(source, encoding, survey.rows, survey.sample, progress)
        scale = np.full(runner.n_columns, survey.scale or 1.0)
        problem = LinearProblem(runner, settings.loss, settings.bias, scale)
        by_sums = _goes_by_sums(settings, n)
        purpose = _purpose(settings, survey, n, by_sums)
        kept = None if checkpoint is None else Checkpoint.of(checkpoint, purpose)
        solution = _solve(problem, settings, by_sums, kept)
        certificate = _certify(problem, solution, settings.tol)
        calibration = None
        if has_labels:
            calibration = _calibrate(problem, solution, survey.sample, encoding, settings.C)
    finally:
        progress.close()
    state = StreamedState(
        rows=no_rows(n, survey.labels[:0], np.empty(0)),
        settings=settings,
        classes=classes,
        solution=replace(solution, factor=None, work={"passes": float(progress.passes)}),
        solver="direct" if by_sums else "newton",
        reason=f"a stream of {survey.rows} rows and {n} columns: {_reason(by_sums, n)}",
        operator=None,
        n_rows=survey.rows,
        counts=survey.counts,
        judged=certificate,
        sums=_sums_of(solution) if settings.loss is Loss.SQUARED else None,
    )
    if calibration is not None:
        state.__dict__["calibration"] = calibration
    warn_unless_converged(state)
    if kept is not None:
        kept.remove()
    return state


def _sample_size(n_features: int) -> int:
    """Return how many rows the first pass takes a sample of: as many as memory bears, where they are long."""
    wanted = _SAMPLE if is_wide(n_features) else max(_SAMPLE, _SAMPLE_A_FEATURE * n_features)
    return min(wanted, max(_LEAST_SAMPLE, _SAMPLE_BYTES // (8 * n_features)))


def _goes_by_sums(settings: Settings, n_features: int) -> bool:
    """Return whether to solve one system from sums of n x n numbers over the rows.

    Raises
    ------
    MemoryError
        If that was asked for by name, and there is no room for them.
    """
    if settings.loss is not Loss.SQUARED or settings.solver == "newton":
        return False
    if settings.solver != "direct":
        return not is_wide(n_features)
    # One for each block that is at work or waits, the total and what it becomes, the system and its factor.
    needed, free = 8 * n_features**2 * (thread_count() + 6), available_memory()
    if needed > free:
        raise MemoryError(
            f"solver='direct' needs about {needed / 2**30:.1f} GB for sums of {n_features} x {n_features} "
            f"numbers, and {free / 2**30:.1f} GB are free: leave solver='auto', which needs none of them"
        )
    return True


def _reason(by_sums: bool, n_features: int) -> str:
    if by_sums:
        return "one system from sums over the rows"
    if is_wide(n_features):
        return "conjugate gradients for Newton steps in w need no matrix of columns by columns"
    return "Newton steps in w need few passes"


def _sums_of(solution: Solution) -> Moments | None:
    """Return the sums that a solution of the squared loss came with."""
    factor = solution.factor[0] if isinstance(solution.factor, tuple) else solution.factor
    return factor.moments if isinstance(factor, MomentsFactor) else None


def _look(source: Source, has_labels: bool, size: int, progress: Progress) -> Survey:
    # Twice what is needed, as rows of weight zero may be among them.
    highest = min(1.0, 2.0 * size / source.n_rows) if source.n_rows else 1.0
    survey = _survey(source, Look(has_labels, size, highest), progress)
    if highest < 1.0 and survey.sample.ranks.size < 0.5 * min(size, survey.rows):
        survey = _survey(source, Look(has_labels, size), progress)  # All but few have weight zero.
    return survey


def _survey(source: Source, look: Look, progress: Progress) -> Survey:
    def counted() -> Any:
        seen = 0
        progress(0)
        for part in source.map(look):
            seen += part.rows
            if seen:  # Zero would begin another pass.
                progress(seen)
            yield part

    return Survey.of(counted(), look.size)


def _encoding(settings: Settings, classes: np.ndarray[Any, Any] | None) -> Encoding:
    if classes is None:
        weights = np.ones(1)
    else:
        named = settings.class_weight or {}
        weights = np.array([named.get(label, 1.0) for label in classes.tolist()])
        if not np.all(weights > 0.0):
            raise ValueError("a class of weight zero is no part of the problem: leave its rows out")
    check_costs(settings.C, weights, np.arange(weights.size))
    return Encoding(classes, settings.C * weights)


def _purpose(settings: Settings, survey: Survey, n_features: int, by_sums: bool) -> dict[str, Any]:
    return {
        "kept": "sums" if by_sums else "coefficients",
        "loss": settings.loss.value,
        "A": repr(settings.bias.penalty),
        "C": repr(settings.C),
        "class_weight": {str(label): weight for label, weight in (settings.class_weight or {}).items()},
        "rows": survey.rows,
        "features": n_features,
        "weights": [f"{weight:.9g}" for weight in survey.weights],
        "counts": survey.counts.tolist(),
        "largest value": f"{survey.scale:.9g}",
        "labels": [str(label) for label in survey.labels.tolist()],
    }


def _solve(
    problem: LinearProblem, settings: Settings, by_sums: bool, checkpoint: Checkpoint | None
) -> Solution:
    held = None if checkpoint is None else checkpoint.read()
    if by_sums:
        if held is None:
            moments = problem.moments()
            if checkpoint is not None:
                checkpoint.write(**_arrays_of(moments))
        else:
            moments = _moments_of(held)
        return from_sums(problem, MomentsFactor(moments, problem.bias), _ENOUGH * settings.tol)
    start = None if held is None else Solution(primal=held["w"], bias=held["b"])
    keep = None if checkpoint is None else partial(_keep, checkpoint)
    limit = _MAX_ITER if settings.max_iter is None else settings.max_iter
    return search(problem, settings.tol, limit, Monitor(), start, keep)


def _keep(checkpoint: Checkpoint, w: FloatArray, b: FloatArray) -> None:
    checkpoint.write(w=w, b=b)


def _arrays_of(moments: Moments) -> dict[str, FloatArray]:
    names = ("mean", "scatter", "target", "response", "spread")
    return {"total": np.array(moments.total), **{name: getattr(moments, name) for name in names}}


def _moments_of(held: dict[str, FloatArray]) -> Moments:
    return Moments(
        float(held["total"]),
        held["mean"],
        held["scatter"],
        held["target"],
        held["response"],
        held["spread"],
    )


def _certify(problem: LinearProblem, solution: Solution, tol: float) -> Certificate:
    assert solution.primal is not None
    verdict = problem.verdict(solution.primal, solution.bias)
    if np.all(verdict.residual <= tol):
        return verdict.certificate(Status.CONVERGED)
    rounding = problem.rounding(solution.primal, solution.bias)
    if np.all((verdict.residual <= tol) | (verdict.residual <= rounding)):
        return verdict.certificate(Status.PRECISION)
    stopped = solution.outcome is Outcome.STOPPED
    return verdict.certificate(Status.STOPPED if stopped else Status.MAX_ITER)


def _calibrate(
    problem: LinearProblem, solution: Solution, sample: Sample, encoding: Encoding, C: float
) -> Calibration:
    """Return the map to probabilities from leave-one-out values of the sample.

    No pass is needed where the Hessian was formed; else a few, and the values are approximate.
    """
    w, b = solution.primal, solution.bias
    assert w is not None
    assert encoding.classes is not None
    sample = sample.lowest(_CALIBRATED)
    targets, costs = encoding.encode(sample.y, sample.weights)
    values = np.asarray(sample.X @ w, dtype=np.float64) + b
    leverage = _leverage(problem, solution)
    for column in range(targets.shape[1]):
        error = targets[:, column] - values[:, column]
        inside = np.ones(error.size, dtype=bool)
        if problem.loss is Loss.SQUARED_HINGE:
            inside = targets[:, column] * error > 0.0
        rows = np.flatnonzero(inside)
        if rows.size == 0:
            continue
        left = 1.0 - costs[rows] * leverage(sample.X[rows], costs[rows], column)
        # y - f without the row is (y - f) / (1 - C leverage); the sample is of rows that are in the sums.
        values[rows, column] = targets[rows, column] - error[rows] / np.maximum(left, 1e-12)
    codes = np.searchsorted(encoding.classes, sample.y)
    return Calibration.fit(values, codes, costs / C)


def _leverage(problem: LinearProblem, solution: Solution) -> Callable[[Matrix, FloatArray, int], FloatArray]:
    """Return what tells the leverage of rows, given their costs and the column in which they are active."""
    factors = solution.factor if isinstance(solution.factor, tuple) else (solution.factor,)
    if not all(isinstance(factor, MomentsFactor) for factor in factors):
        assert solution.primal is not None
        return ProductHessian.at(problem, solution.primal, solution.bias)[1].leverage

    def by_factor(Z: Matrix, costs: FloatArray, column: int) -> FloatArray:
        factor = factors[min(column, len(factors) - 1)]
        assert isinstance(factor, MomentsFactor)
        return factor.leverage(Z)

    return by_factor


# Sums that learn and forget ------------------------------------------------------------------------


def _sums(state: StreamedState, what: str) -> Moments:
    if state.sums is None and state.settings.loss is Loss.SQUARED:
        n = state.rows.n_columns
        raise ValueError(
            f"{what} needs sums of {n} x {n} numbers over the rows, which are not formed for so many columns "
            "unless asked for: fit from the source again, with solver='direct' if there is memory for them"
        )
    if state.sums is None:
        raise ValueError(
            f"{what} needs sums over the rows, which tell enough for the squared loss only: fit from the "
            "source again, or use LSSVC, RelaxedLSSVC, ProximalSVC or LSSVR"
        )
    return state.sums


def _block(state: StreamedState, X: Matrix, y: np.ndarray[Any, Any], weights: FloatArray) -> Moments:
    encoding = _encoding(state.settings, state.classes)
    if state.classes is not None and not np.isin(y, state.classes).all():
        strange = y[~np.isin(y, state.classes)][0]
        raise ValueError(f"the sums know no class {strange!r}: fit from the source again")
    held = np.flatnonzero(weights > 0.0)
    targets, costs = encoding.encode(y[held], weights[held])
    return Moments.of(X[held], costs, targets)


def _counts(state: StreamedState, y: np.ndarray[Any, Any]) -> FloatArray:
    if state.classes is None:
        return np.empty(0)
    return np.bincount(np.searchsorted(state.classes, y), minlength=state.classes.size).astype(np.float64)


def learn_rows(
    state: StreamedState, X: Matrix, y: np.ndarray[Any, Any], weights: FloatArray
) -> StreamedState:
    """Return the model with new rows, which are not kept."""
    sums = _sums(state, "learning")
    block, some = _block(state, X, y, weights), weights > 0.0
    if block.total == 0.0:
        return state
    counts = None if state.counts is None else state.counts + _counts(state, y[some])
    return _moved(state, sums.plus(block), X, state.n_rows + int(some.sum()), counts)


def forget_rows(
    state: StreamedState, X: Matrix, y: np.ndarray[Any, Any], weights: FloatArray
) -> tuple[StreamedState, Receipt]:
    """Return the model without rows that it was fitted on, and the receipt."""
    begin = time.perf_counter()
    sums = _sums(state, "forgetting")
    block, some = _block(state, X, y, weights), weights > 0.0
    remaining = state.n_rows - int(some.sum())
    if remaining < 1 or block.total >= sums.total:
        raise ValueError("forgetting these rows would leave no model, or they were never all there")
    counts = None if state.counts is None else state.counts - _counts(state, y[some])
    if counts is not None and counts.size and counts.min() < 1.0:
        assert state.classes is not None
        label = state.classes[int(np.argmin(counts))]
        raise ValueError(
            f"forgetting these rows would leave none of class {label!r}, or they were never all there: "
            "fit from the source again"
        )
    moved = sums.minus(block)
    if moved.loss_of_digits() > _DIGITS:
        raise ValueError("too little would be left of the sums to be exact: fit from the source again")
    after = _moved(state, moved, X, remaining, counts)
    ids: tuple[Hashable, ...] = tuple(range(y.shape[0]))
    seconds = time.perf_counter() - begin
    return after, Receipt(ids, remaining, after.certificate.residual, True, False, seconds)


def _moved(
    state: StreamedState, sums: Moments, X: Matrix, n_rows: int, counts: FloatArray | None
) -> StreamedState:
    factor = MomentsFactor(sums, state.settings.bias)
    w, b = factor.minimum()
    gw, gb = factor.gradient(w, b)
    dw, db = factor.step(-gw, -gb)
    w, b = w + dw, b + db
    gw, gb = factor.gradient(w, b)
    dw, db = factor.step(-gw, -gb)
    # The objective is a quadratic, so half the decrement is the very distance to its minimum.
    gap = -0.5 * ((gw * dw).sum(axis=0) + gb * db)
    rows = np.abs(np.asarray(X @ gw)).max(initial=0.0)
    mean_square = ((sums.scatter @ gw) * gw).sum(axis=0) / sums.total + (sums.mean @ gw) ** 2
    typical = np.sqrt(np.maximum(mean_square, 0.0))
    residual = float(max(rows, typical.max(), np.abs(gb).max() / sums.total))
    worst = int(np.argmax(typical))
    certificate = Certificate(
        residual,
        max(0.0, float(gap[worst])),
        float(factor.objective(w, b)[worst]),
        Status.CONVERGED if residual <= state.settings.tol else Status.PRECISION,
    )
    solution = Solution(primal=w, bias=b, n_iter=state.solution.n_iter)
    return replace(state, solution=solution, n_rows=n_rows, counts=counts, judged=certificate, sums=sums)
