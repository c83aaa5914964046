"""Drift between full checks: the residual of all rows at once, through random combinations of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.operators import StoredOperator
from squaresvm.problem import Problem
from squaresvm.rows.chunks import dropped
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
    products : ndarray of shape (q, m)
        V'H, by rows of the problem.
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
        products = operator.matmul(held) + problem.ridge[:, None] * held
        return cls(signs, np.ascontiguousarray(products.T), held.sum(axis=0), held.T @ problem.targets)

    @property
    def is_worn(self) -> bool:
        """Whether H V should be taken anew."""
        return self.changes >= _LONGEST

    def without(self, problem: Problem, gone: IntArray) -> Watch:
        """Return the watch over the rows of a problem without those at the positions `gone`."""
        operator = _stored(problem)
        signs = self.signs[operator.slots[gone]]
        columns = operator.columns(gone).T
        # A single column times a row is an outer product, which needs no call of BLAS.
        moved = signs.T * columns if gone.size == 1 else signs.T @ columns
        np.subtract(self.products, moved, out=moved)
        return Watch(
            self.signs,
            dropped(moved.T, gone).T,
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
        signs = self._reaching(operator.store().size)
        held, coming = signs[operator.slots[: cross.shape[0]]], signs[operator.slots[new]]
        below = cross.T @ held + corner @ coming + problem.ridge[new, None] * coming
        return Watch(
            signs,
            np.hstack([self.products + coming.T @ cross.T, below.T]),
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
        # A row at a time: a larger product would wake BLAS threads, which go on spinning beside the request.
        combined = (
            np.array([row @ beta for row in self.products])
            + np.outer(self.totals, solution.bias)
            - self.targets
        )
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
