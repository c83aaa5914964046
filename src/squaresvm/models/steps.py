"""One step of learning or forgetting: what every kind of model does, and the kinds that go on by a search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from squaresvm.models.model import nothing
from squaresvm.operators import LinearOperator, Operator, StoredOperator
from squaresvm.problem import Problem
from squaresvm.rows.chunks import dropped
from squaresvm.solution import Certificate, Factor, Solution
from squaresvm.solvers.active_set import ActiveSet
from squaresvm.solvers.base import Solver
from squaresvm.solvers.choose import single_updates
from squaresvm.solvers.decremental import DBLSSVM, DBLSVM, StoredInverse, decremental_for
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.solvers.newton import Newton
from squaresvm.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from squaresvm.models.factor_steps import Watch
    from squaresvm.models.state import State
    from squaresvm.models.updates import Coming, Leaving

__all__ = ["Check", "HingeStep", "InverseStep", "MultiplierStep", "NewtonStep", "Step", "in_words"]

#: Steps of active sets, as a fit takes them, that a request may cost; then it becomes a fit. So whatever rows
#: are chosen, it costs no more than a refit and about five such steps: the last may exceed what is left.
_ALLOWANCE = 4.0

#: Solvers whose models forget by the decremental paper's own algorithms.
_BY_INVERSE = ("lagrangian", "inverse")


@dataclass(frozen=True)
class Check:
    """What was found of the residual.

    Parameters
    ----------
    residual : float
    checked : int
        How many numbers it was taken from.
    sampled : bool
        Whether these are random combinations of all rows; else they are the rows themselves.
    """

    residual: float
    checked: int
    sampled: bool


def in_words(rows: int) -> str:
    """Return so many rows in words."""
    return "1 row" if rows == 1 else f"{rows} rows"


class Step(ABC):
    """A model on its way from one set of rows to the next.

    After `learn` or `forget` it has the new solution; `problem` is None where nobody needed the new rows in
    one place. `check` takes the residual and mends what has drifted. `wipe` overwrites what buffers hold of
    rows that left, once the new state is in place.

    Parameters
    ----------
    state : State
        Where it begins.
    problem : Problem or None
        That of the state, where the step needs it.
    """

    solver = ""

    def __init__(self, state: State, problem: Problem | None) -> None:
        self.state, self.problem = state, problem
        self.solution = state.current_solution
        self.reason = state.reason
        self.refactored = False
        self.requests = state.requests
        self.watch: Watch | None = None
        self.certificate: Certificate | None = None
        self.wipe: Callable[[], None] = nothing

    @abstractmethod
    def forget(self, leaving: Leaving) -> None:
        """Go to the rows without those that leave."""

    @abstractmethod
    def learn(self, coming: Coming) -> None:
        """Go to the rows held and new ones."""

    def check(self, verify: bool) -> Check:
        """Return the residual; of all rows, one by one, where `verify` asks for it."""
        self.certificate = self.now.certify(self.solution, self.state.settings.tol)
        return Check(self.certificate.residual, self.now.n_rows, False)

    @property
    def now(self) -> Problem:
        """The problem that the step has come to."""
        assert self.problem is not None
        return self.problem

    def _go(self, operator: Operator, targets: FloatArray, costs: FloatArray) -> None:
        self.problem = Problem(operator, targets, costs, self.now.loss, self.now.bias)

    def _joined_costs(self, weights: FloatArray) -> FloatArray:
        return np.concatenate([self.now.costs, self.state.settings.C * weights])

    @property
    def _operator(self) -> StoredOperator:
        operator = self.now.operator
        assert isinstance(operator, StoredOperator)
        return operator

    @property
    def _multipliers(self) -> FloatArray:
        assert self.solution.beta is not None
        return self.solution.beta

    def _padded(self, count: int) -> FloatArray:
        """Return the multipliers, those of so many new rows at zero."""
        beta = self._multipliers
        return np.vstack([beta, np.zeros((count, beta.shape[1]))])

    def _search(self, solver: Solver, start: Solution | None, how: str) -> None:
        """Solve the problem that the step has come to, from where the model was."""
        settings = self.state.settings
        self.solution = solver.solve(self.now, tol=settings.tol, max_iter=settings.max_iter, start=start)
        self._tell(f"{self.now.loss}{how}")

    def _tell(self, what: str) -> None:
        """Say in `reason` what was done in this request, beside what was asked for at fit."""
        asked = self.state.settings.solver_name
        by_name = "" if asked in ("auto", self.solver) else f"; {asked!r} was asked for, and did the fit"
        self.reason = f"{what}{by_name}"


class NewtonStep(Step):
    """Linear models without sums: Newton steps from where the model was."""

    solver = "newton"

    def forget(self, leaving: Leaving) -> None:
        """Go on without the rows."""
        costs = dropped(self.now.costs, leaving.gone)
        self._go(LinearOperator(leaving.X), leaving.targets, costs)
        self._resolve(leaving.same_classes)

    def learn(self, coming: Coming) -> None:
        """Go on with the rows."""
        self._go(LinearOperator(coming.X), coming.targets, self._joined_costs(coming.weights))
        self._resolve(coming.same_classes)

    def _resolve(self, same_classes: bool) -> None:
        start = Solution(primal=self.state.primal, bias=self.solution.bias) if same_classes else None
        self._search(Newton(), start, ", linear: Newton steps in w go on from where the model was")


class MultiplierStep(Step):
    """Models without a factor of all rows: the search goes on from the multipliers held.

    Rows without a multiplier leave for nothing. Of linear models without a kernel matrix the search is by
    updates that carry w.
    """

    _how = ", linear: coordinate descent that maintains w continues from the multipliers held"

    def __init__(self, state: State, problem: Problem) -> None:
        super().__init__(state, problem)
        self._solver = self._chosen(problem)
        self.solver = self._solver.name

    @staticmethod
    def _chosen(problem: Problem) -> Solver:
        return single_updates(problem)

    def forget(self, leaving: Leaving) -> None:
        """Go on from the multipliers of the rows kept."""
        beta, gone, same = self._multipliers, leaving.gone, leaving.same_classes
        settled = same and not np.any(beta[gone])
        kept = dropped(np.arange(beta.shape[0]), gone)
        self._go(self._without(leaving), leaving.targets, dropped(self.now.costs, gone))
        factor = self._carried(kept, beta.shape[0]) if same else None
        rest = Solution(beta=beta[kept], bias=self.solution.bias, factor=factor, n_iter=0)
        if settled:
            self.solution = rest
            self._tell(f"{self.now.loss}: the rows that left had no multipliers, so nothing else changes")
        else:
            self._search(self._solver, rest if same else None, self._how)

    def learn(self, coming: Coming) -> None:
        """Go on from the multipliers held, the new rows at zero."""
        padded, held = self._padded(coming.weights.size), self.now.n_rows
        self._go(self._with(coming), coming.targets, self._joined_costs(coming.weights))
        factor = self._carried(np.arange(held), held) if coming.same_classes else None
        start = Solution(beta=padded, bias=self.solution.bias, factor=factor)
        self._search(self._solver, start if coming.same_classes else None, self._how)

    def _without(self, leaving: Leaving) -> Operator:
        return LinearOperator(leaving.X)

    def _with(self, coming: Coming) -> Operator:
        return LinearOperator(coming.X)

    def _carried(self, kept: IntArray, count: int) -> Factor | None:
        """Return what the search may go on with besides, given which of `count` rows are still there."""
        return None


class HingeStep(MultiplierStep):
    """Squared hinge through K: the active set goes on, with the system of its rows.

    The decremental Lagrangian SVM (DOLSVM, DBLSVM) of Duan et al. reaches the same point by its fixed point:
    see `InverseStep`.
    """

    _how = ": the active set goes on from the multipliers held"

    @staticmethod
    def _chosen(problem: Problem) -> Solver:
        return ActiveSet(allowance=_ALLOWANCE)

    def _without(self, leaving: Leaving) -> Operator:
        operator, gone = self._operator, leaving.gone

        def wipe() -> None:
            operator.clear(gone)
            system = EqualitySystem.among(self.solution.factor)
            if system is not None:
                system.wipe()

        self.wipe = wipe
        return operator.without(gone, leaving.X)

    def _with(self, coming: Coming) -> Operator:
        return self._operator.joined(coming.X)[0]

    def _carried(self, kept: IntArray, count: int) -> EqualitySystem | None:
        """Return the system of the active rows, carried over to the new problem, where there is one."""
        system = EqualitySystem.among(self.state.factor)
        position = np.full(count, -1)
        position[kept] = np.arange(kept.size)
        return None if system is None else system.carried(self.now, position)


class InverseStep(Step):
    """The inverse of Q by blocks, then the fixed point or the reduced system: Duan, Li, He and Zeng.

    The inverse is kept between requests, one matrix beside K; the first request computes it where the fit
    did not. Unlike a Cholesky factor it loses digits with each request, so it is computed anew where the
    residual says that it must be.
    """

    def __init__(self, state: State, problem: Problem) -> None:
        super().__init__(state, problem)
        self._before = StoredInverse.among(state.factor)
        self._rule: DBLSVM | DBLSSVM = decremental_for(state.settings.loss, 2, state.settings.solver)

    @staticmethod
    def serves(state: State) -> bool:
        """Return whether the model was asked for an algorithm that keeps the inverse."""
        by_name = state.settings.solver_name in _BY_INVERSE
        return by_name and isinstance(state.problem.operator, StoredOperator)

    def forget(self, leaving: Leaving) -> None:
        """Take the rows out of the inverse, and go on from the multipliers of the others."""
        gone, before, operator = leaving.gone, self._inverse(), self._operator
        self._rule = decremental_for(self.now.loss, gone.size, self.state.settings.solver)
        self._go(operator.without(gone, leaving.X), leaving.targets, dropped(self.now.costs, gone))
        rest = Solution(beta=dropped(self._multipliers, gone), bias=self.solution.bias)
        self._settle(lambda: before.without(gone), rest if leaving.same_classes else None)
        self.solver = self._rule.name
        rows = in_words(gone.size)
        self.reason = f"{self.now.loss}: {rows} left the inverse by blocks, as asked for by name"

        def wipe() -> None:
            operator.clear(gone)
            before.wipe()

        self.wipe = wipe

    def learn(self, coming: Coming) -> None:
        """Put the rows into the inverse, and go on from the multipliers held, the new rows at zero."""
        before, weights = self._inverse(), coming.weights
        padded = self._padded(weights.size)
        joined, cross, corner = self._operator.joined(coming.X)
        self._go(joined, coming.targets, self._joined_costs(weights))
        start = Solution(beta=padded, bias=self.solution.bias) if coming.same_classes else None
        corner = corner + np.diag(self.now.ridge[-weights.size :])
        self._settle(lambda: before.joined(cross, corner), start)
        self.solver = self.state.settings.solver_name
        self.reason = f"{self.now.loss}: rows came to the inverse by blocks, as asked for by name"

    def _inverse(self) -> StoredInverse:
        """Return the inverse before the request; computed now where none is kept."""
        self.refactored = self._before is None
        return StoredInverse.of(self.now) if self._before is None else self._before

    def _settle(self, update: Callable[[], StoredInverse], start: Solution | None) -> None:
        try:
            inverse = update()
        except np.linalg.LinAlgError:
            inverse = StoredInverse.of(self.now)
            self.refactored = True
        self._solve(inverse, start)

    def _solve(self, inverse: StoredInverse, start: Solution | None) -> None:
        settings = self.state.settings
        self.solution = self._rule.solve_with(
            self.now, inverse, tol=settings.tol, max_iter=settings.max_iter, start=start
        )

    def check(self, verify: bool) -> Check:
        """Return the residual of all rows; where the inverse has drifted, compute it anew and go on."""
        check, inverse = super().check(verify), StoredInverse.among(self.solution.factor)
        has_drifted = inverse is not None and not inverse.is_fresh
        if check.residual > self.state.settings.tol and has_drifted:
            drifted, residual = self.solution, check.residual
            self._solve(StoredInverse.of(self.now), drifted)
            check = super().check(verify)
            if check.residual < residual:
                self.refactored = True
            else:  # Not the inverse: the fixed point has come to its limit.
                self.solution = drifted
                check = super().check(verify)
        return check
