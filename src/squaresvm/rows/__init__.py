"""Training rows: features, labels, weights, ids that stay; validated, held in one place, replaced whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.rows.chunks import Chunks, Features, dropped
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["LARGE_BYTES", "Ids", "Rows", "canonical_csr", "ids_from", "owned"]

_INT32_MAX = np.iinfo(np.int32).max


def canonical_csr(X: Matrix) -> Matrix:
    """Return sparse rows sorted, without duplicate entries, with 32-bit indices where they suffice.

    Readers of LIBSVM files return 64-bit indices, and compiled code downstream may refuse them.
    """
    if not sp.issparse(X):
        return X
    fits = max(X.nnz, *X.shape) <= _INT32_MAX
    kind = np.int32 if fits else np.int64
    indices, indptr = X.indices.astype(kind, copy=False), X.indptr.astype(kind, copy=False)
    same = indices is X.indices and indptr is X.indptr
    if same and X.has_canonical_format:
        return X
    copy = sp.csr_matrix((X.data.copy(), indices.copy(), indptr.copy()), shape=X.shape)
    copy.sum_duplicates()
    return copy


@dataclass(frozen=True, eq=False)
class Ids:
    """Names of rows: arrival numbers 0, 1, 2, ... unless the caller gives its own, which may repeat.

    Parameters
    ----------
    values : ndarray of shape (m,)
        One a row; of dtype object where the caller's ids are not all numbers or strings.
    arrivals : int or None
        Number of rows that ever arrived, the next arrival number; None with the caller's own ids.
    """

    values: np.ndarray[Any, Any]
    arrivals: int | None

    @classmethod
    def numbered(cls, count: int) -> Ids:
        """Return arrival numbers for the first `count` rows."""
        return cls(np.arange(count), count)

    @classmethod
    def given(cls, ids: Iterable[Hashable], count: int) -> Ids:
        """Return the caller's ids after a check: one a row, hashable; several rows may have the same."""
        values = _as_id_array(ids)
        if values.shape != (count,):
            raise ValueError(f"ids must name each of the {count} rows; got shape {values.shape}")
        for position, value in enumerate(values.tolist()):
            try:
                hash(value)
            except TypeError:
                raise ValueError(f"ids must be hashable; ids[{position}] is {value!r}") from None
            if value != value:
                raise ValueError(f"ids must equal themselves; ids[{position}] is {value!r}")
        return cls(values, None)

    @cached_property
    def _position(self) -> dict[Hashable, int]:
        """The last position of each id: the only one, unless ids repeat."""
        return {value: position for position, value in enumerate(self.values.tolist())}

    @cached_property
    def _repeated(self) -> dict[Hashable, list[int]]:
        """All positions of each id; empty where no id repeats."""
        places: dict[Hashable, list[int]] = {}
        if self.arrivals is None and len(self._position) < self.values.size:
            for position, value in enumerate(self.values.tolist()):
                places.setdefault(value, []).append(position)
        return places

    def positions(self, ids: Iterable[Hashable]) -> IntArray:
        """Return where the given ids stand: every row of each of them.

        Raises
        ------
        KeyError
            For an id that is not held.
        ValueError
            For an id that is given twice.
        """
        if self.arrivals is not None and type(ids) is list and len(ids) == 1 and type(ids[0]) is int:
            place = self._find(ids[0])  # The ordinary request needs no array of ids.
            if place is not None:
                return np.array([place], dtype=np.intp)
        wanted = _as_id_array(ids)
        places = self._numbered_places(wanted) if wanted.size > 1 else None
        if places is not None:
            return places
        found: dict[int, None] = {}
        for value in wanted.tolist():
            position = self._find(value)
            if position is None:
                raise KeyError(f"no row with id {value!r} is held")
            if position in found:
                raise ValueError(f"id {value!r} is given twice")
            found.update(dict.fromkeys(self._repeated.get(value, (position,))))
        return np.fromiter(found, dtype=np.intp, count=len(found))

    def some_positions(self, ids: Iterable[Hashable]) -> IntArray:
        """Return the same of at least one id; a ValueError where none is given."""
        positions = self.positions(ids)
        if positions.size == 0:
            raise ValueError("no ids were given: there is nothing to forget")
        return positions

    def leaving(self, positions: IntArray) -> tuple[Hashable, ...]:
        """Return the ids, each once, of which no row is held without the rows at `positions`."""
        names = self.values[positions].tolist()
        if self.arrivals is not None or not self._repeated:
            return tuple(names)
        return tuple(name for name, count in Counter(names).items() if count == len(self._repeated[name]))

    def _numbered_places(self, wanted: np.ndarray[Any, Any]) -> IntArray | None:
        """Return where arrival numbers stand, all at once; None where one is not there, or there twice."""
        if self.arrivals is None or wanted.dtype.kind not in "iu" or wanted.ndim != 1 or wanted.size == 0:
            return None
        places = np.searchsorted(self.values, wanted)
        if places.max() >= self.values.size or not np.array_equal(self.values[places], wanted):
            return None
        return places if np.unique(places).size == places.size else None

    def _find(self, value: Hashable) -> int | None:
        if self.arrivals is None:
            try:
                return self._position.get(value)
            except TypeError:
                return None
        # Arrival numbers are sorted: no dictionary of millions of ids for one request.
        if not isinstance(value, Integral) or not 0 <= int(value) < self.arrivals:
            return None
        position = int(self.values.searchsorted(int(value)))
        here = position < self.values.size and self.values[position] == value
        return position if here else None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what can be computed again."""
        return {"values": self.values, "arrivals": self.arrivals}

    def without(self, positions: IntArray) -> Ids:
        """Return the ids of the rows that stay."""
        return Ids(dropped(self.values, positions), self.arrivals)

    def extended(self, ids: Iterable[Hashable] | None, count: int) -> Ids:
        """Return the ids with those of `count` new rows behind them."""
        if self.arrivals is not None:
            if ids is not None:
                raise ValueError(
                    "the rows held have arrival numbers, so new rows cannot bring ids of their own; "
                    "give ids at fit"
                )
            new = np.arange(self.arrivals, self.arrivals + count)
            return Ids(np.concatenate([self.values, new]), self.arrivals + count)
        if ids is None:
            raise ValueError("the rows held have ids of their own, so new rows must bring theirs")
        new_ids = Ids.given(ids, count)
        return Ids(_as_id_array([*self.values.tolist(), *new_ids.values.tolist()]), None)


def _as_id_array(ids: Iterable[Hashable]) -> np.ndarray[Any, Any]:
    """Return ids as a flat array that gives each of them back as it came."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ValueError(f"ids must be a sequence of ids, such as [3, 17]; got {ids!r}")
    if isinstance(ids, np.ndarray) and ids.dtype != object:
        return ids.copy()
    values = list(ids)
    kinds = {type(value) for value in values}
    if kinds in ({int}, {str}):
        try:
            return np.array(values)
        except OverflowError:
            pass  # An integer too large for int64 keeps its own type.
    return np.fromiter(values, dtype=object, count=len(values))  # Tuples stay ids: no second dimension.


