"""Either loss by conjugate gradients: no factor of K, and no K in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from squaresvm.problem import Loss, Problem
from squaresvm.runtime.arguments import check_integer
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.active_set_search import Iterate, Target, search_active_sets
from squaresvm.solvers.base import IterativeSolver, Monitor, by_column, origin, tell
from squaresvm.solvers.block_cg import KernelSystem
from squaresvm.solvers.equalities import bias_of_no_rows
from squaresvm.solvers.preconditioner import Preconditioner
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["ConjugateGradient", "IteratedEqualities"]

_MAX_ITER = 2000
#: Share of tol that conjugate gradients aim at, so that the exact residual is within it.
_SHARE = 0.25
#: Reduction of the residual asked of one Newton step.
_REDUCTION = 1e-3
#: Exact residuals that may fail to improve before the search ends.
_STALLS = 3


@dataclass(frozen=True)
class ConjugateGradient(IterativeSolver):
    """Solve H V = [1, y] for all columns at once, H = K + diag(1/C), with a Nystrom preconditioner.

    With u = inv(H) 1 and v = inv(H) y the bias is in closed form, b = 1'v / (A + 1'u), beta = v - u b:
    equation (1) of `CholeskyFactor`.

    Products with K are taken in float32 where K is not at hand in float64, and the answer is refined:
    residuals are taken in float64, from kernel values computed anew, until the certificate is within tol.
    Where C is so large that float32 tells nothing, products are in float64 as well.

    The squared hinge is a sequence of such systems on the rows with an error, each a Newton step with an
    exact line search.

    An iteration is a product with K.

    Parameters
    ----------
    rank : int, optional
        Landmarks of the preconditioner. By default as many as make preconditioner and iterations together
        cheapest, within `memory`; the matrix itself where rows are few.
    memory : int, optional
        Bytes for K in float32 (about 2 m^2, computed anew for each product where they do not fit) and for the
        preconditioner (8 m rank). By default most of what is free, and never more than 4.4 m^2.
    callback : callable, optional
        Called with a :class:`~squaresvm.solvers.Progress` after each iteration; True stops.
    trace : bool, default=False
        Whether to keep what the callback would be told.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from squaresvm import LSSVC
    >>> from squaresvm.solvers import ConjugateGradient
    >>> model = LSSVC(solver=ConjugateGradient(rank=100), tol=1e-5).fit(*load_digits(return_X_y=True))
    >>> model.certificate_.residual < 1e-5
    True
    """

    rank: int | None = None
    memory: int | None = None

    name = "cg"
    solves = "either loss with any bias"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.rank is not None:
            check_integer("rank", self.rank, 1)
        if self.memory is not None:
            check_integer("memory", self.memory, 1)

    def accepts(self, problem: Problem) -> bool:
        """Return True: every problem is solved."""
        return True

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets; from `start`, where one is given."""
        limit = _MAX_ITER if max_iter is None else max_iter
        monitor = self._monitor()
        system = KernelSystem.make(problem, self.rank, self.memory)
        if problem.loss == Loss.SQUARED:
            first = origin(problem) if start is None else _in_multipliers(problem, start)
            found = _squared(problem, system, tol, limit, first, monitor)
        else:
            found = _hinge(problem, system, tol, limit, start, monitor)
        return replace(found, trace=monitor.trace, work=system.work, note="; ".join(system.notes))


def _in_multipliers(problem: Problem, start: Solution) -> Solution:
    return Solution(beta=problem.multipliers(start), bias=start.bias)


def _hinge(
    problem: Problem, system: KernelSystem, tol: float, limit: int, first: Solution | None, monitor: Monitor
) -> Solution:
    """Return the solution of all columns, one after the other: each has active sets of its own."""

    def solve(column: Problem, start: Solution | None) -> Solution:
        start = start or origin(column)
        equalities = IteratedEqualities(column, system, start)
        begun = equalities.exactly()
        return search_active_sets(column, equalities, tol, limit, start, monitor, first=begun)

    return by_column(problem, first, monitor, solve)


