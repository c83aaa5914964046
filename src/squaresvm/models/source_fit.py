"""Fits from a source: a first look, then passes until the certificate is within tol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.factors import ColumnFactors, Moments, MomentsFactor
from squaresvm.judging.calibration import Calibration
from squaresvm.linalg.blas import times
from squaresvm.models.checkpoint import Checkpoint, purpose_of
from squaresvm.models.model import Settings, Update, warn_unless_converged
from squaresvm.models.problems import find_classes
from squaresvm.models.streamed import StreamedState, class_encoding
from squaresvm.operators import LinearOperator
from squaresvm.problem import Loss, Problem
from squaresvm.problem.linear import LinearProblem
from squaresvm.problem.passes import RowBlock
from squaresvm.problem.products import is_wide
from squaresvm.problem.runners import Encoding, SourceRunner
from squaresvm.problem.survey import Look, Sample, Survey
from squaresvm.rows import Ids, Rows
from squaresvm.runtime.arguments import check_integer
from squaresvm.runtime.progress import PassProgress
from squaresvm.runtime.resources import available_memory
from squaresvm.solution import Solution
from squaresvm.solvers.active_set import ActiveSet
from squaresvm.solvers.base import Monitor
from squaresvm.solvers.choose import choose, choose_for_source
from squaresvm.solvers.direct import from_sums
from squaresvm.solvers.newton import Newton, search
from squaresvm.solvers.newton_hessian import ProductHessian
from squaresvm.streaming import RemainingSource, Source, is_source
from squaresvm.typing import FloatArray, Matrix

__all__ = ["fit_source", "no_rows", "without_rows"]

#: Rows of the sample that the first pass takes, at least and for each feature.
_SAMPLE, _SAMPLE_A_FEATURE = 20_000, 200
#: Rows of it that probabilities are calibrated on.
_CALIBRATED = 10_000
#: Bytes of such a sample at most, and rows all the same.
_SAMPLE_BYTES, _LEAST_SAMPLE = 2**28, 2000
#: Share of tol to which multipliers are found that are then judged by the slacks that w leaves.
_CLOSER = 0.02
#: Share of the free memory that wide sparse rows of a source may take while they are fitted.
_HELD_SHARE = 0.25
#: Steps of a search at most.
_MAX_ITER = 200
#: Times tol, or its own residual, that a model may have on rows that are taken for the same again: their sums
#: differ by rounding alone, whatever their blocks.
_SAME = 10.0
_SAME_ROWS = "forgetting needs the rows that it is of, without those that were forgotten before"
#: Share of tol down to which a solution of the squared loss is refined: each step takes two passes.
_ENOUGH = 0.1


def no_rows(n_features: int, y: np.ndarray[Any, Any], weights: FloatArray) -> Rows:
    """Return what stands for rows that are not kept: labels and weights, and no features worth reading."""
    return Rows(np.empty((y.shape[0], n_features)), y, weights, Ids.numbered(y.shape[0]))


def fit_source(
    source: Source,
    settings_of: Callable[[Rows], Settings],
    has_labels: bool,
    checkpoint: Any = None,
    pass_begins: Callable[[], object] | None = None,
    start: StreamedState | None = None,
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
    pass_begins : callable, optional
        Called when a pass begins.
    start : StreamedState, optional
        A model of almost the same rows, from which a search goes on.

    Returns
    -------
    StreamedState
    """
    n = source.n_features
    progress = PassProgress(source.n_rows, begins=pass_begins)
    try:
        look = Look(has_labels, _sample_size(n), fingerprint=checkpoint is not None)
        survey = _look(source, look, progress)
        progress.n_rows = source.n_rows or survey.rows
        settings = settings_of(no_rows(n, survey.labels, survey.weights))
        classes = find_classes(survey.labels, settings)
        problem = _posed(source, survey, settings, classes, progress)
        solver, reason = choose_for_source(settings.loss, settings.solver, n)
        by_sums = solver == "direct"
        held = None
        if settings.solver == "auto" and checkpoint is None and not by_sums:
            held = _held(problem, survey, settings, n)
        purpose = purpose_of(settings, survey, n, by_sums)
        kept = None if checkpoint is None else Checkpoint.of(checkpoint, purpose)
        start_at = _carried(start, classes)
        if held is None:
            solution = _solve(problem, settings, by_sums, kept, start_at)
        else:
            solution, solver, reason = _solve_held(held, settings, start_at)
        _check_finite(solution)
        certificate = problem.certify(solution, settings.tol)
        if held is not None and certificate.residual > settings.tol:
            # Held rows are solved for in multipliers, and judged in w: rounding may part the two.
            solution = _solve(problem, settings, False, None, solution)
            reason = f"{reason}; Newton steps by passes went on from there"
            certificate = problem.certify(solution, settings.tol)
        calibration = None
        if has_labels:
            moved = settings.weighs_classes(classes)
            encoding = class_encoding(settings, classes, survey.scale.size)
            posed = problem if held is None else held.linear
            calibration = _calibrate(posed, solution, survey.sample, encoding, moved)
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
        scale=survey.scale if survey.scale.any() else None,
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
    found = ColumnFactors.among(solution.factor)
    return None if found is None else found.each[0].moments


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


