"""One against one: pairs against separate fits, requests and leave-one-out against fits without the rows."""

from __future__ import annotations

import copy
import pickle
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.multiclass import OneVsOneClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from squaresvm import LSSVC, LSSVCCV, LSSVR, RLSSVC, LagrangianSVC, OneVsOne, Window
from squaresvm.meta.pairs import combine

ESTIMATORS = [
    LSSVC(C=3.0, gamma=0.4),
    RLSSVC(C=3.0, gamma=0.4, tol=1e-9),
    LagrangianSVC(A=0.5, kernel="linear", tol=1e-9),
]
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


def rows(m=48, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    value = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=m)
    order = np.argsort(np.argsort(value)) * classes // m
    return X, np.array(["a", "bb", "ccc", "dddd", "e"])[order]


@every
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_equals_scikit_learns_composition(estimator, sparse):
    X, y = rows()
    X = sp.csr_matrix(X) if sparse else X
    ours, peer = OneVsOne(estimator).fit(X, y), OneVsOneClassifier(estimator).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), rtol=0, atol=1e-9)
    assert ours.predict(X).tolist() == peer.predict(X).tolist()
    assert len(ours.estimators_) == 6
    assert ours.decision_function(X).shape == (48, 4)
    assert ours.classes_.tolist() == ["a", "bb", "ccc", "dddd"]


@every
def test_two_classes_are_the_plain_model(estimator):
    X, y = rows(classes=2)
    ours = OneVsOne(estimator).fit(X, y)
    plain = type(estimator)(**estimator.get_params()).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), plain.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X), plain.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(ours.loo_decision_function(), plain.loo_decision_function(), atol=1e-8)


@every
def test_requests_equal_a_fit_of_the_rows_that_are_left(estimator):
    X, y = rows()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=48)
    weights[5] = 0.0
    order = np.argsort(y == "dddd", kind="stable")  # The last class comes in later.
    X, y, weights = X[order], y[order], weights[order]
    model = OneVsOne(estimator).fit(X[:30], y[:30], sample_weight=weights[:30])
    model.learn(X[30:], y[30:], sample_weight=weights[30:])
    assert model.classes_.tolist() == ["a", "bb", "ccc", "dddd"]
    receipt = model.forget([2, 31, 40])
    assert receipt.ids == (2, 31, 40)
    assert receipt.remaining == 45
    assert receipt.residual <= 1e-6
    assert receipt.classes_gone == ()
    rest = np.delete(np.arange(48), [2, 31, 40])
    assert model.ids_.tolist() == rest.tolist()
    alone = OneVsOne(estimator).fit(X[rest], y[rest], sample_weight=weights[rest])
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), rtol=0, atol=1e-6)
    for other in (copy.copy(model), pickle.loads(pickle.dumps(model))):
        other.forget([3])
    assert model.ids_.size == 45
    model.flush()
    before = model.decision_function(X)
    np.testing.assert_allclose(model.refit().decision_function(X), before, rtol=0, atol=1e-6)


@every
def test_leave_one_out_equals_fits_without_each_row(estimator):
    X, y = rows(m=20, classes=3)
    model = OneVsOne(estimator).fit(X, y)
    found = model.loo_decision_function()
    right = []
    for i in range(20):
        rest = np.delete(np.arange(20), i)
        without = OneVsOne(estimator).fit(X[rest], y[rest])
        np.testing.assert_allclose(found[[i]], without.decision_function(X[[i]]), rtol=0, atol=1e-6)
        right.append(without.predict(X[[i]])[0] == y[i])
    assert model.loo_score() == pytest.approx(np.mean(right))


@every
def test_probabilities(estimator):
    X, y = rows(m=60)
    model = OneVsOne(estimator).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert model.classes_[p.argmax(axis=1)].tolist() == model.predict(X).tolist()
    model.forget(np.arange(10))
    alone = OneVsOne(estimator).fit(X[10:], y[10:])
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), atol=1e-4)


