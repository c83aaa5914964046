"""What judges stands by itself, and is as short as the page says: a reader must be able to check it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import squaresvm

ROOM = Path(squaresvm.__file__).parent / "verifier"
MATHEMATICS = ROOM / "mathematics"
PAGE = Path(__file__).parents[2] / "docs" / "checking.rst"
#: What may be imported from elsewhere, beside Python's own library; of this package only names of types.
MAY_IMPORT = {"numpy", "scipy.sparse", "squaresvm.typing"}
PYTHON = {"__future__", "collections.abc", "dataclasses", "decimal", "functools", "math", "typing"}


def imported(path):
    """Return the modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def lines(path):
    return len(path.read_text(encoding="utf-8").splitlines())


def rounded(count):
    return 10 * round(count / 10)


def test_the_mathematics_imports_numpy_and_scipy_alone():
    own = {f"squaresvm.verifier.mathematics.{path.stem}" for path in MATHEMATICS.glob("*.py")}
    found = {module for path in MATHEMATICS.glob("*.py") for module in imported(path)}
    assert found - PYTHON - own == MAY_IMPORT


def test_the_names_of_types_are_names_alone():
    tree = ast.parse((ROOM.parent / "typing.py").read_text(encoding="utf-8"))
    assert not any(isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda) for node in ast.walk(tree))


def test_the_page_states_how_many_lines_there_are():
    stated = re.findall(r"^   \* - ``(\w+)``\n     - (\d+)\n", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    inner, outer = (
        {path.stem: lines(path) for path in room.glob("*.py") if path.stem != "__init__"}
        for room in (MATHEMATICS, ROOM)
    )
    counts = {**inner, "mathematics": sum(inner.values()), **outer}
    assert {name: int(count) for name, count in stated} == {n: rounded(c) for n, c in counts.items()}
