"""The journal says that a request is erased only when no byte of it is left in any of its files."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from squaresvm.serve import journal as module
from squaresvm.serve.journal import Journal

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
