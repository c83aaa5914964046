"""Updates that carry w beside Newton, the dense kernel and LinearSVC, over shapes, weights, biases and C.

And rows of every odd kind, each from memory and from a source: the answers of dense rows, or a clear error.
"""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from squaresvm import LSSVC, RLSSVC, LagrangianSVC, RelaxedLSSVC, Status
from squaresvm.streaming import ArraySource, LibsvmSource

TOL = 1e-8


def sparse_rows(m, n, density, seed=0):
    X = sp.random(m, n, density=density, format="csr", random_state=seed)
    X.data = np.round(X.data, 3) + 0.001
    score = X @ np.random.default_rng(seed).normal(size=n)
    return X, np.where(score + 1e-3 * np.arange(m) > np.median(score), 1, -1)


SHAPES = [(40, 300), (120, 120), (200, 60)]
#: Every shape with every density and every C, with and without weights in turn.
DENSITIES, COSTS = [0.02, 0.2, 1.0], [1e-3, 1.0, 1e3]
GRID = [(SHAPES[i], DENSITIES[j], bool((i + j) % 2), COSTS[(i + j) % 3]) for i in range(3) for j in range(3)]


@pytest.mark.parametrize("make", [LSSVC, RelaxedLSSVC, RLSSVC, LagrangianSVC])
@pytest.mark.parametrize("has_bias", [True, False])
def test_one_optimum_by_three_routes(make, has_bias):
    solver = "2smo" if make in (LSSVC, RelaxedLSSVC) else "sesquismo"
    for (m, n), density, weighted, C in GRID:
        X, y = sparse_rows(m, n, density)
        weights = np.random.default_rng(1).uniform(0.2, 4.0, m) if weighted else None
        options = {"C": C, "tol": TOL, "fit_intercept": has_bias}
        by_rows, by_newton = (
            make(kernel="linear", solver=name, **options).fit(X, y, sample_weight=weights)
            for name in (solver, "newton")
        )
        K = (X @ X.T).toarray()
        by_kernel = make(kernel="precomputed", **options).fit(K, y, sample_weight=weights)
        found = by_rows.certificate_
        assert found.status in (Status.CONVERGED, Status.PRECISION), (m, n, density, weighted, C)
        for other in (by_newton.certificate_, by_kernel.certificate_):
            # Each optimum lies between objective less gap and objective.
            assert found.objective - found.gap <= other.objective * (1 + 1e-9)
            assert other.objective - other.gap <= found.objective * (1 + 1e-9)
        scale = max(1.0, C) ** 0.5
        values = by_rows.decision_function(X)
        np.testing.assert_allclose(values, by_newton.decision_function(X), atol=1e-5 * scale)
        np.testing.assert_allclose(values, by_kernel.decision_function(K), atol=1e-5 * scale)


@pytest.mark.parametrize("density", [0.02, 0.3])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_optimum_of_linear_svc(shape, density):
    X, y = sparse_rows(*shape, density, seed=2)
    weights = np.random.default_rng(3).uniform(0.3, 3.0, shape[0])
    for C in (0.05, 2.0):
        peer = LinearSVC(C=C, dual=True, tol=1e-10, max_iter=200_000, random_state=0)
        peer.fit(X, y, sample_weight=weights)
        model = LagrangianSVC(kernel="linear", C=2 * C, solver="sesquismo", tol=TOL)
        model.fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-5)


