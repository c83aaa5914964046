"""The runner of the papers' tables: on a tiny table, through failures, kills and comparisons."""

from __future__ import annotations

import copy
import html
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from squaresvm import bench
from squaresvm.bench import (
    TableFileError,
    compare_results,
    known_tables,
    load_table,
    read_results,
    runner,
    write_reports,
)
from squaresvm.bench.data import load_data
from squaresvm.bench.methods import is_peer, make_method
from squaresvm.bench.pictures import curves
from squaresvm.bench.runner import InProcess
from squaresvm.cli.app import app
from squaresvm.runtime.extras import install_line

TINY = """
title = "A tiny <table>"
paper = "Nobody 1999"
where = "Table 0"
tuned_on_test = true
remarks = ["made up"]
protocol = { kind = "splits", train = 60, repeats = 3, seed = 5 }
quick = { repeats = 1 }
[tolerance]
test = { points = 20 }
support = { percent = 1 }
[data.board]
make = { generator = "checkerboard", n_samples = 90, n_squares = 2, random_state = 1 }
prepare = ["standardise"]
[data.absent]
files = ["absent.csv"]
[[rows]]
data = "board"
work = "rbf"
method = "RLSSVC"
parameters = { C = 3.0, gamma = 0.5 }
options = { picture = true }
paper = { test = 95.0, support = 1000 }
[[rows]]
data = "board"
work = "rbf"
method = "sklearn.SVC on K + I/C"
parameters = { C = 3.0, gamma = 0.5 }
[[rows]]
data = "board"
work = "bad"
method = "LSSVC"
parameters = { C = -1.0 }
[[rows]]
data = "absent"
method = "LSSVC"
[[rows]]
data = "board"
method = "LSSVC"
quick = false
vary = { C = [0.1, 10.0] }
paper = { seconds = [1.0, 2.0] }
[plot]
x = "C"
"""


def run_tables(tables, **options):
    """Run tables in this process, unless a test is about the other one."""
    return bench.run_tables(tables, **{"isolated": False, **options})


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def results(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    return run_tables([load_table(tiny)], data=folder, output=folder)


def lines(results, table="tiny"):
    return results["tables"][table]["rows"]


def test_every_table_loads_and_names_its_source():
    assert len(known_tables()) >= 5
    for name in known_tables():
        table = load_table(name)
        assert "(" in table.paper, name
        assert table.where.split()[0] in ("Table", "Tables", "Fig.", "Figs.", "Section"), name
        assert any(not is_peer(row.method) for row in table.rows), name
        used = {row.data for row in table.rows}
        assert used == set(table.data), name


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('where = "Table 0"', "", "'where' is missing"),
        ("[tolerance]", "[tolerence]", "unknown key 'tolerence'"),
        ('kind = "splits"', 'kind = "guess"', "must be one of splits"),
        ("train = 60, ", "", "splits need 'train'"),
        ("repeats = 3", "repeats = 0", "above 0; got 0"),
        ('["standardise"]', '["polish"]', "unknown step 'polish'"),
        ('method = "RLSSVC"', 'method = "RLSVC"', "row 1: no method 'RLSVC'"),
        ('data = "absent"\nmethod', 'data = "gone"\nmethod', "row 4: no data set 'gone'"),
        ("support = 1000", 'support = "many"', "must be a number; got 'many'"),
        ("support = 1000", "weight = 1", "'weight' of 'paper' is not a measure"),
        ("seconds = [1.0, 2.0]", "seconds = [1.0]", "'vary' has more"),
        ("points = 20", "point = 20", "unknown key 'point'"),
        ('files = ["absent.csv"]', "", "give one of 'files', 'make' and 'X'"),
        ('title = "A tiny <table>"', "title = 3", "must be of type str; got 3"),
        ("tuned_on_test = true", "tuned_on_test = ", "Invalid value"),
    ],
)
def test_a_wrong_table_says_where(tmp_path, old, new, words):
    assert old in TINY
    path = tmp_path / "wrong.toml"
    path.write_text(TINY.replace(old, new, 1))
    with pytest.raises(TableFileError, match=r"wrong\.toml") as caught:
        load_table(path)
    assert words in str(caught.value)


