"""Prediction intervals from the models without each row in turn: the jackknife+ of Barber et al. (2021).

With R_i the leave-one-out residual of row i and f^(-i) the model without it, the interval at x reaches from a
low quantile of f^(-i)(x) - |R_i| to a high one of f^(-i)(x) + |R_i|. All those models follow from one factor:

    f^(-i)(x) = f(x) - R_i g_i(x),    g(x) = N (k(x, X), 1)                                              (1)

with N the inverse of the bordered matrix of the fit; g_i = C_i (z_i, 1)'inv(Hessian)(x, 1) in w.
"""

from __future__ import annotations

import numpy as np

from squaresvm.factors import CholeskyFactor, Moments, MomentsFactor
from squaresvm.problem import Problem
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray, Matrix

__all__ = ["influence", "jackknife_plus"]


def influence(problem: Problem, solution: Solution, probes: Matrix) -> FloatArray:
    """Return g(x) of equation (1) for some rows x, of shape (m, rows).

    Parameters
    ----------
    problem : Problem
        Of squared loss.
    solution : Solution
        Its optimum.
    probes : array of shape (rows, m), or of shape (rows, n) for a linear problem in w
        Kernel values of the rows with those of the problem; features for a linear problem.

    Returns
    -------
    ndarray of shape (m, rows)
    """
    Z, factor = problem.operator.features, solution.factor
    count = probes.shape[0]
    if Z is None:
        if not isinstance(factor, CholeskyFactor) or not factor.is_current:
            operator = problem.operator
            factor = CholeskyFactor.build(operator.store(), operator.slots, problem.ridge, problem.bias)
        return factor.bordered(np.asarray(probes, dtype=np.float64).T, np.ones(count))[0]
    if not isinstance(factor, MomentsFactor):
        factor = MomentsFactor(Moments.of(Z, problem.costs, problem.targets), problem.bias)
    dense = probes.toarray() if hasattr(probes, "toarray") else probes
    w, b = factor.step(np.asarray(dense, dtype=np.float64).T, np.ones(count))
    return np.asarray(problem.costs[:, None] * (np.asarray(Z @ w) + b))


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
    >>> from squaresvm.judging.intervals import jackknife_plus
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
