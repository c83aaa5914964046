"""CSV and LIBSVM text, plain or compressed by gzip.

CSV has one line of names, then one line a row, with commas, semicolons or tabs. LIBSVM text is ``label
index:value index:value ...`` with rising indices.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from squaresvm.readers.origin import MISSING, Place, TableError, opened
from squaresvm.runtime.resources import is_compiled
from squaresvm.typing import FloatArray, IntArray

__all__ = ["LARGEST_INDEX", "CsvBlock", "LibsvmText", "csv_blocks", "holds_libsvm", "libsvm_texts"]

_DELIMITERS = ",;\t"
#: Bytes of a line at most: what has longer ones is no table of ours.
_LONGEST_CSV_LINE = 8 * 2**20
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


def csv_blocks(
    path: Path,
    file: BinaryIO,
    block_rows: int = _BLOCK_ROWS,
    header: bool | None = True,
    fewest: int = 2,
) -> Iterator[CsvBlock]:
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
    header : bool or None, default=True
        Whether the first line names the columns, which are ``column_1, column_2, ...`` where it does not.
        None: it does, unless it looks like a row, which is an error.
    fewest : int, default=2
        Columns that it must name.

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
    first = next(records)
    if header is False:
        names = [f"column_{number}" for number in range(1, len(first[1]) + 1)]
        records = chain([first], records)
    else:
        if header is None:
            _check_names(path, *first)
        names = _names(path, *first, fewest)
    block = CsvBlock([], {name: [] for name in names})
    for line, record in records:
        # A line of nothing is no row; an empty cell in quotes is one, where it is the only one.
        if not record or (record == [""] and len(names) > 1):
            continue
        if len(record) != len(names):
            raise TableError(
                f"{path}, line {line}: has {len(record)} cell{'s' * (len(record) != 1)}, and the first line "
                f"names {len(names)} column{'s' * (len(names) != 1)}; remove lines above the names"
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
        line = self._file.readline(_LONGEST_CSV_LINE + 1)
        if not line:
            return ""
        self.number += 1
        place = f"{self._path}, line {self.number}"
        if len(line) > _LONGEST_CSV_LINE:
            raise TableError(f"{place}: is longer than {_LONGEST_CSV_LINE >> 20} MB")
        try:
            text = line.decode("utf-8-sig" if self.number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise TableError(
                f"{place}: is not text in UTF-8; --encoding names another, such as cp1252"
            ) from None
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


def _names(path: Path, line: int, record: list[str], fewest: int) -> list[str]:
    names, place = [name.strip() for name in record], f"{path}, line {line}"
    if len(names) < fewest:
        raise TableError(f"{place}: names one column only: a table needs a label and a feature")
    # Tools write an index without a name, and lines that end in a delimiter.
    names = [name or f"column_{number}" for number, name in enumerate(names, 1)]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise TableError(f"{place}: two columns have the name {name[:40]!r}: rename one of them")
    return names


def _check_names(path: Path, line: int, record: list[str]) -> None:
    """Raise a TableError where the first line looks like a row: years may be names, fractions are none."""
    cells = [cell.strip() for cell in record]
    numbers = [cell for cell in cells if _is_number(cell)]
    odd = next((cell for cell in numbers if not cell.isdigit()), None)
    if odd is None and len(numbers) == len([cell for cell in cells if cell]):
        odd = next(iter(numbers), None)
    if odd is not None:
        raise TableError(
            f"{path}, line {line}: looks like a row and not like names, because it holds the number {odd!r}: "
            "--no-header reads it as a row (columns are column_1, column_2, ...), --header as names"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


#: What an index may be, so that it fits into 32 bits.
LARGEST_INDEX = np.iinfo(np.int32).max - 1
#: Text that is read at a time; as sparse rows it takes about as much.
_TEXT_BYTES = 8 * 2**20
_LONGEST_LIBSVM_LINE = 2**28
#: Bytes of a line that are looked at to tell what kind of file it is.
_LOOK_BYTES = 2**16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NUMBER = rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_FIRST_LINE = re.compile(rb"\s*" + _NUMBER + rb"(?:\s+qid:\S+)?(?:\s+\d+:\S+|\s*(?:#|$))")


def holds_libsvm(file: BinaryIO) -> bool:
    """Return whether the first line that is neither blank nor a comment is one of LIBSVM text."""
    is_first = True
    while line := file.readline(_LOOK_BYTES):
        text = line.removeprefix(_BYTE_ORDER_MARK).strip() if is_first else line.strip()
        is_first = False
        if text and not text.startswith(b"#"):
            return _FIRST_LINE.match(text) is not None
        while line and not line.endswith(b"\n"):  # The rest of a long comment.
            line = file.readline(_LOOK_BYTES)
    return False


@dataclass(frozen=True, eq=False)
class LibsvmText:
    """Whole lines of a file.

    Parameters
    ----------
    text : bytes
    rows : int
        Lines that are rows: neither blank nor a comment.
    place : Place
        Lines, counted from 1.
    low, high : int
        Between which indices must lie.
    """

    text: bytes
    rows: int
    place: Place
    low: int
    high: int

    def parse(self) -> tuple[Any, FloatArray]:
        """Return sparse rows, whose columns are the indices of the text, and the labels.

        Raises
        ------
        TableError
            If a line is anything else than a row; the message names file and line.
        """
        from squaresvm.readers._libsvm_loops import FINE, parse_rows

        most = self.text.count(b":")
        labels, values = np.empty(self.rows), np.empty(most)
        indptr, indices = np.empty(self.rows + 1, np.int32), np.empty(most, np.int32)
        hard = np.empty((most + self.rows, 3), np.int64)  # Pages that are not written to take no memory.
        buffer = np.frombuffer(self.text, dtype=np.uint8)
        if not is_compiled():
            buffer = buffer.astype(np.int64)  # NumPy's own arithmetic would stay within 255.
        error, line, start, stop, n_hard = parse_rows(
            buffer, self.low, self.high, labels, indptr, indices, values, hard
        )
        if error != FINE:
            raise TableError(f"{self.place.row(line)}: {self._complaint(error, start, stop)}")
        self._read_hard_numbers(hard[:n_hard], labels, values)
        entries = int(indptr[-1])
        # Wide enough for any index that may stand there: the caller knows the features.
        shape = (self.rows, LARGEST_INDEX + 1)
        return sp.csr_matrix((values[:entries], indices[:entries], indptr), shape=shape), labels

    def _read_hard_numbers(self, hard: IntArray, labels: FloatArray, values: FloatArray) -> None:
        """Read those numbers that the compiled parser cannot be certain of."""
        numbers = np.array([float(self.text[start:stop]) for _, start, stop in hard.tolist()])
        infinite = np.flatnonzero(~np.isfinite(numbers))
        if infinite.size:
            _, start, stop = hard[infinite[0]].tolist()
            line = self.text.count(b"\n", 0, start)
            raise TableError(f"{self.place.row(line)}: {self._shown(start, stop)} is too large")
        is_label = hard[:, 0] < 0
        labels[-1 - hard[is_label, 0]] = numbers[is_label]
        values[hard[~is_label, 0]] = numbers[~is_label]

    def _complaint(self, error: int, start: int, stop: int) -> str:
        from squaresvm.readers import _libsvm_loops as codes

        token = self._shown(start, stop)
        return {
            codes.NO_LABEL: f"the label is missing before {token}",
            codes.BAD_LABEL: f"the label {token} is not a number",
            codes.BAD_INDEX: f"{token} is not index:value with a whole number as index",
            codes.BAD_VALUE: f"the value of {token} is not a finite number",
            codes.NOT_INCREASING: f"the index of {token} is not larger than the one before it",
            codes.BELOW: f"the index of {token} is 0, but indices count from 1",
            codes.ABOVE: f"the index of {token} is beyond the largest, {self.high}, that a column can have",
        }[error]

    def _shown(self, start: int, stop: int) -> str:
        """Return a token for a message, short and printable."""
        return repr(self.text[start : min(stop, start + 40)].decode("utf-8", "backslashreplace"))


def libsvm_texts(
    path: Path, *, low: int, high: int = LARGEST_INDEX, block_rows: int | None = None
) -> Generator[LibsvmText, None, None]:
    """Cut a file into whole lines.

    Parameters
    ----------
    path : Path
    low, high : int
        Between which indices must lie.
    block_rows : int, optional
        Rows of each text; as many as stand in about 8 MB where it is not given.

    Yields
    ------
    LibsvmText
    """
    from squaresvm.readers._libsvm_loops import cut_rows

    most = np.iinfo(np.int64).max if block_rows is None else block_rows
    with opened(path) as file:
        held, line = file.read(_TEXT_BYTES).removeprefix(_BYTE_ORDER_MARK), 1
        if not held:
            raise TableError(f"{path}: is empty")
        more = held
        while held:
            end = held.rfind(b"\n") + 1 if more else len(held)
            if not end and len(held) > _LONGEST_LIBSVM_LINE:
                raise TableError(f"{path}, line {line}: too long to be a line of LIBSVM text")
            text, start = np.frombuffer(held, dtype=np.uint8, count=end), 0
            while start < end:
                rows, lines, size = cut_rows(text[start:], most)
                if rows < most and more and block_rows is not None:
                    break
                place = Place(str(path), line, lines, "line")
                yield LibsvmText(held[start : start + size], rows, place, low, high)
                start, line = start + size, line + lines
            if not more:
                return
            held = held[start:]
            # Twice as much each time that no block was complete: long lines are not scanned too often.
            more = file.read(max(_TEXT_BYTES, len(held)))
            held += more
