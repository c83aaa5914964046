"""What the command line says to people: figures beside guesses, plans of columns, files that stay."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_wine

import squaresvm
from squaresvm.judging.figures import accuracy_figures, against_guessing, probability_figures, value_figures
from squaresvm.solution import Certificate, Status
from support.commands import people, run, told


@pytest.fixture
def wine(tmp_path):
    path = tmp_path / "wine.csv"
    frame = load_wine(as_frame=True).frame
    frame.to_csv(path, index=False)
    return path, frame


@pytest.fixture
def rare(tmp_path):
    """A table with 6 % positives, of which little can be known."""
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.06
    path = tmp_path / "rare.csv"
    pd.DataFrame({"a": rng.normal(size=300) + y, "b": rng.normal(size=300), "label": y.astype(int)}).to_csv(
        path, index=False
    )
    return path


class TestPreparationInPython:
    """A model that `train` wrote prepares data frames itself, and refuses bare arrays."""

    @pytest.fixture
    def model(self, tmp_path, wine):
        run("train", wine[0], "--label", "target", "-o", tmp_path / "m")
        return squaresvm.load(tmp_path / "m")

    def test_frames_are_prepared(self, tmp_path, wine, model):
        path, frame = wine
        expected = [int(label) for label in run("predict", tmp_path / "m", path).stdout.split()]
        features = frame.drop(columns="target")
        assert model.predict(features).tolist() == expected
        assert model.predict(features[features.columns[::-1]]).tolist() == expected
        assert np.mean(model.predict(features) == frame["target"]) > 0.95
        assert model.score(features, frame["target"]) > 0.95
        p = model.predict_proba(features)
        assert p.shape == (178, 3)
        polars = pytest.importorskip("polars")
        assert model.predict(polars.read_csv(path)).tolist() == expected

    def test_bare_arrays_are_refused(self, wine, model):
        X = wine[1].drop(columns="target").to_numpy()
        for use in (model.predict, model.predict_proba, model.decision_function):
            with pytest.raises(ValueError, match=r"give a data frame with the columns alcohol, malic_acid, "):
                use(X)
        with pytest.raises(ValueError, match="give a data frame"):
            model.learn(X, wine[1]["target"])

    def test_learns_from_frames(self, wine, model):
        frame = wine[1]
        model.learn(frame.drop(columns="target").iloc[:3], frame["target"].iloc[:3])
        assert model.ids_.size == 181

    def test_levels_and_gaps(self, tmp_path):
        path = tmp_path / "p.csv"
        path.write_text("\n".join(people(60)))
        run("train", path, "--id", "name", "-o", tmp_path / "p.model")
        model = squaresvm.load(tmp_path / "p.model")
        frame = pd.DataFrame({"age": [30.0, 40.0], "town": ["Ulm", "Rom"], "income": [2000, 3000]})
        assert set(model.predict(frame)) <= {"yes", "no"}
        with pytest.raises(ValueError, match="level 'Rom', which the model does not know"):
            model.learn(frame, ["yes", "no"], ids=["x", "y"])
        frame.loc[1, "age"] = np.nan
        with pytest.raises(ValueError, match="row 1: column 'age' holds no value, and the model was trained"):
            model.predict(frame)
        with pytest.raises(ValueError, match="there is no column 'town'"):
            model.predict(frame[["age"]].fillna(0.0))


class TestColumns:
    def test_dry_run(self, tmp_path):
        path = tmp_path / "t.csv"
        rows = [f"{i % 9},{i % 5}5 €;2024-02-{i % 28 + 1:02d};;{'ab'[i % 2]}" for i in range(30)]
        path.write_text("price;day;void;label\n" + "\n".join(rows))
        facts = told("train", path, "--dry-run")
        assert {plan["name"]: plan["kind"] for plan in facts["plan"]} == {
            "price": "number",
            "day": "date",
            "void": "left out",
            "label": "label",
        }
        said = run("train", path, "--dry-run").stdout
        assert re.search(r"price +number +0.05 to 8.35 \(decimal ',', unit €\)", said)
        assert said.endswith("would be trained on; no model was fitted.\n")
        assert list(tmp_path.iterdir()) == [path]
        done = run("train", path, "-o", tmp_path / "m")
        assert "column 'void' is left out: it holds no value" in done.stderr
        assert "column 'day' is taken for dates" in done.stderr

    def test_a_target_of_values(self, tmp_path):
        frame = load_diabetes(as_frame=True).frame
        frame.to_csv(tmp_path / "d.csv", index=False)
        said = run("train", tmp_path / "d.csv", "-o", tmp_path / "m", code=2).stderr
        assert "'target' holds 214 different numbers in 442 rows" in said
        assert "--estimator lssvr" in said
        assert not (tmp_path / "m").exists()
        facts = told("train", tmp_path / "d.csv", "-o", tmp_path / "m", "--estimator", "lssvr")
        assert facts["leave_one_out"][1]["name"] == "RMSE"
        assert facts["leave_one_out"][1]["baseline"] == pytest.approx(np.std(frame["target"]))

    def test_codes_as_labels(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("a,label\n" + "".join(f"{i % 7},0{i % 2 + 1}\n" for i in range(30)))
        run("train", path, "-o", tmp_path / "m")
        assert set(run("predict", tmp_path / "m", path).stdout.split()) <= {"01", "02"}
        assert squaresvm.load(tmp_path / "m").classes_.tolist() == ["01", "02"]

    def test_rows_without_labels_or_values(self, tmp_path):
        path = tmp_path / "t.csv"
        rows = [f"{'' if i == 3 else i % 7},{'' if i == 5 else 'xy'[i % 2]}" for i in range(30)]
        path.write_text("a,label\n" + "\n".join(rows))
        assert (
            "--skip-unlabelled"
            in run("train", path, "-o", tmp_path / "m", "--missing", "mean", code=2).stderr
        )
        options = ["--missing", "drop", "--skip-unlabelled"]
        done = run("train", path, "-o", tmp_path / "m", *options)
        assert "1 row without a label left out" in done.stderr
        assert "1 row with a missing value left out" in done.stderr
        assert squaresvm.load(tmp_path / "m").ids_.size == 28
        assert "1 row without" in run("learn", tmp_path / "m", path, "--skip-unlabelled").stderr
        said = run("predict", tmp_path / "m", path, code=2).stderr
        assert "--missing" not in said
        assert "line 5: column 'a' holds no value" in said

    def test_no_header_and_an_encoding(self, tmp_path):
        path = tmp_path / "t.csv"
        lines = [f"{i % 7}.5,{'öü'[i % 2]},{'xy'[i % 2]}\n" for i in range(30)]
        path.write_bytes("".join(lines).encode("cp1252"))
        assert "--encoding" in run("train", path, "-o", tmp_path / "m", code=2).stderr
        assert (
            "--no-header" in run("train", path, "-o", tmp_path / "m", "--encoding", "cp1252", code=2).stderr
        )
        options = ["--encoding", "cp1252"]
        run("train", path, "-o", tmp_path / "m", "--no-header", *options)
        predicted = run("predict", tmp_path / "m", path, *options).stdout.split()
        assert predicted == ["xy"[i % 2] for i in range(30)]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--decimal", ";"], "--decimal must be . or a comma"),
            (["--thousands", "ab"], "--thousands must be a comma"),
            (["--decimal", ",", "--thousands", ","], "must differ"),
            (["--date", "age=nonsense"], "--date must be COLUMN or COLUMN=FORMAT"),
            (["--date", "town"], "'town' holds 'Ulm', which is in no known date format"),
            (["--date", "age=%d"], "column 'age' holds"),
            (["--number", "town"], "column 'town' holds 'Ulm', which is not a number"),
            (["--number", "x"], "there is no column 'x'"),
            (["--category", "age", "--drop", "age"], "--drop and --category both name 'age'"),
            (["--encoding", "x-y"], "there is no encoding 'x-y'"),
            (["--missing", "x"], "--missing must be one of refuse, mean, drop"),
        ],
    )
    def test_wrong_values(self, tmp_path, options, words):
        path = tmp_path / "t.csv"
        path.write_text("\n".join(people(30, towns=("Ulm",))))
        done = run("train", path, "--id", "name", "-o", tmp_path / "m", *options, code=2)
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert list(tmp_path.iterdir()) == [path]


class TestPlaces:
    def test_what_is_no_model_stays(self, tmp_path, rare):
        precious = tmp_path / "thesis.txt"
        precious.write_text("years of work")
        for options in ([], ["--force"]):
            said = run("train", rare, "-o", precious, *options, code=2).stderr
            assert "exists and is not a model, so it is not replaced" in said
        run("train", rare, "-o", tmp_path / "m")
        before = (tmp_path / "m").read_bytes()
        assert "--force" in run("train", rare, "-o", tmp_path / "m", code=2).stderr
        assert (tmp_path / "m").read_bytes() == before
        run("train", rare, "-o", tmp_path / "m", "--force", "-c", "7")
        assert squaresvm.load(tmp_path / "m").C_ == 7.0
        assert "--force" in run("predict", tmp_path / "m", rare, "-o", precious, code=2).stderr
        run("train", rare, "-o", tmp_path / "n")
        said = run("predict", tmp_path / "m", rare, "-o", tmp_path / "n", "--force", code=2).stderr
        assert "is a model" in said
        assert "is not a page" in run("inspect", tmp_path / "m", "--html", precious, code=2).stderr
        assert precious.read_text() == "years of work"

    def test_standard_input(self, tmp_path, rare):
        command = [sys.executable, "-m", "squaresvm", "train", "-", "-o", "-"]
        made = subprocess.run(command, input=rare.read_bytes(), capture_output=True, check=True)
        (tmp_path / "m").write_bytes(made.stdout)
        assert b"leave-one-out" in made.stderr
        command[2:] = ["squaresvm", "predict", str(tmp_path / "m"), "-"]
        done = subprocess.run(command, input=rare.read_bytes(), capture_output=True, check=True)
        assert len(done.stdout.split()) == 300


class TestFigures:
    def test_beside_the_majority(self, tmp_path, rare):
        said = run("train", rare, "-o", tmp_path / "m", "--class-weight", "balanced").stdout
        loaded = squaresvm.load(tmp_path / "m")
        y = loaded._state.rows.y
        found = (loaded.loo_decision_function() > 0).astype(int)
        accuracy, share = np.mean(found == y), np.mean(y == 0)
        assert f"leave-one-out accuracy {accuracy:.3f} +- " in said
        assert f"(the majority class 0: {share:.3f})" in said
        balanced = np.mean([np.mean(found[y == k] == k) for k in (0, 1)])
        assert f"leave-one-out balanced accuracy {balanced:.3f}" in said
        assert "not better than the majority class 0" in said
        assert told("inspect", tmp_path / "m")["loo_score"] == pytest.approx(accuracy)

    def test_where_leave_one_out_is_left_out(self, tmp_path):
        rng = np.random.default_rng(0)
        path, X = tmp_path / "t.csv", rng.normal(size=(4100, 2))
        pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": X[:, 0] > 0}).to_csv(path, index=False)
        said = run("train", path, "-o", tmp_path / "m", "--kernel", "linear").stdout
        assert "Leave-one-out figures of more than 4000 rows take a while: --loo computes them." in said
        said = run("train", path, "-o", tmp_path / "m", "--kernel", "linear", "--loo", "--force").stdout
        assert "Exact leave-one-out accuracy" in said

    def test_standard_errors_are_those_of_resampling(self):
        rng = np.random.default_rng(0)
        draws = []
        for _ in range(400):
            y = rng.choice(3, size=150, p=[0.6, 0.3, 0.1])
            y[:3] = [0, 1, 2]
            found = np.where(rng.random(150) < 0.7, y, 0)
            draws.append([(figure.value, figure.error) for figure in accuracy_figures(y, found)[:2]])
        values = np.array(draws)
        np.testing.assert_allclose(values[:, :, 1].mean(axis=0), values[:, :, 0].std(axis=0), rtol=0.15)
        draws = []
        for _ in range(400):
            y = rng.normal(size=200)
            draws.append([(each.value, each.error) for each in value_figures(y, y + rng.normal(size=200))])
        values = np.array(draws)
        np.testing.assert_allclose(values[:, 1:, 1].mean(axis=0), values[:, 1:, 0].std(axis=0), rtol=0.15)

    def test_a_weight_is_so_many_rows(self):
        y, found = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 1, 0])
        weights = np.array([2.0, 1.0, 3.0, 1.0, 2.0])
        twice = np.repeat(np.arange(5), weights.astype(int))
        p = np.full((5, 3), 0.2) + 0.4 * np.eye(3)[found]
        for one, many in (
            (accuracy_figures(y, found, weights), accuracy_figures(y[twice], found[twice])),
            (
                value_figures(1.0 * y, 1.0 * found, weights)[:1],
                value_figures(1.0 * y[twice], 1.0 * found[twice])[:1],
            ),
            (
                probability_figures(y, p, np.arange(3), weights),
                probability_figures(y[twice], p[twice], np.arange(3)),
            ),
        ):
            np.testing.assert_allclose([f.value for f in one], [f.value for f in many], rtol=1e-12)
            np.testing.assert_allclose([f.baseline for f in one], [f.baseline for f in many], rtol=1e-12)

    def test_balanced_accuracy_of_one_class_says_nothing(self):
        """Before, guessing was said to give 1.000."""
        found = accuracy_figures(np.array(["a", "a"]), np.array(["a", "b"]))
        assert str(found[1]).endswith("(says nothing where all rows are of one class)")
        assert (found[1].value, found[1].baseline) == (0.5, None)
        assert "not better than the majority class 'a'" in against_guessing(found)

    def test_one_row_and_one_class(self):
        found = accuracy_figures(np.array(["a"]), np.array(["a"]))[0]
        middle, error = 3 / 5, np.sqrt(3 / 5 * 2 / 5 / 5)  # One row that is right, and four that are added.
        assert (found.value, found.baseline, found.guess) == (1.0, 1.0, "the majority class 'a'")
        assert (found.middle, found.error) == pytest.approx((middle, error), rel=1e-14)
        assert [figure.name for figure in value_figures(np.ones(1), np.ones(1))] == ["RMSE", "MAE"]
        assert len(probability_figures(np.array([0]), np.array([[0.9, 0.1]]), np.arange(2))) == 2


class TestTune:
    def test_says_what_it_chose(self, tmp_path, rare):
        said = run("train", rare, "-o", tmp_path / "m", "--tune").stdout
        loaded = squaresvm.load(tmp_path / "m")
        assert (
            f"Tuned: C = {loaded.C_:.6g}, gamma = {loaded.gamma_:.6g}, with the largest leave-one-out" in said
        )
        assert "as the best of many it is optimistic" in said

    def test_receipts_say_that_numbers_were_chosen_by_all_rows(self, tmp_path, rare):
        line = "C and gamma were chosen by scores on all rows of the training, and stay until it is repeated"
        run("train", rare, "-o", tmp_path / "m", "--tune")
        run("forget", tmp_path / "m", "--ids", "3")
        kept = squaresvm.load(tmp_path / "m").receipts_[-1].kept
        assert line in kept
        assert any("mean and deviation" in each for each in kept)
        new = pd.read_csv(rare).head(2)
        new.to_csv(tmp_path / "new.csv", index=False)
        run("learn", tmp_path / "m", tmp_path / "new.csv")
        assert line in squaresvm.load(tmp_path / "m").receipts_[-1].kept
        run("train", rare, "-o", tmp_path / "plain")
        assert line not in squaresvm.load(tmp_path / "plain").receipts_[-1].kept

    def test_the_edge_of_the_grid(self, tmp_path):
        """A straight line without noise: the larger C, the better, as far as one looks."""
        x = np.linspace(-1, 1, 40)
        path = tmp_path / "t.csv"
        pd.DataFrame({"x": x, "label": 3.0 * x}).to_csv(path, index=False)
        options = ["--estimator", "lssvr", "--kernel", "linear", "--tune"]
        facts = told("train", path, "-o", tmp_path / "m", *options)["tuning"]
        assert facts["widened"] > 0
        assert facts["best"]["C"] > 1e4
        said = run("train", path, "-o", tmp_path / "m", *options, "--force").stdout
        assert "The best was at the edge of the grid, which was made wider." in said
        if facts["at_edge"]:
            assert "C is still best at the edge of what was tried" in said


class TestWords:
    def test_the_class_of_a_certificate(self, tmp_path, wine):
        """Objective and gap are sums over the classes; the residual is of the worst, which is named."""
        path, _ = wine
        facts = told("train", path, "--label", "target", "-o", tmp_path / "m", "-c", "3")
        loaded = squaresvm.load(tmp_path / "m")
        rows, objective, residuals = loaded._state.rows, 0.0, []
        for label in (0, 1, 2):
            one = squaresvm.LSSVC(C=3.0, gamma=loaded.gamma_).fit(rows.X, rows.y == label)
            objective += one.certificate_.objective
            residuals.append(one.certificate_.residual)
        assert facts["certificate"]["objective"] == pytest.approx(objective, rel=1e-9)
        assert facts["certificate"]["class"] in (0, 1, 2)
        said = run("inspect", tmp_path / "m").stdout
        assert re.search(r"\(sums over classes; residual of the worst, [012]\)", said)

    def test_gaps_below_rounding_are_not_printed(self):
        line = str(Certificate(1e-16, 3.6e-27, 12.0, Status.CONVERGED))
        assert line == "converged: residual 1.0e-16, gap below 3e-15, objective 12"
        assert "gap 1.0e-09" in str(Certificate(1e-6, 1e-9, 12.0, Status.CONVERGED))

    def test_a_second_and_a_half_is_not_1500_ms(self):
        rng = np.random.default_rng(0)
        receipt = squaresvm.LSSVC().fit(rng.normal(size=(20, 2)), np.arange(20) % 2).forget([3])
        assert str(replace(receipt, seconds=1.5)).startswith("forgot 1 row in 1.5 s, 19 remain")
        assert "in 0.42 ms" in str(replace(receipt, seconds=0.00042))

    def test_predict_advises_no_option_of_train(self, tmp_path):
        whole, gap = tmp_path / "a.csv", tmp_path / "b.csv"
        whole.write_text("a,label\n" + "".join(f"{i % 7},{'xy'[i % 2]}\n" for i in range(30)))
        gap.write_text("a,label\n3,x\n,y\n")
        run("train", whole, "-o", tmp_path / "m")
        said = run("predict", tmp_path / "m", gap, code=2).stderr
        assert "line 3: column 'a' holds no value" in said
        assert "--missing" not in said

    def test_advice_to_install_knows_where_the_package_came_from(self):
        """Of a checkout there is no 'squaresvm[cli]' to be had: only `install_line` may name extras."""
        found = []
        for path in sorted(Path(squaresvm.__file__).parent.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                text = node.value if isinstance(node, ast.Constant) else ""
                # Docstrings may: they have several lines.
                if isinstance(text, str) and "squaresvm[" in text and "\n" not in text:
                    found.append((path.name, text))
        assert found == []

    def test_a_first_batch_of_one_class(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
        model = squaresvm.LSSVC().partial_fit(X[y == 0], y[y == 0], classes=[0, 1])
        with pytest.raises(ValueError, match="not fitted"):
            model.predict(X)
        model.partial_fit(X[y == 1], y[y == 1])
        both = squaresvm.LSSVC(gamma=model.gamma_).fit(np.vstack([X[y == 0], X[y == 1]]), np.sort(y))
        np.testing.assert_allclose(model.decision_function(X), both.decision_function(X), atol=1e-9)
        with pytest.raises(ValueError, match="at least two classes"):
            squaresvm.LSSVC().partial_fit(X[y == 0], y[y == 0])
        with pytest.raises(ValueError, match="at least two classes"):
            squaresvm.LSSVC().fit(X[y == 0], y[y == 0])
