"""Factors of H: solve, update, and the diagonal of the inverse."""

from __future__ import annotations

from squaresvm.factors.cholesky import CholeskyFactor
from squaresvm.factors.moments import MomentsFactor
from squaresvm.problem import Problem
from squaresvm.solution import Factor

__all__ = ["CholeskyFactor", "Factor", "MomentsFactor", "factorise"]


def factorise(problem: Problem) -> Factor:
    """Return a factor of the problem's H: of n x n sums where K = Z Z' with few columns, else Cholesky."""
    operator = problem.operator
    if operator.features is not None:
        return MomentsFactor(operator.features, problem.costs, problem.bias)
    return CholeskyFactor.build(operator.store(), operator.slots, problem.ridge, problem.bias)
