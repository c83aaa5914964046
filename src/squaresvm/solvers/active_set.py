"""Regularised least squares SVM: the squared hinge by a sequence of active sets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from squaresvm.operators import LinearOperator, RowCache
from squaresvm.operators.linear import pivoted_features
from squaresvm.problem import Loss, Problem, columns_of
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.base import Callback, Monitor, check_callback, check_choice, check_count
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.solvers.line_search import minimise_on_line
from squaresvm.solvers.newton import search
from squaresvm.solvers.sesqui_smo import BoundedDescent
from squaresvm.solvers.switched import SwitchedSystem
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["ActiveSet"]

_MAX_ITER = 500
#: Attempts to solve the equalities of a set with more digits.
_IMPROVEMENTS = 3
#: Rows of a set whose factor is kept for later requests.
_KEPT_ROWS = 12_000
#: From this many rows on, compiled coordinate updates find a first set: below, compiling would cost more.
_COORDINATE_ROWS = 2001
#: Violation at which the coordinate updates hand over, and updates a row they may take.
_COORDINATE_TOL, _COORDINATE_UPDATES = 1e-2, 20


@dataclass(frozen=True)
class ActiveSet:
    """The RLSSVM paper's active sets: rows with an error as equalities, then the errors anew, and so on.

    Parameters
    ----------
    n_sv_max : int, optional
        The paper's cap on the rows in a factor, at least 2. The search begins with as many rows, stratified
        by class, and takes in others in decreasing order of their errors. A cap below the true number of
        support vectors would end at a wrong answer without a word: where it is met, it is doubled.
    reuse : {'hybrid', 'switches', 'refactor'}, default='hybrid'
        What becomes of the factor of the last set: updated where few rows change and made anew where many do;
        always updated, by the paper's adjacent switches (64); or always made anew.
    callback, trace : optional
        See :class:`~squaresvm.solvers.Progress`.

    See Also
    --------
    Newton : The same search in w, for linear models.
    Lagrangian, SesquiSmo : Other ways to the same solution, where the bias is not free.

    Notes
    -----
    The paper's iteration S -> S(e(S)) has no line search and cycles (72 of 298 random linear problems at
    C = 1e4). Each step is a Newton step for the primal problem, so an exact line search along it makes the
    objective fall and the search finite.

    The iterate is f at the rows, ``|w|^2`` and b, not beta: where K is rank-deficient, sums of multipliers of
    several sets collect parts from the null space of K that are 1e6 times larger than the answer.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import RLSSVC
    >>> from squaresvm.solvers import ActiveSet
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RLSSVC(C=100.0, solver=ActiveSet(reuse="switches")).fit(X, y)
    >>> model.certificate_.residual <= model.tol
    True
    """

    n_sv_max: int | None = None
    reuse: str = "hybrid"
    callback: Callback | None = None
    trace: bool = False

    name = "active-set"
    solves = "the squared hinge with any bias"

    def __post_init__(self) -> None:
        """Check the options."""
        if self.n_sv_max is not None:
            check_count("n_sv_max", self.n_sv_max, 2)
        check_choice("reuse", self.reuse, ("hybrid", "switches", "refactor"))
        check_callback(self.callback, self.trace)

    def accepts(self, problem: Problem) -> bool:
        """Return whether the loss is the squared hinge."""
        return problem.loss is Loss.SQUARED_HINGE

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets, each from its own column of `start`."""
        limit = _MAX_ITER if max_iter is None else max_iter
        monitor = Monitor(self.callback, self.trace)
        found = []
        for index in range(problem.n_columns):
            monitor.column = index
            column = problem.column(index)
            system = self._system(column)
            if start is not None:
                beta = problem.multipliers(start)[:, [index]]
                first: Solution | None = Solution(beta=beta, bias=start.bias[[index]])
                if isinstance(start.factor, EqualitySystem) and problem.n_columns == 1:
                    system = start.factor
                    first = system.solution() or first
            elif self.n_sv_max is None:
                first = _coordinate_start(column)
            else:
                first = None
            point = _at(column, first) if first is not None else _Iterate.origin(column)
            if self.n_sv_max is not None and self.n_sv_max < problem.n_rows:
                searched, growths = _capped(column, tol, limit, point, system, self.n_sv_max, monitor)
            else:
                searched, growths = _search(column, tol, limit, point, system, monitor=monitor), 0
            solution = _through_features(column, tol, limit, searched)
            found.append(replace(solution, work={**system.work, "growths": float(growths)}))
        joint = columns_of(found, monitor.trace)
        if problem.n_columns == 1 and isinstance(system, EqualitySystem) and _is_kept(system, joint):
            joint = replace(joint, factor=system)
        return joint

    def _system(self, problem: Problem) -> EqualitySystem | SwitchedSystem:
        if self.reuse == "switches":
            return SwitchedSystem(problem)
        return EqualitySystem(problem, reuse=self.reuse == "hybrid")


