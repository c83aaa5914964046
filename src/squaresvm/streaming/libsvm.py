"""LIBSVM text as a source of blocks."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from squaresvm.readers.libsvm import LARGEST_INDEX, LibsvmText, libsvm_texts
from squaresvm.runtime.arguments import check_integer
from squaresvm.runtime.resources import read_ahead
from squaresvm.streaming.block_reader import Piece, ReadSource
from squaresvm.typing import FloatArray, Matrix

__all__ = ["LibsvmSource"]


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
            yield Piece(text.rows, text.place, partial(_decode, text, base, self._features))

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


def _decode(text: LibsvmText, base: int, features: int) -> tuple[Matrix, FloatArray, None]:
    X, labels = text.parse()
    X = sp.csr_matrix((X.data, X.indices - np.int32(base), X.indptr), shape=(text.rows, features))
    X.has_canonical_format = True  # The reader refuses indices that do not increase.
    return X, labels, None
