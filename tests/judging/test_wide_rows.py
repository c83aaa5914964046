"""Models without some of their rows, of wide sparse rows: exact, and no m x m or n x n numbers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, RelaxedLSSVC
from squaresvm.judging.by_products import InverseByProducts
from squaresvm.judging.calibration import Calibration
from support import problems

every_bias = pytest.mark.parametrize("A", problems.BIASES.values(), ids=list(problems.BIASES))


def words(m, n, a_row, seed=0):
    rng = np.random.default_rng(seed)
    columns = (n * rng.random((m, a_row)) ** 2).astype(int)
    values = rng.uniform(0.2, 1.0, (m, a_row))
    X = sp.csr_matrix((values.ravel(), (np.repeat(np.arange(m), a_row), columns.ravel())), shape=(m, n))
    X.sum_duplicates()
    score = X @ rng.normal(size=n) + 0.3 * rng.normal(size=m)
    return X, np.where(score > np.median(score), 1, -1)


def bordered_inverse(X, costs, A):
    """Return N of all rows, and its border, by a dense inverse."""
    m = X.shape[0]
    H = (X @ X.T).toarray() + np.diag(1.0 / costs)
    if np.isinf(A):
        return np.pad(np.linalg.inv(H), ((0, 1), (0, 1)))
    return np.linalg.inv(np.block([[H, np.ones((m, 1))], [np.ones((1, m)), np.array([[-A]])]]))


@every_bias
@pytest.mark.parametrize("C", [1e-6, 0.5, 100.0])
@pytest.mark.parametrize("kind", ["plain", "empty rows", "one row", "columns that no row has"])
def test_the_inverse_is_that_of_the_bordered_matrix(A, C, kind):
    X, _ = words(70, 200, 6)
    if kind == "empty rows":
        X = sp.vstack([X, sp.csr_matrix((3, 200))], format="csr")
    elif kind == "one row":
        X = X[:1]
    elif kind == "columns that no row has":
        X = sp.csr_matrix((X.data, X.indices.astype(np.int64) * 2**33, X.indptr), shape=(70, 2**41))
    m = X.shape[0]
    costs = C * np.random.default_rng(1).uniform(0.3, 3.0, m)
    dense = sp.csr_matrix((X.data, np.unique(X.indices, return_inverse=True)[1], X.indptr))
    exact = bordered_inverse(dense, costs, A)
    found = InverseByProducts(X, costs, problems.bias_of(A))
    diagonal = np.diagonal(exact)[:m]
    np.testing.assert_allclose(found.diagonal(1e-10), diagonal, rtol=1e-9, atol=1e-12 * C)
    rhs, ends = np.random.default_rng(2).normal(size=(m, 40)), np.random.default_rng(3).normal(size=40)
    rows, border = found.bordered(rhs, ends)
    whole = exact @ np.vstack([rhs, np.zeros((1, 40)) if np.isinf(A) else ends])
    np.testing.assert_allclose(rows, whole[:m], atol=1e-8 * np.abs(whole[:m]).max())
    np.testing.assert_allclose(border, whole[m], atol=1e-8 * max(1.0, np.abs(whole[m]).max()))


def test_half_the_digits_of_a_solution_give_all_of_the_diagonal():
    X, _ = words(60, 150, 5)
    exact = np.diagonal(bordered_inverse(X, np.full(60, 10.0), np.inf))[:60]
    for accuracy in (1e-2, 1e-4, 1e-8):
        found = InverseByProducts(X, np.full(60, 10.0), problems.bias_of(np.inf)).diagonal(accuracy)
        assert np.all(np.abs(found - exact) <= accuracy * exact * (1 + 1e-6))


def test_what_is_not_known_is_said():
    X, _ = words(60, 40, 5)
    with pytest.warns(ConvergenceWarning, match="leave-one-out values are only known to"):
        InverseByProducts(X[:12] * 1e6, np.full(12, 1e12), problems.bias_of(0.0)).diagonal(1e-14)


@pytest.fixture(scope="module")
def text():
    return words(4100, 6000, 5)


@pytest.mark.parametrize("make", [LSSVC, RelaxedLSSVC, RLSSVC, LagrangianSVC])
def test_probabilities_and_folds_without_a_square_matrix(text, make):
    X, y = text
    tracemalloc.start()
    model = make(kernel="linear", C=0.5, tol=1e-7).fit(X, y)
    p = model.predict_proba(X)
    values = model.cross_decision_function(cv=5)
    model.learn(X[:3], y[:3])
    model.forget([4100, 4101, 4102])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # m x m numbers are 134 MB, n x n 288 MB.
    assert peak < 30e6
    assert model.calibrated_on_ == "values of 10 folds, each by a warm re-solve without it"
    np.testing.assert_array_equal(p.argmax(axis=1), (model.decision_function(X) > 0).astype(int))
    folds = model._folds(5, None)[1].rows
    for gone in folds[:2]:
        rest = np.setdiff1d(np.arange(4100), gone)
        fresh = make(kernel="linear", C=0.5, tol=1e-7).fit(X[rest], y[rest])
        np.testing.assert_allclose(values[gone], fresh.decision_function(X[gone]), atol=1e-5)


def test_probabilities_are_those_of_values_of_models_without_the_rows(text):
    X, y = text
    model = LagrangianSVC(kernel="linear", C=0.5, tol=1e-7).fit(X, y)
    order, fold = np.argsort(y, kind="stable"), np.empty(4100, dtype=int)
    fold[order] = np.arange(4100) % 10
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(10)]
    values = model.cross_decision_function(cv=splits)
    calibration = Calibration.fit(values[:, None], (y > 0).astype(int), np.ones(4100))
    expected = calibration.probabilities(model.decision_function(X)[:, None])
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-3)


def test_leave_one_out_is_that_of_refits(text):
    X, y = text
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 4100)
    settings = {"kernel": "linear", "C": 0.02, "tol": 1e-5}
    model = RelaxedLSSVC(**settings).fit(X, y, sample_weight=weights)
    values = model.loo_decision_function()
    for row in (0, 17, 4099):
        rest = np.setdiff1d(np.arange(4100), [row])
        fresh = RelaxedLSSVC(**settings).fit(X[rest], y[rest], sample_weight=weights[rest])
        assert values[row] == pytest.approx(fresh.decision_function(X[[row]])[0], abs=1e-4)


@pytest.mark.slow
def test_leave_one_out_holds_no_square_matrix(text):
    X, y = text
    model = LSSVC(kernel="linear", C=0.5).fit(X, y)
    tracemalloc.start()
    model.loo_decision_function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6


def test_regression_by_products(text):
    X, _ = text
    y = X @ np.random.default_rng(3).normal(size=X.shape[1])
    model = LSSVR(kernel="linear", C=0.2, tol=1e-9).fit(X, y)
    _, deviation = model.predict(X[:4], return_std=True)
    H = (X @ X.T).toarray() + np.eye(4100) / 0.2
    M = np.block([[H, np.ones((4100, 1))], [np.ones((1, 4100)), np.zeros((1, 1))]])
    near = np.vstack([(X @ X[:4].T).toarray(), np.ones((1, 4))])
    variance = X[:4].power(2).sum(axis=1).A1 - np.einsum("ij,ij->j", near, np.linalg.solve(M, near))
    np.testing.assert_allclose(deviation, np.sqrt(variance), rtol=1e-7)
    with pytest.raises(ValueError, match="needs the determinant"):
        model.log_marginal_likelihood()


def test_the_last_row_of_a_class(text):
    X, _ = text
    y = np.where(np.arange(4100) == 7, 1, -1)
    for make in (RLSSVC, LSSVC):
        model = make(kernel="linear", C=0.5, tol=1e-6).fit(X, y)
        p = model.predict_proba(X)
        assert np.isfinite(p).all()
        np.testing.assert_array_equal(p.argmax(axis=1), (model.decision_function(X) > 0).astype(int))
