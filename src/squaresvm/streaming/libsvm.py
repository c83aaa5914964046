"""LIBSVM text, plain or compressed by gzip."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse as sp

from squaresvm.runtime.threads import read_ahead
from squaresvm.streaming.block_reader import Piece, ReadSource
from squaresvm.streaming.checks import check_count
from squaresvm.streaming.source import Place
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["LibsvmSource"]

#: Text that is read at a time; as sparse rows it takes about as much.
_TEXT_BYTES = 8 * 2**20
_LONGEST_LINE = 2**28
_LARGEST_INDEX = np.iinfo(np.int32).max - 1


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
        self._features = None if n_features is None else check_count(n_features, "n_features")
        self._base = None if zero_based == "auto" else int(not zero_based)
        self._block_rows = None if block_rows is None else check_count(block_rows, "block_rows")

    @property
    def _name(self) -> str:
        return str(self._path)

    def _look(self) -> None:
        """Pass over the file once: rows, features, and whether they are counted from 0."""
        spans: list[_Span] = []
        everything = (partial(_span, piece) for piece in self._texts(0, _LARGEST_INDEX))
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

    def _texts(self, low: int, high: int) -> Iterator[_Text]:
        """Cut the file into whole lines, some rows each."""
        from squaresvm.streaming._libsvm_loops import cut_rows

        most = np.iinfo(np.int64).max if self._block_rows is None else self._block_rows
        line, held = 1, b""
        with _opened(self._path) as file:
            while True:
                # Twice as much each time that no block was complete: long lines are not scanned too often.
                more = _read(file, self._path, max(_TEXT_BYTES, len(held)))
                held += more
                end = held.rfind(b"\n") + 1 if more else len(held)
                if not end and len(held) > _LONGEST_LINE:
                    raise ValueError(f"{self._path}, line {line}: too long to be a line of LIBSVM text")
                text, start = np.frombuffer(held, dtype=np.uint8, count=end), 0
                while start < end:
                    rows, lines, size = cut_rows(text[start:], most)
                    if rows < most and more and self._block_rows is not None:
                        break
                    place = Place(str(self._path), line, lines, "line")
                    yield _Text(held[start : start + size], rows, place, low, high)
                    start, line = start + size, line + lines
                held = held[start:]
                if not more:
                    return


@dataclass(frozen=True, eq=False)
class _Text:
    """Whole lines of a file, and the indices that may stand in them."""

    text: bytes
    rows: int
    place: Place
    low: int
    high: int


@dataclass(frozen=True)
class _Span:
    """How many rows there are, and between which indices."""

    rows: int
    low: int
    high: int


def _opened(path: Path) -> Any:
    """Open a file that is compressed or not, which its first bytes tell."""
    with path.open("rb") as file:
        start = file.read(2)
    if not start:
        raise ValueError(f"{path} is empty")
    return gzip.open(path, "rb") if start == b"\x1f\x8b" else path.open("rb")


def _read(file: IO[bytes], path: Path, size: int) -> bytes:
    try:
        return file.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged or cut off: {error}") from error


def _span(text: _Text) -> _Span:
    indices = _parsed(text)[0].indices
    if not indices.size:
        return _Span(text.rows, _LARGEST_INDEX, -1)
    return _Span(text.rows, int(indices.min()), int(indices.max()))


def _decode(text: _Text, base: int, features: int) -> tuple[Matrix, FloatArray, None]:
    X, labels = _parsed(text)
    X = sp.csr_matrix((X.data, X.indices - np.int32(base), X.indptr), shape=(text.rows, features))
    X.has_canonical_format = True  # The parser refuses indices that do not increase.
    return X, labels, None


def _parsed(text: _Text) -> tuple[Any, FloatArray]:
    """Return sparse rows with the indices of the text, and the labels."""
    from squaresvm.streaming._libsvm_loops import FINE, parse_rows

    most = text.text.count(b":")
    labels, values = np.empty(text.rows), np.empty(most)
    indptr, indices = np.empty(text.rows + 1, np.int32), np.empty(most, np.int32)
    hard = np.empty((most + text.rows, 3), np.int64)  # Pages that are not written to take no memory.
    buffer = np.frombuffer(text.text, dtype=np.uint8)
    error, line, start, stop, n_hard = parse_rows(
        buffer, text.low, text.high, labels, indptr, indices, values, hard
    )
    if error != FINE:
        raise ValueError(f"{text.place.row(line)}: {_complaint(error, text, start, stop)}")
    _read_hard_numbers(text, hard[:n_hard], labels, values)
    entries = int(indptr[-1])
    # Wide enough for any index that may stand there: the caller knows the features.
    shape = (text.rows, _LARGEST_INDEX + 1)
    return sp.csr_matrix((values[:entries], indices[:entries], indptr), shape=shape), labels


def _read_hard_numbers(text: _Text, hard: IntArray, labels: FloatArray, values: FloatArray) -> None:
    """Read those numbers that the compiled parser cannot be certain of."""
    numbers = np.array([float(text.text[start:stop]) for _, start, stop in hard.tolist()])
    infinite = np.flatnonzero(~np.isfinite(numbers))
    if infinite.size:
        _, start, stop = hard[infinite[0]].tolist()
        line = text.text.count(b"\n", 0, start)
        raise ValueError(f"{text.place.row(line)}: {_shown(text, start, stop)} is too large")
    is_label = hard[:, 0] < 0
    labels[-1 - hard[is_label, 0]] = numbers[is_label]
    values[hard[~is_label, 0]] = numbers[~is_label]


def _complaint(error: int, text: _Text, start: int, stop: int) -> str:
    from squaresvm.streaming import _libsvm_loops as codes

    token = _shown(text, start, stop)
    return {
        codes.NO_LABEL: f"the label is missing before {token}",
        codes.BAD_LABEL: f"the label {token} is not a number",
        codes.BAD_INDEX: f"{token} is not index:value with a whole number as index",
        codes.BAD_VALUE: f"the value of {token} is not a finite number",
        codes.NOT_INCREASING: f"the index of {token} is not larger than the one before it",
        codes.BELOW: f"the index of {token} is 0, but indices count from 1 (zero_based=False)",
        codes.ABOVE: f"the index of {token} is beyond the largest, {text.high}",
    }[error]


def _shown(text: _Text, start: int, stop: int) -> str:
    """Return a token for a message, short and printable."""
    token = text.text[start : min(stop, start + 40)].decode("utf-8", "backslashreplace")
    return repr(token)
