"""The committed results of one full run: whole, of the tables as they are declared, and enough."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from squaresvm.bench import known_tables, load_table, read_results, runner
from squaresvm.bench.protocols import agreement, judge

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def results():
    return read_results(FOLDER / "papers.json")


def ours(results, table):
    return [line for line in results["tables"][table]["rows"] if not line["peer"]]


def test_files_follow_from_the_json(results):
    """The page shows what was measured: nobody edits a table by hand."""
    script = ROOT / "benchmarks" / "papers_results.py"
    spec = importlib.util.spec_from_file_location("papers_results", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, text in module.texts(results).items():
        kept = (FOLDER / name).read_text(encoding="utf-8")
        if name.endswith(".html"):  # How it is drawn is matplotlib's matter: what is drawn must be the same.
            text, kept = (re.search(r"<desc>(.*?)</desc>", picture)[1] for picture in (text, kept))
        assert kept == text, name


def test_results_are_of_the_declared_tables(results):
    """A table whose declaration changes is run again before it is released."""
    assert results["mode"] == "full"
    assert list(results["tables"]) == known_tables()
    for name in known_tables():
        table = load_table(name)
        keys = [runner.key_of(table, row, table.protocol, quick=False) for row in table.rows]
        assert [line["key"] for line in results["tables"][name]["rows"]] == keys, name


def test_verdicts_are_those_of_the_figures(results):
    for name, entry in results["tables"].items():
        table = load_table(name)
        for row, line in zip(table.rows, entry["rows"], strict=True):
            assert line["paper"] == pytest.approx(row.paper, rel=1e-5)
            if not line["peer"]:
                found = judge(row.paper, line["summary"], table.tolerance)
                assert {key: value["agrees"] for key, value in found.items()} == {
                    key: value["agrees"] for key, value in line["verdicts"].items()
                }


def test_nothing_of_ours_failed(results):
    for name in known_tables():
        assert {line["status"] for line in ours(results, name)} == {"done"}, name


@pytest.mark.parametrize("number", range(4, 9))
def test_rlssvm_tables_agree_in_both_rows(results, number):
    rows = ours(results, f"rlssvm-table-{number}")
    assert [line["work"] for line in rows] == ["linear", "Gaussian"]
    for line in rows:
        assert set(line["verdicts"]) == {"test", "support"}
        assert all(verdict["agrees"] for verdict in line["verdicts"].values())


@pytest.mark.parametrize(
    ("table", "good", "judged"),
    [("relaxed-table-1", 10, 14), ("lsvm-table-1", 5, 6), ("lsvm-table-2", 9, 9), ("lsvm-table-4", 2, 4)],
)
def test_enough_sets_agree(results, table, good, judged):
    found = agreement(results["tables"][table])
    assert found is not None
    assert found[0] >= good
    assert found[1] == judged


def test_polynomial_kernels_agree_on_liver_and_tic_tac_toe(results):
    rows = [line for line in ours(results, "lsvm-table-4") if line["data"] in ("liver", "tic-tac-toe")]
    assert len(rows) == 4
    assert all(line["verdicts"]["test"]["agrees"] for line in rows)


def test_adult_shows_converged_and_unconverged_support_vectors(results):
    """The paper counts those of its last iterate, which are more than those of the optimum."""
    rows = ours(results, "lsvm-table-2")
    optima = {line["data"]: line["summary"] for line in rows if line["label"] == "LSVM"}
    iterates = [line for line in rows if line["label"] != "LSVM"]
    assert len(optima) == len(iterates) == 9
    for line in iterates:
        for name in ("support", "support_over", "iterations"):
            assert abs(line["summary"][name]["mean"] - line["paper"][name]) <= 3, line["data"]
        assert optima[line["data"]]["support"]["mean"] < line["paper"]["support"] - 200


def test_ndc_has_two_million_rows(results):
    assert all(line["facts"]["rows"] == 2_000_000 for line in ours(results, "lsvm-table-3"))


def test_what_differs_says_why(results):
    for entry in results["tables"].values():
        for line in entry["rows"]:
            if not all(verdict["agrees"] for verdict in line["verdicts"].values()):
                assert line["differs"]


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda file: file.name)
def test_no_place_on_a_machine_is_told(file):
    assert not re.search(r"/(home|tmp|work|root|usr|var)/|[A-Z]:\\", file.read_text(encoding="utf-8"))
    assert file.stat().st_size < 1_000_000
