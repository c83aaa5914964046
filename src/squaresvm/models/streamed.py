"""Models fitted from a stream: coefficients, a certificate, and for the squared loss the sums behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.judging.calibration import Calibration
from squaresvm.models.model import Model, NewRows, Settings, Update
from squaresvm.models.problems import check_costs
from squaresvm.problem import Loss
from squaresvm.problem.runners import Encoding
from squaresvm.problem.verdict import SummedProblem
from squaresvm.rows.labels import same_kind, value_columns
from squaresvm.solution import Certificate, Solution
from squaresvm.streaming import Source
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["StreamedState", "class_encoding"]

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
    scale : ndarray of shape (k,) or None
        At most the largest |y| of the rows, of each target, and just that as long as the row that has it does
        not leave; None where it is not known. Residuals are divided by it.
    """

    n_features: int
    count: int
    counts: FloatArray | None
    judged: Certificate
    to_probabilities: Calibration | None = None
    sums: Moments | None = None
    scale: FloatArray | None = None

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

    @property
    def holds_rows(self) -> bool:
        """Whether the model has the rows that it is of."""
        return False

    def holding(self, what: str) -> NoReturn:
        """Raise a ValueError: there are no rows."""
        raise ValueError(
            f"{what} needs the rows, and a model fitted from a stream keeps none: fit from the source again"
        )

    def attribute(self, name: str) -> Any:
        """Raise an AttributeError: what belongs to rows is not there."""
        if name == "calibrated_on":
            return "approximate leave-one-out values of a sample of the rows"
        what = {"support": "support vectors", "dual_coef": "dual coefficients", "rows": "ids_"}
        raise AttributeError(
            f"a model fitted from a stream keeps no rows, and so has no {what.get(name, name)}"
        )

    def learn(self, new: NewRows) -> Update:
        """Return the model with new rows, which are not kept."""
        if new.ids is not None:
            raise ValueError("a model fitted from a stream keeps no rows, and so no ids: give none")
        return _update(_learned(self, new), new)

    def positions_of(self, ids: Any) -> IntArray:
        """Raise a ValueError: rows without names are forgotten by themselves."""
        raise self._has_no_ids()

    def forget(self, positions: IntArray, *, verify: bool = False) -> Update:
        """Raise a ValueError: rows without names are forgotten by themselves."""
        raise self._has_no_ids()

    @staticmethod
    def _has_no_ids() -> ValueError:
        return ValueError(
            "a model fitted from a stream keeps no rows, and so no ids: forget_rows takes the rows "
            "themselves, and forget(numbers, source=...) the source that they are in"
        )

    def forget_rows(self, gone: NewRows) -> Update:
        """Return the model without rows that it was fitted on."""
        return _update(_without(self, gone), gone)

    def forget_from(self, source: Source, numbers: list[Any]) -> Update:
        """Return the model without rows of the source that it is of, given their numbers there."""
        from squaresvm.models.source_fit import without_rows  # It makes such models.

        return without_rows(self, source, numbers)

    def variances(self, X: Matrix) -> FloatArray:
        """Return the variance of f at new rows, of shape (rows, k), of the Gaussian process that it is."""
        if self.sums is None:
            self.holding("return_std")
        alike = MomentsFactor(self.sums, self.settings.bias).leverage(X)
        return np.repeat(alike[:, None], self.solution.bias.size, axis=1)

    def detached(self) -> StreamedState:
        """Return the model itself: requests change nothing in it."""
        return self

    def flushed(self) -> StreamedState:
        """Return the model with sums that tell nothing of single rows that were taken out of them."""
        if self.sums is None or self.sums.peak is None:
            return self
        return replace(self, sums=self.sums.blurred())


