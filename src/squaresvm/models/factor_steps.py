"""Squared loss through K: learning and forgetting by updates of a factor, whose drift is watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from squaresvm.factors import CholeskyFactor
from squaresvm.factors.slot_inverse import PENDING_LIMIT
from squaresvm.linalg.blas import times
from squaresvm.models.steps import Check, Step, in_words
from squaresvm.operators import ProximalOperator, StoredOperator
from squaresvm.problem import Problem
from squaresvm.rows.chunks import dropped
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray, IntArray, Matrix

if TYPE_CHECKING:
    from squaresvm.models.updates import Coming, Leaving

__all__ = ["COMBINATIONS", "FactorStep", "ProximalStep", "Watch"]

#: Random combinations of all rows. One of them is less than a tenth of the residual's norm with probability
#: 0.08, all four with probability 4e-5.
COMBINATIONS = 4
#: So many times the largest combination must be within tol, or all rows are looked at one by one.
_MARGIN = 10.0
#: Changes after which H V is taken anew: each adds a rounding error to it, far below what `_MARGIN` leaves.
_LONGEST = 1024
#: Nobody may know the signs beforehand; nothing but when to look closer depends on them.
_RANDOM = np.random.default_rng()


class FactorStep(Step):
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
    #: Of the rows that the step has come to.
    _factor: CholeskyFactor

    def _old_factor(self) -> CholeskyFactor:
        """Return the factor of the old problem; made now where the solver kept none."""
        before = self.solution.factor
        factor = self.state.kernel_factor()
        self.refactored = factor is not before
        return factor

    def _built(self) -> CholeskyFactor:
        self.refactored = self._is_fresh = True
        return CholeskyFactor.of(self.now)

    # Forgetting and learning -----------------------------------------------------------------------

    def forget(self, leaving: Leaving) -> None:
        """Remove the rows from the factor; where they are many, factor the rest anew."""
        gone, operator = leaving.gone, self._operator
        self.wipe = partial(operator.clear, gone)
        factor = self._old_factor() if gone.size <= self._most_rows else None
        if factor is not None:
            factor = self._tried(partial(self._remove, factor, gone))
            if leaving.same_classes and self.state.watch is not None:
                self.watch = self.state.watch.without(self.now, gone)
        self._go(operator.without(gone, leaving.X), leaving.targets, dropped(self.now.costs, gone))
        self._settle(factor, leaving.same_classes, f"{in_words(gone.size)} left the factor")

    def _tried(self, update: Callable[[], tuple[CholeskyFactor, Solution]]) -> CholeskyFactor | None:
        """Return the updated factor; None where it is too close to singular, and one must be made anew."""
        try:
            factor, self.solution = update()
        except np.linalg.LinAlgError:
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
        self._settle(factor, same, f"{in_words(weights.size)} came to the factor")

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
        factor, slots = self._ready(factor, joined)
        shortfall = targets[new] - times(cross.T, self._multipliers) - self.solution.bias
        return factor.append(slots, cross, corner, 1.0 / costs[new], shortfall, self.solution)

    def _ready(self, factor: CholeskyFactor, joined: StoredOperator) -> tuple[CholeskyFactor, IntArray]:
        """Return the factor that the new rows are appended to, and the slots that they take."""
        return factor, joined.slots[self.now.n_rows :]

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
        self._factor = factor
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
        if self._watches and self._factor.is_much_used and (self.watch is None or self.watch.is_worn):
            self.watch = Watch.over(self.now)

    def _mended(self, residual: float) -> float:
        """Return the residual after refinement, and after a new factor where that is not enough."""
        tol, targets = self.state.settings.tol, self.now.targets
        self.certificate = None  # It was of what is mended here.
        self._keep_if_better(self._factor.refine(self.solution, targets))
        residual = float(self.now.residual(self.solution).max())
        if residual > tol and not self._is_fresh:
            self._factor = self._built()
            solved = self._factor.solve(targets)
            self.solution = replace(self.solution, factor=self._factor)
            self._keep_if_better(solved)
            self._keep_if_better(self._factor.refine(solved, targets))
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

    def _ready(self, factor: CholeskyFactor, joined: StoredOperator) -> tuple[CholeskyFactor, IntArray]:
        assert isinstance(joined, ProximalOperator)
        held = self.now.n_rows
        everyone = np.arange(joined.n_rows)
        landmarks = joined.inner.block(everyone[:held], everyone[held:])
        factor, self.solution = factor.shifted(landmarks, joined.weights[held:], self.solution)
        return factor, factor.free_slots(joined.n_rows - held)


# Drift -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Watch:
    """Random signs V, and H V with H = K + diag(1/C), kept up to date while rows come and go.

    With r = H beta + b - y the defect of all rows,

        V'r = (H V)'beta + (V'1) b - V'y                                                              (1)

    costs O(m) where r itself costs O(m^2). V has independent random signs, so E |v'r|^2 = |r|^2 for each
    column v, and |r|_inf <= |r|: a factor that has drifted anywhere is seen, whichever rows it spoilt.

    Parameters
    ----------
    signs : ndarray of shape (slots, q)
        V, by slots of the kernel store: a row that comes takes the signs of its slot.
    products : ndarray of shape (q, slots)
        V'H, by slots, so that nothing moves when a row leaves; zero in slots that rows have left.
    totals : ndarray of shape (q,)
        V'1.
    targets : ndarray of shape (q, k)
        V'y.
    changes : int
        Requests since H V was taken from K.
    """

    signs: FloatArray
    products: FloatArray
    totals: FloatArray
    targets: FloatArray
    changes: int = 0

    @classmethod
    def over(cls, problem: Problem) -> Watch:
        """Return a watch over the rows of a problem: one product with K."""
        operator = _stored(problem)
        signs = _draw(operator.store().size)
        held = np.asfortranarray(signs[operator.slots])
        products = np.zeros((COMBINATIONS, operator.store().size))
        products[:, operator.slots] = (operator.matmul(held) + problem.ridge[:, None] * held).T
        return cls(signs, products, held.sum(axis=0), held.T @ problem.targets)

    @property
    def is_worn(self) -> bool:
        """Whether H V should be taken anew."""
        return self.changes >= _LONGEST

    def without(self, problem: Problem, gone: IntArray) -> Watch:
        """Return the watch over the rows of a problem without those at the positions `gone`."""
        if gone.size == 1:
            return self._without_one(problem, int(gone[0]))
        operator = _stored(problem)
        slots, store, size = operator.slots[gone], operator.store(), self.products.shape[1]
        signs = self.signs[slots]
        # Slots behind ours belong to rows that came with a request that was given up.
        columns = [store.column(slot)[:size] for slot in slots.tolist()]
        moved = signs.T @ np.array(columns)
        np.subtract(self.products, moved, out=moved)
        moved[:, slots] = 0.0
        return Watch(
            self.signs,
            moved,
            self.totals - signs.sum(axis=0),
            self.targets - signs.T @ problem.targets[gone],
            self.changes + 1,
        )

    def _without_one(self, problem: Problem, gone: int) -> Watch:
        """Return the same without one row: an outer product, which needs no call of BLAS."""
        operator = _stored(problem)
        slot, size = int(operator.slots[gone]), self.products.shape[1]
        signs = self.signs[slot, :, None]
        moved = signs * operator.store().column(slot)[:size]
        np.subtract(self.products, moved, out=moved)
        moved[:, slot] = 0.0
        targets = self.targets - signs * problem.targets[gone]
        return Watch(self.signs, moved, self.totals - signs[:, 0], targets, self.changes + 1)

    def joined(self, problem: Problem, cross: FloatArray, corner: FloatArray) -> Watch:
        """Return the watch over the rows of `problem`, the last of which are new.

        Parameters
        ----------
        problem : Problem
            With the new rows.
        cross : ndarray of shape (held, new)
            K between the rows held and the new ones.
        corner : ndarray of shape (new, new)
            K of the new rows.
        """
        operator, new = _stored(problem), slice(cross.shape[0], None)
        size = operator.store().size
        signs = self._reaching(size)
        before, after = operator.slots[: cross.shape[0]], operator.slots[new]
        held, coming = signs[before], signs[after]
        below = cross.T @ held + corner @ coming + problem.ridge[new, None] * coming
        products = np.zeros((COMBINATIONS, size))
        products[:, before] = self.products[:, before] + coming.T @ cross.T
        products[:, after] = below.T
        return Watch(
            signs,
            products,
            self.totals + coming.sum(axis=0),
            self.targets + coming.T @ problem.targets[new],
            self.changes + 1,
        )

    def _reaching(self, slots: int) -> FloatArray:
        """Return signs for so many slots at least."""
        missing = slots - self.signs.shape[0]
        return self.signs if missing <= 0 else np.vstack([self.signs, _draw(missing + slots // 8)])

    def residual(self, problem: Problem, solution: Solution) -> float:
        """Return the largest combination (1), scaled like the residual, or the violation by the bias."""
        beta = solution.beta
        assert beta is not None
        combined = self.totals[:, None] * solution.bias - self.targets
        slots, by_slot = _stored(problem).slots, np.zeros(self.products.shape[1])
        for column in range(beta.shape[1]):
            by_slot[slots] = beta[:, column]
            # One at a time: a larger product would wake BLAS threads, which go on spinning beside us.
            combined[:, column] += [row.dot(by_slot) for row in self.products]
        return problem.scaled_residual(np.abs(combined).max(axis=0), solution)

    def is_beyond_doubt(self, residual: float, tol: float) -> bool:
        """Return whether the residual of every row is within tol, given what the combinations say."""
        return _MARGIN * residual <= tol


def _draw(slots: int) -> FloatArray:
    """Return random signs for so many slots."""
    return np.asarray(_RANDOM.choice([-1.0, 1.0], size=(slots, COMBINATIONS)), dtype=np.float64)


def _stored(problem: Problem) -> StoredOperator:
    operator = problem.operator
    assert isinstance(operator, StoredOperator)
    return operator
