"""Kernel models whose products with K run on a cluster: model, certificate and status as in memory."""

from __future__ import annotations

import os
import pickle
import signal
from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm import LSSVC, LSSVCCV, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, Status
from squaresvm.kernels import Kernel
from squaresvm.operators import DistributedOperator
from squaresvm.operators.distributed import _pairs
from squaresvm.solvers import ConjugateGradient
from squaresvm.streaming import ArraySource, DaskSource

distributed = pytest.importorskip("distributed")

M = 450


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, 5))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=M)
    weights = rng.uniform(0.3, 2.0, M)
    weights[[3, 400]] = 0.0
    return X, score, weights


def source_of(X, y, weights=None, chunk=150):
    parts = [da.from_array(X, chunks=(chunk, X.shape[1])), da.from_array(y, chunks=chunk)]
    if weights is not None:
        parts.append(da.from_array(weights, chunks=chunk))
    return DaskSource(*dask.persist(*parts))


@pytest.fixture(scope="module")
def threads():
    """A client whose workers are threads of this process: quick to start."""
    with (
        dask.config.set({"distributed.admin.tick.limit": "1h"}),
        distributed.Client(
            processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as client,
    ):
        yield client


@pytest.mark.parametrize("count", range(1, 9))
def test_every_pair_of_blocks_meets_once(count):
    pairs = [tuple(sorted((i, j))) for i, met in enumerate(_pairs(count)) for j in met]
    assert sorted(pairs) == [(i, j) for i in range(count) for j in range(i, count)]


class Here:
    """Blocks that are in this process."""

    def __init__(self, X, sizes):
        self.sizes = sizes
        starts = np.cumsum([0, *sizes])
        self.blocks = [X[first:stop] for first, stop in pairwise(starts)]

    def meet(self, task, others):
        for i, met in enumerate(others):
            yield pickle.loads(pickle.dumps(task))(i, {j: self.blocks[j] for j in met})


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian", "linear"])
def test_products_are_those_of_the_whole_matrix(name, form):
    rng = np.random.default_rng(0)
    X = form(rng.normal(size=(1300, 4)))
    kernel = Kernel(name, gamma=0.3, degree=2, coef0=1.0)
    held = np.delete(np.arange(1300), [0, 77, 1299])
    operator = DistributedOperator(kernel, X[held], Here(X, [1100, 1, 150, 49]), held)
    K = kernel(X[held], X[held])
    b = rng.normal(size=(1297, 3))
    b[200:1200] = 0.0
    for given in (b, b[:, :1], np.zeros((1297, 2))):
        np.testing.assert_allclose(operator.matmul(given), K @ given, atol=1e-8 * np.abs(K).sum(axis=0).max())
        np.testing.assert_allclose(operator.magnitude(given), np.abs(K) @ np.abs(given), rtol=1e-10)


MODELS = {
    "LSSVC": LSSVC(C=10.0),
    "LSSVC, balanced": LSSVC(C=1.0, kernel="poly", degree=2, class_weight="balanced"),
    "LSSVR": LSSVR(C=5.0),
    "RLSSVC": RLSSVC(C=3.0),
    "LagrangianSVC": LagrangianSVC(C=2.0, augment=True),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_model_of_the_rows_in_memory(threads, name):
    X, score, weights = rows()
    y = score if name == "LSSVR" else np.digitize(score, [-0.8, 0.8]) if name == "LSSVC" else score > 0
    model = MODELS[name].set_params(solver="cg", tol=1e-7)
    far = type(model)(**model.get_params()).fit(source_of(X, y, weights))
    near = type(model)(**model.get_params()).fit(X, y, sample_weight=weights)
    assert far.solver_ == "cg"
    assert far.certificate_.status is near.certificate_.status is Status.CONVERGED
    assert far.certificate_.residual <= 1e-7
    assert far.certificate_.objective == pytest.approx(near.certificate_.objective, rel=1e-8)
    new = X[:50] + 0.1
    values = [m.predict(new) if name == "LSSVR" else m.decision_function(new) for m in (far, near)]
    np.testing.assert_allclose(*values, atol=1e-5)
    np.testing.assert_array_equal(far.support_, near.support_)
    # No cluster is needed any more.
    far.forget([5, 6])
    near.forget([5, 6])
    values = [m.predict(new) if name == "LSSVR" else m.decision_function(new) for m in (far, near)]
    np.testing.assert_allclose(*values, atol=1e-5)
    assert pickle.loads(pickle.dumps(far)).certificate_.residual <= 1e-6


def test_auto_says_why(threads):
    X, score, _ = rows()
    model = LSSVC().fit(source_of(X, score > 0))
    assert model.solver_ == "cg"
    assert "products with their kernel matrix run where the rows are" in model.solver_reason_
    assert len(model.ids_) == M


def test_what_does_not_fit_is_refused_and_changes_nothing(threads):
    X, score, _ = rows()
    source, y = source_of(X, score > 0), score > 0
    for model, message in (
        (LSSVC(solver="direct"), "solver='cg' or 'auto'"),
        (LSSVC(kernel="precomputed"), "needs kernel='linear'"),
        (ProximalSVC(), "needs kernel='linear'"),
        (LSSVCCV(), "searches over rows in memory"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(source)
        assert not model.__sklearn_is_fitted__()
    with pytest.raises(ValueError, match="or give a DaskSource"):
        LSSVC().fit(ArraySource(X, y))
    with pytest.raises(ValueError, match="only with kernel='linear'"):
        LSSVC().fit(source, checkpoint="fit.ckpt")
    X[321, 2] = np.nan
    with pytest.raises(ValueError, match="chunk 2, row 21: feature 2 is nan"):
        LSSVC().fit(source_of(X, y))


def test_without_a_cluster_rows_are_gathered():
    X, score, _ = rows()
    model = LSSVC(solver="cg", tol=1e-8).fit(source_of(X, score > 0))
    near = LSSVC(solver="cg", tol=1e-8).fit(X, score > 0)
    np.testing.assert_allclose(model.decision_function(X), near.decision_function(X), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("make", [LSSVC, RLSSVC])
def test_a_worker_that_is_killed_in_mid_fit_changes_nothing(client, make):
    X, score, _ = rows()
    y = score > 0
    killed = []

    def kill_one(progress):
        if progress.iteration >= 2 and not killed:
            worker, pid = next(iter(client.run(os.getpid).items()))
            killed.append(worker)
            os.kill(pid, signal.SIGKILL)
        return False

    model = make(C=10.0, tol=1e-7, solver=ConjugateGradient(rank=20, callback=kill_one))
    model.fit(source_of(X, y, chunk=60))
    assert killed
    near = make(C=10.0, tol=1e-7).fit(X, y)
    assert model.certificate_.status is Status.CONVERGED
    assert model.certificate_.objective == pytest.approx(near.certificate_.objective, rel=1e-8)
    np.testing.assert_allclose(model.decision_function(X), near.decision_function(X), atol=1e-5)
