"""The API reference lists everything public, and sessions on the pages are what the commands say."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

import squaresvm.datasets
import squaresvm.solvers
import squaresvm.streaming
from squaresvm.cli.app import app

ROOT = Path(__file__).parents[2]
API = ROOT / "docs" / "api.rst"
COMMAND_LINE = ROOT / "docs" / "command_line.rst"
#: What differs from run to run: times and rounding, which also decides which class is the worst.
VARIES = re.compile(
    r"[\d.]+ m?s\b|(?<=residual )[\d.e+-]+|(?<=gap )(below )?[\d.e+-]+|(?<=objective )[\d.e+-]+"
    r"|(?<=worst, )'\w+'|\b\d\.\d+e[+-]\d+|(?<=proof of )\d+|\b[0-9a-f]{64}\b"
)


def listed():
    """Return the names that docs/api.rst lists, by module."""
    found, module = {}, None
    for line in API.read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r" {3}(\w+)", line):
            found.setdefault(module, []).append(match[1])
    return found


@pytest.mark.parametrize("module", [squaresvm, squaresvm.solvers, squaresvm.datasets, squaresvm.streaming])
def test_the_reference_lists_what_is_public(module):
    public = [name for name in module.__all__ if not name.startswith("_")]
    assert sorted(listed()[module.__name__]) == sorted(public)


def sessions(text):
    """Return the commands that a page shows, each with the lines of its output."""
    found = []
    for line in text.splitlines():
        if line.startswith("    $ squaresvm "):
            found.append((line.removeprefix("    $ squaresvm "), []))
        elif found and line.startswith("    ") and found[-1][1] is not None:
            found[-1][1].append(line[4:])
        elif found and not line.strip():
            found.append(("", None))  # Between blocks.
    return [(command, lines) for command, lines in found if command]


@pytest.mark.parametrize("page", ["README.md", "docs/command_line.rst"])
def test_sessions_are_real(tmp_path, monkeypatch, page):
    """Run every command of a page, in its order, and compare all that is said."""
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    code = COMMAND_LINE.read_text(encoding="utf-8").split(".. code-block:: python\n")[1].split("\nTrain")[0]
    # The README trains on all bottles.
    code = code if page.startswith("docs") else code.replace("table[:170]", "table")
    exec(textwrap.dedent(code), {})
    shown = sessions(text)
    assert len(shown) >= 4
    for command, lines in shown:
        if not lines:  # A command that is named only.
            continue
        said = [
            VARIES.sub("#", line)
            for line in CliRunner().invoke(app, shlex.split(command)).output.splitlines()
        ]
        parts = "\n".join(VARIES.sub("#", line) for line in lines).split("...")
        text = "\n".join(said)
        if len(parts) == 1:
            assert text == parts[0]
        assert text.startswith(parts[0].rstrip("\n"))
        for part in parts[1:]:  # What is left out stands for any lines; the rest is there, in its order.
            assert part.strip("\n") in text
            text = text[text.index(part.strip("\n")) :]