def class_encoding(settings: Settings, classes: np.ndarray[Any, Any] | None, n_values: int = 1) -> Encoding:
    """Return how labels become targets and costs; a ValueError where a class has no weight."""
    if classes is None:
        weights = np.ones(1)
    else:
        named = settings.class_weight or {}
        weights = np.array([named.get(label, 1.0) for label in classes.tolist()])
        if not np.all(weights > 0.0):
            raise ValueError("a class of weight zero is no part of the problem: leave its rows out")
    check_costs(settings.C, weights, np.arange(weights.size))
    has_labels = classes is None and settings.class_weight is not None
    return Encoding(classes, settings.C * weights, n_values, has_labels)


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
            f"{what} by sums over the rows is for the squared loss (LSSVC, RelaxedLSSVC, ProximalSVC, "
            "LSSVR): fit from the source again; forget(numbers, source=...) goes on from the model"
        )
    return state.sums


def _block(state: StreamedState, X: Matrix, y: np.ndarray[Any, Any], weights: FloatArray) -> Moments:
    encoding = class_encoding(state.settings, state.classes, state.solution.bias.size)
    if state.classes is not None and not np.isin(y, state.classes).all():
        strange = y[~np.isin(y, state.classes)][0]
        raise ValueError(f"the model was fitted without class {strange!r}: fit from the source again")
    held = np.flatnonzero(weights > 0.0)
    encoding = replace(encoding, has_labels=False)  # Rows that are learned come as targets.
    targets, costs = encoding.encode(y[held], weights[held])
    return Moments.of(X[held], costs, targets).bounded(X[held], costs)


def _counts(state: StreamedState, y: np.ndarray[Any, Any]) -> FloatArray:
    if state.classes is None:
        return np.empty(0)
    return np.bincount(np.searchsorted(state.classes, y), minlength=state.classes.size).astype(np.float64)


def _update(after: StreamedState, changed: NewRows) -> Update:
    residual, rows = after.certificate.residual, int(changed.y.shape[0])
    # The residual of sums is a bound over all rows, whatever their number.
    return Update(after, residual, after.n_rows, False, False, rows)


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
        scale = np.maximum(scale, np.abs(value_columns(y[some])).max(axis=0))
    count = state.count + int(some.sum())
    return _resolved(replace(state, scale=scale, sums=sums.plus(block), count=count, counts=counts))


def _without(state: StreamedState, gone: NewRows) -> StreamedState:
    """Return the model without rows that it was fitted on."""
    sums, y = _sums(state, "forgetting"), gone.y
    block, some = _block(state, gone.X, y, gone.weights), gone.weights > 0.0
    remaining = state.n_rows - int(some.sum())
    if remaining < 1 or block.total >= sums.total:
        raise ValueError("these rows cannot be forgotten: none would remain, or some were never learned")
    counts = None if state.counts is None else state.counts - _counts(state, y[some])
    if counts is not None and counts.size and counts.min() < 1.0:
        assert state.classes is not None
        label = state.classes[int(np.argmin(counts))]
        raise ValueError(
            f"these rows cannot be forgotten: none of class {label!r} would remain, or some were "
            "never learned: fit from the source again"
        )
    moved = sums.minus(block)
    if moved.loss_of_digits() > _DIGITS:
        raise ValueError("too few rows would remain for the sums to be accurate: fit from the source again")
    scale = state.scale
    if state.classes is None and scale is not None:
        # Whether another row has as large a value is not known: the root mean square is at most the largest.
        largest = np.abs(value_columns(y[some])).max(axis=0, initial=0.0)
        scale = None if np.any(largest >= scale) else scale
    return _resolved(replace(state, scale=scale, sums=moved, count=remaining, counts=counts))


def _resolved(state: StreamedState) -> StreamedState:
    """Return the model of sums that have changed, with the certificate that they give."""
    sums = state.sums
    assert sums is not None
    factor = MomentsFactor(sums, state.settings.bias)
    w, b = factor.refined_minimum()
    certificate = SummedProblem(factor, _scales(state, sums), state.n_rows).certify(w, b, state.settings.tol)
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
    scale = np.sqrt(mean_square) if state.scale is None else state.scale
    return np.where(scale > 0.0, scale, 1.0)