def ids_from(ids: Any, X: Any) -> Any:
    """Return ids as they are given; for ``'index'``, the index of the pandas data frame that X is.

    Examples
    --------
    >>> import pandas as pd
    >>> from squaresvm.rows import ids_from
    >>> ids_from("index", pd.DataFrame({"age": [41, 42, 7]}, index=["anna", "anna", "bert"]))
    ['anna', 'anna', 'bert']
    """
    if not isinstance(ids, str) or ids != "index":
        return ids
    if not hasattr(X, "iloc"):
        raise ValueError(
            f"ids='index' takes the index of a pandas data frame, and X is of type {type(X).__name__}: "
            "give the ids themselves"
        )
    return X.index.tolist()


#: Rows up to this many bytes are copied; larger ones are referenced, and rows that leave are struck out.
LARGE_BYTES = 64 * 2**20


def owned(X: Matrix, given: Any) -> tuple[Matrix, bool]:
    """Return rows that the caller cannot change, a copy unless they are large, and whether they are ours."""
    if _bytes(X) <= LARGE_BYTES:
        return X.copy(), True
    theirs = given.data if sp.issparse(given) else given
    mine = X.data if sp.issparse(X) else X
    return X, not np.may_share_memory(mine, np.asarray(theirs))


def _bytes(X: Matrix) -> int:
    return int(X.data.nbytes if sp.issparse(X) else X.nbytes)


