"""Variance and evidence, against Gaussian process regression and against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct

from squaresvm import LSSVR
from squaresvm.streaming import ArraySource
from support.histories import PROBES, data

X, Y = data("regression", 40, seed=0)
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, 40)


@pytest.mark.parametrize("C", [1e-6, 0.3, 50.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_equals_gaussian_process_regression(kernel, C):
    """Without a bias the problems coincide: mean, standard deviation, evidence; weighted."""
    theirs = RBF(np.sqrt(1 / 0.6)) if kernel == "rbf" else DotProduct(0.0, "fixed")
    process = GaussianProcessRegressor(theirs, alpha=1 / (C * WEIGHTS), optimizer=None).fit(X, Y)
    model = LSSVR(C=C, gamma=0.3, kernel=kernel, fit_intercept=False).fit(X, Y, sample_weight=WEIGHTS)
    expected = process.predict(PROBES, return_std=True)
    for found, wanted in zip(model.predict(PROBES, return_std=True), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    evidence = process.log_marginal_likelihood_value_
    assert model.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-10)


def test_several_targets():
    several = np.column_stack([Y, 3 * Y[::-1]])
    process = GaussianProcessRegressor(RBF(np.sqrt(1 / 0.6)), alpha=0.2, optimizer=None).fit(X, several)
    model = LSSVR(C=5.0, gamma=0.3, fit_intercept=False).fit(X, several)
    expected = process.predict(PROBES, return_std=True)
    for found, wanted in zip(model.predict(PROBES, return_std=True), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert model.log_marginal_likelihood() == pytest.approx(process.log_marginal_likelihood_value_)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_bias_is_the_limit_of_a_wide_prior(kernel):
    """A constant of variance v in the kernel, as v grows: the evidence loses half of log v."""
    from squaresvm.kernels import Kernel

    k, v = Kernel(kernel, 0.3), 1e6
    model = LSSVR(C=4.0, gamma=0.3, kernel=kernel).fit(X, Y)
    wide = LSSVR(C=4.0, kernel=lambda A, B: k(A, B) + v, fit_intercept=False).fit(X, Y)
    for found, wanted in zip(
        model.predict(PROBES, return_std=True), wide.predict(PROBES, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-4)
    shift = 0.5 * np.log(2 * np.pi * v)
    assert model.log_marginal_likelihood() == pytest.approx(wide.log_marginal_likelihood() + shift, abs=1e-4)


def test_evidence_is_a_density_of_contrasts():
    model = LSSVR(C=4.0, gamma=0.3).fit(X, Y)
    A = np.linalg.svd(np.eye(40) - 1 / 40)[0][:, :39]
    H = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2)) + np.eye(40) / 4.0
    density = multivariate_normal(np.zeros(39), A.T @ H @ A).logpdf(A.T @ Y)
    # The flat prior of the bias, in units of b and not of the mean contrast.
    assert model.log_marginal_likelihood() == pytest.approx(density - 0.5 * np.log(40), rel=1e-9)


def test_after_requests_and_from_streams():
    model = LSSVR(C=4.0, gamma=0.3).fit(X, Y)
    model.forget([3, 9])
    model.learn(PROBES[:2], [1.0, 2.0])
    rest = np.delete(np.arange(40), [3, 9])
    fresh = LSSVR(C=4.0, gamma=0.3).fit(np.vstack([X[rest], PROBES[:2]]), np.append(Y[rest], [1.0, 2.0]))
    for found, wanted in zip(
        model.predict(PROBES, return_std=True), fresh.predict(PROBES, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-8)
    assert model.log_marginal_likelihood() == pytest.approx(fresh.log_marginal_likelihood())
    linear = LSSVR(kernel="linear", C=4.0)
    streamed = linear.fit(ArraySource(X, Y)).predict(PROBES, return_std=True)[1]
    np.testing.assert_allclose(streamed, LSSVR(kernel="linear", C=4.0).fit(X, Y).predict(PROBES, True)[1])
    with pytest.raises(ValueError, match="log_marginal_likelihood needs the rows"):
        linear.log_marginal_likelihood()


def test_one_row_and_rows_far_away():
    model = LSSVR(C=4.0, gamma=0.3, fit_intercept=False).fit([[0.0]], [1.0])
    value, std = model.predict([[0.0], [100.0]], return_std=True)
    np.testing.assert_allclose(value, [0.8, 0.0], atol=1e-12)
    np.testing.assert_allclose(std, [np.sqrt(1 - 1 / 1.25), 1.0])


def test_bad_input():
    K = np.eye(5)
    model = LSSVR(kernel="precomputed").fit(K, np.arange(5.0))
    with pytest.raises(ValueError, match=r"needs k\(x, x\)"):
        model.predict(K, return_std=True)
    with pytest.raises(ValueError, match="return_std"):
        model.predict(K, return_std="yes")
    with pytest.raises(ValueError, match="return_std is for rows in memory"):
        LSSVR(kernel="linear").fit(X, Y).predict(ArraySource(X, Y), return_std=True)