def test_an_unknown_table_is_named():
    with pytest.raises(TableFileError, match="no table 'rlssvm-table-99'; there are: "):
        load_table("rlssvm-table-99")


def test_rows_are_measured_and_failures_are_rows(results):
    ours, peer, bad, absent, small, large = lines(results)
    assert [line["status"] for line in lines(results)] == ["done"] * 2 + ["failed", "missing"] + ["done"] * 2
    assert len(ours["values"]["test"]) == 3
    assert ours["summary"]["test"]["mean"] == pytest.approx(np.mean(ours["values"]["test"]))
    assert ours["summary"]["test"]["std"] == pytest.approx(np.std(ours["values"]["test"], ddof=1))
    # The same splits for both, and the same optimum.
    assert ours["values"]["test"] == peer["values"]["test"]
    assert ours["values"]["support"] == peer["values"]["support"]
    assert "C must be" in bad["reason"]
    assert "absent.csv" in absent["reason"]
    assert (small["parameters"]["C"], large["parameters"]["C"]) == (0.1, 10.0)
    assert (small["paper"]["seconds"], large["paper"]["seconds"]) == (1.0, 2.0)
    assert ours["verdicts"]["test"]["agrees"]
    assert not ours["verdicts"]["support"]["agrees"]
    assert peer["verdicts"] == {}


def test_splits_are_those_of_the_seed(results, tiny):
    """The testing rate equals one computed here by hand."""
    table = load_table(tiny)
    X, y = load_data(table.data["board"], None).train
    order = np.random.default_rng([5, 1]).permutation(90)
    train, test = order[:60], order[60:]
    mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
    model = make_method("RLSSVC", {"C": 3.0, "gamma": 0.5}).fit((X[train] - mean) / spread, y[train])
    expected = 100 * model.score((X[test] - mean) / spread, y[test])
    assert lines(results)[0]["values"]["test"][1] == pytest.approx(expected)


def test_reports_hold_everything(results, tmp_path):
    page, text = (path.read_text() for path in write_reports(results, tmp_path))
    for report in (page, text):
        for words in ("Nobody 1999", "Table 0", "no estimate of error", "made up", "mean 0 and variance 1"):
            assert words in report
        for words in ("absent.csv", "C must be", "numpy", "test agrees", "support differs", "scikit-learn"):
            assert words in report
        assert "Does not reproduce in full: 1 of 2 cells agree" in report
    assert "A tiny &lt;table&gt;" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "src=" not in page
    assert page.count('<svg class="square"') == 1
    assert page.count("<desc>LSSVC: 0.1 ") == 1
    assert "; paper: LSSVC: 0.1 1, 10 2</desc>" in page
    body = page[page.index("<main>") : page.index("</main>") + len("</main>")]
    ElementTree.fromstring(body.replace("&nbsp;", " "))  # Every element is closed.


def test_quick_mode_leaves_long_rows_out(tiny, tmp_path):
    found = run_tables([load_table(tiny)], data=None, output=tmp_path, quick=True)
    assert [line["status"] for line in lines(found)][-2:] == ["left out"] * 2
    assert len(lines(found)[0]["values"]["test"]) == 1


def test_finished_rows_are_kept(tiny, tmp_path, results):
    """Times cannot be the same by chance: a row with the same seconds was not run again."""
    table = load_table(tiny)
    first = run_tables([replace(table, rows=table.rows[:2])], data=None, output=tmp_path)
    second = run_tables([table], data=None, output=tmp_path)
    assert [line["values"] for line in lines(first)] == [line["values"] for line in lines(second)[:2]]
    changed = replace(table, rows=(replace(table.rows[0], parameters={"C": 4.0, "gamma": 0.5}),))
    third = run_tables([changed], data=None, output=tmp_path)
    assert lines(third)[0]["values"]["seconds"] != lines(first)[0]["values"]["seconds"]


