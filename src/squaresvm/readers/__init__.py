"""Tables of rows in files: LIBSVM text, CSV and Parquet, plain or compressed with gzip."""

from __future__ import annotations

from squaresvm.readers.formats import read
from squaresvm.readers.table import Column, SparseRows, Table, TableError

__all__ = ["Column", "SparseRows", "Table", "TableError", "read"]
