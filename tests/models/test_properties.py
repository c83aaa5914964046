"""Properties that hold whatever the rows, at parameters that are not the defaults (Hypothesis)."""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC, Status

GOOD = (Status.CONVERGED, Status.PRECISION)
CLASSIFIERS = [LSSVC, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC]
#: Few distinct values, so that duplicates, constant columns and ties are the rule.
entry = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0])


@st.composite
def settings_of_models(draw, classes=(*CLASSIFIERS, LSSVR)):
    """Return an unfitted estimator with parameters away from the defaults."""
    cls = draw(st.sampled_from(classes))
    parameters = {
        "kernel": draw(st.sampled_from(["linear", "rbf", "poly", "laplacian"])),
        "C": draw(st.sampled_from([1e-3, 0.7, 20.0])),
        "gamma": draw(st.sampled_from(["scale", 0.3])),
        "degree": draw(st.sampled_from([1, 2])),
        "coef0": draw(st.sampled_from([0.0, 0.8])),
        "fit_intercept": draw(st.booleans()),
        "tol": 1e-9,
    }
    if cls in (RelaxedLSSVC, LagrangianSVC):
        parameters["A"] = draw(st.sampled_from([0.05, 4.0]))
    return cls(**parameters)


@st.composite
def fits(draw, least=2, **kwargs):
    """Return an estimator, rows, targets and weights that fit together."""
    model = draw(settings_of_models(**kwargs))
    m, n = draw(st.integers(least, 12)), draw(st.integers(1, 4))
    X = np.array(draw(st.lists(st.lists(entry, min_size=n, max_size=n), min_size=m, max_size=m)))
    weights = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=m, max_size=m)))
    if isinstance(model, LSSVR):
        y = np.array(draw(st.lists(entry, min_size=m, max_size=m)))
    else:
        y = np.array(draw(st.lists(st.sampled_from("abc"), min_size=m, max_size=m)))
        y[:2] = ["a", "b"]
    return model, X, y, weights


def values(model, X):
    return model.predict(X) if isinstance(model, LSSVR) else model.decision_function(X)


def agree(first, second, X):
    """Assert that two fits are one model, as far as tol = 1e-9 promises."""
    assert first.certificate_.status in GOOD
    assert second.certificate_.status in GOOD
    one, two = values(first, X), values(second, X)
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-6 * max(1.0, np.abs(one).max()))


def refit(model, *args, **kwargs):
    return type(model)(**model.get_params()).fit(*args, **kwargs)


@given(fits(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(fit, random):
    model, X, y, weights = fit
    order = list(range(len(y)))
    random.shuffle(order)
    model.fit(X, y, sample_weight=weights)
    agree(model, refit(model, X[order], y[order], sample_weight=weights[order]), X)


@given(fits(), st.data())
def test_a_doubled_row_is_a_doubled_weight(fit, data):
    model, X, y, weights = fit
    row = data.draw(st.integers(0, len(y) - 1))
    heavier = weights.copy()
    heavier[row] *= 2
    twice = np.append(np.arange(len(y)), row)
    model.fit(X, y, sample_weight=heavier)
    agree(model, refit(model, X[twice], y[twice], sample_weight=weights[twice]), X)


@given(fits(), st.data())
def test_a_row_of_weight_zero_is_no_row(fit, data):
    model, X, y, weights = fit
    extra = np.array(data.draw(st.lists(entry, min_size=X.shape[1], max_size=X.shape[1])))
    model.fit(X, y, sample_weight=weights)
    more = refit(model, np.vstack([extra, X]), np.append(y[1], y), sample_weight=np.append(0.0, weights))
    agree(model, more, X)


@given(fits(classes=CLASSIFIERS))
def test_names_of_labels_do_not_matter(fit):
    """Other labels in the same order are the same problem; in the opposite order f changes its sign."""
    model, X, y, weights = fit
    model.fit(X, y, sample_weight=weights)
    renamed = np.array([{"a": 10, "b": 20, "c": 30}[label] for label in y])
    np.testing.assert_array_equal(
        values(refit(model, X, renamed, sample_weight=weights), X), values(model, X)
    )
    if len(set(y)) == 2:
        opposite = refit(model, X, -renamed, sample_weight=weights)
        np.testing.assert_allclose(values(opposite, X), -values(model, X), rtol=0, atol=1e-6)


@given(fits())
def test_certificates_are_honest(fit):
    """Residual within tol, or within rounding; gap and objective no negative numbers."""
    model, X, y, weights = fit
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certificate = model.fit(X, y, sample_weight=weights).certificate_
    assert certificate.status in GOOD
    assert certificate.residual <= 1e-9 or certificate.status is Status.PRECISION
    assert 0.0 <= certificate.gap <= 1e-6 * max(certificate.objective, 1e-9)


@given(fits(least=1, classes=[LSSVR]))
@example(
    # beta is 0 but for rounding, of which |1'beta| / |beta|_1 must not be made.
    (
        LSSVR(C=0.7, degree=2, gamma=0.3, kernel="poly", tol=1e-9),
        np.array([[3.0]]),
        np.array([3.0]),
        np.array([0.5]),
    )
)
def test_regression_follows_a_shift_and_a_scale_of_y(fit):
    """f is linear in y, and a free bias takes up any constant."""
    model, X, y, weights = fit
    model.fit(X, y, sample_weight=weights)
    scaled = refit(model, X, -100.0 * y, sample_weight=weights)
    np.testing.assert_allclose(scaled.predict(X), -100.0 * model.predict(X), rtol=0, atol=1e-5)
    if model.fit_intercept:
        shifted = refit(model, X, y + 50.0, sample_weight=weights)
        np.testing.assert_allclose(shifted.predict(X), model.predict(X) + 50.0, rtol=0, atol=1e-6)


@given(st.lists(entry, min_size=1, max_size=4), entry, settings_of_models(classes=[LSSVR]))
def test_regression_on_one_row(row, value, model):
    """With a free bias, the one value everywhere; without, k / (k + 1/C) of it at the row itself."""
    model.fit([row], [value])
    at_row = model.predict([row])[0]
    if model.fit_intercept:
        np.testing.assert_allclose(model.predict([row, [5.0] * len(row)]), value, rtol=0, atol=1e-9)
        return
    x = np.array(row)
    scale = 1.0 if x.var() == 0 else 1 / (x.size * x.var())
    gamma = scale if model.gamma == "scale" else model.gamma
    k = {"linear": x @ x, "poly": (gamma * x @ x + model.coef0) ** model.degree}.get(model.kernel, 1.0)
    np.testing.assert_allclose(at_row, value * k / (k + 1 / model.C), rtol=1e-8, atol=1e-12)
