"""Files as sources of blocks: LIBSVM text, Parquet files and folders of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from squaresvm.readers.parquet import ParquetBatch, ParquetReader, is_number, is_text, require_pyarrow
from squaresvm.readers.text import LARGEST_INDEX, LibsvmText, libsvm_texts
from squaresvm.runtime.arguments import check_integer
from squaresvm.runtime.resources import read_ahead, thread_count
from squaresvm.streaming.iterables import FILE_BLOCK_BYTES, Piece, ReadSource
from squaresvm.streaming.source import rows_per_block
from squaresvm.typing import FloatArray, Matrix

__all__ = ["LibsvmSource", "ParquetSource", "SpareArrays"]


class LibsvmSource(ReadSource):
    r"""Blocks of a file of LIBSVM text (also called svmlight), plain or compressed by gzip.

    A line is `label index:value index:value ...` with indices that increase; `qid:...` after the label and
    comments after `#` are passed over. Rows are sparse. A line that is anything else is an error that
    names it.

    Parameters
    ----------
    path : str or path
        The file.
    n_features : int, optional
        Number of features; the largest index of the file where it is not given, which takes a pass.
    zero_based : bool or 'auto', default='auto'
        Whether the first feature has index 0; 'auto': where an index 0 occurs, which takes a pass.
    block_rows : int, optional
        Rows a block; as many as stand in about 8 MB of text where it is not given.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from squaresvm.streaming import LibsvmSource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "small.svm")
    ...     _ = path.write_text("+1 1:0.5 3:2 # a comment\n-1 2:1e-1\n")
    ...     source = LibsvmSource(path)
    ...     [(block.X.toarray().tolist(), block.y.tolist()) for block in source.map(lambda block: block)]
    [([[0.5, 0.0, 2.0], [0.0, 0.1, 0.0]], [1.0, -1.0])]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_features: int | None = None,
        zero_based: bool | Literal["auto"] = "auto",
        block_rows: int | None = None,
    ) -> None:
        self._path = Path(path)
        if not self._path.is_file():
            raise FileNotFoundError(f"there is no file {self._path}")
        if zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}")
        self._features = None if n_features is None else check_integer("n_features", n_features, 1)
        self._base = None if zero_based == "auto" else int(not zero_based)
        self._block_rows = None if block_rows is None else check_integer("block_rows", block_rows, 1)

    @property
    def _name(self) -> str:
        return str(self._path)

    def _look(self) -> None:
        """Pass over the file once: rows, features, and whether they are counted from 0."""
        spans: list[_Span] = []
        everything = (partial(_span, text) for text in self._texts(0, LARGEST_INDEX))
        with closing(read_ahead(everything)) as results:
            spans.extend(results)
        self._check_rows(sum(span.rows for span in spans))
        base = self._base
        if base is None:
            base = int(min(span.low for span in spans) > 0)
        if self._features is None:
            features = max(span.high for span in spans) + 1 - base
            if features < 1:
                raise ValueError(f"{self._path} has no features: give n_features")
            self._features = features
        self._base = base

    def _pieces(self) -> Generator[Piece, None, None]:
        if self._features is None or self._base is None:
            self._look()
        assert self._features is not None
        assert self._base is not None
        base = self._base
        for text in self._texts(base, self._features - 1 + base):
            yield Piece(text.rows, text.place, partial(_libsvm_rows, text, base, self._features))

    def _texts(self, low: int, high: int) -> Generator[LibsvmText, None, None]:
        return libsvm_texts(self._path, low=low, high=high, block_rows=self._block_rows)


@dataclass(frozen=True)
class _Span:
    """How many rows there are, and between which indices."""

    rows: int
    low: int
    high: int


def _span(text: LibsvmText) -> _Span:
    indices = text.parse()[0].indices
    if not indices.size:
        return _Span(text.rows, LARGEST_INDEX, -1)
    return _Span(text.rows, int(indices.min()), int(indices.max()))


def _libsvm_rows(text: LibsvmText, base: int, features: int) -> tuple[Matrix, FloatArray, None]:
    X, labels = text.parse()
    X = sp.csr_matrix((X.data, X.indices - np.int32(base), X.indptr), shape=(text.rows, features))
    X.has_canonical_format = True  # The reader refuses indices that do not increase.
    return X, labels, None


