"""From a model, or the file of one, to a verdict."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from squaresvm.evidence.hashes import AbsenceProof
from squaresvm.files import load
from squaresvm.streaming import Source
from squaresvm.typing import FloatArray
from squaresvm.verifier.mathematics.judgement import Truth, judge_multipliers, judge_primal
from squaresvm.verifier.mathematics.kernel_values import KernelValues
from squaresvm.verifier.mathematics.wide import Wide
from squaresvm.verifier.passes import passes_over
from squaresvm.verifier.reading import Claim, Fitted, fitted_models, inner_model, source_of
from squaresvm.verifier.receipts import absence_of, kept_receipts, other_rows, receipt_faults

__all__ = ["Verdict", "verify"]

#: Bytes that computing may take at the least: a tile of one row must fit.
_LEAST_MEMORY = 2**20
#: Which of two statuses is said of both together.
_STATUSES = ("max_iter", "stopped", "precision", "converged")


@dataclass(frozen=True)
class Verdict:
    """What a model claims, what is true, and how far it is from the optimum of exactly its rows.

    Parameters
    ----------
    model : str
        Which model it is.
    rows : int
        Rows of positive weight that everything was computed on: all of them, never a sample.
    claimed : Claim
        What the model's certificate says, or the file's that it came from. Of several classes or pairs, the
        worst residual and the sums, as everywhere.
    residual, gap, objective : float
        The same, computed from the definitions in about 100 bits.
    residual_rounding, gap_rounding, objective_rounding : float
        How far what a certificate says, computed in float64, may be from this: rounding of sums and products
        of the sizes that occur.
    decision_error : float or None
        No decision value at the rows is farther than this from that of the optimum of the same rows; None
        where there is no such bound.
    faults : tuple of str
        What is false, and where, a sentence each.
    notes : tuple of str
        What is worth knowing and is no fault.
    parts : tuple of Verdict
        Of a model of pairs of classes, the verdict on each.
    absence : AbsenceProof or None
        That the id in question is not held, where one was.

    Examples
    --------
    >>> import squaresvm
    >>> from sklearn.datasets import load_iris
    >>> model = squaresvm.LSSVC().fit(*load_iris(return_X_y=True))
    >>> verdict = squaresvm.verify(model)
    >>> verdict.ok, verdict.rows, verdict.residual < 1e-6
    (True, 150, True)
    """

    model: str
    rows: int
    claimed: Claim
    residual: float
    gap: float
    objective: float
    residual_rounding: float
    gap_rounding: float
    objective_rounding: float
    decision_error: float | None
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    parts: tuple[Verdict, ...] = field(default=(), repr=False)
    absence: AbsenceProof | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing that is claimed was found to be false."""
        return not self.faults

    @property
    def dual_objective(self) -> float:
        """Of the feasible point that the gap was taken with: no model has an objective below it."""
        return self.objective - self.gap

    @property
    def agrees(self) -> bool:
        """Whether residual, gap and objective are those that are claimed, but for rounding."""
        return all(abs(true - said) <= rounding for _, said, true, rounding in self._numbers)

    @property
    def _numbers(self) -> list[tuple[str, float, float, float]]:
        names = ("residual", "gap", "objective")
        return [
            (name, getattr(self.claimed, name), getattr(self, name), getattr(self, f"{name}_rounding"))
            for name in names
        ]

    @property
    def findings(self) -> list[str]:
        """Faults, then notes."""
        return [*self.faults, *self.notes]

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON: numbers that JSON has none for are None."""
        found = {"ok": self.ok, "agrees": self.agrees, **asdict(self)}
        found["parts"] = [part.to_json() for part in self.parts]
        found["absence"] = None if self.absence is None else self.absence.to_json()
        return {name: _finite(value) for name, value in found.items()}

    def __str__(self) -> str:
        """Return the verdict in a few lines."""
        error = "no bound" if self.decision_error is None else f"{self.decision_error:.2e}"
        lines = [
            f"{self.model}, {self.rows} rows: {'all true' if self.ok else 'FALSE'}",
            f"  {'':<16}{'claimed':>14}{'true':>14}{'rounding':>14}",
        ]
        for name, said, true, rounding in self._numbers:
            lines.append(f"  {name:<16}{said:>14.6e}{true:>14.6e}{rounding:>14.1e}")
        lines.append(f"  decision values at the rows are within {error} of those of the optimum")
        if self.absence is not None:
            path = len(self.absence.left_path) + len(self.absence.right_path)
            lines.append(f"  the id is not held: proof of {path + 4} hashes, commitment {self.absence.root}")
        return "\n".join([*lines, *(f"  - {finding}" for finding in self.findings)])


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    return list(value) if isinstance(value, tuple) else value


def verify(
    model: Any,
    data: Any = None,
    *,
    label: str | None = None,
    receipts: Any = None,
    absent: Hashable | None = None,
    max_memory: float = 2.0**28,
) -> Verdict:
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
        block, twice, or three times where the bias is free. For a model that holds its rows: rows to compare
        them with, which must be the same but for their order.
    label : str, optional
        Column of the labels, where `data` is a CSV or Parquet file, or a folder; 'label' if not given.
    receipts : path-like, Receipt, or sequence of them or of their JSON, optional
        Receipts that somebody has kept, in a file one a line: each must be in the chain of the model.
    absent : hashable, optional
        An id that must not be held: the verdict has the proof.
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

    The receipts of the model must be a whole chain, and the last one must be of this model and of the rows
    that it holds, to the last bit: that finds what makes no difference to the optimum too, such as a row of
    weight zero.

    Not looked at are probabilities and what a search has tried; of a model without receipts, nor are rows
    without a say: those of weight zero, and those of the squared hinge beyond the margin, without which the
    optimum is the same.

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
    is_streamed = any(each.rows is None for each in models)
    if is_streamed and data is None:
        raise ValueError(
            "a model fitted from a stream keeps no rows: give the data that it was fitted on, to be read "
            "again"
        )
    source = None if data is None else source_of(models[0], data, label)
    verdicts = [_verdict(each, source, float(max_memory)) for each in models]
    verdict = verdicts[0]
    if len(verdicts) > 1:
        of_pairs = hasattr(inner_model(model), "_votes")
        kind = "pairs of classes" if of_pairs else "values of C"
        whole = _together(f"{type(model).__name__}, {len(verdicts)} {kind}", verdicts)
        verdict = whole if of_pairs else replace(whole, rows=verdict.rows)  # The same rows for each.
    faults, notes = receipt_faults(model, models, [] if receipts is None else kept_receipts(receipts))
    proof = None
    if absent is not None:
        proof, more = absence_of(model, absent)
        faults += more
    if not is_streamed and source is not None:
        faults += other_rows(model, source)
    faults, notes = [*verdict.faults, *faults], [*verdict.notes, *notes]
    return replace(verdict, faults=tuple(faults), notes=tuple(notes), absence=proof)


def _verdict(fitted: Fitted, source: Source | None, max_memory: float) -> Verdict:
    faults, what = _impossible(fitted), fitted.what
    if faults:
        nan = float("nan")
        return Verdict(what, fitted.count, fitted.claim, nan, nan, nan, nan, nan, nan, None, tuple(faults))
    semidefinite: bool | None = True
    if fitted.w is not None:
        truth = judge_primal(fitted, passes_over(fitted, source, max_memory / 8))
    else:
        kernel = KernelValues(fitted, max_memory)
        semidefinite = True if fitted.proximal else kernel.is_semidefinite
        truth, expansion = judge_multipliers(kernel)
        faults += _expansion_faults(fitted, expansion)
    if fitted.count != truth.rows:
        faults.append(f"{what}: {fitted.count} rows are claimed, and the data has {truth.rows}")
    return _compared(fitted, truth, faults, semidefinite)


# What is false -----------------------------------------------------------------------------------------


def _impossible(fitted: Fitted) -> list[str]:
    """Return what keeps a model from being computed at all."""
    numbers = {"the bias": fitted.bias, "the multipliers": fitted.beta, "the coefficients": fitted.w}
    if fitted.rows is not None:
        numbers |= {"the targets": fitted.rows.targets, "the weights": fitted.rows.weights}
    faults = [
        f"{fitted.what}: {name} are not all finite numbers"
        for name, array in numbers.items()
        if array is not None and not np.isfinite(array).all()
    ]
    if fitted.beta is not None and fitted.rows is not None and fitted.beta.shape != fitted.rows.targets.shape:
        shapes = f"{fitted.beta.shape} for targets of shape {fitted.rows.targets.shape}"
        faults.append(f"{fitted.what}: the multipliers have shape {shapes}")
    return faults


def _expansion_faults(fitted: Fitted, expansion: tuple[Wide, FloatArray] | None) -> list[str]:
    """Return whether a proximal SVM decides by other coefficients than its multipliers stand for."""
    if expansion is None or fitted.expansion is None:
        return []
    away = np.abs((expansion[0] - fitted.expansion).hi)
    if np.all(away <= expansion[1]):
        return []
    row = int((away - expansion[1]).max(axis=1).argmax())
    return [
        f"{fitted.what}: the coefficient of row {row} in f is not that of its multiplier: "
        f"they differ by {away[row].max():.2g}"
    ]


def _compared(fitted: Fitted, truth: Truth, faults: list[str], semidefinite: bool | None) -> Verdict:
    what, claim, tol, classes = fitted.what, fitted.claim, fitted.tol, fitted.classes
    numbers = (
        *(float(truth.residual.max()), float(truth.gap.sum()), float(truth.objective.sum())),
        *(float(truth.residual_rounding.max()), float(truth.gap_rounding.sum())),
        float(truth.objective_rounding.sum()) * fitted.lost,
    )
    error, notes = _decision_error(what, float(truth.decision_error.max()), semidefinite)
    if fitted.is_silent:
        notes.append(f"{what}: has no stored certificate: the one that it computes now is compared")
    found = Verdict(what, truth.rows, claim, *numbers, error, (), tuple(notes))
    for name, said, true, lost in found._numbers:
        is_bound = fitted.rows is None and name != "objective"
        if true - said <= lost and (is_bound or said - true <= lost):
            continue
        column = ""
        if name == "residual" and classes is not None and classes.size > 2:
            column = f" for class {classes.tolist()[int(truth.residual.argmax())]!r}"
        faults.append(
            f"{what}: the {name} is {true:.6e}{column}, and {said:.6e} is claimed: rounding explains "
            f"{lost:.1e} of the difference"
        )
    if claim.status == "converged" and not max(numbers[0], claim.residual) <= tol + numbers[3]:
        faults.append(
            f"{what}: 'converged' is claimed for tol = {tol:g}, and the residual is {numbers[0]:.6e}"
        )
    return replace(found, faults=tuple(faults))


def _decision_error(what: str, bound: float, semidefinite: bool | None) -> tuple[float | None, list[str]]:
    if semidefinite is False:
        return None, [f"{what}: the kernel may not be positive semidefinite: then the gap is no bound"]
    if not np.isfinite(bound):
        return None, [f"{what}: no row determines the free bias: decision values have no bound"]
    if semidefinite is None:
        return bound, [f"{what}: the bound holds if the given kernel is positive semidefinite"]
    return bound, []


def _together(what: str, parts: list[Verdict]) -> Verdict:
    """Return the verdict on several models: worst residual, sums of gap and objective."""

    def joined(of: Sequence[Any], ending: str = "") -> tuple[float, float, float]:
        residual, gap, objective = (
            [getattr(one, word + ending) for one in of] for word in ("residual", "gap", "objective")
        )
        return float(np.max(residual)), float(np.sum(gap)), float(np.sum(objective))

    claims, errors = [one.claimed for one in parts], [one.decision_error for one in parts]
    return Verdict(
        what,
        sum(one.rows for one in parts),
        Claim(*joined(claims), status=min((one.status for one in claims), key=_STATUSES.index)),
        *joined(parts),
        *joined(parts, "_rounding"),
        decision_error=None if None in errors else max(error for error in errors if error is not None),
        faults=tuple(fault for one in parts for fault in one.faults),
        notes=tuple(note for one in parts for note in one.notes),
        parts=tuple(parts),
    )
