"""Operators that hold K in a store, and the rows of K by slots: of features, proximal, of some rows."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import numpy as np

from squaresvm.kernels import Kernel
from squaresvm.linalg.blas import times
from squaresvm.operators.single import SingleKernel
from squaresvm.operators.store import KernelStore, Operator
from squaresvm.rows.chunks import Chunks, Features, dropped
from squaresvm.runtime.resources import on_threads, row_blocks, thread_count
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["DenseOperator", "ProximalOperator", "StoredOperator", "SubsetOperator"]

Stored = TypeVar("Stored", bound="StoredOperator")


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

    def _sharing(self, other: Stored, slots: IntArray) -> Stored:
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


class DenseOperator(StoredOperator):
    """K = k(X, X), computed once, block by block, into one buffer.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (m, n), or Chunks
    """

    def __init__(self, kernel: Kernel, X: Features) -> None:
        super().__init__(int(X.shape[0]))
        self.kernel = kernel
        self._rows = X

    @property
    def X(self) -> Matrix:
        """The rows in one matrix: put together when asked for, where they came in pieces."""
        return self._rows.whole if isinstance(self._rows, Chunks) else self._rows

    def _block(self, rows: slice, columns: slice) -> FloatArray:
        return self.kernel(self.X[rows], self.X[columns])

    def diagonal(self) -> FloatArray:
        """Return the diagonal of K; from the store where there is one, as rows in pieces are slow to join."""
        return self.kernel.diagonal(self.X) if self._store is None else super().diagonal()

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return k(X, rows) coefficients, in blocks on all threads; rows without any are left out."""
        rows = self.X
        used = np.flatnonzero(np.any(coefficients != 0.0, axis=1))
        if used.size < self.n_rows:
            rows, coefficients = rows[used], coefficients[used]
        out = np.zeros((X.shape[0], coefficients.shape[1]))
        parts = row_blocks(X.shape[0], used.size) if used.size else []
        # Somebody's own function may not be made for two threads at once.
        alone = callable(self.kernel.function) or len(parts) < 2

        def share(t: int, threads: int) -> None:
            for part in parts[t::threads]:
                out[part] = times(self.kernel(X[part], rows), coefficients)

        on_threads(share, 1 if alone else thread_count())
        return out

    def without(self, gone: IntArray, X: Features) -> DenseOperator:
        """Return the operator of the rest, X, on the same store."""
        return self._sharing(DenseOperator(self.kernel, X), dropped(self.slots, gone))

    def joined(self, X: Matrix) -> tuple[DenseOperator, FloatArray, FloatArray]:
        """Return the operator of X, these rows and new ones behind them, on the same store.

        With it come K between held and new rows, and K of the new rows.
        """
        new = X[self.n_rows :]
        cross, corner = self.kernel(self.X, new), self.kernel(new, new)
        slots = self._put(cross, corner)
        joined = self._sharing(DenseOperator(self.kernel, X), np.concatenate([self.slots, slots]))
        return joined, cross, corner


