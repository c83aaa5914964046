"""From a model, or the file of one, to a verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from squaresvm.files import load
from squaresvm.streaming import Block, Source
from squaresvm.typing import FloatArray
from squaresvm.verifier.conditions import Truth
from squaresvm.verifier.kernel_values import KernelValues
from squaresvm.verifier.multipliers import judge_multipliers
from squaresvm.verifier.primal import Chunk, judge_primal
from squaresvm.verifier.reading import Fitted, fitted_models, targets_and_weights
from squaresvm.verifier.rows_held import compare_rows
from squaresvm.verifier.sources import source_of
from squaresvm.verifier.verdict import Claim, Verdict
from squaresvm.verifier.wide import Wide

__all__ = ["verify"]

#: Bytes that computing may take at the least: a tile of one row must fit.
_LEAST_MEMORY = 2**20
#: Which of two statuses is said of both together.
_STATUSES = ("max_iter", "stopped", "precision", "converged")


def verify(model: Any, data: Any = None, *, label: str | None = None, max_memory: float = 2.0**28) -> Verdict:
    """Check what a model claims, by code that shares nothing with the code that made it.

    Kernel values, objective, residual and gap are computed from their definitions over all rows, in about 100
    bits and in the same digits on every processor, and compared with the certificate: that of the file, where
    the model came from one. Nothing is changed.

    Parameters
    ----------
    model : estimator, OneVsOne, Window, search, pipeline that ends in one, or path-like
        Fitted; or the file of a model.
    data : source, path-like, or (X, y) or (X, y, sample_weight), optional
        The rows of a model that was fitted from a stream, which holds none: they are read again, block by
        block, twice. For a model that holds its rows: rows to compare them with, which must be the same but
        for their order.
    label : str, optional
        Column of the labels, where `data` is a CSV or Parquet file, or a folder; 'label' if not given.
    max_memory : float, default=2**28
        Bytes that computing may take beside the model, and beside the blocks that a source reads ahead.

    Returns
    -------
    Verdict
        ``ok`` where nothing was found to be false; ``faults`` say what is.

    Raises
    ------
    ValueError
        If the model is not fitted, or is none; if its rows are needed and `data` is not given; if `data` has
        other columns.

    Notes
    -----
    Found to be false is a residual, gap or objective that differs from the true one by more than rounding in
    float64 can explain, whatever was changed: a multiplier, a row, a label, a weight, the bias, C, a number
    of the kernel, or the certificate; a status that the residual contradicts; coefficients of a nonlinear
    proximal SVM that are not those of its multipliers. Of a model without rows, fitted from a stream, only a
    residual or gap *above* what is claimed is false, since after `learn` and `forget_rows` its certificate is
    an upper bound.

    Not looked at are probabilities, what a search has tried, and rows without a say: those of weight zero,
    and those of the squared hinge beyond the margin, without which the optimum is the same.

    Examples
    --------
    >>> import squaresvm
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = squaresvm.RLSSVC(gamma=1e-3, C=10.0).fit(X[:200], y[:200])
    >>> verdict = squaresvm.verify(model)
    >>> verdict.ok, verdict.decision_error < 1e-3
    (True, True)
    """
    if not isinstance(max_memory, int | float) or not max_memory >= _LEAST_MEMORY:
        raise ValueError(f"max_memory must be at least {_LEAST_MEMORY} bytes, got {max_memory!r}")
    if isinstance(model, str | os.PathLike):
        model = load(model)
    models = fitted_models(model)
    source = None
    if any(each.is_streamed for each in models):
        if data is None:
            raise ValueError(
                "a model fitted from a stream keeps no rows: give the data that it was fitted on, to be read "
                "again"
            )
        source = source_of(models[0], data, label)
    verdicts = [_verdict(each, source, float(max_memory)) for each in models]
    verdict = verdicts[0] if len(verdicts) == 1 else _together(type(model).__name__, verdicts)
    if data is None or source is not None:
        return verdict
    return _with_faults(verdict, compare_rows(model, source_of(models[0], data, label)))


def _with_faults(verdict: Verdict, faults: Sequence[str]) -> Verdict:
    return Verdict(**{**verdict.__dict__, "faults": (*verdict.faults, *faults)})


# Passes over the data of a model that holds none -----------------------------------------------------


@dataclass(frozen=True, eq=False)
class _OnBlock:
    """A task on chunks of a model's problem, as one on blocks of a source."""

    task: Callable[[Chunk], Any]
    classes: np.ndarray[Any, Any] | None
    class_weight: dict[Any, float]

    def __call__(self, block: Block) -> Any:
        """Return what the task says; None where no row has a weight."""
        try:
            y, weights = targets_and_weights(block.y, block.weights, self.classes, self.class_weight)
        except LookupError as error:
            raise ValueError(
                f"{block.place}: the model knows no class {error.args[0]!r}: this is other data"
            ) from None
        Z = block.X
        if not weights.all():
            held = np.flatnonzero(weights)
            Z, y, weights = Z[held], y[held], weights[held]
        return self.task(Chunk(Z, y, weights)) if weights.size else None


