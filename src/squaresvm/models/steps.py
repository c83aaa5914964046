"""One step of learning or forgetting, for each kind of model: what becomes of problem and solution."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from squaresvm.factors import CholeskyFactor
from squaresvm.factors.slot_inverse import PENDING_LIMIT
from squaresvm.linalg.products import times
from squaresvm.models.state import State
from squaresvm.operators import LinearOperator, Operator, ProximalOperator, StoredOperator
from squaresvm.problem import Loss, Problem
from squaresvm.rows.chunks import Features, dropped
from squaresvm.solution import Certificate, Solution
from squaresvm.solvers.active_set import ActiveSet
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.solvers.newton import Newton
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["FactorStep", "HingeStep", "NewtonStep", "ProximalStep", "Step"]

#: Between repairs the residual is taken on one row, for where a factor fails, it fails everywhere. Which row
#: that is must not be known beforehand, and nothing else depends on it.
_RANDOM = random.Random()


class Step(Protocol):
    """A model on its way from one set of rows to the next."""

    problem: Problem
    solution: Solution
    refactored: bool
    requests: int
    certificate: Certificate | None

    def forget(self, gone: IntArray, X: Features, targets: FloatArray, same_classes: bool) -> None:
        """Go to the rows without those at `gone`, with features X and the given targets."""
        ...

    def learn(self, X: Matrix, weights: FloatArray, targets: FloatArray, same_classes: bool) -> None:
        """Go to the rows held and new ones, of the given weights; X and targets are of all.

        With a precomputed kernel X holds the new rows' kernel values with all.
        """
        ...

    def check(self) -> tuple[float, bool]:
        """Return the residual, and whether it is of some rows only, after mending what drifted."""
        ...


class _StepBase:
    """What steps share: the old state, the new problem, the new solution."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.problem = state.problem
        self.solution = state.solution
        self.refactored = False
        self.requests = state.requests
        self.certificate: Certificate | None = None

    def _go(self, operator: Operator, targets: FloatArray, costs: FloatArray) -> None:
        self.problem = Problem(operator, targets, costs, self.problem.loss, self.problem.bias)

    def _costs(self, weights: FloatArray) -> FloatArray:
        return np.concatenate([self.problem.costs, self.state.settings.C * weights])

    @property
    def _operator(self) -> StoredOperator:
        operator = self.problem.operator
        assert isinstance(operator, StoredOperator)
        return operator

    def check(self) -> tuple[float, bool]:
        """Return the residual of all rows."""
        self.certificate = self.problem.certify(self.solution, self.state.settings.tol)
        return self.certificate.residual, False