#: Rows that are put in order at a time, so that a column's part and the rows' part both stay in cache.
_TILE_ROWS = 2048


class ParquetSource(ReadSource):
    """Blocks of Parquet files, of which only the columns that are needed are read.

    Features are numbers or truth values; columns of strings, categories and dates are refused by name, and
    so are missing values. Labels may be strings. Needs PyArrow: `pip install 'squaresvm[dask]'`.

    Parameters
    ----------
    path : str, path or sequence of them
        A file, a folder (its `*.parquet` files, sorted, those in folders below it included), or files.
    label : str
        Name of the column of labels or values.
    weight : str, optional
        Name of the column of sample weights.
    columns : sequence of str, optional
        Names of the features, in the order in which they are wanted; all other columns of the first file
        where it is not given.
    block_rows : int, optional
        Rows a block; as many as make about 16 MB where it is not given.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from squaresvm.streaming import ParquetSource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pa.table({"age": [31, 47], "name": ["Ida", "Bo"], "sick": ["no", "yes"]})
    ...     pq.write_table(table, f"{folder}/people.parquet")
    ...     source = ParquetSource(folder, label="sick", columns=["age"])
    ...     labels = [block.y.tolist() for block in source.map(lambda block: block)]
    >>> source.n_rows, source.feature_names, labels
    (2, ('age',), [['no', 'yes']])
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        label: str,
        weight: str | None = None,
        columns: Sequence[str] | None = None,
        block_rows: int | None = None,
    ) -> None:
        require_pyarrow()
        self._paths = _files(path)
        self._label, self._weight = label, weight
        self._columns = None if columns is None else tuple(columns)
        self._block_rows = rows_per_block(block_rows, 1.0, 1) if block_rows is not None else None
        if isinstance(columns, str) or (self._columns is not None and not self._columns):
            raise ValueError(f"columns must be a sequence of names, got {columns!r}")

    @cached_property
    def _first_layout(self) -> _Layout:
        with ParquetReader.open(self._paths[0]) as reader:
            return self._layout(self._paths[0], reader.schema)

    def _layout(self, path: Path, schema: Any, features: Sequence[str] | None = None) -> _Layout:
        others = [name for name in (self._label, self._weight) if name is not None]
        if features is None:
            features = self._columns
        if features is None:
            features = [name for name in schema.names if name not in others]
        _check_columns(path, schema, features, self._label, self._weight)
        return _Layout(tuple(features), self._label, self._weight)

    @property
    def _name(self) -> str:
        more = f" and {len(self._paths) - 1} more files" if len(self._paths) > 1 else ""
        return f"{self._paths[0]}{more}"

    def _look(self) -> None:
        self._features = len(self._first_layout.features)

    @property
    def n_rows(self) -> int:
        """Number of rows, from the files' own footers."""
        if self._rows is None:
            self._rows = sum(_footer_rows(path) for path in self._paths)
        return self._rows

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that are features."""
        return self._first_layout.features

    def _pieces(self) -> Generator[Piece, None, None]:
        self._check_rows(self.n_rows)
        features = self.feature_names
        # As many as there are jobs at any time.
        spare = SpareArrays(thread_count() + 4)
        for path in self._paths:
            with ParquetReader.open(path) as reader:
                layout = self._layout(path, reader.schema, features)
                size = rows_per_block(self._block_rows, 8 * layout.width, FILE_BLOCK_BYTES)
                for batch in reader.batches(layout.columns, size):
                    yield Piece(batch.rows, batch.place, partial(_parquet_rows, batch, layout, spare))


@dataclass(frozen=True)
class _Layout:
    """Which columns are what."""

    features: tuple[str, ...]
    label: str
    weight: str | None

    @property
    def width(self) -> int:
        return len(self.columns)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([*self.features, self.label, *([self.weight] if self.weight else [])]))


def _files(path: Any) -> tuple[Path, ...]:
    """Return the files that a path, a folder or a list of paths means."""
    if not isinstance(path, str | os.PathLike):
        if not isinstance(path, Iterable) or not (given := list(path)):
            raise ValueError(f"path must be a file, a folder or a list of files, got {path!r}")
        return tuple(file for one in given for file in _files(one))
    root = Path(path)
    if root.is_dir():
        files = tuple(sorted(file for file in root.rglob("*.parquet") if not _is_hidden(file, root)))
        if not files:
            raise FileNotFoundError(f"there are no *.parquet files in {root}")
        return files
    if not root.is_file():
        raise FileNotFoundError(f"there is no file {root}")
    return (root,)


def _is_hidden(file: Path, root: Path) -> bool:
    """Return whether a file belongs to a writer that has not finished, by the custom of such writers."""
    return any(part.startswith(("_", ".")) for part in file.relative_to(root).parts)


def _footer_rows(path: Path) -> int:
    with ParquetReader.open(path) as reader:
        return reader.rows


def _check_columns(path: Path, schema: Any, features: Sequence[str], label: str, weight: str | None) -> None:
    """Refuse columns that are not there, that are there twice, or that are not numbers."""
    for name in [*features, label, *([weight] if weight else [])]:
        found = schema.get_all_field_indices(name)
        if len(found) != 1:
            raise ValueError(f"{path} has {'two columns' if found else 'no column'} {name!r}")
    if not features:
        raise ValueError(f"{path} has no column beside {label!r} that could be a feature")
    used_twice = {label, weight} & set(features) or ({label} & {weight})
    if used_twice or len(set(features)) < len(features):
        raise ValueError(f"{path}: a column can be a feature, the label or the weight, and only once")
    for name in [*features, *([weight] if weight else [])]:
        kind = schema.field(name).type
        if not is_number(kind):
            raise ValueError(
                f"{path}: column {name!r} is of type {kind}; features and weights must be numbers: leave it "
                "out of columns, or encode it first"
            )
    kind = schema.field(label).type
    if not (is_number(kind) or is_text(kind)):
        raise ValueError(f"{path}: the label {label!r} is of type {kind}; it must be numbers or strings")


def _parquet_rows(batch: ParquetBatch, layout: _Layout, spare: SpareArrays) -> tuple[Any, Any, Any]:
    columns = [batch.numbers(name) for name in layout.features]
    weights = None if layout.weight is None else batch.numbers(layout.weight)
    return _interleaved(columns, spare), batch.labels(layout.label), weights


def _interleaved(columns: list[npt.NDArray[Any]], spare: SpareArrays) -> npt.NDArray[Any]:
    """Return columns as rows, one row after the other in memory."""
    narrow = all(column.dtype.kind == "f" and column.dtype.itemsize <= 4 for column in columns)
    rows = columns[0].shape[0]
    X = spare.take(rows, len(columns), np.float32 if narrow else np.float64)
    for start in range(0, rows, _TILE_ROWS):
        stop = start + _TILE_ROWS
        for j, column in enumerate(columns):
            X[start:stop, j] = column[start:stop]
    return X


class SpareArrays:
    """Hands out arrays, and hands them out again once nobody refers to them any more.

    Parameters
    ----------
    at_most : int
        Arrays that are kept for another time.

    Examples
    --------
    >>> from squaresvm.streaming.file_sources import SpareArrays
    >>> spare = SpareArrays(2)
    >>> first = spare.take(4, 3, float)
    >>> where = first.ctypes.data
    >>> spare.take(4, 3, float).ctypes.data == where
    False
    >>> del first
    >>> spare.take(2, 3, float).ctypes.data == where
    True
    """

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._kept: list[npt.NDArray[Any]] = []
        self._lock = Lock()

    def take(self, rows: int, columns: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of this shape with whatever is in it."""
        kind = np.dtype(dtype)
        with self._lock:
            for array, references in _references(self._kept):
                fits = array.dtype == kind and array.shape[1] == columns and array.shape[0] >= rows
                if fits and references == _UNUSED:
                    return array[:rows]
            array = np.empty((rows, columns), dtype=kind)
            if len(self._kept) < self._at_most:
                self._kept.append(array)
            # A part of it, as above: whoever has the part, or a part of that, refers to the array.
            return array[:rows]


def _references(arrays: list[npt.NDArray[Any]]) -> list[tuple[npt.NDArray[Any], int]]:
    """Return each array with how many refer to it; the counting itself does, how often is Python's affair."""
    counts = [sys.getrefcount(array) for array in arrays]
    return list(zip(arrays, counts, strict=True))


#: What is counted for an array that only the list refers to.
_UNUSED = _references([np.empty((0, 0))])[0][1]
