"""What the readers return: columns with names, or sparse rows without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm.typing import BoolArray, FloatArray, Matrix

__all__ = ["MISSING", "Column", "SparseRows", "Table", "TableError"]

#: What stands for a value that is not there, in text.
MISSING = frozenset(["", "?", "NA", "N/A", "NaN", "nan", "null"])
#: Characters of a cell that a message quotes.
_QUOTED = 40


class TableError(ValueError):
    """A file whose rows cannot be used; the message is one line that names file and line.

    Examples
    --------
    >>> from squaresvm.readers import TableError
    >>> issubclass(TableError, ValueError)
    True
    """


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


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it was read.

    Parameters
    ----------
    name : str
    cells : ndarray of shape (m,)
        float64 with NaN where a value is missing, or objects: strings, "" where one is missing.
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

    def numbers(self) -> FloatArray | None:
        """Return the cells as numbers with NaN where one is missing; None where a cell is no number."""
        if not self.is_text:
            return self.cells
        try:
            return np.array([cell or "nan" for cell in self.cells], dtype=np.float64)
        except ValueError:
            return None

    def first_text(self) -> int | None:
        """Return where the first cell that is no number stands; None where all are."""
        for row, cell in enumerate(self.cells):
            if cell and _number(cell) is None:
                return row
        return None

    def has_numbers(self) -> bool:
        """Return whether any cell is a number."""
        return any(cell and _number(cell) is not None for cell in self.cells)

    def quoted(self, row: int) -> str:
        """Return a cell for a message."""
        text = str(self.cells[row])
        return repr(text if len(text) <= _QUOTED else text[:_QUOTED] + "...")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


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

    def finite_numbers(self, column: Column) -> FloatArray:
        """Return the cells of a column as finite numbers, NaN where one is missing."""
        numbers = column.numbers()
        if numbers is None:
            row = column.first_text()
            assert row is not None
            raise self.error(row, f"column {column.name!r} holds {column.quoted(row)}, which is not a number")
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0])
            raise self.error(row, f"column {column.name!r} holds {column.quoted(row)}, which is not finite")
        return numbers
