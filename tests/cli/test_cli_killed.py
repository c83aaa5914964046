"""Commands killed at random moments: the model file is always the old one or the new one, and loads."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import warnings

import numpy as np
import pytest

import squaresvm
from squaresvm.runtime import atomic

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

#: Enough that the file takes a while to write.
ROWS, COLUMNS = 300, 40


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Data to train on and to learn, and a model."""
    folder = tmp_path_factory.mktemp("killed")
    rng = np.random.default_rng(0)
    names = ",".join(f"x{j}" for j in range(COLUMNS))
    for name, count in (("data.csv", ROWS), ("more.csv", 20)):
        X = rng.normal(size=(count, COLUMNS))
        lines = [",".join(f"{v:.6f}" for v in row) + f",{'ab'[int(row[0] > 0)]}" for row in X]
        (folder / name).write_text(f"{names},label\n" + "\n".join(lines) + "\n")
    assert finished(folder, "train", folder / "data.csv", "-o", folder / "start.model") == 0
    return folder


def started(folder, *arguments):
    """Start a command in a forked process, which has all modules loaded already; return its id."""
    with warnings.catch_warnings():
        # The child does all of its work in one thread.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    try:
        os.chdir(folder)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        from squaresvm.cli.app import app

        sys.argv = ["squaresvm", *map(str, arguments)]
        try:
            app()
        except SystemExit as stopped:
            os._exit(stopped.code or 0)
    finally:
        os._exit(99)


def finished(folder, *arguments):
    _, status = os.waitpid(started(folder, *arguments), 0)
    return os.waitstatus_to_exitcode(status)


def commands(folder, model):
    return {
        "train": ("train", folder / "data.csv", "-o", model, "--factor", "--force"),
        "learn": ("learn", model, folder / "more.csv", "--factor"),
        "forget": ("forget", model, "--ids", "3,17,200", "--factor"),
    }


def kill_often(files, folder, command, times):
    """Kill a command `times` times; return how often the file was the old one, and how often the new one."""
    model, old = folder / "a.model", (files / "start.model").read_bytes()
    held = {"train": ROWS, "learn": ROWS + 20, "forget": ROWS - 3}[command]
    arguments = commands(files, model)[command]
    model.write_bytes(old)
    begin = time.perf_counter()
    assert finished(folder, *arguments) == 0
    took = time.perf_counter() - begin
    clock, seen = random.Random(0), {"old": 0, "new": 0}
    for _ in range(times):
        model.write_bytes(old)
        child = started(folder, *arguments)
        time.sleep(clock.uniform(0.0, 1.1 * took))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        loaded = squaresvm.load(model)
        is_old = model.read_bytes() == old
        assert is_old or loaded.ids_.size == held
        assert loaded.certificate_.status == "converged"
        seen["old" if is_old else "new"] += 1
    with atomic.replacing(model) as file:  # The next who writes removes what the killed have left.
        file.write(old)
    assert [entry.name for entry in folder.iterdir()] == ["a.model"]
    return seen


@pytest.mark.parametrize("command", ["train", "learn", "forget"])
def test_killed_a_few_times(files, tmp_path, command):
    seen = kill_often(files, tmp_path, command, 4)
    assert sum(seen.values()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "learn", "forget"])
def test_killed_200_times(files, tmp_path, command):
    seen = kill_often(files, tmp_path, command, 200)
    assert min(seen.values()) > 0, seen