def test_other_tables_stay_in_the_file(tiny, tmp_path):
    """A long run can be done table by table: the second call must not lose what the first has done."""
    table = load_table(tiny)
    one = replace(table, name="one", rows=table.rows[:1])
    two = replace(table, name="two", rows=table.rows[1:2])
    first = run_tables([one], data=None, output=tmp_path)
    run_tables([two], data=None, output=tmp_path)
    both = run_tables([one, two], data=None, output=tmp_path)
    assert lines(both, "one")[0]["values"] == lines(first, "one")[0]["values"]


def test_a_row_may_have_fewer_repeats(tiny, tmp_path):
    table = load_table(tiny)
    row = replace(table.rows[0], options={"repeats": 2})
    found = run_tables([replace(table, rows=(row,))], data=None, output=tmp_path)
    assert len(lines(found)[0]["values"]["test"]) == 2


def test_another_environment_starts_anew(tiny, tmp_path):
    table = load_table(tiny)
    table = replace(table, rows=table.rows[:1])
    first = run_tables([table], data=None, output=tmp_path)
    file = tmp_path / "results.json"
    content = json.loads(file.read_text())
    content["environment"]["packages"]["numpy"] = "1.0"
    file.write_text(json.dumps(content))
    assert lines(run_tables([table], data=None, output=tmp_path))[0]["values"] != lines(first)[0]["values"]


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_a_killed_run_goes_on(tiny, tmp_path):
    """Kill the command once its first rows are on disk; the next run keeps them and leaves no parts."""
    head, first, second = TINY.split("[[rows]]")[:3]
    head = head.replace("n_samples = 90", "n_samples = 4000").replace(
        '[data.absent]\nfiles = ["absent.csv"]', ""
    )
    head = head.replace("train = 60, repeats = 3", "train = 3000, repeats = 200")
    quickly = '\ndata = "board"\nwork = "first"\nmethod = "LSSVC"\nparameters = { kernel = "linear" }\n'
    path = tmp_path / "slow.toml"
    path.write_text("[[rows]]".join([head, quickly, first, second]))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "squaresvm", "bench", str(path), "-o", str(out)]
    running = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL)
    file = out / "results.json"
    deadline = time.monotonic() + 300  # Of waiting, on a machine that others use.
    while not file.is_file() and time.monotonic() < deadline and running.poll() is None:
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    before = lines(read_results(file), "slow")
    assert [line["work"] for line in before] == ["first"]
    table = load_table(path)
    after = run_tables([replace(table, rows=table.rows[:1])], data=None, output=out)
    assert lines(after, "slow")[0]["values"] == before[0]["values"]
    assert sorted(entry.name for entry in out.iterdir()) == ["results.json"]


@pytest.mark.slow  # Two processes start.
def test_a_row_that_takes_too_long_is_ended(tiny, tmp_path):
    table = load_table(tiny)
    board = replace(
        table.data["board"], make={"generator": "checkerboard", "n_samples": 4000, "random_state": 0}
    )
    endless = replace(table.rows[0], limit=0.5, options={})
    table = replace(
        table,
        data={**table.data, "board": board},
        protocol={**table.protocol, "train": 3000, "repeats": 1000},
        rows=(endless, replace(table.rows[3])),
    )
    found = lines(run_tables([table], data=None, output=tmp_path, isolated=True))
    assert [line["status"] for line in found] == ["limit", "missing"]
    assert found[0]["reason"] == "ended after 0.5 s"


def test_comparing_finds_what_became_worse(results):
    assert compare_results(results, results)[0] == []
    old, new = copy.deepcopy(results), copy.deepcopy(results)
    for run, seconds in ((old, 1.0), (new, 3.0)):
        lines(run)[0]["summary"]["seconds"]["median"] = 0.1 * seconds
        lines(run)[1]["summary"]["seconds"]["median"] = 0.2
    lines(new)[0]["summary"]["test"]["mean"] -= 0.6
    lines(new)[4].update(status="failed", reason="broke")
    changes, compared = compare_results(old, new)
    assert compared == 5
    assert [change.kind for change in changes] == ["less accurate", "slower", "failed"]
    assert "1.5 of the time of sklearn.SVC on K + I/C, was 0.5" in changes[1].text
    # A machine that is three times slower for both is no loss.
    lines(new)[1]["summary"]["seconds"]["median"] = 0.6
    assert [change.kind for change in compare_results(old, new)[0]] == ["less accurate", "failed"]
    with pytest.raises(ValueError, match="quick mode"):
        compare_results({**old, "mode": "quick"}, new)


