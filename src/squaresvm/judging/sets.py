"""Sets of labels from models without each row: they hold the truth as often as promised, without a refit.

Sets are those of CV+ with a fold a row (Romano, Sesia and Candes, 2020). How strange label k is at x is minus
its lead over the other labels, s_k(x; f). Label k is in the set unless too many rows are less strange to the
model without them than (x, k) is:

    k is in the set if  sum_i w_i [s_{y_i}(x_i; f^(-i)) < s_k(x; f^(-i))]  <  coverage (sum w + mean w)  (1)

over all rows, or over those of class k alone. Either way at least 2 coverage - 1 of the truths are covered.
For the squared loss all those models follow from one factor:

    f^(-i)(x) = f(x) - R_i g_i(x),    g(x) = N (k(x, X), 1)                                              (2)

with R_i the leave-one-out error of row i, as in :mod:`squaresvm.judging.calibration`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from squaresvm.judging.calibration import lead
from squaresvm.judging.left_out import LeftOut
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["Alone", "by_reach", "label_sets", "limits", "one_by_one", "tie"]

#: Difference of leads, beside their size, that is rounding.
_TIE = 1e-10
#: Numbers of decision values that are compared at once.
_AT_ONCE = 2**22

#: Rows that leave one by one, what the models without each say of it, of shape (rows, k), and of the probes,
#: of shape (rows, probes, k).
Alone = tuple[slice, FloatArray, FloatArray]


def by_reach(
    centre: FloatArray, reached: FloatArray, own: FloatArray, residuals: FloatArray
) -> Iterator[Alone]:
    """Yield what the models without single rows say, by (2).

    Parameters
    ----------
    centre : ndarray of shape (probes, k)
        f at the probes.
    reached : ndarray of shape (m, probes)
        g of (2).
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
) -> BoolArray:
    """Return which labels are in the set of each probe, of shape (probes, n_classes), by (1).

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
            less_strange[k] += weights[rows][judges] @ (own_leads - leads[:, :, k] > tie(own_leads))[judges]
    return np.column_stack(less_strange) < limits(codes, weights, n_classes, coverage, by_class)


def tie(leads: FloatArray) -> FloatArray:
    """Return how far leads must be apart to differ: a row that is there twice ties with itself."""
    return np.asarray(_TIE * (1.0 + np.abs(leads)))


def limits(
    codes: IntArray, weights: FloatArray, n_classes: int, coverage: float, by_class: bool
) -> FloatArray:
    """Return the weight of less strange rows from which on each label is out, by (1)."""
    room = np.full(n_classes, weights.sum() + weights.mean())
    if by_class:
        totals = np.bincount(codes, weights, n_classes)
        room = totals + totals / np.maximum(np.bincount(codes, minlength=n_classes), 1)
    # The slack is for rounding: without weights both sides are whole numbers but for the coverage.
    return np.asarray(coverage * room * (1.0 - 1e-12))
