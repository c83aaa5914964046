"""The demo, its page, and the command line around it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import squaresvm
from squaresvm import cli
from squaresvm.cli.app import app
from squaresvm.pages.page import Facts, render, write_atomically
from squaresvm.runtime import atomic
from squaresvm.runtime.extras import install_line
from support.html_tags import Tags


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def python(*arguments, cwd=None):
    """Run a new interpreter that inherits nothing but one thread."""
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=cwd,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the demo says and the page that it writes."""
    path = tmp_path_factory.mktemp("demo") / "page.html"
    done = python("-m", "squaresvm", "demo", "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout, path.read_text(encoding="utf-8"), path


class TestDemo:
    @pytest.mark.parametrize(
        "words",
        ["Accuracy: 9", "leave-one-out", "forgot 3 rows", "395 remain", "residual", "Brier score 0.0"],
    )
    def test_says(self, told, words):
        assert words in told[0]

    def test_says_where_the_page_is(self, told):
        assert f"Page: {told[2]}" in told[0]
        assert sorted(told[2].parent.iterdir()) == [told[2]]  # No temporary file is left.

    def test_says_how_close_forgetting_is(self, told):
        line = next(line for line in told[0].splitlines() if line.startswith("Check:"))
        assert float(line.split("differ by ")[1].split()[0]) < 1e-8

    def test_page_needs_nothing_else(self, told):
        text = told[1]
        for word in ("http", "src=", "href=", "url(", "@import", "<script", "<link"):
            assert word not in text.lower()
        tags = Tags(text).found
        assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in tags
        assert ("html", {"lang": "en"}) in tags
        assert "nan" not in text.replace("<title>", "").split("</style>")[1].lower().split()

    def test_page_has_the_numbers(self, told):
        accuracy = told[0].split("Accuracy: ")[1].split()[0]
        assert f"<b>{accuracy}</b>" in told[1]
        assert told[1].count("<circle") >= 3
        assert squaresvm.__version__ in told[1]

    def test_folder_whose_name_looks_like_markup(self, tmp_path):
        folder = tmp_path / "[bold]"
        folder.mkdir()
        done = run("demo", "-o", folder / "page.html")
        assert done.exit_code == 0, done.output
        assert str(folder / "page.html") in done.stdout

    def test_missing_folder(self, tmp_path):
        done = run("demo", "--output", tmp_path / "nowhere" / "page.html")
        assert done.exit_code == 2
        assert done.stdout == ""
        assert done.stderr.splitlines() == [f"squaresvm: {tmp_path / 'nowhere'}: no such folder"]

    def test_folder_in_place_of_a_file(self, tmp_path):
        done = run("demo", "-o", tmp_path)
        assert done.exit_code == 2
        assert isinstance(done.exception, SystemExit)  # And no traceback.
        assert len(done.stderr.splitlines()) == 1
        assert str(tmp_path) in done.stderr


class TestPage:
    def test_escapes_text_everywhere(self):
        evil = "<script>alert('1')</script>&\""
        table = (evil, evil, [evil], [[evil], [evil]])
        text = render(Facts(evil, evil, [(evil, evil)], tables=[table]))
        assert "<script" not in text
        assert "alert('" not in text
        assert text.count("&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;&amp;&quot;") == 10
        Tags(text)

    def test_leaves_out_what_is_not_there(self):
        text = render(Facts("t", "s", [("1", "row")]))
        assert "<svg" not in text
        assert "<table" not in text
        shares = np.array([0.1, 0.75]), np.array([0.0, 1.0]), np.array([4.0, 9.0])
        text = render(Facts("t", "s", [], calibration=shares))
        assert text.count("<circle") == 2
        assert "9 rows: predicted 0.75, observed 1.00" in text
        Tags(text)


class TestWriteAtomically:
    def test_writes_with_the_usual_rights(self, tmp_path):
        path = tmp_path / "page.html"
        umask = os.umask(0o027)
        try:
            write_atomically(path, "n\u00e4h\n")
        finally:
            os.umask(umask)
        assert path.read_bytes() == "n\u00e4h\n".encode()
        assert path.stat().st_mode & 0o777 == 0o640

    def test_keeps_the_rights_of_the_old_file(self, tmp_path):
        path = tmp_path / "page.html"
        path.write_text("old")
        path.chmod(0o604)
        write_atomically(path, "new")
        assert path.stat().st_mode & 0o777 == 0o604

    def test_replaces_the_file_behind_a_link(self, tmp_path):
        path, link = tmp_path / "page.html", tmp_path / "link.html"
        path.write_text("old")
        link.symlink_to(path)
        write_atomically(link, "new")
        assert path.read_text() == "new"
        assert link.is_symlink()

    @pytest.mark.parametrize("step", ["fsync", "fchmod", "replace"])
    def test_failure_leaves_the_old_file(self, tmp_path, monkeypatch, step):
        path = tmp_path / "page.html"
        path.write_text("old")

        def fail(*_):
            raise OSError("disk full")

        with monkeypatch.context() as patch:
            patch.setattr(atomic.os, step, fail)
            with pytest.raises(OSError, match="disk full"):
                write_atomically(path, "new")
        assert path.read_text() == "old"
        assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]

    def test_text_that_cannot_be_encoded(self, tmp_path):
        path = tmp_path / "page.html"
        with pytest.raises(UnicodeEncodeError):
            write_atomically(path, "\ud800")
        assert list(tmp_path.iterdir()) == []


class TestCommandLine:
    def test_version(self):
        done = run("--version")
        assert done.exit_code == 0
        lines = done.stdout.splitlines()
        assert lines[0] == f"squaresvm {squaresvm.__version__}"
        assert f"  Python: {platform.python_version()}" in lines
        assert f"  numpy: {np.__version__}" in lines
        assert {line.split(":")[0].strip() for line in lines[1:]} >= {
            "scipy",
            "scikit-learn",
            "numba",
            "BLAS",
        }

    def test_help_and_no_arguments(self):
        assert run("--help").exit_code == 0
        assert "demo" in run("--help").stdout
        assert "demo" in run().output

    def test_unknown_command(self):
        assert run("dance").exit_code == 2

    def test_without_the_extra(self, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, "typer", None)
        monkeypatch.delitem(sys.modules, "squaresvm.cli.app")
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err == f"squaresvm: the command line needs typer: {install_line('cli')}\n"


def test_import_is_light():
    """Numba compiles and the extras may be missing: neither is touched before it is needed."""
    code = "import sys, squaresvm; names = set(squaresvm.__all__) - {'to_onnx'}; "
    code += "[getattr(squaresvm, name) for name in names]; print(*sys.modules)"
    done = python("-c", code, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    assert "squaresvm.meta.window" in done.stdout.split()
    assert not {"numba", "typer", "matplotlib", "dask"} & set(done.stdout.split())
