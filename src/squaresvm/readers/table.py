"""Whole tables in memory: columns with names, or sparse rows without."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from squaresvm.readers.notation import PLAIN, Notation
from squaresvm.readers.origin import TableError, opened
from squaresvm.readers.text import csv_blocks, holds_libsvm, libsvm_texts
from squaresvm.runtime.extras import install_line
from squaresvm.runtime.resources import read_ahead
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["LARGEST_COLUMN", "Column", "SparseRows", "Table", "kind_of", "read"]

#: Index of LIBSVM text up to which rows are taken into memory: a vector of so many numbers takes 512 MB.
LARGEST_COLUMN = 2**26
#: Characters of a cell that a message quotes.
_QUOTED = 40
#: Rows of Parquet that are read at a time.
_BATCH_ROWS = 65_536
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of a LIBSVM file.

    Parameters
    ----------
    path : Path
    X : CSR matrix of shape (m, n)
    y : ndarray of shape (m,)
        Labels, integers where all are whole.
    """

    path: Path
    X: Matrix
    y: np.ndarray[Any, Any]

    def without_gaps(self, known: int) -> SparseRows:
        """Return the rows without empty columns behind those that a model knows.

        The rows of the model are zero there too, so that no product or distance changes; and one large index
        does not make the model as wide.
        """
        is_new = self.X.indices >= known
        if not is_new.any():
            return self
        used, places = np.unique(self.X.indices[is_new], return_inverse=True)
        indices = self.X.indices.copy()
        indices[is_new] = known + places
        return self._with(indices, known + used.size)

    def widened(self, width: int) -> SparseRows:
        """Return the rows with at least so many columns."""
        return self if self.X.shape[1] >= width else self._with(self.X.indices, width)

    def _with(self, indices: IntArray, width: int) -> SparseRows:
        X = sp.csr_matrix((self.X.data, indices, self.X.indptr), shape=(self.X.shape[0], width))
        return replace(self, X=X)


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it was read.

    Parameters
    ----------
    name : str
    cells : ndarray of shape (m,)
        float64 with NaN where a value is missing, or objects: strings, "" where one is missing. Whole numbers
        that float64 does not hold exactly are strings.
    """

    name: str
    cells: np.ndarray[Any, Any]

    @property
    def is_text(self) -> bool:
        """Whether the cells are strings, which may still all be numbers."""
        return self.cells.dtype == object

    @property
    def missing(self) -> BoolArray:
        """Where no value is."""
        return self.cells == "" if self.is_text else np.isnan(self.cells)

    def texts(self) -> list[str]:
        """Return the cells as strings, whole numbers without a point."""
        if self.is_text:
            return list(self.cells)
        return ["" if value != value else _plain(value) for value in self.cells.tolist()]

    def numbers(self, notation: Notation = PLAIN) -> FloatArray | None:
        """Return the cells as numbers with NaN where one is missing; None where a cell is no number."""
        if not self.is_text:
            return self.cells
        if notation != PLAIN:
            return notation.numbers(self.cells.tolist())
        if any("_" in cell for cell in self.cells):  # Python reads 1_0 as 10.
            return None
        try:
            return np.array([cell or "nan" for cell in self.cells], dtype=np.float64)
        except ValueError:
            return None

    def integers(self) -> IntArray | None:
        """Return the cells as whole numbers, exactly; None where one is none, or beyond 64 bits."""
        if not self.is_text:
            is_whole = np.all(self.cells == np.round(self.cells)) and np.all(np.abs(self.cells) < 2**53)
            return self.cells.astype(np.int64) if is_whole else None
        values = [_whole(cell) for cell in self.cells]
        if any(value is None or not _INT64.min <= value <= _INT64.max for value in values):
            return None
        return np.array(values, dtype=np.int64)

    def first_text(self, notation: Notation = PLAIN) -> int | None:
        """Return where the first cell that is no number stands; None where all are."""
        for row, cell in enumerate(self.cells):
            if cell and notation.number(cell) is None:
                return row
        return None

    def odd_one_out(self) -> int | None:
        """Return where the first cell stands that is no number; None where all are, or too few others.

        One plain number is enough; numbers with a decimal comma have to be more than half of the cells.
        """
        if any(cell and PLAIN.number(cell) is not None for cell in self.cells):
            return self.first_text()
        texts = self.texts()
        with_comma = [_DECIMAL_COMMA.fullmatch(text) is not None for text in texts]
        if 2 * sum(with_comma) <= len(texts):
            return None
        return next((i for i, text in enumerate(texts) if text and not with_comma[i]), None)

    def quoted(self, row: int) -> str:
        """Return a cell for a message."""
        text = str(self.cells[row])
        return repr(text if len(text) <= _QUOTED else text[:_QUOTED] + "...")


def _whole(text: str) -> int | None:
    """Return the whole number that a text stands for: 7, +7, 7.0 and 7e0 are one."""
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) <= 20 else None
    value = PLAIN.number(text)
    return int(value) if value is not None and abs(value) < 2**53 and value == int(value) else None


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    Parameters
    ----------
    path : Path
    columns : dict of Column
        By name, in the order of the file.
    lines : sequence of int
        Where each row starts in the file.
    unit : str, default='line'
        What `lines` counts.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from squaresvm.readers import Column, Table
    >>> column = Column("age", np.array(["41", "", "x"], dtype=object))
    >>> table = Table(Path("people.csv"), {"age": column}, [2, 3, 4])
    >>> print(table.error(2, "'x' is not a number"))
    people.csv, line 4: 'x' is not a number
    """

    path: Path
    columns: dict[str, Column]
    lines: Sequence[int]
    unit: str = "line"

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.lines)

    def frame(self, names: Sequence[str]) -> Any:
        """Return some columns as a data frame: numbers where all cells are, else text."""
        try:
            import pandas
        except ImportError:
            raise TableError(
                f"{self.path}: tables reach a pipeline as data frames of pandas: {install_line('pipelines')}"
            ) from None
        cells: dict[str, Any] = {}
        for name in names:
            column = self.column(name)
            numbers = column.numbers()
            if numbers is None:
                pairs = zip(column.texts(), column.missing.tolist(), strict=True)
                cells[name] = [None if is_missing else text for text, is_missing in pairs]
            else:
                cells[name] = np.where(column.missing, np.nan, numbers)
        return pandas.DataFrame(cells)

    def error(self, row: int, what: str) -> TableError:
        """Return an error that says where."""
        return TableError(f"{self.path}, {self.unit} {self.lines[row]}: {what}")

    def column(self, name: str, purpose: str = "column") -> Column:
        """Return a column; a TableError where there is none of the name."""
        try:
            return self.columns[name]
        except KeyError:
            known = ", ".join(list(self.columns)[:8]) + (", ..." if len(self.columns) > 8 else "")
            raise TableError(f"{self.path}: there is no {purpose} {name!r}; there are {known}") from None

    def only(self, kept: BoolArray) -> Table:
        """Return some of the rows."""
        lines = [line for line, stays in zip(self.lines, kept.tolist(), strict=True) if stays]
        columns = {name: Column(name, column.cells[kept]) for name, column in self.columns.items()}
        return replace(self, columns=columns, lines=lines)

    def finite_numbers(self, column: Column, notation: Notation = PLAIN) -> FloatArray:
        """Return the cells of a column as finite numbers, NaN where one is missing."""
        numbers = column.numbers(notation)
        if numbers is None:
            row = column.first_text(notation)
            assert row is not None
            what = "not a date" if notation.date else "not a number"
            way = f" ({notation})" if str(notation) else ""
            raise self.error(row, f"column {column.name!r} holds {column.quoted(row)}, which is {what}{way}")
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0])
            raise self.error(row, f"column {column.name!r} holds {column.quoted(row)}, which is not finite")
        return numbers