def _solve(
    problem: LinearProblem,
    settings: Settings,
    by_sums: bool,
    checkpoint: Checkpoint | None,
    start: Solution | None,
) -> Solution:
    held = None if checkpoint is None else checkpoint.read()
    if by_sums:
        if held is None:
            moments = problem.moments()
            if checkpoint is not None:
                checkpoint.keep_sums(moments)
        else:
            moments = Checkpoint.sums_in(held)
        factor = MomentsFactor(moments, problem.bias)
        solution = from_sums(problem, factor, _ENOUGH * settings.tol)
        return replace(solution, factor=ColumnFactors((factor,)))
    start = start if held is None else Solution(primal=held["w"], bias=held["b"])
    keep = None if checkpoint is None else checkpoint.keep
    limit = _MAX_ITER if settings.max_iter is None else settings.max_iter
    return search(problem, settings.tol, limit, Monitor(), start, keep)


def _held(problem: LinearProblem, survey: Survey, settings: Settings, n_features: int) -> Problem | None:
    """Return the problem of wide sparse rows, held while they are fitted; None where that is not worth it."""
    if survey.is_dense or not is_wide(n_features):
        return None
    sample: Any = survey.sample.X
    size = 16.0 * sample.nnz / sample.shape[0] * survey.rows
    if size > _HELD_SHARE * available_memory():
        return None
    blocks = list(problem.runner.map(_itself))
    Z = sp.vstack([block.Z for block in blocks], format="csr")
    targets = np.concatenate([block.targets for block in blocks]).astype(np.float64, copy=False)
    costs = np.concatenate([block.costs for block in blocks])
    return Problem(LinearOperator(Z), targets, costs, settings.loss, settings.bias)


def _itself(block: RowBlock) -> RowBlock:
    return block


def _solve_held(held: Problem, settings: Settings, start: Solution | None) -> tuple[Solution, str, str]:
    """Return the solution in w of rows in memory, the name of what found it, and why that was taken."""
    Z: Any = held.operator.features
    solver, reason = choose(held, "auto")
    if isinstance(solver, ActiveSet):
        solver, reason = Newton(), "Newton steps in w, for which no matrix of rows by rows is formed"
    found = solver.solve(held, tol=_CLOSER * settings.tol, max_iter=settings.max_iter, start=start)
    if found.primal is None:
        found = replace(found, primal=times(Z.T, held.multipliers(found)), beta=None)
    size = (Z.data.nbytes + Z.indices.nbytes) / 2**20
    reason = f"{size:.1f} MB of sparse rows were held during the fit: {reason}"
    return replace(found, factor=None), solver.name, f"{reason}; {found.note}" if found.note else reason


def _carried(start: StreamedState | None, classes: np.ndarray[Any, Any] | None) -> Solution | None:
    """Return where a search goes on from: nowhere, where other classes are left than there were."""
    if start is None or not _same_classes(classes, start.classes):
        return None
    return Solution(primal=start.primal, bias=start.solution.bias)


def _same_classes(one: np.ndarray[Any, Any] | None, other: np.ndarray[Any, Any] | None) -> bool:
    return one is other if one is None or other is None else bool(np.array_equal(one, other))


