"""The receipts of a model, written with each request and sealed when somebody asks for them.

A request writes its own line and hashes its own rows, nothing more: some ten microseconds. Sealing takes what
costs as much as the model is large, once for all requests since the last time: see `Facts`.
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from squaresvm.evidence.hashes import KEY_BYTES, Lanes, digest_of, lanes_of, no_lanes
from squaresvm.evidence.receipt import Receipt
from squaresvm.evidence.signatures import signed

__all__ = ["Entry", "Facts", "Log", "now"]


def now() -> str:
    """Return the time of a receipt."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, eq=False)
class Entry:
    """A receipt, and until it is sealed the hashes of the rows that came or left with its request."""

    receipt: Receipt
    came: tuple[bytes, ...] = ()
    left: tuple[bytes, ...] = ()

    def applied(self, lanes: Lanes) -> Lanes:
        """Return the sum of the hashes of all rows after the request, from that before it."""
        return lanes + lanes_of(self.came) - lanes_of(self.left) if self.came or self.left else lanes

    def undone(self, lanes: Lanes) -> Lanes:
        """Return the sum before the request, from that after it."""
        return lanes - lanes_of(self.came) + lanes_of(self.left) if self.came or self.left else lanes

    @property
    def is_sealed(self) -> bool:
        """Whether the receipt has its hash."""
        return bool(self.receipt.hash)


@dataclass(frozen=True, eq=False)
class Facts:
    """What sealing asks of a model, once.

    Parameters
    ----------
    lanes : callable
        Returns the sum of the hashes of all rows held; None where it holds none. Called only where no sum is
        known yet.
    tip : dict
        Fields of the last receipt that are of the model as it is.
    versions : dict
    """

    lanes: Callable[[], Lanes | None]
    tip: dict[str, Any]
    versions: dict[str, str]


@dataclass(frozen=True, eq=False)
class Log:
    """The receipts of one model. Nothing in it changes, but for a list that grows behind its end.

    Parameters
    ----------
    key : bytes
        Of all hashes of ids and rows.
    entries : list of Entry
        Shared with logs that come after this one; the first `count` are this one's.
    count : int
    lanes : ndarray or None
        Sum of the hashes of the rows after the last sealed receipt; None where none is sealed yet.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_BYTES), repr=False)
    entries: list[Entry] = field(default_factory=list)
    count: int = 0
    lanes: Lanes | None = field(default=None, repr=False)

    @property
    def next_number(self) -> int:
        """Number of the next receipt."""
        return self.entries[self.count - 1].receipt.number + 1 if self.count else 0

    def written(self, receipt: Receipt, came: tuple[bytes, ...] = (), left: tuple[bytes, ...] = ()) -> Log:
        """Return the log with a receipt behind the others, and the hashes of the rows that it is about."""
        entry = Entry(receipt.for_others(), came, left)
        entries = self.entries
        if len(entries) != self.count:  # Somebody went on from here: who comes second has a list of its own.
            entries = entries[: self.count]
        entries.append(entry)
        return Log(self.key, entries, self.count + 1, self.lanes)

    @property
    def is_sealed(self) -> bool:
        """Whether all receipts are sealed."""
        return not self.count or self.entries[self.count - 1].is_sealed

    def sealed(self, facts: Callable[[], Facts]) -> Log:
        """Return the log with all receipts sealed: each with the digest of its rows, the last with the rest.

        Once a sum of hashes is known, digests follow from what came and left, and not from the rows: a row
        that came or left without a request is not taken over in silence, but contradicts the last receipt.
        """
        if self.is_sealed:
            return self
        found, entries = facts(), self.entries[: self.count]
        first = next(place for place, entry in enumerate(entries) if not entry.is_sealed)
        sums = self._sums(entries[first:], found)
        previous = entries[first - 1].receipt.hash if first else ""
        for place, lanes in enumerate(sums, start=first):
            rest = found.tip if place == self.count - 1 else {}
            digest = "" if lanes is None else digest_of(lanes)
            receipt = entries[place].receipt.but(digest=digest, versions=found.versions, **rest)
            entries[place] = Entry(receipt.sealed(previous))
            previous = entries[place].receipt.hash
        return Log(self.key, entries, self.count, sums[-1])

    def _sums(self, entries: list[Entry], facts: Facts) -> list[Lanes | None]:
        """Return the sum of hashes after each of some entries."""
        if self.lanes is not None:
            sums: list[Lanes | None] = []
            lanes = self.lanes
            for entry in entries:
                lanes = entry.applied(lanes)
                sums.append(lanes)
            return sums
        held = facts.lanes()
        if held is None:
            return [None] * len(entries)
        sums = [held]
        for entry in reversed(entries[1:]):
            held = entry.undone(held)
            sums.append(held)
        return sums[::-1]

    def receipts(self) -> tuple[Receipt, ...]:
        """Return the receipts, oldest first."""
        return tuple(entry.receipt for entry in self.entries[: self.count])

    def anchored(self) -> Log:
        """Return the log, which is sealed, with one receipt that stands for all; itself where it has one."""
        receipts = self.receipts()
        if not receipts or (len(receipts) == 1 and receipts[0].kind == "anchor"):
            return self
        return Log(self.key, [Entry(receipts[-1].anchor(receipts, now()))], 1, self.lanes)

    def signed(self, path: str | os.PathLike[str]) -> Log:
        """Return the log with all receipts, which are sealed, signed by the private key in a file."""
        entries = [Entry(receipt) for receipt in signed(self.receipts(), path)]
        return Log(self.key, entries, self.count, self.lanes)

    def to_json(self) -> dict[str, Any]:
        """Return a sealed log as JSON."""
        lanes = None if self.lanes is None else self.lanes.astype("<u2").tobytes()
        return {
            "key": self.key.hex(),
            "lanes": None if lanes is None else base64.b64encode(lanes).decode("ascii"),
            "receipts": [receipt.to_json() for receipt in self.receipts()],
        }

    @classmethod
    def from_json(cls, said: Any) -> Log:
        """Return a log from JSON; a ValueError where it is none. What it says may be false: see `verify`."""
        key = bytes.fromhex(said["key"])
        if len(key) != KEY_BYTES:
            raise ValueError("the key of its receipts is no key")
        if not isinstance(said["receipts"], list):
            raise ValueError("its receipts are no list")
        entries = [Entry(Receipt.from_json(each)) for each in said["receipts"]]
        lanes = None
        if said["lanes"] is not None:
            lanes = np.frombuffer(base64.b64decode(said["lanes"], validate=True), dtype="<u2").astype(
                np.uint16
            )
            if lanes.shape != no_lanes().shape:
                raise ValueError("the sum of the hashes of its rows is none")
        if not all(entry.is_sealed for entry in entries):
            raise ValueError("its receipts have no hashes")
        return cls(key, entries, len(entries), lanes)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what others have written behind the end."""
        return {**self.__dict__, "entries": self.entries[: self.count]}