class FactorStep(_StepBase):
    """Squared loss through K: the factor of H is updated, and the solution with it.

    These are the batch and online decremental LS-SVM (DBLSSVM, DOLSSVM) of Duan et al. and their incremental
    counterparts, without the refit of everything else.
    """

    #: More rows than this at once are cheaper by a new factor.
    _most_rows = PENDING_LIMIT

    def _factor(self) -> CholeskyFactor:
        """Return the factor of the old problem; made now where the solver kept none."""
        factor = self.state.solution.factor
        if isinstance(factor, CholeskyFactor) and factor.is_current:
            return factor
        self.refactored = True
        return self._built()

    def _built(self) -> CholeskyFactor:
        problem = self.problem
        store, slots = problem.operator.store(), problem.operator.slots
        return CholeskyFactor.build(store, slots, problem.ridge, problem.bias)

    def forget(self, gone: IntArray, X: Features, targets: FloatArray, same_classes: bool) -> None:
        """Remove the rows from the factor; where they are many, factor the rest anew."""
        few = gone.size <= self._most_rows
        factor = self._factor() if few else None
        if factor is not None:
            factor = self._tried(partial(self._remove, factor, gone))
        self._go(self._operator.without(gone, X), targets, dropped(self.problem.costs, gone))
        self._settle(factor, same_classes)

    def _tried(self, update: Callable[[], tuple[CholeskyFactor, Solution]]) -> CholeskyFactor | None:
        """Return the updated factor; None where it is too close to singular, and one must be made anew."""
        try:
            factor, self.solution = update()
        except np.linalg.LinAlgError:
            return None
        return factor

    def _remove(self, factor: CholeskyFactor, gone: IntArray) -> tuple[CholeskyFactor, Solution]:
        return factor.remove(gone, self.solution)

    def learn(self, X: Matrix, weights: FloatArray, targets: FloatArray, same_classes: bool) -> None:
        """Append the rows to the factor; where they are many, factor all anew."""
        few = weights.size <= self._most_rows
        factor = self._factor() if few else None
        costs = self._costs(weights)
        joined, cross, corner = self._operator.joined(X)
        if not same_classes:
            # The factor does not depend on the targets: any will do until all are solved for anew.
            self.solution = Solution(bias=np.zeros(1), beta=np.zeros((self.problem.n_rows, 1)))
        if factor is not None:
            wanted = targets if same_classes else targets[:, :1]
            factor = self._tried(partial(self._append, factor, joined, cross, corner, costs, wanted))
        self._go(joined, targets, costs)
        self._settle(factor, same_classes)

    def _append(
        self,
        factor: CholeskyFactor,
        joined: StoredOperator,
        cross: FloatArray,
        corner: FloatArray,
        costs: FloatArray,
        targets: FloatArray,
    ) -> tuple[CholeskyFactor, Solution]:
        new = slice(self.problem.n_rows, None)
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

    def _settle(self, factor: CholeskyFactor | None, same_classes: bool) -> None:
        """Repair the factor if that is due, and solve anew where the solution has not come along."""
        came_along = factor is not None and same_classes
        self.requests += 1
        if factor is None:
            factor, self.refactored = self._built(), True
        elif not factor.can_wait:
            factor = factor.repaired()
            self.requests = 0
        if not came_along:
            self.solution = factor.solve(self.problem.targets)
        elif self.solution.factor is not factor:
            self.solution = Solution(beta=self.solution.beta, bias=self.solution.bias, factor=factor)

    def check(self) -> tuple[float, bool]:
        """Return the residual: of all rows after a repair, else of some; mend it where it has drifted."""
        factor, tol = self.solution.factor, self.state.settings.tol
        assert isinstance(factor, CholeskyFactor)
        if self.refactored or self.requests >= PENDING_LIMIT:
            self.requests = 0
        sampled = self.requests > 0 and self.problem.n_rows > 1
        residual = self._residual(sampled)
        if residual <= tol:
            return residual, sampled
        refined = factor.refine(self.solution, self.problem.targets)
        self._keep_if_better(refined)
        residual = self._residual(sampled=False)
        if residual > tol and not self.refactored:
            rebuilt, self.refactored = self._built(), True
            solved = rebuilt.solve(self.problem.targets)
            self.solution = Solution(beta=self.solution.beta, bias=self.solution.bias, factor=rebuilt)
            self._keep_if_better(solved)
            self._keep_if_better(rebuilt.refine(solved, self.problem.targets))
            residual = self._residual(sampled=False)
        return residual, False

    def _keep_if_better(self, found: Solution) -> None:
        if self.problem.residual(found).max() < self.problem.residual(self.solution).max():
            self.solution = found

    def _residual(self, sampled: bool) -> float:
        if not sampled:
            self.certificate = self.problem.certify(self.solution, self.state.settings.tol)
            return self.certificate.residual
        row = _RANDOM.randrange(self.problem.n_rows)
        return self.problem.residual_on(np.array([row]), self.solution)


