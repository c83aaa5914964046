"""Folders of models for the server."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import squaresvm

if sys.platform == "win32":  # No locks on files, other signals: the server is for Linux and macOS.
    collect_ignore_glob = ["*"]


@pytest.fixture(scope="session")
def clouds():
    """Return rows of three classes, and labels."""
    rng = np.random.default_rng(7)
    y = np.arange(90) % 3
    return rng.normal(size=(90, 3)) + 1.5 * np.eye(3)[y], y


@pytest.fixture
def folder(tmp_path, clouds):
    """Return a folder with one model, `clouds`, whose rows have ids of their own."""
    X, y = clouds
    model = squaresvm.LSSVC(C=3.0, gamma=0.3).fit(X, y, ids=[f"p{i}" for i in range(y.size)])
    squaresvm.save(model, tmp_path / "clouds.model")
    return tmp_path