# Verdicts ----------------------------------------------------------------------------------------------


def _verdict(fitted: Fitted, source: Source | None, max_memory: float) -> Verdict:
    settings, faults = fitted.settings, _impossible(fitted)
    if faults:
        return _no_verdict(fitted, faults)
    is_regression = fitted.classes is None
    semidefinite: bool | None = True
    if fitted.w is not None:

        def passes(task: Callable[[Chunk], Any]) -> Iterator[Any]:
            if source is None:
                yield task(Chunk(*fitted.problem))
                return
            on_block = _OnBlock(task, fitted.classes, settings.class_weight)
            yield from (found for found in source.map(on_block) if found is not None)

        truth = judge_primal(passes, settings, fitted.w, fitted.bias, max_memory / 8, is_regression)
    else:
        X, targets, weights = fitted.problem
        kernel = KernelValues(
            settings.kernel,
            X,
            settings.gamma,
            settings.degree,
            settings.coef0,
            fitted.given,
            max_memory,
        )
        semidefinite = True if settings.proximal else kernel.is_semidefinite
        assert fitted.beta is not None
        truth, expansion = judge_multipliers(kernel, settings, targets, weights, fitted.beta, fitted.bias)
        faults += _expansion_faults(fitted, expansion)
    if fitted.rows != truth.rows:
        faults.append(f"{fitted.what}: {fitted.rows} rows are claimed, and the data has {truth.rows}")
    return _compared(fitted, truth, faults, semidefinite)


def _impossible(fitted: Fitted) -> list[str]:
    """Return what keeps a model from being computed at all."""
    numbers = {"the bias": fitted.bias, "the multipliers": fitted.beta, "the coefficients": fitted.w}
    numbers |= {"the targets": fitted.targets, "the weights": fitted.weights}
    faults = [
        f"{fitted.what}: {name} are not all finite numbers"
        for name, array in numbers.items()
        if array is not None and not np.isfinite(array).all()
    ]
    if fitted.beta is not None and fitted.targets is not None and fitted.beta.shape != fitted.targets.shape:
        shapes = f"{fitted.beta.shape} for targets of shape {fitted.targets.shape}"
        faults.append(f"{fitted.what}: the multipliers have shape {shapes}")
    return faults


def _no_verdict(fitted: Fitted, faults: list[str]) -> Verdict:
    nan = float("nan")
    numbers = (nan, nan, nan, nan, nan, nan, nan)
    return Verdict(fitted.what, fitted.rows, fitted.claim, *numbers, None, tuple(faults))


def _expansion_faults(fitted: Fitted, expansion: tuple[Wide, FloatArray] | None) -> list[str]:
    """Return whether a proximal SVM decides by other coefficients than its multipliers stand for."""
    if expansion is None or fitted.expansion is None:
        return []
    away = np.abs((expansion[0] - fitted.expansion).hi)
    if np.all(away <= expansion[1]):
        return []
    row = int((away - expansion[1]).max(axis=1).argmax())
    return [
        f"{fitted.what}: the coefficient that row {row} decides by is not that of its multiplier: they "
        f"differ by {away[row].max():.2g}"
    ]


