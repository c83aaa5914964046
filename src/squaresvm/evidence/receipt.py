"""What a request leaves behind as evidence, and a chain of such receipts that shows any change to itself."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from squaresvm.runtime.progress import duration

__all__ = ["KINDS", "Receipt", "check_chain", "check_known"]

KINDS = ("fit", "learn", "forget", "refit", "save")
#: What a receipt says to others, in this order; all but `hash` and `signature` are hashed.
_SAID = (
    *("number", "kind", "time", "rows_before", "remaining", "rows", "residual", "checked", "sampled"),
    *("refactored", "seconds", "id_hashes", "resolved", "moved", "kept", "digest", "commitment", "model"),
    *("versions", "previous", "hash", "signature"),
)


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
    kind : {'fit', 'learn', 'forget', 'refit', 'save'}
        'save': a model whose earlier requests have left no receipts.
    time : str
        UTC.
    rows_before : int
        Rows held before.
    id_hashes : tuple of str
        A keyed hash in place of each id that left.
    resolved : dict
        What was taken from all rows at `fit`: gamma, number of classes with balanced weights, columns.
    moved : dict
        By what share each of these would move if it were resolved now, in whole per cent; of a column, its
        mean and deviation in deviations. Finer numbers would say what a row was that has left.
    kept : tuple of str
        What the model still has of rows that left, in words.
    digest : str
        Of the set of rows held, whatever their order: see ``squaresvm.evidence.hashes``.
    commitment : str
        Root of a tree over the rows held, by which absence is proved.
    model : str
        Digest of the numbers of the fit and of the solution.
    versions : dict
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
        return {name: _plain(getattr(self, name)) for name in _SAID}

    @classmethod
    def from_json(cls, said: Any) -> Receipt:
        """Return a receipt from JSON; a ValueError where it is none."""
        if not isinstance(said, dict) or set(said) != set(_SAID):
            raise ValueError("it is no receipt: it has other fields")
        for each in fields(cls):
            if each.name in said and not _fits(said[each.name], str(each.type)):
                raise ValueError(f"it is no receipt: its {each.name} is {str(said[each.name])[:40]!r}")
        if said["kind"] not in KINDS:
            raise ValueError(f"it is no receipt: no request is of the kind {said['kind'][:20]!r}")
        datetime.fromisoformat(said["time"])
        tuples = {name: tuple(said[name]) for name in ("id_hashes", "kept")}
        residual = math.nan if said["residual"] is None else float(said["residual"])
        return cls(**{**said, **tuples, "residual": residual, "ids": ()})

    def hashed(self) -> str:
        """Return the hash of what the receipt says, whatever it says of its own hash."""
        said = {name: value for name, value in self.to_json().items() if name not in ("hash", "signature")}
        text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

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


# Chains ------------------------------------------------------------------------------------------------


def check_chain(receipts: Sequence[Receipt], first: int = 0) -> list[str]:
    """Return what is wrong with a chain of receipts, by number: dropped, edited, swapped or added entries.

    Parameters
    ----------
    receipts : sequence of Receipt
        In their order, from number `first` on.
    first : int, default=0

    Returns
    -------
    list of str
        A sentence each; empty where nothing is wrong.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC, check_chain
    >>> model = LSSVC().fit(*load_iris(return_X_y=True))
    >>> for name in (3, 17, 60):
    ...     _ = model.forget([name])
    >>> chain = list(model.receipts_)
    >>> check_chain(chain)
    []
    >>> check_chain(chain[:2] + chain[3:])
    ['receipt 2 is missing: number 3 stands in its place']
    """
    faults = []
    expected = first
    for place, receipt in enumerate(receipts):
        number = receipt.number
        if receipt.hash != receipt.hashed():
            faults.append(f"receipt {number} was edited: its hash is not that of what it says")
        if number != expected:
            faults.append(_out_of_place(receipts, place, expected))
        elif place and receipt.previous != receipts[place - 1].hash:
            faults.append(
                f"receipt {number} does not follow the one before it: receipt {number - 1} was edited or "
                f"replaced, or receipt {number} was added"
            )
        elif not place and not number and receipt.previous:
            faults.append("receipt 0 follows another one: the chain was cut")
        elif place:
            faults += _against(receipt, receipts[place - 1])
        faults += _own_faults(receipt)
        expected = number + 1 if number >= expected else expected
    return faults


def _out_of_place(receipts: Sequence[Receipt], place: int, expected: int) -> str:
    number = receipts[place].number
    where = [at for at, each in enumerate(receipts) if each.number == number]
    if len(where) > 1 and place != where[0]:
        return f"receipt {number} was added: the number occurs {len(where)} times"
    if any(each.number == expected for each in receipts[place:]):
        return f"receipts are out of order: number {number} stands where {expected} should, they were swapped"
    if number < expected:
        return f"receipts are out of order: number {number} stands behind number {expected - 1}"
    return f"receipt {expected} is missing: number {number} stands in its place"


def _against(receipt: Receipt, before: Receipt) -> Iterable[str]:
    if receipt.rows_before != before.remaining:
        yield (
            f"receipt {receipt.number} begins with {receipt.rows_before} rows, and the one before it ends "
            f"with {before.remaining}"
        )
    if receipt.time < before.time:
        yield f"receipt {receipt.number} is of an earlier time than the one before it"


def _own_faults(receipt: Receipt) -> Iterable[str]:
    sign = {"learn": 1, "forget": -1}.get(receipt.kind, 0)
    if sign and receipt.rows_before + sign * receipt.rows != receipt.remaining:
        yield (
            f"receipt {receipt.number} does not add up: {receipt.rows_before} rows, {receipt.rows} "
            f"{'came' if sign > 0 else 'left'}, {receipt.remaining} remained"
        )


def check_known(receipts: Sequence[Receipt], known: Sequence[Receipt]) -> list[str]:
    """Return which receipts that somebody has kept are not those of the chain, or are false themselves."""
    by_number = {receipt.number: receipt for receipt in receipts}
    faults = []
    for receipt in known:
        if receipt.hash != receipt.hashed():
            faults.append(f"the receipt {receipt.number} that was given is edited")
        held = by_number.get(receipt.number)
        if held is None:
            faults.append(f"receipt {receipt.number}, which was given, is missing in the chain of the model")
        elif held.hashed() != receipt.hash:
            faults.append(f"receipt {receipt.number} of the model is another one than the one that was given")
    return faults
