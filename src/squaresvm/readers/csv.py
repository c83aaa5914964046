"""CSV: one line of names, then one line a row; commas, semicolons or tabs."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm.readers.table import MISSING, Column, Table, TableError

__all__ = ["read_separated"]

_DELIMITERS = ",;\t"


def read_separated(path: Path, lines: Iterable[tuple[int, str]]) -> Table:
    """Return the table of numbered lines.

    Parameters
    ----------
    path : Path
        For messages.
    lines : iterable of (int, str)
        The first one names the columns; which delimiter it holds most often is taken for all.

    Returns
    -------
    Table
    """
    source = _Source(lines)
    records = _records(path, source)
    names = _names(path, next(records)[1])
    cells: list[list[str]] = [[] for _ in names]
    starts: list[int] = []
    for line, record in records:
        if not record or record == [""]:
            continue
        if len(record) != len(names):
            raise TableError(
                f"{path}, line {line}: has {len(record)} cells, and the first line names {len(names)} columns"
            )
        starts.append(line)
        for column, cell in zip(cells, record, strict=True):
            text = cell.strip()
            column.append("" if text in MISSING else text)
    if not starts:
        raise TableError(f"{path}: holds a header and no rows")
    columns = {name: Column(name, _objects(column)) for name, column in zip(names, cells, strict=True)}
    return Table(path, columns, starts)


class _Source:
    """Lines without their numbers, and the number of the last one."""

    def __init__(self, lines: Iterable[tuple[int, str]]) -> None:
        self._lines = iter(lines)
        self.number, self.first = next(self._lines)
        self._given = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self._given:
            self._given = True
            return self.first
        self.number, line = next(self._lines)
        return line


def _records(path: Path, source: _Source) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each record, and the line on which it starts: cells may hold line breaks."""
    delimiter = max(_DELIMITERS, key=source.first.count)
    reader = csv.reader(source, delimiter=delimiter, strict=True, skipinitialspace=True)
    start = source.number
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(f"{path}, line {start}: is not CSV: {_words(error)}") from None
        yield start, record
        start = source.number + 1


def _words(error: csv.Error) -> str:
    text = str(error)
    return "a cell is too long" if "field larger" in text else text.splitlines()[0]


def _names(path: Path, record: list[str]) -> list[str]:
    names = [name.strip() for name in record]
    if all(_is_number(name) for name in names):
        raise TableError(
            f"{path}, line 1: names no columns, it holds numbers only: put a line of names first"
        )
    if len(names) < 2:
        raise TableError(f"{path}, line 1: names one column only: a table needs a label and a feature")
    for position, name in enumerate(names):
        if not name:
            raise TableError(f"{path}, line 1: column {position + 1} has no name")
        if name in names[:position]:
            raise TableError(f"{path}, line 1: two columns have the name {name[:40]!r}")
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _objects(cells: list[str]) -> np.ndarray[Any, Any]:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array
