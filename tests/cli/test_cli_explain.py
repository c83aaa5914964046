"""Why a row is decided as it is, which labels it may have, and which training rows hurt."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_wine

import squaresvm
from support.commands import people, run, told


@pytest.fixture
def wine(tmp_path):
    frame = load_wine(as_frame=True).frame.sample(frac=1.0, random_state=3)
    frame.insert(0, "bottle", [f"b{i}" for i in range(len(frame))])
    frame[:120].to_csv(tmp_path / "wine.csv", index=False)
    frame[120:].to_csv(tmp_path / "late.csv", index=False)
    return frame


def trained(folder, name, *options):
    run("train", folder / name, "-o", folder / "m", *options)
    return squaresvm.load(folder / "m")


def total(facts):
    return sum(line["term"] for line in facts["lines"]) + facts["rest"] + facts["bias"]


class TestExplain:
    @pytest.mark.parametrize("estimator", ["lssvc", "rlssvc", "lagrangian", "proximal", "relaxed"])
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
    def test_terms_sum_to_the_decision(self, tmp_path, wine, estimator, kernel):
        model = trained(
            tmp_path, "wine.csv", "--label", "target", "--id", "bottle", "--C", "3", "--kernel", kernel,
            "--estimator", estimator,
        )  # fmt: skip
        rows = wine[120:].drop(columns=["bottle", "target"])
        for row in (0, 57):
            facts = told("explain", tmp_path / "m", tmp_path / "late.csv", "--row", row)
            values = model.decision_function(rows)[row]
            assert facts["class"] == facts["prediction"] == model.predict(rows)[row] == values.argmax()
            assert facts["decision"] == pytest.approx(values.max(), rel=1e-9)
            assert total(facts) == pytest.approx(values.max(), rel=1e-7)
            assert facts["id"] == f"b{120 + row}"
            sizes = [abs(line["term"]) for line in facts["lines"]]
            assert sizes == sorted(sizes, reverse=True)
            assert len(sizes) == (13 if kernel == "linear" else 10)
            assert facts["kind"] == ("columns" if kernel == "linear" else "rows")

    def test_rows_and_columns_by_name(self, tmp_path):
        (tmp_path / "p.csv").write_text("\n".join(people(60)))
        frame = pd.read_csv(tmp_path / "p.csv")
        data = tmp_path / "p.csv"
        model = trained(tmp_path, "p.csv", "--id", "name", "--C", "2")
        facts = told("explain", tmp_path / "m", data, "--row", 7)
        assert total(facts) == pytest.approx(model.decision_function(frame)[7])
        labels = dict(zip(frame["name"], frame["label"], strict=True))
        for line in facts["lines"]:
            assert labels[line["id"]] == line["label"]
            # Removing the row's own term by hand: its coefficient is that of the model.
            place = int(np.flatnonzero(model.ids_ == line["id"])[0])
            assert model.dual_coef_[0, place] * line["kernel"] == pytest.approx(line["term"])
        assert {line["column"] for line in facts["importance"]} == {"age", "town", "income"}
        assert facts["importance"][-1]["column"] == "income"
        said = run("explain", tmp_path / "m", data, "--row", 7).stdout
        assert "Row 7 (p0-7): predicted " in said
        assert "Permutation importance" in said

        run("train", data, "--id", "name", "--kernel", "linear", "-o", tmp_path / "m", "--force")
        linear = squaresvm.load(tmp_path / "m")
        facts = told("explain", tmp_path / "m", data, "--row", 7)
        assert facts["rest"] == 0.0
        assert {line["column"] for line in facts["lines"]} <= {"age", "town=Ulm", "town=Bonn", "income"}
        assert total(facts) == pytest.approx(linear.decision_function(frame)[7])
        frame.drop(columns="label").to_csv(tmp_path / "q.csv", index=False)
        assert told("explain", tmp_path / "m", tmp_path / "q.csv", "--row", 0)["importance"] == []

    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    def test_values(self, tmp_path, kernel):
        frame = load_diabetes(as_frame=True).frame[:150]
        frame.to_csv(tmp_path / "d.csv", index=False)
        model = trained(tmp_path, "d.csv", "--label", "target", "--estimator", "lssvr", "--kernel", kernel)
        facts = told("explain", tmp_path / "m", tmp_path / "d.csv", "--row", 3)
        assert facts["class"] is None
        assert total(facts) == pytest.approx(model.predict(frame)[3])
        assert {line["column"] for line in facts["importance"][:3]} & {"bmi", "s5"}

    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    def test_sparse_text(self, tmp_path, kernel):
        lines = [f"{1 if i % 3 else -1} 1:{i % 3} {2 + i % 2}:{i / 7} 9:1" for i in range(30)]
        (tmp_path / "t.svm").write_text("\n".join(lines) + "\n")
        model = trained(tmp_path, "t.svm", "--kernel", kernel)
        X = np.zeros((1, 9))
        X[0, [0, 3 - 1, 8]] = 1, 1.0, 1
        facts = told("explain", tmp_path / "m", tmp_path / "t.svm", "--row", 7)
        assert total(facts) == pytest.approx(model.decision_function(X)[0])
        assert facts["importance"][0]["column"] == "column 1"

    def test_bad_input(self, tmp_path, wine):
        trained(tmp_path, "wine.csv", "--label", "target", "--id", "bottle")
        late, empty, other = tmp_path / "late.csv", tmp_path / "empty.csv", tmp_path / "other.csv"
        empty.write_text("")
        wine.drop(columns="ash").to_csv(other, index=False)
        for arguments, message in [
            ((late, "--row", 58), "late.csv: has no row 58: it has 58 rows, from 0 on"),
            ((late, "--row", -1), "Invalid value for '--row'"),
            ((late,), "--row"),
            ((empty, "--row", 0), "empty.csv"),
            ((other, "--row", 0), "there is no column 'ash'"),
            ((tmp_path / "none.csv", "--row", 0), "none.csv: no such file"),
        ]:
            done = run("explain", tmp_path / "m", *arguments, code=2)
            assert message in done.stderr
            assert done.stderr.count("\n") == 1
            assert done.stdout == ""

    def test_values_are_shown_to_the_digits_of_their_terms(self, tmp_path):
        """Before, a prediction had 16 digits."""
        frame = load_diabetes(as_frame=True).frame[:60]
        frame["target"] += 1.0 / 3.0
        frame.to_csv(tmp_path / "d.csv", index=False)
        trained(tmp_path, "d.csv", "--label", "target", "--estimator", "lssvr")
        said = run("explain", tmp_path / "m", tmp_path / "d.csv", "--row", "2").stdout
        value = told("explain", tmp_path / "m", tmp_path / "d.csv", "--row", "2")["prediction"]
        assert f"predicted {value:.6g}.\n" in said
        assert f"{value:.6g}" != f"{value}"
        assert re.search(r"label \d+\.333, kernel", said)


class TestSets:
    def test_as_in_python(self, tmp_path, wine):
        model = trained(tmp_path, "wine.csv", "--label", "target", "--id", "bottle", "--C", "0.01")
        rows, late = wine[120:].drop(columns=["bottle", "target"]), tmp_path / "late.csv"
        for given, coverage in (((), 0.9), (("--coverage", "0.99"), 0.99)):
            expected = model.predict_set(rows, coverage)
            facts = told("predict", tmp_path / "m", late, "--sets", *given)
            assert facts["sets"] == [np.flatnonzero(line).tolist() for line in expected]
            table = tmp_path / "sets.csv"
            run("predict", tmp_path / "m", late, "--sets", "--ids", *given, "-o", table, "--force")
            frame = pd.read_csv(table)
            assert list(frame) == ["id", "label", "in(0)", "in(1)", "in(2)"]
            assert (frame.iloc[:, 2:].to_numpy() == expected).all()

    def test_bad_input(self, tmp_path, wine):
        trained(tmp_path, "wine.csv", "--label", "alcohol", "--estimator", "lssvr", "--drop", "bottle")
        ask = ("predict", tmp_path / "m", tmp_path / "late.csv")
        assert "which has no sets of labels" in run(*ask, "--sets", code=2).stderr
        assert "--coverage is for --sets" in run(*ask, "--coverage", "0.8", code=2).stderr
        assert "Invalid value for '--coverage'" in run(*ask, "--sets", "--coverage", "1", code=2).stderr


class TestRowsThatHurt:
    def test_as_when_forgotten(self, tmp_path, wine):
        spoiled = wine[:120].copy()
        spoiled.loc[spoiled.index[:12], "target"] = (spoiled["target"][:12] + 1) % 3
        spoiled.to_csv(tmp_path / "wine.csv", index=False)
        model = trained(tmp_path, "wine.csv", "--label", "target", "--id", "bottle", "--C", "1e3")
        rows, y = wine[120:].drop(columns=["bottle", "target"]), wine["target"][120:]
        found = told("inspect", tmp_path / "m", "--data", tmp_path / "late.csv")["hurting"]
        assert found["score"] == pytest.approx(model.score(rows, y))
        assert 1 <= len(found["rows"]) <= 10
        for row in found["rows"][:3]:
            without = squaresvm.load(tmp_path / "m")
            without.forget([row["id"]])
            assert without.score(rows, y) - found["score"] == pytest.approx(row["change"])
            assert row["label"] == spoiled.set_index("bottle")["target"][row["id"]]
        changes = model.influence(rows, y)
        assert found["rows"][0]["change"] == pytest.approx(changes.max())
        with pytest.raises(ValueError, match="give a data frame"):  # Raw columns would be judged as prepared.
            model.influence(rows.to_numpy(), y)
        page = tmp_path / "page.html"
        said = run("inspect", tmp_path / "m", "--data", tmp_path / "late.csv", "--html", page).stdout
        assert "Rows that hurt on late.csv" in said
        assert "Rows that hurt on late.csv" in page.read_text(encoding="utf-8")

    def test_values(self, tmp_path):
        frame = load_diabetes(as_frame=True).frame[:120]
        frame.loc[7, "target"] = 3000.0
        frame[:80].to_csv(tmp_path / "d.csv", index=False)
        frame[80:].to_csv(tmp_path / "e.csv", index=False)
        trained(tmp_path, "d.csv", "--label", "target", "--estimator", "lssvr")
        facts = told("inspect", tmp_path / "m", "--data", tmp_path / "e.csv")
        assert facts["hurting"]["rows"][0]["id"] == 7
        assert len(facts["hurting"]["rows"]) == 10
        said = run("inspect", tmp_path / "m").stdout
        assert re.search(r"exact leave-one-out R2 [-\d.]+ \+- [\d.]+ \(the mean: 0.000\)", said)

    def test_score_beside_the_majority(self, tmp_path, wine):
        model = trained(tmp_path, "wine.csv", "--label", "target", "--id", "bottle")
        facts = told("inspect", tmp_path / "m")
        share = wine["target"][:120].value_counts(normalize=True).max()
        right = model.loo_decision_function().argmax(axis=1) == wine["target"][:120].to_numpy()
        assert facts["baseline"] == pytest.approx(share)
        middle = (right.sum() + 2) / 124
        assert facts["loo_error"] == pytest.approx(np.sqrt(middle * (1 - middle) / 124), rel=1e-12)
        assert facts["hurting"] is None
        expected = f"exact leave-one-out accuracy {right.mean():.3f} +- {facts['loo_error']:.3f} "
        said = run("inspect", tmp_path / "m").stdout
        largest = np.bincount(wine["target"][:120]).argmax()
        assert f"{expected}(the majority class {largest}: {share:.3f})" in said
        assert "exact leave-one-out balanced accuracy" in said

    def test_bad_input(self, tmp_path, wine):
        trained(tmp_path, "wine.csv", "--label", "target", "--id", "bottle")
        empty, unlabelled = tmp_path / "empty.csv", tmp_path / "q.csv"
        empty.write_text("")
        wine.drop(columns="target").to_csv(unlabelled, index=False)
        for path, message in [(empty, "empty.csv"), (unlabelled, "'target'"), (tmp_path / "n", "no such")]:
            done = run("inspect", tmp_path / "m", "--data", path, code=2)
            assert message in done.stderr
            assert done.stderr.count("\n") == 1
