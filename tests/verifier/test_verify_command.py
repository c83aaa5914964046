"""``squaresvm verify``, and what the function says of input that it can do nothing with."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC
from typer.testing import CliRunner

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, Nystrom, OneVsOne, Window
from squaresvm.cli.app import app
from squaresvm.streaming import ArraySource
from support.forged import arrays_of, opened, with_arrays

pd = pytest.importorskip("pandas")


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["verify", *(str(argument) for argument in arguments)])
    assert done.exit_code == code, done.output
    return done


def told(*arguments, code=0):
    return json.loads(run(*arguments, "--json", code=code).stdout)["verdict"]


def refused(*arguments):
    """Return the one line that a command ends with."""
    done = run(*arguments, code=2)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line.removeprefix("squaresvm: ")


def table(m=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(m, 3)), columns=["a", "b", "c"])
    frame["label"] = np.where(frame["a"] + 0.5 * rng.normal(size=m) > 0, "yes", "no")
    return frame


@pytest.fixture
def trained(tmp_path):
    """A model that the command line trained on a table with a category and ids, and the table."""
    frame = table()
    frame["town"] = np.where(frame["b"] > 0, "Ulm", "Bonn")
    frame.insert(0, "id", [f"p{i}" for i in range(60)])
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    done = CliRunner().invoke(
        app, ["train", str(path), "-o", str(tmp_path / "m.model"), "--id", "id", "--label", "label"]
    )
    assert done.exit_code == 0, done.output
    return tmp_path / "m.model", path


def streamed(folder, cls=RLSSVC):
    frame = table(200)
    names = ["a", "b", "c"]
    source_path = folder / "rows.parquet"
    frame.to_parquet(source_path)
    model = cls(kernel="linear").fit(
        squaresvm.streaming.ParquetSource(source_path, label="label", columns=names)
    )
    squaresvm.save(model, folder / "s.model")
    return folder / "s.model", source_path, frame


def test_a_model_that_holds_its_rows(trained):
    model, data = trained
    lines = run(model).stdout.splitlines()
    assert lines[0] == "LSSVC, rbf kernel, 60 rows: all true"
    verdict = told(model)
    assert verdict["ok"] is True
    assert verdict["claimed"]["status"] == "converged"
    assert verdict["residual"] < 1e-12
    assert told(model, "--data", data)["ok"] is True
    assert told(model, "--memory", 1)["residual"] == verdict["residual"]


def test_rows_that_were_forgotten_are_not_held(trained):
    model, data = trained
    assert CliRunner().invoke(app, ["forget", str(model), "--ids", "p3"]).exit_code == 0
    assert run(model).exit_code == 0
    lines = run(model, "--data", data, code=1).stdout.splitlines()
    assert lines[0].endswith("59 rows: FALSE")
    assert lines[-1] == "  - 1 row is in the data that the model does not hold: 3"


def test_something_false_has_exit_code_1(trained):
    model, _ = trained
    header, body = opened(model.read_bytes())
    arrays = arrays_of(header, body)
    arrays["beta"][11] *= 1.0 + 1e-6
    forged = with_arrays(header, arrays)
    model.write_bytes(forged)
    verdict = told(model, code=1)
    assert not verdict["ok"]
    assert not verdict["agrees"]
    assert verdict["faults"][0].startswith("LSSVC, rbf kernel: the residual is ")
    assert model.read_bytes() == forged


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz", "folder"])
@pytest.mark.parametrize("cls", [LSSVC, RLSSVC])
def test_a_stream_is_read_again(tmp_path, kind, cls):
    model, path, frame = streamed(tmp_path, cls)
    if kind.startswith("csv"):
        path = tmp_path / f"rows.{kind}"
        frame[["label", "c", "a", "b"]].to_csv(path, index=False)
    elif kind == "folder":
        path = tmp_path / "parts"
        path.mkdir()
        frame[:90].to_parquet(path / "1.parquet")
        frame[90:].to_parquet(path / "2.parquet")
    verdict = told(model, "--data", path)
    assert verdict["ok"] is True
    assert verdict["rows"] == 200


def test_a_stream_of_libsvm_text(tmp_path):
    frame = table(80)
    X, y = frame[["a", "b", "c"]].to_numpy(), np.where(frame["label"] == "yes", 1, -1)
    path = tmp_path / "rows.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    source = squaresvm.streaming.LibsvmSource(path)
    squaresvm.save(RLSSVC(kernel="linear").fit(source), tmp_path / "s.model")
    assert told(tmp_path / "s.model", "--data", path)["ok"] is True
    packed = tmp_path / "rows.svm.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert told(tmp_path / "s.model", "--data", packed)["ok"] is True
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[1:]) + "\n")
    assert (
        "80 rows are claimed, and the data has 79"
        in told(tmp_path / "s.model", "--data", path, code=1)["faults"][0]
    )


def test_a_stream_with_another_label_column(tmp_path):
    model, _, frame = streamed(tmp_path)
    other = tmp_path / "other.parquet"
    frame.rename(columns={"label": "sick"}).to_parquet(other)
    assert "'label'" in refused(model, "--data", other)
    assert told(model, "--data", other, "--label", "sick")["ok"] is True


def test_values_of_a_stream_in_csv(tmp_path):
    frame = table(50)[["a", "b"]].assign(label=lambda f: 3 * f["a"] + f["b"] ** 2)
    source = ArraySource(frame[["a", "b"]], frame["label"])
    squaresvm.save(LSSVR(kernel="linear").fit(source), tmp_path / "s.model")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert told(tmp_path / "s.model", "--data", tmp_path / "rows.csv")["ok"] is True


# Bad input ---------------------------------------------------------------------------------------------


def test_bad_input_is_told_in_one_line(tmp_path, trained):
    stream, _, frame = streamed(tmp_path)
    held, data = trained
    assert refused(stream) == (
        f"{stream}: a model fitted from a stream keeps no rows: give the data that it was fitted on, "
        "to be read again"
    )
    assert refused(tmp_path / "nothing.model") == f"{tmp_path / 'nothing.model'}: no such file or folder"
    assert refused(data).startswith(f"{data}: ")  # A table is no model.
    assert (
        refused(stream, "--data", tmp_path / "none.csv") == f"{tmp_path / 'none.csv'}: no such file or folder"
    )
    assert "--label" in refused(held, "--label", "x")
    assert "from the training" in refused(held, "--data", data, "--label", "x")
    narrow = tmp_path / "narrow.csv"
    frame.drop(columns="b").to_csv(narrow, index=False)
    assert refused(stream, "--data", narrow).startswith(f"{narrow}: ")
    strange = tmp_path / "strange.parquet"
    frame.assign(label="perhaps").to_parquet(strange)
    assert "the model knows no class 'perhaps'" in refused(stream, "--data", strange)
    damaged = tmp_path / "damaged.model"
    damaged.write_bytes(held.read_bytes()[:-1])
    assert refused(damaged).startswith(f"{damaged}: ")
    squaresvm.save(Nystrom(5, random_state=0).fit(frame[["a", "b"]].to_numpy()), tmp_path / "n.model")
    assert "cannot be verified" in refused(tmp_path / "n.model")


@pytest.mark.parametrize("model", [LSSVC(), OneVsOne(LSSVC()), Window(LSSVC(), size=5)])
def test_models_that_are_not_fitted(model):
    with pytest.raises(NotFittedError, match="is not fitted yet: call 'fit' first"):
        squaresvm.verify(model)


def test_the_function_refuses_what_it_cannot_use(tmp_path):
    X, y = np.arange(12.0).reshape(6, 2) % 5, np.array([0, 1, 0, 1, 1, 0])
    stream, held = LSSVC(kernel="linear").fit(ArraySource(X, y)), LSSVC().fit(X, y)
    for wrong, words in (
        (SVC().fit(X, y), "a SVC cannot be verified"),
        (LSSVC, "cannot be verified"),
        (3, "a int cannot be verified"),
    ):
        with pytest.raises(ValueError, match=words):
            squaresvm.verify(wrong)
    for data, words in (
        (None, "keeps no rows: give the data"),
        ((X[:, :1], y), "the data has 1 columns, and the model was fitted on 2"),
        ((X,), "data must be a source"),
        (X, "data must be a source"),
        ((X, np.array([0, 1, 0, 1, 1, 7])), "knows no class"),
        ((X, y, np.zeros(6)), "no rows of positive weight"),
    ):
        with pytest.raises(ValueError, match=words):
            squaresvm.verify(stream, data)
    with pytest.raises(ValueError, match="the data has 1 columns"):
        squaresvm.verify(held, (X[:, :1], y))
    with pytest.raises(ValueError, match="label names a column of a file"):
        squaresvm.verify(stream, (X, y), label="y")
    with pytest.raises(ValueError, match="max_memory must be at least"):
        squaresvm.verify(held, max_memory=10)
    precomputed = LSSVC(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="precomputed kernel holds no rows"):
        squaresvm.verify(precomputed, (X @ X.T, y))
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = LSSVC(kernel="linear").fit(frame, y)
    path = tmp_path / "swapped.parquet"
    frame.assign(label=y).to_parquet(path)
    swapped = squaresvm.streaming.ParquetSource(path, label="label", columns=["b", "a"])
    with pytest.raises(ValueError, match="column 0 of the data is 'b', but the model has 'a' there"):
        squaresvm.verify(named, swapped)


def test_a_verdict_reads_well():
    X, y = np.arange(12.0).reshape(6, 2) % 5, np.array([0, 1, 0, 1, 1, 0])
    verdict = squaresvm.verify(LSSVC().fit(X, y))
    text = str(verdict)
    assert text.splitlines()[0] == "LSSVC, rbf kernel, 6 rows: all true"
    assert verdict.findings == []
    plain = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    assert plain["residual"] == verdict.residual
    assert plain["claimed"]["objective"] == verdict.claimed.objective
    sigmoid = squaresvm.verify(LSSVC(kernel="sigmoid", gamma=0.01).fit(X, y))
    assert sigmoid.decision_error is None
    assert "may not be positive semidefinite" in sigmoid.findings[0]
