"""What of the Dockerfile can be tried without an engine: what is sent to it, and the health check."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

from support.server import serving

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def health_check(port):
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", "")
    command = json.loads(re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", text, re.MULTILINE)[1])
    assert command[0] == "python"
    words = [sys.executable, *command[1:-1], command[-1].replace(":8000/", f":{port}/")]
    return subprocess.run(words, capture_output=True, check=False).returncode


def test_the_health_check_tells_a_server_from_none(folder):
    from squaresvm.serve.access import add_token

    token = add_token(folder / "tokens.json", "reader", ["inspect"])
    with serving(folder, token=token, tokens=folder / "tokens.json") as client:
        assert health_check(client.port) == 0, "it needs no token"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert health_check(free.getsockname()[1]) != 0


def test_the_image_is_built_from_what_the_package_needs_and_nothing_else():
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert lines[1] == "*", "all is left out that is not named"
    sent = {line[1:] for line in lines if line.startswith("!")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hatch = project["tool"]["hatch"]
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    folders = {*hatch["build"]["targets"]["wheel"]["packages"], hatch["version"]["path"]}
    assert sent == needed | {name.partition("/")[0] for name in folders}
    assert all((ROOT / name).exists() for name in sent)
