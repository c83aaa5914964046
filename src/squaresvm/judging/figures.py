"""Figures of predictions, each with its standard error and beside what guessing would give.

Accuracy is given with the share of the largest class, the squared error of values with their variance. Rows
count by their weights. Standard errors of shares, such as the accuracy, are those of `shares`; all others are
those of a weighted mean over independent rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

from squaresvm.judging.shares import share_of
from squaresvm.typing import BoolArray, FloatArray

__all__ = [
    "Figure",
    "accuracy_figures",
    "against_guessing",
    "confusion",
    "probability_figures",
    "rounded",
    "value_figures",
]


@dataclass(frozen=True)
class Figure:
    """One number about predictions.

    Parameters
    ----------
    name : str
    value : float
    error : float or None
        Its standard error.
    baseline : float or None
        What the guess would give that knows the labels' shares, or the mean, and no more.
    guess : str
        That guess, in words; without a baseline, why there is none.
    middle : float or None
        Of shares of rows, the middle of the interval that the error belongs to.

    Examples
    --------
    >>> from squaresvm.judging.figures import Figure
    >>> print(Figure("accuracy", 0.943, 0.01, 0.94, "the majority class 'no'"))
    accuracy 0.943 +- 0.010 (the majority class 'no': 0.940)
    """

    name: str
    value: float
    error: float | None = None
    baseline: float | None = None
    guess: str = ""
    middle: float | None = None

    def __str__(self) -> str:
        """Return the figure in words."""
        error = "" if self.error is None else f" +- {_as_error(self.error)}"
        if self.baseline is None:
            return f"{self.name} {_plain(self.value)}{error}" + (f" ({self.guess})" if self.guess else "")
        return f"{self.name} {_plain(self.value)}{error} ({self.guess}: {_plain(self.baseline)})"

    @property
    def is_above_guessing(self) -> bool:
        """Whether the figure, where more is better, is above the guess by two standard errors."""
        if self.baseline is None:
            return False
        value = self.value if self.middle is None else min(self.value, self.middle)
        return value - self.baseline > 2.0 * (self.error or 0.0)


def against_guessing(figures: Sequence[Figure]) -> str:
    """Return what to say where the first of some figures is not better than a guess; else nothing.

    Examples
    --------
    >>> from squaresvm.judging.figures import Figure, against_guessing
    >>> against_guessing([Figure("accuracy", 0.94, 0.01, 0.95, "the majority class 'no'")])
    "The accuracy is not better than the majority class 'no', within two standard errors."
    """
    main, *others = figures
    if main.baseline is None or main.is_above_guessing:
        return ""
    words = f"The {main.name} is not better than {main.guess}, within two standard errors."
    better = [each for each in others if each.name.startswith("balanced") and each.is_above_guessing]
    return f"{words} The {better[0].name}, which counts each class alike, is." if better else words


def rounded(value: float, digits: int = 4) -> str:
    """Return a number to some digits, up to a million without a power of ten.

    Examples
    --------
    >>> from squaresvm.judging.figures import rounded
    >>> rounded(0.84236), rounded(20178.58), rounded(2034.1, 2), rounded(3.2e7)
    ('0.8424', '20179', '2034', '3.2e+07')
    """
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e6 else text


def _plain(value: float) -> str:
    if 1e-2 <= abs(value) < 1e4 or value == 0.0:
        return f"{value:.3f}"
    return f"{value:.4g}" if abs(value) < 1.0 else f"{value:.6g}"


def _as_error(error: float) -> str:
    """Return a standard error: one that rounds to zero would claim certainty."""
    return f"{error:.3f}" if 1e-3 <= error < 1e3 or error == 0.0 else rounded(error, 2)


def _mean(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return a weighted mean and its standard error."""
    share = weights / weights.sum()
    mean = float(share @ values)
    spread = float(np.sqrt(share**2 @ (values - mean) ** 2))
    count = 1.0 / float(share @ share)  # As many rows of equal weight would say as much.
    return mean, spread * float(np.sqrt(count / max(count - 1.0, 1.0)))


