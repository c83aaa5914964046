"""Rows of a source without some of them: what remains of a stream after a request to forget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from squaresvm.runtime.arguments import check_integer
from squaresvm.streaming.source import Block, Source
from squaresvm.typing import IntArray

__all__ = ["RemainingSource"]

T = TypeVar("T")


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