def test_a_class_that_loses_its_last_row_is_gone():
    X, y = rows()
    model = OneVsOne(LSSVC()).fit(X, y)
    receipt = model.forget(np.flatnonzero(y == "bb"))
    assert receipt.classes_gone == ("bb",)
    assert model.classes_.tolist() == ["a", "ccc", "dddd"]
    assert len(model.estimators_) == 3
    with pytest.raises(ValueError, match="at least two classes"):
        model.forget(np.flatnonzero((y == "a") | (y == "ccc")))
    assert model.classes_.tolist() == ["a", "ccc", "dddd"]


def test_a_gone_class_takes_its_idle_rows_along():
    X, y = rows()
    weights = np.ones(48)
    idle = np.flatnonzero(y == "bb")
    weights[idle[1:]] = 0.0
    model = OneVsOne(LSSVC()).fit(X, y, sample_weight=weights)
    receipt = model.forget([idle[0]])
    assert receipt.classes_gone == ("bb",)
    assert receipt.remaining == model.ids_.size == 48 - idle.size


def test_scale_is_taken_from_all_rows_and_class_weights_by_pair():
    X, y = rows()
    model = OneVsOne(LSSVC(class_weight={"a": 3.0, "dddd": 0.5})).fit(X, y)
    (gamma,) = {m.gamma_ for m in model.estimators_}
    assert gamma == pytest.approx(1.0 / (3 * X.var()), rel=1e-12)
    pairs = dict(zip(combinations(model.classes_.tolist(), 2), model.estimators_, strict=True))
    assert pairs["a", "dddd"].class_weight_.tolist() == [3.0, 0.5]
    assert pairs["bb", "ccc"].class_weight_.tolist() == [1.0, 1.0]


def test_composes_with_search_and_window():
    X, y = load_iris(return_X_y=True)
    searched = OneVsOne(LSSVCCV(Cs=[1.0, 10.0], gammas=[0.1, 0.5])).fit(X, y)
    assert searched.score(X, y) > 0.95
    window = Window(OneVsOne(LSSVC(gamma=0.5)), size=140).fit(X, y)
    window.learn(X[:5], y[:5])
    assert window.ids_.tolist() == list(range(15, 155))


def test_own_ids_and_partial_fit():
    X, y = rows()
    names = [f"r{i}" for i in range(48)]
    model = OneVsOne(LSSVC()).partial_fit(X[:40], y[:40], ids=names[:40])
    with pytest.raises(ValueError, match="must bring theirs"):
        model.learn(X[40:], y[40:])
    model.partial_fit(X[40:], y[40:], ids=names[40:])
    assert model.forget(["r7"]).ids == ("r7",)
    with pytest.raises(KeyError, match="r7"):
        model.forget(["r7"])
    with pytest.raises(ValueError, match="not among classes"):
        model.partial_fit(X[:1], ["zz"], classes=["a", "bb"], ids=["new"])


def test_votes_decide_before_values():
    values = np.array([[0.1, 0.1, -99.0]])  # Class 1 beats 0, 2 beats 0, 1 beats 2.
    assert combine(values, 3).argmax() == 1
    assert np.floor(combine(values, 3) + 0.5).tolist() == [[0.0, 2.0, 1.0]]


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LSSVR(), "estimator must be a classifier of this package"),
        (LSSVC(kernel="precomputed"), "a precomputed kernel cannot be used"),
    ],
)
def test_refused_estimators(estimator, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        OneVsOne(estimator).fit(X, y)


def test_refused_rows():
    X, y = rows()
    weights = (y != "bb").astype(float)
    with pytest.raises(ValueError, match="all rows of class 'bb' have weight zero"):
        OneVsOne(LSSVC()).fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="got one class, 'a'"):
        OneVsOne(LSSVC()).fit(X, np.full(48, "a"))
    with pytest.raises(ValueError, match="call 'fit' first"):
        _ = OneVsOne(LSSVC()).classes_
    model = OneVsOne(LSSVC()).fit(X, y)
    with pytest.raises(ValueError, match="nothing to forget"):
        model.forget([])
    with pytest.raises(ValueError, match="NaN"):
        model.learn(np.full((1, 3), np.nan), ["a"])
    assert model.ids_.size == 48


@parametrize_with_checks(
    [OneVsOne(LSSVC())],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "probabilities come from leave-one-out values"
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
