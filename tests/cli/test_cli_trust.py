"""What the command line once did wrong in silence, or told in words that nobody understands."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest
from typer.testing import CliRunner

import squaresvm
from squaresvm.cli.app import app
from squaresvm.cli.console import INTERRUPTED, OUTPUT_LOST

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

LARGE = 1_234_567_890_123_456_789
SVM = "".join(f"{1 - 2 * (i % 2)} 1:{i % 5} 2:{(i * 7) % 3}.5\n" for i in range(20))
CSV = "a,b,label\n" + "".join(f"{i % 5},{'xy'[i % 2]},{'pq'[i % 3 == 0]}\n" for i in range(20))


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


def process(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "squaresvm", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.fixture
def model(tmp_path):
    """A model of twenty rows of a table."""
    (tmp_path / "rows.csv").write_text(CSV)
    run("train", tmp_path / "rows.csv", "-o", tmp_path / "m")
    return tmp_path / "m"


class TestNumbers:
    def write(self, path, **columns):
        parquet.write_table(pyarrow.table(columns), path)
        return path

    def test_large_ids_of_parquet_are_held_and_forgotten(self, tmp_path):
        ids = [LARGE + i for i in range(12)]
        data = self.write(tmp_path / "d", id=ids, x=[float(i % 4) for i in range(12)], label=["p", "q"] * 6)
        run("train", data, "--id", "id", "-o", tmp_path / "m")
        assert squaresvm.load(tmp_path / "m").ids_.tolist() == ids
        run("forget", tmp_path / "m", "--ids", LARGE + 5)
        assert squaresvm.load(tmp_path / "m").ids_.tolist() == ids[:5] + ids[6:]

    def test_large_labels_of_parquet_stay_apart(self, tmp_path):
        labels = [LARGE + i % 3 for i in range(12)]
        data = self.write(tmp_path / "d", x=[float(i % 3) for i in range(12)], label=labels)
        run("train", data, "-o", tmp_path / "m")
        model = squaresvm.load(tmp_path / "m")
        assert model.classes_.tolist() == [LARGE, LARGE + 1, LARGE + 2]
        assert model.classes_.dtype == np.int64
        assert run("predict", tmp_path / "m", data).stdout.split() == [str(label) for label in labels]

    def test_large_numbers_are_features(self, tmp_path):
        data = self.write(tmp_path / "d", x=[LARGE + i * 10**15 for i in range(12)], label=["p", "q"] * 6)
        run("train", data, "-o", tmp_path / "m")
        assert squaresvm.load(tmp_path / "m").n_features_in_ == 1

    @pytest.mark.parametrize("cell", ["NAN", "-nan", "Nan", "+NaN"])
    def test_nan_is_missing_however_it_is_written(self, tmp_path, cell):
        data = tmp_path / "d"
        data.write_text(f"a,label\n1,p\n2,q\n{cell},p\n")
        said = run("train", data, "-o", tmp_path / "m", code=2).stderr
        assert "line 4: column 'a' holds no value" in said
        data.write_text(f"a,label\n1,p\n2,q\n3,{cell}\n")
        said = run("train", data, "-o", tmp_path / "m", code=2).stderr
        assert "line 4: the label column 'label' holds no value" in said

    @pytest.mark.parametrize("odd", ["--5", "1_0", "²", "+3", "07"])
    def test_ids_that_look_like_numbers(self, tmp_path, odd):
        data = tmp_path / "d"
        data.write_text("id,x,label\n" + "".join(f"{i},{i % 4},{'pq'[i % 2]}\n" for i in range(1, 12)))
        run("train", data, "--id", "id", "-o", tmp_path / "whole")
        before = (tmp_path / "whole").read_bytes()
        said = run("forget", tmp_path / "whole", "--ids", odd, code=2).stderr
        assert f"no row with id {odd!r} is held" in said
        assert (tmp_path / "whole").read_bytes() == before
        data.write_text(data.read_text() + f"{odd},1,p\n")
        run("train", data, "--id", "id", "-o", tmp_path / "text")
        run("forget", tmp_path / "text", "--ids", odd)
        assert odd not in squaresvm.load(tmp_path / "text").ids_.tolist()


class TestLibsvm:
    @pytest.mark.parametrize("start", ["# made by hand\n", "\n# a\n# b\n"])
    def test_comments_and_qids(self, tmp_path, start):
        (tmp_path / "plain").write_text(SVM)
        (tmp_path / "odd").write_text(start + SVM.replace(" 1:", " qid:3 1:"))
        for name in ("plain", "odd"):
            run("train", tmp_path / name, "-o", tmp_path / f"{name}.model")
        one, other = (squaresvm.load(tmp_path / f"{name}.model") for name in ("plain", "odd"))
        assert np.array_equal(one._state.rows.X.toarray(), other._state.rows.X.toarray())

    @pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian"])
    def test_one_large_index_takes_no_memory(self, tmp_path, kernel):
        (tmp_path / "d").write_text(SVM)
        run("train", tmp_path / "d", "-o", tmp_path / "m", "--kernel", kernel)
        (tmp_path / "near").write_text("1 1:2 3:1 7:2\n-1 2:1\n")
        (tmp_path / "far").write_text("1 1:2 1000:1 67108864:2\n-1 2:1\n")
        near = run("predict", tmp_path / "m", tmp_path / "near", "--proba").stdout
        tracemalloc.start()
        try:
            far = run("predict", tmp_path / "m", tmp_path / "far", "--proba").stdout
            assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
        finally:
            tracemalloc.stop()
        assert far == near

    @pytest.mark.parametrize("command", ["train", "learn", "predict"])
    def test_the_largest_index_is_stated(self, tmp_path, command):
        (tmp_path / "d").write_text(SVM)
        run("train", tmp_path / "d", "-o", tmp_path / "m")
        (tmp_path / "huge").write_text("1 1:1\n-1 2147483646:1\n")
        rest = ["-o", tmp_path / "new"] if command == "train" else []
        first = [] if command == "train" else [tmp_path / "m"]
        said = run(command, *first, tmp_path / "huge", *rest, code=2).stderr
        assert said == (
            f"squaresvm: {tmp_path / 'huge'}, line 2: the index of '2147483646:1' is beyond the largest, "
            "67108864, that a column can have\n"
        )


class TestFiles:
    def test_a_file_that_grows_too_large_is_named(self, tmp_path, model):
        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        place = tmp_path / "new"
        job = process("train", tmp_path / "rows.csv", "-o", place, preexec_fn=limited)
        said = job.communicate(timeout=120)[1]
        assert (job.returncode, said) == (2, f"squaresvm: {place}: file too large\n")
        assert not place.exists()

    @pytest.mark.parametrize("number", ["ENOSPC", "EIO"])
    def test_a_full_or_broken_disk_is_named(self, tmp_path, model, monkeypatch, number):
        import errno

        code = getattr(errno, number)

        def broken(handle):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr("os.fsync", broken)
        for place, arguments in {
            model: ("forget", model, "--ids", 3),
            tmp_path / "new": ("train", tmp_path / "rows.csv", "-o", tmp_path / "new"),
            tmp_path / "out": ("predict", model, tmp_path / "rows.csv", "-o", tmp_path / "out"),
            tmp_path / "page": ("inspect", model, "--html", tmp_path / "page"),
        }.items():
            said = run(*arguments, code=2).stderr
            assert said == f"squaresvm: {place}: {os.strerror(code).lower()}\n"

    def test_standard_output_as_a_file(self, tmp_path, model):
        plain = run("predict", model, tmp_path / "rows.csv").stdout
        for name in ("-", "/dev/stdout"):
            assert run("predict", model, tmp_path / "rows.csv", "-o", name).stdout == plain
            done = run("train", tmp_path / "rows.csv", "-o", name)
            (tmp_path / "piped").write_bytes(done.stdout_bytes)
            assert run("predict", tmp_path / "piped", tmp_path / "rows.csv").stdout == plain
            assert "leave-one-out" in done.stderr
            assert "-o" in run("train", tmp_path / "rows.csv", "-o", name, "--json", code=2).stderr

    def test_labels_do_not_steer_a_terminal(self, tmp_path):
        escape, shown = "\x1b[31mred\x07", "\\x1b[31mred\\x07"
        data = tmp_path / "d"
        data.write_text("x,id,label\n" + "".join(f"{i},{escape}{i},{escape}{i % 2}\n" for i in range(20)))
        for arguments in (
            ("train", data, "--id", "id", "-o", tmp_path / "m"),
            ("inspect", tmp_path / "m"),
            ("forget", tmp_path / "m", "--ids", f"{escape}3"),
        ):
            done = run(*arguments)
            assert "\x1b" not in done.stdout + done.stderr
            assert shown in done.stdout or arguments[0] == "forget"
        said = run("forget", tmp_path / "m", "--ids", f"{escape}99", code=2).stderr
        assert "\x1b" not in said
        assert run("predict", tmp_path / "m", data).stdout.startswith(escape)  # A pipe gets what is.

    def test_a_column_that_no_row_fills_leaves_nothing(self, tmp_path):
        value = 7654321.125
        lines = [f"{i % 5},{value if i == 3 else ''},{'pq'[i % 2]}" for i in range(20)]
        (tmp_path / "one").write_text("a,rare,label\n" + "\n".join(lines) + "\n")
        said = run("train", tmp_path / "one", "--missing", "mean", "-o", tmp_path / "m").stderr
        assert "column 'rare' is left out" in said
        run("forget", tmp_path / "m", "--ids", 3)
        assert str(value).encode() not in (tmp_path / "m").read_bytes()
        lines[5] = f"0,{value + 2},q"
        (tmp_path / "two").write_text("a,rare,label\n" + "\n".join(lines) + "\n")
        run("train", tmp_path / "two", "--missing", "mean", "-o", tmp_path / "m", "--force")
        assert str(value + 1).encode() in (tmp_path / "m").read_bytes()  # The mean.
        said = run("forget", tmp_path / "m", "--ids", "3,5").stderr
        assert "column 'rare': every row has the imputed mean" in said
        assert str(value + 1).encode() not in (tmp_path / "m").read_bytes()
        assert squaresvm.load(tmp_path / "m").n_features_in_ == 1
        run("predict", tmp_path / "m", tmp_path / "two")

    def test_means_that_are_not_scaled_are_announced(self, tmp_path):
        lines = [f"{i % 5},{100 + i if i in (3, 5) else ''},{'pq'[i % 2]}" for i in range(20)]
        (tmp_path / "d").write_text("a,rare,label\n" + "\n".join(lines) + "\n")
        run("train", tmp_path / "d", "--missing", "mean", "--no-scale", "-o", tmp_path / "m")
        said = run("forget", tmp_path / "m", "--ids", "3,5").stderr
        assert "column 'rare': every row has the imputed mean" in said
        assert "train anew" in said


class TestEnds:
    """Exit codes as a shell sees them."""

    @pytest.mark.parametrize("module", ["numpy", "typer", "sklearn", "squaresvm.files"])
    def test_an_interruption_during_imports(self, module):
        code = f"""
