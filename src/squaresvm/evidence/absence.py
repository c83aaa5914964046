"""A commitment to the rows held, and short proofs that an id is not among them.

The leaves of a tree are the keyed hashes of ids, each with the keyed hash of its row, sorted, between a first
leaf of zeros and a last one of ones. A node is the SHA-256 of both below it, an odd one at the end of a level
moves up, and the root is bound to the number of leaves (as in RFC 6962; 0, 1 and 2 in front tell leaves,
nodes and roots apart). An id is absent if two leaves that are neighbours stand on either side of its hash: a
proof is these two with the nodes beside their paths, about 64 log2(rows) bytes. `check_absence` needs no
model, and no key where the hash of the id is known from a receipt.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["AbsenceProof", "Leaf", "Tree", "check_absence"]

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
            raise ValueError("it is no proof of absence: it has other fields")
        return cls(**{**said, **{name: tuple(said[name]) for name in lists}})


class Tree:
    """The tree over some rows.

    Parameters
    ----------
    leaves : iterable of (bytes, bytes)
        Hash of the id and hash of the row, of each row, in any order.

    Examples
    --------
    >>> from squaresvm.evidence.absence import Tree, check_absence
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
