"""The journal: requests that were acknowledged and are not yet in a model file, in one SQLite database.

A request is in the journal, on disk, before it is answered. When a model file has been replaced by one that
holds the request, the journal forgets what the request brought: SQLite overwrites deleted content with zeros
(``secure_delete``), and we overwrite what its rollback journal still holds of those pages. What stays is the
receipt, which has counts and times and neither rows nor ids.

Files level off: receipts are kept up to a number, and what requests brought lies apart from them, so that the
next requests take its pages again. Pages that a large request leaves are given back when nothing waits: then
they hold zeros, and a move leaves no copy of anybody's rows behind.

A model file is replaced in three steps, so that a crash between any two of them is understood at the next
start: its checksum is announced here, the file takes its place, the announcement becomes what is true.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squaresvm.evidence.log import now

__all__ = ["Entry", "Journal", "JournalError"]

_SCHEMA = """
CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE models (
    name TEXT PRIMARY KEY, checksum TEXT, coming TEXT, coming_number INTEGER);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, kind TEXT NOT NULL, time TEXT NOT NULL,
    idempotency_key TEXT, body_hash BLOB, receipt TEXT NOT NULL);
CREATE INDEX by_model ON entries (model, number);
CREATE UNIQUE INDEX by_key ON entries (model, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE TABLE waiting (number INTEGER PRIMARY KEY, payload BLOB NOT NULL);
CREATE TABLE erasures (
    model TEXT, number INTEGER, time TEXT NOT NULL, PRIMARY KEY (model, number)) WITHOUT ROWID;
"""
#: Of the tables above; a journal without one has other tables.
_VERSION = 1
#: When the payload of an entry was erased: with all up to a number, for the first time.
_ERASED = (
    "(SELECT time FROM erasures WHERE model = entries.model AND erasures.number >= entries.number "
    "ORDER BY erasures.number LIMIT 1)"
)
#: Bytes that the database and its rollback journal may have too many.
_SPARE = 2**20
#: Zeros that are written at a time.
_ZEROS = bytes(2**16)


class JournalError(OSError):
    """The journal cannot be written or read: a full disk, for one. Nothing has been acknowledged."""


@dataclass(frozen=True)
class Entry:
    """One request, to learn or to forget, that was acknowledged. Numbers count those of all models."""

    number: int
    kind: str
    time: str
    #: What it asked for; None once that has been erased.
    payload: dict[str, Any] | None
    #: What it was answered with.
    receipt: dict[str, Any]
    #: When the journal forgot the payload.
    erased: str | None

    @property
    def public(self) -> dict[str, Any]:
        """The receipt with its number, as it is shown."""
        head = {"number": self.number, "kind": self.kind, "time": self.time}
        return {**head, **self.receipt, "erased": self.erased}


class Journal:
    """The journal of a folder. One process at a time; its methods may be called from any thread.

    So many receipts are kept for each model, and in any case what is not yet in a model file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from squaresvm.serve.journal import Journal
    >>> folder = tempfile.TemporaryDirectory()
    >>> journal = Journal(Path(folder.name) / "journal.sqlite")
    >>> entry = journal.append("iris", "forget", {"ids": [3]}, {"rows": 1}, key="k1", body=b"[3]")
    >>> [entry.payload for entry in journal.pending("iris")]
    [{'ids': [3]}]
    >>> journal.announce("iris", "c0ffee", entry.number)
    >>> journal.settle("iris")
    >>> journal.pending("iris"), journal.receipts("iris")[0].receipt
    ([], {'rows': 1})
    >>> journal.close(); folder.cleanup()
    """

    def __init__(self, path: Path, keep: int = 10_000) -> None:
        self._path, self._keep = path, keep
        self._lock = threading.RLock()
        with _told(path):
            self._database = sqlite3.connect(
                path, timeout=0.5, check_same_thread=False, isolation_level=None, cached_statements=64
            )
            try:
                self._prepare()
            except BaseException:
                self._database.close()  # Nobody else can: there will be no journal.
                raise

    def _prepare(self) -> None:
        os.chmod(self._path, 0o600)
        for pragma in (
            "locking_mode = EXCLUSIVE",
            "secure_delete = ON",
            "journal_mode = PERSIST",
            "synchronous = FULL",
            "temp_store = MEMORY",
        ):
            self._database.execute(f"PRAGMA {pragma}").fetchall()
        if not self._number("SELECT count(*) FROM sqlite_master"):
            self._database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
        elif self._number("PRAGMA user_version") != _VERSION:
            raise JournalError(
                f"{self._path}: written by another version of squaresvm. Serve the folder with that version "
                "and end it, so that all requests are in the model files; then move the journal away"
            )
        self._hash_key = self._secret("bodies")
        self._overwrite_leftovers()  # A server that died between an erasure and this left them.

    def _secret(self, name: str) -> bytes:
        found = self._database.execute("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()
        if found is not None:
            return bytes(found[0])
        value = secrets.token_bytes(32)
        self._database.execute("INSERT INTO secrets VALUES (?, ?)", (name, value))
        return value

    def _number(self, query: str) -> int:
        return int(self._rows(query, ())[0][0])

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """Give the database for one transaction: all of it is on disk at the end, or nothing is."""
        with self._lock, _told(self._path):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _erasure(self) -> Iterator[sqlite3.Connection]:
        """Give the database for one transaction, which nobody sees before its leftovers are overwritten."""
        with self._lock:
            with self._change() as database:
                yield database
            self._overwrite_leftovers()
            self._give_back()

    def _give_back(self) -> None:
        """Make the database smaller if much of it is empty and nothing waits, whose copies would be left."""
        unused = self._number("PRAGMA freelist_count") * self._number("PRAGMA page_size")
        if unused <= _SPARE or self._number("SELECT EXISTS (SELECT * FROM waiting)"):
            return
        with suppress(sqlite3.Error):  # No room for the copy: it stays large until the next time.
            self._database.execute("VACUUM")
        self._overwrite_leftovers()

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._lock, _told(self._path):
            return self._database.execute(query, values).fetchall()

    # Requests --------------------------------------------------------------------------------------

    def append(
        self,
        model: str,
        kind: str,
        payload: dict[str, Any],
        receipt: dict[str, Any],
        *,
        key: str | None = None,
        body: bytes = b"",
    ) -> Entry:
        """Put a request on disk; when this returns, it survives whatever happens to the process.

        The payload is all that is needed to apply it again, the receipt has neither rows nor ids; the body,
        as it came, tells whether a key is used again for something else.
        """
        time = now()
        digest = None if key is None else self._hashed(body)
        texts = json.dumps(payload).encode("ascii"), json.dumps(receipt, separators=(",", ":"))
        with self._change() as database:
            number = database.execute(
                "INSERT INTO entries (model, kind, time, idempotency_key, body_hash, receipt) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (model, kind, time, key, digest, texts[1]),
            ).lastrowid
            database.execute("INSERT INTO waiting VALUES (?, ?)", (number, texts[0]))
        assert number is not None
        return Entry(number, kind, time, payload, receipt, None)

    def answered(self, model: str, key: str, body: bytes) -> tuple[Entry, bool] | None:
        """Return what a key was answered with, and whether the body is the same; None for a new key."""
        found = self._rows(
            f"SELECT number, kind, time, NULL, receipt, {_ERASED}, body_hash FROM entries "
            "WHERE model = ? AND idempotency_key = ?",
            (model, key),
        )
        if not found:
            return None
        *values, digest = found[0]
        return _entry(values), hmac.compare_digest(bytes(digest), self._hashed(body))

    def _hashed(self, body: bytes) -> bytes:
        # Keyed: whoever finds the hash of a short request must not be able to guess what it was.
        return hmac.new(self._hash_key, body, hashlib.sha256).digest()

    def pending(self, model: str) -> list[Entry]:
        """Return the requests that are not yet in the model file, in their order."""
        found = self._rows(
            "SELECT number, kind, time, payload, receipt, NULL FROM waiting JOIN entries USING (number) "
            "WHERE model = ? ORDER BY number",
            (model,),
        )
        return [_entry(values) for values in found]

    def receipts(self, model: str, most: int = 100, before: int | None = None) -> list[Entry]:
        """Return the latest receipts, newest first; those with a number below `before`, if it is given."""
        found = self._rows(
            f"SELECT number, kind, time, NULL, receipt, {_ERASED} FROM entries "
            "WHERE model = ? AND number < ? ORDER BY number DESC LIMIT ?",
            (model, 2**62 if before is None else before, most),
        )
        return [_entry(values) for values in found]

    def discard(self, model: str) -> int:
        """Forget what is not in the model file, unapplied, and which file there was; return how many."""
        with self._erasure() as database:
            count = database.execute(
                "DELETE FROM entries WHERE model = ? AND number IN (SELECT number FROM waiting)", (model,)
            ).rowcount
            database.execute("DELETE FROM waiting WHERE number NOT IN (SELECT number FROM entries)")
            database.execute("DELETE FROM models WHERE name = ?", (model,))
        return count

    # Model files -----------------------------------------------------------------------------------

    def checksums(self, model: str) -> tuple[str | None, str | None]:
        """Return the checksum of the file that the pending requests follow, and the one announced."""
        found = self._rows("SELECT checksum, coming FROM models WHERE name = ?", (model,))
        return (None, None) if not found else (found[0][0], found[0][1])

    def adopt(self, model: str, checksum: str) -> None:
        """Take a file that somebody put into the folder for what requests follow from now on."""
        with self._change() as database:
            database.execute("INSERT OR REPLACE INTO models VALUES (?, ?, NULL, NULL)", (model, checksum))

    def announce(self, model: str, checksum: str, number: int) -> None:
        """Say that a file with this checksum, which holds all requests up to a number, will come."""
        with self._change() as database:
            database.execute(
                "INSERT INTO models VALUES (?, NULL, ?, ?) ON CONFLICT (name) DO UPDATE "
                "SET coming = excluded.coming, coming_number = excluded.coming_number",
                (model, checksum, number),
            )

    def settle(self, model: str) -> None:
        """Say that the announced file is in its place, and erase what it holds from the journal."""
        with self._erasure() as database:
            coming = database.execute(
                "SELECT coming_number FROM models WHERE name = ? AND coming IS NOT NULL", (model,)
            ).fetchone()
            if coming is None:
                raise ValueError(f"no file of {model!r} was announced")
            database.execute(
                "DELETE FROM waiting WHERE number <= ? AND number IN "
                "(SELECT number FROM entries WHERE model = ?)",
                (coming[0], model),
            )
            database.execute("INSERT OR IGNORE INTO erasures VALUES (?, ?, ?)", (model, coming[0], now()))
            database.execute(
                "UPDATE models SET checksum = coming, coming = NULL, coming_number = NULL WHERE name = ?",
                (model,),
            )
            self._drop_old_receipts(model, coming[0])

    def _drop_old_receipts(self, model: str, erased: int) -> None:
        oldest = self._database.execute(
            "SELECT number FROM entries WHERE model = ? ORDER BY number DESC LIMIT 1 OFFSET ?",
            (model, self._keep),
        ).fetchone()
        if oldest is not None:
            last = min(oldest[0], erased)
            self._database.execute("DELETE FROM entries WHERE model = ? AND number <= ?", (model, last))
            self._database.execute("DELETE FROM erasures WHERE model = ? AND number <= ?", (model, last))

    def _overwrite_leftovers(self) -> None:
        """Write zeros over SQLite's rollback journal: after a transaction it still holds pages as they were.

        Its header is zero then, which is how SQLite marks it as void, so that nobody reads the rest. Beyond
        a limit it is cut off, once the zeros are on disk.
        """
        with self._lock, _told(self._path):
            try:
                handle = os.open(f"{self._path}-journal", os.O_WRONLY)
            except FileNotFoundError:
                return
            try:
                left = os.fstat(handle).st_size
                while left > 0:
                    left -= os.write(handle, _ZEROS[:left])
                os.fsync(handle)
                os.truncate(handle, min(_SPARE, os.fstat(handle).st_size))
            finally:
                os.close(handle)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn errors of the database into one that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        if "locked" in str(error):
            raise JournalError(f"{path}: another server has this folder open") from None
        raise JournalError(f"{path}: {error}") from None
    except OSError as error:
        if isinstance(error, JournalError):
            raise
        raise JournalError(f"{path}: {error.strerror}") from None


def _entry(values: Any) -> Entry:
    number, kind, time, payload, receipt, erased = values
    return Entry(
        number, kind, time, None if payload is None else json.loads(payload), json.loads(receipt), erased
    )
