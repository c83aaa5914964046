"""Blocks that a function of the user's makes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.readers import Place
from squaresvm.runtime.arguments import check_integer
from squaresvm.streaming.block_reader import Piece, ReadSource

__all__ = ["BlockSource"]

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
