"""LIBSVM text: ``label index:value index:value ...`` with rising indices, plain or compressed by gzip."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from squaresvm.readers.origin import Place, TableError, opened
from squaresvm.runtime.jit import is_compiled
from squaresvm.typing import FloatArray, IntArray

__all__ = ["LARGEST_INDEX", "LibsvmText", "holds_libsvm", "libsvm_texts"]

#: What an index may be, so that it fits into 32 bits.
LARGEST_INDEX = np.iinfo(np.int32).max - 1
#: Text that is read at a time; as sparse rows it takes about as much.
_TEXT_BYTES = 8 * 2**20
_LONGEST_LINE = 2**28
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
            if not end and len(held) > _LONGEST_LINE:
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
