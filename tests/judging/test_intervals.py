"""Prediction intervals: the models without each row against fits, and coverage where it is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm import LSSVR, LSSVRCV
from squaresvm.judging.calibration import jackknife_plus
from squaresvm.streaming import ArraySource
from support import oracle


def rows(m=14, n=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=m)


def by_hand(model, X, y, weights, probes, coverage):
    """Return the jackknife+ by as many fits as rows, and quantiles by counting."""
    low, high = [], []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        if model.kernel == "precomputed":
            other = model.fit(X[np.ix_(rest, rest)], y[rest], sample_weight=weights[rest])
            own, there = other.predict(X[[i]][:, rest])[0], other.predict(probes[:, rest])
        else:
            other = model.fit(X[rest], y[rest], sample_weight=weights[rest])
            own, there = other.predict(X[[i]])[0], other.predict(probes)
        low.append(there - abs(y[i] - own))
        high.append(there + abs(y[i] - own))

    def smallest(values):
        """Return the least value that enough rows, by weight, do not exceed."""
        needed = coverage * (weights.sum() + weights.mean())
        enough = [v for v in np.sort(values) if weights[values <= v].sum() >= needed - 1e-9]
        return enough[0] if enough else np.inf

    upper = [smallest(column) for column in np.transpose(high)]
    lower = [-smallest(-column) for column in np.transpose(low)]
    return np.column_stack([lower, upper])


@pytest.mark.parametrize("coverage", [0.7])
@pytest.mark.parametrize("weighted", [True, False], ids=["weights", "plain"])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["free-bias", "no-bias"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "linear-wide", "precomputed", "sparse"])
def test_equals_fits_without_each_row(kernel, fit_intercept, weighted, coverage):
    X, y = rows(n=20 if kernel == "linear-wide" else 2)
    weights = np.random.default_rng(3).uniform(0.5, 2.0, size=len(y)) if weighted else np.ones(len(y))
    probes = np.random.default_rng(4).normal(size=(5, X.shape[1]))
    convert = sp.csr_matrix if kernel == "sparse" else np.asarray
    name = {"linear-wide": "linear", "sparse": "rbf"}.get(kernel, kernel)
    if kernel == "precomputed":
        probes = oracle.kernel_matrix("rbf", probes, X, gamma=0.5)
        X = oracle.kernel_matrix("rbf", X, X, gamma=0.5)
    shared = {"C": 3.0, "kernel": name, "gamma": 0.5, "fit_intercept": fit_intercept}
    model = LSSVR(**shared).fit(convert(X), y, sample_weight=weights)
    found = model.predict_interval(convert(probes), coverage)
    expected = by_hand(LSSVR(**shared), X, y, weights, probes, coverage)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_follows_the_rows_that_are_held():
    X, y = rows(m=40)
    model = LSSVR(gamma=0.5).fit(X[:30], y[:30], sample_weight=np.r_[0.0, np.ones(29)])
    model.predict_interval(X)
    model.learn(X[30:], y[30:])
    model.forget([0, 3, 35])
    rest = np.delete(np.arange(40), [0, 3, 35])
    alone = LSSVR(gamma=0.5).fit(X[rest], y[rest])
    np.testing.assert_allclose(model.predict_interval(X, 0.7), alone.predict_interval(X, 0.7), atol=1e-9)


@pytest.mark.parametrize("coverage", [0.6, 0.9])
@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_covers(noise, coverage):
    """Over 200 draws of rows and new rows, about as many as asked for, and above 2 coverage - 1."""
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(200):
        X = rng.uniform(-2, 2, size=(120, 1))
        error = rng.normal(size=120) if noise == "normal" else rng.exponential(size=120)
        y = np.sin(3 * X[:, 0]) + 0.3 * error
        low, high = LSSVR(C=5.0, gamma=1.0).fit(X[:60], y[:60]).predict_interval(X[60:], coverage).T
        inside.append(np.mean((low <= y[60:]) & (y[60:] <= high)))
    assert abs(np.mean(inside) - coverage) < 0.02
    assert np.mean(inside) > 2 * coverage - 1


def test_more_coverage_is_wider():
    X, y = rows(m=60)
    model = LSSVRCV(Cs=[1.0, 10.0]).fit(X, y)
    narrow, wide = model.predict_interval(X, 0.5), model.predict_interval(X, 0.95)
    assert np.all(wide[:, 0] <= narrow[:, 0])
    assert np.all(wide[:, 1] >= narrow[:, 1])


def test_too_few_rows_cannot_say():
    X, y = rows(m=9)
    model = LSSVR().fit(X, y)
    assert np.isfinite(model.predict_interval(X, 0.9)).all()  # The ninth of nine.
    assert np.isinf(model.predict_interval(X, 0.91)).all()


def test_quantile_counts_the_row_to_come():
    residuals = np.arange(1.0, 20.0)
    ends = jackknife_plus(np.zeros(1), np.zeros((19, 1)), residuals, np.ones(19), 0.9)
    assert ends.tolist() == [[-18.0, 18.0]]


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, np.nan, "wide", None])
def test_refused(coverage):
    X, y = rows()
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
        LSSVR().fit(X, y).predict_interval(X, coverage)


def test_refused_before_fit_and_for_one_row():
    with pytest.raises(ValueError, match="not fitted"):
        LSSVR().predict_interval([[1.0]])
    with pytest.raises(ValueError, match="at least two rows"):
        LSSVR().fit([[1.0]], [1.0]).predict_interval([[1.0]])


def test_refused_without_rows():
    X, y = rows()
    with pytest.raises(ValueError, match="predict_interval needs the rows"):
        LSSVR(kernel="linear").fit(ArraySource(X, y)).predict_interval(X)
