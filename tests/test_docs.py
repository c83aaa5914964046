"""The API reference lists everything public, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import squaresvm.datasets
import squaresvm.solvers
import squaresvm.streaming

API = Path(__file__).parent.parent / "docs" / "api.rst"


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
