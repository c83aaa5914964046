"""What sources have in common that are read anew in every pass: files and iterables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from squaresvm.readers import Place
from squaresvm.runtime.resources import read_ahead
from squaresvm.streaming.checks import checked_block
from squaresvm.streaming.source import Block, named

__all__ = ["FILE_BLOCK_BYTES", "Piece", "ReadSource"]

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
