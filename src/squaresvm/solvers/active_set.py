"""RLSSVM of Peng, Rafferty and Ferguson: the squared hinge by active sets, with the line search it lacks.

The algorithm as published is in `rlssvm`, the search over sets in `active_set_search`, and how the equalities
of a set are solved in `equalities`. Equation numbers are those of that paper.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from squaresvm.operators import LinearOperator
from squaresvm.operators.computed import pivoted_features
from squaresvm.problem import Loss, Problem
from squaresvm.runtime.arguments import check_between, check_choice, check_flag, check_integer
from squaresvm.runtime.resources import threads_for_blas
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.active_set_search import Iterate, search_active_sets
from squaresvm.solvers.base import IterativeSolver, Monitor, by_column
from squaresvm.solvers.equalities import EqualitySystem, Factored
from squaresvm.solvers.newton import search
from squaresvm.solvers.rlssvm import SwitchedSystem, plain_active_sets, stratified
from squaresvm.solvers.rough_start import rough_start
from squaresvm.typing import IntArray

__all__ = ["ActiveSet"]

_MAX_ITER = 500
#: Rows of a set whose factor is kept for later requests.
_KEPT_ROWS = 12_000
#: Rows up to which a second thread of the BLAS saves nothing, and waits in the way of all else that runs.
_QUIET_ROWS = 1500


@dataclass(frozen=True)
class ActiveSet(IterativeSolver):
    """The RLSSVM paper's active sets: rows with an error as equalities, then the errors anew, and so on.

    Parameters
    ----------
    n_sv_max : int, optional
        The paper's cap on the rows in a factor, at least 2. The search begins with as many rows, stratified
        by class, and takes in others in decreasing order of their errors. With a cap below the true number of
        support vectors the paper's iteration mostly goes round: where the cap is met, it is doubled.
    reuse : {'hybrid', 'switches', 'refactor'}, default='hybrid'
        What becomes of the factor of the last set: updated where few rows change and made anew where many do;
        always updated, by the paper's adjacent switches (64); or always made anew.
    plain : bool, default=False
        The paper's iteration S -> S(e(S)) and nothing else, steps 1 to 5: no line search, and a cap that does
        not grow. It may go round; then ``solver_reason_`` and the certificate say so.
    allowance : float, optional
        What the search that goes on from a start may cost before it begins anew as a fit does: so many steps,
        each a factor of its first set and a product with those rows of K. By default any number.
    callback, trace : optional
        See :class:`~squaresvm.solvers.Progress`.

    See Also
    --------
    Newton : The same search in w, for linear models.
    Lagrangian, SesquiSmo : Other ways to the same solution, where the bias is not free.

    Notes
    -----
    Corrections: the paper's iteration S -> S(e(S)) has no line search and can cycle (72 of 298 random linear
    problems at C = 1e4; none at the paper's own parameters). Each step is a Newton step for the primal
    problem, so an exact line search along it makes the objective fall and the search finite.

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
    plain: bool = False
    allowance: float | None = None

    name = "active-set"
    solves = "the squared hinge with any bias"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.n_sv_max is not None:
            check_integer("n_sv_max", self.n_sv_max, 2)
        check_choice("reuse", self.reuse, ("hybrid", "switches", "refactor"))
        check_flag("plain", self.plain)
        if self.allowance is not None:
            check_between("allowance", self.allowance, 0.0)

    def accepts(self, problem: Problem) -> bool:
        """Return whether the loss is the squared hinge."""
        return problem.loss == Loss.SQUARED_HINGE

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets, each from its own column of `start`."""
        limit = _MAX_ITER if max_iter is None else max_iter
        monitor = self._monitor()
        kept: list[EqualitySystem] = []

        def solve(column: Problem, first: Solution | None) -> Solution:
            system = self._system(column)
            before = None if start is None or problem.n_columns > 1 else EqualitySystem.among(start.factor)
            if before is not None:
                system, first = before, before.solution() or first
            found = self._searched(column, system, tol, limit, first, monitor)
            own = EqualitySystem.among(system)
            if own is not None and _is_kept(own, found):
                kept.append(own)
            return found

        with threads_for_blas() if problem.n_rows <= _QUIET_ROWS else nullcontext():
            joint = by_column(problem, start, monitor, solve)
        return replace(joint, factor=kept[0]) if problem.n_columns == 1 and kept else joint

    def _searched(
        self,
        problem: Problem,
        system: EqualitySystem | SwitchedSystem,
        tol: float,
        limit: int,
        first: Solution | None,
        monitor: Monitor,
    ) -> Solution:
        """Return the solution of one column, and what it took."""
        growths, cap = 0, self.n_sv_max
        if self.plain:
            everyone = np.ones(problem.n_rows, dtype=bool)
            begin = everyone if cap is None else stratified(problem.targets[:, 0], cap)
            found = plain_active_sets(problem, system, begin, cap, limit, monitor)
            return replace(found, work=dict(system.work))
        if self.n_sv_max is not None and self.n_sv_max < problem.n_rows:
            found, growths = _capped(problem, tol, limit, first, system, self.n_sv_max, monitor)
        else:
            found = self._begun_at(problem, system, tol, limit, first, monitor)
        found = _through_features(problem, tol, limit, found)
        return replace(found, work={**system.work, "growths": float(growths)})

    def _begun_at(
        self,
        problem: Problem,
        system: EqualitySystem | SwitchedSystem,
        tol: float,
        limit: int,
        first: Solution | None,
        monitor: Monitor,
    ) -> Solution:
        """Return the solution of one column, reached from a start within the allowance, or without it."""
        spent = 0
        if first is not None:
            allowance = np.inf if self.allowance is None else self.allowance
            equalities = Factored(problem, system, allowance=allowance)
            found = search_active_sets(problem, equalities, tol, limit, first, monitor)
            reached = not equalities.is_spent or float(problem.residual(found)[0]) <= tol
            if reached or found.outcome != Outcome.FINISHED:
                return found
            spent = found.n_iter
        begin = rough_start(problem) if self.n_sv_max is None else None
        found = search_active_sets(problem, Factored(problem, system), tol, limit, begin, monitor)
        return replace(found, n_iter=spent + found.n_iter)

    def _system(self, problem: Problem) -> EqualitySystem | SwitchedSystem:
        if self.reuse == "switches":
            return SwitchedSystem(problem)
        return EqualitySystem(problem, reuse=self.reuse == "hybrid")


def _is_kept(system: EqualitySystem, solution: Solution) -> bool:
    """Return whether the factor of the last set is the solution's own, and small enough to keep."""
    assert solution.beta is not None
    return system.rows.size <= _KEPT_ROWS and system.holds(solution.beta[:, 0])


