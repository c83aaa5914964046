"""Regularised least squares SVM: the squared hinge by a sequence of active sets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from squaresvm.operators import LinearOperator, RowCache
from squaresvm.operators.low_rank import pivoted_features
from squaresvm.problem import Loss, Problem, columns_of
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.solvers.line_search import minimise_on_line
from squaresvm.solvers.newton import search_in_w
from squaresvm.solvers.sesqui_smo import BoundedDescent
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["ActiveSet"]

_MAX_ITER = 500
#: From this many rows on, compiled coordinate updates find a first set: below, compiling would cost more.
_COORDINATE_ROWS = 2001
#: Violation at which the coordinate updates hand over, and updates a row they may take.
_COORDINATE_TOL, _COORDINATE_UPDATES = 1e-2, 20


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
            column = problem.column(index)
            if start is not None:
                beta = problem.multipliers(start)[:, [index]]
                first: Solution | None = Solution(beta=beta, bias=start.bias[[index]])
            else:
                first = _coordinate_start(column)
            point = _at(column, first) if first is not None else _Iterate.origin(column)
            searched = _search(column, tol, limit, point, EqualitySystem(column))
            found.append(_through_features(column, tol, limit, searched))
        return columns_of(found)


@dataclass
class _Iterate:
    """f at the rows, b and |w|^2 of a point of the primal problem."""

    decision: FloatArray
    bias: float
    norm: float

    @classmethod
    def origin(cls, problem: Problem) -> _Iterate:
        """Return w = 0, b = 0."""
        return cls(np.zeros(problem.n_rows), 0.0, 0.0)

    def move(self, target: _Iterate, inner: float, t: float) -> _Iterate:
        """Return the point a share t of the way to `target`; `inner` is w'w_target."""
        return _Iterate(
            (1 - t) * self.decision + t * target.decision,
            (1 - t) * self.bias + t * target.bias,
            (1 - t) ** 2 * self.norm + 2 * t * (1 - t) * inner + t**2 * target.norm,
        )


def resolve_without(problem: Problem, row: int, system: EqualitySystem, start: Solution, tol: float) -> float:
    """Return f at a row, of the model without it, by a warm re-solve that leaves `system` as it is."""
    beta = start.beta
    assert beta is not None
    rest = beta.copy()
    rest[row] = 0.0
    point = _at(problem, Solution(beta=rest, bias=start.bias))
    others = np.ones(problem.n_rows, dtype=bool)
    others[row] = False
    solved = _search(problem, tol, _MAX_ITER, point, system.copy(), others)
    return float(problem.decision(solved)[row, 0])


def _search(
    problem: Problem,
    tol: float,
    limit: int,
    point: _Iterate,
    system: EqualitySystem,
    counted: BoolArray | None = None,
) -> Solution:
    """Return the solution of one column, over the rows that are `counted`: all, as a rule."""
    y, counted = problem.targets[:, 0], _everyone(problem) if counted is None else counted
    best, least = Solution(beta=np.zeros((problem.n_rows, 1)), bias=np.zeros(1)), np.inf
    active = (y * point.decision < 1.0) & counted
    iteration = 0
    while iteration < limit:
        iteration += 1
        beta, bias = system.solve(active, point.bias)
        target, residual = _judged(problem, beta, bias, counted)
        if system.is_updated and _equality_error(problem, active, target, beta) > 1e-3 * tol:
            beta, bias = system.rebuild(active)
            target, residual = _judged(problem, beta, bias, counted)
        if residual < least:
            best, least = Solution(beta=beta[:, None], bias=np.array([bias])), residual
        if least <= 1e-3 * tol or np.array_equal((y * target.decision < 1.0) & counted, active):
            break
        # w'w_target = sum_i beta_i w'phi(x_i): no kernel values are needed.
        inner = float(beta @ (point.decision - point.bias))
        t = _line_search(problem, point, target, inner, counted)
        point = point.move(target, inner, t)
        moved = (y * point.decision < 1.0) & counted
        if t == 0.0 or np.array_equal(moved, active):
            break  # Rows on the margin change sides by rounding alone: no better set can be told.
        active = moved
    outcome = Outcome.MAX_ITER if iteration == limit and least > tol else Outcome.FINISHED
    return Solution(beta=best.beta, bias=best.bias, n_iter=iteration, outcome=outcome)


