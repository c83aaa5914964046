"""Models fitted from a stream: coefficients, a certificate, and for the squared loss the sums behind them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.judging.calibration import Calibration
from squaresvm.models.checkpoint import Checkpoint
from squaresvm.models.model import Model, NewRows, Settings, Update, warn_unless_converged
from squaresvm.models.problems import check_costs, find_classes
from squaresvm.problem import Loss
from squaresvm.problem.linear import LinearProblem
from squaresvm.problem.products import is_wide
from squaresvm.problem.runners import Encoding, SourceRunner
from squaresvm.problem.summed import SummedProblem
from squaresvm.problem.survey import Look, Sample, Survey
from squaresvm.rows import Ids, Rows
from squaresvm.rows.labels import same_kind
from squaresvm.runtime.progress import PassProgress
from squaresvm.solution import Certificate, Solution
from squaresvm.solvers.base import Monitor
from squaresvm.solvers.choose import choose_for_source
from squaresvm.solvers.direct import from_sums
from squaresvm.solvers.newton import search
from squaresvm.solvers.newton_products import ProductHessian
from squaresvm.streaming import Source
from squaresvm.typing import FloatArray, Matrix

__all__ = ["StreamedState", "fit_source", "no_rows"]

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


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamedState(Model):
    """A model without its rows.

    Parameters
    ----------
    n_features : int
    count : int
        Rows of positive weight that it was fitted on.
    counts : ndarray
        Of them, those of each class; empty for regression.
    judged : Certificate
        Of the last pass, or from the sums since.
    to_probabilities : Calibration or None
        From the sample of the fit, for classifiers.
    sums : Moments or None
        Of all rows, for the squared loss.
    scale : float or None
        At most the largest |y| of the rows, and just that as long as the row that has it does not leave;
        None where it is not known. Residuals are divided by it.
    """

    n_features: int
    count: int
    counts: FloatArray | None
    judged: Certificate
    to_probabilities: Calibration | None = None
    sums: Moments | None = None
    scale: float | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight that the model is of."""
        return self.count

    @property
    def certificate(self) -> Certificate:
        """Residual of all rows, gap, objective, status: of the last pass, or from the sums since."""
        return self.judged

    @property
    def calibration(self) -> Calibration | None:
        """The map to probabilities."""
        return self.to_probabilities

    @property
    def primal(self) -> FloatArray:
        """The vector w, of shape (n, k)."""
        assert self.solution.primal is not None
        return self.solution.primal

    def like_held(self, X: Matrix) -> Matrix:
        """Return new rows as they are."""
        return X

    def rows_for(self, what: str) -> Rows:
        """Raise a ValueError: there are no rows."""
        raise ValueError(
            f"{what} needs the rows, and a model fitted from a stream keeps none: fit from the source again"
        )

    def attribute(self, name: str) -> Any:
        """Raise an AttributeError: what belongs to rows is not there."""
        what = {"support": "support vectors", "dual_coef": "dual coefficients", "rows": "ids_"}
        raise AttributeError(
            f"a model fitted from a stream keeps no rows, and so has no {what.get(name, name)}"
        )

    def learn(self, new: NewRows) -> Update:
        """Return the model with new rows, which are not kept."""
        if new.ids is not None:
            raise ValueError("a model fitted from a stream keeps no rows, and so no ids: give none")
        return _update(_learned(self, new), new)

    def forget(self, ids: Any, *, verify: bool = False) -> tuple[Update, tuple[Hashable, ...]]:
        """Raise a ValueError: rows without names are forgotten by themselves."""
        raise ValueError(
            "a model fitted from a stream keeps no rows, and so no ids: forget_rows takes the rows themselves"
        )

    def forget_rows(self, gone: NewRows) -> Update:
        """Return the model without rows that it was fitted on."""
        return _update(_without(self, gone), gone)

    def detached(self) -> StreamedState:
        """Return the model itself: requests change nothing in it."""
        return self

    def flushed(self) -> StreamedState:
        """Return the model with sums that tell nothing of single rows that were taken out of them."""
        if self.sums is None or self.sums.peak is None:
            return self
        return replace(self, sums=self.sums.blurred())


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
    progress = PassProgress(source.n_rows)
    try:
        look = Look(has_labels, _sample_size(n), fingerprint=checkpoint is not None)
        survey = _look(source, look, progress)
        progress.n_rows = source.n_rows or survey.rows
        settings = settings_of(no_rows(n, survey.labels, survey.weights))
        classes = find_classes(survey.labels, settings)
        encoding = _encoding(settings, classes)
        runner = SourceRunner(source, encoding, survey.rows, survey.sample, progress)
        scale = np.full(runner.n_columns, survey.scale or 1.0)
        problem = LinearProblem(runner, settings.loss, settings.bias, scale)
        solver, reason = choose_for_source(settings.loss, settings.solver, n)
        by_sums = solver == "direct"
        purpose = _purpose(settings, survey, n, by_sums)
        kept = None if checkpoint is None else Checkpoint.of(checkpoint, purpose)
        solution = _solve(problem, settings, by_sums, kept)
        _check_finite(solution)
        certificate = problem.certify(solution, settings.tol)
        calibration = None
        if has_labels:
            calibration = _calibrate(problem, solution, survey.sample, encoding, settings.C)
    finally:
        progress.close()
    state = StreamedState(
        settings=settings,
        classes=classes,
        solution=replace(solution, factor=None, work={"passes": float(progress.passes)}),
        solver=solver,
        reason=f"a stream of {survey.rows} rows and {n} columns: {reason}",
        n_features=n,
        count=survey.rows,
        counts=survey.counts,
        judged=certificate,
        to_probabilities=calibration,
        sums=_sums_of(solution) if settings.loss == Loss.SQUARED else None,
        scale=survey.scale or None,
    )
    warn_unless_converged(state)
    if kept is not None:
        kept.remove()
    return state