def accuracy_figures(
    y: np.ndarray[Any, Any], predicted: np.ndarray[Any, Any], weights: FloatArray | None = None
) -> list[Figure]:
    """Return accuracy, balanced accuracy and F1 of labels.

    Parameters
    ----------
    y, predicted : ndarray of shape (m,)
    weights : ndarray of shape (m,), optional

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.judging.figures import accuracy_figures
    >>> found = accuracy_figures(np.array(["a", "a", "a", "b"]), np.array(["a", "a", "b", "b"]))
    >>> [round(figure.value, 2) for figure in found], found[0].guess
    ([0.75, 0.83, 0.73], "the majority class 'a'")
    """
    weights = np.ones(y.shape[0]) if weights is None else weights
    right = np.asarray(y == predicted)
    classes, codes = np.unique(y, return_inverse=True)
    shares = np.bincount(codes, weights=weights) / weights.sum()
    top = int(shares.argmax())
    label = classes.tolist()[top]
    accuracy = share_of(right, weights)
    recalls = [share_of(right[codes == k], weights[codes == k]) for k in range(classes.size) if shares[k] > 0]
    balanced = float(np.mean([recall.value for recall in recalls]))
    balanced_error = float(np.sqrt(sum(recall.error**2 for recall in recalls))) / len(recalls)
    balanced_middle = float(np.mean([recall.middle for recall in recalls]))
    f1 = f1_score(y, predicted, average="macro", sample_weight=weights, zero_division=0.0)
    guess = np.full(y.shape, label, dtype=y.dtype)
    f1_guess = f1_score(y, guess, average="macro", sample_weight=weights, zero_division=0.0)
    words = f"the majority class {label!r}"
    if len(recalls) > 1:
        level, chance = 1.0 / len(recalls), "guessing"
    else:
        level, chance = None, "says nothing where all rows are of one class"
    return [
        Figure("accuracy", accuracy.value, accuracy.error, float(shares[top]), words, accuracy.middle),
        Figure("balanced accuracy", balanced, balanced_error, level, chance, balanced_middle),
        Figure("macro F1", float(f1), None, float(f1_guess), words),
    ]


def probability_figures(
    y: np.ndarray[Any, Any], p: FloatArray, classes: np.ndarray[Any, Any], weights: FloatArray | None = None
) -> list[Figure]:
    """Return log loss, Brier score and, where two classes or more are there, the area under the ROC curve.

    Parameters
    ----------
    y : ndarray of shape (m,)
        Labels; one that the model does not know counts as a probability of zero, within rounding.
    p : ndarray of shape (m, n_classes)
    classes : ndarray of shape (n_classes,)
    weights : ndarray of shape (m,), optional
    """
    weights = np.ones(y.shape[0]) if weights is None else weights
    truth = (y[:, None] == classes).astype(np.float64)
    shares = weights @ truth / weights.sum()
    found = []
    for name, loss in (("log loss", _log_loss), ("Brier score", _brier)):
        value, error = _mean(loss(p, truth), weights)
        guess, _ = _mean(loss(np.broadcast_to(shares, p.shape), truth), weights)
        found.append(Figure(name, value, error, guess, "the shares of the classes"))
    present = truth.any(axis=0)
    if classes.size == 2 and present.all():
        area = roc_auc_score(truth[:, 1], p[:, 1], sample_weight=weights)
        found.append(Figure("AUC", float(area), None, 0.5, "guessing"))
    elif present.sum() > 1:
        areas = [
            roc_auc_score(truth[:, k], p[:, k], sample_weight=weights)
            for k in np.flatnonzero(present)
            if not truth[:, k].all()
        ]
        found.append(Figure("AUC, mean over classes", float(np.mean(areas)), None, 0.5, "guessing"))
    return found


def _log_loss(p: FloatArray, truth: FloatArray) -> FloatArray:
    chosen = (p * truth).sum(axis=1)
    return np.asarray(-np.log(np.maximum(chosen, np.finfo(np.float64).eps)))


def _brier(p: FloatArray, truth: FloatArray) -> FloatArray:
    halves = 2.0 if p.shape[1] == 2 else 1.0
    return np.asarray(((p - truth) ** 2).sum(axis=1) / halves)


def value_figures(y: FloatArray, predicted: FloatArray, weights: FloatArray | None = None) -> list[Figure]:
    """Return R2, root mean squared error and mean absolute error of values, beside the mean as a guess.

    Parameters
    ----------
    y, predicted : ndarray of shape (m,)
    weights : ndarray of shape (m,), optional

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.judging.figures import value_figures
    >>> y = np.array([1.0, 2.0, 3.0, 6.0])
    >>> print(value_figures(y, np.array([1.0, 2.0, 4.0, 5.0]))[1])
    RMSE 0.707 +- 0.204 (the mean: 1.871)
    """
    weights = np.ones(y.shape[0]) if weights is None else weights
    centre = float(np.average(y, weights=weights))
    squared, error = _mean((y - predicted) ** 2, weights)
    variance, _ = _mean((y - centre) ** 2, weights)
    absolute, absolute_error = _mean(np.abs(y - predicted), weights)
    middle = float(np.median(y))
    deviation, _ = _mean(np.abs(y - middle), weights)
    root = float(np.sqrt(squared))
    found = [
        Figure("RMSE", root, error / (2.0 * root) if root > 0 else 0.0, float(np.sqrt(variance)), "the mean"),
        Figure("MAE", absolute, absolute_error, deviation, "the median"),
    ]
    if variance <= 0.0:
        return found
    return [Figure("R2", 1.0 - squared / variance, error / variance, 0.0, "the mean"), *found]


def confusion(
    y: np.ndarray[Any, Any], predicted: np.ndarray[Any, Any], classes: Sequence[Any]
) -> list[list[int]]:
    """Return how many rows of each class, one a line, got each label."""
    rows = [np.asarray(y == label) for label in classes]
    found: list[BoolArray] = [np.asarray(predicted == label) for label in classes]
    return [[int(np.count_nonzero(row & column)) for column in found] for row in rows]
