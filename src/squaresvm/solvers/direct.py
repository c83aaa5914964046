"""The squared loss by one linear system, as Suykens and Vandewalle have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from squaresvm.factors import CholeskyFactor, Moments, MomentsFactor
from squaresvm.problem import Loss, Problem
from squaresvm.solution import Solution

__all__ = ["Direct"]

#: Steps of iterative refinement at most; each costs one product with K.
_REFINEMENTS = 6


@dataclass(frozen=True)
class Direct:
    """Solve [H, 1; 1', -A] (beta, b) = (y, 0) by a Cholesky factor, equation (7) of the relaxed paper.

    Signed multipliers take the labels out of the matrix, so that all classes share the factor.

    The proximal SVM is solved here as well. Linear, it is A = 1 and one system of n + 1 unknowns by the
    Sherman-Morrison-Woodbury identity: see :class:`~squaresvm.factors.MomentsFactor`. Nonlinear, equation
    (12) is this system with K W K' in place of K: see :class:`~squaresvm.operators.ProximalOperator`.
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
        if problem.operator.features is not None:
            return _by_sums(problem, tol)
        operator = problem.operator
        factor = CholeskyFactor.build(operator.store(), operator.slots, problem.ridge, problem.bias)
        solution = factor.solve(problem.targets)
        return _refined(problem, solution, tol, lambda found: factor.refine(found, problem.targets))


def _by_sums(problem: Problem, tol: float) -> Solution:
    """Return the solution in w of a linear problem: one system of as many unknowns as columns."""
    Z, costs, targets = problem.operator.features, problem.costs, problem.targets
    factor = MomentsFactor(Moments.of(Z, costs, targets), problem.bias)
    w, b = factor.minimum()

    def refine(found: Solution) -> Solution:
        dw, db = factor.step(*problem.descent(found))
        assert found.primal is not None
        return Solution(primal=found.primal + dw, bias=found.bias + db, factor=factor)

    return _refined(problem, Solution(primal=w, bias=b, factor=factor), tol, refine)


def _refined(
    problem: Problem, solution: Solution, tol: float, refine: Callable[[Solution], Solution]
) -> Solution:
    """Return the solution after as many steps of iterative refinement as pay."""
    residual = problem.residual(solution).max()
    for _ in range(_REFINEMENTS):
        if residual <= 1e-3 * tol:
            break
        refined = refine(solution)
        left = problem.residual(refined).max()
        if not left < residual:
            break
        solution, residual = refined, left
    return solution