def _check_finite(solution: Solution) -> None:
    """Raise a ValueError where sums over the rows have left the range of float64."""
    if (
        not np.isfinite(solution.bias).all()
        or solution.primal is None
        or not np.isfinite(solution.primal).all()
    ):
        raise ValueError(
            "sums over the rows of the source are too large for float64: scale the columns, whose squares "
            "must be far below 1e308"
        )


def _sample_size(n_features: int) -> int:
    """Return how many rows the first pass takes a sample of: as many as memory bears, where they are long."""
    wanted = _SAMPLE if is_wide(n_features) else max(_SAMPLE, _SAMPLE_A_FEATURE * n_features)
    return min(wanted, max(_LEAST_SAMPLE, _SAMPLE_BYTES // (8 * n_features)))


def _sums_of(solution: Solution) -> Moments | None:
    """Return the sums that a solution of the squared loss came with."""
    factor = solution.factor[0] if isinstance(solution.factor, tuple) else solution.factor
    return factor.moments if isinstance(factor, MomentsFactor) else None


def _look(source: Source, look: Look, progress: PassProgress) -> Survey:
    # Twice what is needed, as rows of weight zero may be among them.
    highest = min(1.0, 2.0 * look.size / source.n_rows) if source.n_rows else 1.0
    survey = _survey(source, replace(look, highest=highest), progress)
    if highest < 1.0 and survey.sample.ranks.size < 0.5 * min(look.size, survey.rows):
        survey = _survey(source, look, progress)  # All but few have weight zero.
    return survey


def _survey(source: Source, look: Look, progress: PassProgress) -> Survey:
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
        "data": f"{survey.fingerprint:016x}",
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
    bounds = np.array([moments.largest, moments.lightest], dtype=np.float64)
    arrays = {name: getattr(moments, name) for name in names}
    return {"total": np.array(moments.total), "bounds": bounds, **arrays}


def _moments_of(held: dict[str, FloatArray]) -> Moments:
    sums = Moments(
        float(held["total"]),
        held["mean"],
        held["scatter"],
        held["target"],
        held["response"],
        held["spread"],
    )
    if "bounds" not in held or not np.isfinite(held["bounds"]).all():
        return sums
    largest, lightest = held["bounds"].tolist()
    return replace(sums, largest=largest, lightest=lightest)


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
        if problem.loss == Loss.SQUARED_HINGE:
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
    if state.sums is None and state.settings.loss == Loss.SQUARED:
        n = state.n_features
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
    return Moments.of(X[held], costs, targets).bounded(X[held], costs)


def _counts(state: StreamedState, y: np.ndarray[Any, Any]) -> FloatArray:
    if state.classes is None:
        return np.empty(0)
    return np.bincount(np.searchsorted(state.classes, y), minlength=state.classes.size).astype(np.float64)


def _update(after: StreamedState, changed: NewRows) -> Update:
    residual, rows = after.certificate.residual, int(changed.y.shape[0])
    # The residual of sums is a bound over all rows, whatever their number.
    return Update(after, residual, after.n_rows, False, False, rows, commit=_nothing)


def _nothing() -> None:
    """Do nothing: nobody shares anything with this model."""


def _learned(state: StreamedState, new: NewRows) -> StreamedState:
    """Return the model with new rows, which are not kept."""
    sums = _sums(state, "learning")
    y = new.y if state.classes is None else same_kind(new.y, state.classes)
    block, some = _block(state, new.X, y, new.weights), new.weights > 0.0
    if block.total == 0.0:
        return state
    counts = None if state.counts is None else state.counts + _counts(state, y[some])
    scale = state.scale
    if state.classes is None and scale is not None:
        scale = max(scale, float(np.abs(np.asarray(y[some], dtype=np.float64)).max()))
    count = state.count + int(some.sum())
    return _resolved(replace(state, scale=scale, sums=sums.plus(block), count=count, counts=counts))


def _without(state: StreamedState, gone: NewRows) -> StreamedState:
    """Return the model without rows that it was fitted on."""
    sums, y = _sums(state, "forgetting"), gone.y
    block, some = _block(state, gone.X, y, gone.weights), gone.weights > 0.0
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
    scale = state.scale
    if state.classes is None and scale is not None:
        # Whether another row has as large a value is not known: the root mean square is at most the largest.
        largest = float(np.abs(np.asarray(y[some], dtype=np.float64)).max(initial=0.0))
        scale = None if largest >= scale else scale
    return _resolved(replace(state, scale=scale, sums=moved, count=remaining, counts=counts))


def _resolved(state: StreamedState) -> StreamedState:
    """Return the model of sums that have changed, with the certificate that they give."""
    sums = state.sums
    assert sums is not None
    problem = SummedProblem(MomentsFactor(sums, state.settings.bias), _scales(state, sums), state.n_rows)
    w, b = problem.solution()
    certificate = problem.certify(w, b, state.settings.tol)
    reason = "squared loss, linear: sums over the rows were updated, and one small system solved"
    solution = Solution(primal=w, bias=b)
    # The map to probabilities was made with rows that may have left.
    changed = replace(state, solution=solution, judged=certificate, to_probabilities=None)
    return replace(changed, solver="direct", reason=reason)


def _scales(state: StreamedState, sums: Moments) -> FloatArray:
    """Return what residuals are divided by: 1 for classes, else at most the largest |y|."""
    if state.classes is not None:
        return np.ones_like(sums.target)
    mean_square = np.maximum(sums.spread / sums.total, 0.0) + sums.target**2
    scale = np.sqrt(mean_square) if state.scale is None else np.full_like(sums.target, state.scale)
    return np.where(scale > 0.0, scale, 1.0)
