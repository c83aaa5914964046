"""Drift between full checks: the residual of all rows at once, through random combinations of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.operators import StoredOperator
from squaresvm.problem import Problem
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray, IntArray

__all__ = ["COMBINATIONS", "Watch"]

#: Random combinations of all rows. One of them is less than a tenth of the residual's norm with probability
#: 0.08, all four with probability 4e-5.
COMBINATIONS = 4
#: So many times the largest combination must be within tol, or all rows are looked at one by one.
_MARGIN = 10.0
#: Changes after which H V is taken anew: each adds a rounding error to it.
_LONGEST = 512
#: Nobody may know the signs beforehand; nothing but when to look closer depends on them.
_RANDOM = np.random.default_rng()


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
        operator = _stored(problem)
        slots, store, size = operator.slots[gone], operator.store(), self.products.shape[1]
        signs = self.signs[slots]
        # Slots behind ours belong to rows that came with a request that was given up.
        columns = [store.column(slot)[:size] for slot in slots.tolist()]
        # A single column times a row is an outer product, which needs no call of BLAS.
        moved = signs.T * columns[0] if gone.size == 1 else signs.T @ np.array(columns)
        np.subtract(self.products, moved, out=moved)
        moved[:, slots] = 0.0
        return Watch(
            self.signs,
            moved,
            self.totals - signs.sum(axis=0),
            self.targets - signs.T @ problem.targets[gone],
            self.changes + 1,
        )

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
