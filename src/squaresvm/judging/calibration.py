"""Probabilities and intervals from models without each row: no refit, no held-out rows.

The value that counts for class k is its lead over the best of the others, g_k = f_k - max_{j != k} f_j
(for two classes g = f and -f): positive for the class that is predicted, negative for the others. A map

    p_k = 1 / (1 + exp(-a_k g_k)),   a_k = a_k+ where g_k > 0, a_k- where g_k < 0                         (1)

is monotone and 0.5 at the threshold, so after normalisation the predicted class always has the largest
probability. The two slopes of each class are those of maximal likelihood on leave-one-out values, with one
pseudo-observation on either side, so that separable data give finite slopes.

Class weights move the decision away from where the classes are equally likely, and probabilities are of the
data as they come. So where they differ, the map has an offset as well,

    p_k = 1 / (1 + exp(-a_k g_k - o_k)),                                                               (1b)

also of maximal likelihood, by the rows as they come: the mean of p_k is then the share of class k, and the
predicted class need not be the likeliest.

Intervals hold the truth as often as promised. They are those of the jackknife+ of Barber et al.
(2021). With R_i the leave-one-out residual of row i and f^(-i) the model without it, the interval at x goes
from a low quantile of f^(-i)(x) - |R_i| to a high one of f^(-i)(x) + |R_i|. All those models follow from one
factor:

    f^(-i)(x) = f(x) - R_i g_i(x),    g(x) = N (k(x, X), 1)                                              (2)

with N the inverse of the bordered matrix of the fit; g_i = C_i (z_i, 1)'inv(Hessian)(x, 1) in w.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit

from squaresvm.typing import BoolArray, FloatArray

__all__ = ["Calibration", "jackknife_plus", "lead"]

#: Range of log10 of the slopes, in units of one over the typical lead.
_SLOPES = (-3.0, 3.0)
#: Rounds in which offsets of several classes are moved, and the difference of means that ends them.
_ROUNDS, _CLOSE = 50, 1e-4


@dataclass(frozen=True, eq=False)
class Calibration:
    """Monotone maps from leads to probabilities, two slopes a class, and an offset under class weights.

    Parameters
    ----------
    above : ndarray of shape (n_classes,)
        Slopes where the class leads.
    below : ndarray of shape (n_classes,)
        Slopes where it does not.
    offset : ndarray of shape (n_classes,), optional
        Logits at the threshold of the decision. None: zero, and the predicted class is the likeliest.
    independent : bool, default=False
        Whether rows may have several labels: then each has a map of its own value f_k, and nothing sums to
        one.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.judging.calibration import Calibration
    >>> decision = np.array([[-2.0], [-0.5], [0.5], [2.0]])
    >>> calibration = Calibration.fit(decision, np.array([0, 1, 0, 1]), np.ones(4))
    >>> calibration.probabilities(np.array([[0.0]]))
    array([[0.5, 0.5]])
    """

    above: FloatArray
    below: FloatArray
    offset: FloatArray | None = None
    independent: bool = False

    @classmethod
    def of(
        cls,
        decision: FloatArray,
        y: np.ndarray[Any, Any],
        classes: np.ndarray[Any, Any] | None,
        weights: FloatArray,
        with_offset: bool = False,
    ) -> Calibration:
        """Return the maps of rows with one label out of `classes`, or of rows with several."""
        if classes is None:
            return cls.of_labels(decision, y, weights)
        return cls.fit(decision, np.searchsorted(classes, y), weights, with_offset)

    @classmethod
    def of_labels(cls, decision: FloatArray, targets: FloatArray, weights: FloatArray) -> Calibration:
        """Return the map of each label by itself, from values and targets of shape (m, k)."""
        each = [
            cls.fit(decision[:, [k]], (targets[:, k] > 0).astype(np.intp), weights)
            for k in range(decision.shape[1])
        ]
        above, below = np.array([m.above[1] for m in each]), np.array([m.below[1] for m in each])
        return cls(above, below, independent=True)

    @classmethod
    def fit(
        cls,
        decision: FloatArray,
        codes: np.ndarray[tuple[int], np.dtype[np.intp]],
        weights: FloatArray,
        with_offset: bool = False,
    ) -> Calibration:
        """Return the maps of maximal likelihood.

        Parameters
        ----------
        decision : ndarray of shape (m, 1 or n_classes)
            Leave-one-out decision values.
        codes : ndarray of shape (m,)
            Position of each row's label among the classes.
        weights : ndarray of shape (m,)
            Of the rows, as the caller gave them: without class weights.
        with_offset : bool, default=False
            Whether class weights have moved the decision, so that maps need an offset.
        """
        leads = lead(decision)
        if with_offset:
            return cls._with_offset(leads, codes, weights)
        above, below = np.empty(leads.shape[1]), np.empty(leads.shape[1])
        for k in range(leads.shape[1]):
            g, own = leads[:, k], codes == k
            above[k] = _slope(g[g > 0], own[g > 0], weights[g > 0])
            below[k] = _slope(-g[g < 0], ~own[g < 0], weights[g < 0])
        if leads.shape[1] == 2:
            # The two leads are each other's negative: one map must serve both, or they would not sum to one.
            above[0], below[0] = below[1], above[1]
        return cls(above, below)

    @classmethod
    def _with_offset(
        cls, leads: FloatArray, codes: np.ndarray[tuple[int], np.dtype[np.intp]], weights: FloatArray
    ) -> Calibration:
        """Return the maps (1b)."""
        n_classes = leads.shape[1]
        if n_classes == 2:
            above, below, offset = _slopes_and_offset(leads[:, 1], codes == 1, weights)
            pair = np.array([below, above]), np.array([above, below]), np.array([-offset, offset])
            return cls(*pair)
        found = [_slopes_and_offset(leads[:, k], codes == k, weights) for k in range(n_classes)]
        above, below, offsets = np.array(found).T
        maps = cls(above, below, offsets)
        return replace(maps, offset=_balanced(maps, leads, codes, weights))

    def probabilities(self, decision: FloatArray) -> FloatArray:
        """Return probabilities of shape (rows, n_classes) that sum to one; those of labels need not."""
        if self.independent:
            p = expit(np.where(decision > 0, self.above, self.below) * decision)
            return np.where(decision > 0, np.maximum(p, np.nextafter(0.5, 1.0)), p)
        p = self._of_leads(lead(decision))
        if self.offset is not None:
            return p
        # A lead too small to show beside 0.5 still puts the predicted class on top.
        best = (decision[:, 0] > 0).astype(np.intp) if decision.shape[1] == 1 else decision.argmax(axis=1)
        (clash,) = np.nonzero(p.argmax(axis=1) != best)
        p[clash, best[clash]] = np.nextafter(p[clash].max(axis=1), 1.0)
        return p

    def _of_leads(self, leads: FloatArray) -> FloatArray:
        logits = np.where(leads > 0, self.above, self.below) * leads
        p = expit(logits if self.offset is None else logits + self.offset)
        # Where every class is next to impossible, none of them is known to be more likely.
        p = np.maximum(p, np.finfo(np.float64).tiny)
        return np.asarray(p / p.sum(axis=1, keepdims=True))


def lead(decision: FloatArray) -> FloatArray:
    """Return f_k - max_{j != k} f_j for each class, along the last axis: of one column, for two classes."""
    if decision.shape[-1] == 1:
        return np.concatenate([-decision, decision], axis=-1)
    ordered = np.partition(decision, (-2, -1), axis=-1)
    best, second = ordered[..., [-1]], ordered[..., [-2]]
    return np.where(decision == best, decision - second, decision - best)


def _slope(g: FloatArray, right: BoolArray, weights: FloatArray) -> float:
    """Return a > 0 that makes expit(a g) the likeliest probabilities of `right`, for g > 0."""
    if g.size == 0:
        return 1.0
    typical = float(np.average(g, weights=weights)) or 1.0
    # One observation of half and half at the typical lead keeps the slope finite where all are right.
    g, right = np.append(g, [typical, typical]), np.append(right, [True, False])
    weights = np.append(weights, [0.5, 0.5])

    def loss(log_slope: float) -> float:
        a = 10.0**log_slope / typical
        return -float(weights @ np.where(right, log_expit(a * g), log_expit(-a * g)))

    found = minimize_scalar(loss, bounds=_SLOPES, method="bounded", options={"xatol": 1e-4})
    return float(10.0**found.x / typical)


def _slopes_and_offset(g: FloatArray, own: BoolArray, weights: FloatArray) -> tuple[float, float, float]:
    """Return the slopes and the offset of maximal likelihood of `own`, for leads of both signs."""
    typical = float(np.average(np.abs(g), weights=weights)) or 1.0
    # Half and half at the typical lead on either side: finite where the classes are apart.
    g = np.append(g / typical, [1.0, 1.0, -1.0, -1.0])
    own, weights = np.append(own, [True, False, True, False]), np.append(weights, np.full(4, 0.25))
    parts = np.column_stack([np.maximum(g, 0.0), np.minimum(g, 0.0), np.ones(g.size)])

    def loss(at: FloatArray) -> tuple[float, FloatArray]:
        logits = parts @ at
        value = -float(weights @ np.where(own, log_expit(logits), log_expit(-logits)))
        return value, parts.T @ (weights * (expit(logits) - own))

    low, high = 10.0 ** _SLOPES[0], 10.0 ** _SLOPES[1]
    share = float(np.average(own, weights=weights))
    start = np.array([1.0, 1.0, np.log(share / (1.0 - share))])
    bounds = [(low, high), (low, high), (None, None)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-12}).x
    return float(found[0] / typical), float(found[1] / typical), float(found[2])


def _balanced(
    calibration: Calibration,
    leads: FloatArray,
    codes: np.ndarray[tuple[int], np.dtype[np.intp]],
    weights: FloatArray,
) -> FloatArray:
    """Return offsets with which the mean of each class's probability, normalised, is its share."""
    assert calibration.offset is not None
    shares = np.bincount(codes, weights=weights, minlength=leads.shape[1]) / weights.sum()
    for _ in range(_ROUNDS):
        means = np.average(calibration._of_leads(leads), axis=0, weights=weights)
        if np.abs(means - shares).max() < _CLOSE:
            break
        moved = calibration.offset + np.log(np.maximum(shares, _CLOSE) / means)
        calibration = replace(calibration, offset=moved)
    assert calibration.offset is not None
    return calibration.offset