# Reading -----------------------------------------------------------------------------------------------


def kind_of(path: str | os.PathLike[str]) -> str:
    """Return what a file holds by its contents: 'parquet', 'libsvm', or 'csv' where it is neither."""
    with opened(Path(path)) as file:
        if file.peek(4)[:4] == b"PAR1":
            return "parquet"
        return "libsvm" if holds_libsvm(file) else "csv"


def read(
    path: str | os.PathLike[str],
    *,
    header: bool | None = None,
    encoding: str | None = None,
    fewest: int = 2,
) -> Table | SparseRows:
    """Return the rows of a file; what kind it is of is told by its contents, not by its name.

    Parameters
    ----------
    path : path-like
        LIBSVM text (``label index:value ...``, indices up to 67,108,864), CSV with a line of names (commas,
        semicolons or tabs) or Parquet, plain or gzip. ``-`` is the standard input.
    header : bool, optional
        Whether CSV begins with a line of names. By default it does, and a first line that looks like a row is
        an error.
    encoding : str, optional
        Of CSV; UTF-8 by default.
    fewest : int, default=2
        Columns that a table must have: 1 where it needs no label.

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
    with opened(path) as file:
        if file.peek(4)[:4] == b"PAR1":
            return _parquet_table(path, fewest)
        text = file if encoding is None else _recoded(path, file, encoding)
        if holds_libsvm(text):
            return _sparse_rows(path)
        text.seek(0)
        return _csv_table(path, text, header, fewest)


def _recoded(path: Path, file: BinaryIO, encoding: str) -> BinaryIO:
    """Return a text of another encoding in UTF-8."""
    try:
        return io.BytesIO(file.read().decode(encoding).encode("utf-8"))
    except LookupError:
        raise TableError(f"{path}: there is no encoding {encoding!r}; cp1252 and latin-1 are two") from None
    except UnicodeError as error:
        raise TableError(f"{path}: is not text in {encoding}: {error}") from None


def _sparse_rows(path: Path) -> SparseRows:
    texts = libsvm_texts(path, low=1, high=LARGEST_COLUMN)
    with closing(read_ahead(text.parse for text in texts)) as parsed:
        parts = list(parsed)
    stacked = sp.vstack([X for X, _ in parts], format="csr")
    y = np.concatenate([labels for _, labels in parts])
    n = int(stacked.indices.max()) if stacked.indices.size else 1
    X = sp.csr_matrix((stacked.data, stacked.indices - 1, stacked.indptr), shape=(y.size, n))
    X.has_canonical_format = True  # The reader refuses indices that do not increase.
    return SparseRows(path, X, _labels(y))


def _labels(values: FloatArray) -> np.ndarray[Any, Any]:
    whole = np.all(values == np.round(values)) and np.abs(values).max() < 2**53
    return values.astype(np.int64) if whole else values


def _csv_table(path: Path, file: BinaryIO, header: bool | None, fewest: int) -> Table:
    blocks = list(csv_blocks(path, file, header=header, fewest=fewest))
    lines = [line for block in blocks for line in block.lines]
    if not lines:
        raise TableError(f"{path}: holds a header and no rows")
    columns = {}
    for name in list(blocks[0].columns):
        cells = np.empty(len(lines), dtype=object)
        cells[:] = [cell for block in blocks for cell in block.columns.pop(name)]
        columns[name] = Column(name, cells)
    return Table(path, columns, lines)


def _parquet_table(path: Path, fewest: int) -> Table:
    try:
        import pyarrow as pa

        from squaresvm.readers.parquet import ParquetReader, cells_of
    except ModuleNotFoundError:
        raise TableError(f"{path}: Parquet needs pyarrow: {install_line('cli')}") from None
    with ParquetReader.open(path) as reader:
        names = list(reader.schema.names)
        if len(set(names)) != len(names):
            raise TableError(f"{path}: two columns have the same name")
        if len(names) < fewest:
            raise TableError(f"{path}: has fewer than two columns: a table needs a label and a feature")
        if reader.rows == 0:
            raise TableError(f"{path}: holds a header and no rows")
        batches = [read.batch for read in reader.batches(names, _BATCH_ROWS)]
    table = pa.Table.from_batches(batches)
    columns = {name: Column(name, cells_of(path, name, table.column(name))) for name in names}
    return Table(path, columns, range(table.num_rows), unit="row")
