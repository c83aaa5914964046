"""What a request leaves behind as evidence, and a chain of such receipts that shows any change to itself."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from squaresvm.runtime.progress import duration

__all__ = ["KINDS", "Receipt", "append_receipts", "read_receipts"]

KINDS = ("fit", "learn", "forget", "refit", "save", "anchor")
#: What a receipt says to others, in this order; all but `hash` and `signature` are hashed. An anchor says
#: `before` as well.
_SAID = (
    *("number", "kind", "time", "rows_before", "remaining", "rows", "residual", "checked", "sampled"),
    *("refactored", "seconds", "id_hashes", "resolved", "moved", "kept", "digest", "commitment", "model"),
    *("versions", "previous", "hash", "signature"),
)
#: Of these, what a request writes at once; the rest is there when the receipt is sealed.
_OF_REQUEST = (*_SAID[:9], "refactored", "id_hashes")
#: What an anchor counts.
_COUNTS = ("receipts", "learned", "forgotten")


@dataclass(frozen=True)
class Receipt:
    """What became of a model by one request: it equals one that holds exactly these rows, to `residual`.

    `forget` returns one at once. The model keeps them all, in ``receipts_``, without the ids and sealed:
    chained by hashes, with the digests of rows and model. Digests are taken when somebody asks, or saves:
    of requests between two such moments every receipt has the digest of its rows, and the last has the rest.

    Parameters
    ----------
    ids : tuple of hashables
        Of which no row is held any more, each once, however many rows it had. The receipt that `forget`
        returns is the only place that still knows them.
    remaining : int
        Rows held now.
    residual : float
        Scaled violation of the optimality conditions on the rows held; NaN where it is not known.
    sampled : bool
        Whether the residual was taken from random combinations of all rows, or from some rows of a large
        linear model (True), or from every row held (False).
    refactored : bool
        Whether drift was found and the factor was made anew.
    seconds : float
        What the request took.
    classes_gone : tuple of hashables
        Classes whose last row left with this request.
    rows : int
        How many rows came or left.
    checked : int
        How many numbers the residual was taken from: every row held, or where it was sampled, so many
        combinations or rows.
    number : int
        Place in the chain, from 0 at `fit`.
    kind : {'fit', 'learn', 'forget', 'refit', 'save', 'anchor'}
        'save': a model whose earlier requests have left no receipts. 'anchor': it stands for all receipts
        before it, which the model has no longer, and `previous` commits to them all.
    time : str
        UTC.
    rows_before : int
        Rows held before.
    id_hashes : tuple of str
        A keyed hash in place of each id that left.
    resolved : dict
        What was taken from all rows at `fit`: gamma, number of classes with balanced weights, and of columns
        with known ``figures`` (mean and deviation, given by a keyed hash).
    moved : dict
        By what share each of these would move if it were resolved now, in whole per cent; of a column, its
        mean and deviation in deviations, of few rows more coarsely. Finer numbers would say what a row was
        that has left. Of more than 32 columns, those 8 that have moved most.
    kept : tuple of str
        What the model still has of rows that left, in words.
    digest : str
        Of the set of rows held, whatever their order: see ``squaresvm.evidence.hashes``.
    commitment : str
        Root of a tree over the rows held, by which absence is proved.
    model : str
        Digest of the numbers of the fit and of the solution.
    versions : dict
    before : dict
        Of an anchor: how many ``receipts`` it stands for, ``since`` when, and how many rows were ``learned``
        and ``forgotten`` by them.
    previous, hash : str
        Of the receipt before, and of this one.
    signature : str
        Ed25519, of `hash`, where the chain is signed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> model = LSSVC().fit(*load_iris(return_X_y=True))
    >>> receipt = model.forget([3, 17])
    >>> receipt.remaining, receipt.residual < 1e-10
    (148, True)
    >>> [(each.number, each.kind, each.remaining) for each in model.receipts_]
    [(0, 'fit', 150), (1, 'forget', 148)]
    """

    ids: tuple[Hashable, ...]
    remaining: int
    residual: float
    sampled: bool
    refactored: bool
    seconds: float
    classes_gone: tuple[Hashable, ...] = ()
    rows: int = 0
    checked: int = 0
    number: int = 0
    kind: str = "forget"
    time: str = ""
    rows_before: int = 0
    id_hashes: tuple[str, ...] = ()
    resolved: dict[str, Any] = field(default_factory=dict)
    moved: dict[str, Any] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    digest: str = ""
    commitment: str = ""
    model: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    previous: str = ""
    hash: str = ""
    signature: str = ""
    before: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the receipt in one line."""
        count = self.rows or len(self.ids)
        rows = "1 row" if count == 1 else f"{count} rows"
        scope = f"{self.checked} samples" if self.sampled else "all rows"
        verbs = {"learn": "learned", "forget": "forgot", "fit": "fitted", "refit": "fitted anew"}
        residual = "unknown" if math.isnan(self.residual) else f"{self.residual:.1e}"
        return (
            f"{verbs.get(self.kind, self.kind)} {rows} in {duration(self.seconds)}, {self.remaining} "
            f"{'remain' if self.kind == 'forget' else 'are held'}; residual {residual} on {scope}"
        )

    def but(self, **changes: Any) -> Receipt:
        """Return the receipt with other values of some fields, ten times as fast as `dataclasses.replace`."""
        other = object.__new__(Receipt)
        other.__dict__.update(self.__dict__)
        other.__dict__.update(changes)
        return other

    def for_others(self) -> Receipt:
        """Return the receipt without what would tell of rows that left: ids and classes."""
        return self.but(ids=(), classes_gone=()) if self.ids or self.classes_gone else self

    def to_json(self) -> dict[str, Any]:
        """Return what the receipt says to others, as JSON: no id, and no class that is gone.

        Examples
        --------
        >>> from squaresvm import Receipt
        >>> receipt = Receipt(("anna",), 9, 1e-12, False, False, 0.1, time="2026-01-31T12:00:00+00:00")
        >>> "anna" in str(receipt.to_json())
        False
        >>> Receipt.from_json(receipt.to_json()).remaining
        9
        """
        said = {name: _plain(getattr(self, name)) for name in _SAID}
        return said | ({"before": self.before} if self.kind == "anchor" else {})

    @classmethod
    def from_json(cls, said: Any) -> Receipt:
        """Return a receipt from JSON; a ValueError where it is none."""
        more = {"before"} if isinstance(said, dict) and said.get("kind") == "anchor" else set()
        if not isinstance(said, dict) or set(said) != {*_SAID, *more}:
            raise ValueError("it is not a receipt: it has other fields")
        for each in fields(cls):
            if each.name in said and not _fits(said[each.name], str(each.type)):
                raise ValueError(f"it is not a receipt: its {each.name} is {str(said[each.name])[:40]!r}")
        if said["kind"] not in KINDS:
            raise ValueError(f"it is not a receipt: no request is of the kind {said['kind'][:20]!r}")
        kinds = {name: type(value) for name, value in said.get("before", {}).items()}
        if said["kind"] == "anchor" and kinds != {**dict.fromkeys(_COUNTS, int), "since": str}:
            raise ValueError("it is not a receipt: it does not say what it stands for")
        datetime.fromisoformat(said["time"])
        tuples = {name: tuple(said[name]) for name in ("id_hashes", "kept")}
        residual = math.nan if said["residual"] is None else float(said["residual"])
        return cls(**{**said, **tuples, "residual": residual, "ids": ()})

    def is_of_request(self, other: Receipt) -> bool:
        """Return whether two receipts say the same of one request, sealed or not."""
        return all(_plain(getattr(self, n)) == _plain(getattr(other, n)) for n in _OF_REQUEST)

    def hashed(self) -> str:
        """Return the hash of what the receipt says, whatever it says of its own hash."""
        said = {name: value for name, value in self.to_json().items() if name not in ("hash", "signature")}
        text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def anchor(self, before: Sequence[Receipt], time: str) -> Receipt:
        """Return the sealed receipt that stands for this one, the last of a chain, and those before it."""
        earlier = before[0].before or {"since": before[0].time, "learned": 0, "forgotten": 0}
        sums = {
            "receipts": self.number + 1,
            "since": earlier["since"],
            "learned": earlier["learned"] + sum(r.rows for r in before if r.kind in ("fit", "save", "learn")),
            "forgotten": earlier["forgotten"] + sum(r.rows for r in before if r.kind == "forget"),
        }
        changes: dict[str, Any] = {"number": self.number + 1, "kind": "anchor", "time": time, "rows": 0}
        changes |= {"rows_before": self.remaining, "id_hashes": (), "seconds": 0.0, "refactored": False}
        return self.but(**changes, before=sums).sealed(self.hash)

    def sealed(self, previous: str) -> Receipt:
        """Return the receipt behind another one, with its hash."""
        linked = self.for_others().but(previous=previous, hash="", signature="")
        return linked.but(hash=linked.hashed())


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def _fits(value: Any, kind: str) -> bool:
    """Return whether a value of JSON is of the kind that a field is declared as."""
    if kind.startswith("tuple"):
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if kind.startswith("dict"):
        return isinstance(value, dict)
    if kind.startswith("float"):
        return value is None or type(value) in (int, float)
    return type(value) is {"int": int, "str": str, "bool": bool}[kind]


# Files of receipts --------------------------------------------------------------------------------------


def read_receipts(path: str | os.PathLike[str]) -> list[Receipt]:
    """Return the receipts of a file with one JSON object a line, each once; a ValueError says which is none.

    Parameters
    ----------
    path : path-like
    """
    found: dict[str, Receipt] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                if line.strip():
                    found.setdefault(line.strip(), Receipt.from_json(json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{os.fspath(path)}: line {number}: {error}") from None
    if not found:
        raise ValueError(f"{os.fspath(path)}: holds no receipts")
    return list(found.values())


def append_receipts(path: str | os.PathLike[str], receipts: Iterable[Receipt]) -> None:
    """Add receipts to a file, one JSON object a line; they are on disk when this returns.

    A line that somebody who was killed has left half written goes.

    Parameters
    ----------
    path : path-like
        Is made where there is none.
    receipts : iterable of Receipt
        Sealed.
    """
    lines = "".join(json.dumps(receipt.to_json(), sort_keys=True) + "\n" for receipt in receipts)
    with open(path, "ab+") as file:
        end = file.tell()
        file.seek(max(0, end - 1))
        if end and file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write(lines.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
