"""Keyed hashes of ids and rows, a digest of a set of rows, and short proofs that an id is not among them.

A row is hashed with its id, label and weight by BLAKE2b under the key of its model. Equal numbers give equal
hashes, whether rows are dense or sparse, in float32 or float64. The digest of a set is that of the sum of its
rows' hashes, each stretched by SHAKE-128 to 1,024 numbers of 16 bits, modulo 2^16 number by number (LtHash:
Bellare and Micciancio 1997; Lewi, Kim, Maykov and Weis 2019). A row that comes is added and one that leaves
is subtracted, so that a request costs what its own rows cost; to find another set with the same sum is a
lattice problem of some 200 bits, also for who knows the key.

Absence is proved under a commitment to the rows held. The leaves of a tree are the keyed hashes of ids, each
with the keyed hash of its row, sorted, between a first leaf of zeros and a last one of ones. A node is the
SHA-256 of both below it, an odd one at the end of a level moves up, and the root is bound to the number of
leaves (as in RFC 6962; 0, 1 and 2 in front tell leaves, nodes and roots apart). An id is absent if two leaves
that are neighbours stand on either side of its hash: a proof is these two with the nodes beside their paths,
about 64 log2(rows) bytes. `check_absence` needs no model, and no key where the hash of the id is known from a
receipt.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = [
    "KEY_BYTES",
    "AbsenceProof",
    "Lanes",
    "Leaf",
    "Tree",
    "check_absence",
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
    numbers: Mapping[str, Any],
    class_weight: Mapping[Any, float],
    arrays: Iterable[FloatArray | None],
    ids: Iterable[str] = (),
) -> str:
    """Return the digest of the numbers of a fit and of its solution, to the last bit.

    `ids` are the hashes of the ids in the order of the rows, where nothing else ties a row to its id: with a
    precomputed kernel rows have no features.
    """
    found = hashlib.sha256()
    for name, value in sorted(numbers.items()):
        found.update(f"{name}={value!r};".encode())
    for label, weight in sorted((id_bytes(label), float(weight)) for label, weight in class_weight.items()):
        found.update(label + b"=%a;" % weight)
    for array in arrays:
        values = np.zeros(0) if array is None else np.ascontiguousarray(array, dtype="<f8")
        found.update(f"{array is None} {values.shape};".encode() + values.tobytes())
    for name in ids:
        found.update(name.encode("ascii"))
    return found.hexdigest()


def joined_digest(digests: Iterable[str]) -> str:
    """Return the digest of several models that decide together, in their order; one alone keeps its own."""
    found = list(digests)
    return found[0] if len(found) == 1 else hashlib.sha256(" ".join(found).encode("ascii")).hexdigest()


# Absence -----------------------------------------------------------------------------------------------

#: The hash of an id, and that of its row.
Leaf = tuple[bytes, bytes]
_FIRST: Leaf = (bytes(32), bytes(32))
_LAST: Leaf = (b"\xff" * 32, b"\xff" * 32)


@dataclass(frozen=True)
class AbsenceProof:
    """That an id is not among the rows under a root.

    Parameters
    ----------
    id_hash : str
        Keyed hash of the id, as in a receipt.
    root : str
        The commitment of the receipt that the proof belongs to.
    count : int
        Leaves of the tree.
    index : int
        Of the leaf before the place where the id would stand.
    left, right : tuple of str
        Hash of the id, and of the row, of the leaves on either side.
    left_path, right_path : tuple of str
        Nodes beside their paths to the root, from below.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC, check_absence
    >>> model = LSSVC().fit(*load_iris(return_X_y=True))
    >>> _ = model.forget([3])
    >>> proof = model.prove_absence(3)
    >>> check_absence(proof, model.receipts_[-1].commitment)
    []
    >>> proof.id_hash == model.receipts_[-1].id_hashes[0]
    True
    """

    id_hash: str
    root: str
    count: int
    index: int
    left: tuple[str, str]
    right: tuple[str, str]
    left_path: tuple[str, ...]
    right_path: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the proof as JSON."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_json(cls, said: Any) -> AbsenceProof:
        """Return a proof from JSON; a ValueError where it is none."""
        texts, lists = ("id_hash", "root"), ("left", "right", "left_path", "right_path")
        whole = isinstance(said, dict) and set(said) == {*texts, *lists, "count", "index"}
        whole = whole and all(isinstance(said[name], str) for name in texts)
        whole = whole and all(type(said[name]) is int for name in ("count", "index"))
        for name in lists:
            whole = whole and isinstance(said[name], list) and all(isinstance(v, str) for v in said[name])
        if not whole or len(said["left"]) != 2 or len(said["right"]) != 2:
            raise ValueError("it is not a proof of absence: it has other fields")
        return cls(**{**said, **{name: tuple(said[name]) for name in lists}})


class Tree:
    """The tree over some rows.

    Parameters
    ----------
    leaves : iterable of (bytes, bytes)
        Hash of the id and hash of the row, of each row, in any order.

    Examples
    --------
    >>> from squaresvm.evidence.hashes import Tree, check_absence
    >>> tree = Tree([(bytes([n]) * 32, bytes(32)) for n in (5, 9)])
    >>> proof = tree.prove_absence((bytes([7]) * 32).hex())
    >>> check_absence(proof, tree.root)
    []
    """

    def __init__(self, leaves: Iterable[Leaf]) -> None:
        self.leaves = [_FIRST, *sorted(leaves), _LAST]
        self.levels = [[_leaf(*leaf) for leaf in self.leaves]]
        while len(self.levels[-1]) > 1:
            below = self.levels[-1]
            above = [_node(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)]
            self.levels.append(above + below[len(below) & ~1 :])

    @property
    def root(self) -> str:
        """The commitment."""
        return _root(len(self.leaves), self.levels[-1][0])

    def prove_absence(self, id_hash: str) -> AbsenceProof:
        """Return a proof that an id is not held; a ValueError where it is."""
        mark = bytes.fromhex(id_hash)
        place = bisect_left(self.leaves, (mark, b""))
        if self.leaves[place][0] == mark:
            raise ValueError("the id is held: there is no proof that it is not")
        left, right = (tuple(part.hex() for part in self.leaves[i]) for i in (place - 1, place))
        paths = tuple(self._path(place - 1)), tuple(self._path(place))
        return AbsenceProof(
            id_hash, self.root, len(self.leaves), place - 1, (left[0], left[1]), (right[0], right[1]), *paths
        )

    def _path(self, place: int) -> Iterable[str]:
        for level in self.levels[:-1]:
            if place ^ 1 < len(level):
                yield level[place ^ 1].hex()
            place >>= 1


def check_absence(proof: AbsenceProof, root: str) -> list[str]:
    """Return why a proof does not show that an id is absent under a root; empty where it does.

    Parameters
    ----------
    proof : AbsenceProof
    root : str
        The commitment, from a receipt that one trusts: signed, or kept since.

    Returns
    -------
    list of str
    """
    faults = []
    try:
        mark, leaves = bytes.fromhex(proof.id_hash), (proof.left, proof.right)
        left, right = ((bytes.fromhex(a), bytes.fromhex(b)) for a, b in leaves)
        tops = [
            _climbed(_leaf(*leaf), proof.index + at, proof.count, [bytes.fromhex(each) for each in path])
            for at, (leaf, path) in enumerate(((left, proof.left_path), (right, proof.right_path)))
        ]
    except ValueError as error:
        return [f"the proof is damaged: {error}"]
    if not left[0] < mark < right[0]:
        faults.append("the id would not stand between the two rows of the proof")
    if tops[0] != tops[1] or tops[0] is None or _root(proof.count, tops[0]) != root:
        faults.append("the rows of the proof are not neighbours under this commitment")
    if proof.root != root:
        faults.append("the proof was made for another commitment")
    return faults


def _climbed(node: bytes, place: int, count: int, path: list[bytes]) -> bytes | None:
    """Return the top above a leaf; None where the path is not of this place."""
    if not 0 <= place < count:
        return None
    rest = list(path)
    while count > 1:
        if place ^ 1 < count:
            if not rest:
                return None
            beside = rest.pop(0)
            node = _node(beside, node) if place & 1 else _node(node, beside)
        place, count = place >> 1, (count + 1) >> 1
    return None if rest else node


def _leaf(mark: bytes, row: bytes) -> bytes:
    if len(mark) != 32 or len(row) != 32:
        raise ValueError("a hash has 32 bytes")
    return hashlib.sha256(b"\x00" + mark + row).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _root(count: int, top: bytes) -> str:
    return hashlib.sha256(b"\x02" + count.to_bytes(8, "big") + top).hexdigest()