def _compared(fitted: Fitted, truth: Truth, faults: list[str], semidefinite: bool | None) -> Verdict:
    claim = fitted.claim
    true = (float(truth.residual.max()), float(truth.gap.sum()), float(truth.objective.sum()))
    rounding = (
        float(truth.residual_rounding.max()),
        float(truth.gap_rounding.sum()),
        float(truth.objective_rounding.sum()) * fitted.lost,
    )
    said = (claim.residual, claim.gap, claim.objective)
    for name, s, t, lost in zip(("residual", "gap", "objective"), said, true, rounding, strict=True):
        is_bound = fitted.is_streamed and name != "objective"
        if t - s <= lost and (is_bound or s - t <= lost):
            continue
        column = _column(fitted, int(truth.residual.argmax())) if name == "residual" else ""
        faults.append(
            f"{fitted.what}: the {name} is {t:.6e}{column}, and {s:.6e} is claimed: rounding explains "
            f"{lost:.1e} of the difference"
        )
    tol = fitted.settings.tol
    if claim.status == "converged" and not max(true[0], said[0]) <= tol + rounding[0]:
        faults.append(
            f"{fitted.what}: 'converged' is claimed for tol = {tol:g}, and the residual is {true[0]:.6e}"
        )
    error, notes = _decision_error(fitted, truth.decision_error, semidefinite)
    if fitted.is_silent:
        notes.append(
            f"{fitted.what}: came without a certificate: what is compared it says of itself just now"
        )
    return Verdict(
        fitted.what,
        truth.rows,
        claim,
        *true,
        true[2] - true[1],
        *rounding,
        error,
        tuple(faults),
        tuple(notes),
    )


def _column(fitted: Fitted, column: int) -> str:
    if fitted.classes is None or fitted.classes.size == 2:
        return ""
    return f" for class {fitted.classes.tolist()[column]!r}"


def _decision_error(
    fitted: Fitted, bounds: FloatArray, semidefinite: bool | None
) -> tuple[float | None, list[str]]:
    bound = float(bounds.max())
    if semidefinite is False:
        return None, [
            f"{fitted.what}: the kernel is not positive semidefinite for certain: the gap bounds nothing"
        ]
    if not np.isfinite(bound):
        return None, [f"{fitted.what}: no row settles the free bias: decision values have no bound"]
    if semidefinite is None:
        return bound, [f"{fitted.what}: the bound holds if the given kernel is positive semidefinite"]
    return bound, []


def _together(name: str, verdicts: list[Verdict]) -> Verdict:
    """Return the verdict on all pairs: worst residual, sums of gap and objective."""

    def largest(numbers: Sequence[float]) -> float:
        return float(np.max(numbers))

    def total(numbers: Sequence[float]) -> float:
        return float(np.sum(numbers))

    claims = [verdict.claimed for verdict in verdicts]
    errors = [verdict.decision_error for verdict in verdicts]
    known = [error for error in errors if error is not None]
    return Verdict(
        model=f"{name}, {len(verdicts)} pairs of classes",
        rows=sum(verdict.rows for verdict in verdicts),
        claimed=Claim(
            largest([claim.residual for claim in claims]),
            total([claim.gap for claim in claims]),
            total([claim.objective for claim in claims]),
            min((claim.status for claim in claims), key=_STATUSES.index),
        ),
        residual=largest([verdict.residual for verdict in verdicts]),
        gap=total([verdict.gap for verdict in verdicts]),
        objective=total([verdict.objective for verdict in verdicts]),
        dual_objective=total([verdict.dual_objective for verdict in verdicts]),
        residual_rounding=largest([verdict.residual_rounding for verdict in verdicts]),
        gap_rounding=total([verdict.gap_rounding for verdict in verdicts]),
        objective_rounding=total([verdict.objective_rounding for verdict in verdicts]),
        decision_error=largest(known) if len(known) == len(errors) else None,
        faults=tuple(fault for verdict in verdicts for fault in verdict.faults),
        notes=tuple(note for verdict in verdicts for note in verdict.notes),
        parts=tuple(verdicts),
    )
