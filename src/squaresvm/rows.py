"""The training rows: validated, owned, with ids that stay."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["Ids", "Rows", "canonical_csr"]

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
    """Names of rows: arrival numbers 0, 1, 2, ... unless the caller gives its own.

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
        """Return the caller's ids after a check: one a row, hashable, no two alike."""
        values = _as_id_array(ids)
        if values.shape != (count,):
            raise ValueError(f"ids must name each of the {count} rows; got shape {values.shape}")
        seen: set[Hashable] = set()
        for position, value in enumerate(values.tolist()):
            try:
                repeated = value in seen
            except TypeError:
                raise ValueError(f"ids must be hashable; ids[{position}] is {value!r}") from None
            if repeated:
                raise ValueError(f"ids must be unique; {value!r} occurs twice")
            if value != value:
                raise ValueError(f"ids must equal themselves; ids[{position}] is {value!r}")
            seen.add(value)
        return cls(values, None)

    @cached_property
    def _position(self) -> dict[Hashable, int]:
        return {value: position for position, value in enumerate(self.values.tolist())}

    def positions(self, ids: Iterable[Hashable]) -> IntArray:
        """Return where the given ids stand.

        Raises
        ------
        KeyError
            For an id that is not held.
        ValueError
            For an id that is given twice.
        """
        wanted = _as_id_array(ids).tolist()
        found: dict[int, None] = {}
        for value in wanted:
            try:
                position = self._position[value]
            except (KeyError, TypeError):
                raise KeyError(f"no row with id {value!r} is held") from None
            if position in found:
                raise ValueError(f"id {value!r} is given twice")
            found[position] = None
        return np.fromiter(found, dtype=np.intp, count=len(found))

    def without(self, keep: BoolArray) -> Ids:
        """Return the ids of the rows that stay."""
        return Ids(self.values[keep], self.arrivals)

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
        for value in new_ids.values.tolist():
            if value in self._position:
                raise ValueError(f"a row with id {value!r} is held already")
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
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows as they are held: the only place that holds them.

    Parameters
    ----------
    X : array or CSR matrix of shape (m, n)
        Features; the kernel matrix itself, (m, m), where that is precomputed.
    y : ndarray of shape (m,)
        Labels or values.
    weights : ndarray of shape (m,)
        Sample weights, zero allowed.
    ids : Ids
    """

    X: Matrix
    y: np.ndarray[Any, Any]
    weights: FloatArray
    ids: Ids

    @property
    def count(self) -> int:
        """Number of rows held."""
        return int(self.y.shape[0])

    def without(self, positions: IntArray, *, square: bool = False) -> Rows:
        """Return the rows less those at `positions`, as copies that share nothing with these.

        With `square`, X is a kernel matrix and loses columns as well.
        """
        keep = np.ones(self.count, dtype=bool)
        keep[positions] = False
        X = self.X[keep]
        if square:
            X = X[:, keep]
        return Rows(X, self.y[keep], self.weights[keep], self.ids.without(keep))

    def extended(self, X: Matrix, new: Rows) -> Rows:
        """Return the rows with `new` behind them; X is their joint matrix."""
        y = np.concatenate([self.y, new.y])
        return replace(self, X=X, y=y, weights=np.concatenate([self.weights, new.weights]), ids=new.ids)
