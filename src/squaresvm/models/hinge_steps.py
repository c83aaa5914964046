"""Models without a factor: learning and forgetting by going on from where the model was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from squaresvm.models.steps import Coming, Leaving, StepBase
from squaresvm.operators import LinearOperator
from squaresvm.rows.chunks import dropped
from squaresvm.solution import Solution
from squaresvm.solvers.active_set import ActiveSet
from squaresvm.solvers.base import Solver
from squaresvm.solvers.choose_linear import single_updates
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.solvers.newton import Newton
from squaresvm.typing import IntArray

if TYPE_CHECKING:
    from squaresvm.models.state import State

__all__ = ["HingeStep", "NewtonStep", "RowStep"]


class HingeStep(StepBase):
    """Squared hinge through K: rows without a multiplier leave for nothing, the set goes on for others.

    The decremental Lagrangian SVM (DOLSVM, DBLSVM) of Duan et al. reaches the same point by its fixed point:
    see `InverseStep`.
    """

    solver = "active-set"

    def forget(self, leaving: Leaving) -> None:
        """Continue from the multipliers of the rows kept."""
        beta, gone, same = self.solution.beta, leaving.gone, leaving.same_classes
        assert beta is not None
        settled = same and not np.any(beta[gone])
        keep = np.ones(beta.shape[0], dtype=bool)
        keep[gone] = False
        operator = self._operator
        self._go(operator.without(gone, leaving.X), leaving.targets, dropped(self.now.costs, gone))
        position = np.where(keep, np.cumsum(keep) - 1, -1)
        system = self._system(position) if same else None
        rest = Solution(beta=beta[keep], bias=self.solution.bias, factor=system, n_iter=0)
        if settled:
            self.solution = rest
            self._tell("squared hinge: the rows that left had no multipliers, so nothing else changes")
        else:
            self._resolve(rest if same else None)

        def wipe() -> None:
            operator.clear(gone)
            if isinstance(self.solution.factor, EqualitySystem):
                self.solution.factor.wipe()

        self._wipe = wipe

    def learn(self, coming: Coming) -> None:
        """Continue from the multipliers held, the new rows at zero."""
        beta, weights = self.solution.beta, coming.weights
        assert beta is not None
        joined, _, _ = self._operator.joined(coming.X)
        padded = np.vstack([beta, np.zeros((weights.size, beta.shape[1]))])
        self._go(joined, coming.targets, self._joined_costs(weights))
        same = coming.same_classes
        system = self._system(np.arange(beta.shape[0])) if same else None
        start = Solution(beta=padded, bias=self.solution.bias, factor=system)
        self._resolve(start if same else None)

    def _system(self, position: IntArray) -> EqualitySystem | None:
        """Return the system of the active rows, carried over to the new problem, where there is one."""
        system = self.state.factor
        return system.carried(self.now, position) if isinstance(system, EqualitySystem) else None

    def _resolve(self, start: Solution | None) -> None:
        settings = self.state.settings
        self.solution = ActiveSet().solve(self.now, tol=settings.tol, max_iter=settings.max_iter, start=start)
        self._tell("squared hinge: the active set goes on from the multipliers held")


class NewtonStep(StepBase):
    """Linear models without sums: Newton steps from where the model was."""

    solver = "newton"

    def forget(self, leaving: Leaving) -> None:
        """Go on without the rows."""
        X = leaving.X
        self._go(LinearOperator(X), leaving.targets, dropped(self.now.costs, leaving.gone))
        self._resolve(leaving.same_classes)

    def learn(self, coming: Coming) -> None:
        """Go on with the rows."""
        self._go(LinearOperator(coming.X), coming.targets, self._joined_costs(coming.weights))
        self._resolve(coming.same_classes)

    def _resolve(self, same_classes: bool) -> None:
        settings, start = self.state.settings, None
        if same_classes:
            start = Solution(primal=self.state.primal, bias=self.solution.bias)
        self.solution = Newton().solve(self.now, tol=settings.tol, max_iter=settings.max_iter, start=start)
        self._tell(f"{self.now.loss}, linear: Newton steps in w go on from where the model was")


class RowStep(StepBase):
    """Linear models with multipliers and without a kernel matrix: updates that carry w go on from them."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._solver: Solver = single_updates(state.problem)
        self.solver = self._solver.name

    def forget(self, leaving: Leaving) -> None:
        """Go on from the multipliers of the rows kept."""
        beta, same = self.solution.beta, leaving.same_classes
        assert beta is not None
        X = leaving.X
        self._go(LinearOperator(X), leaving.targets, dropped(self.now.costs, leaving.gone))
        rest = Solution(beta=dropped(beta, leaving.gone), bias=self.solution.bias, n_iter=0)
        if same and not np.any(beta[leaving.gone]):
            self.solution = rest
            self._tell("the rows that left had no multipliers, so nothing else changes")
        else:
            self._resolve(rest if same else None)

    def learn(self, coming: Coming) -> None:
        """Go on from the multipliers held, the new rows at zero."""
        beta = self.solution.beta
        assert beta is not None
        padded = np.vstack([beta, np.zeros((coming.weights.size, beta.shape[1]))])
        self._go(LinearOperator(coming.X), coming.targets, self._joined_costs(coming.weights))
        self._resolve(Solution(beta=padded, bias=self.solution.bias) if coming.same_classes else None)

    def _resolve(self, start: Solution | None) -> None:
        settings = self.state.settings
        self.solution = self._solver.solve(
            self.now, tol=settings.tol, max_iter=settings.max_iter, start=start
        )
        self._tell(f"{self.now.loss}, linear: updates that carry w go on from the multipliers held")
