"""Keyed hashes of ids and rows, and a digest of a set of rows that does not depend on their order.

A row is hashed with its id, label and weight by BLAKE2b under the key of its model. Equal numbers give equal
hashes, whether rows are dense or sparse, in float32 or float64. The digest of a set is that of the sum of its
rows' hashes, each stretched by SHAKE-128 to 1,024 numbers of 16 bits, modulo 2^16 number by number (LtHash:
Bellare and Micciancio 1997; Lewi, Kim, Maykov and Weis 2019). A row that comes is added and one that leaves
is subtracted, so that a request costs what its own rows cost; to find another set with the same sum is a
lattice problem of some 200 bits, also for who knows the key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = [
    "KEY_BYTES",
    "Lanes",
    "column_tags",
    "digest_of",
    "id_bytes",
    "id_hash",
    "joined_digest",
    "lanes_of",
    "model_digest",
    "no_lanes",
    "row_hashes",
]

#: The sum of the hashes of a set of rows.
Lanes: TypeAlias = npt.NDArray[np.uint16]

KEY_BYTES = 32
_LANES = 1024
#: Rows that are made sparse at one time.
_ROWS = 4096


def id_bytes(name: Hashable) -> bytes:
    """Return an id as bytes: numbers that are equal are equal, and no number is equal to a text.

    Examples
    --------
    >>> from squaresvm.evidence.hashes import id_bytes
    >>> id_bytes(3), id_bytes("3"), id_bytes(3.0) == id_bytes(3)
    (b'number:3', b'text:3', True)
    """
    if isinstance(name, str):
        return b"text:" + name.encode("utf-8", "surrogatepass")
    if isinstance(name, bytes):
        return b"bytes:" + name
    value: Any = name
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return b"number:%d" % int(value)
    if isinstance(value, float | np.floating):
        return b"number:%d" % int(value) if float(value).is_integer() else b"number:%a" % float(value)
    return b"other:" + repr(name).encode("utf-8", "surrogatepass")


def id_hash(key: bytes, name: Hashable) -> str:
    """Return the keyed hash of an id, which stands in its place wherever others can read.

    Examples
    --------
    >>> from squaresvm.evidence.hashes import id_hash
    >>> id_hash(bytes(32), "anna")[:8], id_hash(bytes(31) + b"1", "anna")[:8]
    ('13e05d50', '75b3edf7')
    """
    return hashlib.blake2b(id_bytes(name), key=key, digest_size=32, person=b"squaresvm id").hexdigest()


def row_hashes(
    key: bytes,
    X: Matrix,
    y: np.ndarray[Any, Any],
    weights: FloatArray | None,
    ids: np.ndarray[Any, Any] | None = None,
    tags: IntArray | None = None,
) -> Iterator[bytes]:
    """Return the keyed hash of each row, with its label, weight and id.

    `tags` stand for the columns, see `column_tags`; their numbers do where there are none.
    """
    count = int(y.shape[0])
    names = [None] * count if ids is None else ids.tolist()
    own = [1.0] * count if weights is None else weights.tolist()
    for (columns, values), label, weight, name in zip(_entries(X, tags), y.tolist(), own, names, strict=True):
        mark = hashlib.blake2b(columns, key=key, digest_size=32, person=b"squaresvm row")
        # Lengths go before parts, so that no other parts make the same bytes.
        target, named = _label_bytes(label), b"" if name is None else id_bytes(name)
        lengths = (len(columns), len(target), len(named))
        mark.update(values + b"%r %r" % (float(weight), lengths) + target + named)
        yield mark.digest()


def _label_bytes(label: Any) -> bytes:
    if isinstance(label, list):  # Several values a row.
        return b",".join(_label_bytes(each) for each in label)
    return b"%a" % float(label) if isinstance(label, bool | int | float) else id_bytes(label)


def column_tags(names: Iterable[str]) -> IntArray:
    """Return a number for each name of a column, the same whatever other columns there are."""
    marks = [hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8) for name in names]
    return np.frombuffer(b"".join(mark.digest() for mark in marks), dtype="<i8").astype(np.int64)


def _entries(X: Matrix, tags: IntArray | None) -> Iterator[tuple[bytes, bytes]]:
    """Return the columns and values of each row that are not zero, as bytes, little-endian."""
    order = None if tags is None else np.argsort(tags, kind="stable")
    for start in range(0, X.shape[0], _ROWS):
        part = X[start : start + _ROWS]
        if order is not None:
            part = part[:, order]
        if sp.issparse(part):
            part = sp.csr_matrix(part, dtype=np.float64)
            part.eliminate_zeros()
            part.sort_indices()
            columns, values = part.indices.astype("<i8"), part.data.astype("<f8", copy=False)
            columns = columns if tags is None or order is None else tags[order][columns].astype("<i8")
            for a, b in zip(part.indptr[:-1].tolist(), part.indptr[1:].tolist(), strict=True):
                yield columns[a:b].tobytes(), values[a:b].tobytes()
            continue
        named = None if tags is None or order is None else tags[order].astype("<i8")
        for row in np.asarray(part).astype("<f8", copy=False):
            used = row.nonzero()[0]
            columns = used.astype("<i8", copy=False) if named is None else named[used]
            yield columns.tobytes(), (row if used.size == row.size else row[used]).tobytes()


# The sum of a set ------------------------------------------------------------------------------------


def no_lanes() -> Lanes:
    """Return the sum of no rows."""
    return np.zeros(_LANES, dtype=np.uint16)


def lanes_of(hashes: Iterable[bytes]) -> Lanes:
    """Return the sum of the hashes of some rows.

    Examples
    --------
    >>> from squaresvm.evidence.hashes import digest_of, lanes_of
    >>> one, other = lanes_of(iter([b"a", b"b", b"b"])), lanes_of(iter([b"b", b"a", b"b"]))
    >>> digest_of(one) == digest_of(other), digest_of(one) == digest_of(lanes_of(iter([b"a", b"b"])))
    (True, False)
    """
    total = no_lanes()
    for each in hashes:
        total += np.frombuffer(hashlib.shake_128(each).digest(2 * _LANES), dtype="<u2")
    return total


def digest_of(lanes: Lanes) -> str:
    """Return the digest of a sum."""
    return hashlib.sha256(lanes.astype("<u2", copy=False).tobytes()).hexdigest()


# Models ------------------------------------------------------------------------------------------------


def model_digest(
    numbers: Mapping[str, Any], class_weight: Mapping[Any, float], arrays: Iterable[FloatArray | None]
) -> str:
    """Return the digest of the numbers of a fit and of its solution, to the last bit."""
    found = hashlib.sha256()
    for name, value in sorted(numbers.items()):
        found.update(f"{name}={value!r};".encode())
    for label, weight in sorted((id_bytes(label), float(weight)) for label, weight in class_weight.items()):
        found.update(label + b"=%a;" % weight)
    for array in arrays:
        values = np.zeros(0) if array is None else np.ascontiguousarray(array, dtype="<f8")
        found.update(f"{array is None} {values.shape};".encode() + values.tobytes())
    return found.hexdigest()


def joined_digest(digests: Iterable[str]) -> str:
    """Return the digest of several models that decide together, in their order; one alone keeps its own."""
    found = list(digests)
    return found[0] if len(found) == 1 else hashlib.sha256(" ".join(found).encode("ascii")).hexdigest()
