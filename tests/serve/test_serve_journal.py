"""The journal says that a request is erased only when no byte of it is left in any of its files."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from squaresvm.serve import journal as module
from squaresvm.serve.journal import Journal, JournalError

SECRET = "patient-4711"


def with_one_request(path: Path) -> Journal:
    journal = Journal(path)
    entry = journal.append("clinic", "forget", {"ids": [SECRET]}, {"rows": 1}, key="k", body=b"[]")
    journal.announce("clinic", "c0ffee", entry.number)
    return journal


def holds_the_secret(folder: Path) -> bool:
    return any(SECRET.encode() in path.read_bytes() for path in folder.iterdir())


def test_nobody_reads_erased_before_the_bytes_are_gone(tmp_path, monkeypatch):
    journal = with_one_request(tmp_path / "journal.sqlite")
    overwrite = Journal._overwrite_leftovers
    said_too_early = []

    def read() -> None:
        said_too_early.append(journal.receipts("clinic")[0].erased is not None and holds_the_secret(tmp_path))

    readers = []

    def slow(self: Journal) -> None:
        reader = threading.Thread(target=read)
        reader.start()
        reader.join(0.3)  # It waits for the lock, or it would have read by now.
        readers.append(reader)
        overwrite(self)

    monkeypatch.setattr(module.Journal, "_overwrite_leftovers", slow)
    journal.settle("clinic")
    for reader in readers:
        reader.join()
    assert said_too_early == [False]
    assert not holds_the_secret(tmp_path)
    journal.close()


def test_leftovers_of_a_server_that_died_while_erasing_go_when_the_journal_is_opened(tmp_path):
    script = f"""
import os
from pathlib import Path
from squaresvm.serve.journal import Journal
journal = Journal(Path({str(tmp_path)!r}) / "journal.sqlite")
entry = journal.append("clinic", "forget", {{"ids": [{SECRET!r}]}}, {{"rows": 1}}, key="k", body=b"[]")
journal.announce("clinic", "c0ffee", entry.number)
Journal._overwrite_leftovers = lambda self: os._exit(7)
journal.settle("clinic")
"""
    died = subprocess.run([sys.executable, "-c", script], env=dict(os.environ), check=False)
    assert died.returncode == 7
    assert holds_the_secret(tmp_path), "the test is void: the death came too late or too early"
    journal = Journal(tmp_path / "journal.sqlite")
    assert journal.pending("clinic") == []
    assert not holds_the_secret(tmp_path)
    journal.close()


def settled(journal: Journal, model: str) -> None:
    journal.announce(model, "c0ffee", journal.pending(model)[-1].number)
    journal.settle(model)


def sizes(folder: Path) -> list[int]:
    return sorted(path.stat().st_size for path in folder.iterdir())


def test_files_level_off_at_the_size_of_the_receipts_that_are_kept(tmp_path):
    """Half a megabyte: 400 receipts of at most 600 bytes, and pages for 25 waiting requests of 2 kB."""
    journal = Journal(tmp_path / "journal.sqlite", keep=400)
    for number in range(2000):
        request, receipt = {"records": [[0.5] * 400]}, {"rows": 1, "remaining": number, "residual": 1e-16}
        journal.append("clinic", "learn", request, receipt, key=f"key-{number}", body=b"[]")
        if number % 25 == 24:
            settled(journal, "clinic")
        assert sum(sizes(tmp_path)) < 2**19
    assert len(journal.receipts("clinic", most=1000)) == 400
    assert all(entry.erased is not None for entry in journal.receipts("clinic", most=1000))
    assert journal.answered("clinic", "key-1599", b"[]") is None
    assert journal.answered("clinic", "key-1600", b"[]")[1]
    journal.close()


def test_a_receipt_says_when_its_own_request_was_erased(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "now", iter(["t1", "t2", "t3", "t4", "t5", "t6", "t7"]).__next__)
    journal = Journal(tmp_path / "journal.sqlite")
    for model in ("clinic", "clinic", "other"):
        journal.append(model, "forget", {"ids": [1]}, {"rows": 1})  # t1, t2, t3
    settled(journal, "clinic")  # t4
    journal.append("clinic", "forget", {"ids": [2]}, {"rows": 1})  # t5
    settled(journal, "other")  # t6
    journal.announce("other", "c0ffee", 3)
    journal.settle("other")  # An anchor: nothing more is erased.
    assert [entry.erased for entry in journal.receipts("clinic")] == [None, "t4", "t4"]
    assert [entry.erased for entry in journal.receipts("other")] == ["t6"]
    assert [entry.number for entry in journal.pending("clinic")] == [4]
    journal.close()


def test_room_of_a_large_request_is_given_back_once_nothing_waits(tmp_path):
    journal = Journal(tmp_path / "journal.sqlite")
    large = {"records": [[SECRET] * 300_000]}
    journal.append("clinic", "learn", large, {"rows": 1}, key="k", body=b"[]")
    journal.append("other", "forget", {"ids": [SECRET]}, {"rows": 1})
    settled(journal, "clinic")
    assert sizes(tmp_path)[-1] > 4 * 2**20, "a move now would leave a copy of what waits behind"
    assert [entry.payload for entry in journal.pending("other")] == [{"ids": [SECRET]}]
    settled(journal, "other")
    assert sum(sizes(tmp_path)) < 2**20 + 2**16
    assert not holds_the_secret(tmp_path)
    assert journal.answered("clinic", "k", b"[]")[1]
    journal.close()


class NoRoomToCopy:
    """A database on a disk that has no room for a copy of it."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __getattr__(self, name):
        return getattr(self._database, name)

    def execute(self, query, *values):
        if query == "VACUUM":
            raise sqlite3.OperationalError("database or disk is full")
        return self._database.execute(query, *values)


def test_a_full_disk_keeps_the_room_and_erases_all_the_same(tmp_path):
    journal = Journal(tmp_path / "journal.sqlite")
    journal._database = NoRoomToCopy(journal._database)
    journal.append("clinic", "learn", {"records": [[SECRET] * 300_000]}, {"rows": 1})
    settled(journal, "clinic")
    assert journal.pending("clinic") == []
    assert journal.receipts("clinic")[0].erased is not None
    assert not holds_the_secret(tmp_path)
    journal.close()


def test_a_journal_of_another_version_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "journal.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, payload BLOB)")
    database.execute("INSERT INTO entries VALUES (1, 'not yet in a model file')")
    database.commit()
    database.close()
    before = path.read_bytes()
    with pytest.raises(JournalError, match=r"another version.* then move the journal away"):
        Journal(path)
    assert path.read_bytes() == before
