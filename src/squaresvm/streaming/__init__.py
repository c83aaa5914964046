"""Sources of blocks: rows in memory, on disk or on a cluster, reached by one interface."""

from __future__ import annotations

from squaresvm.streaming.arrays import ArraySource
from squaresvm.streaming.convert import as_source
from squaresvm.streaming.dask_source import DaskSource
from squaresvm.streaming.iterables import BlockSource
from squaresvm.streaming.libsvm import LibsvmSource
from squaresvm.streaming.mapped import MappedSource
from squaresvm.streaming.parquet import ParquetSource
from squaresvm.streaming.source import Block, Source, is_source

__all__ = [
    "ArraySource",
    "Block",
    "BlockSource",
    "DaskSource",
    "LibsvmSource",
    "MappedSource",
    "ParquetSource",
    "Source",
    "as_source",
    "is_source",
]
