"""Sources of blocks: rows in memory, on disk or on a cluster, reached by one interface."""

from __future__ import annotations

import sys
from typing import Any

from squaresvm.streaming.arrays import ArraySource, MappedSource
from squaresvm.streaming.dask_source import DaskSource
from squaresvm.streaming.file_sources import LibsvmSource, ParquetSource
from squaresvm.streaming.iterables import BlockSource
from squaresvm.streaming.remaining import RemainingSource
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
            raise ValueError("a source has its own y and weights: give none beside it")
        return X
    if y is None:
        raise ValueError("y is missing: rows that are not a source need it")
    dask_array = sys.modules.get("dask.array")
    if dask_array is not None and isinstance(X, dask_array.Array):
        return DaskSource(X, y, sample_weight)
    return ArraySource(X, y, sample_weight)
