"""The committed results of one full run: whole, of the tables as they are declared, and judged in full."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from squaresvm.bench import known_tables, load_table, read_results, runner
from squaresvm.bench.report import verdict
from squaresvm.bench.verdicts import agreement, judge

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


def test_summaries_are_those_of_the_values(results):
    for entry in results["tables"].values():
        for line in entry["rows"]:
            for name, values in line.get("values", {}).items():
                assert line["summary"][name]["mean"] == pytest.approx(np.mean(values), rel=1e-4, abs=1e-9)


def test_verdicts_are_those_of_the_figures(results):
    """Each cell that the paper prints and a tolerance is stated for, ours and the peers', finished or not."""
    for name, entry in results["tables"].items():
        table = load_table(name)
        for row, line in zip(table.rows, entry["rows"], strict=True):
            assert line["paper"] == pytest.approx(row.paper, rel=1e-5)
            declared = set(row.paper) & set(table.tolerance)
            found = judge(row.paper, line["summary"], table.tolerance)
            assert set(found) == set(line["verdicts"]) == declared, (name, line["label"])
            for cell, judged in found.items():
                kept = line["verdicts"][cell]
                assert judged["agrees"] == kept["agrees"]
                assert judged["allowed"] == pytest.approx(kept["allowed"], rel=1e-4)


def test_the_page_tells_how_many_cells_agree(results):
    """Counted here once more, from the means and the declarations alone."""
    with open(FOLDER / "overview.csv", newline="", encoding="utf-8") as file:
        told = {title: words for title, words in list(csv.reader(file))[1:]}
    for name, entry in results["tables"].items():
        table, good, judged = load_table(name), 0, 0
        for row, line in zip(table.rows, entry["rows"], strict=True):
            for cell in set(row.paper) & set(table.tolerance):
                if line["peer"]:
                    continue
                rule, printed = table.tolerance[cell], row.paper[cell]
                allowed = max(
                    rule.points,
                    rule.percent / 100 * abs(printed),
                    rule.deviations * row.paper.get(f"{cell}_std", 0.0),
                )
                measured = line["summary"].get(cell, {}).get("mean", np.inf)
                judged += 1
                good += bool(abs(measured - printed) <= allowed + 1e-9)
        words = told[entry["title"]]
        assert words == verdict(entry)
        if judged:
            assert f"{good} of {judged} cells agree" in words, name
            assert words.startswith("Reproduces") == (good == judged), name


def test_nothing_of_ours_failed_and_what_is_unfinished_counts_against(results):
    unfinished = [
        (name, line) for name in known_tables() for line in ours(results, name) if line["status"] != "done"
    ]
    assert {(name, line["data"], line["work"]) for name, line in unfinished} <= {
        ("rlssvm-table-3", "a1a", "Gaussian"),
        ("rlssvm-table-3", "w1a", "Gaussian"),
    }
    for _, line in unfinished:
        assert line["status"] == "limit"
        assert line["verdicts"]
        assert not any(cell["agrees"] for cell in line["verdicts"].values())


@pytest.mark.parametrize("number", range(4, 9))
def test_rlssvm_tables_agree_in_both_rows(results, number):
    rows = [line for line in ours(results, f"rlssvm-table-{number}") if line["label"] == "RLSSVM"]
    assert [line["work"] for line in rows] == ["linear", "Gaussian"]
    for line in rows:
        assert set(line["verdicts"]) == {"test", "train", "support"}
        assert all(cell["agrees"] for cell in line["verdicts"].values())
        assert line["summary"]["iterations"]["mean"] <= 10.0  # "No more than 10 iterations".


def test_a_tolerance_is_no_outcome(results):
    """No table may say how many of its cells have to agree."""
    for entry in results["tables"].values():
        assert "at_least" not in entry
        found = agreement(entry)
        assert found is None or found.good <= found.judged


def test_the_larger_class_is_called_so(results):
    same = [line for line in ours(results, "relaxed-table-1") if line["data"] == "hepatitis"]
    assert len(same) == 3
    for line in same:
        assert line["summary"]["constant"]["mean"] == 100.0
    assert "predicting the larger class" in verdict(results["tables"]["relaxed-table-1"])


@pytest.mark.parametrize("table", ["relaxed-fig-1", "relaxed-fig-2"])
def test_the_plain_rule_shows_the_papers_curve_over_a(results, table):
    """Time falls with A, and levels off; a bias kept apart hides that."""
    for label in ("2SMO", "SesquiSMO"):
        plain = [line for line in ours(results, table) if line["label"] == f"{label}, plain"]
        sweeps = [line["summary"]["iterations"]["mean"] for line in plain]
        assert [line["at"]["A"] for line in plain] == sorted(line["at"]["A"] for line in plain)
        assert sweeps == sorted(sweeps, reverse=True)
        assert sweeps[0] > 20 * sweeps[-1]
        best = [
            line["summary"]["iterations"]["mean"] for line in ours(results, table) if line["label"] == label
        ]
        assert max(best) < 0.2 * sweeps[0]


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
    for table in ("lsvm-table-3", "lsvm-dry-run"):
        assert all(line["facts"]["rows"] == 2_000_000 for line in ours(results, table))


def test_what_differs_says_why(results):
    for entry in results["tables"].values():
        for line in entry["rows"]:
            if not all(cell["agrees"] for cell in line["verdicts"].values()):
                assert line["differs"], (entry["title"], line["data"], line["label"])


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda file: file.name)
def test_no_place_on_a_machine_is_told(file):
    assert not re.search(r"/(home|tmp|work|root|usr|var)/|[A-Z]:\\", file.read_text(encoding="utf-8"))
    assert file.stat().st_size < 1_000_000
