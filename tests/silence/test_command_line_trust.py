"""The command line and the edges of the package."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, Window
from squaresvm.streaming import ArraySource
from support.hands import in_child
from support.terminal import run, run_apart

M = 30
BIG = 1234567890123456789


def numbers():
    rng = np.random.default_rng(0)
    return rng.normal(size=(M, 2))


def labels():
    return np.where(numbers()[:, 0] > 0, "a", "b")


def csv(path, rows, header="x,z,label"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def plain(path):
    return csv(path, [f"{a},{b},{label}" for (a, b), label in zip(numbers(), labels(), strict=True)])


@pytest.fixture
def shell(monkeypatch, capfd, tmp_path):
    """Return a function that runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(monkeypatch, capfd, *arguments)


@pytest.fixture
def model(shell, tmp_path):
    assert shell("train", plain(tmp_path / "q.csv"), "-o", "q.model").code == 0
    return tmp_path / "q.model"


class TestLargeIntegers:
    @staticmethod
    def table(path, **columns):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"x": numbers()[:, 0], "z": numbers()[:, 1], **columns}), path)

    def test_ids_are_kept_to_the_last_digit(self, shell, tmp_path):
        self.table(tmp_path / "a.parquet", id=[BIG + i for i in range(M)], label=labels())
        trained = shell("train", "a.parquet", "-o", "a.model", "--id", "id", "--label", "label")
        assert trained.code == 0, trained.err
        assert shell("forget", "a.model", "--ids", BIG + 3).code == 0
        assert BIG + 3 not in [int(name) for name in squaresvm.load("a.model").ids_]
        assert squaresvm.load("a.model").ids_.size == M - 1

    def test_labels_do_not_merge(self, shell, tmp_path):
        self.table(tmp_path / "a.parquet", label=[2**60 + int(value > 0) for value in numbers()[:, 0]])
        trained = shell("train", "a.parquet", "-o", "a.model", "--label", "label")
        assert trained.code == 0, trained.err
        assert sorted(int(label) for label in squaresvm.load("a.model").classes_) == [2**60, 2**60 + 1]


class TestMissingValues:
    @pytest.mark.parametrize("cell", ["NAN", "-nan", "Nan"])
    def test_are_refused_however_they_are_written(self, cell, shell, tmp_path):
        rows = [
            f"{a if i else cell},{b},{label}"
            for i, ((a, b), label) in enumerate(zip(numbers(), labels(), strict=True))
        ]
        csv(tmp_path / "a.csv", rows)
        trained = shell("train", "a.csv", "-o", "a.model", "--missing", "refuse")
        assert trained.code == 2
        assert re.search(r"a\.csv, line 2", trained.err)

    def test_are_no_class(self, shell, tmp_path):
        rows = [
            f"{a},{b},{label if i else 'NAN'}"
            for i, ((a, b), label) in enumerate(zip(numbers(), labels(), strict=True))
        ]
        csv(tmp_path / "a.csv", rows)
        trained = shell("train", "a.csv", "-o", "a.model")
        assert trained.code == 2
        assert "line 2" in trained.err

    def test_a_column_of_one_row_leaves_with_it(self, shell, tmp_path):
        rows = [
            f"{a},{b},{7654.321 if i == 4 else ''},{label}"
            for i, ((a, b), label) in enumerate(zip(numbers(), labels(), strict=True))
        ]
        csv(tmp_path / "a.csv", rows, header="x,z,rare,label")
        assert shell("train", "a.csv", "-o", "a.model", "--missing", "mean").code == 0
        assert shell("forget", "a.model", "--ids", 4).code == 0
        raw = (tmp_path / "a.model").read_bytes()
        assert b"7654.321" not in raw
        assert np.float64(7654.321).tobytes() not in raw


