"""The LS-SVM of Suykens and Vandewalle, and the proximal SVM: the squared loss by one linear system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from squaresvm.factors import CholeskyFactor, MomentsFactor
from squaresvm.problem import Loss, Problem
from squaresvm.problem.linear import LinearProblem
from squaresvm.runtime.resources import threads_for_blas
from squaresvm.solution import Solution

__all__ = ["Direct", "by_sums", "from_sums", "refined"]

#: Steps of iterative refinement at most; each costs one product with K.
_REFINEMENTS = 6
#: Steps in a row that may fail to improve: near the limit of precision it is rounding that decides.
_FAILURES = 1
#: Share of tol down to which refinement goes on.
_ENOUGH = 1e-3


@dataclass(frozen=True)
class Direct:
    r"""The squared loss by one linear system: (20)-(21) of the LS-SVM paper, and the proximal SVM.

    See Also
    --------
    Newton : Linear models with either loss.
    TwoSmo : Updates of single multipliers, where a factor costs too much.

    Notes
    -----
    One Cholesky factor solves

    .. math::
        H \beta + b\, \mathbf 1 = y, \qquad \mathbf 1^\top \beta - A\, b = 0

    which with A = 0 is (20) of the LS-SVM paper in signed multipliers, beta = y alpha: they take the labels
    out of (21), so that all classes share the factor, and it is kept: learning, forgetting and leaving one
    out start from it. The relaxed paper has the same as (7). Correction: its K must carry the labels.

    The proximal SVM is solved here as well. Linear, it is A = 1 and one system of n + 1 unknowns by the
    Sherman-Morrison-Woodbury identity. Nonlinear, equation (12) of the relaxed paper is this system with
    K W K' in place of K. Correction: (10) has to be read D(K D w + e b) + q = e.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> LSSVC(solver="direct").fit(X, y).n_iter_
    1
    """

    name = "direct"
    solves = "the squared loss with any bias"

    def accepts(self, problem: Problem) -> bool:
        """Return whether the loss is the squared one."""
        return problem.loss == Loss.SQUARED

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution, refined as long as that pays; `start` is of no use here."""
        if problem.operator.features is not None:
            with threads_for_blas():
                return by_sums(problem.linear, _ENOUGH * tol)
        factor = CholeskyFactor.of(problem)
        # (20) of the LS-SVM paper, (7) of the relaxed one; (12) of that where K is K W K'.
        solution = factor.solve(problem.targets)
        return refined(problem, solution, tol, lambda found: factor.refine(found, problem.targets))


def by_sums(problem: LinearProblem, enough: float) -> Solution:
    """Return the solution in w of a linear problem: one system of as many unknowns as columns, and b.

    Parameters
    ----------
    problem : LinearProblem
    enough : float
        Residual down to which the solution is refined, at two passes a step.

    Returns
    -------
    Solution
        Its factor is the :class:`~squaresvm.factors.MomentsFactor` of all rows.
    """
    return from_sums(problem, MomentsFactor(problem.moments(), problem.bias), enough)


def from_sums(problem: LinearProblem, factor: MomentsFactor, enough: float) -> Solution:
    """Return the same as `by_sums`, given the factor."""
    best = point = problem.at(*factor.minimum())
    residual, failures = problem.verify(point).residual.max(), 0
    for _ in range(_REFINEMENTS):
        if residual <= enough or failures > _FAILURES:
            break
        dw, db = factor.step(point.down_w, point.down_b)
        point = problem.at(point.w + dw, point.b + db)
        left = problem.verify(point).residual.max()
        failures = 0 if left < residual else failures + 1
        if left < residual:
            best, residual = point, left
    if point is not best:
        problem.verify(best)  # The problem remembers the point that was judged last: the one returned.
    return Solution(primal=best.w, bias=best.b, factor=factor)


def refined(
    problem: Problem, solution: Solution, tol: float, refine: Callable[[Solution], Solution]
) -> Solution:
    """Return the solution after as many steps of iterative refinement as pay."""
    residual = problem.residual(solution).max()
    for _ in range(_REFINEMENTS):
        if residual <= _ENOUGH * tol:
            break
        refined = refine(solution)
        left = problem.residual(refined).max()
        if not left < residual:
            break
        solution, residual = refined, left
    return solution