import runpy, sys
class Interrupting:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv = ["squaresvm", "--version"]
runpy.run_module("squaresvm", run_name="__main__")
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "")

    def test_an_interruption_at_work(self, tmp_path, model, monkeypatch):
        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("squaresvm.cli.requests.query_rows", interrupted)
        done = run("predict", model, tmp_path / "rows.csv", code=INTERRUPTED)
        assert "Traceback" not in done.output

    @pytest.mark.parametrize("options", [[], ["--json"]])
    def test_a_request_that_is_done_but_not_printed(self, model, options):
        reading, writing = os.pipe()
        os.close(reading)
        job = process("forget", model, "--ids", 3, *options, stdout=writing)
        os.close(writing)
        said = job.communicate(timeout=120)[1]
        assert job.returncode == 0
        (line,) = said.splitlines()
        assert line.startswith(f"squaresvm: note: {model} is written, but the report is not printed")
        assert 3 not in squaresvm.load(model).ids_

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
    def test_a_full_standard_output(self, tmp_path, model):
        with open("/dev/full", "w") as full:
            job = process("predict", model, tmp_path / "rows.csv", stdout=full)
            said = job.communicate(timeout=120)[1]
            assert (job.returncode, said) == (
                OUTPUT_LOST,
                "squaresvm: standard output: no space left on device\n",
            )
            job = process("forget", model, "--ids", 3, stdout=full)
            said = job.communicate(timeout=120)[1]
        assert job.returncode == 0
        assert "is written, but the report is not printed: no space left on device" in said

    @pytest.mark.parametrize("command", ["predict", "inspect"])
    def test_a_reader_that_has_gone(self, tmp_path, model, command):
        reading, writing = os.pipe()
        os.close(reading)
        rest = [tmp_path / "rows.csv"] if command == "predict" else []
        job = process(command, model, *rest, stdout=writing)
        os.close(writing)
        assert (job.communicate(timeout=120)[1], job.returncode) == ("", OUTPUT_LOST)


