"""Parquet files, by PyArrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from squaresvm.readers.origin import MISSING, Place, TableError, is_packed, is_standard_input, opened
from squaresvm.runtime.extras import install_line

__all__ = ["ParquetBatch", "ParquetReader", "cells_of", "is_number", "is_text", "require_pyarrow"]

#: Whole numbers of a smaller size are exact in float64.
_EXACT = 2**53


def require_pyarrow() -> Any:
    """Return PyArrow with its Parquet reader."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"Parquet files need PyArrow: {install_line('dask')}") from None
    return pyarrow


@dataclass(frozen=True, eq=False)
class ParquetBatch:
    """Some consecutive rows of a file.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    place : Place
        Rows of the file, counted from 0.
    """

    batch: Any
    place: Place

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.batch.num_rows)

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers; a TableError where a value is missing."""
        column, pa = self._column(name), require_pyarrow()
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values

    def labels(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers or strings; a TableError where a value is missing."""
        if is_number(self.batch.schema.field(name).type):
            return self.numbers(name)
        column, pa = self._column(name), require_pyarrow()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        # One string object a class, not one a row.
        names = np.array(column.dictionary.to_pylist(), dtype=np.str_)
        labels: npt.NDArray[Any] = names[column.indices.to_numpy()]
        return labels

    def _column(self, name: str) -> Any:
        column = self.batch.column(self.batch.schema.get_field_index(name))
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise TableError(f"{self.place.row(row)}: {name!r} is missing; every value must be given")
        return column


class ParquetReader:
    """A file whose rows are read batch by batch; `open` makes one.

    Parameters
    ----------
    path : Path
    file : pyarrow.parquet.ParquetFile
    """

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self._file = path, file

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[ParquetReader]:
        """Open a file; one that gzip packed is unpacked in memory.

        Parameters
        ----------
        path : Path

        Raises
        ------
        TableError
            If it is no Parquet file.
        """
        pa = require_pyarrow()
        try:
            # Without this, whole row groups are read before their first batch.
            file = pa.parquet.ParquetFile(_contents(path), pre_buffer=False, buffer_size=2**20)
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no file {path} any more") from None
        except TableError:
            raise
        except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
            if path.stat().st_size == 0:
                raise TableError(f"{path}: is empty") from None
            raise TableError(f"{path}: is not a Parquet file that can be read: {_reason(error)}") from None
        with file:
            yield cls(path, file)

    @property
    def schema(self) -> Any:
        """Names and types of the columns, in Arrow's terms."""
        return self._file.schema_arrow

    @property
    def rows(self) -> int:
        """Number of rows, from the file's own footer."""
        return int(self._file.metadata.num_rows)

    def batches(self, columns: list[str], size: int) -> Iterator[ParquetBatch]:
        """Yield rows, `size` at a time, of the columns that are named.

        Raises
        ------
        TableError
            If the file is damaged.
        """
        pa = require_pyarrow()
        first = 0
        try:
            for batch in self._file.iter_batches(batch_size=size, columns=columns, use_threads=True):
                yield ParquetBatch(batch, Place(str(self.path), first, batch.num_rows))
                first += batch.num_rows
        except (pa.ArrowException, OSError, MemoryError, OverflowError) as error:
            where = f"{self.path}, at or after row {first}"
            raise TableError(f"{where}: the file is damaged: {_reason(error)}") from None


def _contents(path: Path) -> Any:
    """Return what PyArrow can read: the path, or the bytes of a file that gzip packed."""
    with opened(path) as file:
        whole = is_packed(file) or is_standard_input(path)
        return require_pyarrow().BufferReader(file.read()) if whole else path


def _reason(error: BaseException) -> str:
    return (str(error).splitlines() or ["no reason given"])[0][:120]


def is_number(kind: Any) -> bool:
    """Return whether a type of Arrow's is one of numbers or flags."""
    types = require_pyarrow().types
    known = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(is_kind(kind) for is_kind in known)


def is_text(kind: Any) -> bool:
    """Return whether a type of Arrow's is one of strings, in a dictionary or not."""
    types = require_pyarrow().types
    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def cells_of(path: Path, name: str, column: Any) -> npt.NDArray[Any]:
    """Return a column as the cells of a table: float64 or strings, NaN or "" where a value is missing.

    Whole numbers that float64 cannot hold exactly become strings of their digits, as CSV has them: a table
    must not take two ids or labels for one.

    Parameters
    ----------
    path : Path
    name : str
        Of the column.
    column : pyarrow.ChunkedArray
    """
    types, pa = require_pyarrow().types, require_pyarrow()
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if types.is_null(column.type):
        return np.full(len(column), np.nan)
    if is_number(column.type):
        numbers = np.array(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        is_float = types.is_floating(column.type)
        if is_float or not np.any(np.abs(numbers) >= _EXACT):
            return numbers
        return _objects([_digits(value) for value in column.to_pylist()])
    if types.is_date(column.type) or types.is_timestamp(column.type):
        column = column.cast(pa.string())
    if not is_text(column.type):
        raise TableError(
            f"{path}: column {name!r} is of type {column.type}; numbers, flags, dates and text can be used"
        )
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        raise TableError(f"{path}: column {name!r} holds text that is not UTF-8") from None
    texts = ((value or "").strip() for value in values)
    return _objects(["" if text in MISSING else text for text in texts])


def _digits(value: int | Decimal | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else format(value, "f")


def _objects(cells: list[str]) -> npt.NDArray[Any]:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array
