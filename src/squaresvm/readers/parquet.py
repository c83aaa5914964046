"""Parquet files, by PyArrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from squaresvm.readers.table import MISSING, Column, Table, TableError

__all__ = ["read_parquet"]


def read_parquet(path: Path, file: BinaryIO) -> Table:
    """Return the table of a Parquet file: numbers and flags as numbers, text and dictionaries as text.

    Parameters
    ----------
    path : Path
        For messages.
    file : binary file
        Read whole.

    Returns
    -------
    Table
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise TableError(f"{path}: Parquet needs pyarrow: pip install 'squaresvm[cli]'") from None
    try:
        table = pq.read_table(pa.BufferReader(file.read()))
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        reason = (str(error).splitlines() or ["no reason given"])[0][:120]
        raise TableError(f"{path}: is not a Parquet file that can be read: {reason}") from None
    if len(set(table.column_names)) != table.num_columns:
        raise TableError(f"{path}: two columns have the same name")
    if table.num_columns < 2:
        raise TableError(f"{path}: has fewer than two columns: a table needs a label and a feature")
    if table.num_rows == 0:
        raise TableError(f"{path}: holds a header and no rows")
    columns = {name: Column(name, _cells(path, name, table.column(name))) for name in table.column_names}
    return Table(path, columns, range(1, table.num_rows + 1), unit="row")


def _cells(path: Path, name: str, column: Any) -> np.ndarray[Any, Any]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
        kind = pa.int8()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = column.cast(pa.float64(), safe=False).to_numpy()
        return np.array(numbers, dtype=np.float64)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise TableError(f"{path}: column {name!r} is of type {kind}; numbers, flags and text can be used")
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        raise TableError(f"{path}: column {name!r} holds what is no text in UTF-8") from None
    cells = np.empty(len(column), dtype=object)
    texts = ((value or "").strip() for value in values)
    cells[:] = ["" if text in MISSING else text for text in texts]
    return cells
