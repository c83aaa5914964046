"""Weights that bound the influence of outliers: weighted least squares SVM (Suykens et al. 2002).

A least squares fit follows every row, also one that is wrong. After a first fit, rows whose residual is large
for the spread of all residuals get less weight, and the fit is repeated:

    v_i = 1                                     where |e_i / s| <= c1
          (c2 - |e_i / s|) / (c2 - c1)          where c1 <= |e_i / s| <= c2                               (1)
          1e-4                                  beyond, and at least that

with e_i = y_i - f(x_i) and s = 1.483 times the median absolute deviation of the residuals from their median,
the standard deviation where they are normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from squaresvm.runtime.arguments import check_integer
from squaresvm.typing import FloatArray

__all__ = ["Robust", "robust_weights"]

#: Makes the median absolute deviation the standard deviation of normal residuals.
_MAD_TO_DEVIATION = 1.482602218505602
#: What a row keeps, so that it stays part of the problem.
_MIN_WEIGHT = 1e-4


@dataclass(frozen=True)
class Robust:
    """How rows with large residuals lose weight.

    Parameters
    ----------
    rounds : int, default=1
        Fits after the first; fewer where the weights no longer change.
    c1, c2 : float, default=2.5 and 3.0
        Standardised residuals at which a row begins to lose weight and has lost it.

    Examples
    --------
    >>> from squaresvm import LSSVR
    >>> from squaresvm.judging.robust import Robust
    >>> LSSVR(robust=Robust(rounds=3, c1=2.0)).robust.c2
    3.0
    """

    rounds: int = 1
    c1: float = 2.5
    c2: float = 3.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_integer("rounds", self.rounds, 0)
        for name in ("c1", "c2"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not np.isfinite(float(value)):
                raise ValueError(f"{name} must be a finite number; got {value!r}")
        if not 0.0 < self.c1 < self.c2:
            raise ValueError(f"c1 must be above 0 and below c2; got c1={self.c1!r}, c2={self.c2!r}")

    @classmethod
    def of(cls, given: Any) -> Robust:
        """Return the caller's choice: a number of rounds, or all of it."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Integral) or isinstance(given, bool | np.bool_) or given < 0:
            raise ValueError(f"robust must be a number of rounds, 0 for none, or a Robust; got {given!r}")
        return cls(rounds=int(given))


def robust_weights(
    residuals: FloatArray, weights: FloatArray, c1: float = 2.5, c2: float = 3.0
) -> FloatArray:
    """Return v of equation (1), one a row; for several columns, classes, that of the worst.

    Parameters
    ----------
    residuals : ndarray of shape (m, k)
        y - f.
    weights : ndarray of shape (m,)
        How much each row counts in the medians: a row of weight 2 as two rows.
    c1, c2 : float, default=2.5 and 3.0

    Returns
    -------
    ndarray of shape (m,)
        All 1 where more than half of the residuals are equal: then there is no spread to judge by.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.judging.robust import robust_weights
    >>> residuals = np.array([[-1.0], [-0.5], [0.0], [0.5], [1.0], [40.0]])
    >>> robust_weights(residuals, np.ones(6))
    array([1.e+00, 1.e+00, 1.e+00, 1.e+00, 1.e+00, 1.e-04])
    """
    lowest_weights = np.ones(residuals.shape[0])
    for column in residuals.T:
        deviations = np.abs(column - _median(column, weights))
        scale = _MAD_TO_DEVIATION * _median(deviations, weights)
        # Residuals that are all rounding have no spread either.
        if scale <= 1e-12 * np.abs(column).max(initial=0.0):
            continue
        standardised = np.abs(column) / scale
        lowest_weights = np.minimum(
            lowest_weights, np.clip((c2 - standardised) / (c2 - c1), _MIN_WEIGHT, 1.0)
        )
    return lowest_weights


def _median(values: FloatArray, weights: FloatArray) -> float:
    """Return the weighted median, the middle of two where the half is met exactly, as of repeated rows."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    half = 0.5 * reached[-1]
    slack = 1e-12 * reached[-1]
    low, high = np.searchsorted(reached, [half - slack, half + slack], side="left")
    return float(0.5 * (values[order[low]] + values[order[min(high, values.size - 1)]]))
