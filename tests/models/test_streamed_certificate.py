"""One measure for every model: what a streamed one certifies is what a pass over its rows would find."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm import LSSVC, LSSVR, ProximalSVC, RelaxedLSSVC, Status
from squaresvm.streaming import ArraySource


def values(m=400, n=5, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    return X, scale * (X @ rng.normal(size=n) + 0.3 * rng.normal(size=m) + 2.0)


def true_residual(model, X, y, A, C=1.0):
    """Return theory's residual of a linear squared-loss model, in extended precision, from its definition."""
    X, y = X.astype(np.longdouble), y.astype(np.longdouble)
    w, b = model.coef_.ravel().astype(np.longdouble), np.longdouble(model.intercept_[0])
    beta = C * (y - X @ w - b)
    r = X @ (X.T @ beta) + beta / C + b - y
    bias = abs(A * b - beta.sum()) / (A * abs(b) + np.abs(beta).sum())
    return float(max(np.abs(r).max() / np.abs(y).max(), bias))


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_learning_is_measured_by_the_scale_of_the_targets_as_fitting_is(scale):
    X, y = values(scale=scale)
    fitted = LSSVR(kernel="linear").fit(ArraySource(X, y)).certificate_.residual
    model = LSSVR(kernel="linear").fit(ArraySource(X[:300], y[:300])).learn(X[300:], y[300:])
    assert model.certificate_.status is Status.CONVERGED
    assert model.certificate_.residual < 1e3 * max(fitted, 1e-15)
    assert model.certificate_.residual < 1e-10


@pytest.mark.parametrize("C", [1.0, 1e4])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_the_bound_is_never_below_the_residual(C, shift):
    X, y = values()
    X = X + shift
    model = LSSVR(kernel="linear", C=C).fit(ArraySource(X, y))
    model.forget_rows(X[100:], y[100:])
    model.learn(X[100:150], y[100:150])
    assert true_residual(model, X[:150], y[:150], 0.0, C) <= model.certificate_.residual


def test_a_nearly_perfect_fit_is_not_said_to_have_no_residual():
    # Multipliers of size 1e-9: their sum is small beside C, and not beside them.
    X, y = values()
    y = np.round(X @ np.arange(1.0, 6.0)) + 1e-12 * y
    X = np.column_stack([X, y])
    model = LSSVR(kernel="linear", C=1e10).fit(ArraySource(X, y))
    receipt = model.forget_rows(X[:50], y[:50])
    assert receipt.residual == model.certificate_.residual
    assert receipt.residual >= true_residual(model, X[50:], y[50:], 0.0, 1e10)
    assert not receipt.sampled


def test_the_scale_follows_the_rows():
    X, y = values()
    model = LSSVR(kernel="linear").fit(ArraySource(X, y))
    far, high = 10 * X[:1], np.array([1e5])
    before = model._state.scale
    assert before == np.abs(y).max()
    model.learn(far, high)
    assert model._state.scale == 1e5
    model.forget_rows(far, high)
    # Which row comes next is not known any more: no more than the true scale is assumed.
    assert model._state.scale is None
    assert true_residual(model, X, y, 0.0) <= model.certificate_.residual < 1e-6


@pytest.mark.parametrize("Model", [LSSVC, RelaxedLSSVC, ProximalSVC])
def test_objective_and_gap_of_classes_are_sums_and_agree_with_a_fit_in_memory(Model):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    y = rng.integers(0, 3, 300)
    held = Model(kernel="linear").fit(X, y).certificate_
    streamed = Model(kernel="linear").fit(ArraySource(X, y))
    assert streamed.certificate_.objective == pytest.approx(held.objective, rel=1e-12)
    alone = sum(Model(kernel="linear").fit(X, y == c).certificate_.objective for c in range(3))
    assert held.objective == pytest.approx(alone, rel=1e-9)
    streamed.forget_rows(X[:20], y[:20])
    fresh = Model(kernel="linear").fit(X[20:], y[20:]).certificate_
    assert streamed.certificate_.objective == pytest.approx(fresh.objective, rel=1e-10)


def test_weights_are_bounded_by_the_lightest():
    X, y = values()
    weights = np.geomspace(1e-3, 1e3, y.size)
    source = ArraySource(X[:300], y[:300], weights[:300])
    model = LSSVR(kernel="linear").fit(source).learn(X[300:], y[300:], weights[300:])
    sums = model._state.sums
    assert sums.lightest <= 1e-3 < 2.1 * sums.lightest
    assert sums.largest >= np.linalg.norm(X, axis=1).max() > 0.49 * sums.largest
    # Nothing but the power of two is kept of the longest row.
    assert np.log2(sums.largest) == np.round(np.log2(sums.largest))
