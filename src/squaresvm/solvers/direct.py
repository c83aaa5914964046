"""The squared loss by one linear system, as Suykens and Vandewalle have it."""

from __future__ import annotations

from dataclasses import dataclass

from squaresvm.factors import factorise
from squaresvm.problem import Loss, Problem
from squaresvm.solution import Solution

__all__ = ["Direct"]

#: Steps of iterative refinement at most; each costs one product with K.
_REFINEMENTS = 6


@dataclass(frozen=True)
class Direct:
    """Solve [H, 1; 1', -A] (beta, b) = (y, 0) by a Cholesky factor, equation (7) of the relaxed paper.

    Signed multipliers take the labels out of the matrix, so that all classes share the factor.
    """

    name = "direct"
    solves = "the squared loss with any bias"

    def accepts(self, problem: Problem) -> bool:
        """Return whether the loss is the squared one."""
        return problem.loss is Loss.SQUARED

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution, refined as long as that pays; `start` is of no use here."""
        factor = factorise(problem)
        solution = factor.solve(problem.targets)
        residual = problem.residual(solution).max()
        for _ in range(_REFINEMENTS):
            if residual <= 1e-3 * tol:
                break
            refined = factor.refine(solution, problem.targets)
            left = problem.residual(refined).max()
            if not left < residual:
                break
            solution, residual = refined, left
        return solution
