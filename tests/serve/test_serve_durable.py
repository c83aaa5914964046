"""What was answered survives, and what was forgotten is gone from file and journal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip("uvicorn")

import squaresvm
from squaresvm.evidence.chain import check_known
from squaresvm.evidence.receipt import read_receipts
from squaresvm.serve.folder import JOURNAL_NAME, Folder
from squaresvm.serve.journal import Journal, JournalError
from squaresvm.serve.rows import Limits, RequestError
from support.server import Client, serving

MARK = 1234567.8125  # Exact in binary, and in no other row.
NAMES = ("Zeltmark77", str(MARK), f"{MARK:.4f}")


def marks_in(folder):
    """Return the files that hold the marked row, as text or as a number."""
    needles = [name.encode() for name in NAMES] + [np.float64(MARK).tobytes()]
    needles += [NAMES[0].encode("utf-32-le")]  # As NumPy writes text.
    files = [path for path in folder.iterdir() if path.is_file()]
    return [path.name for path in files if any(needle in path.read_bytes() for needle in needles)]


OPENED = []


def opened(folder, **options):
    models = Folder(folder, Limits(), save_seconds=1e9, **options)
    OPENED.append(models)
    models.open_all()
    return models


def crashed(models):
    """Let go of what the system takes from a process that is gone: the journal, and locks of files."""
    models._stopping.set()
    models._keeper.join()
    models.journal.close()
    for model in models.models.values():
        model._lock.close()


@pytest.fixture(autouse=True)
def ended():
    """End threads and connections of folders that a test left open, as the end of a process would."""
    yield
    while OPENED:
        models = OPENED.pop()
        models._stopping.set()
        if models._keeper is not None:
            models._keeper.join()
        for model in models.models.values():
            model.close()
        models.journal.close()


def change(models, kind, request, key=None):
    model = models.find("clouds")
    return model.writer.submit(model.change, kind, request, key, repr(request).encode()).result()


MARKED = {"records": [[MARK, 0.0, 1.0]], "labels": [1], "ids": [NAMES[0]]}


def test_the_journal_forgets(folder):
    with serving(folder, save_seconds=0.1) as client:
        assert client.post("/models/clouds/learn", MARKED, idempotency_key="a").status == 200
        assert marks_in(folder)
        number = client.post("/models/clouds/forget", {"ids": [NAMES[0]]}).json["number"]
        end = time.monotonic() + 20
        while client.get("/models/clouds/receipts").json["receipts"][0]["erased"] is None:
            assert time.monotonic() < end
            time.sleep(0.05)
        receipt = client.get("/models/clouds/receipts").json["receipts"][0]
        assert receipt["number"] == number
        assert marks_in(folder) == []
    assert marks_in(folder) == []


def test_the_chain_levels_off_and_what_leaves_it_is_kept(folder, tmp_path_factory):
    archive = tmp_path_factory.mktemp("archive")
    models = Folder(folder, Limits(receipts=5), save_seconds=1e9, archive=archive)
    OPENED.append(models)
    models.open_all()
    model, numbers = models.find("clouds"), []
    for number in range(20):
        numbers.append(change(models, "forget", {"ids": [f"p{number}"]})[0].receipt["chain_number"])
        if number % 3 == 2:
            assert model.writer.submit(model.save).result() is True
            assert len(squaresvm.load(folder / "clouds.model").receipts_) <= 5
    crashed(models)  # The last two are in the journal only.
    models = opened(folder)
    models.close()
    chain = squaresvm.load(folder / "clouds.model").receipts_
    kept = read_receipts(archive / "clouds.receipts.jsonl")
    assert chain[0].kind == "anchor"
    assert squaresvm.check_chain(chain) == []
    assert check_known(chain, kept) == []
    assert [one.number for one in (*kept, *chain) if one.kind == "forget"] == numbers
    assert squaresvm.verify(folder / "clouds.model").ok


def test_a_crash_while_anchoring(folder, monkeypatch):
    models = Folder(folder, Limits(receipts=1), save_seconds=1e9)
    OPENED.append(models)
    models.open_all()
    model, journal = models.find("clouds"), models.journal
    change(models, "forget", {"ids": ["p1"]})
    announce, announced = journal.announce, []

    def killed(*arguments):
        announced.append(arguments)
        if len(announced) == 2:
            raise JournalError("database or disk is full")
        announce(*arguments)

    monkeypatch.setattr(journal, "announce", killed)
    assert model.writer.submit(model.save).result() is False
    number = change(models, "forget", {"ids": ["p2"]})[0].receipt["chain_number"]
    crashed(models)
    models = opened(folder)
    models.close()
    chain = squaresvm.load(folder / "clouds.model").receipts_
    assert [one.number for one in chain if one.kind == "forget"] == [number - 1, number]
    assert squaresvm.verify(folder / "clouds.model").ok


def test_what_is_not_yet_saved_is_applied_again(folder, clouds):
    X, _ = clouds
    models = opened(folder)
    change(models, "learn", MARKED)
    change(models, "forget", {"ids": ["p1", "p2"]})
    before = models.find("clouds").view.answer(X)
    crashed(models)
    again = opened(folder)
    found = again.find("clouds")
    assert found.view.rows == 89
    assert found.unsaved == 2
    np.testing.assert_allclose(found.view.answer(X).decision, before.decision, rtol=1e-10, atol=1e-10)
    answered = again.journal.receipts("clouds")
    again.close()
    saved = squaresvm.load(folder / "clouds.model")
    assert saved.ids_.size == 89
    # The chain in the file says what was answered before the crash.
    assert squaresvm.check_chain(saved.receipts_) == []
    assert [one.time for one in saved.receipts_[-2:]] == [one.time for one in answered[::-1]]
    assert [one.residual for one in saved.receipts_[-2:]] == [
        one.receipt["residual"] for one in answered[::-1]
    ]
    assert squaresvm.verify(folder / "clouds.model").ok


@pytest.mark.parametrize("step", ["announce", "replace", "settle"])
def test_a_crash_at_each_step_of_saving(folder, monkeypatch, step):
    models = opened(folder)
    change(models, "forget", {"ids": ["p1"]})
    crash = RuntimeError("killed")

    def killed(*arguments, **options):
        raise crash

    if step == "replace":
        monkeypatch.setattr("squaresvm.serve.served.replacing", killed)
    else:
        monkeypatch.setattr(models.journal, step, killed)
    model = models.find("clouds")
    with pytest.raises(RuntimeError, match="killed"):
        model.writer.submit(model.snapshot).result()
    crashed(models)
    monkeypatch.undo()
    again = opened(folder)
    found = again.find("clouds")
    assert found.view.rows == 89  # Forgotten once, wherever the crash was.
    assert found.unsaved == (0 if step == "settle" else 1)
    again.close()
    assert squaresvm.load(folder / "clouds.model").ids_.size == 89


def test_a_full_disk_changes_nothing(folder, monkeypatch, clouds):
    X, _ = clouds
    with serving(folder) as client:
        before = client.post("/models/clouds/predict", {"records": X.tolist()}).json

        def full(*arguments, **options):
            raise JournalError("database or disk is full")

        monkeypatch.setattr(Journal, "append", full)
        refused = client.post("/models/clouds/forget", {"ids": ["p1"]})
        after = client.post("/models/clouds/predict", {"records": X.tolist()}).json
        monkeypatch.undo()
        done = client.post("/models/clouds/forget", {"ids": ["p1"]})
    assert refused.status == 507
    assert "retry-after" in refused.headers
    assert before == after
    assert done.json["remaining"] == 89


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder that is a disk of its own, with room for two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_disk_that_is_really_full(small_disk, clouds):
    X, y = clouds
    held = {f"p{i}": (X[i], int(y[i])) for i in range(y.size)}
    model = squaresvm.LSSVC(C=3.0, gamma=0.3).fit(X, y, ids=list(held))
    squaresvm.save(model, small_disk / "clouds.model")
    refused, rng = [], np.random.default_rng(2)

    def learn(client, number):
        rows = {f"d{number}-{i}": (rng.normal(size=3), i % 3) for i in range(20)}
        records, labels = [row.tolist() for row, _ in rows.values()], [label for _, label in rows.values()]
        reply = client.post("/models/clouds/learn", {"records": records, "labels": labels, "ids": list(rows)})
        if reply.status == 200:
            held.update(rows)
        else:
            refused.append((reply.status, int(reply.headers["retry-after"])))
        return reply.status

    def check(client):
        rows, labels = np.array([row for row, _ in held.values()]), [label for _, label in held.values()]
        found = client.post("/models/clouds/predict", {"records": X[:9].tolist()}).json["decision"]
        expected = squaresvm.LSSVC(C=3.0, gamma=0.3).fit(rows, labels).decision_function(X[:9])
        np.testing.assert_allclose(found, expected, atol=1e-9)

    with serving(small_disk, save_seconds=0.1) as client:
        (small_disk / "filler").write_bytes(bytes(1800 * 1024))
        for number in range(300):
            learn(client, number)
            if len(refused) == 5:
                break
        assert set(refused) == {(507, 30)}, "the disk did not fill up"
        check(client)
        forgotten = client.post("/models/clouds/forget", {"ids": ["p0"]})
        if forgotten.status == 200:  # It is short, and may have found room.
            del held["p0"]
        check(client)
    with serving(small_disk, save_seconds=0.1) as client:  # Still full: what was not saved was acknowledged.
        check(client)
        (small_disk / "filler").unlink()
        assert learn(client, "after") == 200
        check(client)
        assert client.get("/models/clouds/verify").json["ok"]
    assert sorted(squaresvm.load(small_disk / "clouds.model").ids_.tolist()) == sorted(held)


def test_a_file_that_cannot_be_written_stays_in_the_journal(folder, monkeypatch):
    models = opened(folder)
    change(models, "forget", {"ids": ["p1"]})
    model = models.find("clouds")

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("squaresvm.serve.served.replacing", full)
    assert model.writer.submit(model.save).result() is False
    assert model.unsaved == 1
    monkeypatch.undo()
    assert model.writer.submit(model.save).result() is True
    assert (model.unsaved, model.fault) == (0, None)
    models.close()


def test_a_file_that_somebody_replaces_is_taken(folder, clouds):
    X, y = clouds
    models = opened(folder)
    squaresvm.save(squaresvm.LSSVC().fit(X[:50], y[:50]), folder / "clouds.model", overwrite=True)
    model = models.find("clouds")
    model.writer.submit(model.look).result()
    assert model.view.rows == 50
    models.close()


@pytest.mark.parametrize("running", [True, False])
def test_a_replaced_file_never_drops_an_acknowledged_request_in_silence(folder, clouds, running):
    X, y = clouds
    models = opened(folder)
    change(models, "forget", {"ids": ["p1"]})
    if not running:
        crashed(models)
    squaresvm.save(squaresvm.LSSVC().fit(X[:50], y[:50]), folder / "other")
    os.replace(folder / "other", folder / "clouds.model")  # By somebody who asks for no lock.
    if running:
        model = models.find("clouds")
        model.writer.submit(model.look).result()
        models.close()
    else:
        models = opened(folder)
        model = models.find("clouds")
        models.close()
    assert model.view is None
    assert "1 acknowledged request" in model.fault
    journal = Journal(folder / JOURNAL_NAME)
    assert journal.discard("clouds") == 1
    journal.close()
    models = opened(folder)
    assert models.find("clouds").view.rows == 50
    models.close()


def test_the_server_and_others_who_change_the_file_take_turns(folder):
    def forget_in_the_file():
        with squaresvm.locked(folder / "clouds.model"):
            model = squaresvm.load(folder / "clouds.model")
            model.forget(["p2"])
            squaresvm.save(model, folder / "clouds.model")

    models = opened(folder)
    model = models.find("clouds")
    with pytest.raises(RequestError, match="nobody"):
        change(models, "forget", {"ids": ["nobody"]})
    with squaresvm.locked(folder / "clouds.model"):
        pass  # A request that was refused keeps nobody out.
    change(models, "forget", {"ids": ["p1"]})
    other = threading.Thread(target=forget_in_the_file)
    other.start()
    other.join(0.3)
    assert other.is_alive()  # It waits until the file has the request.
    assert model.writer.submit(model.save).result()
    other.join()
    entry, _ = change(models, "forget", {"ids": ["p3"]})  # Of the file as it is now, looked at or not.
    assert entry.receipt["remaining"] == 87
    assert model.fault is None
    models.close()
    held = squaresvm.load(folder / "clouds.model").ids_.tolist()
    assert held == [f"p{i}" for i in range(90) if i not in (1, 2, 3)]


def test_others_wait_for_requests_of_a_server_that_died(folder):
    models = opened(folder)
    change(models, "forget", {"ids": ["p1"]})
    crashed(models)
    again = opened(folder)
    model = again.find("clouds")
    assert model.unsaved == 1
    waiting = threading.Event()

    def save_beside():
        with squaresvm.locked(folder / "clouds.model"):
            waiting.set()

    other = threading.Thread(target=save_beside)
    other.start()
    assert not waiting.wait(0.3)
    assert model.writer.submit(model.save).result()
    assert waiting.wait(20)
    other.join()
    again.close()


def test_one_server_a_folder(folder):
    models = opened(folder)
    with pytest.raises(JournalError, match="another server"):
        Journal(folder / JOURNAL_NAME)
    models.close()


def test_damaged_files_and_odd_names_do_not_stop_the_others(folder):
    (folder / "broken.model").write_bytes(b"squaresvm model\n" + bytes(100))
    (folder / "..model").write_bytes(b"")
    (folder / "a b.model").write_bytes(b"")
    models = opened(folder)
    assert sorted(models.models) == ["broken", "clouds"]
    assert models.find("broken").fault is not None
    assert not models.is_ready
    models.close()


def test_a_server_of_an_empty_folder_says_so_and_ends_when_it_is_asked_to(tmp_path):
    command = [sys.executable, "-m", "squaresvm", "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (0, -signal.SIGTERM)
    assert lines[0].startswith("Serving ")
    assert "no file *.model" in lines[1]


def test_kill_9(folder):
    """Kill a real server right after an answer; the next has what was answered."""
    command = [sys.executable, "-m", "squaresvm", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        client = Client(int(line.split("127.0.0.1:")[1].split("/")[0]))
        client.wait_until_ready()
        assert client.post("/models/clouds/learn", MARKED).status == 200
        assert client.post("/models/clouds/forget", {"ids": ["p5"]}).json["remaining"] == 90
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert squaresvm.load(folder / "clouds.model").ids_.size == 90  # As it was: all else is in the journal.
    models = opened(folder)
    held = models.find("clouds").view.estimator.ids_.tolist()
    models.close()
    assert NAMES[0] in held
    assert "p5" not in held
