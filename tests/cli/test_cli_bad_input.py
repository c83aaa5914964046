"""Every command with everything that can be wrong: exit code 2, one line on stderr, nothing written."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from squaresvm.cli.app import app
from support.commands import put, refused

BAD_DATA = {
    "empty": (b"", "bad: is empty"),
    "blank lines": (b"\n\n", "bad: is empty"),
    "rubbish": (bytes(range(256)) * 50, "bad, line 1: is not text"),
    "header only": ("a,b,label\n", "bad: holds a header and no rows"),
    "a mixed column": ("a,b,label\n1,x,p\nseven,y,q\n", "bad, line 3: column 'a'"),
    "a long line": (b"a,b,label\n" + b"1" * (10 * 2**20) + b",x,p\n", "bad, line 2: is longer than 8 MB"),
    "a short line": ("a,b,label\n1,x,p\n1\n", "bad, line 3: has 1 cell, and"),
    "a missing value": ("a,b,label\n1,x,p\n,y,q\n", "bad, line 3: column 'a' holds no value"),
    "half a gzip": (b"\x1f\x8b\x08\x00", "bad: is damaged: gzip cannot unpack it"),
    "half a parquet": (b"PAR1\x00", "bad: is not a Parquet file"),
    "a number too large": (
        "a,b,label\n1e999,x,p\n1,y,q\n",
        "bad, line 2: column 'a' holds '1e999', which is not",
    ),
}


@pytest.mark.parametrize("command", ["train", "learn", "predict"])
class TestData:
    def command(self, folder, command, data):
        if command == "train":
            return refused(folder, "train", data, "-o", folder / "new.model")
        return refused(folder, command, folder / "good.model", data)

    @pytest.mark.parametrize("what", BAD_DATA)
    def test_contents(self, folder, command, what):
        content, words = BAD_DATA[what]
        said = self.command(folder, command, put(folder, content))
        assert said.startswith(f"{folder}{os.sep}{words}"), said

    def test_no_file(self, folder, command):
        assert (
            self.command(folder, command, folder / "x.csv") == f"{folder / 'x.csv'}: no such file or folder"
        )
        assert self.command(folder, command, folder / "folder") == f"{folder / 'folder'}: is a folder"
        assert self.command(folder, command, "/dev/null") == "/dev/null: is not a regular file"
        os.mkfifo(folder / "pipe")
        assert self.command(folder, command, folder / "pipe") == f"{folder / 'pipe'}: is not a regular file"

    def test_no_label(self, folder, command):
        path = put(folder, "a,b\n1,x\n2,y\n")
        if command == "predict":  # Which needs none.
            assert CliRunner().invoke(app, ["predict", str(folder / "good.model"), str(path)]).exit_code == 0
        elif command == "train":
            said = refused(folder, "train", path, "-o", folder / "m", "--label", "kind")
            assert said == f"{path}: there is no label column 'kind'; there are a, b"
        else:
            assert "there is no label column 'label'" in self.command(folder, command, path)

    def test_columns_missing(self, folder, command):
        if command != "train":
            path = put(folder, "a,label\n1,p\n2,q\n")
            assert (
                self.command(folder, command, path) == f"{path}: there is no column 'b'; there are a, label"
            )

    def test_another_kind_of_file(self, folder, command):
        if command != "train":
            path = put(folder, "1 1:2 2:3\n-1 1:1\n")
            said = self.command(folder, command, path)
            assert said == f"{path}: is a LIBSVM file, and the model was trained on a table"


class TestTrain:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("a,label\n1,p\n2,p\n", "bad: a classifier needs rows of at least two classes"),
            ("a,label\n1,p\n2,\n", "bad, line 3: the label column 'label' holds no value"),
            ("a,label\n1,0.5\n2,0.7\n3,1.25\n", None),  # Not whole: labels are text then.
            ("1 1:2\n1 2:1\n", "bad: a classifier needs rows of at least two classes"),
            ("1.5 1:2\n2 2:1\n", "bad: Unknown label type: continuous"),
            ("a,label\n1e300,p\n2,q\n3,p\n", "bad: column 'a' holds numbers too large"),
        ],
    )
    def test_labels_and_numbers(self, folder, content, words):
        path = put(folder, content)
        if words is None:
            done = CliRunner().invoke(app, ["train", str(path), "-o", str(folder / "m")])
            assert done.exit_code == 0
            return
        said = refused(folder, "train", path, "-o", folder / "m")
        assert said.startswith(f"{folder}{os.sep}{words}"), said

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["-c", "0"], "C must be a finite number greater than 0; got 0.0"),
            (["-c", "nan"], "C must be"),
            (["-c", "x"], "Invalid value for '--C'"),
            (["-g", "x"], "--gamma must be a number, 'scale' or 'auto'; got 'x'"),
            (["-g", "-1"], "gamma must be"),
            (["-e", "0"], "tol must be"),
            (["--max-iter", "0"], "max_iter must be"),
            (["--solver", "magic"], "solver must be one of"),
            (["--solver", "newton"], "solver 'newton' solves"),
            (["--kernel", "magic"], "'magic' is not one of"),
            (["--estimator", "svc"], "'svc' is not one of"),
            (["-A", "3"], "-A works with relaxed and lagrangian; got lssvc"),
            (["--class-weight", "x"], "--class-weight must be 'balanced'"),
            (["--missing", "x"], "--missing must be one of refuse, mean"),
            (["--label", "x"], "there is no label column 'x'"),
            (["--id", "x"], "there is no id column 'x'"),
            (["--weight", "b"], "line 2: column 'b' holds 'x', which is not a number"),
            (["--estimator", "lssvr"], "line 2: column 'label' holds 'q', which is not a number"),
            (["--made-up"], "No such option: --made-up"),
        ],
    )
    def test_options(self, folder, options, words):
        said = refused(folder, "train", folder / "good.csv", "-o", folder / "m", *options)
        assert words in said

    def test_places(self, folder):
        data = folder / "good.csv"
        assert refused(folder, "train", data, "-o", folder) == f"{folder}: is a folder"
        nowhere = folder / "nowhere" / "m"
        assert refused(folder, "train", data, "-o", nowhere) == f"{nowhere.parent}: no such folder"
        assert refused(folder, "train", data, "-o", "/dev/null") == "/dev/null: is not a regular file"

    def test_input_and_output_are_one_file(self, folder):
        data, model = folder / "good.csv", folder / "good.model"
        for arguments in (
            ("train", data, "-o", data),
            ("predict", model, data, "-o", model),
            ("predict", model, data, "-o", data),
            ("inspect", model, "--html", model),
        ):
            said = refused(folder, *arguments)
            assert said == f"{arguments[-1]}: would be replaced by what is made from it: name another file"

    @pytest.mark.parametrize("options", [["--label", "a"], ["--id", "a"], ["--ignore", "a"]])
    def test_columns_of_a_libsvm_file(self, folder, options):
        path = put(folder, "1 1:2\n-1 2:1\n")
        said = refused(folder, "train", path, "-o", folder / "m", *options)
        assert said == f"{path}: is a LIBSVM file: it has no column 'a'"

    def test_a_negative_weight(self, folder):
        path = put(folder, "a,w,label\n1,1,p\n2,-1,q\n")
        said = refused(folder, "train", path, "-o", folder / "m", "--weight", "w")
        assert said == f"{path}, line 3: the weight -1 is negative"


class TestForget:
    def test_ids(self, folder):
        model = folder / "good.model"
        assert refused(folder, "forget", model, "--ids", "99") == f"{model}: no row with id 99 is held"
        assert refused(folder, "forget", model, "--ids", "x") == f"{model}: no row with id 'x' is held"
        assert refused(folder, "forget", model, "--ids", "3,3") == f"{model}: id 3 is given twice"
        assert "with commas between them" in refused(folder, "forget", model, "--ids", "3,,4")
        assert refused(folder, "forget", model) == "give either --ids or --ids-file"
        everyone = ",".join(map(str, range(20)))
        assert "forgetting all rows" in refused(folder, "forget", model, "--ids", everyone)
        a_class = ",".join(str(i) for i in range(20) if i % 3)
        assert "a classifier needs two classes" in refused(folder, "forget", model, "--ids", a_class)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "bad: holds no ids"),
            (b"\n \n", "bad: holds no ids"),
            (b"\xff\xfe", "bad: is not text"),
            (bytes(range(256)) * 9, "bad: is not text"),
            (b"1\n99\n", "no row with id 99"),
            (b"a,b,label\n", "no row with id 'a,b,label'"),
            (b"x" * (10 * 2**20), "no row with id 'xxx"),
            (pickle.dumps([3]), "bad: is not text"),
        ],
    )
    def test_files_of_ids(self, folder, content, words):
        path = put(folder, content)
        said = refused(folder, "forget", folder / "good.model", "--ids-file", path)
        assert words in said
        assert len(said) < 1100

    def test_no_file_of_ids(self, folder):
        for path in (folder / "x", folder / "folder"):
            said = refused(folder, "forget", folder / "good.model", "--ids-file", path)
            assert said.startswith(f"{path}: ")


class TestBench:
    """It reads tables in TOML, and results in JSON."""

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "'title' is missing"),
            (bytes(range(256)) * 9, "codec can't decode"),
            (b"a = [", "Invalid value"),
            (b"a,b,label\n", "Expected"),
            (b'a = "' + b"x" * (10 * 2**20) + b'"\n', "the table: unknown key 'a'"),
            (pickle.dumps([3]), "codec can't decode"),
        ],
        ids=["empty", "rubbish", "cut short", "no TOML", "a long line", "a pickle"],
    )
    def test_tables(self, folder, content, words):
        path = folder / "bad.toml"
        path.write_bytes(content)
        said = refused(folder, "bench", path, "-o", folder / "out")
        assert said.startswith(f"{path}: ")
        assert words in said

    def test_no_table(self, folder):
        for name in ("nothing", folder / "nothing.toml", folder / "folder", "../../etc/passwd", "/dev/null"):
            said = refused(folder, "bench", name, "-o", folder / "out")
            assert said.startswith(f"no table {str(name)!r}; there are: ")

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "is not JSON"),
            (bytes(range(256)) * 9, "is not JSON"),
            (b"{", "is not JSON"),
            (b"[" * 100_000, "is not JSON"),
            (b"{}", "holds no results"),
            (b"[]", "holds no results"),
            (b'{"format": 1, "tables": {}}', "holds no results"),
            (b"1" * (10 * 2**20), "is not JSON"),
        ],
        ids=["empty", "rubbish", "cut short", "deep", "nothing", "a list", "a format", "a long line"],
    )
    def test_earlier_results(self, folder, content, words):
        path = put(folder, content)
        said = refused(folder, "bench", "lssvm-fig-1", "-o", folder / "out", "--compare", path)
        assert said.startswith(f"{path}: ")
        assert words in said

    def test_places(self, folder):
        out = ("-o", folder / "out")
        for path in (folder / "nothing", folder / "good.csv"):
            assert refused(folder, "bench", "--data", path, *out) == f"{path}: no such folder"
        nothing = folder / "nothing"
        assert refused(folder, "bench", "--compare", nothing, *out) == f"{nothing}: no such file or folder"
        assert refused(folder, "bench", "--compare", folder, *out) == f"{folder}: is a folder"
        data = folder / "good.csv"
        assert refused(folder, "bench", "-o", data) == f"{data}: is a file, not a folder"


def test_demo_has_a_place_for_its_page(folder):
    for path, words in ((folder, "is a folder"), ("/dev/null", "is not a regular file")):
        assert refused(folder, "demo", "-o", path) == f"{path}: {words}"
    assert refused(folder, "demo", "-o", folder / "a" / "b") == f"{folder / 'a'}: no such folder"


def test_rows_of_one_class_can_be_learned_and_predicted(folder):
    """They are bad input for `train` alone: the model has the other class."""
    path = put(folder, "a,b,label\n1,x,p\n2,y,p\n")
    for command in ("predict", "learn"):
        done = CliRunner().invoke(app, [command, str(folder / "good.model"), str(path)])
        assert done.exit_code == 0, done.output


def test_learn_rows_that_do_not_fit(folder):
    model = folder / "good.model"
    path = put(folder, "a,b,label\n1,x,p\n2,y,\n")
    said = refused(folder, "learn", model, path)
    assert said.startswith(f"{path}, line 3: the label column 'label' holds no value; --skip-unlabelled")


def test_in_a_process_of_its_own(folder):
    """The exit code and the streams as a shell sees them."""
    done = subprocess.run(
        [sys.executable, "-m", "squaresvm", "predict", folder / "good.model", folder / "nothing"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"squaresvm: {folder / 'nothing'}: no such file or folder\n"


def test_unexpected_errors_have_no_traceback_either(folder, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("something\nodd")

    monkeypatch.setattr("squaresvm.cli.requests.query_rows", broken)
    said = refused(folder, "predict", folder / "good.model", folder / "good.csv")
    assert said == "RuntimeError: something odd (SQUARESVM_TRACEBACK=1 tells more)"
    monkeypatch.setenv("SQUARESVM_TRACEBACK", "1")
    done = CliRunner().invoke(app, ["predict", str(folder / "good.model"), str(folder / "good.csv")])
    assert isinstance(done.exception, RuntimeError)
