"""The path over C against a fit at each C."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from squaresvm import LSSVC, RLSSVC, LagrangianSVC
from squaresvm.estimators.c_path import CPath
from squaresvm.streaming import ArraySource

CS = [1e-3, 0.1, 10.0, 1e4]


def rows(kind="binary", m=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    value = X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=m)
    return X, np.digitize(value, [0.7] if kind == "binary" else [0.3, 1.5])


@pytest.mark.parametrize("kind", ["binary", "multi"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize(
    "estimator",
    [RLSSVC(), RLSSVC(fit_intercept=False, solver="active-set"), LagrangianSVC(A=0.5)],
    ids=["free", "none", "penalised"],
)
def test_equals_a_fit_at_each_C(estimator, kernel, kind):
    X, y = rows(kind)
    if kernel == "precomputed":
        X = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=60)
    weights[5] = 0.0
    estimator = estimator.set_params(kernel=kernel, gamma=0.3, class_weight="balanced", tol=1e-9)
    model = estimator.fit(X, y, sample_weight=weights)
    before = model.decision_function(X)
    path = model.C_path(CS[::-1])
    assert path.Cs.tolist() == CS
    for C, own, found in zip(CS, path.models, path.decision_function(X), strict=True):
        single = type(estimator)(**{**estimator.get_params(), "C": C}).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(found, single.decision_function(X), rtol=0, atol=1e-6)
        assert own.certificate_.residual <= 1e-6
        assert own.C == own.C_ == C
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert path.certificates[2] == path.model(10.0).certificate_
    assert path.intercepts.shape == (4, 1 if kind == "binary" else 3)
    if kernel == "linear":
        assert path.coefs.shape == (4, 1 if kind == "binary" else 3, 3)


def test_warm_starts_save_steps():
    X, y = rows(m=300)
    Cs = np.logspace(-1, 2, 25)
    path = RLSSVC(gamma=0.3).fit(X, y).C_path(Cs)
    cold = sum(RLSSVC(gamma=0.3, C=C).fit(X, y).n_iter_ for C in Cs)
    assert path.n_iter.sum() < 0.8 * cold
    assert np.all(path.seconds >= 0)
    scores = path.score(X, y)
    assert scores.shape == (25,)
    assert scores[-1] == path.models[-1].score(X, y)
    assert path.n_support[-1] < path.n_support[0]


def test_models_go_their_own_ways():
    X, y = rows()
    model = RLSSVC(gamma=0.3).fit(X, y)
    path = model.C_path([0.5, 5.0])
    path.model(5.0).forget([0, 1, 2])
    model.forget([9])
    rest = np.arange(3, 60)
    alone = RLSSVC(gamma=0.3, C=5.0).fit(X[rest], y[rest])
    np.testing.assert_allclose(path.model(5.0).decision_function(X), alone.decision_function(X), atol=1e-5)
    whole = RLSSVC(gamma=0.3, C=0.5).fit(X, y)
    np.testing.assert_allclose(path.model(0.5).decision_function(X), whole.decision_function(X), atol=1e-5)
    assert path.model(0.5).ids_.size == 60
    path.model(0.5).learn(X[:2] + 1.0, y[:2])
    assert path.model(0.5).refit().C_ == 0.5


def test_augmented_kernels_and_scale_stay_as_resolved():
    X, y = rows()
    model = LagrangianSVC(kernel="poly", degree=2, augment=True).fit(X, y)
    path = model.C_path([1.0])
    np.testing.assert_allclose(path.decision_function(X)[0], model.decision_function(X), atol=1e-5)
    assert path.models[0].gamma_ == model.gamma_


def test_says_where_it_did_not_converge():
    X, y = rows()
    with pytest.warns(ConvergenceWarning, match="ended with max_iter"):
        model = LagrangianSVC(solver="lagrangian", kernel="linear", max_iter=1).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="ended with max_iter"):
        path = model.C_path([100.0])
    assert path.certificates[0].status == "max_iter"


@pytest.mark.parametrize(
    ("Cs", "message"),
    [
        ([], "Cs is empty"),
        ([1.0, 0.0], r"Cs\[1\] must be a finite number greater than 0"),
        (3.0, "Cs must be a sequence of numbers"),
        ([1e-320], "out of the range of float64"),
    ],
)
def test_refused(Cs, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        RLSSVC().fit(X, y).C_path(Cs)


def test_refused_elsewhere():
    with pytest.raises(ValueError, match="not fitted"):
        RLSSVC().C_path([1.0])
    assert not hasattr(LSSVC(), "C_path")
    path = CPath(np.array([1.0]), (None,), np.zeros(1))
    with pytest.raises(KeyError, match="is not on the path"):
        path.model(2.0)


def test_refused_without_rows():
    X, y = rows()
    with pytest.raises(ValueError, match="C_path needs the rows"):
        RLSSVC(kernel="linear").fit(ArraySource(X, y.astype(float))).C_path([1.0])
