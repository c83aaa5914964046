"""Settings of the whole suite, and fixtures that several files use."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from hypothesis import settings

from squaresvm.factors import inverse_diagonal
from squaresvm.linalg import blas, lapack
from squaresvm.runtime.resources import row_blocks
from support.parts import PARTS

# The same examples on every run, few enough for each commit. HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("ci", max_examples=30, deadline=None, derandomize=True, database=None)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser):
    parser.addoption(
        "--part", choices=sorted(PARTS), help="collect one part of the suite only, see tests/support/parts.py"
    )


def pytest_configure():
    """Fail at once where a module was moved under another name and is in its part no longer."""
    there = {path.stem for path in Path(__file__).parent.rglob("test_*.py")}
    missing = {name for part in PARTS.values() for name in part} - there
    if missing:
        raise pytest.UsageError(
            f"tests/support/parts.py names what is not there: {', '.join(sorted(missing))}"
        )


def pytest_ignore_collect(collection_path, config):
    """Leave out what is not in the part that was asked for; its modules are not even imported."""
    part = PARTS.get(config.getoption("--part"))
    if part is None or collection_path.is_dir():
        return None
    return True if collection_path.stem not in part else None


@pytest.fixture(scope="session")
def data_folder():
    """The folder of public data sets: $SQUARESVM_DATA, or shared/data beside the checkout."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SQUARESVM_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no data sets at {folder}; SQUARESVM_DATA names another folder")
    return folder


@pytest.fixture(params=["whole", "pieces"])
def block_size(request, monkeypatch):
    """Run a test twice: as it is, and with blocks and panels of a few rows, as only large data has them."""
    if request.param == "pieces":
        monkeypatch.setattr(row_blocks, "__defaults__", (800,))
        monkeypatch.setattr(lapack, "PANEL", 5)
        monkeypatch.setattr(lapack, "_COLUMN_PANEL", 5)
        monkeypatch.setattr(blas, "_VECTOR_PANEL", 5)
        monkeypatch.setattr(inverse_diagonal, "_PANEL", 5)
    return request.param


@pytest.fixture(scope="module")
def client():
    """A Dask client on two worker processes."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    settings = {"distributed.worker.memory.terminate": False, "distributed.admin.tick.limit": "1h"}
    with warnings.catch_warnings(), dask.config.set(settings):
        # Only what a cluster on one machine says of its own ports and of files that it shares with others.
        warnings.filterwarnings("ignore", module="distributed")
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        )
        with cluster, distributed.Client(cluster) as client:
            yield client
