"""inspect: its lines, its JSON and its page say what the model is."""

from __future__ import annotations

import html
import re
import shutil
import subprocess

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import squaresvm
from squaresvm.readers.preparation import PreparedRows
from support.commands import people, run, told
from support.html_tags import Tags


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


class TestInspect:
    def test_lines(self, model):
        said = run("inspect", model, "--rows", 3).stdout
        for words in (
            "LSSVC, squared loss, free bias",
            "rbf, C = 5, gamma = ",
            "2 numbers, 1 category of 2 levels",
            "exact leave-one-out accuracy",
            "Brier score",
            "Rows with the largest influence",
            "Rows that look mislabelled",
            "trained on 60 rows",
        ):
            assert words in said

    def test_json_agrees_with_the_model(self, model):
        facts = told("inspect", model)
        loaded = squaresvm.load(model)
        assert facts["loo_score"] == pytest.approx(loaded.loo_score())
        values = loaded.loo_decision_function()
        sign = np.where(loaded._state.rows.y == "yes", 1.0, -1.0)
        worst = np.argsort(sign * values)[0]
        assert facts["suspects"][0]["id"] == loaded.ids_[worst]
        assert facts["suspects"][0]["value"] == pytest.approx(sign[worst] * values[worst])
        change = np.abs(loaded.decision_function(loaded._state.rows.X.view(PreparedRows)) - values)
        assert facts["influential"][0]["id"] == loaded.ids_[change.argmax()]
        assert facts["influential"][0]["value"] == pytest.approx(change.max())
        assert facts["history"][0]["rows"] == 60

    @pytest.mark.parametrize("estimator", ["lssvc", "rlssvc"])
    def test_page(self, tmp_path, table, estimator):
        path, page = tmp_path / "<evil>.model", tmp_path / "page.html"
        evil = table.read_text().replace("Ulm", "<script>").replace("p0-1,", "<b>p0-1,")
        table.write_text(evil)
        run("train", table, "-o", path, "--id", "name", "--estimator", estimator)
        said = run("inspect", path, "--html", page).stdout
        assert said.endswith(f"Page: {page}\n")
        text = page.read_text()
        tags = Tags(text)
        assert {"svg", "table"} <= {tag for tag, _ in tags.found}
        assert not {"script", "link", "img", "b>p0"} & {tag for tag, _ in tags.found}
        for _, attributes in tags.found:
            assert not {"src", "href"} & set(attributes)
        assert "http" not in text
        for words in ("Certificate", "leave-one-out", "duality gap", "History", "prefers-color-scheme"):
            assert words in text

    @pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
    @pytest.mark.parametrize("which", ["inspect", "demo"])
    def test_page_in_a_browser(self, tmp_path, model, which):
        """On a phone and on a desk, nothing is wider than the page: tables scroll inside it."""
        page, frames = tmp_path / "page.html", tmp_path / "frames.html"
        run("demo", "-o", page) if which == "demo" else run("inspect", model, "--html", page)
        inner = html.escape(page.read_text())
        frame = f'<iframe width="WIDTH" height="600" srcdoc="{inner}"></iframe>'
        shown = "".join(frame.replace("WIDTH", str(width)) for width in (360, 1200))
        ask = (
            "onload = () => { document.title = [...document.querySelectorAll('iframe')].map(frame => "
            "[frame.contentDocument.documentElement.scrollWidth, frame.contentDocument.body.innerText.length]"
            ").join(); }"
        )
        frames.write_text(f"<!doctype html><title></title><script>{ask}</script>{shown}")
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        done = subprocess.run(
            [*command, profile, frames.as_uri()], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        found = re.search(r"<title>(\d+),(\d+),(\d+),(\d+)</title>", done.stdout)
        phone, words, desk, same_words = map(int, found.groups())
        assert phone <= 364  # The frame's border counts.
        assert desk <= 1204
        assert words == same_words > 500

    def test_a_single_row(self, tmp_path):
        path = tmp_path / "m"
        squaresvm.save(squaresvm.LSSVR().fit([[1.0]], [2.0]), path)
        assert told("inspect", path)["loo_score"] is None
        run("inspect", path, "--html", tmp_path / "page.html")

    def test_more_support_rows_than_are_left_out_exactly(self, tmp_path, monkeypatch):
        from squaresvm.pages import report

        X, y = load_breast_cancer(return_X_y=True)
        model = squaresvm.RLSSVC(gamma=1e-4, C=0.1).fit(X[:150], y[:150])
        squaresvm.save(model, tmp_path / "m")
        monkeypatch.setattr(report, "_FEW_SUPPORT_ROWS", 10)
        assert "of a fixed active set" in run("inspect", tmp_path / "m").stdout
