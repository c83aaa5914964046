"""Rows in memory, or in a memory map: blocks are views. And rows of another source, transformed or fewer."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from squaresvm.readers import Place
from squaresvm.rows import canonical_csr
from squaresvm.runtime.arguments import check_integer
from squaresvm.runtime.resources import in_order
from squaresvm.streaming.source import (
    Block,
    Source,
    as_matrix,
    checked_block,
    float_type,
    named,
    rows_per_block,
)
from squaresvm.typing import IntArray, Matrix

__all__ = ["ArraySource", "MappedSource", "RemainingSource"]

T = TypeVar("T")

#: Bytes of a block in memory: few enough for caches, enough that threads rarely meet.
_BLOCK_BYTES = 4 * 2**20


class ArraySource:
    """Blocks of an array, a CSR matrix or a `numpy.memmap`.

    Blocks are views of C-contiguous float64 or float32 rows; rows of other types and orders are converted
    block by block in every pass, so that no second copy of all of them is made. Values are checked the
    first time that a pass comes to them. Of a memory map, the next blocks are asked for while tasks run.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (m, n)
        Features. Do not change them while the source is in use.
    y : array-like of shape (m,)
        Labels or values.
    sample_weight : array-like of shape (m,), optional
        Weights, finite and not negative; None: all one.
    block_rows : int, optional
        Rows a block; as many as make about 4 MB where it is not given.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.streaming import ArraySource
    >>> source = ArraySource(np.arange(10.0).reshape(5, 2), [0, 1, 0, 1, 1], block_rows=2)
    >>> source.n_rows, source.n_features
    (5, 2)
    >>> [block.X.sum().item() for block in source.map(lambda block: block)]
    [6.0, 22.0, 17.0]
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any = None, *, block_rows: int | None = None) -> None:
        # asanyarray, because a memory map must stay one.
        self._X: Matrix = canonical_csr(sp.csr_matrix(X)) if sp.issparse(X) else np.asanyarray(X)
        self._y = np.asanyarray(y)
        self._weights = None if sample_weight is None else np.asanyarray(sample_weight)
        if self._X.ndim != 2:
            raise ValueError(f"X must have two dimensions, rows and features; got shape {self._X.shape}")
        rows = int(self._X.shape[0])
        if rows == 0:
            raise ValueError("X has no rows")
        if self._y.ndim not in (1, 2) or self._y.shape[0] != rows:
            raise ValueError(f"y must have one value for each of the {rows} rows of X; got {self._y.shape}")
        if self._weights is not None and self._weights.shape != (rows,):
            raise ValueError(f"sample_weight must have shape ({rows},); got {self._weights.shape}")
        self._block_rows = rows_per_block(block_rows, _bytes(self._X) / rows, _BLOCK_BYTES)
        self._is_checked = bytearray(-(-rows // self._block_rows))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self._X.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._X.shape[0])

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """None: the columns of an array have no names."""
        return None

    def map(self, task: Callable[[Block], T]) -> Iterator[T]:
        """Yield `task(block)` for every block, in order; tasks run on threads."""
        return in_order(self._jobs(task))

    def _jobs(self, task: Callable[[Block], T]) -> Iterator[Callable[[], T]]:
        announce = _announcer(self._X)
        for number in range(len(self._is_checked)):
            announce(number * self._block_rows, self._block_rows)
            yield partial(self._work, task, number)

    def _work(self, task: Callable[[Block], T], number: int) -> T:
        block = self._block(number)
        with named(block.place):
            return task(block)

    def _block(self, number: int) -> Block:
        first = number * self._block_rows
        stop = min(first + self._block_rows, self.n_rows)
        place = Place(_name(self._X), first, stop - first)
        X, y = _view(self._X, first, stop), np.asarray(self._y[first:stop])
        weights = None if self._weights is None else np.asarray(self._weights[first:stop])
        if not self._is_checked[number]:
            block = checked_block(X, y, weights, first=first, place=place, n_features=self.n_features)
            self._is_checked[number] = True
            return block
        X = as_matrix(X, place)
        weights = None if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        return Block(X, y, weights, first, str(place))


def _bytes(X: Matrix) -> int:
    """Return the bytes of the rows as tasks see them."""
    if sp.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.size) * float_type(X.dtype).itemsize


def _name(X: Matrix) -> str:
    filename = getattr(X, "filename", None)
    return "array" if filename is None else str(filename)


def _view(X: Matrix, first: int, stop: int) -> Matrix:
    """Return rows of X without copying their values."""
    if not sp.issparse(X):
        return np.asarray(X[first:stop])
    start, end = X.indptr[first], X.indptr[stop]
    # Set, not given to the constructor: it copies small parts of large arrays.
    view = sp.csr_matrix((stop - first, X.shape[1]), dtype=X.dtype)
    view.data, view.indices = X.data[start:end], X.indices[start:end]
    view.indptr = X.indptr[first : stop + 1] - start
    view.has_canonical_format = True  # As X is: no need to look again.
    return view


def _announcer(X: Matrix) -> Callable[[int, int], None]:
    """Return a function that tells the system which rows of a memory map are read next."""
    mapped = _mapping(X)
    if mapped is None or not hasattr(mapped, "madvise"):
        return lambda first, count: None
    start = _address(X) - _address(np.frombuffer(mapped, dtype=np.uint8))
    row_bytes = int(X.strides[0])

    def announce(first: int, count: int) -> None:
        begin = start + first * row_bytes
        begin -= begin % mmap.PAGESIZE
        if begin < len(mapped):
            mapped.madvise(
                mmap.MADV_WILLNEED, begin, min(count * row_bytes + mmap.PAGESIZE, len(mapped) - begin)
            )

    return announce


def _mapping(X: Matrix) -> mmap.mmap | None:
    """Return the memory map under row after row of an array, if there is one."""
    if not isinstance(X, np.memmap) or not X.flags.c_contiguous:
        return None
    base: Any = X
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


class MappedSource:
    """Another source's blocks with their features transformed.

    The transformation runs where the task runs, in every pass: on the threads, or on the cluster's workers.

    Parameters
    ----------
    source : Source
        Any source of this module.
    transform : callable or fitted transformer
        Makes (rows, k) features from (rows, n) features, each row by itself: the `transform` of a fitted
        scaler or of a Nystrom map, or an object that has one. Must be picklable for a cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.streaming import ArraySource, MappedSource
    >>> source = ArraySource(np.arange(6.0).reshape(3, 2), [1, -1, 1])
    >>> products = MappedSource(source, lambda X: X[:, :1] * X)
    >>> [block.X.tolist() for block in products.map(lambda block: block)]
    [[[0.0, 0.0], [4.0, 6.0], [16.0, 20.0]]]
    """

    def __init__(self, source: Source, transform: Any) -> None:
        self._source = source
        function = getattr(transform, "transform", transform)
        if not callable(function):
            raise TypeError(f"transform must be a function or have one; got {type(transform).__name__}")
        self._transform: Callable[[Any], Any] = function
        self._features: int | None = None

    @property
    def n_features(self) -> int:
        """Number of features after the transformation; reads the first block."""
        if self._features is None:
            with closing(cast(Any, self._source.map(_Width(self._transform)))) as widths:
                width = next(widths, None)
            if width is None:
                raise ValueError("the source has no rows")
            self._features = int(width)
        return self._features

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where the source knows it."""
        return self._source.n_rows

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """None: transformed features have no names."""
        return None

    def map(self, task: Callable[[Block], T]) -> Iterator[T]:
        """Yield `task(block)` for every block, in order, with transformed features."""
        return self._source.map(_Mapped(self._transform, task, self.n_features))


@dataclass(frozen=True)
class _Width:
    """How many features a transformation makes."""

    transform: Callable[[Any], Any]

    def __call__(self, block: Block) -> int:
        X = self.transform(block.X[:1])
        return int((X if sp.issparse(X) else np.asarray(X)).shape[1])


@dataclass(frozen=True)
class _Mapped(Generic[T]):
    """A task on transformed features; a class, because a cluster needs to pickle it."""

    transform: Callable[[Any], Any]
    task: Callable[[Block], T]
    n_features: int

    def __call__(self, block: Block) -> T:
        X = self.transform(block.X)
        place = Place("transformed", block.first, block.rows)
        mapped = checked_block(
            X, block.y, block.weights, first=block.first, place=place, n_features=self.n_features
        )
        return self.task(replace(mapped, place=block.place))


class RemainingSource:
    """The rows of another source without some of them, which are passed over in every pass.

    Parameters
    ----------
    source : Source
        Any source of this module.
    rows : iterable of int
        Numbers of the rows that are left out, counted from 0 in the order of `source`, each once. Those that
        remain are counted from 0 again.

    Attributes
    ----------
    n_found : int or None
        How many of the rows left out the last whole pass came upon; None before one.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.streaming import ArraySource, RemainingSource
    >>> source = RemainingSource(ArraySource(np.arange(4.0)[:, None], [1, -1, 1, -1]), [2, 0])
    >>> [block.X[:, 0].tolist() for block in source.map(lambda block: block)]
    [[1.0, 3.0]]
    """

    def __init__(self, source: Source, rows: Iterable[int]) -> None:
        numbers = np.sort([check_integer("each of the rows left out", row, 0) for row in rows])
        self._gone: IntArray = numbers.astype(np.intp)
        twice = self._gone[1:][np.diff(self._gone) == 0]
        if twice.size:
            raise ValueError(f"row {int(twice[0])} is named twice")
        self._source = source
        self.n_found: int | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self._source.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows that remain, where the source knows how many it has."""
        rows = self._source.n_rows
        return None if rows is None else rows - int(np.searchsorted(self._gone, rows))

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, where they have names."""
        return self._source.feature_names

    def map(self, task: Callable[[Block], T]) -> Iterator[T]:
        """Yield `task(block)` for every block of which a row remains, in order."""
        found = 0
        for part in self._source.map(_OnRemaining(task, self._gone)):
            found += part.found
            yield from part.results
        self.n_found = found


@dataclass(frozen=True)
class _Part(Generic[T]):
    """What a task said of the rows of a block that remain, if any do, and how many were left out."""

    results: tuple[T, ...]
    found: int


@dataclass(frozen=True)
class _OnRemaining(Generic[T]):
    """A task on the rows that remain; a class, because a cluster needs to pickle it."""

    task: Callable[[Block], T]
    gone: IntArray

    def __call__(self, block: Block) -> _Part[T]:
        before, behind = np.searchsorted(self.gone, [block.first, block.first + block.rows]).tolist()
        out = self.gone[before:behind] - block.first
        first = block.first - before
        if out.size == 0:
            return _Part((self.task(replace(block, first=first)),), 0)
        if out.size == block.rows:
            return _Part((), out.size)
        keep = np.ones(block.rows, dtype=bool)
        keep[out] = False
        weights = None if block.weights is None else block.weights[keep]
        rest = Block(block.X[keep], block.y[keep], weights, first, block.place)
        return _Part((self.task(rest),), out.size)
