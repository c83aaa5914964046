"""Rows, labels and ids as plain arrays and JSON, and back: nothing of a file is taken on trust."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from squaresvm.rows import Ids
from squaresvm.typing import FloatArray, Matrix

__all__ = [
    "Arrays",
    "array_of",
    "decode_ids",
    "decode_labels",
    "decode_matrix",
    "encode_ids",
    "encode_labels",
    "encode_matrix",
    "floats_of",
]

Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]

#: Columns of sparse rows take no bytes in the file, and do in products: no more than 32-bit indices can name.
_MOST_COLUMNS = 2**31


def array_of(arrays: Arrays, name: str, kinds: str, shape: tuple[int | None, ...]) -> np.ndarray[Any, Any]:
    """Return an array of the given kinds; None in `shape` is any extent."""
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(
        wanted is None or extent == wanted for extent, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype.kind not in kinds or not fits:
        raise ValueError(f"the array {name!r} is of the wrong kind or shape")
    return array


def floats_of(arrays: Arrays, name: str, *shape: int | None) -> FloatArray:
    """Return an array in double precision."""
    array = array_of(arrays, name, "f", shape)
    if array.dtype != np.float64:
        raise ValueError(f"the array {name!r} is not in double precision")
    return array


# Features ----------------------------------------------------------------------------------------------


def encode_matrix(base: Matrix) -> Arrays:
    """Return rows as arrays: ``rows``, or ``data, indices, indptr`` of sparse ones."""
    if not sp.issparse(base):
        return {"rows": base}
    if base.shape[1] >= _MOST_COLUMNS:
        raise ValueError("sparse rows of 2^31 columns or more cannot be saved")
    return {"data": base.data, "indices": base.indices, "indptr": base.indptr}


def decode_matrix(header: dict[str, Any], arrays: Arrays, count: int) -> Matrix:
    """Return `count` rows; a ValueError where they do not fit together."""
    if header["sparse"] is not True:
        return array_of(arrays, "rows", "f", (count, None))
    n, indptr = header["n_features"], array_of(arrays, "indptr", "i", (count + 1,))
    data, indices = array_of(arrays, "data", "f", (None,)), array_of(arrays, "indices", "i", (None,))
    if type(n) is not int or not 0 < n < _MOST_COLUMNS:
        raise ValueError("its number of columns is impossible")
    if indptr[0] != 0 or indptr[-1] != data.size or indices.size != data.size or np.any(np.diff(indptr) < 0):
        raise ValueError("its sparse rows do not fit together")
    if indices.size and (indices.min() < 0 or int(indices.max()) >= n):
        raise ValueError("an entry of its sparse rows is in a column that does not exist")
    # Sorted within rows, none twice: a fall is allowed only where the next row starts.
    falls = np.flatnonzero(np.diff(indices) <= 0) + 1
    if not np.isin(falls, indptr).all():
        raise ValueError("the entries of its sparse rows are not sorted")
    return sp.csr_matrix((data, indices, indptr), shape=(count, n))


# Labels and ids ----------------------------------------------------------------------------------------


def encode_labels(values: np.ndarray[Any, Any], what: str = "labels") -> np.ndarray[Any, Any]:
    """Return values as a file can hold them; strings no wider than the longest that is there."""
    if values.dtype == object:
        if not all(isinstance(value, str) for value in values.tolist()):
            raise ValueError(
                f"{what} of several kinds cannot be saved: a model file holds numbers or strings"
            )
        return np.array(values.tolist(), dtype=np.str_)
    if values.dtype.kind in "US":
        narrow = np.array(values.tolist())
        return narrow if narrow.dtype.itemsize else narrow.astype(f"{values.dtype.kind}1")
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8 or values.dtype == np.float16:
        raise ValueError(
            f"{what} of type {values.dtype} cannot be saved: a model file holds numbers or strings"
        )
    return values


def decode_labels(header: dict[str, Any], arrays: Arrays, name: str) -> np.ndarray[Any, Any]:
    """Return labels or values, as Python strings where they were."""
    values = array_of(arrays, name, "biufUS", (None,))
    return values.astype(object) if header["labels_are_objects"] is True else values


def encode_ids(ids: Ids) -> tuple[list[Any] | None, Arrays]:
    """Return ids as an array, or as a list where they are of several kinds."""
    values = ids.values
    if values.dtype != object:
        return None, {"ids": encode_labels(values, "ids")}
    names = values.tolist()
    strange = next((name for name in names if type(name) not in (int, str)), None)
    if strange is not None:
        raise ValueError(
            f"ids of type {type(strange).__name__} cannot be saved: a model file holds numbers and strings"
        )
    return names, {}


def decode_ids(header: dict[str, Any], arrays: Arrays, count: int) -> Ids:
    """Return the ids of `count` rows; a ValueError where they are none."""
    arrivals, listed = header["arrivals"], header["ids"]
    if listed is not None:
        if not isinstance(listed, list) or not all(type(name) in (int, str) for name in listed):
            raise ValueError("its ids are neither numbers nor strings")
        values = np.empty(len(listed), dtype=object)
        values[:] = listed
    else:
        values = array_of(arrays, "ids", "biufUS", (None,))
    if arrivals is None:
        return Ids.given(values, count)
    if type(arrivals) is not int or values.dtype.kind != "i" or values.shape != (count,):
        raise ValueError("its ids are no arrival numbers")
    if values[0] < 0 or values[-1] >= arrivals or np.any(np.diff(values) <= 0) or arrivals >= 2**62:
        raise ValueError("its arrival numbers are out of order")
    return Ids(values, arrivals)