def _squared(
    problem: Problem, system: KernelSystem, tol: float, limit: int, first: Solution, monitor: Monitor
) -> Solution:
    """Return the solution of all columns at once, refined until the certificate holds."""
    targets, everyone = problem.targets, np.arange(problem.n_rows)
    largest = np.abs(targets).max(axis=0)
    wanted = _SHARE * tol * np.where(largest > 0.0, largest, 1.0)
    solution, ones, used = _centred(problem, first), None, 0
    decision = _decision(system, solution)
    best, least = solution, float(problem.residual_at(solution, decision, everyone).max())
    while least > tol and used < limit and not monitor.stopped:
        assert solution.beta is not None
        rhs = targets - problem.ridge[:, None] * solution.beta - decision
        goal = wanted
        if ones is None and not problem.bias.is_absent:
            # u is asked for as closely as the bias, at most as large as the targets, multiplies it.
            rhs = np.column_stack([rhs, np.ones(problem.n_rows)])
            goal = np.append(wanted, _SHARE * tol)
        watch = partial(_tell, problem, solution, ones, used, monitor)
        X, count = system.solve(rhs, goal, limit - used, watch)
        used += count
        if X.shape[1] > targets.shape[1]:
            ones = X[:, -1]
        solution, _ = _stepped(problem, solution, X[:, : targets.shape[1]], ones)
        decision = _decision(system, solution)
        residual = float(problem.residual_at(solution, decision, everyone).max())
        stalled = not residual <= 0.5 * least
        if residual < least:
            best, least = solution, residual
        elif stalled:
            solution, decision = best, _decision(system, best)
        if stalled and least > tol and not system.widen("products in float32 did not reach tol"):
            break
    outcome = Outcome.MAX_ITER if used >= limit and least > tol else Outcome.FINISHED
    return replace(best, n_iter=max(used, 1), outcome=Outcome.STOPPED if monitor.stopped else outcome)


def _centred(problem: Problem, first: Solution) -> Solution:
    """Return where to start, with a free bias in the middle of the targets: any constant is as good."""
    if not problem.bias.is_free or np.any(first.beta):
        return first
    middle = 0.5 * (problem.targets.max(axis=0) + problem.targets.min(axis=0))
    return replace(first, bias=middle)


def _decision(system: KernelSystem, solution: Solution) -> FloatArray:
    """Return f at the rows, exactly."""
    assert solution.beta is not None
    if not solution.beta.any():
        return np.zeros(solution.beta.shape) + solution.bias
    return system.exactly(solution.beta) + solution.bias


def _stepped(
    problem: Problem, solution: Solution, V: FloatArray, ones: FloatArray | None
) -> tuple[Solution, FloatArray]:
    """Return the solution after H V = what was missing, and the step of the bias, so that 1'beta = A b."""
    beta, step = solution.beta, np.zeros(problem.n_columns)
    assert beta is not None
    moved = beta + V
    if ones is not None:
        A = problem.bias.penalty
        for _ in range(2):  # The second time for what rounding left of the sum.
            left = (moved.sum(axis=0) - A * (solution.bias + step)) / (A + ones.sum())
            moved = moved - np.outer(ones, left)
            step = step + left
    return Solution(beta=moved, bias=solution.bias + step), step


def _tell(
    problem: Problem,
    solution: Solution,
    ones: FloatArray | None,
    used: int,
    monitor: Monitor,
    iteration: int,
    X: FloatArray,
    R: FloatArray,
) -> bool:
    """Tell the monitor of an iteration by what is left of conjugate gradients: no product is needed."""
    if not monitor.listens:
        return False
    k, left = problem.n_columns, np.zeros(problem.n_rows)
    if X.shape[1] > k:
        ones, left = X[:, -1], R[:, -1]
    reached, step = _stepped(problem, solution, X[:, :k], ones)
    assert reached.beta is not None
    # r = H beta + b - y is minus what is missing.
    gradient = np.outer(left, step) - R[:, :k]
    return tell(problem, reached.beta, reached.bias, gradient, used + iteration, monitor)


