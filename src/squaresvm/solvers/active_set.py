"""Regularised least squares SVM: the squared hinge by a sequence of active sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.factors.jitter import cholesky_with_jitter
from squaresvm.lapack import solve_triangular_in_place
from squaresvm.problem import Loss, Problem, columns_of
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.line_search import minimise_on_line
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["ActiveSet"]

_MAX_ITER = 500


@dataclass(frozen=True)
class ActiveSet:
    """Solve the equality-constrained problem on the rows with an error, take the errors, and repeat.

    The paper's iteration S -> S(e(S)) has no line search and cycles (72 of 298 random linear problems at
    C = 1e4). Each step is a Newton step for (P), so an exact line search along it makes the objective fall
    and the search finite.

    The iterate is f at the rows, |w|^2 and b, not beta: where K is rank-deficient, sums of multipliers of
    several sets collect parts from the null space of K that are 1e6 times larger than the answer.
    """

    name = "active-set"
    solves = "the squared hinge with any bias"

    def accepts(self, problem: Problem) -> bool:
        """Return whether the loss is the squared hinge."""
        return problem.loss is Loss.SQUARED_HINGE

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets, each from its own column of `start`."""
        limit = _MAX_ITER if max_iter is None else max_iter
        found = []
        for index in range(problem.n_columns):
            first = None
            if start is not None:
                beta = problem.multipliers(start)[:, [index]]
                first = Solution(beta=beta, bias=start.bias[[index]])
            found.append(_search(problem.column(index), tol, limit, first))
        return columns_of(found)


@dataclass
class _Iterate:
    """f at the rows, b and |w|^2 of a point of the primal problem."""

    decision: FloatArray
    bias: float
    norm: float

    def move(self, target: _Iterate, inner: float, t: float) -> _Iterate:
        """Return the point a share t of the way to `target`; `inner` is w'w_target."""
        return _Iterate(
            (1 - t) * self.decision + t * target.decision,
            (1 - t) * self.bias + t * target.bias,
            (1 - t) ** 2 * self.norm + 2 * t * (1 - t) * inner + t**2 * target.norm,
        )


def _search(problem: Problem, tol: float, limit: int, start: Solution | None) -> Solution:
    y = problem.targets[:, 0]
    point = _Iterate(np.zeros(problem.n_rows), 0.0, 0.0) if start is None else _at(problem, start)
    best, least = Solution(beta=np.zeros((problem.n_rows, 1)), bias=np.zeros(1)), np.inf
    active = y * point.decision < 1.0
    for iteration in range(1, limit + 1):
        beta, bias = _solve_equalities(problem, active, point.bias)
        candidate = Solution(beta=beta[:, None], bias=np.array([bias]), n_iter=iteration)
        target = _at(problem, candidate)
        residual = _hinge_residual(problem, candidate, target.decision)
        if residual < least:
            best, least = candidate, residual
        if least <= 1e-3 * tol or np.array_equal(y * target.decision < 1.0, active):
            break
        # w'w_target = sum_i beta_i w'phi(x_i): no kernel values are needed.
        inner = float(beta @ (point.decision - point.bias))
        t = _line_search(problem, point, target, inner)
        point = point.move(target, inner, t)
        moved = y * point.decision < 1.0
        if t == 0.0 or np.array_equal(moved, active):
            break  # Rows on the margin change sides by rounding alone: no better set can be told.
        active = moved
    outcome = Outcome.MAX_ITER if iteration == limit and least > tol else Outcome.FINISHED
    return Solution(beta=best.beta, bias=best.bias, n_iter=iteration, outcome=outcome)


def _at(problem: Problem, solution: Solution) -> _Iterate:
    decision = problem.decision(solution)[:, 0]
    bias = float(solution.bias[0])
    assert solution.beta is not None
    norm = float(solution.beta[:, 0] @ (decision - bias))
    return _Iterate(decision, bias, max(norm, 0.0))


def _hinge_residual(problem: Problem, solution: Solution, decision: FloatArray) -> float:
    return float(problem.residual(solution)[0])


def _solve_equalities(problem: Problem, active: BoolArray, bias: float) -> tuple[FloatArray, float]:
    """Return the minimiser of (P) with the active rows as equalities and the others left out."""
    rows = np.flatnonzero(active)
    beta = np.zeros(problem.n_rows)
    if rows.size == 0:
        return beta, bias  # Nothing but 1/2 |w|^2 is left: go towards w = 0 and keep b.
    H = np.asfortranarray(problem.operator.block(rows, rows))
    diagonal = np.diagonal(H) + problem.ridge[rows]

    def refill() -> None:
        H[:] = problem.operator.block(rows, rows)

    cholesky_with_jitter(H, diagonal, refill)
    rhs = np.empty((rows.size, 2), order="F")
    rhs[:, 0], rhs[:, 1] = problem.targets[rows, 0], 1.0
    solve_triangular_in_place(H, rhs)
    solve_triangular_in_place(H, rhs, transpose=True)
    values, ones = rhs[:, 0], rhs[:, 1]
    if problem.bias.is_absent:
        beta[rows] = values
        return beta, 0.0
    schur = problem.bias.penalty + float(ones.sum())
    b = float(values.sum()) / schur
    values = values - b * ones
    left = (float(values.sum()) - problem.bias.penalty * b) / schur
    beta[rows] = values - left * ones
    return beta, b + left


def _line_search(problem: Problem, point: _Iterate, target: _Iterate, inner: float) -> float:
    y = problem.targets[:, 0]
    step = target.bias - point.bias
    penalty = 0.0 if problem.bias.is_absent else problem.bias.penalty
    slope = inner - point.norm + penalty * point.bias * step
    curvature = target.norm - 2 * inner + point.norm + penalty * step**2
    margin = 1.0 - y * point.decision
    change = y * (target.decision - point.decision)
    return minimise_on_line(slope, max(curvature, 0.0), margin, change, problem.costs)
