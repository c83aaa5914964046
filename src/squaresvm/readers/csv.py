"""CSV: one line of names, then one line a row; commas, semicolons or tabs."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from squaresvm.readers.origin import MISSING, TableError

__all__ = ["CsvBlock", "csv_blocks"]

_DELIMITERS = ",;\t"
#: Bytes of a line at most: what has longer ones is no table of ours.
_LONGEST_LINE = 8 * 2**20
_BLOCK_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class CsvBlock:
    """Some consecutive rows of a CSV file.

    Parameters
    ----------
    lines : list of int
        Where each row starts in the file, counted from 1: a cell may hold line breaks.
    columns : dict of list of str
        Cells by the name of the column, "" where a value is missing.
    """

    lines: list[int]
    columns: dict[str, list[str]]


def csv_blocks(path: Path, file: BinaryIO, block_rows: int = _BLOCK_ROWS) -> Iterator[CsvBlock]:
    """Yield the rows of a CSV file.

    Parameters
    ----------
    path : Path
        For messages.
    file : binary file
        The first line that is not blank names the columns; which delimiter it holds most often is taken for
        all.
    block_rows : int
        Rows a block at most.

    Yields
    ------
    CsvBlock

    Raises
    ------
    TableError
        If it is no CSV; the message names file and line.
    """
    lines = _Lines(path, file)
    records = _records(path, lines)
    names = _names(path, *next(records))
    block = CsvBlock([], {name: [] for name in names})
    for line, record in records:
        if not record or record == [""]:
            continue
        if len(record) != len(names):
            raise TableError(
                f"{path}, line {line}: has {len(record)} cells, and the first line names {len(names)} columns"
            )
        block.lines.append(line)
        for column, cell in zip(block.columns.values(), record, strict=True):
            text = cell.strip()
            column.append("" if text in MISSING else text)
        if len(block.lines) == block_rows:
            yield block
            block = CsvBlock([], {name: [] for name in names})
    yield block


class _Lines:
    """Lines of text from the first that is not blank, and the number of the last one."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self.number = 0
        self.first = self._next()
        while self.first and not self.first.strip():
            self.first = self._next()
        if not self.first:
            raise TableError(f"{path}: is empty")

    def __iter__(self) -> Iterator[str]:
        yield self.first
        while line := self._next():
            yield line

    def _next(self) -> str:
        """Return the next line; nothing at the end."""
        line = self._file.readline(_LONGEST_LINE + 1)
        if not line:
            return ""
        self.number += 1
        place = f"{self._path}, line {self.number}"
        if len(line) > _LONGEST_LINE:
            raise TableError(f"{place}: is longer than {_LONGEST_LINE >> 20} MB")
        try:
            text = line.decode("utf-8-sig" if self.number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise TableError(f"{place}: is not text in UTF-8") from None
        if "\0" in text:
            raise TableError(f"{place}: is not text: it holds a zero byte")
        return text


def _records(path: Path, lines: _Lines) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each record, and the line on which it starts: cells may hold line breaks."""
    delimiter = max(_DELIMITERS, key=lines.first.count)
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    start = lines.number
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(f"{path}, line {start}: is not CSV: {_words(error)}") from None
        yield start, record
        start = lines.number + 1


def _words(error: csv.Error) -> str:
    text = str(error)
    return "a cell is too long" if "field larger" in text else text.splitlines()[0]


def _names(path: Path, line: int, record: list[str]) -> list[str]:
    names, place = [name.strip() for name in record], f"{path}, line {line}"
    if all(_is_number(name) for name in names):
        raise TableError(f"{place}: names no columns, it holds numbers only: put a line of names first")
    if len(names) < 2:
        raise TableError(f"{place}: names one column only: a table needs a label and a feature")
    for position, name in enumerate(names):
        if not name:
            raise TableError(f"{place}: column {position + 1} has no name")
        if name in names[:position]:
            raise TableError(f"{place}: two columns have the name {name[:40]!r}")
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
