"""What a source is: rows that are reached block by block."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy.typing as npt

from squaresvm.typing import FloatArray, Matrix

__all__ = ["Block", "Source", "is_source", "named"]


@contextmanager
def named(place: str) -> Iterator[None]:
    """Add the place to the message of any error that is raised inside; its type stays."""
    try:
        yield
    except Exception as error:
        if len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (f"{place}: {error.args[0]}",)
        else:
            error.add_note(f"This happened at {place}.")
        raise


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive rows of a source, checked; never empty.

    Parameters
    ----------
    X : array or CSR matrix of shape (rows, n_features)
        Features, float64 or float32, finite: a C-contiguous array, or sparse rows in canonical form.
    y : ndarray of shape (rows,)
        Labels or values as they came, numbers or strings, none missing.
    weights : ndarray of shape (rows,) or None
        Sample weights, finite and not negative; None: all one.
    first : int
        Number of the block's first row in the source, counted from 0.
    place : str
        Where the rows come from, for messages: "train.parquet, rows 4096 to 8191".
    """

    X: Matrix
    y: npt.NDArray[Any]
    weights: FloatArray | None
    first: int
    place: str

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])


class Source(Protocol):
    """Rows that are reached block by block, as often as passes are made."""

    @property
    def n_features(self) -> int:
        """Number of features; may read the first block to find out."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where only a pass can tell and none was made."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, where they have names."""

    def map(self, task: Callable[[Block], T]) -> Iterator[T]:
        """Make a pass: yield `task(block)` for every block, in the order of the blocks.

        Tasks run on threads, or on the workers of a cluster, which `task` must be able to reach by pickle.
        An iterator that is closed early ends its threads.
        """


def is_source(value: object) -> TypeGuard[Source]:
    """Return whether a value is a source, without asking it for anything that would make it read."""
    names = ("n_features", "n_rows", "feature_names", "map")
    return all(inspect.getattr_static(type(value), name, None) is not None for name in names)