def resolve_without(
    problem: Problem, rows: IntArray, system: EqualitySystem, start: Solution, tol: float
) -> Solution:
    """Return the model without some rows, by a warm re-solve that leaves `system` as it is."""
    beta = start.beta
    assert beta is not None
    rest = beta.copy()
    rest[rows] = 0.0
    others = np.ones(problem.n_rows, dtype=bool)
    others[rows] = False
    equalities = Factored(problem, system.copy(), others)
    first = Solution(beta=rest, bias=start.bias)
    return search_active_sets(problem, equalities, tol, _MAX_ITER, first, counted=others)


def _capped(
    problem: Problem,
    tol: float,
    limit: int,
    start: Solution | None,
    system: EqualitySystem | SwitchedSystem,
    cap: int,
    monitor: Monitor,
) -> tuple[Solution, int]:
    """Return the solution with no more than `cap` rows in a factor, and how often the cap was doubled.

    Section 5.3's n_SVmax. The problem on the rows of a working set is solved; its support rows stay, others
    make room for the rows outside that have the largest errors. So the objective of the working set only
    grows, and the search ends.
    """
    y, iterations, growths = problem.targets[:, 0], 0, 0
    working = stratified(y, cap)
    while True:
        equalities = Factored(problem, system, working)
        found = search_active_sets(problem, equalities, tol, limit - iterations, start, monitor, working)
        iterations += found.n_iter
        start, point = found, Iterate.at(problem, found)
        assert found.beta is not None
        used = found.beta[:, 0] != 0.0
        errors = np.where(used, -np.inf, 1.0 - y * point.decision)  # e of (10).
        wanted = (errors > 1e-3 * tol) & ~working
        if not wanted.any() or found.outcome != Outcome.FINISHED or iterations >= limit:
            break
        if cap - int(used.sum()) < min(int(wanted.sum()), max(1, cap // 10)):
            cap, growths = 2 * cap, growths + 1
        worst = np.argsort(-np.where(wanted, errors, -np.inf), kind="stable")
        working = used.copy()
        working[worst[: min(cap - int(used.sum()), int(wanted.sum()))]] = True
    if iterations >= limit and wanted.any() and found.outcome == Outcome.FINISHED:
        found = replace(found, outcome=Outcome.MAX_ITER)
    return replace(found, n_iter=iterations), growths


def _through_features(problem: Problem, tol: float, limit: int, found: Solution) -> Solution:
    """Return a better solution where K is so close to singular that products with it lose all precision.

    |w|^2 = beta'K beta of the first sets has errors of the size eps C |K|, and a line search with such a
    number goes astray. With K = Z Z' by a pivoted Cholesky factor, Newton steps in w come close enough for
    multipliers of ordinary size; the active sets go on from there.
    """
    residual = float(problem.residual(found)[0])
    if found.outcome != Outcome.FINISHED or residual <= tol:
        return found
    if residual <= float(problem.rounding(found)[0]):
        return found
    everyone = np.arange(problem.n_rows)
    Z = pivoted_features(problem.operator.block(everyone, everyone))
    linear = Problem(LinearOperator(Z), problem.targets, problem.costs, problem.loss, problem.bias)
    near = search(linear.linear, tol, limit, Monitor())
    start = Solution(beta=linear.multipliers(near), bias=near.bias)
    again = search_active_sets(problem, Factored(problem, EqualitySystem(problem)), tol, limit, start)
    better = min((found, start, again), key=lambda solution: float(problem.residual(solution)[0]))
    return replace(better, n_iter=found.n_iter + near.n_iter + again.n_iter)
