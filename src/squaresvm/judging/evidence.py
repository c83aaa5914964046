"""The evidence for the numbers of a squared-loss model, seen as a Gaussian process."""

from __future__ import annotations

import numpy as np

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.linalg.lapack import cholesky_in_place, solve_triangular_in_place
from squaresvm.problem import Problem
from squaresvm.problem.products import is_large
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray

__all__ = ["evidence_of", "log_evidence"]


def evidence_of(fit: FloatArray, log_volume: float, contrasts: int) -> FloatArray:
    """Return the logarithm of the evidence of each target.

    Parameters
    ----------
    fit : ndarray of shape (k,)
        y'beta.
    log_volume : float
        log |H|, and log 1'inv(H)1 where the bias is free.
    contrasts : int
        Rows, less one where the bias is free.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.judging.evidence import evidence_of
    >>> evidence_of(np.zeros(1), 0.0, 2).round(4).tolist()
    [-1.8379]
    """
    return -0.5 * (fit + log_volume + contrasts * np.log(2.0 * np.pi))


def log_evidence(problem: Problem, solution: Solution) -> FloatArray:
    """Return the logarithm of the evidence of each target, for a bias that is free or absent."""
    fit = np.einsum("ij,ij->j", problem.targets, problem.multipliers(solution))
    contrasts = problem.n_rows - int(problem.bias.is_free)
    return evidence_of(fit, _log_volume(problem), contrasts)


def _log_volume(problem: Problem) -> float:
    """Return log |H|, and log 1'inv(H)1 where the bias is free."""
    Z, free = problem.operator.features, problem.bias.is_free
    if Z is not None:
        if is_large(Z):
            raise ValueError(
                "log_marginal_likelihood needs the determinant of m x m or n x n numbers, which are not "
                f"formed for sparse rows of shape {Z.shape}: take fewer rows, or columns"
            )
        # |H| = |I + Z'CZ| / prod C_i, and the border makes it the Hessian of w and b.
        factor = MomentsFactor(Moments.of(Z, problem.costs, problem.targets), problem.bias)
        return factor.log_determinant() - float(np.log(problem.costs).sum())
    everyone = np.arange(problem.n_rows)
    H = np.asfortranarray(problem.operator.block(everyone, everyone))
    H[np.diag_indices(everyone.size)] += problem.ridge
    cholesky_in_place(H)
    total = 2.0 * float(np.log(np.diagonal(H)).sum())
    if free:
        half = np.ones((everyone.size, 1), order="F")
        solve_triangular_in_place(H, half)
        total += float(np.log(np.square(half).sum()))
    return total
