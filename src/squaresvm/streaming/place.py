"""Where rows come from, in words: every message about bad data names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Place", "named"]


@dataclass(frozen=True)
class Place:
    """Consecutive rows or lines of a file, an array or a block.

    Parameters
    ----------
    name : str
        File, array or block.
    first : int
        Number of the first row, as it is counted there.
    count : int
        Number of rows.
    unit : str, default="row"
        What is counted.

    Examples
    --------
    >>> place = Place("train.parquet", 4096, 4096)
    >>> str(place), place.row(4)
    ('train.parquet, rows 4096 to 8191', 'train.parquet, row 4100')
    """

    name: str
    first: int
    count: int
    unit: str = "row"

    def __str__(self) -> str:
        """Return the place in words."""
        if self.count == 1:
            return self.row(0)
        return f"{self.name}, {self.unit}s {self.first} to {self.first + self.count - 1}"

    def row(self, offset: int) -> str:
        """Return the place of one of the rows in words."""
        return f"{self.name}, {self.unit} {self.first + offset}"


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
