"""A source whose features are made from those of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import numpy as np
import scipy.sparse as sp

from squaresvm.readers import Place
from squaresvm.streaming.checks import checked_block
from squaresvm.streaming.source import Block, Source

__all__ = ["MappedSource"]

T = TypeVar("T")


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