def _through_features(problem: Problem, tol: float, limit: int, found: Solution) -> Solution:
    """Return a better solution where K is so close to singular that products with it lose all digits.

    |w|^2 = beta'K beta of the first sets has errors of the size eps C |K|, and a line search with such a
    number goes astray. With K = Z Z' by a pivoted Cholesky factor, Newton steps in w come close enough for
    multipliers of ordinary size; the active sets go on from there.
    """
    residual = float(problem.residual(found)[0])
    if found.outcome is not Outcome.FINISHED or residual <= max(tol, float(problem.rounding(found)[0])):
        return found
    everyone = np.arange(problem.n_rows)
    Z = pivoted_features(problem.operator.block(everyone, everyone))
    linear = Problem(LinearOperator(Z), problem.targets, problem.costs, problem.loss, problem.bias)
    near = search_in_w(linear, np.zeros((Z.shape[1], 1)), np.zeros(1), tol, limit)
    start = Solution(beta=linear.multipliers(near), bias=near.bias)
    again = _search(problem, tol, limit, _at(problem, start), EqualitySystem(problem))
    better = min((found, start, again), key=lambda solution: float(problem.residual(solution)[0]))
    return replace(better, n_iter=found.n_iter + near.n_iter + again.n_iter)


def _everyone(problem: Problem) -> BoolArray:
    return np.ones(problem.n_rows, dtype=bool)


def _judged(problem: Problem, beta: FloatArray, bias: float, counted: BoolArray) -> tuple[_Iterate, float]:
    """Return the point of multipliers that solve the equalities, and the residual of the rows counted."""
    solution = Solution(beta=beta[:, None], bias=np.array([bias]))
    point = _at(problem, solution)
    residual = float(problem.residual_at(solution, point.decision[:, None], counted)[0])
    # On the active rows f = y - beta/C - b to the last digit, which K beta does not give at large C; and
    # |w|^2 = beta'(f - b) from there.
    active = beta != 0.0
    point.decision[active] = (problem.targets[:, 0] - problem.ridge * beta)[active]
    point.norm = max(float(beta @ (point.decision - bias)), 0.0)
    return point, residual


def _at(problem: Problem, solution: Solution) -> _Iterate:
    decision = problem.decision(solution)[:, 0]
    bias = float(solution.bias[0])
    assert solution.beta is not None
    norm = float(solution.beta[:, 0] @ (decision - bias))
    return _Iterate(decision, bias, max(norm, 0.0))


def _equality_error(problem: Problem, active: BoolArray, point: _Iterate, beta: FloatArray) -> float:
    """Return how far the active rows are from the equalities that were solved for."""
    defect = point.decision + problem.ridge * beta - problem.targets[:, 0]
    return float(np.abs(defect[active]).max(initial=0.0))


def _line_search(
    problem: Problem, point: _Iterate, target: _Iterate, inner: float, counted: BoolArray
) -> float:
    y = problem.targets[:, 0]
    step = target.bias - point.bias
    penalty = 0.0 if problem.bias.is_absent else problem.bias.penalty
    curvature = max(target.norm - 2 * inner + point.norm, 0.0) + penalty * step**2
    margin = (1.0 - y * point.decision)[counted]
    change = (y * (target.decision - point.decision))[counted]
    costs = problem.costs[counted]
    # A Newton step: the objective starts to fall by as much as its model is curved.
    decrement = curvature + float(costs @ np.where(margin > 0, change**2, 0.0))
    return minimise_on_line(-decrement, curvature, margin, change, costs)


def _coordinate_start(problem: Problem) -> Solution | None:
    """Return a rough solution by coordinate updates; None where the first set may as well be all rows."""
    if problem.n_rows < _COORDINATE_ROWS:
        return None
    if problem.operator.full() is None:
        return None
    from squaresvm.solvers import compiled

    rows = RowCache(problem.operator, 0)
    y = np.ascontiguousarray(problem.targets[:, 0])
    limit = _COORDINATE_UPDATES * y.size
    if not problem.bias.is_free:
        search = BoundedDescent(problem, rows, np.zeros(y.size))
        search.run(_COORDINATE_TOL, _COORDINATE_UPDATES, lambda: False)
        return Solution(beta=search.beta[:, None], bias=np.array([search.bias]))
    beta, gradient, ridge = np.zeros(y.size), -y, problem.ridge
    h = problem.operator.diagonal() + ridge
    compiled.pairwise_updates(
        rows.values, rows.stride, rows.place, h, ridge, 0.0, y, beta, gradient, _COORDINATE_TOL, limit
    )
    used = beta != 0
    bias = -float(gradient[used].mean()) if used.any() else 0.0
    return Solution(beta=beta[:, None], bias=np.array([bias]))
