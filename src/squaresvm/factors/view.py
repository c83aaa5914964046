"""A frozen view of inv(K + diag(1/C)): products with it, its columns, and the repairs that it waits for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import numpy as np

from squaresvm.factors.slot_inverse import PENDING_LIMIT, Form, SlotInverse
from squaresvm.family import Bias
from squaresvm.linalg.blas import multiply_add, product
from squaresvm.operators import KernelStore, Operator
from squaresvm.solution import Factor
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = ["InverseView", "Posed"]


class Posed(Protocol):
    """What a problem has that its factors are made of."""

    @property
    def operator(self) -> Operator:
        """How K is reached."""
        ...

    @property
    def targets(self) -> FloatArray:
        """Of shape (m, k)."""
        ...

    @property
    def costs(self) -> FloatArray:
        """C of each row."""
        ...

    @property
    def ridge(self) -> FloatArray:
        """1 / C of each row."""
        ...

    @property
    def bias(self) -> Bias:
        """The bias of the model."""
        ...


@dataclass(frozen=True, eq=False)
class InverseView(Factor):
    """N0 = inv(K + diag(1/C)) of the rows in some slots of a store, as it was when the view was made.

    The matrix itself lies in a :class:`SlotInverse` that the views of one model share: what its room stands
    for, and columns of corrections behind it, of which each view counts its own.

    Parameters
    ----------
    inverse : SlotInverse
    version : int
        The inverse's, when this view was made.
    extent : int
        Slots, from the first on, that the inverse's room stands for; later ones live in corrections.
    slots : ndarray of shape (m,)
        Where the rows are.
    ridge : ndarray of shape (size,)
        1 / C, a slot each.
    bias : Bias
    ones : ndarray of shape (size,)
        u = N0 1, a slot each; zero in empty slots.
    signs : ndarray of shape (pending,)
        Of the columns of corrections that this view counts.
    is_shifted : bool
        Whether H is no longer what the store's K says, so that it cannot be factored anew from there.
    emptied : ndarray
        Slots that rows have left since the last repair: corrections leave rounding there.
    """

    inverse: SlotInverse
    version: int
    extent: int
    slots: IntArray
    ridge: FloatArray
    bias: Bias
    ones: FloatArray
    signs: FloatArray
    is_shifted: bool = False
    emptied: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @classmethod
    def build(cls, store: KernelStore, slots: IntArray, ridge: FloatArray, bias: Bias) -> Self:
        """Factor K + diag(ridge) of the rows in the given slots."""
        by_slot = np.ones(store.size)
        by_slot[slots] = ridge
        inverse = SlotInverse(store)
        inverse.factorise(by_slot, _mask(slots, store.size))
        return cls.over(inverse, slots, by_slot, bias)

    @classmethod
    def of(cls, posed: Posed) -> Self:
        """Factor H of the rows of a problem."""
        return cls.build(posed.operator.store(), posed.operator.slots, posed.ridge, posed.bias)

    @classmethod
    def current(cls, found: object, posed: Posed) -> Self:
        """Return the factor of H of a problem: the one that was found, if it still holds, or a new one.

        Parameters
        ----------
        found : object
            What came with a solution; anything but a factor of this kind that still holds is of no use.
        posed : Problem
        """
        own = cls.among(found)
        return own if own is not None and own.is_current else cls.of(posed)

    @classmethod
    def over(cls, inverse: SlotInverse, slots: IntArray, ridge: FloatArray, bias: Bias) -> Self:
        """Return the view of an inverse that nothing waits for, given 1 / C a slot each."""
        size = inverse.store.size
        return cls(inverse, inverse.version, size, slots, ridge, bias, ridge, np.empty(0))._with_ones()

    def _with_ones(self) -> Self:
        ones = self._inner(_mask(self.slots, self.size).astype(np.float64)[:, None])[:, 0]
        return replace(self, ones=ones)

    @property
    def size(self) -> int:
        """Number of slots, empty ones included."""
        return int(self.ridge.shape[0])

    @property
    def is_current(self) -> bool:
        """Whether the shared inverse still is what this view was made from."""
        inverse = self.inverse
        fits = self.version == inverse.version and inverse.form != Form.NOTHING
        return fits and inverse.covers(self.extent)

    @property
    def is_much_used(self) -> bool:
        """Whether requests have become so many that the inverse is made, or has been."""
        return self.inverse.form in (Form.SPLIT, Form.INVERSE)

    @property
    def jitter(self) -> float:
        """What had to be added to the diagonal; 0.0 where H is positive definite in floating point."""
        return self.inverse.jitter

    @property
    def _pending(self) -> FloatArray:
        return self.inverse.settled_pending()[: self.size, : self.signs.size]

    # Products with N0 ------------------------------------------------------------------------------

    def _inner(self, rhs: FloatArray) -> FloatArray:
        """Return N0 rhs, by slots; what stands in empty slots is of no meaning."""
        out = self.inverse.solve(rhs, self.extent)
        if self.signs.size:
            self._add_corrections(out, product(self._pending.T, rhs))
        empty = ~_mask(self.slots, self.size)
        out[empty] = 0.0
        return out

    def _columns(self, slots: IntArray) -> FloatArray:
        """Return columns of N0, by slots."""
        out = self.inverse.columns(slots, self.size, self.extent)
        if self.signs.size:
            self._add_corrections(out, self._pending[slots].T)
        out[self.emptied] = 0.0
        return out

    def _column(self, slot: int) -> FloatArray:
        """Return one column of N0, by slots: a vector."""
        count = self.signs.size
        out = self.inverse.column(slot, self.size, self.extent)
        if count:
            shares = self.signs * self.inverse.settled_pending()[slot, :count]
            out += self.inverse.corrections(shares[:, None], self.size)
        out[self.emptied] = 0.0
        return out

    def _add_corrections(self, out: FloatArray, shares: FloatArray) -> None:
        """Add the corrections, in the given shares (pending, k), to columns of the room's inverse."""
        signed = self.signs[:, None] * shares
        if signed.shape[1] == 1:
            out[:, 0] += self.inverse.corrections(signed, self.size)
        else:
            multiply_add(out, self._pending, signed)

    @property
    def _is_plain(self) -> bool:
        """Whether row i is in slot i, and no slot is empty: by slots is then by rows."""
        return self.slots.size == self.size and np.array_equal(self.slots, np.arange(self.size))

    def _scatter(self, b: FloatArray) -> FloatArray:
        """Return b by slots, Fortran-ordered, only to be read: it may be b itself."""
        if self._is_plain:
            return np.asfortranarray(b)
        out = np.zeros((self.size, b.shape[1]), order="F")
        out[self.slots] = b
        return out

    def _gather(self, by_slot: FloatArray) -> FloatArray:
        """Return by rows what is by slots, Fortran-ordered; it may be the same array."""
        return by_slot if self._is_plain else np.asfortranarray(by_slot[self.slots])

    def _corrected(self, columns: FloatArray, sign: float, halfway: bool = False) -> FloatArray:
        """Return the signs of all corrections, after those of `columns` have been put to the others."""
        start = self.signs.size
        self.inverse.write_pending(start, columns, halfway)
        return np.concatenate([self.signs, np.full(columns.shape[1], sign)])

    def free_slots(self, count: int) -> IntArray:
        """Return slots for new rows, in a store that holds nothing but this factor."""
        free = np.flatnonzero(~_mask(self.slots, self.size))
        behind = np.arange(self.size, self.size + max(0, count - free.size))
        slots = np.concatenate([free, behind])[:count]
        self.inverse.store.reserve(int(slots.max()) + 1)
        return slots

    @property
    def can_wait(self) -> bool:
        """Whether corrections may still wait for a repair."""
        return self.signs.size < PENDING_LIMIT

    def repaired(self) -> Self:
        """Return a view after the corrections have been worked into the shared inverse."""
        alive = _mask(self.slots, self.size)
        self.inverse.repair(self._pending, self.signs, alive, self.extent)
        # u has come along with every correction: a product with the whole inverse would tell nothing new.
        return self._settled(self.size)

    def _settled(self, extent: int) -> Self:
        """Return a view of the inverse as it is now, with nothing that waits."""
        none = self.emptied[:0]
        version = self.inverse.version
        return replace(self, version=version, extent=extent, signs=np.empty(0), emptied=none.copy())

    def rebuilt(self) -> Self:
        """Return a view of a factor made anew from K."""
        if self.is_shifted:
            raise ValueError(
                "H was shifted, so the store's K is not its own: build a factor of another store"
            )
        size = self.inverse.store.size
        ridge = np.ones(size)
        ridge[: self.size] = self.ridge
        self.inverse.factorise(ridge, _mask(self.slots, size))
        return replace(self._settled(size), ridge=ridge)._with_ones()

    def flushed(self) -> Self:
        """Return a view after everything that stems from rows that left has been overwritten."""
        if self.signs.size == 0 or not self.is_current:
            return self
        # A Cholesky factor is cheaper to make anew than to invert for the sake of a few corrections.
        anew = not (self.inverse.is_half_inverted or self.is_shifted)
        return self.rebuilt() if anew else self.repaired()

    def inverted(self) -> Self:
        """Return this view with the inverse itself in the room, of which columns are there to read."""
        self.inverse.invert(self.extent)
        return self


def _mask(slots: IntArray, size: int) -> BoolArray:
    mask = np.zeros(size, dtype=bool)
    mask[slots] = True
    return mask
