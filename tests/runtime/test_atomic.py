"""Files that are replaced: whole or not at all, with all that they had but their contents."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from squaresvm.runtime import atomic

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="rights, links and signals of POSIX")


@pytest.fixture(params=["without a name", "with a name"])
def system(request, monkeypatch):
    """Systems that have files without a name, and others."""
    if request.param == "with a name":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return request.param


def replace(path, content=b"new"):
    with atomic.replacing(path) as file:
        file.write(content)


def replace_by_halves(path, first, second):
    with atomic.replacing(path) as file:
        file.write(first)
        file.flush()
        file.write(second)


def names_in(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_leftovers_of_the_killed_are_removed(tmp_path):
    (tmp_path / ".a.model.xyz.part").write_bytes(b"rows of somebody")
    (tmp_path / ".b.model.xyz.part").write_bytes(b"of another file")
    with atomic.replacing(tmp_path / "a.model") as file:
        file.write(b"new")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".b.model.xyz.part", "a.model"]


def test_one_who_is_still_writing_is_left_alone(tmp_path):
    path = tmp_path / "a.model"
    with atomic.replacing(path) as slow:
        slow.write(b"slow")
        with atomic.replacing(path) as fast:
            fast.write(b"fast")
        assert path.read_bytes() == b"fast"
    assert path.read_bytes() == b"slow"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.model"]


def test_lock_waits_for_the_file_that_is_there_at_last(tmp_path):
    path, order = tmp_path / "a.model", []
    path.write_text("0")

    def add():
        for _ in range(20):
            with atomic.locked(path):
                value = int(path.read_text())
                with atomic.replacing(path) as file:
                    file.write(str(value + 1).encode())
        order.append(threading.get_ident())

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(order) == 3
    assert path.read_text() == "60"


def test_a_new_file_and_one_that_is_replaced(system, tmp_path):
    replace(tmp_path / "a", b"one")
    assert (tmp_path / "a").read_bytes() == b"one"
    replace(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert names_in(tmp_path) == ["a"]


def test_whoever_fails_leaves_the_former_file(system, tmp_path):
    replace(tmp_path / "a", b"old")
    with pytest.raises(TypeError, match="bytes-like"):
        replace_by_halves(tmp_path / "a", b"half", "no bytes")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names_in(tmp_path) == ["a"]


def test_rights_are_those_of_the_former_file_or_of_the_umask(system, tmp_path):
    path = tmp_path / "a"
    replace(path)
    with open(tmp_path / "usual", "wb"):
        usual = stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == usual
    for mode in (0o600, 0o640, 0o777):
        path.chmod(mode)
        replace(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_the_umask_is_never_touched(system, tmp_path, monkeypatch):
    """Another thread would make files of rights that nobody wanted."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask is set"))
    replace(tmp_path / "a")
    replace(tmp_path / "a")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(system, tmp_path):
    path = tmp_path / "a"
    replace(path)
    os.chown(path, 12345, 54321)
    path.chmod(0o640)
    replace(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 54321, 0o640)


def test_extended_attributes_stay(system, tmp_path):
    path = tmp_path / "a"
    replace(path)
    try:
        os.setxattr(path, "user.note", b"kept")
    except (OSError, AttributeError):
        pytest.skip("the file system has no extended attributes")
    replace(path)
    assert os.getxattr(path, "user.note") == b"kept"


def test_symbolic_links_stay(system, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    replace(tmp_path / "a", b"one")
    replace(tmp_path / "link", b"two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"two"


def test_hard_links_are_told_of_before_anything_is_written(system, tmp_path):
    replace(tmp_path / "a", b"with the row")
    os.link(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UserWarning, match=r"a has 1 other name \(hard links\), which keep"):
        replace(tmp_path / "a", b"without")
    assert (tmp_path / "a").read_bytes() == b"with the row"
    with pytest.warns(UserWarning, match="hard links"):
        replace(tmp_path / "a", b"without")
    assert (tmp_path / "a").read_bytes() == b"without"
    assert (tmp_path / "b").read_bytes() == b"with the row"


def test_devices_and_pipes_are_written_to(system, tmp_path):
    replace(os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    reader, writer = os.pipe()
    replace(f"/dev/fd/{writer}", b"through")
    assert os.read(reader, 10) == b"through"
    os.close(reader)
    os.close(writer)


def test_folders_are_refused_by_name(system, tmp_path):
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        replace(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        replace(tmp_path / "nowhere" / "a")


@pytest.fixture
def no_large_files():
    """A limit of 64 kB a file, beyond which writes fail as they do on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, former)


@pytest.mark.usefixtures("no_large_files")
def test_a_full_disk_is_told_with_the_name_of_the_file(system, tmp_path):
    replace(tmp_path / "a", b"old")
    with pytest.raises(OSError, match=str(tmp_path / "a")) as caught:
        replace(tmp_path / "a", bytes(2**20))
    assert caught.value.errno == errno.EFBIG
    with pytest.raises(OSError, match=str(tmp_path / "a")):
        replace(tmp_path / "a", bytes(2**16) + b"what stays in the buffer until the end")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names_in(tmp_path) == ["a"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_an_error_at_the_end_is_told_with_the_name_of_the_file(number, system, tmp_path, monkeypatch):
    replace(tmp_path / "a", b"old")

    def fail(handle):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=str(tmp_path / "a")) as caught:
        replace(tmp_path / "a")
    assert caught.value.errno == number
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names_in(tmp_path) == ["a"]


WRITES = """
import os, sys, time
if sys.argv[2] == "with a name" and hasattr(os, "O_TMPFILE"):
    del os.O_TMPFILE
from squaresvm.runtime import atomic
with atomic.replacing(sys.argv[1]) as file:
    file.write(b"a secret row")
    file.flush()
    print("written", flush=True)
    time.sleep(60)
"""


def test_a_process_that_is_ended_in_the_middle_leaves_no_rows(system, tmp_path):
    replace(tmp_path / "a", b"old")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITES, str(tmp_path / "a"), system]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    assert names_in(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_lock_holds_while_the_file_is_replaced(tmp_path):
    path, order = tmp_path / "a", []
    path.write_text("0")

    def other():
        with atomic.locked(path):
            order.append(path.read_text())

    with atomic.locked(path):
        replace(path, b"1")
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.2)
        with atomic.locked(path):  # By the same thread: no wait for itself.
            replace(path, b"2")
        assert order == []
    thread.join()
    assert order == ["2"]


def test_nothing_is_left_open(system, tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    for _ in range(5):
        with atomic.locked(tmp_path / "a"):
            replace(tmp_path / "a", np.random.default_rng(0).bytes(1000))
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before
