"""Operators that hold K in a store, and the rows of K by slots."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import numpy as np

from squaresvm.operators.single import SingleKernel
from squaresvm.operators.store import KernelStore
from squaresvm.rows.chunks import Features
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["StoredOperator"]

Operator = TypeVar("Operator", bound="StoredOperator")


class StoredOperator:
    """A kernel matrix computed once and held, whose rows can come and go.

    Operators made from one another by `without` and `joined` share one store. Each knows the slots of its
    own rows, so an older one still predicts after rows have left; products with K are for the newest.

    Parameters
    ----------
    n_rows : int
    """

    features: Matrix | None = None

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self._store: KernelStore | None = None
        self._slots: IntArray | None = None

    def _block(self, rows: slice, columns: slice) -> FloatArray:
        """Return K[rows, columns], computed."""
        raise NotImplementedError

    def _held(self, *, lent: bool = False) -> KernelStore:
        if self._store is None:
            self._store = KernelStore(self.n_rows, self._block, lent=lent)
        return self._store

    def in_single(self, memory: float) -> SingleKernel | None:
        """Return None: products in float64 are at hand."""
        return None

    def store(self) -> KernelStore:
        """Return the buffer of K, with room for a factor."""
        return self._held(lent=True)

    def full(self) -> FloatArray | None:
        """Return K in one array, to read, where it is held so and has no empty slots; else None."""
        store = self._held()
        return store.full if self._fills(store) else None

    def _fills(self, store: KernelStore) -> bool:
        """Return whether the rows fill the store in their own order.

        An operator that rows were added to, and that was then given up, leaves the store larger than this.
        """
        return self._slots is None and store.size == self.n_rows

    @property
    def slots(self) -> IntArray:
        """Slot of each row in the store."""
        return np.arange(self.n_rows) if self._slots is None else self._slots

    def _scatter(self, b: FloatArray) -> FloatArray:
        store = self._held()
        if self._fills(store):
            return b
        out = np.zeros((store.size, b.shape[1]), order="F")
        for column in range(b.shape[1]):
            out[self.slots, column] = b[:, column]
        return out

    def _gather(self, b: FloatArray) -> FloatArray:
        return b if self._fills(self._held()) else b.take(self.slots, axis=0)

    def diagonal(self) -> FloatArray:
        """Return the diagonal of K."""
        return self._gather(self._held().diagonal)

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b."""
        return self._gather(self._held().matmul(self._scatter(b)))

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j| for each row and column of b."""
        return self._gather(self._held().magnitude(self._scatter(b)))

    def rows_times(self, rows: IntArray, b: FloatArray) -> FloatArray:
        """Return K[rows] b, for a few rows."""
        store = self._held()
        out = np.empty((rows.size, b.shape[1]))
        for position, slot in enumerate(self.slots[rows].tolist()):
            np.matmul(self._gather(store.column(slot)), b, out=out[position])
        return out

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns]."""
        if self._slots is not None:
            rows, columns = self._slots[rows], self._slots[columns]
        return self._held().block(rows, columns)

    def columns(self, rows: IntArray) -> FloatArray:
        """Return K[:, rows]: whole columns, for a few rows."""
        store = self._held()
        columns = [self._gather(store.column(slot)) for slot in self.slots[rows].tolist()]
        return np.array(columns).T if len(columns) > 1 else columns[0][:, None]

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return the coefficients of k(x_i, .) in f: the multipliers themselves."""
        return coefficients

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return sum_i k(x, x_i) coefficients_i for each row x of X."""
        raise NotImplementedError

    def without(self, gone: IntArray, X: Features) -> StoredOperator:
        """Return the operator of the rows without those `gone`, X, on the same store."""
        raise NotImplementedError

    def joined(self, X: Matrix) -> tuple[StoredOperator, FloatArray, FloatArray]:
        """Return the operator of these rows and new ones, K between held and new, and K of the new."""
        raise NotImplementedError

    def private(self) -> StoredOperator:
        """Return an operator of the same rows with a store of its own, made when first asked for."""
        other = copy.copy(self)
        other._store = other._slots = None
        return other

    def clear(self, rows: IntArray) -> None:
        """Write zeros where these rows were in the store."""
        if self._store is not None:
            self._store.clear(self.slots[rows])

    def _sharing(self, other: Operator, slots: IntArray) -> Operator:
        """Return `other` on this operator's store, with rows in the given slots."""
        other._store, other._slots = self._held(), slots
        return other

    def _free_slots(self, count: int) -> IntArray:
        """Return slots that hold no row of this operator: empty ones first, then behind the last."""
        size = self._held().size
        free = np.setdiff1d(np.arange(size), self.slots, assume_unique=True)
        behind = np.arange(size, size + max(0, count - free.size))
        return np.concatenate([free, behind])[:count]

    def _put(self, cross: FloatArray, corner: FloatArray) -> IntArray:
        """Write new rows into the store; return their slots. `cross` is K between held and new rows."""
        store, slots = self._held(), self._free_slots(corner.shape[0])
        store.put(slots, self._scatter(cross), corner)
        return slots

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the store, which is made again when asked for."""
        return {**self.__dict__, "_store": None, "_slots": None}
