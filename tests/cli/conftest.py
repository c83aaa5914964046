"""A folder with a table and a model, for commands that are to be refused."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from squaresvm.cli.app import app
from support.commands import GOOD


@pytest.fixture(scope="module")
def good_model(tmp_path_factory):
    """Bytes of a model that was trained on the good table."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "good.csv").write_text(GOOD)
    done = CliRunner().invoke(app, ["train", str(folder / "good.csv"), "-o", str(folder / "m")])
    assert done.exit_code == 0, done.output
    return (folder / "m").read_bytes()


@pytest.fixture
def folder(tmp_path, good_model):
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "good.model").write_bytes(good_model)
    (tmp_path / "folder").mkdir()
    return tmp_path
