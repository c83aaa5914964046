"""inv(K + diag(1/C)) over the slots of a kernel store: as a Cholesky factor, or as the inverse itself."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from squaresvm.linalg.blas import gram_update, symmetric_product
from squaresvm.linalg.lapack import (
    cholesky_in_place,
    cholesky_with_jitter,
    inverse_columns,
    invert_cholesky_in_place,
    solve_triangular_in_place,
)
from squaresvm.operators import KernelStore
from squaresvm.runtime.resources import row_blocks
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = ["PENDING_LIMIT", "Form", "SlotInverse"]

#: Columns of corrections that wait for a repair at most.
PENDING_LIMIT = 64
#: Slots whose corrections are added up at once. So few, times the corrections that wait, that BLAS does not
#: wake its threads: they would go on spinning beside us, and the rest of a single request take twice as long.
_STRIP = 128
#: Requests that are answered from a Cholesky factor, two triangular solves each, before it is worth its
#: inversion, after which the columns are there to read.
_PATIENCE = 4
#: Diagonal of H in an empty slot: its inverse is nothing beside any number that matters.
_NOTHING = 1e300


class Form(StrEnum):
    """What the room of the store holds."""

    NOTHING = "nothing"
    CHOLESKY = "Cholesky factor"
    INVERSE = "inverse"


class SlotInverse:
    """The mutable part of a factor: what lies in the room of the store, and corrections that wait.

    Parameters
    ----------
    store : KernelStore

    Attributes
    ----------
    size : int
        Slots that the room covers. A Cholesky factor serves any leading part of them as well.
    form : Form
        NOTHING while a repair is under way; after an interrupted one that stays, and whoever needs the
        factor builds it anew from K.
    version : int
        Counts repairs. A view made before a repair no longer fits.
    pending : ndarray of shape (capacity, 2 * PENDING_LIMIT)
        Columns v with inv(H) = (what the room holds) + sum of +-v v'. The first of them may stand half-way,
        as L'v; `settled_pending` finishes them.
    """

    def __init__(self, store: KernelStore) -> None:
        self.store = store
        # Not `self`: store and factor would keep each other, and their memory, until the collector runs.
        self._lease = object()
        self.form = Form.NOTHING
        self.size = 0
        self.version = 0
        self.jitter = 0.0
        self._served = 0
        self._halfway, self._halfway_extent = 0, 0
        self.pending = np.zeros((0, 2 * PENDING_LIMIT), order="F")

    def covers(self, extent: int) -> bool:
        """Return whether the room is still ours and stands for the inverse over the first `extent` slots."""
        if self.store.tenant is not self._lease:
            return False
        return extent <= self.size if self.form == Form.CHOLESKY else extent == self.size

    def factorise(self, ridge: FloatArray, alive: BoolArray) -> None:
        """Factor K + diag(ridge) anew; empty slots become rows whose inverse is nothing."""
        self.form = Form.NOTHING
        self.version += 1
        self.store.tenant = self._lease
        room = self.store.lend()
        self.size = self.store.size
        diagonal = self.store.diagonal + ridge
        scale = float(np.abs(diagonal[alive]).max(initial=0.0))
        empty = np.flatnonzero(~alive)
        diagonal[empty] = _NOTHING
        _zero(room, empty)

        def refill() -> None:
            _zero(self.store.lend(), empty)

        self.jitter = cholesky_with_jitter(room, diagonal, refill, scale)
        self._served = self._halfway = 0
        self.pending[:] = 0.0
        self.form = Form.CHOLESKY

    def restore(self, form: Form, triangle: FloatArray, jitter: float) -> None:
        """Take a lower triangle, column by column, for what the room holds over all slots."""
        if form == Form.NOTHING:
            raise ValueError("a factor must be a Cholesky factor or an inverse")
        size = self.store.size
        self.store.tenant = self._lease
        room, start = self.store.lend(), 0
        for j in range(size):
            room[j:, j] = triangle[start : start + size - j]
            start += size - j
        if np.any(np.diagonal(room) <= 0.0):
            raise ValueError("a factor must have a positive diagonal")
        self.size, self.jitter, self.form = size, jitter, form

    def solve(self, rhs: FloatArray, extent: int) -> FloatArray:
        """Return what the room stands for over `extent` slots, times rhs; zero in slots behind them."""
        room = self.store.room(extent)
        out = np.zeros(rhs.shape, order="F")
        if self.form == Form.INVERSE:
            out[:extent] = symmetric_product(room, rhs[:extent], lower=True)
            return out
        part = np.array(rhs[:extent], order="F")
        solve_triangular_in_place(room, part)
        solve_triangular_in_place(room, part, transpose=True)
        out[:extent] = part
        return out

    def columns(self, slots: IntArray, size: int, extent: int) -> FloatArray:
        """Return columns of what the room stands for over `extent` slots, of shape (size, k)."""
        room, within = self.store.room(extent), np.flatnonzero(slots < extent)
        if self.form == Form.CHOLESKY and extent == size:
            return _inverse_columns(room, slots)
        out = np.zeros((size, slots.size), order="F")
        if self.form == Form.INVERSE:
            for position in within:
                slot = slots[position]
                out[:slot, position] = room[slot, :slot]
                out[slot:extent, position] = room[slot:, slot]
            return out
        out[:extent, within] = _inverse_columns(room, slots[within])
        return out

    def half_columns(self, slots: IntArray, extent: int) -> FloatArray:
        """Return columns of inv(L) over `extent` slots, of which `other_half` makes those of the inverse."""
        return inverse_columns(self.store.room(extent), slots)

    def settled_pending(self) -> FloatArray:
        """Return `pending` after columns that stood half-way have been finished."""
        if self._halfway:
            columns = self.pending[: self._halfway_extent, : self._halfway]
            room = self.store.room(self._halfway_extent)
            solve_triangular_in_place(room, columns, transpose=True)
            self._halfway = 0
        return self.pending

    def serve(self, extent: int) -> None:
        """Note a request; invert the Cholesky factor once they have become many."""
        self._served += 1
        if self.form == Form.CHOLESKY and self._served > _PATIENCE:
            self.invert(extent)

    def invert(self, extent: int) -> None:
        """Turn the Cholesky factor into the inverse, in place. What it stands for stays the same."""
        self.settled_pending()
        self.form = Form.NOTHING
        invert_cholesky_in_place(self.store.room(extent))
        self.form, self.size = Form.INVERSE, extent

    def half_solve(self, rhs: FloatArray) -> FloatArray:
        """Return inv(L) rhs."""
        out = np.array(rhs, order="F")
        solve_triangular_in_place(self.store.room(rhs.shape[0]), out)
        return out

    def other_half(self, half: FloatArray) -> FloatArray:
        """Return inv(L') half: with `half_solve` before it, inv(L L') rhs."""
        out = np.array(half, order="F")
        solve_triangular_in_place(self.store.room(half.shape[0]), out, transpose=True)
        return out

    def extend(self, rows: FloatArray, corner: FloatArray, extent: int) -> None:
        """Append rows behind `extent` slots of the Cholesky factor.

        H grows by `corner` of shape (q, q), and beside it by a block of which `rows` is the `half_solve`.
        """
        below = np.asfortranarray(corner - rows.T @ rows)
        cholesky_in_place(below)
        size = extent + corner.shape[0]
        room = self.store.room(size)
        room[extent:, :extent] = rows.T
        lower = np.tril_indices(corner.shape[0])
        room[extent:, extent:][lower] = below[lower]
        self.size = size

    def repair(self, columns: FloatArray, signs: FloatArray, alive: BoolArray, extent: int) -> None:
        """Work corrections into the inverse, all at once, and wipe the slots that are empty."""
        if self.form == Form.CHOLESKY:
            self.invert(extent)
        self.form = Form.NOTHING
        self.version += 1
        size = alive.size
        room = self.store.room(size)
        grown = np.arange(self.size, size)
        for slot in grown:
            room[slot, : slot + 1] = 0.0
        self.size = size
        # Rows that leave in the order of their arrival leave the first slots empty: those need no update.
        used = np.flatnonzero(alive)
        within = slice(int(used[0]), int(used[-1]) + 1)
        for sign in (-1.0, 1.0):
            chosen = signs == sign
            part = columns if chosen.all() else np.asfortranarray(columns[:, chosen])
            gram_update(room[within, within], part[within], sign)
        # Slots that were wiped before have zeros in all corrections, and so stay as they are.
        empty = np.flatnonzero(~alive & (np.diagonal(room) != 0.0))
        _zero(room, empty)
        room[empty, empty] = 0.0
        self.pending[:] = 0.0
        self.form = Form.INVERSE

    def diagonal(self, extent: int) -> FloatArray:
        """Return the diagonal of what the room stands for over `extent` slots.

        From a Cholesky factor, (inv H)_ii is the squared norm of column i of inv(L), which starts at row i:
        blocks of columns need no second m x m matrix.
        """
        room = self.store.room(extent)
        if self.form == Form.INVERSE:
            return np.diagonal(room).copy()
        diagonal = np.empty(extent)
        for columns in row_blocks(extent, extent):
            start, count = columns.start, columns.stop - columns.start
            unit = np.zeros((extent - start, count), order="F")
            unit[np.diag_indices(count)] = 1.0
            solve_triangular_in_place(room[start:, start:], unit)
            diagonal[columns] = np.einsum("ij,ij->j", unit, unit)
        return diagonal

    def corner(self, slots: IntArray, extent: int) -> FloatArray:
        """Return what the room stands for between some slots, of shape (k, k); zero behind `extent`."""
        room, within = self.store.room(extent), np.flatnonzero(slots < extent)
        out = np.zeros((slots.size, slots.size))
        if self.form == Form.CHOLESKY:
            half = inverse_columns(room, slots[within])
            out[np.ix_(within, within)] = half.T @ half
            return out
        ascending = within[np.argsort(slots[within])]
        # Only the lower triangle is the inverse's, so rows must come after columns.
        lower = np.tril(room[np.ix_(slots[ascending], slots[ascending])])
        out[np.ix_(ascending, ascending)] = lower + np.tril(lower, -1).T
        return out

    def reserve(self, size: int) -> None:
        """Make sure that corrections have a value, zero, in each of `size` slots."""
        if self.pending.shape[0] < size:
            strips = -(-(size + size // 8) // _STRIP)
            grown = np.zeros((strips * _STRIP, 2 * PENDING_LIMIT), order="F")
            grown[: self.pending.shape[0]] = self.pending
            self.pending = grown

    def corrections(self, weights: FloatArray) -> FloatArray:
        """Return the sum of the first columns of corrections times `weights`, of shape (count, 1).

        The sum has as many values as there is room for slots.
        """
        strips = self.settled_pending().reshape(-1, _STRIP, self.pending.shape[1])
        return (strips[:, :, : weights.shape[0]] @ weights).reshape(-1)

    def write_pending(self, start: int, columns: FloatArray, halfway: bool = False) -> None:
        """Keep columns of corrections from position `start` on; half-way ones are the first."""
        size, stop = columns.shape[0], start + columns.shape[1]
        if start == 0:
            # Others that stood there belong to nobody any more.
            self._halfway, self._halfway_extent = stop if halfway else 0, size
        self.reserve(size)
        self.pending[:size, start:stop] = columns
        self.pending[size:, start:stop] = 0.0


def _inverse_columns(lower: FloatArray, columns: IntArray) -> FloatArray:
    """Return columns of inv(L L')."""
    out = inverse_columns(lower, columns)
    solve_triangular_in_place(lower, out, transpose=True)
    return out


def _zero(room: FloatArray, slots: IntArray) -> None:
    """Write zeros into the rows and columns of these slots, below the diagonal."""
    for slot in slots:
        room[slot, :slot] = 0.0
        room[slot + 1 :, slot] = 0.0
