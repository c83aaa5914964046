"""inv(K + diag(1/C)) over the slots of a kernel store: a Cholesky factor that becomes the inverse itself.

The inversion is made in place, some columns at a time, and the matrix is of use all the while. With the rows
parted in two, H = [H11, H12; H21, H22] = L L' and L = [L11, 0; L21, L22], let

    N11 = inv(L11 L11') = inv(H11),    Y = -L21 inv(L11) = -H21 inv(H11),    S = L22 L22'                (1)

S is the Schur complement of H11. One triangle holds [N11; Y, L22], and with it inv(H) b for any b = (b1, b2):

    x2 = inv(S) (b2 + Y b1),    x1 = N11 b1 + Y' x2                                                      (2)

Where N11 is nothing, these are the two triangular solutions of a Cholesky factor; where it is all there is, a
product with the inverse. The split moves from the first column to the last, by updates of low rank, which
BLAS is fast at however few the columns are.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from squaresvm.factors.inverse_diagonal import diagonal_of_inverse
from squaresvm.linalg.blas import (
    gram_update,
    multiply_add,
    multiply_triangular_in_place,
    solve_triangular_in_place,
    symmetric_product,
)
from squaresvm.linalg.lapack import (
    cholesky_in_place,
    cholesky_with_jitter,
    inverse_columns,
    invert_triangular_in_place,
    square_triangular_in_place,
)
from squaresvm.operators import KernelStore
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
#: Share of the inversion that comes with each request from then on, so that none of them has to wait for all
#: of it. A whole inversion takes half as long again as a fit. The first share is half as large: what waited
#: for the request comes with it.
_SHARE = 1 / 13
#: Columns that are inverted at once in any case: parting them would save nobody a wait.
_LEAST = 96
#: Columns come in multiples of this, which BLAS is fastest at.
_GRAIN = 32
#: Diagonal of H in an empty slot: its inverse is nothing beside any number that matters.
_NOTHING = 1e300


class Form(StrEnum):
    """What the room of the store holds."""

    NOTHING = "nothing"
    CHOLESKY = "Cholesky factor"
    SPLIT = "inverse up to some slot, Cholesky factor from there on"
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
        NOTHING while the room is written; where that was interrupted it stays, and whoever needs the factor
        builds it anew from K.
    split : int
        Slot up to which the room holds N11 of (1). It moves without a change of what the room stands for, so
        views and corrections need not know.
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
        self.size = self.split = 0
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
        if form not in (Form.CHOLESKY, Form.INVERSE):
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

    def _split_within(self, extent: int) -> int:
        """Return up to which of `extent` slots the room holds an inverse."""
        if self.form == Form.INVERSE:
            return extent
        return self.split if self.form == Form.SPLIT else 0

    def solve(self, rhs: FloatArray, extent: int) -> FloatArray:
        """Return what the room stands for over `extent` slots, times rhs; zero in slots behind them."""
        out = np.zeros(rhs.shape, order="F")
        out[:extent] = rhs[:extent]
        solve_split(self.store.room(extent), self._split_within(extent), out[:extent])
        return out

    def columns(self, slots: IntArray, size: int, extent: int) -> FloatArray:
        """Return columns of what the room stands for over `extent` slots, of shape (size, k)."""
        room, split = self.store.room(extent), self._split_within(extent)
        if extent == size:
            return columns_of_split(room, split, slots)
        out, within = np.zeros((size, slots.size), order="F"), np.flatnonzero(slots < extent)
        out[:extent, within] = columns_of_split(room, split, slots[within])
        return out

    def column(self, slot: int, size: int, extent: int) -> FloatArray:
        """Return one of these columns as a vector: mostly there to read."""
        if self.form != Form.INVERSE or extent != size:
            return np.asarray(self.columns(np.array([slot]), size, extent)[:, 0])
        room = self.store.room(extent)
        return np.concatenate([room[slot, :slot], room[slot:, slot]])

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
        """Note a request; once they have become many, go a step further towards the inverse with each."""
        self._served += 1
        if self.form != Form.INVERSE and self._served > _PATIENCE:
            share = _SHARE if self.form == Form.SPLIT else _SHARE / 2
            stop = split_after(extent, self._split_within(extent), share, _LEAST)
            self._invert_to(stop, extent)

    def invert(self, extent: int) -> None:
        """Turn what is left of the Cholesky factor into the inverse, in place."""
        if self.form != Form.INVERSE:
            self._invert_to(extent, extent)

    def _invert_to(self, stop: int, extent: int) -> None:
        """Move the split to `stop`. What the room stands for stays the same."""
        self.settled_pending()
        split, self.form = self._split_within(extent), Form.NOTHING
        invert_further(self.store.room(extent), split, stop)
        self.split, self.size = stop, extent
        self.form = Form.SPLIT if stop < extent else Form.INVERSE

    @property
    def is_half_inverted(self) -> bool:
        """Whether less is left of the inversion than a new Cholesky factor would cost, half of it."""
        started = self.form == Form.SPLIT and share_done(self.size, self.split) >= 0.5
        return started or self.form == Form.INVERSE

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

    def diagonal(self, extent: int, slots: IntArray | None = None) -> FloatArray:
        """Return the diagonal of what the room stands for over `extent` slots, or some entries of it."""
        room, slots = self.store.room(extent), np.arange(extent) if slots is None else slots
        if self.form == Form.CHOLESKY:
            return diagonal_of_inverse(room, slots)
        self.invert(extent)
        return np.diagonal(room)[slots]

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

    def corrections(self, weights: FloatArray, size: int) -> FloatArray:
        """Return the sum over `size` slots of the first columns of corrections times `weights` (count, 1)."""
        strips = self.settled_pending().reshape(-1, _STRIP, self.pending.shape[1])
        return (strips[: -(-size // _STRIP), :, : weights.shape[0]] @ weights).reshape(-1)[:size]

    def write_pending(self, start: int, columns: FloatArray, halfway: bool = False) -> None:
        """Keep columns of corrections from position `start` on; half-way ones are the first."""
        size, stop = columns.shape[0], start + columns.shape[1]
        if start == 0:
            # Others that stood there belong to nobody any more.
            self._halfway, self._halfway_extent = stop if halfway else 0, size
        self.reserve(size)
        self.pending[:size, start:stop] = columns
        self.pending[size:, start:stop] = 0.0


def _zero(room: FloatArray, slots: IntArray) -> None:
    """Write zeros into the rows and columns of these slots, below the diagonal."""
    for slot in slots:
        room[slot, :slot] = 0.0
        room[slot + 1 :, slot] = 0.0


# The split -----------------------------------------------------------------------------------------------


def share_done(size: int, split: int) -> float:
    """Return how much of the inversion is done, in multiplications: 0.0 at no column, 1.0 at the last."""
    columns = split / size
    return columns**2 * (3.0 - columns) / 2.0


def split_after(size: int, split: int, share: float, least: int) -> int:
    """Return where the split stands after another share of the whole inversion, `least` columns anyhow."""
    goal, stop = share_done(size, split) + share, split + least
    while stop < size and share_done(size, stop) < goal:
        stop += _GRAIN
    return min(stop, size)


def invert_further(room: FloatArray, split: int, stop: int) -> None:
    """Move the split of a lower triangle from `split` to `stop`.

    Parameters
    ----------
    room : ndarray of shape (m, m)
        [N11; Y, L22] with L22 from row and column `split` on; its strict upper triangle is left as it is.
    split : int
        0: a whole Cholesky factor.
    stop : int
        m: the whole inverse, afterwards.
    """
    corner, rows = room[split:stop, split:stop], room[split:stop, :split]
    below = room[stop:, split:stop]
    invert_triangular_in_place(corner)
    multiply_triangular_in_place(corner, below, side="right", alpha=-1.0)
    multiply_add(room[stop:, :split], below, rows)
    # Rows of inv(L): what their transpose is times themselves is what N11 gains by them.
    multiply_triangular_in_place(corner, rows)
    gram_update(room[:split, :split], rows.T)
    multiply_triangular_in_place(corner, rows, transpose=True)
    square_triangular_in_place(corner)


def solve_split(room: FloatArray, split: int, rhs: FloatArray) -> None:
    """Overwrite `rhs`, of shape (m, k) and Fortran-ordered, by inv(H) rhs: equation (2)."""
    first, last = rhs[:split], rhs[split:]
    if split:
        multiply_add(last, room[split:, :split], first)
        first[...] = symmetric_product(room[:split, :split], first, lower=True)
    solve_triangular_in_place(room[split:, split:], last)
    _finish(room, split, rhs)


def _finish(room: FloatArray, split: int, out: FloatArray) -> None:
    """Overwrite (N11 b1, inv(L22) (b2 + Y b1)) by (x1, x2) of (2)."""
    solve_triangular_in_place(room[split:, split:], out[split:], transpose=True)
    multiply_add(out[:split], room[split:, :split].T, out[split:])


def columns_of_split(room: FloatArray, split: int, columns: IntArray) -> FloatArray:
    """Return columns of inv(H), Fortran-ordered: read, as far as they are there."""
    out = np.zeros((room.shape[0], columns.size), order="F")
    for position, column in enumerate(columns.tolist()):
        if column < split:
            out[:column, position] = room[column, :column]
            out[column:, position] = room[column:, column]
    if split == room.shape[0]:
        return out
    read = columns < split
    half = out[split:, read]
    solve_triangular_in_place(room[split:, split:], half)
    out[split:, read] = half
    out[split:, ~read] = inverse_columns(room[split:, split:], columns[~read] - split)
    _finish(room, split, out)
    return out
