"""Intervals and sets of labels that hold the truth as often as promised, from models without each row.

Intervals are those of the jackknife+ of Barber et al. (2021). With R_i the leave-one-out residual of row i
and f^(-i) the model without it, the interval at x reaches from a low quantile of f^(-i)(x) - |R_i| to a high
one of f^(-i)(x) + |R_i|. All those models follow from one factor:

    f^(-i)(x) = f(x) - R_i g_i(x),    g(x) = N (k(x, X), 1)                                              (1)

with N the inverse of the bordered matrix of the fit; g_i = C_i (z_i, 1)'inv(Hessian)(x, 1) in w.

Sets are those of CV+ with a fold a row (Romano, Sesia and Candes, 2020). How strange label k is at x is minus
its lead over the other labels, s_k(x; f). Label k is in the set unless too many rows are less strange to the
model without them than (x, k) is:

    k is in the set if  sum_i w_i [s_{y_i}(x_i; f^(-i)) < s_k(x; f^(-i))]  <  coverage (sum w + mean w)  (2)

over all rows, or over those of class k alone. Either way at least 2 coverage - 1 of the truths are covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from squaresvm.judging.calibration import lead
from squaresvm.judging.left_out import LeftOut
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["by_reach", "jackknife_plus", "label_sets", "one_by_one"]


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
    >>> from squaresvm.judging.conformal import jackknife_plus
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


#: Numbers of decision values that are compared at once.
_AT_ONCE = 2**22

#: Rows that leave one by one, what the models without each say of it, of shape (rows, k), and of the probes,
#: of shape (rows, probes, k).
Alone = tuple[slice, FloatArray, FloatArray]


def by_reach(
    centre: FloatArray, reached: FloatArray, own: FloatArray, residuals: FloatArray
) -> Iterator[Alone]:
    """Yield what the models without single rows say, by (1).

    Parameters
    ----------
    centre : ndarray of shape (probes, k)
        f at the probes.
    reached : ndarray of shape (m, probes)
        g of (1).
    own, residuals : ndarray of shape (m, k)
        Leave-one-out values and their errors.
    """
    m = own.shape[0]
    step = max(1, _AT_ONCE // max(centre.size, 1))
    for start in range(0, m, step):
        rows = slice(start, min(start + step, m))
        yield rows, own[rows], centre - reached[rows, :, None] * residuals[rows, None, :]


def one_by_one(without: LeftOut, probes: Matrix, m: int) -> Iterator[Alone]:
    """Yield what the models without single rows say, each asked by itself."""
    at = without.at(probes)
    for row in range(m):
        alone = np.array([row])
        yield slice(row, row + 1), without.values(alone), at(alone)[None]


def label_sets(
    alone: Iterable[Alone],
    codes: IntArray,
    weights: FloatArray,
    n_classes: int,
    coverage: float,
    by_class: bool,
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return which labels are in the set of each probe, of shape (probes, n_classes), by (2).

    Parameters
    ----------
    alone : iterable of Alone
        What the models without each row say: all rows, at least one.
    codes : ndarray of shape (m,)
        Position of each row's label among the classes.
    weights : ndarray of shape (m,)
        How much each row counts.
    n_classes : int
    coverage : float
    by_class : bool
        Whether a label is compared with rows of its own class alone.
    """
    less_strange: list[FloatArray | float] = [0.0] * n_classes
    for rows, own, there in alone:
        own_leads, leads = np.take_along_axis(lead(own), codes[rows, None], axis=1), lead(there)
        for k in range(n_classes):
            judges = np.flatnonzero(codes[rows] == k) if by_class else slice(None)
            less_strange[k] += weights[rows][judges] @ (own_leads > leads[:, :, k])[judges]
    room = np.full(n_classes, weights.sum() + weights.mean())
    if by_class:
        totals = np.bincount(codes, weights, n_classes)
        room = totals + totals / np.maximum(np.bincount(codes, minlength=n_classes), 1)
    # The slack is for rounding: without weights both sides are whole numbers but for the coverage.
    return np.column_stack(less_strange) < coverage * room * (1.0 - 1e-12)