class ProximalOperator(StoredOperator):
    """K W K' over another operator's K: the proximal SVM, equations (10) to (12) of the relaxed paper.

    The rows are landmarks too: f(x) = k(x, X) W K beta + b, so the coefficients of k(x_i, .) are W K beta.
    Correction: (10) has to be read D(K D w + e b) + q = e; from that (11) and (12) follow.

    Parameters
    ----------
    inner : StoredOperator
        Holds K.
    weights : ndarray of shape (m,)
        Diagonal of W: under it a row of weight 2 equals the same row, and landmark, twice.
    """

    def __init__(self, inner: StoredOperator, weights: FloatArray) -> None:
        super().__init__(inner.n_rows)
        self.inner = inner
        self.weights = weights

    def _block(self, rows: slice, columns: slice) -> FloatArray:
        everything = np.arange(self.n_rows)
        right = self.inner.block(everything, everything[columns]) * self.weights[:, None]
        out = np.empty((rows.stop - rows.start, right.shape[1]), order="F")
        for part in row_blocks(out.shape[0], self.n_rows):
            out[part] = self.inner.block(everything[rows][part], everything) @ right  # KK' of (12).
        return out

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K (W (K b)): two products with K, and K W K' itself is needed by the factor only."""
        return self.inner.matmul(self.weights[:, None] * self.inner.matmul(b))

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return the sum of |K_il w_l K_lj b_j| over j and l."""
        return self.inner.magnitude(self.weights[:, None] * self.inner.magnitude(b))

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return W K coefficients, the coefficients of k(x_i, .) in f."""
        return self.weights[:, None] * self.inner.matmul(coefficients)  # D w of (11), with beta = D v.

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return k(X, rows) coefficients, for coefficients that `expand` returned."""
        return self.inner.cross(X, coefficients)

    def without(self, gone: IntArray, X: Features) -> ProximalOperator:
        """Return the operator of the other rows, and landmarks; it has no store yet."""
        return ProximalOperator(self.inner.without(gone, X), dropped(self.weights, gone))

    def with_landmarks(
        self, X: Matrix, weights: FloatArray
    ) -> tuple[ProximalOperator, FloatArray, FloatArray]:
        """Return the operator with new rows, which are landmarks too, of the given weights.

        With it come K W K' between held and new rows, and of the new rows.
        """
        held = self.n_rows
        inner, cross, corner = self.inner.joined(X)
        both = ProximalOperator(inner, np.concatenate([self.weights, weights]))
        product = inner.matmul(both.weights[:, None] * np.vstack([cross, corner]))
        return both, product[:held], product[held:]

    def private(self) -> ProximalOperator:
        """Return the operator over a K of its own."""
        return ProximalOperator(self.inner.private(), self.weights)

    def clear(self, rows: IntArray) -> None:
        """Write zeros where these rows were in the store of K, and over K W K', which they are all over."""
        self.inner.clear(rows)
        if self._store is not None:
            self._store.erase()


class SubsetOperator(StoredOperator):
    """K[rows, rows] of a parent: what an active set needs a factor of.

    Parameters
    ----------
    parent : Operator
    rows : ndarray of shape (m,)
        Positions among the parent's rows.
    """

    def __init__(self, parent: Operator, rows: IntArray) -> None:
        super().__init__(rows.size)
        self.parent = parent
        self.rows = rows

    def _block(self, rows: slice, columns: slice) -> FloatArray:
        return self.parent.block(self.rows[rows], self.rows[columns])

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return sum_i k(x, x_i) coefficients_i for each row x of X."""
        everything = np.zeros((self.parent.n_rows, coefficients.shape[1]))
        everything[self.rows] = coefficients
        return self.parent.cross(X, everything)

    def shrunk(self, keep: BoolArray) -> SubsetOperator:
        """Return the operator of the rows kept, on the same store; the slots of the others are cleared."""
        self._held().clear(self.slots[~keep])
        return self._sharing(SubsetOperator(self.parent, self.rows[keep]), self.slots[keep])

    def kept(self, keep: BoolArray) -> SubsetOperator:
        """Return the operator of the rows kept, on the same store; the others stay there until cleared."""
        return self._sharing(SubsetOperator(self.parent, self.rows[keep]), self.slots[keep])

    def clear_empty(self) -> None:
        """Write zeros into all slots that hold no row of this operator."""
        store = self._held()
        store.clear(np.setdiff1d(np.arange(store.size), self.slots))

    def grown(self, rows: IntArray) -> tuple[SubsetOperator, FloatArray, FloatArray]:
        """Return the operator with more rows of the parent, K between held and new, and K of the new."""
        cross, corner = self.parent.block(self.rows, rows), self.parent.block(rows, rows)
        slots = self._put(cross, corner)
        both = SubsetOperator(self.parent, np.concatenate([self.rows, rows]))
        return self._sharing(both, np.concatenate([self.slots, slots])), cross, corner

    def moved(self, parent: Operator, rows: IntArray) -> SubsetOperator:
        """Return the operator of the same rows under a parent that numbers them otherwise."""
        return self._sharing(SubsetOperator(parent, rows), self.slots)