def test_the_command(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "Worker", InProcess)  # The process of its own is tested elsewhere.

    def run(*arguments):
        return CliRunner().invoke(app, ["bench", *map(str, arguments)])

    done = run(tiny, "-o", tmp_path / "out", "--quick")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "report.html").is_file()
    better = read_results(tmp_path / "out" / "results.json")
    lines(better)[0]["summary"]["test"]["mean"] += 5
    (tmp_path / "old.json").write_text(json.dumps(better))
    worse = run(tiny, "-o", tmp_path / "out", "--quick", "--compare", tmp_path / "old.json", "--json")
    assert worse.exit_code == 1
    assert [change["kind"] for change in json.loads(worse.stdout)["worse"]] == ["less accurate"]
    for arguments, words in (
        ((tiny, "--data", tmp_path / "gone"), "no such folder"),
        ((tiny, "-o", tiny), "is a file"),
        (("nothing",), "no table 'nothing'"),
        ((tiny, "-o", tmp_path / "new", "--compare", tmp_path / "old.json"), "quick mode"),
        ((tiny, "--compare", tiny), "is not JSON"),
    ):
        bad = run(*arguments)
        assert bad.exit_code == 2
        assert words in bad.stderr
    assert not (tmp_path / "new").exists()


def test_quick_mode_does_not_judge(tiny, tmp_path):
    found = run_tables([load_table(tiny)], data=tmp_path, output=tmp_path, quick=True)
    assert all(line["verdicts"] == {} for line in lines(found))


def test_tables_come_in_the_order_of_their_numbers():
    names = known_tables()
    assert names.index("rlssvm-table-9") < names.index("rlssvm-table-10")


def test_what_differs_says_why(results):
    """The row's support vectors are not the paper's made-up 1,000."""
    found = copy.deepcopy(results)
    first = lines(found)[0]
    assert "support differs (" in bench.report.markdown_report(found)
    assert "for a reason not known" in bench.report.markdown_report(found)
    first["differs"] = "nobody counted."
    assert ", because nobody counted." in bench.report.markdown_report(found)
    first["verdicts"]["support"]["agrees"] = True
    assert "nobody counted" not in bench.report.markdown_report(found)


def test_a_plot_has_round_ticks_and_the_paper_dashed_in_our_colour():
    svg = curves(
        {"2SMO": [(1, 0.21), (2, 0.48)], "paper: 2SMO": [(1, 0.3), (2, 0.4)]},
        x_name="rows",
        y_name="seconds < 1",
        log_x=False,
    )
    root = ElementTree.fromstring(svg)
    texts = {text.text for text in root.iter("text")}
    assert {"0.3", "0.4", "1.2", "1.6", "rows", "seconds < 1", "2SMO", "paper: 2SMO"} <= texts
    styles = [path.get("style") for path in root.iter("path") if path.get("clip-path")]
    ours, papers = (style for style in styles if "var(--accent)" in style)
    assert "stroke-dasharray" in papers
    assert "stroke-dasharray" not in ours
    assert root.find("desc").text == "2SMO: 1 0.21, 2 0.48; paper: 2SMO: 1 0.3, 2 0.4"


def test_curves_of_nothing_are_nothing():
    assert curves({"a": []}, x_name="C", y_name="seconds") == ""
    assert curves({"a": [(1.0, 0.0)]}, x_name="C", y_name="seconds") == ""
    assert "<desc>a: 1 2, 1 2</desc>" in curves({"a": [(1.0, 2.0), (1.0, 2.0)]}, x_name="C", y_name="s")


def test_a_report_without_matplotlib_says_what_its_pictures_need(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = bench.report.html_report(results)
    assert "<svg" not in page
    assert html.escape(install_line("plot")) in page
    assert "Nobody 1999" in page
