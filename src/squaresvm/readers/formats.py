"""Which kind of file it is, and its rows."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from squaresvm.readers.csv import read_separated
from squaresvm.readers.libsvm import read_libsvm
from squaresvm.readers.table import SparseRows, Table, TableError

__all__ = ["read"]

#: Bytes of a line at most: what has longer ones is no table of ours.
LONGEST_LINE = 8 * 2**20
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_LIBSVM_LINE = re.compile(rf"\s*{_NUMBER}(?:\s+\d+:\S+)*\s*(?:#.*)?")


def read(path: str | os.PathLike[str]) -> Table | SparseRows:
    """Return the rows of a file; what kind it is of is told by its contents, not by its name.

    Parameters
    ----------
    path : path-like
        LIBSVM text (``label index:value ...``), CSV with a line of names (commas, semicolons or tabs) or
        Parquet, plain or gzip.

    Returns
    -------
    Table or SparseRows

    Raises
    ------
    TableError
        If the file is none of these; the message names file and line.
    OSError
        If it cannot be read.
    """
    path = Path(path)
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # To open a pipe would wait for a writer.
        raise TableError(f"{path}: is not a regular file")
    with open(path, "rb") as file:
        try:
            return _contents(path, _unpacked(file))
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise TableError(f"{path}: is damaged: gzip cannot unpack it") from None


def _unpacked(file: io.BufferedReader) -> io.BufferedReader:
    start = file.read(2)
    file.seek(0)
    if start != _GZIP:
        return file
    return io.BufferedReader(gzip.GzipFile(fileobj=file))


def _contents(path: Path, file: io.BufferedReader) -> Table | SparseRows:
    start = file.peek(4)[:4]
    if start == _PARQUET:
        from squaresvm.readers.parquet import read_parquet

        return read_parquet(path, file)
    lines = _text_lines(path, file)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        raise TableError(f"{path}: is empty")
    every = _again(first, lines)
    if _LIBSVM_LINE.fullmatch(first[1].rstrip("\r\n")):
        return read_libsvm(path, every)
    return read_separated(path, every)


def _again(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _text_lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield numbered lines of text."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise TableError(f"{path}, line {number}: is longer than {LONGEST_LINE >> 20} MB")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise TableError(f"{path}, line {number}: is not text in UTF-8") from None
        if "\0" in text:
            raise TableError(f"{path}, line {number}: is not text: it holds a zero byte")
        yield number, text
