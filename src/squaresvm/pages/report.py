"""What can be said of a model from its own rows: how good it is, how we know, and which rows stand out."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, r2_score

from squaresvm.estimators.requests import Updating
from squaresvm.judging.calibration import lead
from squaresvm.judging.figures import Figure, accuracy_figures, value_figures
from squaresvm.models.model import labels_of
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.state import State
from squaresvm.problem import Loss
from squaresvm.solution import Certificate
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = ["Report", "StandoutRow", "examine", "groups"]

#: Rows of a group of rows with similar probabilities at least, and groups at most.
_GROUP_ROWS, _MOST_GROUPS = 20, 10

#: Support vectors up to which each is left out by a solve of its own, where there is no formula.
_FEW_SUPPORT_ROWS = 400


@dataclass(frozen=True)
class StandoutRow:
    """A row that stands out.

    Parameters
    ----------
    id : hashable
    label : str
        Its label or value.
    expected : str
        What the model without the row says.
    value : float
        By how much it stands out.
    """

    id: Hashable
    label: str
    expected: str
    value: float


@dataclass(frozen=True, eq=False)
class Report:
    """What `examine` found.

    Parameters
    ----------
    certificate : Certificate
    figures : list of Figure
        Leave-one-out accuracy or R2 and others, by sample weight, each with its standard error and beside a
        guess; none where there is one row only.
    is_exact : bool
        Whether that is exact, or of a fixed active set.
    margins : ndarray or None
        Margin of each row by the model without it; residuals for regression.
    brier : float or None
        Brier score of the calibrated leave-one-out probabilities: 0 is best.
    shares : tuple of ndarray or None
        Predicted probability, observed share and count in groups of rows.
    influential : list of StandoutRow
        Whose absence changes the decision at their own place most.
    suspects : list of StandoutRow
        Whose label the model without them contradicts most.
    counts : ndarray of shape (k, k) or None
        Confusion matrix of the rows left out: those of class i that were predicted as class j.
    predictions : tuple of ndarray or None
        Actual and leave-one-out values of a regression, of one target.
    """

    certificate: Certificate
    figures: list[Figure]
    is_exact: bool
    margins: FloatArray | None
    brier: float | None
    shares: tuple[FloatArray, FloatArray, FloatArray] | None
    influential: list[StandoutRow]
    suspects: list[StandoutRow]
    counts: IntArray | None = None
    predictions: tuple[FloatArray, FloatArray] | None = None

    @property
    def score(self) -> float | None:
        """Leave-one-out accuracy or R2."""
        return self.figures[0].value if self.figures else None


def examine(model: Updating, most: int = 8) -> Report:
    """Judge a model by leaving each of its rows out.

    Parameters
    ----------
    model : estimator
        Fitted.
    most : int, default=8
        Largest number of rows to name.

    Returns
    -------
    Report

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> from squaresvm.pages.report import examine
    >>> report = examine(LSSVC().fit(*load_iris(return_X_y=True)))
    >>> round(report.score, 3), report.suspects[0].label, report.suspects[0].expected
    (0.947, '2', '1')
    """
    with REQUESTS:
        state: State = model._holding("a report")
        certificate, problem = state.certificate, state.problem
        if problem.n_rows < 2:
            return Report(certificate, [], True, None, None, None, [], [])
        is_exact = problem.loss == Loss.SQUARED or int(state.support.size) <= _FEW_SUPPORT_ROWS
        left_out = state.leave_one_out(fixed=not is_exact)
        decision = problem.decision(state.solution)
    change = np.abs(decision - left_out).max(axis=1)
    if state.classes is None:
        return _of_values(state, certificate, left_out, change, most)
    return _of_classes(model, state, left_out, change, is_exact, most)


def _of_values(
    state: State, certificate: Certificate, left_out: FloatArray, change: FloatArray, most: int
) -> Report:
    y, weights = state.problem.targets, state.given_weights[state.held]
    residuals = y - left_out
    expected = [", ".join(f"{value:.6g}" for value in values) for values in left_out]
    # Of several values the one that is furthest off, by the spread of its residuals.
    spread = np.maximum(np.abs(residuals).mean(axis=0), np.finfo(np.float64).tiny)
    relative = np.abs(residuals / spread)
    residual = residuals[np.arange(y.shape[0]), relative.argmax(axis=1)]
    largest = np.argsort(-relative.max(axis=1), kind="stable")
    return Report(
        certificate=certificate,
        figures=_figures_of_values(y, left_out, weights),
        is_exact=True,
        margins=residual,
        brier=None,
        shares=None,
        influential=_rows(state, expected, change, np.argsort(-change, kind="stable")[:most]),
        suspects=_rows(state, expected, residual, largest[:most]),
        predictions=(y[:, 0], left_out[:, 0]) if y.shape[1] == 1 else None,
    )


def _figures_of_values(y: FloatArray, left_out: FloatArray, weights: FloatArray) -> list[Figure]:
    if y.shape[1] == 1 and (found := value_figures(y[:, 0], left_out[:, 0], weights))[0].name == "R2":
        return found
    # Several values, or one that is the same in all rows.
    return [Figure("R2", float(r2_score(y, left_out, sample_weight=weights)), None, 0.0, "the mean")]


def _of_classes(
    model: Any, state: State, left_out: FloatArray, change: FloatArray, is_exact: bool, most: int
) -> Report:
    assert state.classes is not None
    y, weights = state.rows.y[state.held], state.given_weights[state.held]
    codes = np.searchsorted(state.classes, y)
    predicted = labels_of(state, left_out)
    margins = lead(left_out)[np.arange(y.size), codes]
    p = model._calibrated()[1].probabilities(left_out)
    binary = state.classes.size == 2
    truth = np.eye(state.classes.size)[codes]
    squares = ((p - truth) ** 2).sum(axis=1) / (2.0 if binary else 1.0)
    shares = groups(p[:, 1], codes == 1) if binary else groups(p.max(axis=1), predicted == y)
    expected = [str(label) for label in predicted.tolist()]
    order = np.argsort(margins, kind="stable")
    return Report(
        certificate=state.certificate,
        figures=accuracy_figures(y, predicted, weights),
        is_exact=is_exact,
        margins=margins,
        brier=float(np.average(squares, weights=weights)),
        shares=shares,
        influential=_rows(state, expected, change, np.argsort(-change, kind="stable")[:most]),
        suspects=_rows(state, expected, margins, order[margins[order] < 0][:most]),
        counts=confusion_matrix(y, predicted, labels=state.classes),
    )


def _rows(state: State, expected: list[str], values: FloatArray, chosen: Any) -> list[StandoutRow]:
    names, labels = state.rows.ids.values, state.rows.y
    found = []
    for position in chosen.tolist():
        place = state.held[position]
        label = labels[place : place + 1].tolist()[0]
        several = label if isinstance(label, list) else [label]
        text = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in several)
        name = names[place : place + 1].tolist()[0]
        found.append(StandoutRow(name, text, expected[position], float(values[position])))
    return found


def groups(p: FloatArray, truth: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean probability, observed share and count of groups of about as many rows each.

    Rows are parted at quantiles of their probability, and those of equal probability stay together.

    Parameters
    ----------
    p : ndarray of shape (m,)
    truth : ndarray of shape (m,)

    Returns
    -------
    tuple of ndarray
        In the order of the probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.pages.report import groups
    >>> p = np.linspace(0.0, 1.0, 60)
    >>> predicted, observed, counts = groups(p, p > 0.5)
    >>> counts
    array([20., 20., 20.])
    """
    number = int(np.clip(p.size // _GROUP_ROWS, 1, _MOST_GROUPS))
    edges = np.unique(np.quantile(p, np.arange(1, number) / number))
    group = np.searchsorted(edges, p, side="right")
    counts = np.bincount(group).astype(np.float64)
    used = counts > 0
    predicted = np.bincount(group, weights=p)[used] / counts[used]
    observed = np.bincount(group, weights=truth)[used] / counts[used]
    return predicted, observed, counts[used]
