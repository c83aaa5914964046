"""Wide sparse rows from LIBSVM text and Dask: the model of the rows in memory, and no square matrix."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, RelaxedLSSVC, Status
from squaresvm.streaming import ArraySource, DaskSource, LibsvmSource

M, N = 3000, 9000
MODELS = {
    "LSSVC": LSSVC(C=2.0),
    "LSSVR": LSSVR(C=0.5),
    "RelaxedLSSVC": RelaxedLSSVC(C=1.0, A=0.3, class_weight="balanced"),
    "RLSSVC": RLSSVC(C=3.0),
    "LagrangianSVC": LagrangianSVC(C=20.0),
}


def words(seed=0, a_row=40):
    rng = np.random.default_rng(seed)
    columns = (N * rng.random((M, a_row)) ** 2).astype(int)
    values = rng.uniform(0.2, 1.0, (M, a_row)) / np.sqrt(a_row)
    X = sp.csr_matrix((values.ravel(), (np.repeat(np.arange(M), a_row), columns.ravel())), shape=(M, N))
    X.sum_duplicates()
    score = X @ rng.normal(size=N) + 0.2 * rng.normal(size=M)
    return X, np.where(score > np.quantile(score, 0.6), 1.0, -1.0)


def libsvm(X, y, folder):
    path = folder / "words.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return LibsvmSource(path, n_features=N, zero_based=False, block_rows=500)


def on_dask(X, y, folder):
    da = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")
    parts = [dask.delayed(X[start : start + 700]) for start in range(0, M, 700)]
    sizes = [min(700, M - start) for start in range(0, M, 700)]
    blocks = [
        da.from_delayed(part, shape=(size, N), dtype=float, meta=sp.csr_matrix((0, N)))
        for part, size in zip(parts, sizes, strict=True)
    ]
    return DaskSource(da.concatenate(blocks), da.from_array(y, chunks=700))


def in_memory(X, y, folder):
    return ArraySource(X, y, block_rows=1000)


@pytest.mark.parametrize("source", [libsvm, on_dask, in_memory])
@pytest.mark.parametrize("name", MODELS)
def test_the_model_of_the_rows_in_memory(name, source, tmp_path):
    X, y = words()
    model = MODELS[name].set_params(kernel="linear", tol=1e-8)
    streamed = type(model)(**model.get_params()).fit(source(X, y, tmp_path))
    held = type(model)(**model.get_params()).fit(X, y)
    assert streamed.certificate_.status is Status.CONVERGED
    assert streamed.solver_ in ("2smo", "sesquismo")
    assert "sparse rows were held during the fit" in streamed.solver_reason_
    assert "maintains w" in streamed.solver_reason_
    certificates = streamed.certificate_, held.certificate_
    assert certificates[0].objective == pytest.approx(certificates[1].objective, rel=1e-9)
    values = [
        model.predict(X) if name == "LSSVR" else model.decision_function(X) for model in (streamed, held)
    ]
    np.testing.assert_allclose(*values, atol=1e-6)


@pytest.mark.parametrize("make", [LSSVC, LagrangianSVC])
def test_by_passes_where_that_is_asked_for(make, tmp_path):
    X, y = words(seed=1)
    source = libsvm(X, y, tmp_path)
    by_passes = make(kernel="linear", solver="newton", tol=1e-8).fit(source)
    held = make(kernel="linear", tol=1e-8).fit(source)
    assert by_passes.solver_ == "newton"
    assert "form no Hessian" in by_passes.solver_reason_
    np.testing.assert_allclose(by_passes.coef_, held.coef_, atol=1e-6)
    assert held._state.solution.work["passes"] < by_passes._state.solution.work["passes"] / 3


def test_several_classes_and_rows_that_are_forgotten(tmp_path):
    X, y = words(seed=2)
    y = y + 2.0 * (np.arange(M) % 3 == 0)
    source = ArraySource(X, y)
    model = RLSSVC(kernel="linear", tol=1e-8).fit(source)
    gone = np.arange(0, M, 7)
    model.forget(gone, source=source)
    rest = np.setdiff1d(np.arange(M), gone)
    fresh = RLSSVC(kernel="linear", tol=1e-8).fit(X[rest], y[rest])
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-6)
    assert "went on from the model" in model.solver_reason_


@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_no_square_matrix_is_formed(solver, tmp_path):
    X, y = words()
    source = libsvm(X, y, tmp_path)
    for make in (LSSVC, RLSSVC):
        make(kernel="linear", solver=solver, tol=1e-3).fit(source)  # Whatever is loaded, is loaded now.
        tracemalloc.start()
        make(kernel="linear", solver=solver, tol=1e-4).fit(source).predict_proba(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # m x m numbers are 72 MB, n x n 648 MB; the rows 1.4 MB.
        assert peak < 25e6
