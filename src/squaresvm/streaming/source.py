"""What a source is, rows that are reached block by block, and the checks that every block passes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from squaresvm.readers import Place
from squaresvm.rows import canonical_csr
from squaresvm.runtime.arguments import check_integer
from squaresvm.typing import FloatArray, Matrix

__all__ = [
    "Block",
    "Source",
    "as_matrix",
    "as_weights",
    "checked_block",
    "float_type",
    "is_source",
    "named",
    "rows_per_block",
]


@contextmanager
def named(place: str) -> Iterator[None]:
    """Add the place to the message of any error that is raised inside; its type stays."""
    try:
        yield
    except Exception as error:
        if len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (f"{place}: {error.args[0]}",)
        else:
            error.add_note(f"This happened at {place}.")
        raise


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive rows of a source, checked; never empty.

    Parameters
    ----------
    X : array or CSR matrix of shape (rows, n_features)
        Features, float64 or float32, finite: a C-contiguous array, or sparse rows in canonical form.
    y : ndarray of shape (rows,), or (rows, k) of k values
        Labels or values as they came, numbers or strings, none missing.
    weights : ndarray of shape (rows,) or None
        Sample weights, finite and not negative; None: all one.
    first : int
        Number of the block's first row in the source, counted from 0.
    place : str
        Where the rows come from, for messages: "train.parquet, rows 4096 to 8191".
    """

    X: Matrix
    y: npt.NDArray[Any]
    weights: FloatArray | None
    first: int
    place: str

    @property
    def row_weights(self) -> FloatArray:
        """The weight of each row: 1 where there are none."""
        return np.broadcast_to(1.0, self.rows) if self.weights is None else self.weights

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])


class Source(Protocol):
    """Rows that are reached block by block, as often as passes are made."""

    @property
    def n_features(self) -> int:
        """Number of features; may read the first block to find out."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where only a pass can tell and none was made."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, where they have names."""

    def map(self, task: Callable[[Block], T]) -> Iterator[T]:
        """Make a pass: yield `task(block)` for every block, in the order of the blocks.

        Tasks run on threads, or on the workers of a cluster, which `task` must be able to reach by pickle.
        An iterator that is closed early ends its threads.
        """


def is_source(value: object) -> TypeGuard[Source]:
    """Return whether a value is a source, without asking it for anything that would make it read."""
    names = ("n_features", "n_rows", "feature_names", "map")
    return all(inspect.getattr_static(type(value), name, None) is not None for name in names)


#: Fewer rows a block would make products with many features slow, whatever bytes they take.
_FEWEST_ROWS = 256


def checked_block(
    X: Any,
    y: Any,
    weights: Any,
    *,
    first: int,
    place: Place,
    n_features: int,
    names: Sequence[str] | None = None,
) -> Block:
    """Return a block of these rows, or raise a ValueError that says where they are wrong."""
    X = as_matrix(X, place)
    if X.shape[1] != n_features:
        raise ValueError(f"{place}: {_features(X.shape[1])} where {n_features} were expected")
    _check_finite(X, place, names)
    labels = _checked_labels(y, X.shape[0], place)
    kept = None if weights is None else as_weights(weights, X.shape[0], place)
    return Block(X, labels, kept, first, str(place))


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which values of another are kept: float32 only where nothing is lost."""
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)


def as_matrix(X: Any, place: Place) -> Matrix:
    """Return rows as a C-contiguous array or canonical CSR matrix of floats, as they are where they fit."""
    if sp.issparse(X):
        X = X if isinstance(X, sp.csr_matrix) else sp.csr_matrix(X)
        _check_kind(X.dtype, place)
        return canonical_csr(X.astype(float_type(X.dtype), copy=False))
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"{place}: X must have two dimensions, rows and features; got shape {X.shape}")
    _check_kind(X.dtype, place)
    try:
        return np.ascontiguousarray(X, dtype=float_type(X.dtype))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: X holds values that are not numbers: {error}") from None


def _check_kind(dtype: np.dtype[Any], place: Place) -> None:
    if dtype.kind not in "fiubO":
        raise ValueError(f"{place}: X must hold real numbers; its type is {dtype}")


def _check_finite(X: Matrix, place: Place, names: Sequence[str] | None) -> None:
    values = X.data if sp.issparse(X) else X
    if _sum_is_finite(values):
        return
    bad = np.argwhere(~np.isfinite(values))
    if bad.size == 0:
        return  # The sum overflowed, the values did not.
    if sp.issparse(X):
        entry = int(bad[0, 0])
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        column, value = int(X.indices[entry]), values[entry]
    else:
        row, column = (int(index) for index in bad[0])
        value = values[row, column]
    feature = repr(names[column]) if names is not None else str(column)
    raise ValueError(f"{place.row(row)}: feature {feature} is {value}; every value must be finite")


def _sum_is_finite(values: npt.NDArray[Any]) -> bool:
    """Return whether a sum is finite: one read, no temporary, and never true with a NaN among them."""
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind == "f" and values.flags.c_contiguous:
            flat = values.reshape(-1)
            return bool(np.isfinite(np.dot(flat, flat)))  # Of squares: BLAS reads faster than NumPy adds.
        return bool(np.isfinite(np.sum(values)))


def _checked_labels(y: Any, rows: int, place: Place) -> npt.NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1 and not (labels.ndim == 2 and labels.shape[1] and labels.dtype.kind in "iuf"):
        raise ValueError(
            f"{place}: y must have one dimension, or columns of numbers; got shape {labels.shape}"
        )
    if labels.shape[0] != rows:
        raise ValueError(f"{place}: {rows} rows of X but {labels.shape[0]} of y")
    missing = _missing(labels)
    if missing.size:
        row = int(missing[0])
        raise ValueError(f"{place.row(row)}: y is {labels[row]}; every row needs a label or value")
    return labels


def _missing(labels: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    if labels.dtype.kind == "f":
        if _sum_is_finite(labels):
            return np.empty(0, np.intp)
        finite = np.isfinite(labels)
        return np.flatnonzero(~(finite if labels.ndim == 1 else finite.all(axis=1)))
    if labels.dtype.kind == "O":
        return np.flatnonzero([_is_missing(value) for value in labels])
    return np.empty(0, np.intp)


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA does not say whether it equals itself.
        return True


def as_weights(weights: Any, rows: int, place: Place) -> FloatArray:
    """Return sample weights as float64, or raise a ValueError that names the row of a bad one."""
    try:
        values: FloatArray = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: weights must be numbers: {error}") from None
    if values.shape != (rows,):
        raise ValueError(f"{place}: {rows} rows but weights of shape {values.shape}")
    bad = np.flatnonzero(~((values >= 0.0) & (values < np.inf)))
    if bad.size:
        row = int(bad[0])
        raise ValueError(f"{place.row(row)}: the weight is {values[row]}; it must be finite and not negative")
    return values


def rows_per_block(block_rows: int | None, row_bytes: float, block_bytes: int) -> int:
    """Return how many rows a block has: as given, or as many as fill about `block_bytes`."""
    if block_rows is not None:
        return check_integer("block_rows", block_rows, 1)
    return max(_FEWEST_ROWS, int(block_bytes / max(row_bytes, 1.0)))


def _features(count: int) -> str:
    return "1 feature" if count == 1 else f"{count} features"
