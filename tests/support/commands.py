"""Commands run in the process of the tests, those that must be refused too, and tables for them."""

from __future__ import annotations

import json

import numpy as np
from typer.testing import CliRunner

from squaresvm.cli.app import app

GOOD = "a,b,label\n" + "".join(f"{i % 5},{'xy'[i % 2]},{'pq'[i % 3 == 0]}\n" for i in range(20))


def run(*arguments, code=0):
    """Run a command in this process; return what it printed."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


def told(*arguments, code=0):
    """Return the JSON that a command printed."""
    return json.loads(run(*arguments, "--json", code=code).stdout)


def people(count, seed=0, towns=("Ulm", "Bonn")):
    """Return lines of a CSV with ids, numbers, a category and a label."""
    rng = np.random.default_rng(seed)
    lines = ["name,age,town,income,label"]
    for i in range(count):
        age, town, income = rng.uniform(18, 80), rng.choice(towns), rng.normal(3000, 700)
        label = "yes" if age / 40 + (town == "Ulm") + rng.normal() > 1.6 else "no"
        lines.append(f"p{seed}-{i},{age:.2f},{town},{income:.1f},{label}")
    return lines


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(folder, *arguments):
    """Run a command that must fail; return its one line."""
    before = snapshot(folder)
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)  # And nothing that would print a traceback.
    assert done.stdout == ""
    assert snapshot(folder) == before
    (line,) = done.stderr.splitlines()
    assert line.startswith("squaresvm: ")
    return line.removeprefix("squaresvm: ")


def put(folder, content):
    path = folder / "bad"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
