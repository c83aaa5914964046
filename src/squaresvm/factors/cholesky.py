"""The factor of a kernel model: inv(K + diag(1/C)), bordered by the bias, that learns and forgets rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from squaresvm.factors.inverse_diagonal import diagonal_bounds
from squaresvm.factors.slot_inverse import Form, SlotInverse
from squaresvm.factors.view import InverseView
from squaresvm.family import Bias
from squaresvm.linalg.blas import multiply_add, product
from squaresvm.linalg.lapack import lower_root, solve_definite, triangular_inverse
from squaresvm.operators import KernelStore
from squaresvm.rows.chunks import dropped
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray, IntArray

__all__ = ["CholeskyFactor"]

#: Rows up to which residuals are taken in extended precision.
_EXTENDED_ROWS = 500
#: Rows that leave at once, from which on their columns are left half-way.
_MANY = 8


@dataclass(frozen=True, eq=False)
class CholeskyFactor(InverseView):
    """N0 = inv(K + diag(1/C)) of the rows in some slots of a store.

    With u = N0 1 and s = A + 1'u, the bordered system [H, 1; 1', -A] (beta, b) = (t, c) has the solution

        b = (1'N0 t - c) / s,    beta = N0 t - u b                                                      (1)

    so one factor serves free, penalised and absent bias, and any number of right-hand sides. The border's
    own part of the inverse is N = N0 - u u'/s, with u/s beside it.

    The view is frozen: `remove` and `append` return a new one beside the new solution, and an older one
    stays valid until a repair.
    """

    @property
    def _schur(self) -> float:
        penalty = 0.0 if self.bias.is_absent else self.bias.penalty
        return penalty + float(np.add.reduce(self.ones))

    # Solving ---------------------------------------------------------------------------------------

    def solve(self, targets: FloatArray) -> Solution:
        """Return the solution of H beta + b = targets, 1'beta = A b."""
        if not self.bias.is_free:
            return self._balanced(*self.bordered(targets))
        # A free bias takes any constant: without it, all but constant targets give multipliers, not rounding.
        middle = 0.5 * (targets.max(axis=0) + targets.min(axis=0))
        solution = self._balanced(*self.bordered(targets - middle))
        return replace(solution, bias=solution.bias + middle)

    def bordered(self, rhs: FloatArray, border: FloatArray | float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Return (beta, b) of (1): for a unit vector and no border, a column of N and what is beside it."""
        beta = self._gather(self._inner(self._scatter(rhs)))
        if self.bias.is_absent:
            return beta, np.zeros(rhs.shape[1])
        bias = (beta.sum(axis=0) - border) / self._schur
        multiply_add(beta, self.ones[self.slots, None], bias[None, :], alpha=-1.0)
        return beta, bias

    def _balanced(self, beta: FloatArray, bias: FloatArray) -> Solution:
        """Return the solution with what rounding left of 1'beta - A b moved into the bias.

        Where the targets are all but constant, beta is all rounding, and so would its sum be.
        """
        if not self.bias.is_absent:
            left = (beta.sum(axis=0) - self.bias.penalty * bias) / self._schur
            beta = beta - np.outer(self.ones[self.slots], left)
            bias = bias + left
        return Solution(beta=beta, bias=bias, factor=self)

    def residual(self, solution: Solution, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return targets - H beta - b and A b - 1'beta.

        Small systems are worth extended precision, where the platform has it: refined with it, the solution
        is good to the last digit as long as the condition of H is below 1e16.
        """
        beta = solution.beta
        assert beta is not None
        ridge = self.ridge[self.slots, None]
        if self.slots.size <= _EXTENDED_ROWS:
            K = self.inverse.store.block(self.slots, self.slots).astype(np.longdouble)
            wide = beta.astype(np.longdouble)
            rows = np.asarray(targets - K @ wide - ridge * wide - solution.bias, dtype=np.float64)
        else:
            store = self.inverse.store
            by_slot = np.zeros((store.size, beta.shape[1]), order="F")
            by_slot[self.slots] = beta
            kernel_part = store.matmul(by_slot)[self.slots]
            rows = targets - kernel_part - ridge * beta - solution.bias
        if self.bias.is_absent:
            return rows, np.zeros(targets.shape[1])
        return rows, self.bias.penalty * solution.bias - beta.sum(axis=0)

    def refine(self, solution: Solution, targets: FloatArray) -> Solution:
        """Return the solution after one step of iterative refinement."""
        rows, border = self.residual(solution, targets)
        step, bias = self.bordered(rows, border)
        assert solution.beta is not None
        return self._balanced(solution.beta + step, solution.bias + bias)

    def diag_inverse(self) -> FloatArray:
        """Return the diagonal of N, rows only."""
        diagonal = np.zeros(self.size)
        diagonal[: self.extent] = self.inverse.diagonal(self.extent)
        if self.signs.size:
            diagonal += self._pending**2 @ self.signs
        if not self.bias.is_absent:
            diagonal -= self.ones**2 / self._schur
        return diagonal[self.slots]

    def diag_inverse_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return what the diagonal of N is between, rows only, where K is semidefinite: equal where exact."""
        if self.inverse.form != Form.CHOLESKY or self.signs.size:
            diagonal = self.diag_inverse()
            return diagonal, diagonal
        taken = np.zeros(self.size) if self.bias.is_absent else self.ones**2 / self._schur
        low, high = diagonal_bounds(self.inverse.store.room(self.extent), self.ridge[: self.extent])
        return (low - taken)[self.slots], (high - taken)[self.slots]

    def diag_inverse_at(self, positions: IntArray) -> FloatArray:
        """Return the diagonal of N at some rows, for less than that of all."""
        if self.inverse.form != Form.CHOLESKY or self.signs.size:
            return self.diag_inverse()[positions]
        slots = self.slots[positions]
        diagonal = self.inverse.diagonal(self.extent, slots)
        return diagonal if self.bias.is_absent else diagonal - self.ones[slots] ** 2 / self._schur

    def corner(self, positions: IntArray) -> FloatArray:
        """Return N[F, F] of the rows at some positions."""
        slots = self.slots[positions]
        block = self.inverse.corner(slots, self.extent)
        if self.signs.size:
            waiting = self._pending[slots]
            block += (waiting * self.signs) @ waiting.T
        if not self.bias.is_absent:
            block -= np.outer(self.ones[slots], self.ones[slots] / self._schur)
        return block

    # Learning and forgetting -----------------------------------------------------------------------

    def remove(self, positions: IntArray, solution: Solution) -> tuple[CholeskyFactor, Solution]:
        """Return factor and solution without the rows at `positions`.

            s_rest <- s_rest - N[rest, R] inv(N[R, R]) s[R]                                              (2)

        for s = (beta, b), and N0 loses the same rank: both from the columns of N0 at R alone.
        """
        self.inverse.serve(self.extent)
        if positions.size == 1:
            return self._remove_one(positions, solution)
        gone = self.slots[positions]
        # Many columns are wanted in two sums only. Half-way, as inv(L) E with N0 E = inv(L') inv(L) E, they
        # cost less than half; the other half waits until a request asks for them.
        halfway = self._goes_halfway(gone)
        columns = self.inverse.half_columns(gone, self.extent) if halfway else self._columns(gone)
        beta = solution.beta
        assert beta is not None
        corner = product(columns.T, columns) if halfway else columns[gone]
        u = self.ones[gone]
        beside = np.zeros(gone.size) if self.bias.is_absent else u / self._schur
        # The columns of N itself are those of N0 less u beside'.
        pivots = solve_definite(corner - u[:, None] * beside, beta[positions])
        inverse_root = triangular_inverse(lower_root(corner))
        correction = product(columns, inverse_root.T)
        moved = product(columns, pivots)
        lost = product(correction, inverse_root @ u[:, None])
        if halfway:
            moved, lost = self.inverse.other_half(moved), self.inverse.other_half(lost)
        shift = beside @ pivots
        moved -= self.ones[:, None] * shift
        shrunk, ridge = self.ones - lost[:, 0], self.ridge.copy()
        shrunk[gone], ridge[gone] = 0.0, 1.0
        factor = CholeskyFactor(
            self.inverse,
            self.version,
            self.extent,
            dropped(self.slots, positions),
            ridge,
            self.bias,
            shrunk,
            self._corrected(correction, -1.0, halfway),
            self.is_shifted,
            np.concatenate([self.emptied, gone]),
        )
        # take: plain indexing of a column takes several times as long.
        left = dropped(beta - moved.take(self.slots, axis=0), positions)
        return factor, Solution(beta=left, bias=solution.bias - shift, factor=factor)

    def _remove_one(self, position: IntArray, solution: Solution) -> tuple[CholeskyFactor, Solution]:
        """Return factor and solution without one row: (2) by vectors, for the ordinary request."""
        gone, beta = self.slots[position], solution.beta
        assert beta is not None
        slot = int(gone[0])
        column = self._column(slot)
        pivot, u = float(column[slot]), float(self.ones[slot])
        beside = 0.0 if self.bias.is_absent else u / self._schur
        bordered = pivot - u * beside
        if not (pivot > 0.0 and bordered > 0.0):
            raise np.linalg.LinAlgError("the row's part of the inverse is not definite")
        moved = beta[position[0]] / bordered
        slots, ridge = dropped(self.slots, position), self.ridge.copy()
        # In place where nobody else looks: vectors that are still in the cache cost half as much.
        ones = column * (u / pivot)
        np.subtract(self.ones, ones, out=ones)
        ones[slot], ridge[slot] = 0.0, 1.0
        correction = column[:, None] * (1.0 / math.sqrt(pivot))
        factor = CholeskyFactor(
            self.inverse,
            self.version,
            self.extent,
            slots,
            ridge,
            self.bias,
            ones,
            self._corrected(correction, -1.0),
            self.is_shifted,
            np.concatenate([self.emptied, gone]),
        )
        # The column of N itself is that of N0 less u beside.
        column -= self.ones * beside
        left = column.take(slots)[:, None] * moved
        np.subtract(dropped(beta, position), left, out=left)
        return factor, Solution(beta=left, bias=solution.bias - beside * moved, factor=factor)

    def _goes_halfway(self, gone: IntArray) -> bool:
        """Return whether so many rows leave, by a Cholesky factor and nothing else, that half is enough."""
        only_root = self.inverse.form == Form.CHOLESKY and self.signs.size == 0
        return only_root and self.extent == self.size and gone.size >= _MANY

    def append(
        self,
        slots: IntArray,
        cross: FloatArray,
        corner: FloatArray,
        ridge: FloatArray,
        shortfall: FloatArray,
        solution: Solution,
    ) -> tuple[CholeskyFactor, Solution]:
        """Return factor and solution with new rows in `slots`, by the Schur complement of their block.

        Parameters
        ----------
        slots : ndarray of shape (q,)
        cross : ndarray of shape (m, q)
            K between the rows held and the new ones.
        corner : ndarray of shape (q, q)
            K of the new rows.
        ridge : ndarray of shape (q,)
            1 / C of the new rows.
        shortfall : ndarray of shape (q, k)
            Targets less decision values of the new rows: what the model does not know yet.
        solution : Solution
        """
        grown = self._grown(slots, ridge)
        by_slot = grown._scatter(cross)
        corner = corner + np.diag(ridge)
        half = None
        if self._extends(slots):
            half = self.inverse.half_solve(by_slot[: self.extent])
            v = np.zeros_like(by_slot)
            v[: self.extent] = self.inverse.other_half(half)
        else:
            v = grown._inner(by_slot)
        schur = corner - product(cross.T, v[self.slots])
        d = 1.0 - product(cross.T, self.ones[self.slots, None])[:, 0]
        beta = solution.beta
        assert beta is not None
        old, beside, bordered = v[self.slots], np.zeros(slots.size), schur
        if not self.bias.is_absent:
            beside = d / self._schur
            old = old + np.outer(self.ones[self.slots], beside)
            bordered = schur + np.outer(d, beside)
        new = solve_definite(bordered, shortfall)
        root = lower_root(schur)
        fresh = scipy.linalg.cho_solve((root, True), d)
        ones = grown.ones - product(v, fresh[:, None])[:, 0]
        ones[slots] = fresh
        factor = replace(grown, slots=np.concatenate([self.slots, slots]), ones=ones)
        if half is not None:
            self.inverse.extend(half, corner, self.extent)
            factor = replace(factor, extent=factor.size)
        else:
            v[slots] -= np.eye(slots.size)
            correction = product(v, triangular_inverse(root).T)
            factor = replace(factor, signs=factor._corrected(correction, 1.0))
        joined = np.vstack([beta - product(old, new), new])
        return factor, Solution(beta=joined, bias=solution.bias + beside @ new, factor=factor)

    def _grown(self, slots: IntArray, new_ridge: FloatArray) -> CholeskyFactor:
        """Return this view over as many slots as there will be."""
        size = max(self.size, int(slots.max()) + 1)
        ridge, ones = np.ones(size), np.zeros(size)
        ridge[: self.size], ones[: self.size] = self.ridge, self.ones
        ridge[slots] = new_ridge
        self.inverse.reserve(size)
        return replace(self, ridge=ridge, ones=ones, emptied=np.setdiff1d(self.emptied, slots))

    def _extends(self, slots: IntArray) -> bool:
        """Return whether rows in `slots` can simply be appended to a Cholesky factor."""
        behind = np.array_equal(slots, np.arange(self.extent, self.extent + slots.size))
        return behind and self.inverse.form == Form.CHOLESKY and self.signs.size == 0

    def shifted(
        self, vectors: FloatArray, scale: FloatArray, solution: Solution
    ) -> tuple[CholeskyFactor, Solution]:
        """Return factor and solution after V diag(scale) V' has been added to H.

            s <- s - N V inv(inv(diag(scale)) + V'N V) V's                                               (3)

        Parameters
        ----------
        vectors : ndarray of shape (m, q)
            V, over the rows.
        scale : ndarray of shape (q,)
            All positive, or all negative.
        solution : Solution
        """
        by_slot = self._scatter(vectors)
        v = self._inner(by_slot)
        beta, ones = solution.beta, self.ones[self.slots]
        assert beta is not None
        inner = np.diag(1.0 / scale) + vectors.T @ v[self.slots]
        pull = vectors.T @ ones
        bordered, rows, beside = inner, v[self.slots], np.zeros(scale.size)
        if not self.bias.is_absent:
            beside = pull / self._schur
            rows = rows - np.outer(ones, beside)
            bordered = inner - np.outer(pull, beside)
        moved = np.linalg.solve(bordered, vectors.T @ beta)
        sign = float(np.sign(scale[0]))
        root = lower_root(sign * inner)
        correction = product(v, triangular_inverse(root).T)
        shrunk = self.ones - v @ np.linalg.solve(inner, pull)
        signs = self._corrected(correction, -sign)
        factor = replace(self, ones=shrunk, is_shifted=True, signs=signs)
        return factor, Solution(beta=beta - rows @ moved, bias=solution.bias - beside @ moved, factor=factor)

    # As one flat array: what a file holds -----------------------------------------------------------

    @property
    def is_in_order(self) -> bool:
        """Whether the factor can be packed: current, of one form, settled, row i in slot i."""
        whole = self.is_current and self.inverse.form != Form.SPLIT
        settled = whole and self.signs.size == 0 and not self.is_shifted
        return settled and np.array_equal(self.slots, np.arange(self.extent))

    def packed(self) -> tuple[str, FloatArray]:
        """Return what the room holds, by its name, and its lower triangle column by column."""
        room, m = self.inverse.store.room(self.extent), self.extent
        return self.inverse.form.name.lower(), np.concatenate([room[j:, j] for j in range(m)])

    @classmethod
    def unpacked(
        cls, form: str, triangle: FloatArray, jitter: float, store: KernelStore, ridge: FloatArray, bias: Bias
    ) -> CholeskyFactor:
        """Return the factor that `packed` gave, in the room of a store that has row i in slot i."""
        inverse = SlotInverse(store)
        inverse.restore(Form[form.upper()], triangle, jitter)
        return cls.over(inverse, np.arange(store.size), ridge, bias)
