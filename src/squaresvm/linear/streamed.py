"""Passes over a source: its blocks, with labels turned into targets where the blocks are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from squaresvm.labels import signs
from squaresvm.linear.memory import COMPILED_SIZE
from squaresvm.linear.passes import Piece
from squaresvm.linear.survey import Sample
from squaresvm.streaming import Block, Source
from squaresvm.typing import FloatArray

__all__ = ["Encoding", "StreamedPieces"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Encoding:
    """How labels and weights become targets and costs.

    Parameters
    ----------
    classes : ndarray or None
        Sorted labels; None for regression.
    class_costs : ndarray
        C times the weight of each class; C alone for regression.
    """

    classes: np.ndarray[Any, Any] | None
    class_costs: FloatArray

    @property
    def n_columns(self) -> int:
        """Number of columns of targets."""
        return 1 if self.classes is None or self.classes.size == 2 else int(self.classes.size)

    def targets(self, codes: np.ndarray[Any, Any]) -> FloatArray:
        """Return a column of +1 and -1 for each class, one for two, given places among the classes."""
        if self.n_columns == 1:
            return signs(codes.astype(bool, copy=False))[:, None]
        return signs(codes[:, None] == np.arange(self.n_columns))

    def encode(self, y: np.ndarray[Any, Any], weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return targets and costs.

        Raises
        ------
        ValueError
            For a label that no earlier pass has seen.
        """
        if self.classes is None:
            return np.asarray(y, dtype=np.float64)[:, None], self._weighed(None, y.shape[0], weights)
        if self.classes.size == 2:
            codes = y == self.classes[1]
            known = codes | (y == self.classes[0])
        else:
            codes = np.minimum(np.searchsorted(self.classes, y), self.classes.size - 1)
            known = self.classes[codes] == y
        if not known.all():
            raise ValueError(f"label {y[~known][0]!r} was not there in the first pass: the data has changed")
        return self.targets(codes), self._weighed(codes, y.shape[0], weights)

    def _weighed(
        self, codes: np.ndarray[Any, Any] | None, rows: int, weights: FloatArray | None
    ) -> FloatArray:
        """Return the costs; where they are all the same, one number seen many times."""
        if np.all(self.class_costs == self.class_costs[0]):
            costs = np.broadcast_to(self.class_costs[0], rows)
        else:
            assert codes is not None
            costs = self.class_costs[codes.astype(np.intp)]
        return costs if weights is None else costs * weights


@dataclass(frozen=True, eq=False)
class _OnBlock(Generic[T]):
    """A task on pieces, as one on blocks: what travels to where the blocks are."""

    task: Callable[[Piece], T]
    encoding: Encoding
    compiled: bool

    def __call__(self, block: Block) -> tuple[int, T | None]:
        """Return the number of rows, and the result; None where no row has a weight."""
        X, y, weights = block.X, block.y, block.weights
        if weights is not None and not weights.all():
            held = np.flatnonzero(weights)
            if held.size == 0:
                return block.rows, None
            X, y, weights = X[held], y[held], weights[held]
        targets, costs = self.encoding.encode(y, weights)
        compiled = self.compiled and isinstance(X, np.ndarray)
        return block.rows, self.task(Piece(X, targets, costs, compiled))


class StreamedPieces:
    """Blocks of a source.

    Parameters
    ----------
    source : Source
    encoding : Encoding
    rows : int
        Rows of positive weight.
    sample : Sample
        Some of them.
    watch : callable, optional
        Called with the rows that a pass has come to so far, 0 at its start.
    """

    def __init__(
        self,
        source: Source,
        encoding: Encoding,
        rows: int,
        sample: Sample,
        watch: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self.source = source
        self.encoding = encoding
        self.rows = rows
        self._sample = sample
        self._watch = watch
        size = rows * source.n_features
        self._compiled = encoding.n_columns == 1 and size >= COMPILED_SIZE

    @property
    def n_features(self) -> int:
        """Number of features, n."""
        return self.source.n_features

    @property
    def n_columns(self) -> int:
        """Number of columns of targets, k."""
        return self.encoding.n_columns

    @property
    def passes_are_cheap(self) -> bool:
        """No: rows are read anew in each."""
        return False

    @property
    def rows_stay(self) -> bool:
        """No: a row is known to nobody between passes."""
        return False

    def map(self, task: Callable[[Piece], T]) -> Iterator[T]:
        """Yield `task(piece)` for every block, in order."""
        seen = 0
        self._watch(0)
        for rows, result in self.source.map(_OnBlock(task, self.encoding, self._compiled)):
            seen += rows
            self._watch(seen)
            if result is not None:
                yield result

    def sample(self, size: int) -> Piece | None:
        """Return the sample that the first pass took, each row standing for several."""
        sample = self._sample.lowest(size)
        if sample.ranks.size >= self.rows:
            return None
        targets, costs = self.encoding.encode(sample.y, sample.weights)
        return Piece(sample.X, targets, costs * (self.rows / sample.ranks.size), self._compiled)
