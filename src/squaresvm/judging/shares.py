"""How certain a share of rows is, such as an accuracy: the one place that computes it.

The usual standard error, the root of p (1 - p) / n, is zero where no row is wrong, as if no new row could be.
Agresti and Coull ("Approximate is better than 'exact' for interval estimation of binomial proportions", The
American Statistician 52(2), 1998, 119-126) add two rows that are right and two that are wrong. The error is
then never zero, and an interval of two errors around the middle holds the true share in about 95 % of all
samples, however few their rows. The added rows enter the error alone: the share shown is the one counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.typing import BoolArray, FloatArray

__all__ = ["Share", "share_of", "wilson"]

#: Rows that are added on either side.
_ADDED = 2.0


@dataclass(frozen=True)
class Share:
    """A share of rows and how certain it is.

    Parameters
    ----------
    value : float
        The share that was counted, by weight.
    middle : float
        The share with the four rows more: the middle of its interval.
    error : float
        Standard error of the middle.
    """

    value: float
    middle: float
    error: float


def share_of(hits: BoolArray, weights: FloatArray | None = None) -> Share:
    """Return the share of rows that are hits, with its standard error.

    Parameters
    ----------
    hits : ndarray of bool, shape (m,)
    weights : ndarray of shape (m,), optional
        Of the rows, at least one above 0. Each added row has the mean weight, itself weighted. Only ratios of
        weights count.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.judging.shares import share_of
    >>> found = share_of(np.ones(100, dtype=bool))
    >>> found.value, round(found.middle, 3), round(found.error, 3)
    (1.0, 0.981, 0.013)
    """
    rows = np.ones(hits.shape[0]) if weights is None else weights / weights.sum()
    total = float(rows.sum())
    typical = float(rows @ rows) / total
    right = float(rows @ hits)
    whole = total + 2.0 * _ADDED * typical
    middle = (right + _ADDED * typical) / whole
    squares = float(rows**2 @ (hits - middle) ** 2) + _ADDED * typical**2 * (middle**2 + (1.0 - middle) ** 2)
    return Share(right / total, middle, float(np.sqrt(squares)) / whole)


def wilson(share: FloatArray, counts: FloatArray, z: float = 1.96) -> tuple[FloatArray, FloatArray]:
    """Return the ends of Wilson's interval for shares, with 95 % confidence by default.

    Parameters
    ----------
    share, counts : ndarray
        Observed share, and of how many rows.
    z : float, default=1.96

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.judging.shares import wilson
    >>> low, high = wilson(np.array([0.5]), np.array([100.0]))
    >>> low.round(3), high.round(3)
    (array([0.404]), array([0.596]))
    """
    scale = 1.0 + z**2 / counts
    centre = (share + z**2 / (2.0 * counts)) / scale
    half = z / scale * np.sqrt(share * (1.0 - share) / counts + z**2 / (4.0 * counts**2))
    return centre - half, centre + half