def odd_rows(kind):
    X, y = sparse_rows(90, 250, 0.05, seed=4)
    X = X.tolil()
    if kind == "empty rows":
        X[[0, 7, 89]] = 0.0
    elif kind == "empty columns":
        X[:, :40] = 0.0
    elif kind == "one word in all rows":
        X[:, 3] = 1.0
    elif kind == "nearly one class":
        y = np.where(np.arange(90) == 4, -1, 1)
    X = X.tocsr()
    if kind == "duplicate entries":
        X = sp.csr_matrix((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    elif kind == "unsorted columns":
        X = sp.csr_matrix((X.data.copy(), X.indices.copy(), X.indptr), shape=X.shape)
        for first, stop in itertools.pairwise(X.indptr):
            X.data[first:stop], X.indices[first:stop] = X.data[first:stop][::-1], X.indices[first:stop][::-1]
        X.has_sorted_indices = False
    elif kind == "stored zeros":
        X.data[::5] = 0.0
    elif kind == "columns beyond 2^31":
        X = sp.csr_matrix((X.data, X.indices.astype(np.int64) * 2**25, X.indptr.astype(np.int64)))
    return X, y


KINDS = (
    "empty rows",
    "empty columns",
    "one word in all rows",
    "nearly one class",
    "duplicate entries",
    "unsorted columns",
    "stored zeros",
    "columns beyond 2^31",
)


def as_dense(X):
    """Return the rows by the columns that they have."""
    names, places = np.unique(X.indices, return_inverse=True)
    return np.asarray(sp.csr_matrix((X.data, places, X.indptr), shape=(X.shape[0], names.size)).toarray())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [LSSVC, LagrangianSVC])
def test_odd_rows_get_the_answers_of_dense_ones(kind, make):
    X, y = odd_rows(kind)
    given, dense = X.copy(), as_dense(X)
    model = make(kernel="linear", C=3.0, tol=1e-9).fit(X, y)
    same = make(kernel="linear", C=3.0, tol=1e-9).fit(dense, y)
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(dense), atol=1e-7)
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(dense), atol=1e-6)
    rest = np.setdiff1d(np.arange(90), [4, 7]) if kind != "nearly one class" else np.arange(1, 90)
    for one in (model, same):
        one.forget(np.setdiff1d(np.arange(90), rest))
        one.learn(*((X, y) if one is model else (dense, y)), ids=None)
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(dense), atol=1e-7)
    # What the caller gave is as it was.
    np.testing.assert_array_equal(X.data, given.data)
    np.testing.assert_array_equal(X.indices, given.indices)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "columns beyond 2^31"])
def test_odd_rows_of_a_source(kind):
    X, y = odd_rows(kind)
    wide = sp.hstack([X, sp.csr_matrix((90, 1500))], format="csr")
    for make in (LSSVC, RLSSVC):
        model = make(kernel="linear", C=3.0, tol=1e-9).fit(ArraySource(wide, y, block_rows=17))
        same = make(kernel="linear", C=3.0, tol=1e-9).fit(X.toarray(), y)
        assert model.certificate_.status is Status.CONVERGED
        np.testing.assert_allclose(
            model.decision_function(wide), same.decision_function(X.toarray()), atol=1e-6
        )


def test_a_line_with_an_index_beyond_the_range_is_named(tmp_path):
    path = tmp_path / "far.svm"
    path.write_text("+1 1:1 5:2\n-1 2:1 4294967296:1\n")
    with pytest.raises(ValueError, match="line 2"):
        RLSSVC(kernel="linear").fit(LibsvmSource(path))


_CHILD = """
import sys
import numpy as np
import scipy.sparse as sp
from squaresvm import LagrangianSVC, LSSVC
X = sp.random(700, 1800, density=0.02, format="csr", random_state=0)
y = (X @ np.random.default_rng(0).normal(size=1800) > 0) + 2 * (np.arange(700) % 3 == 0)
for make, solver in ((LSSVC, "2smo"), (LagrangianSVC, "sesquismo")):
    model = make(kernel="linear", solver=solver, C=1.0, tol=1e-8).fit(X, y)
    assert model.certificate_.residual <= 1e-8
    np.savetxt(sys.stdout, model.decision_function(X[:20]))
"""


def test_threads_change_nothing_beyond_the_certificate(monkeypatch):
    values = []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        done = subprocess.run(
            [sys.executable, "-c", _CHILD], capture_output=True, text=True, check=True, timeout=120
        )
        values.append(np.loadtxt(done.stdout.splitlines()))
    np.testing.assert_allclose(*values, atol=1e-6)
