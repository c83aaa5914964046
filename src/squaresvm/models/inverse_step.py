"""Models that were asked for the papers' inverse: learning and forgetting by blocks of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from squaresvm.models.steps import Check, Coming, Leaving, StepBase
from squaresvm.operators import StoredOperator
from squaresvm.rows.chunks import dropped
from squaresvm.solution import Solution
from squaresvm.solvers.decremental import DBLSSVM, DBLSVM, StoredInverse, decremental_for
from squaresvm.typing import FloatArray

if TYPE_CHECKING:
    from squaresvm.models.state import State

__all__ = ["InverseStep"]

#: Solvers whose models forget by the decremental paper's own algorithms.
_ASKED = ("lagrangian", "inverse")


class InverseStep(StepBase):
    """The inverse of Q by blocks, then the fixed point or the reduced system: Duan, Li, He and Zeng.

    The inverse is kept between requests, one matrix beside K; the first request computes it where the fit
    did not. Unlike a Cholesky factor it loses digits with each request, so it is computed anew where the
    residual says that it must be.
    """

    def __init__(self, state: State) -> None:
        super().__init__(state)
        found = state.factor
        self._before = found if isinstance(found, StoredInverse) else None
        self._rule: DBLSVM | DBLSSVM = decremental_for(state.settings.loss, 2, state.settings.solver)

    @staticmethod
    def serves(state: State) -> bool:
        """Return whether the model was asked for an algorithm that keeps the inverse."""
        asked = state.settings.solver
        name = asked if isinstance(asked, str) else asked.name
        return name in _ASKED and isinstance(state.problem.operator, StoredOperator)

    def forget(self, leaving: Leaving) -> None:
        """Take the rows out of the inverse, and go on from the multipliers of the others."""
        gone, before, operator = leaving.gone, self._inverse(), self._operator
        self._rule = decremental_for(self.now.loss, gone.size, self.state.settings.solver)
        self._go(operator.without(gone, leaving.X), leaving.targets, dropped(self.now.costs, gone))
        start = None
        if leaving.same_classes:
            start = Solution(beta=dropped(self._multipliers, gone), bias=self.solution.bias)
        self._settle(lambda: before.without(gone), start)
        self.solver = self._rule.name
        rows = "1 row" if gone.size == 1 else f"{gone.size} rows"
        self.reason = f"{self.now.loss}: {rows} left the inverse by blocks, as asked for by name"

        def wipe() -> None:
            operator.clear(gone)
            before.wipe()

        self._wipe = wipe

    def learn(self, coming: Coming) -> None:
        """Put the rows into the inverse, and go on from the multipliers held, the new rows at zero."""
        before, beta, weights = self._inverse(), self._multipliers, coming.weights
        joined, cross, corner = self._operator.joined(coming.X)
        self._go(joined, coming.targets, self._joined_costs(weights))
        padded = np.vstack([beta, np.zeros((weights.size, beta.shape[1]))])
        start = Solution(beta=padded, bias=self.solution.bias) if coming.same_classes else None
        corner = corner + np.diag(self.now.ridge[-weights.size :])
        self._settle(lambda: before.joined(cross, corner), start)
        asked = self.state.settings.solver
        self.solver = asked if isinstance(asked, str) else asked.name
        self.reason = f"{self.now.loss}: rows came to the inverse by blocks, as asked for by name"

    @property
    def _multipliers(self) -> FloatArray:
        assert self.solution.beta is not None
        return self.solution.beta

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
        check, inverse = super().check(verify), self.solution.factor
        assert isinstance(inverse, StoredInverse)
        if check.residual > self.state.settings.tol and not inverse.is_fresh:
            drifted, residual = self.solution, check.residual
            self._solve(StoredInverse.of(self.now), drifted)
            check = super().check(verify)
            if check.residual < residual:
                self.refactored = True
            else:  # Not the inverse: the fixed point has come to its limit.
                self.solution = drifted
                check = super().check(verify)
        return check
