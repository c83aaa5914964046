"""Squared loss through K: learning and forgetting by updates of a factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from squaresvm.factors import CholeskyFactor
from squaresvm.factors.slot_inverse import PENDING_LIMIT
from squaresvm.linalg.blas import times
from squaresvm.linalg.lapack import NotPositiveDefiniteError
from squaresvm.models.drift import COMBINATIONS, Watch
from squaresvm.models.steps import Check, Coming, Leaving, StepBase
from squaresvm.operators import ProximalOperator, StoredOperator
from squaresvm.rows.chunks import dropped
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["FactorStep", "ProximalStep"]


class FactorStep(StepBase):
    """Squared loss through K: the factor of H is updated, and the solution with it.

    The decremental LS-SVM (DOLSSVM, DBLSSVM) of Duan et al. reaches the same point by blocks of the inverse:
    see `InverseStep`.
    """

    solver = "direct"
    #: More rows than this at once are cheaper by a new factor.
    _most_rows = PENDING_LIMIT
    #: Whether drift is watched through products with K between full checks.
    _watches = True
    #: Whether the factor is of exactly the rows of `problem`, with nothing that waits or was taken out.
    _is_fresh = False

    def _old_factor(self) -> CholeskyFactor:
        """Return the factor of the old problem; made now where the solver kept none."""
        before = self.solution.factor
        factor = self.state.kernel_factor()
        self.refactored = factor is not before
        return factor

    def _built(self) -> CholeskyFactor:
        problem = self.now
        store, slots = problem.operator.store(), problem.operator.slots
        self.refactored = self._is_fresh = True
        return CholeskyFactor.build(store, slots, problem.ridge, problem.bias)

    # Forgetting and learning -----------------------------------------------------------------------

    def forget(self, leaving: Leaving) -> None:
        """Remove the rows from the factor; where they are many, factor the rest anew."""
        gone, operator = leaving.gone, self._operator
        self._wipe = partial(operator.clear, gone)
        factor = self._old_factor() if gone.size <= self._most_rows else None
        if factor is not None:
            factor = self._tried(partial(self._remove, factor, gone))
            if leaving.same_classes:
                self._watch_without(gone)
        self._go(operator.without(gone, leaving.X), leaving.targets, dropped(self.now.costs, gone))
        self._settle(factor, leaving.same_classes, f"{_count(gone.size)} left the factor")

    def _watch_without(self, gone: IntArray) -> None:
        watch = self.state.watch
        if watch is not None:
            self.watch = watch.without(self.now, gone)

    def _tried(self, update: Callable[[], tuple[CholeskyFactor, Solution]]) -> CholeskyFactor | None:
        """Return the updated factor; None where it is too close to singular, and one must be made anew."""
        try:
            factor, self.solution = update()
        except (np.linalg.LinAlgError, NotPositiveDefiniteError):
            return None
        return factor

    def _remove(self, factor: CholeskyFactor, gone: IntArray) -> tuple[CholeskyFactor, Solution]:
        return factor.remove(gone, self.solution)

    def learn(self, coming: Coming) -> None:
        """Append the rows to the factor; where they are many, factor all anew."""
        weights, targets, same = coming.weights, coming.targets, coming.same_classes
        factor = self._old_factor() if weights.size <= self._most_rows else None
        costs = self._joined_costs(weights)
        joined, cross, corner = self._joined(coming.X, weights)
        if not same:
            # The factor does not depend on the targets: any will do until all are solved for anew.
            self.solution = Solution(bias=np.zeros(1), beta=np.zeros((self.now.n_rows, 1)))
        if factor is not None:
            wanted = targets if same else targets[:, :1]
            factor = self._tried(partial(self._append, factor, joined, cross, corner, costs, wanted))
        self._go(joined, targets, costs)
        if self.state.watch is not None and factor is not None and same:
            self.watch = self.state.watch.joined(self.now, cross, corner)
        self._settle(factor, same, f"{_count(weights.size)} came to the factor")

    def _joined(self, X: Matrix, weights: FloatArray) -> tuple[StoredOperator, FloatArray, FloatArray]:
        return self._operator.joined(X)

    def _append(
        self,
        factor: CholeskyFactor,
        joined: StoredOperator,
        cross: FloatArray,
        corner: FloatArray,
        costs: FloatArray,
        targets: FloatArray,
    ) -> tuple[CholeskyFactor, Solution]:
        new = slice(self.now.n_rows, None)
        return self._append_at(joined.slots[new], factor, cross, corner, costs[new], targets[new])

    def _append_at(
        self,
        slots: IntArray,
        factor: CholeskyFactor,
        cross: FloatArray,
        corner: FloatArray,
        costs: FloatArray,
        targets: FloatArray,
    ) -> tuple[CholeskyFactor, Solution]:
        beta = self.solution.beta
        assert beta is not None
        shortfall = targets - times(cross.T, beta) - self.solution.bias
        return factor.append(slots, cross, corner, 1.0 / costs, shortfall, self.solution)

    def _settle(self, factor: CholeskyFactor | None, same_classes: bool, what: str) -> None:
        """Repair the factor if that is due, and solve anew where the solution has not come along."""
        came_along = factor is not None and same_classes
        self.requests += 1
        if factor is None:
            factor, what = self._built(), f"{self.now.n_rows} rows: a new factor"
            self.watch = None
        elif not factor.can_wait:
            factor = factor.repaired()
            self.requests = 0
        if not came_along:
            self.solution = factor.solve(self.now.targets)
        if self.solution.factor is not factor:
            self.solution = Solution(beta=self.solution.beta, bias=self.solution.bias, factor=factor)
        self._tell(f"squared loss: {what}")

    # The residual ----------------------------------------------------------------------------------

    def check(self, verify: bool) -> Check:
        """Return the residual: of all rows after a repair, else of combinations; mend it where it drifted."""
        tol = self.state.settings.tol
        is_due = verify or self.refactored or not self.state.is_verified
        if not is_due and 0 < self.requests < PENDING_LIMIT and self.watch is not None:
            residual = self.watch.residual(self.now, self.solution)
            if self.watch.is_beyond_doubt(residual, tol):
                return Check(residual, COMBINATIONS, True)
        self.requests = 0
        self.certificate = self.now.certify(self.solution, tol)
        residual = self.certificate.residual
        if residual > tol:
            residual = self._mended(residual)
        self._set_watch()
        return Check(residual, self.now.n_rows, False)

    def _set_watch(self) -> None:
        """Watch the rows from now on, where requests have become so many that each costs O(m).

        The first ones cost O(m^2) anyhow, and a look at all rows with them.
        """
        factor = self.solution.factor
        assert isinstance(factor, CholeskyFactor)
        if self._watches and factor.is_much_used and (self.watch is None or self.watch.is_worn):
            self.watch = Watch.over(self.now)

    def _mended(self, residual: float) -> float:
        """Return the residual after refinement, and after a new factor where that is not enough."""
        tol, targets = self.state.settings.tol, self.now.targets
        self.certificate = None  # It was of what is mended here.
        factor = self.solution.factor
        assert isinstance(factor, CholeskyFactor)
        self._keep_if_better(factor.refine(self.solution, targets))
        residual = float(self.now.residual(self.solution).max())
        if residual > tol and not self._is_fresh:
            rebuilt = self._built()
            solved = rebuilt.solve(targets)
            self.solution = replace(self.solution, factor=rebuilt)
            self._keep_if_better(solved)
            self._keep_if_better(rebuilt.refine(solved, targets))
            residual = float(self.now.residual(self.solution).max())
        return residual

    def _keep_if_better(self, found: Solution) -> None:
        if self.now.residual(found).max() < self.now.residual(self.solution).max():
            self.solution = found


class ProximalStep(FactorStep):
    """The nonlinear proximal SVM: rows are landmarks too, so K W K' of the others changes with them.

    After the rows R have left, H of the others loses V W_R V' with V = K[rest, R]; before new rows come, it
    gains the same. The residual is of all rows each time: products with K W K' change with every landmark.
    """

    _most_rows = PENDING_LIMIT // 2
    _watches = False

    @property
    def _proximal(self) -> ProximalOperator:
        operator = self.now.operator
        assert isinstance(operator, ProximalOperator)
        return operator

    def _remove(self, factor: CholeskyFactor, gone: IntArray) -> tuple[CholeskyFactor, Solution]:
        operator = self._proximal
        rest = dropped(np.arange(operator.n_rows), gone)
        landmarks = operator.inner.block(rest, gone)
        factor, solution = super()._remove(factor, gone)
        return factor.shifted(landmarks, -operator.weights[gone], solution)

    def _joined(self, X: Matrix, weights: FloatArray) -> tuple[StoredOperator, FloatArray, FloatArray]:
        return self._proximal.with_landmarks(X, weights)

    def _append(
        self,
        factor: CholeskyFactor,
        joined: StoredOperator,
        cross: FloatArray,
        corner: FloatArray,
        costs: FloatArray,
        targets: FloatArray,
    ) -> tuple[CholeskyFactor, Solution]:
        assert isinstance(joined, ProximalOperator)
        held = self.now.n_rows
        everyone = np.arange(joined.n_rows)
        landmarks = joined.inner.block(everyone[:held], everyone[held:])
        factor, self.solution = factor.shifted(landmarks, joined.weights[held:], self.solution)
        slots = factor.free_slots(joined.n_rows - held)
        return self._append_at(slots, factor, cross, corner, costs[held:], targets[held:])


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"