def without_rows(before: StreamedState, source: Source, numbers: Iterable[Any]) -> Update:
    """Return the model without some rows of the source that it is of, by passes over the others.

    Newton's search goes on from where the model was and ends at the certificate: the model is that of a fit
    of the rows that remain, with the numbers resolved at `fit`.

    Parameters
    ----------
    before : StreamedState
    source : Source
        The rows that the model is of, those that leave included.
    numbers : iterable of int
        Of the rows that leave, counted from 0 in the order of the source.

    Returns
    -------
    Update

    Raises
    ------
    KeyError
        If the source has no row of a number.
    ValueError
        If these are not the rows of the model, or a number is named twice.
    """
    if not is_source(source):
        raise ValueError(f"source must be a source of squaresvm.streaming; got {type(source).__name__}")
    gone = [check_integer("the number of each row of the source", each, 0) for each in numbers]
    if not gone:
        raise ValueError("no rows are named: there is nothing to forget")
    remaining, has_labels = RemainingSource(source, gone), before.settings.class_weight is not None
    if source.n_rows is not None and max(gone) >= source.n_rows:
        raise KeyError(f"no row {max(gone)}: the source has rows 0 to {source.n_rows - 1}")
    _check_same_rows(before, source, has_labels)
    after = fit_source(remaining, partial(_same_numbers, before.settings), has_labels, start=before)
    if remaining.n_found != len(gone):
        raise KeyError(f"no row {max(gone)}: the source has fewer rows")
    after = replace(after, reason=f"{after.reason}; the search went on from the model with all rows")
    return Update(after, after.certificate.residual, after.n_rows, False, False, len(gone))


def _same_numbers(settings: Settings, rows: Rows) -> Settings:
    """Return the numbers resolved at `fit`, without weights of classes that are gone."""
    if not settings.class_weight:
        return settings
    left = set(rows.y.tolist())
    return replace(settings, class_weight={k: v for k, v in settings.class_weight.items() if k in left})


def _check_same_rows(before: StreamedState, source: Source, has_labels: bool) -> None:
    """Raise a ValueError where a source is not of the rows that a model is of: its residual there tells."""
    if source.n_features != before.n_features:
        raise ValueError(
            f"the source has {source.n_features} features and the model {before.n_features}: {_SAME_ROWS}"
        )
    survey = _look(source, Look(has_labels, _sample_size(source.n_features)), PassProgress(source.n_rows))
    if survey.rows != before.count:
        raise ValueError(
            f"the source has {survey.rows} rows of positive weight and the model is of {before.count}: "
            f"{_SAME_ROWS}"
        )
    labels = survey.labels if survey.labels.ndim == 1 else None
    if has_labels and not _same_classes(labels, before.classes):
        raise ValueError(f"the source has other classes than the model: {_SAME_ROWS}")
    problem = _posed(source, survey, before.settings, before.classes)
    found, known = problem.certify(before.solution, before.settings.tol), before.certificate
    if found.residual > _SAME * max(before.settings.tol, known.residual):
        raise ValueError(
            f"the model's residual on the source is {found.residual:.1e} and was {known.residual:.1e} on "
            f"the rows that it is of: {_SAME_ROWS}"
        )


def _posed(
    source: Source,
    survey: Survey,
    settings: Settings,
    classes: np.ndarray[Any, Any] | None,
    progress: Callable[[int], None] = lambda rows: None,
) -> LinearProblem:
    """Return the problem that a source poses."""
    encoding = class_encoding(settings, classes, survey.scale.size)
    runner = SourceRunner(source, encoding, survey.rows, survey.sample, progress)
    scale = np.ones(runner.n_columns)
    scale[:] = np.where(survey.scale > 0.0, survey.scale, 1.0)
    return LinearProblem(runner, settings.loss, settings.bias, scale)


def _calibrate(
    problem: LinearProblem, solution: Solution, sample: Sample, encoding: Encoding, with_offset: bool
) -> Calibration:
    """Return the map to probabilities from leave-one-out values of the sample.

    No pass is needed where the Hessian was formed; else a few, and the values are approximate.
    """
    w, b = solution.primal, solution.bias
    assert w is not None
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
    y = targets if encoding.classes is None else sample.y
    return Calibration.of(values, y, encoding.classes, sample.weights, with_offset)


def _leverage(problem: LinearProblem, solution: Solution) -> Callable[[Matrix, FloatArray, int], FloatArray]:
    """Return what tells the leverage of rows, given their costs and the column in which they are active."""
    factors = ColumnFactors.among(solution.factor)
    if factors is not None:
        return lambda Z, costs, column: factors.leverage(Z, column)
    assert solution.primal is not None
    return ProductHessian.at(problem, solution.primal, solution.bias)[1].leverage