class ProximalStep(FactorStep):
    """The nonlinear proximal SVM: rows are landmarks too, so K W K' of the others changes with them.

    After the rows R have left, H of the others loses V W_R V' with V = K[rest, R]; before new rows come, it
    gains the same.
    """

    _most_rows = PENDING_LIMIT // 2

    @property
    def _proximal(self) -> ProximalOperator:
        operator = self.problem.operator
        assert isinstance(operator, ProximalOperator)
        return operator

    def _remove(self, factor: CholeskyFactor, gone: IntArray) -> tuple[CholeskyFactor, Solution]:
        operator = self._proximal
        rest = dropped(np.arange(operator.n_rows), gone)
        landmarks = operator.inner.block(rest, gone)
        factor, solution = super()._remove(factor, gone)
        return factor.shifted(landmarks, -operator.weights[gone], solution)

    def learn(self, X: Matrix, weights: FloatArray, targets: FloatArray, same_classes: bool) -> None:
        """Append the rows as landmarks and as rows."""
        self._proximal.arriving = weights
        super().learn(X, weights, targets, same_classes)

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
        held = self.problem.n_rows
        everyone = np.arange(joined.n_rows)
        landmarks = joined.inner.block(everyone[:held], everyone[held:])
        factor, self.solution = factor.shifted(landmarks, joined.weights[held:], self.solution)
        slots = factor.free_slots(joined.n_rows - held)
        return self._append_at(slots, factor, cross, corner, costs[held:], targets[held:])

    def _residual(self, sampled: bool) -> float:
        # Rows of K W K' are not at hand, and two products with K are.
        return super()._residual(sampled=False)


class HingeStep(_StepBase):
    """Squared hinge through K: rows without a multiplier leave for nothing, the set goes on for others.

    The decremental Lagrangian SVM (DOLSVM, DBLSVM) of Duan et al. reaches the same point by its fixed point.
    """

    def forget(self, gone: IntArray, X: Features, targets: FloatArray, same_classes: bool) -> None:
        """Continue from the multipliers of the rows kept."""
        beta = self.solution.beta
        assert beta is not None
        settled = same_classes and not np.any(beta[gone])
        keep = np.ones(beta.shape[0], dtype=bool)
        keep[gone] = False
        self._go(self._operator.without(gone, X), targets, dropped(self.problem.costs, gone))
        position = np.where(keep, np.cumsum(keep) - 1, -1)
        rest = replace(
            self.solution, beta=beta[keep], factor=self._system(position) if same_classes else None
        )
        self.solution = rest if settled else self._resolve(rest if same_classes else None)

    def learn(self, X: Matrix, weights: FloatArray, targets: FloatArray, same_classes: bool) -> None:
        """Continue from the multipliers held, the new rows at zero."""
        beta = self.solution.beta
        assert beta is not None
        joined, _, _ = self._operator.joined(X)
        padded = np.vstack([beta, np.zeros((weights.size, beta.shape[1]))])
        self._go(joined, targets, self._costs(weights))
        system = self._system(np.arange(beta.shape[0])) if same_classes else None
        start = Solution(beta=padded, bias=self.solution.bias, factor=system)
        self.solution = self._resolve(start if same_classes else None)

    def _system(self, position: IntArray) -> EqualitySystem | None:
        """Return the system of the active rows, carried over to the new problem, where there is one."""
        system = self.state.solution.factor
        return system.carried(self.problem, position) if isinstance(system, EqualitySystem) else None

    def _resolve(self, start: Solution | None) -> Solution:
        settings = self.state.settings
        return ActiveSet().solve(self.problem, tol=settings.tol, max_iter=settings.max_iter, start=start)


class NewtonStep(_StepBase):
    """Linear models with squared hinge: Newton steps from where the model was."""

    def forget(self, gone: IntArray, X: Features, targets: FloatArray, same_classes: bool) -> None:
        """Go on without the rows."""
        self._go(LinearOperator(X), targets, dropped(self.problem.costs, gone))
        self._resolve(same_classes)

    def learn(self, X: Matrix, weights: FloatArray, targets: FloatArray, same_classes: bool) -> None:
        """Go on with the rows."""
        self._go(LinearOperator(X), targets, self._costs(weights))
        self._resolve(same_classes)

    def _resolve(self, same_classes: bool) -> None:
        settings, start = self.state.settings, None
        if same_classes:
            start = Solution(primal=self.state.primal, bias=self.solution.bias)
        self.solution = Newton().solve(
            self.problem, tol=settings.tol, max_iter=settings.max_iter, start=start
        )


def step_for(state: State) -> Step:
    """Return the kind of step that fits a model that holds its rows."""
    if isinstance(state.problem.operator, LinearOperator):
        return NewtonStep(state)
    if state.settings.loss is Loss.SQUARED_HINGE:
        return HingeStep(state)
    return ProximalStep(state) if state.settings.proximal else FactorStep(state)