def _is_kept(system: EqualitySystem, solution: Solution) -> bool:
    """Return whether the factor of the last set is the solution's own, and small enough to keep."""
    assert solution.beta is not None
    return system.rows.size <= _KEPT_ROWS and system.holds(solution.beta[:, 0])


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


def resolve_without(
    problem: Problem, row: int, system: EqualitySystem, start: Solution, tol: float
) -> Solution:
    """Return the model without a row, by a warm re-solve that leaves `system` as it is."""
    beta = start.beta
    assert beta is not None
    rest = beta.copy()
    rest[row] = 0.0
    point = _at(problem, Solution(beta=rest, bias=start.bias))
    others = np.ones(problem.n_rows, dtype=bool)
    others[row] = False
    return _search(problem, tol, _MAX_ITER, point, system.copy(), others)


def _search(
    problem: Problem,
    tol: float,
    limit: int,
    point: _Iterate,
    system: EqualitySystem | SwitchedSystem,
    counted: BoolArray | None = None,
    monitor: Monitor | None = None,
) -> Solution:
    """Return the solution of one column, over the rows that are `counted`: all, as a rule."""
    y, counted = problem.targets[:, 0], _everyone(problem) if counted is None else counted
    best, least = Solution(beta=np.zeros((problem.n_rows, 1)), bias=np.zeros(1)), np.inf
    active, tried = (y * point.decision < 1.0) & counted, set[bytes]()
    iteration = 0
    while iteration < limit:
        iteration += 1
        beta, bias = system.solve(active, point.bias)
        target, residual, error = _judged(problem, beta, bias, counted)
        for _ in range(_IMPROVEMENTS):
            if error <= 1e-3 * tol:
                break
            beta, bias = system.improve(active)
            target, residual, error = _judged(problem, beta, bias, counted)
        if residual < least:
            best, least = Solution(beta=beta[:, None], bias=np.array([bias])), residual
        if monitor is not None and _tell(problem, beta, target, residual, iteration, monitor):
            break
        if least <= 1e-3 * tol or np.array_equal((y * target.decision < 1.0) & counted, active):
            break
        # w'w_target = sum_i beta_i w'phi(x_i): no kernel values are needed.
        inner = float(beta @ (point.decision - point.bias))
        t = _line_search(problem, point, target, inner, counted)
        point = point.move(target, inner, t)
        moved = (y * point.decision < 1.0) & counted
        if t == 0.0 or np.array_equal(moved, active):
            # The line search is lost in rounding. The paper's own step is what is left, once for each set.
            point, moved = target, (y * target.decision < 1.0) & counted
            if moved.tobytes() in tried:
                break
            tried.add(moved.tobytes())
        active = moved
    outcome = Outcome.MAX_ITER if iteration >= limit and least > tol else Outcome.FINISHED
    if monitor is not None and monitor.stopped:
        outcome = Outcome.STOPPED
    return Solution(beta=best.beta, bias=best.bias, n_iter=max(iteration, 1), outcome=outcome)


def _tell(
    problem: Problem, beta: FloatArray, point: _Iterate, residual: float, iteration: int, monitor: Monitor
) -> bool:
    if not monitor.listens:
        return False
    solution = Solution(beta=beta[:, None], bias=np.array([point.bias]))
    objective = float(problem.objective_at(solution, point.decision[:, None])[0])
    return monitor.tell(iteration, objective, residual, float(beta.sum()))


