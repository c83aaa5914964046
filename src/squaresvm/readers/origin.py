"""Where rows come from: files, plain or compressed by gzip, and places in them, for messages."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

__all__ = ["MISSING", "Place", "TableError", "is_packed", "is_standard_input", "opened"]

#: What stands for a value that is not there, in text; NaN does in any case and with any sign.
MISSING = frozenset(
    ["", "?", "NA", "N/A", "n/a", "N/a", "null", "NULL", "Null", "#N/A", "#NA", "<NA>", "NaT"]
) | frozenset(sign + "".join(letters) for sign in ("", "+", "-") for letters in product("nN", "aA", "nN"))
_GZIP = b"\x1f\x8b"


class TableError(ValueError):
    """A file whose rows cannot be used; the message is one line that names file and line.

    Examples
    --------
    >>> from squaresvm.readers import TableError
    >>> issubclass(TableError, ValueError)
    True
    """


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
    >>> from squaresvm.readers import Place
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


def is_standard_input(path: Path) -> bool:
    """Return whether a path stands for the standard input."""
    return str(path) == "-"


#: The standard input and what it held: it can be read once, and is looked at several times.
_read: tuple[object, bytes] | None = None


def _standard_input() -> bytes:
    global _read
    if _read is None or _read[0] is not sys.stdin:
        _read = sys.stdin, sys.stdin.buffer.read()
    return _read[1]


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Give the contents of a file, unpacked where its first bytes say that gzip packed them.

    Parameters
    ----------
    path : Path
        ``-`` is the standard input.

    Raises
    ------
    TableError
        If it is no regular file, or gzip cannot unpack it.
    OSError
        If it cannot be read; the error names the file.
    """
    if is_standard_input(path):
        raw = io.BytesIO(_standard_input())
        packed = raw.getbuffer()[:2] == _GZIP
        yield io.BufferedReader(gzip.GzipFile(fileobj=raw) if packed else raw)
        return
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # To open a pipe would wait for a writer.
        raise TableError(f"{path}: is not a regular file")
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            yield io.BufferedReader(gzip.GzipFile(fileobj=file)) if packed else file
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise TableError(f"{path}: is damaged: gzip cannot unpack it") from None
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def is_packed(file: io.BufferedReader) -> bool:
    """Return whether what `opened` gives comes out of gzip."""
    return isinstance(file.raw, gzip.GzipFile)