class IteratedEqualities:
    """(48) of the RLSSVM paper for a set of rows, the closer solved the closer the search has come.

    Multipliers are carried from set to set. K beta comes along by products with what changes, quick ones;
    where beta hardly changes, little is lost.

    Parameters
    ----------
    problem : Problem
        With one column of targets.
    system : KernelSystem
    start : Solution
        In multipliers.
    """

    #: The search ends where tol is reached.
    enough = 1.0
    is_spent = False

    def __init__(self, problem: Problem, system: KernelSystem, start: Solution) -> None:
        assert start.beta is not None
        self.problem, self.system = problem, system
        self.beta: FloatArray = start.beta[:, 0].copy()
        self.bias = float(start.bias[0])
        self.product: FloatArray = np.zeros(problem.n_rows)
        self.is_exact = not self.beta.any()
        self._ones: FloatArray | None = None
        self._active: BoolArray | None = None
        self._preconditioner: Preconditioner | None = None
        self._stalls = 0

    def exactly(self) -> Target:
        """Return the last target, with K beta in float64."""
        if not self.is_exact:
            self.product = self.system.exactly(self.beta[:, None])[:, 0]
            self.is_exact = True
        return self._target(0)

    def _add(self, change: FloatArray) -> None:
        if not change.any():
            return
        self.beta = self.beta + change
        self.product = self.product + self.system.times(change[:, None])[:, 0]
        self.is_exact = self.is_exact and self.system.single is None

    def _enter(self, active: BoolArray) -> None:
        if self._active is not None and np.array_equal(active, self._active):
            return
        self._add(np.where(active, 0.0, -self.beta))
        # What rounding may have left there.
        self.beta[~active] = 0.0
        self._active, self._ones = active, None
        self._preconditioner = self.system.preconditioner.restricted(active)

    def goes_on(self, settled: bool, improved: bool) -> bool:
        """Return whether the residual still falls, or may fall again with products in float64."""
        self._stalls = 0 if improved else self._stalls + 1
        if self._stalls < _STALLS:
            return True
        self._stalls = 0
        return self.system.widen("products in float32 did not reach tol")

    def solve(self, active: BoolArray, bias: float, tol: float, limit: int) -> Target:
        """Go to the solution on the active rows, or closer to it."""
        if active.any():
            return self._target(self._advance(active, tol, limit))
        self.beta, self.product, self.is_exact = np.zeros_like(self.beta), np.zeros_like(self.beta), True
        self.bias, self._active = bias_of_no_rows(self.problem, bias), None
        return self._target(0)

    def _advance(self, active: BoolArray, tol: float, limit: int) -> int:
        """Solve the equalities of the active rows more closely; return the iterations taken."""
        self._enter(active)
        problem = self.problem
        missing = problem.targets[:, 0] - self.product - self.bias - problem.ridge * self.beta
        rhs = np.where(active, missing, 0.0)[:, None]
        wanted = np.maximum(_SHARE * tol, _REDUCTION * np.abs(rhs).max(axis=0))
        has_bias = not problem.bias.is_absent
        if has_bias and self._ones is None:
            rhs = np.column_stack([rhs, active.astype(np.float64)])
            wanted = np.append(wanted, max(_SHARE * tol, _REDUCTION**2))
        X, count = self.system.solve(rhs, wanted, limit, lambda *_: False, self._preconditioner, active)
        if X.shape[1] > 1:
            self._ones = X[:, 1]
        here = Solution(beta=self.beta[:, None], bias=np.array([self.bias]))
        reached, step = _stepped(problem, here, X[:, :1], self._ones if has_bias else None)
        assert reached.beta is not None
        self._add(reached.beta[:, 0] - self.beta)
        self.bias += float(step[0])
        return count

    def _target(self, cost: int) -> Target:
        """Return the point that the multipliers stand for, and its residual."""
        problem, decision = self.problem, self.product + self.bias
        norm = max(float(self.beta @ self.product), 0.0)
        target = Target(self.beta.copy(), Iterate(decision, self.bias, norm), np.inf, self.is_exact, cost)
        residual = problem.residual_at(target.solution, decision[:, None], np.arange(problem.n_rows))
        return replace(target, residual=float(residual[0]))