WORKER = """
import sys, time
from pathlib import Path
from squaresvm.bench import runner

def forever(*_):
    Path(sys.argv[1]).write_text("busy")
    time.sleep(600)

sys.modules[runner.Worker.__module__].measure = forever

if __name__ == "__main__":
    worker = runner.Worker(None)
    worker._started()
    print(worker._process.pid, flush=True)
    worker.run(None, None, None, 600.0)
"""


def test_a_bench_worker_ends_with_its_parent(tmp_path):
    script, busy = tmp_path / "parent.py", tmp_path / "busy"
    script.write_text(WORKER)
    parent = subprocess.Popen([sys.executable, script, busy], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    try:
        wait_until(busy.exists)
        parent.kill()
        parent.wait()
        wait_until(lambda: not is_running(worker))
    finally:
        parent.stdout.close()
        if is_running(worker):
            os.kill(worker, signal.SIGKILL)


def wait_until(happened, seconds=60):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_json_is_not_escaped_twice(tmp_path):
    data = tmp_path / "d"
    data.write_text("x,label\n" + "".join(f"{i},\x1b{i % 2}\n" for i in range(8)))
    facts = json.loads(run("train", data, "-o", tmp_path / "m", "--json").stdout)
    assert facts["classes"] == ["\x1b0", "\x1b1"]
