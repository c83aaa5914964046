"""Sources that are read anew in every pass: what they share, and blocks that a function makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from squaresvm.readers import Place
from squaresvm.runtime.arguments import check_integer
from squaresvm.runtime.resources import read_ahead
from squaresvm.streaming.source import Block, checked_block, named

__all__ = ["FILE_BLOCK_BYTES", "BlockSource", "Piece", "ReadSource"]

T = TypeVar("T")

#: Bytes of a block that is read from a file.
FILE_BLOCK_BYTES = 16 * 2**20


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows as they were read; `decode` makes `(X, y, weights)` of them, on the thread of the task."""

    rows: int
    place: Place
    decode: Callable[[], tuple[Any, Any, Any]]


class ReadSource(ABC):
    """A source that reads its rows again in every pass, and notices when they are not the same number."""

    _rows: int | None = None
    _features: int | None = None

    @abstractmethod
    def _pieces(self) -> Generator[Piece, None, None]:
        """Read the rows piece by piece; called and used by the reading thread."""

    @property
    @abstractmethod
    def _name(self) -> str:
        """What is read, for messages."""

    @property
    def n_features(self) -> int:
        """Number of features."""
        if self._features is None:
            self._look()
        assert self._features is not None
        return self._features

    @abstractmethod
    def _look(self) -> None:
        """Find out how many features there are."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where only a pass can tell and none was made."""
        return self._rows

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, where they have names."""
        return None

    def map(self, task: Callable[[Block], T]) -> Iterator[T]:
        """Yield `task(block)` for every block, in order; blocks are read while tasks run."""
        rows = 0
        with closing(read_ahead(self._jobs(task))) as results:
            for count, result in results:
                rows += count
                yield result
        self._check_rows(rows)

    def _jobs(self, task: Callable[[Block], T]) -> Iterator[Callable[[], tuple[int, T]]]:
        first = 0
        with closing(self._pieces()) as pieces:
            for piece in pieces:
                if piece.rows:
                    yield partial(self._work, task, piece, first)
                first += piece.rows

    def _work(self, task: Callable[[Block], T], piece: Piece, first: int) -> tuple[int, T]:
        X, y, weights = piece.decode()
        block = checked_block(
            X,
            y,
            weights,
            first=first,
            place=piece.place,
            n_features=self.n_features,
            names=self.feature_names,
        )
        with named(block.place):
            return piece.rows, task(block)

    def _check_rows(self, rows: int) -> None:
        if rows == 0 and not self._rows:
            raise ValueError(f"{self._name} has no rows")
        if self._rows not in (None, rows):
            raise ValueError(
                f"{self._name} gave {rows} rows in this pass and {self._rows} before: "
                "a source must give the same rows in every pass"
            )
        self._rows = rows


_ADVICE = (
    "give a function that returns a new iterable for every pass, such as BlockSource(lambda: read('file'))"
)


class BlockSource(ReadSource):
    """Blocks from any function that returns an iterable of them.

    Parameters
    ----------
    factory : callable
        Called without arguments at the start of every pass; returns a new iterable of `(X, y)` or
        `(X, y, weights)`, the same rows each time. It is called and read on a thread of its own, a few
        blocks ahead of the computation, so each block must be a new array and not one that is used again.
    n_features : int, optional
        Number of features; that of the first block where it is not given.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.streaming import BlockSource
    >>> def blocks():
    ...     for seed in range(3):
    ...         X = np.random.default_rng(seed).normal(size=(100, 4))
    ...         yield X, np.sign(X[:, 0])
    >>> source = BlockSource(blocks)
    >>> source.n_features, sum(source.map(lambda block: block.rows)), source.n_rows
    (4, 300, 300)
    """

    def __init__(self, factory: Callable[[], Iterable[Any]], n_features: int | None = None) -> None:
        if isinstance(factory, Iterator):
            raise TypeError(f"a generator or iterator can be read only once: {_ADVICE}")
        if not callable(factory):
            raise TypeError(f"factory must be a function, not {type(factory).__name__}: {_ADVICE}")
        self._factory = factory
        self._features = None if n_features is None else check_integer("n_features", n_features, 1)
        self._last: Any = None
        self._opening: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the iterable of the latest pass."""
        return {**self.__dict__, "_last": None}

    @property
    def _name(self) -> str:
        return "the function of a BlockSource"

    def _look(self) -> None:
        if next(self._pieces(), None) is None:
            raise ValueError(f"{self._name} gave no blocks")

    def _pieces(self) -> Generator[Piece, None, None]:
        for number, given in enumerate(self._iterable()):
            block = _parts(given, number)
            rows = _shape(block[0], number)[0]
            if number == 0:
                self._check_opening(block[0])
            place = Place(f"block {number}", 0, rows)
            yield Piece(rows, place, partial(_same, block))

    def _iterable(self) -> Iterable[Any]:
        iterable = self._factory()
        if not isinstance(iterable, Iterable):
            raise TypeError(f"factory returned {type(iterable).__name__}, not an iterable of blocks")
        if isinstance(iterable, Iterator):
            if iterable is self._last:
                raise ValueError(f"the function returned the iterator of an earlier pass again: {_ADVICE}")
            self._last = iterable
        return iterable

    def _check_opening(self, X: Any) -> None:
        """Notice an iterable that goes on where the last one stopped, before blocks are lost in silence."""
        rows, features = _shape(X, 0)
        if self._features is None:
            self._features = features
        values = X[:1].toarray() if sp.issparse(X) else np.array(X[:1])
        opening = (rows, values)
        if self._opening is None:
            self._opening = opening
        elif self._opening[0] != rows or not np.array_equal(self._opening[1], values):
            raise ValueError(
                f"block 0 is not the block 0 of an earlier pass: the iterables share a state; {_ADVICE}"
            )


def _same(block: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    return block


def _parts(given: Any, number: int) -> tuple[Any, Any, Any]:
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise ValueError(f"block {number} is {type(given).__name__}; it must be (X, y) or (X, y, weights)")
    X, y, weights = (*given, None)[:3]
    X = sp.csr_matrix(X) if sp.issparse(X) else np.asarray(X)
    return X, y, weights


def _shape(X: Any, number: int) -> tuple[int, int]:
    if X.ndim != 2:
        raise ValueError(f"block {number}: X must have two dimensions, rows and features; got {X.shape}")
    return int(X.shape[0]), int(X.shape[1])
