"""docs/algorithms.rst says where each paper's algorithm stands, and no more than stands there."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

import pytest

from squaresvm.solvers.choose import SOLVERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "algorithms.rst").read_text(encoding="utf-8")
NUMBERS = re.compile(r"(?<![\w`\])])\((\d{1,2})\)(?:-\((\d{1,2})\))?")
#: What the five papers call their algorithms.
NAMED = {
    *("2SMO", "SesquiSMO", "SUMT", "exact penalty", "substitution", "proximal SVM", "LS-SVM", "VC dimension"),
    *("Lagrangian SVM", "implicit Lagrangian", "DOLSVM", "DBLSVM", "DOLSSVM", "DBLSSVM", "RLSSVM"),
}


def numbers_in(text):
    """Return the equation numbers that a text names, ranges written out."""
    found = set()
    for first, last in NUMBERS.findall(text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def rows():
    """Return the rows of the page's table: algorithm, how to ask for it, files, equations."""
    table = PAGE.split(".. list-table::")[1].split("\n\n", 1)[1].split("\n\n")[0]
    cells = [re.findall(r"^ *- (.*(?:\n {7}.*)*)", row, re.M) for row in table.split("   * ")[2:]]
    return [[" ".join(cell.split()) for cell in row] for row in cells]


ROWS = rows()


def files_of(row):
    return [ROOT / "src" / "squaresvm" / name for name in re.findall(r"``(\S+\.py)``", row[2])]


def beside_lines(file):
    """Return the equation numbers in the comments of a file."""
    with tokenize.open(file) as stream:
        tokens = tokenize.generate_tokens(stream.readline)
        return numbers_in(" ".join(token.string for token in tokens if token.type == tokenize.COMMENT))


def test_the_table_names_every_algorithm_of_the_papers():
    listed = " ".join(row[0] for row in ROWS)
    assert {name for name in NAMED if name.lower() not in listed.lower()} == set()
    for row in ROWS:
        assert set(re.findall(r'solver="(\S+?)"', row[1])) <= set(SOLVERS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].split(",")[0])
def test_equations_stand_beside_the_lines(row):
    claimed, marked = numbers_in(row[3]), set().union(*map(beside_lines, files_of(row)))
    assert claimed, row
    assert claimed - marked == set()


@pytest.mark.parametrize(
    "file", sorted({file for row in ROWS for file in files_of(row)}), ids=lambda f: f.name
)
def test_no_number_stands_there_that_the_table_lacks(file):
    claimed = set().union(*(numbers_in(row[3]) for row in ROWS if file in files_of(row)))
    assert beside_lines(file) - claimed == set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].split(",")[0])
def test_the_first_line_of_the_first_file_names_the_algorithm(row):
    text = ast.get_docstring(ast.parse(files_of(row)[0].read_text(encoding="utf-8")))
    named = [name for name in NAMED if row[0].lower().startswith(name.lower())]
    assert named
    assert all(name.lower() in text.splitlines()[0].lower() for name in named)


def test_the_text_names_no_equation_that_no_file_has():
    told = numbers_in(PAGE.split(".. list-table::", 1)[1])
    files = {file for row in ROWS for file in files_of(row)}
    assert told - set().union(*(numbers_in(file.read_text(encoding="utf-8")) for file in files)) == set()


@pytest.mark.parametrize(
    "name",
    [
        *("two_smo", "sesqui_smo", "smo", "_loops", "sumt", "penalty_flow", "substitution", "direct"),
        *("lagrangian", "active_set", "active_set_search"),
    ],
)
def test_a_file_says_where_it_corrects_its_paper(name):
    assert "Correction" in (ROOT / "src" / "squaresvm" / "solvers" / f"{name}.py").read_text(encoding="utf-8")
