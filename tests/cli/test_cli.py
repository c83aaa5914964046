"""The command line from a data file to forgotten rows."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import squaresvm
from squaresvm.files import Record
from squaresvm.readers.preparation import Category, PreparedRows
from support.commands import people, run, told

RNG = np.random.default_rng(0)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("\n".join(people(60)) + "\n")
    return path


@pytest.fixture
def model(tmp_path, table):
    path = tmp_path / "people.model"
    run("train", table, "-o", path, "--id", "name", "-c", 5)
    return path


class TestTrain:
    def test_says_what_it_did(self, tmp_path, table):
        said = run("train", table, "-o", tmp_path / "m", "--id", "name").stdout
        assert "Data: 60 rows, 4 columns (2 numbers, 1 category of 2 levels)" in said
        for words in ("Fit: ", "solver 'direct'", "Certificate: converged", "leave-one-out accuracy 0."):
            assert words in said
        assert said.endswith(f"Model: {tmp_path / 'm'}\n")

    def test_as_from_python(self, tmp_path, model, table):
        loaded = squaresvm.load(model)
        preparation = Record.of(loaded).preparation
        from squaresvm.readers import read

        X = preparation.rows(read(table))
        y = [line.split(",")[-1] for line in people(60)[1:]]
        mine = squaresvm.LSSVC(C=5.0).fit(X, y)
        np.testing.assert_allclose(mine.decision_function(X), loaded.decision_function(X), rtol=0, atol=1e-10)
        assert loaded.ids_.tolist()[:2] == ["p0-0", "p0-1"]
        assert X[:, 0].std() == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("estimator", "cls", "options"),
        [
            ("lssvc", squaresvm.LSSVC, ["-g", "0.3", "-e", "1e-8", "--class-weight", "balanced"]),
            ("relaxed", squaresvm.RelaxedLSSVC, ["-A", "0.5", "--solver", "2smo"]),
            ("proximal", squaresvm.ProximalSVC, ["--kernel", "linear", "-C", "3"]),
            ("lagrangian", squaresvm.LagrangianSVC, ["--A", "2", "--kernel", "poly", "-d", "2", "-r", "1"]),
            ("rlssvc", squaresvm.RLSSVC, ["--kernel", "laplacian", "--gamma", "auto", "--factor"]),
        ],
    )
    def test_estimators_and_habits(self, tmp_path, table, estimator, cls, options):
        facts = told(
            "train", table, "-o", tmp_path / "m", "--estimator", estimator, "--ignore", "name", *options
        )
        loaded = squaresvm.load(tmp_path / "m")
        assert type(loaded) is cls
        assert facts["estimator"] == cls.__name__
        assert facts["certificate"]["status"] == "converged"
        assert facts["classes"] == ["no", "yes"]
        assert loaded.tol == (1e-8 if "-e" in options else 1e-6)
        if "-d" in options:
            assert (loaded.degree, loaded.coef0, loaded.A) == (2, 1.0, 2.0)

    def test_regression(self, tmp_path, table):
        path = tmp_path / "m"
        facts = told("train", table, "-o", path, "--estimator", "lssvr", "--label", "income", "--id", "name")
        assert facts["classes"] is None
        values = run("predict", path, table).stdout.split()
        assert len(values) == 60
        assert all(1000 < float(value) < 6000 for value in values)
        run("predict", path, table, "--proba", code=2)
        assert told("inspect", path)["brier"] is None
        assert "Rows with the largest residuals" in run("inspect", path).stdout

    @pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
    def test_libsvm_files(self, tmp_path, pack, monkeypatch):
        monkeypatch.chdir(tmp_path)
        X = RNG.normal(size=(50, 6)) * (RNG.random((50, 6)) < 0.5)
        y = np.where(X[:, 0] + X[:, 5] > 0, 1, -1)
        dump_svmlight_file(X, y, "all", zero_based=False)
        lines = (tmp_path / "all").read_bytes().splitlines(keepends=True)
        narrow = [line for line in lines if b" 6:" not in line]
        (tmp_path / "few.svm").write_bytes(pack(b"".join(narrow)))
        (tmp_path / "all").write_bytes(pack(b"".join(lines)))
        run("train", "few.svm", "-c", "10", "-g", "0.1")
        loaded = squaresvm.load("few.model")  # Named after the data, as svm-train does.
        assert loaded.n_features_in_ == 5
        # Rows with columns that the model has never seen count in their distances, as in LIBSVM.
        dense = np.delete(X, [i for i, line in enumerate(lines) if b" 6:" in line], axis=0)
        wide = squaresvm.LSSVC(C=10.0, gamma=0.1).fit(dense, [int(line.split()[0]) for line in narrow])
        assert run("predict", "few.model", "all").stdout.split() == [str(v) for v in wide.predict(X)]
        run("learn", "few.model", "all")
        assert squaresvm.load("few.model").n_features_in_ == 6
        with_six = [len(narrow) + i for i, line in enumerate(lines) if b" 6:" in line]
        run("forget", "few.model", "--ids", ",".join(map(str, with_six)))
        assert squaresvm.load("few.model").n_features_in_ == 5

    def test_parquet(self, tmp_path, table):
        csv = pytest.importorskip("pyarrow.csv")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(csv.read_csv(table), tmp_path / "people.parquet")
        run("train", tmp_path / "people.parquet", "-o", tmp_path / "a", "--id", "name")
        run("train", table, "-o", tmp_path / "b", "--id", "name")
        a, b = (run("predict", tmp_path / name, table).stdout for name in "ab")
        assert a == b

    def test_weights_and_options_of_columns(self, tmp_path):
        path = tmp_path / "t.csv"
        rows = [f"{i % 5},{'x' if i % 3 else ''},{i % 4 / 2},{(i * 7) % 3}" for i in range(30)]
        path.write_text("a,b,w,kind\n" + "\n".join(rows) + "\n")
        options = ["--weight", "w", "--category", "a", "--missing", "mean", "--no-scale"]
        run("train", path, "-o", tmp_path / "m", *options)
        loaded = squaresvm.load(tmp_path / "m")
        assert loaded.classes_.tolist() == [0, 1, 2]
        assert loaded._state.rows.weights.tolist() == [i % 4 / 2 for i in range(30)]
        assert Record.of(loaded).preparation.feature_names == ["a=0", "a=1", "a=2", "a=3", "a=4", "b=x"]

    def test_not_converged(self, tmp_path, table):
        options = [
            "--estimator",
            "relaxed",
            "--solver",
            "2smo",
            "--max-iter",
            "1",
            "-c",
            "1e6",
            "-e",
            "1e-12",
        ]
        done = run("train", table, "-o", tmp_path / "m", "--ignore", "name", *options, code=1)
        assert "not converged" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert squaresvm.load(tmp_path / "m").certificate_.status == "max_iter"
        options += ["--force"]
        facts = told("train", table, "-o", tmp_path / "m", "--ignore", "name", *options, code=1)
        assert facts["certificate"]["status"] == "max_iter"


class TestTune:
    def test_other_estimators(self, tmp_path, table):
        done = run("train", table, "-o", tmp_path / "m", "--tune", "--estimator", "rlssvc", code=2)
        assert done.stderr == "squaresvm: --tune works with lssvc and lssvr; got rlssvc\n"

    @pytest.mark.parametrize("estimator", ["lssvc", "lssvr"])
    def test_takes_what_the_search_found(self, tmp_path, table, estimator):
        options = ["--label", "income"] if estimator == "lssvr" else ["--class-weight", "balanced"]
        options += ["--id", "name", "--estimator", estimator, "--tune"]
        facts = told("train", table, "-o", tmp_path / "m", *options)
        loaded = squaresvm.load(tmp_path / "m")
        rows = loaded._state.rows
        search = {"lssvc": squaresvm.LSSVCCV(class_weight="balanced"), "lssvr": squaresvm.LSSVRCV()}[
            estimator
        ]
        search.fit(rows.X, rows.y)
        chosen = {"C": facts["C"], "gamma": facts["gamma"]}
        assert facts["tuning"]["best"] == chosen
        assert facts["tuning"]["widened"] or chosen == search.best_params_
        assert facts["tuning"]["score"] >= search.best_score_  # A wider grid has all of the first.
        assert type(loaded).__name__.lower() == estimator


class TestPredict:
    def test_label_and_id_columns_are_not_read(self, tmp_path, table, model):
        stripped = tmp_path / "stripped.csv"
        stripped.write_text("\n".join(",".join(line.split(",")[1:4]) for line in people(60)))
        lines = run("predict", model, table).stdout
        assert run("predict", model, stripped).stdout == lines
        assert set(lines.split()) == {"yes", "no"}
        facts = told("predict", model, stripped, "--proba")
        assert facts["predictions"] == lines.split()
        p = np.array(facts["probabilities"])
        assert np.allclose(p.sum(axis=1), 1.0)
        assert [facts["classes"][k] for k in p.argmax(axis=1)] == lines.split()

    def test_to_a_file(self, tmp_path, table, model):
        out = tmp_path / "out.csv"
        said = run("predict", model, table, "--proba", "-o", out).stdout
        assert said == f"60 predictions: {out}\n"
        lines = out.read_text().splitlines()
        assert lines[0] == "label,p(no),p(yes)"
        assert len(lines) == 61

    def test_a_table_of_one_column(self, tmp_path):
        lines = [f"{x},{'yes' if x > 0 else 'no'}" for x in np.linspace(-1, 1, 40).round(3)]
        data, asked, out = tmp_path / "one.csv", tmp_path / "asked.csv", tmp_path / "m"
        data.write_text("\n".join(["x,label", *lines]))
        run("train", data, "-o", out)
        asked.write_text("x\n-0.9\n0.9\n")
        assert run("predict", out, asked).stdout.split() == ["no", "yes"]
        asked.write_text('x\n-0.9\n""\n0.9\n')
        assert "line 3" in run("predict", out, asked, code=2).stderr  # No answer is left out in silence.
        asked.write_text("age\n-0.9\n")
        assert "there is no column 'x'; there are age" in run("predict", out, asked, code=2).stderr
        asked.write_text("x\n-0.9\n")
        assert "names one column only" in run("evaluate", out, asked, code=2).stderr

    def test_model_of_a_data_frame(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(RNG.normal(size=(20, 3)), columns=["a", "b", "c"])
        model, path, data = squaresvm.LSSVC(), tmp_path / "m", tmp_path / "t.csv"
        squaresvm.save(model.fit(frame, np.arange(20) % 2), path)
        frame[["c", "a", "b"]].to_csv(data, index=False)
        done = run("predict", path, data)
        assert done.stdout.split() == [str(label) for label in model.predict(frame)]
        assert done.stderr == ""
        assert "was made in Python" in run("learn", path, data, code=2).stderr
        squaresvm.save(squaresvm.LSSVC().fit(frame.to_numpy(), np.arange(20) % 2), path)
        assert "rows without names" in run("predict", path, data, code=2).stderr

    def test_unknown_level(self, tmp_path, model):
        other = tmp_path / "other.csv"
        other.write_text("age,town,income\n30,Rom,2500\n")
        done = run("predict", model, other)
        assert done.stdout.strip() in ("yes", "no")
        assert done.stderr == (
            f"squaresvm: note: {other}: column 'town' has a level 'Rom' that the model does not know: "
            "coded as zeros\n"
        )


class TestLearnAndForget:
    def test_there_and_back(self, tmp_path, model, table):
        before = squaresvm.load(model)
        more = tmp_path / "more.csv"
        more.write_text("\n".join(people(5, seed=1, towns=("Rom on the Tiber",))))
        facts = told("learn", model, more)
        assert (facts["learned"], facts["held"]) == (5, 65)
        learned = squaresvm.load(model)
        assert learned.n_features_in_ == 5
        assert Record.of(learned).preparation.features[1] == Category(
            "town", ("Bonn", "Ulm", "Rom on the Tiber")
        )
        raw = model.read_bytes()
        assert b"Tiber" in raw
        ids = tmp_path / "ids.txt"
        ids.write_text("".join(f"p1-{i}\n" for i in range(5)))
        receipt = told("forget", model, "--ids-file", ids)
        assert receipt["remaining"] == 60
        assert receipt["ids"] == [f"p1-{i}" for i in range(5)]
        raw = model.read_bytes()
        assert b"Tiber" not in raw
        for name in receipt["ids"]:
            assert name.encode() not in raw
            assert name.encode("utf-32-le") not in raw
        after = squaresvm.load(model)
        X = np.random.default_rng(0).normal(size=(20, 4))
        X = X.view(PreparedRows)
        assert np.allclose(after.decision_function(X), before.decision_function(X), atol=1e-9)
        history = [(event.action, event.rows) for event in Record.of(after).history.events]
        assert history == [("train", 60), ("forget", 5)]  # The line of what was learned is gone with it.

    def test_model_equals_one_trained_on_the_rest(self, tmp_path, model):
        run("forget", model, "--ids", "p0-3,p0-17")
        rest = tmp_path / "rest.csv"
        rest.write_text("\n".join(line for line in people(60) if line.split(",")[0] not in ("p0-3", "p0-17")))
        loaded = squaresvm.load(model)
        from squaresvm.readers import read

        X = Record.of(loaded).preparation.rows(read(rest))  # Scaled as at training.
        fresh = squaresvm.LSSVC(C=5.0, gamma=loaded.gamma_)
        fresh.fit(X, [line.split(",")[-1] for line in rest.read_text().splitlines()[1:]])
        assert np.allclose(fresh.decision_function(X), loaded.decision_function(X), atol=1e-10)

    def test_numbers_as_ids(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("id,a,label\n" + "".join(f"{7 * i},{i % 4},{i % 2}\n" for i in range(12)))
        run("train", path, "-o", tmp_path / "m", "--id", "id")
        said = run("forget", tmp_path / "m", "--ids", "7, 21").stdout
        assert said.startswith("Forgot 2 rows in ")
        assert "10 remain" in said
        done = run("forget", tmp_path / "m", "--ids", "8", code=2)
        assert done.stderr == f"squaresvm: {tmp_path / 'm'}: no row with id 8 is held\n"

    def test_a_class_that_goes(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("a,label\n" + "".join(f"{i % 4},{'xyz'[min(i, 2)]}{i % 2}\n" for i in range(12)))
        run("train", path, "-o", tmp_path / "m")
        said = run("forget", tmp_path / "m", "--ids", "0").stdout
        assert "Classes that are gone with them: x0." in said

    def test_stored_factor(self, model, table):
        small = model.stat().st_size
        run("forget", model, "--ids", "p0-1", "--factor")
        assert model.stat().st_size > small
        assert told("forget", model, "--ids", "p0-2")["refactored"] is False


class TestProcess:
    """What only a new process shows: no colours, no progress, no warnings in a pipe."""

    def test_silent_in_a_pipe(self, tmp_path, table):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "squaresvm", "train", table, "--json", "--id", "name"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
            check=False,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["model"] == "people.model"

    def test_help_states_defaults_and_stopping_rule(self):
        for command in ("train", "predict", "learn", "forget", "inspect", "demo"):
            assert "--json" in run(command, "--help").stdout
        text = " ".join(run("train", "--help").stdout.split())
        assert text.count("default:") >= 16
        assert "Stopping rule" in text
        assert "tol of the training" in " ".join(run("forget", "--help").stdout.split())
