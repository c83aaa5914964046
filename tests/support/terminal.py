"""The command line as a user has it: arguments in, exit code and what was printed out."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import squaresvm
from squaresvm.cli import main


@dataclass(frozen=True)
class Printed:
    """How a command ended."""

    code: int
    out: str
    err: str


def run(monkeypatch, capfd, *arguments):
    """Run a command in this process."""
    monkeypatch.setattr(sys, "argv", ["squaresvm", *map(str, arguments)])
    capfd.readouterr()
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    out, err = capfd.readouterr()
    return Printed(code, out, err)


def run_apart(*arguments, before="", **options):
    """Run a command in a process of its own, after some lines of Python."""
    source = Path(squaresvm.__file__).resolve().parents[1]
    lines = f"{before}\nimport runpy, sys\nsys.argv = ['squaresvm', *{list(map(str, arguments))!r}]\n"
    lines += "runpy.run_module('squaresvm', run_name='__main__', alter_sys=True)\n"
    environment = {**os.environ, "PYTHONPATH": str(source), **options.pop("environment", {})}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 120, **options}
    done = subprocess.run([sys.executable, "-c", lines], env=environment, check=False, **given)
    return Printed(done.returncode, done.stdout or "", done.stderr or "")