class TestForgettingFromAFile:
    def test_a_hard_link_that_keeps_the_row_is_told(self, shell, model, tmp_path):
        os.link(model, tmp_path / "other.model")
        done = shell("forget", "q.model", "--ids", 7)
        kept = 7 in squaresvm.load(tmp_path / "other.model").ids_
        assert not kept or "link" in done.err + done.out

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
    def test_root_leaves_the_owner_as_it_was(self, shell, model):
        os.chown(model, 1234, 1234)
        assert shell("forget", "q.model", "--ids", 8).code == 0
        assert (model.stat().st_uid, model.stat().st_gid) == (1234, 1234)

    def test_extended_attributes_stay(self, shell, model):
        try:
            os.setxattr(model, "user.note", b"kept")
        except OSError:
            pytest.skip("the file system has no extended attributes")
        assert shell("forget", "q.model", "--ids", 9).code == 0
        assert "user.note" in os.listxattr(model)

    def test_an_end_by_sigterm_leaves_no_part(self, model, tmp_path):
        before = sorted(entry.name for entry in tmp_path.iterdir())

        def ended():
            os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGTERM)
            sys.argv = ["squaresvm", "forget", "q.model", "--ids", "3"]
            squaresvm.cli.main()

        assert in_child(ended) == "fails"
        assert sorted(entry.name for entry in tmp_path.iterdir()) == before

    def test_underscores_are_no_digits(self, shell, model):
        done = shell("forget", "q.model", "--ids", "1_0")
        assert done.code == 2
        assert "1_0" in done.err
        assert 10 in squaresvm.load(model).ids_

    @pytest.mark.parametrize("written", [("--ids=--5",), ("--ids", "--5")], ids=["joined", "apart"])
    def test_ids_that_look_like_options_can_be_forgotten(self, written, shell, tmp_path):
        rows = [
            f"{'--5' if i == 5 else f'r{i}'},{a},{b},{label}"
            for i, ((a, b), label) in enumerate(zip(numbers(), labels(), strict=True))
        ]
        csv(tmp_path / "a.csv", rows, header="name,x,z,label")
        assert shell("train", "a.csv", "-o", "a.model", "--id", "name").code == 0
        done = shell("forget", "a.model", *written)
        assert done.code == 0, done.err
        assert squaresvm.load("a.model").ids_.size == M - 1


class TestOutput:
    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_a_request_that_succeeded_says_so_by_its_code(self, model):
        with open("/dev/full", "w") as full:
            done = run_apart("forget", model, "--ids", 3, stdout=full)
        assert 3 not in squaresvm.load(model).ids_
        assert done.code == 0, done.err

    def test_may_go_to_the_device_of_standard_output(self, model):
        done = run_apart("predict", model, model.with_name("q.csv"), "-o", "/dev/stdout")
        assert done.code == 0, done.err
        assert len(done.out.split()) >= M

    def test_a_full_disk_names_the_file(self, model, tmp_path):
        small = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
        done = run_apart("train", tmp_path / "q.csv", "-o", tmp_path / "big.model", before=small)
        assert done.code == 2
        assert "big.model" in done.err

    def test_terminal_escapes_in_labels_are_not_printed_raw(self, shell, tmp_path):
        red = "\x1b[31mred"
        csv(tmp_path / "a.csv", [f"{a},{b},{red if a > 0 else 'b'}" for a, b in numbers()])
        trained, inspected = shell("train", "a.csv", "-o", "a.model"), shell("inspect", "a.model")
        assert trained.code == inspected.code == 0
        assert "\x1b" not in trained.out + inspected.out

    def test_an_interrupt_during_imports_gives_no_traceback(self, tmp_path):
        interrupting = (
            "import sys\n"
            "class Interrupt:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name == 'numpy':\n"
            "            raise KeyboardInterrupt\n"
            "sys.meta_path.insert(0, Interrupt())\n"
        )
        done = run_apart("train", "a.csv", before=interrupting)
        assert done.code != 0
        assert "Traceback" not in done.err


class TestLibsvmText:
    @pytest.mark.parametrize(
        ("first", "more"), [("# a comment\n", ""), ("", " qid:3")], ids=["comment", "qid"]
    )
    def test_is_known_by_any_first_line(self, first, more, shell, tmp_path):
        lines = [f"{1 if a > 0 else -1}{more} 1:{a} 2:{b}" for a, b in numbers()]
        (tmp_path / "a.txt").write_text(first + "\n".join(lines) + "\n")
        trained = shell("train", "a.txt", "-o", "a.model")
        assert trained.code == 0, trained.err
        assert squaresvm.load("a.model").n_features_in_ == 2

    def test_one_large_index_takes_no_memory(self, tmp_path):
        lines = [f"{1 if a > 0 else -1} 1:{a} 2:{b}" for a, b in numbers()]
        (tmp_path / "a.txt").write_text("\n".join(lines) + "\n1 2147483646:1\n")
        (tmp_path / "b.txt").write_text("\n".join(lines) + "\n")
        bounded = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))"
        model = tmp_path / "a.model"
        trained = run_apart("train", tmp_path / "a.txt", "-o", model, "--kernel", "linear", before=bounded)
        assert trained.code == 0 or "column" in trained.err, trained.err
        if trained.code == 0:
            predicted = run_apart("predict", model, tmp_path / "b.txt", before=bounded)
            assert predicted.code == 0, predicted.err


