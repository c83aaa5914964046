"""LIBSVM text: ``label index:value index:value ...``, indices from 1, rising."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.readers.table import SparseRows, TableError
from squaresvm.typing import FloatArray

__all__ = ["read_libsvm"]

_LARGEST_INDEX = 2**31 - 2


def read_libsvm(path: Path, lines: Iterable[tuple[int, str]]) -> SparseRows:
    """Return the rows of numbered lines; text behind ``#`` is not read.

    Parameters
    ----------
    path : Path
        For messages.
    lines : iterable of (int, str)

    Returns
    -------
    SparseRows
    """
    labels, data = array("d"), array("d")
    indices, indptr = array("q"), array("q", [0])
    for number, line in lines:
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        labels.append(_number(path, number, fields[0], "the label"))
        previous = 0
        for field in fields[1:]:
            previous = _entry(path, number, field, previous, indices, data)
        indptr.append(len(indices))
    if not labels:
        raise TableError(f"{path}: holds no rows")
    columns = np.frombuffer(indices, dtype=np.int64).copy() if indices else np.empty(0, dtype=np.int64)
    n = int(columns.max()) + 1 if columns.size else 1
    values = np.frombuffer(data).copy() if data else np.empty(0)
    X = sp.csr_matrix((values, columns, np.frombuffer(indptr, dtype=np.int64)), shape=(len(labels), n))
    return SparseRows(path, X, _labels(np.frombuffer(labels).copy()))


def _entry(
    path: Path, number: int, field: str, previous: int, indices: array[int], data: array[float]
) -> int:
    """Append index and value of one entry; return the index."""
    index, colon, value = field.partition(":")
    if not colon or not index.isascii() or not index.isdigit():
        raise TableError(f"{path}, line {number}: {_quoted(field)} is not index:value")
    position = int(index) if len(index) < 12 else _LARGEST_INDEX + 1
    if not 1 <= position <= _LARGEST_INDEX:
        raise TableError(f"{path}, line {number}: index {_quoted(index)} is not from 1 to {_LARGEST_INDEX}")
    if position <= previous:
        raise TableError(f"{path}, line {number}: index {position} does not come after {previous}")
    indices.append(position - 1)
    data.append(_number(path, number, value, f"the value of index {position}"))
    return position


def _number(path: Path, number: int, text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise TableError(f"{path}, line {number}: {what} is {_quoted(text)}, not a number") from None
    if value - value != 0.0:
        raise TableError(f"{path}, line {number}: {what} is {_quoted(text)}, which is not finite")
    return value


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


def _labels(values: FloatArray) -> np.ndarray[Any, Any]:
    whole = np.all(values == np.round(values)) and np.abs(values).max() < 2**53
    return values.astype(np.int64) if whole else values