def jackknife_plus(
    centre: FloatArray, influences: FloatArray, residuals: FloatArray, weights: FloatArray, coverage: float
) -> FloatArray:
    """Return lower and upper ends, of shape (rows, 2).

    Parameters
    ----------
    centre : ndarray of shape (rows,)
        f at the rows.
    influences : ndarray of shape (m, rows)
    residuals : ndarray of shape (m,)
        Leave-one-out residuals.
    weights : ndarray of shape (m,)
        How much each row counts in the quantiles.
    coverage : float

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.judging.calibration import jackknife_plus
    >>> residuals = np.array([-1.0, 2.0, -3.0])
    >>> jackknife_plus(np.zeros(1), np.zeros((3, 1)), residuals, np.ones(3), coverage=0.5)
    array([[-2.,  2.]])
    """
    left_out = centre - residuals[:, None] * influences
    reach = np.abs(residuals)[:, None]
    upper = _quantile(left_out + reach, weights, coverage)
    return np.column_stack([-_quantile(reach - left_out, weights, coverage), upper])


def _quantile(values: FloatArray, weights: FloatArray, level: float) -> FloatArray:
    """Return the weighted quantile of each column, the row to come counting as one at infinity."""
    order = np.argsort(values, axis=0)
    reached = np.cumsum(weights[order], axis=0) / (weights.sum() + weights.mean())
    # Without weights this is the ceil(level (m + 1))-th smallest; the slack is for rounding.
    place = (reached < level * (1.0 - 1e-12)).sum(axis=0)
    padded = np.vstack([np.take_along_axis(values, order, axis=0), np.full(values.shape[1], np.inf)])
    return np.asarray(padded[place, np.arange(values.shape[1])])
