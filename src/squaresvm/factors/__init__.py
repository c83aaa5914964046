"""Factors of H: solve, update, and the diagonal of the inverse."""

from __future__ import annotations

from squaresvm.factors.base import Factor
from squaresvm.factors.cholesky import CholeskyFactor
from squaresvm.factors.moments import MomentsFactor
from squaresvm.problem import Problem

__all__ = ["CholeskyFactor", "Factor", "MomentsFactor", "factorise"]


def factorise(problem: Problem) -> Factor:
    """Return a factor of the problem's H: of n x n sums where K = Z Z' with few columns, else Cholesky."""
    if problem.operator.features is not None:
        return MomentsFactor(problem.operator.features, problem.costs, problem.bias)
    return CholeskyFactor(problem.operator.store(), problem.ridge, problem.bias)
