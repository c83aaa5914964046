"""Model files that are none, or of a kind that a command cannot serve: one line says so, nothing changes."""

from __future__ import annotations

import os
import pickle

import pytest
from typer.testing import CliRunner

import squaresvm
from squaresvm.cli.app import app
from support import forged
from support.commands import put, refused


def bad_models(good):
    header, body = forged.opened(good)
    flipped = bytearray(good)
    flipped[-70] ^= 4
    promised = {**header, "arrays": {**header["arrays"], "y": {**header["arrays"]["y"], "shape": [2**40]}}}
    pickled = {**header, "arrays": {"rows": {"dtype": "|O", "shape": [1], "order": "C"}}}
    leaving = {**header, "arrays": {**header["arrays"], "../../x": header["arrays"]["y"]}}
    return {
        "empty": (b"", "is not a squaresvm model file"),
        "rubbish": (bytes(range(256)) * 9, "is not a squaresvm model file"),
        "a pickle": (pickle.dumps({"a": 1}), "is not a squaresvm model file"),
        "cut short": (good[: len(good) // 2], "is cut short"),
        "flipped": (bytes(flipped), "is damaged: its checksum does not match its contents"),
        "a pickle inside": (forged.sealed(pickled, pickle.dumps([1])), "which no model has"),
        "a path that leaves": (forged.sealed(leaving, body), "which no model has"),
        "2^40 rows": (forged.sealed(promised, body), "is cut short: its header promises"),
        "newer": (forged.sealed(header, body, version=9), "was written by a newer squaresvm (format 9"),
    }


@pytest.mark.parametrize("command", ["predict", "learn", "forget", "inspect"])
class TestModel:
    def command(self, folder, command, model):
        rest = {
            "predict": [folder / "good.csv", "-o", folder / "out"],
            "learn": [folder / "good.csv"],
            "forget": ["--ids", "3"],
            "inspect": ["--html", folder / "page.html"],
        }[command]
        return refused(folder, command, model, *rest)

    @pytest.mark.parametrize("what", bad_models(forged.sealed({"arrays": {"y": {}}}, b"")))
    def test_contents(self, folder, command, good_model, what):
        content, words = bad_models(good_model)[what]
        path = put(folder, content)
        said = self.command(folder, command, path)
        assert said.startswith(f"{path}: ")
        assert words in said

    def test_no_file(self, folder, command):
        assert self.command(folder, command, folder / "x") == f"{folder / 'x'}: no such file or folder"
        assert self.command(folder, command, folder / "folder") == f"{folder / 'folder'}: is a folder"
        os.mkfifo(folder / "pipe")
        assert self.command(folder, command, folder / "pipe") == f"{folder / 'pipe'}: is not a regular file"


class TestOtherKinds:
    """Files that Python wrote, of what the command line cannot use, or not for everything."""

    @pytest.fixture
    def kinds(self, tmp_path):
        return forged.other_kinds(tmp_path)

    def refused(self, folder, kinds, name, *arguments):
        path = put(folder, kinds[name])
        return refused(folder, arguments[0], path, *arguments[1:]).removeprefix(f"{path}: ")

    @pytest.mark.parametrize(
        "arguments", [("predict", "good.csv"), ("learn", "good.csv"), ("forget", "--ids", "3"), ("inspect",)]
    )
    def test_pairs_and_features(self, folder, kinds, arguments):
        arguments = [folder / word if word.endswith("csv") else word for word in arguments]
        said = self.refused(folder, kinds, "pairs", *arguments)
        assert said == "holds a OneVsOne: use it from Python"
        assert self.refused(folder, kinds, "features", *arguments) == "holds a Nystrom: use it from Python"

    @pytest.mark.parametrize(
        "arguments",
        [("learn", "good.csv"), ("forget", "--ids", "3"), ("inspect",), ("inspect", "--html", "x")],
    )
    def test_streams(self, folder, kinds, arguments):
        arguments = [folder / word if word in ("good.csv", "x") else word for word in arguments]
        said = self.refused(folder, kinds, "stream", *arguments)
        assert said.startswith("holds a model fitted from a stream, which keeps no rows")

    def test_a_stream_predicts(self, folder, kinds):
        model = put(folder, kinds["stream"])
        (folder / "rows.svm").write_text("1 1:1\n1 2:1 6:3\n")  # Columns that no row had are zero.
        done = CliRunner().invoke(app, ["predict", str(model), str(folder / "rows.svm"), "--proba"])
        assert done.exit_code == 0, done.output
        assert len(done.stdout.splitlines()) == 3

    def test_a_search_is_a_model_like_any_other(self, folder, kinds):
        model = str(put(folder, kinds["search"]))
        for arguments in (["inspect", model], ["forget", model, "--ids", "3"], ["inspect", model, "--json"]):
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, done.output
        with pytest.raises(AttributeError, match="dropped"):
            _ = squaresvm.load(model).cv_results_