def _whole(X: Features) -> Matrix:
    """Return features in one matrix."""
    return X.whole if isinstance(X, Chunks) else X


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows as they are held: the only place that holds them.

    Parameters
    ----------
    base : array or CSR matrix, or Chunks
        Features, one row each; without columns where the kernel matrix is precomputed. In pieces once rows
        have left a kernel model.
    y : ndarray of shape (m,)
        Labels or values.
    weights : ndarray of shape (m,)
        Sample weights, zero allowed.
    ids : Ids
    alive : ndarray, optional
        Which rows of a large `base` are still held; None: all.
    is_owned : bool, default=True
        Whether `base` is nobody else's.
    given : ndarray of shape (m,), optional
        The caller's own weights, where `weights` were changed at fit; None: they are the same.
    """

    base: Features
    y: np.ndarray[Any, Any]
    weights: FloatArray
    ids: Ids
    alive: BoolArray | None = None
    is_owned: bool = True
    given: FloatArray | None = None

    @property
    def count(self) -> int:
        """Number of rows held."""
        return int(self.y.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return int(self.base.shape[1])

    @cached_property
    def X(self) -> Matrix:
        """The features of the rows held."""
        whole = _whole(self.base)
        return whole if self.alive is None else whole[self.alive]

    @property
    def features(self) -> Features:
        """The features of the rows held, in pieces if they are."""
        return self.base if isinstance(self.base, Chunks) else self.X

    def take(self, positions: IntArray) -> Matrix:
        """Return the features of some rows."""
        if isinstance(self.base, Chunks):
            return self.base.take(positions)
        return _whole(self.base)[self._places(positions)]

    def _places(self, positions: IntArray) -> IntArray:
        """Return where rows stand in `base`: behind their position by the rows before them that have left."""
        if self.alive is None:
            return positions
        gone = np.flatnonzero(~self.alive)
        ahead = np.searchsorted(gone - np.arange(gone.size), positions, side="right")
        return np.asarray(positions + ahead, dtype=np.intp)

    def without(self, positions: IntArray, *, strike: bool = False) -> Rows:
        """Return the rows less those at `positions`, as copies; features come in pieces.

        With `strike` features stay in one array, and large ones are not copied: where they are ours, zeros
        are written over the rows that leave; the caller's own are only marked, until `compact`.
        """
        y, weights = dropped(self.y, positions), dropped(self.weights, positions)
        ids = self.ids.without(positions)
        given = None if self.given is None else dropped(self.given, positions)
        if not strike:
            return Rows(self._pieces_without(positions), y, weights, ids, given=given)
        if isinstance(self.base, Chunks) or _bytes(self.base) <= LARGE_BYTES:
            return Rows(dropped(self.X, positions), y, weights, ids, given=given)
        alive = np.ones(self.base.shape[0], dtype=bool) if self.alive is None else self.alive.copy()
        alive[self._places(positions)] = False
        return Rows(self.base, y, weights, ids, alive, self.is_owned, given)

    def _pieces_without(self, positions: IntArray) -> Features:
        """Return the features less those at `positions`, in pieces where they are dense and have columns."""
        if isinstance(self.base, Chunks):
            return self.base.without(positions)
        if sp.issparse(self.base) or self.n_columns == 0:
            return dropped(self.X, positions)
        return Chunks.of(self.X).without(positions)

    def erase(self, rest: Rows) -> None:
        """Write zeros over the features of rows that `rest`, made by `without`, no longer holds."""
        base = self.base
        if rest.alive is None or rest.base is not base or isinstance(base, Chunks) or not self.is_owned:
            return
        for row in np.flatnonzero(~rest.alive):
            if sp.issparse(base):
                base.data[base.indptr[row] : base.indptr[row + 1]] = 0.0
            else:
                base[row] = 0.0

    @property
    def may_be_erased(self) -> bool:
        """Whether rows that leave are struck out in place, so that older rows on the same base lose them."""
        return not isinstance(self.base, Chunks) and self.is_owned and _bytes(self.base) > LARGE_BYTES

    def private(self) -> Rows:
        """Return the same rows, which nobody else can erase."""
        if not self.may_be_erased:
            return self
        return replace(self, base=self.X.copy() if self.alive is None else self.X, alive=None)

    def compact(self) -> Rows:
        """Return the rows with no reference to features of rows that have left."""
        if self.alive is None:
            return self
        return replace(self, base=self.X, alive=None, is_owned=True)

    def joined(self, new: Rows) -> Rows:
        """Return these rows and new ones behind them; `new.ids` names them all."""
        pair = [self.X, new.X]
        base = sp.vstack(pair, format="csr") if sp.issparse(self.base) else np.concatenate(pair)
        y = np.concatenate([self.y, new.y])
        given = None if self.given is None else np.concatenate([self.given, new.weights])
        return Rows(base, y, np.concatenate([self.weights, new.weights]), new.ids, given=given)

    def reweighted(self, factors: FloatArray) -> Rows:
        """Return the rows with the caller's weights times `factors`."""
        given = self.weights if self.given is None else self.given
        return replace(self, weights=given * factors, given=given)

    def as_given(self) -> Rows:
        """Return the rows with the caller's own weights."""
        return self if self.given is None else replace(self, weights=self.given, given=None)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without rows that have left, and without what can be computed again."""
        rest = self.compact()
        kept = {"base": rest.X, "y": rest.y, "weights": rest.weights, "ids": rest.ids}
        kept["given"] = rest.given
        return {**kept, "alive": None, "is_owned": True}