class TestOutOfRange:
    """Numbers beyond what float64 can square: a clear ValueError, never NaN or an error of arithmetic."""

    @staticmethod
    def assert_refused_or_finite(model, X, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model.fit(X, y)
            except ValueError:
                return
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_).all()

    @pytest.mark.parametrize("cls", [LSSVC, LSSVR])
    def test_streams(self, cls):
        X = numbers()
        y = (X[:, 0] > 0).astype(float)
        X[0, 0] = 1e300
        self.assert_refused_or_finite(cls(kernel="linear"), ArraySource(X, y), None)

    def test_large_cells_of_the_hinge(self):
        X = numbers()
        self.assert_refused_or_finite(RLSSVC(kernel="linear"), X * 1e80, X[:, 0] > 0)

    @pytest.mark.parametrize("C", [1e100, 1e150])
    def test_a_large_C_of_the_hinge_of_three_classes(self, C):
        X = numbers()
        self.assert_refused_or_finite(RLSSVC(kernel="linear", C=C), X, np.digitize(X[:, 0], [-0.4, 0.4]))


def test_a_window_can_be_flushed():
    X = numbers()
    window = Window(LSSVC(), size=20).fit(X, X[:, 0] > 0)
    before = window.decision_function(X)
    window.learn(X[:1], X[:1, 0] > 0)
    window.forget([window.ids_[-1]])
    assert window.flush() is window
    assert np.abs(window.decision_function(X) - before).max() < 1.0


class TestInstallation:
    def test_compiled_solvers_need_no_place_to_write(self, tmp_path):
        """No __pycache__ beside the package and no home: what is compiled is then not cached, and works."""
        package = Path(squaresvm.__file__).parent
        shutil.copytree(package, tmp_path / "squaresvm", ignore=shutil.ignore_patterns("__pycache__"))
        for folder in [tmp_path / "squaresvm", *(tmp_path / "squaresvm").rglob("*")]:
            if folder.is_dir():
                (folder / "__pycache__").write_text("a file where the cache would be a folder")
        nowhere = {"PYTHONPATH": str(tmp_path), "HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null"}
        data = plain(tmp_path / "a.csv")
        arguments = ("train", data, "-o", tmp_path / "a.model", "--estimator", "relaxed", "--solver", "2smo")
        done = run_apart(*arguments, environment={**nowhere, "PYTHONDONTWRITEBYTECODE": "1"})
        assert done.code == 0, done.err

    @pytest.mark.parametrize(("package", "lowest"), [("typer", (0, 16)), ("dask", (2025, 4, 1))])
    def test_lower_bounds_are_those_that_work(self, package, lowest):
        root = Path(squaresvm.__file__).resolve().parents[2]
        if not (root / "pyproject.toml").exists():
            pytest.skip("needs the checkout")
        extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        found = [
            re.fullmatch(rf"{package}(\[.*\])?>=([\d.]+)", one) for group in extras.values() for one in group
        ]
        bounds = [tuple(int(part) for part in match[2].split(".")) for match in found if match]
        assert bounds
        assert all(bound >= lowest for bound in bounds)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_a_worker_of_the_bench_does_not_outlive_its_parent(tmp_path):
    """The parent is killed, so nothing of it can clean up; the worker has to notice by itself."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, time\n"
        "from squaresvm.bench.runner import Worker\n"
        "if __name__ == '__main__':\n"
        "    worker = Worker(None)\n"
        "    worker._started()\n"
        "    print(worker._process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert runs(child)
        parent.kill()
    deadline = time.monotonic() + 60
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(child)


def runs(process):
    """Return whether a process is there and is no zombie that waits to be collected."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
