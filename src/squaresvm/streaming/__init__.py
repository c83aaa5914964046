"""Sources of blocks: rows in memory, on disk or on a cluster, reached by one interface."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm.readers import Table, kind_of, read
from squaresvm.streaming.arrays import ArraySource, MappedSource, RemainingSource
from squaresvm.streaming.dask_source import DaskSource
from squaresvm.streaming.file_sources import LibsvmSource, ParquetSource
from squaresvm.streaming.iterables import BlockSource
from squaresvm.streaming.source import Block, Source, is_source

__all__ = [
    "ArraySource",
    "Block",
    "BlockSource",
    "DaskSource",
    "LibsvmSource",
    "MappedSource",
    "ParquetSource",
    "RemainingSource",
    "Source",
    "as_source",
    "file_source",
    "is_source",
]


def as_source(X: Any, y: Any = None, sample_weight: Any = None) -> Source:
    """Return rows as a source: a source as it is, Dask arrays as a `DaskSource`, others as an `ArraySource`.

    Parameters
    ----------
    X : Source, dask array, array-like or sparse matrix
        Rows.
    y, sample_weight : array-like or dask array, optional
        Labels or values, and weights; a source has its own.

    Returns
    -------
    Source

    Examples
    --------
    >>> from squaresvm.streaming import as_source
    >>> as_source([[1.0, 2.0], [3.0, 4.0]], [1, -1]).n_rows
    2
    """
    if is_source(X):
        if y is not None or sample_weight is not None:
            raise ValueError("a source has its own y and weights: give the source alone")
        return X
    if y is None:
        raise ValueError("y is missing: only a source brings its own")
    dask_array = sys.modules.get("dask.array")
    if dask_array is not None and isinstance(X, dask_array.Array):
        return DaskSource(X, y, sample_weight)
    return ArraySource(X, y, sample_weight)


def file_source(
    path: str | os.PathLike[str],
    n_features: int,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    *,
    is_number: bool = True,
) -> Source:
    r"""Return a file of rows as a source: LIBSVM text, CSV, Parquet, or a folder of Parquet files.

    Parameters
    ----------
    path : path-like
    n_features : int
        Columns at least: the last ones may be zero in all rows of LIBSVM text.
    columns : sequence of str, optional
        Names of the columns of a table, in their order; all but the label where they are not given.
    label : str, optional
        Column of the labels of a table; 'label' if not given.
    is_number : bool, default=True
        Whether labels of CSV are numbers, or texts.

    Returns
    -------
    Source
        Of blocks that are read again at each pass; CSV is read once.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from squaresvm.streaming import file_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "small.csv")
    ...     _ = path.write_text("a,b,label\n0.5,2,1\n1,0,-1\n")
    ...     file_source(path, 2).n_rows
    2
    """
    path = Path(path)
    kind = "parquet" if path.is_dir() else kind_of(path)
    if kind == "parquet":
        return ParquetSource(path, label=label or "label", columns=columns)
    if kind != "csv":
        if label is not None:
            raise ValueError(f"{path}: is LIBSVM text, which has no column {label!r}")
        return LibsvmSource(path, n_features=max(LibsvmSource(path).n_features, n_features))
    table, label = read(path), label or "label"
    assert isinstance(table, Table)
    names = columns or [name for name in table.columns if name != label]
    X = np.column_stack([table.finite_numbers(table.column(name, "column")) for name in names])
    column = table.column(label, "label column")
    if column.missing.any():
        row = int(np.flatnonzero(column.missing)[0])
        raise table.error(row, f"the label column {label!r} holds no value")
    return ArraySource(X, table.finite_numbers(column) if is_number else np.array(column.texts(), np.str_))
