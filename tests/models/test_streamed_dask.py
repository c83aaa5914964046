"""Fits on a cluster: the model of the rows in memory, also where a worker dies in the middle."""

from __future__ import annotations

import os
import signal

import dask
import dask.array as da
import numpy as np
import pytest

from squaresvm import LSSVR, RLSSVC, LagrangianSVC
from squaresvm.streaming import DaskSource, MappedSource
from support.row_sources import SIZE, M, rows

pytest.importorskip("distributed")

MODELS = {
    "LSSVR": (LSSVR(kernel="linear", C=2.0), "regression"),
    "RLSSVC": (RLSSVC(kernel="linear", C=2.0), "two"),
    "LagrangianSVC": (LagrangianSVC(kernel="linear", C=2.0, A=0.3, class_weight="balanced"), "three"),
}


def persisted(X, *others):
    parts = [da.from_array(X, chunks=(SIZE, X.shape[1])), *(da.from_array(y, chunks=SIZE) for y in others)]
    return DaskSource(*dask.persist(*parts))


def assert_same_model(one, other):
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["LSSVR", "LagrangianSVC"])
def test_a_fit_on_two_workers(client, name):
    model, problem = MODELS[name]
    X, y, weights = rows(problem)
    source = persisted(X, y, weights)
    streamed = type(model)(**model.get_params()).fit(source)
    assert_same_model(streamed, model.fit(X, y, weights))
    on_workers, here = np.concatenate(list(streamed.predict(source))), streamed.predict(X)
    if name == "LSSVR":  # Numbers, from other processes: not the same in every bit.
        np.testing.assert_allclose(on_workers, here, rtol=1e-12, atol=1e-12)
    else:
        np.testing.assert_array_equal(on_workers, here)
    assert streamed.score(source) == pytest.approx(streamed.score(X, y, weights), rel=1e-12)


class DiesOnce:
    """Features as they are, but at the 25th block the worker goes down with it, once."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, X):
        counts = self.folder / "blocks"
        with open(counts, "ab") as file:
            file.write(b".")
        if counts.stat().st_size >= 25 and not (self.folder / "dead").exists():
            (self.folder / "dead").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return X


@pytest.mark.parametrize("name", [pytest.param("LSSVR", marks=pytest.mark.slow), "RLSSVC"])
def test_a_worker_that_is_killed_in_mid_fit_changes_nothing(client, name, tmp_path):
    model, problem = MODELS[name]
    X, y, weights = rows(problem)
    source = MappedSource(persisted(X, y, weights), DiesOnce(tmp_path))
    streamed = type(model)(**model.get_params()).fit(source)
    # It was neither the first pass nor after the last.
    assert (tmp_path / "dead").exists()
    assert M // SIZE + 1 < 25 < (tmp_path / "blocks").stat().st_size
    assert_same_model(streamed, model.fit(X, y, weights))


def test_bad_data_on_a_worker_leaves_the_model_alone(client, tmp_path):
    X, y, _ = rows("two")
    X[7 * SIZE // 2 + 3, 1] = np.nan
    model = RLSSVC(kernel="linear")
    with pytest.raises(ValueError, match="chunk 3, row 28: feature 1 is nan"):
        model.fit(persisted(X, y), checkpoint=tmp_path / "fit.ckpt")
    assert not model.__sklearn_is_fitted__()
    assert list(tmp_path.iterdir()) == []
