"""The receipts of a model, written with each request, sealed when somebody asks for them, and signed.

A request writes its own line and hashes its own rows, nothing more: some ten microseconds. Sealing takes what
costs as much as the model is large, once for all requests since the last time: see `Facts`. Signatures are
by Ed25519, so that who made receipts cannot deny them; they need the extra ``sign``.
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm.evidence.columns import Columns
from squaresvm.evidence.hashes import KEY_BYTES, Lanes, digest_of, lanes_of, no_lanes
from squaresvm.evidence.receipt import Receipt
from squaresvm.runtime.extras import install_line

__all__ = ["Entry", "Facts", "Log", "check_signatures", "new_key", "now", "signed"]


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
    columns : Columns, optional
        Figures of the columns at fit: taken before the first request, or when the log is sealed.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_BYTES), repr=False)
    entries: list[Entry] = field(default_factory=list)
    count: int = 0
    lanes: Lanes | None = field(default=None, repr=False)
    columns: Columns | None = field(default=None, repr=False)

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
        return Log(self.key, entries, self.count + 1, self.lanes, self.columns)

    @property
    def is_at_fit(self) -> bool:
        """Whether nothing has been asked since the fit, so that the rows held are those of it."""
        return self.count > 0 and self.entries[self.count - 1].receipt.kind in ("fit", "refit")

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
        return Log(self.key, entries, self.count, sums[-1], self.columns)

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
        only = [Entry(receipts[-1].anchor(receipts, now()))]
        return Log(self.key, only, 1, self.lanes, self.columns)

    def signed(self, path: str | os.PathLike[str]) -> Log:
        """Return the log with all receipts, which are sealed, signed by the private key in a file."""
        entries = [Entry(receipt) for receipt in signed(self.receipts(), path)]
        return Log(self.key, entries, self.count, self.lanes, self.columns)

    def to_json(self) -> dict[str, Any]:
        """Return a sealed log as JSON."""
        lanes = None if self.lanes is None else self.lanes.astype("<u2").tobytes()
        return {
            "key": self.key.hex(),
            "lanes": None if lanes is None else base64.b64encode(lanes).decode("ascii"),
            "columns": None if self.columns is None else self.columns.to_json(),
            "receipts": [receipt.to_json() for receipt in self.receipts()],
        }

    @classmethod
    def from_json(cls, said: Any) -> Log:
        """Return a log from JSON; a ValueError where it is none. What it says may be false: see `verify`."""
        key = bytes.fromhex(said["key"])
        if len(key) != KEY_BYTES:
            raise ValueError("the key of its receipts is not a key")
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
        columns = said.get("columns")  # Not in files of earlier versions.
        return cls(key, entries, len(entries), lanes, None if columns is None else Columns.from_json(columns))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what others have written behind the end."""
        return {**self.__dict__, "entries": self.entries[: self.count]}


# Signatures --------------------------------------------------------------------------------------------


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ImportError(f"signatures need the package cryptography: {install_line('sign')}") from None
    return serialization, ed25519


def new_key(path: str | os.PathLike[str]) -> str:
    """Make a private key, write it to a new file that only its owner can read, and return the public key.

    Parameters
    ----------
    path : path-like
        Must not exist.

    Returns
    -------
    str
        64 hexadecimal digits: publish them.
    """
    serialization, ed25519 = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text)
    return _public(key)


def _public(key: Any) -> str:
    serialization, _ = _cryptography()
    found: bytes = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return found.hex()


def signed(receipts: Iterable[Receipt], path: str | os.PathLike[str]) -> list[Receipt]:
    """Return sealed receipts with signatures of their hashes, where they have none yet.

    Parameters
    ----------
    receipts : iterable of Receipt
    path : path-like
        File with the private key, in PEM, without a password.

    Raises
    ------
    ValueError
        If the file holds no private key for Ed25519, or a receipt is not sealed.
    """
    serialization, ed25519 = _cryptography()
    try:
        key = serialization.load_pem_private_key(Path(path).read_bytes(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise ValueError(f"{os.fspath(path)}: holds no private key for Ed25519 in PEM")
    found = []
    for receipt in receipts:
        if not receipt.hash:
            raise ValueError(f"receipt {receipt.number} is not sealed: take it from receipts_")
        signature = receipt.signature or key.sign(bytes.fromhex(receipt.hash)).hex()
        found.append(receipt.but(signature=signature))
    return found


def check_signatures(receipts: Iterable[Receipt], public_key: str) -> list[str]:
    """Return which receipts are not signed, or not by this key, a sentence each.

    Parameters
    ----------
    receipts : iterable of Receipt
    public_key : str
        As `new_key` returned it.
    """
    _, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
    except ValueError:
        raise ValueError("a public key for Ed25519 has 64 hexadecimal digits") from None
    faults = []
    for receipt in receipts:
        try:
            key.verify(bytes.fromhex(receipt.signature), bytes.fromhex(receipt.hashed()))
        except (InvalidSignature, ValueError):
            how = "is not signed" if not receipt.signature else "has no valid signature of this key"
            faults.append(f"receipt {receipt.number} {how}")
    return faults
