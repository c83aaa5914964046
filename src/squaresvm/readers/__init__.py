"""Readers of LIBSVM text, CSV and Parquet, plain or compressed with gzip: one a format, block by block.

`read` makes a table of all blocks, for the command line; the sources of `squaresvm.streaming` hand them on.
"""

from __future__ import annotations

from squaresvm.readers.origin import Place, TableError
from squaresvm.readers.table import Column, SparseRows, Table, kind_of, read

__all__ = ["Column", "Place", "SparseRows", "Table", "TableError", "kind_of", "read"]