def _capped(
    problem: Problem,
    tol: float,
    limit: int,
    point: _Iterate,
    system: EqualitySystem | SwitchedSystem,
    cap: int,
    monitor: Monitor,
) -> tuple[Solution, int]:
    """Return the solution with no more than `cap` rows in a factor, and how often the cap was doubled.

    The problem on the rows of a working set is solved; its support rows stay, others make room for the rows
    outside that have the largest errors. So the objective of the working set only grows, and the search ends.
    """
    y, iterations, growths = problem.targets[:, 0], 0, 0
    working = _stratified(y, cap)
    while True:
        found = _search(problem, tol, limit - iterations, point, system, working, monitor)
        iterations += found.n_iter
        point = _at(problem, found)
        assert found.beta is not None
        used = found.beta[:, 0] != 0.0
        errors = np.where(used, -np.inf, 1.0 - y * point.decision)
        wanted = (errors > 1e-3 * tol) & ~working
        if not wanted.any() or found.outcome is not Outcome.FINISHED or iterations >= limit:
            break
        if cap - int(used.sum()) < min(int(wanted.sum()), max(1, cap // 10)):
            cap, growths = 2 * cap, growths + 1
        worst = np.argsort(-np.where(wanted, errors, -np.inf), kind="stable")
        working = used.copy()
        working[worst[: min(cap - int(used.sum()), int(wanted.sum()))]] = True
    if iterations >= limit and wanted.any() and found.outcome is Outcome.FINISHED:
        found = replace(found, outcome=Outcome.MAX_ITER)
    return replace(found, n_iter=iterations), growths


def _stratified(y: FloatArray, count: int) -> BoolArray:
    """Return `count` rows or so, the same share of each class, evenly spread over the rows."""
    chosen = np.zeros(y.size, dtype=bool)
    for side in (y > 0, y <= 0):
        members = np.flatnonzero(side)
        take = min(members.size, max(1, round(count * members.size / y.size)))
        if members.size:
            chosen[members[np.linspace(0, members.size - 1, take).round().astype(np.intp)]] = True
    return chosen


def _through_features(problem: Problem, tol: float, limit: int, found: Solution) -> Solution:
    """Return a better solution where K is so close to singular that products with it lose all digits.

    |w|^2 = beta'K beta of the first sets has errors of the size eps C |K|, and a line search with such a
    number goes astray. With K = Z Z' by a pivoted Cholesky factor, Newton steps in w come close enough for
    multipliers of ordinary size; the active sets go on from there.
    """
    residual = float(problem.residual(found)[0])
    if found.outcome is not Outcome.FINISHED or residual <= tol:
        return found
    if residual <= float(problem.rounding(found)[0]):
        return found
    everyone = np.arange(problem.n_rows)
    Z = pivoted_features(problem.operator.block(everyone, everyone))
    linear = Problem(LinearOperator(Z), problem.targets, problem.costs, problem.loss, problem.bias)
    near = search(linear.linear, tol, limit, Monitor())
    start = Solution(beta=linear.multipliers(near), bias=near.bias)
    again = _search(problem, tol, limit, _at(problem, start), EqualitySystem(problem))
    better = min((found, start, again), key=lambda solution: float(problem.residual(solution)[0]))
    return replace(better, n_iter=found.n_iter + near.n_iter + again.n_iter)


def _everyone(problem: Problem) -> BoolArray:
    return np.ones(problem.n_rows, dtype=bool)


def _judged(
    problem: Problem, beta: FloatArray, bias: float, counted: BoolArray
) -> tuple[_Iterate, float, float]:
    """Return the point of multipliers, the residual of the rows counted, and the error of the equalities."""
    solution = Solution(beta=beta[:, None], bias=np.array([bias]))
    point = _at(problem, solution)
    residual = float(problem.residual_at(solution, point.decision[:, None], counted)[0])
    # On the active rows f = y - beta/C - b to the last digit, which K beta does not give at large C; and
    # |w|^2 = beta'(f - b) from there.
    active = beta != 0.0
    wanted = (problem.targets[:, 0] - problem.ridge * beta)[active]
    error = float(np.abs(point.decision[active] - wanted).max(initial=0.0))
    point.decision[active] = wanted
    point.norm = max(float(beta @ (point.decision - bias)), 0.0)
    return point, residual, error


def _at(problem: Problem, solution: Solution) -> _Iterate:
    decision = problem.decision(solution)[:, 0]
    bias = float(solution.bias[0])
    assert solution.beta is not None
    norm = float(solution.beta[:, 0] @ (decision - bias))
    return _Iterate(decision, bias, max(norm, 0.0))


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
    from squaresvm.solvers import _smo_loops

    rows = RowCache(problem.operator, 0)
    y = np.ascontiguousarray(problem.targets[:, 0])
    limit = _COORDINATE_UPDATES * y.size
    if not problem.bias.is_free:
        search = BoundedDescent(problem, rows, np.zeros(y.size))
        search.run(_COORDINATE_TOL, _COORDINATE_UPDATES, lambda: False)
        return Solution(beta=search.beta[:, None], bias=np.array([search.bias]))
    beta, gradient, ridge = np.zeros(y.size), -y, problem.ridge
    h = problem.operator.diagonal() + ridge
    _smo_loops.pairwise_updates(
        rows.values, rows.stride, rows.place, h, ridge, 0.0, y, beta, gradient, _COORDINATE_TOL, limit
    )
    used = beta != 0
    bias = -float(gradient[used].mean()) if used.any() else 0.0
    return Solution(beta=beta[:, None], bias=np.array([bias]))
