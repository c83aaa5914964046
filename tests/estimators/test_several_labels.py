"""Rows with several labels each, on one factor: every label is fitted as if alone, whatever is asked."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import accuracy_score, get_scorer, roc_auc_score
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score
from sklearn.utils import get_tags

import squaresvm
from squaresvm import (
    LSSVC,
    LSSVCCV,
    RLSSVC,
    RLSSVCCV,
    LagrangianSVC,
    OneVsOne,
    ProximalSVC,
    RelaxedLSSVC,
    Window,
)
from squaresvm.pages.report import examine
from squaresvm.streaming import ArraySource
from support import histories
from support.histories import PLAIN, PROBES, History, data

K = 3
CLASSIFIERS = [name for name in PLAIN if name != "LSSVR"]
KERNELS = ["rbf", "linear", "linear-wide", "rbf-sparse", "precomputed"]


def labels(X, seed=0):
    """Return three labels, of about a half, a third and a tenth of the rows."""
    noise = np.random.default_rng(seed).normal(size=(len(X), K))
    return (X[:, :K] + 0.5 * noise > [0.0, 0.5, 1.3]).astype(int)


def begin(name, kernel, m=30):
    X, _ = data("regression", m, seed=0)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, m)
    if kernel != "precomputed":
        weights[[3, 9]] = 0.0
    return History(histories.estimator(name, kernel), kernel, X, labels(X), weights)


def assert_each_alone(history, model=None):
    """Assert that the model decides, leaves out and calibrates each label as a fit of it alone does."""
    model, X = history.model if model is None else model, history._given(history.X)
    found, left_out = model.decision_function(history.at(PROBES)), model.loo_decision_function()
    p = model.predict_proba(history.at(PROBES))
    assert found.shape == p.shape == (len(PROBES), K)
    assert model.predict(history.at(PROBES)).tolist() == (found > 0).astype(int).tolist()
    assert np.array_equal(p > 0.5, found > 0)
    for j in range(K):
        alone = histories.resolved(model).fit(X, history.y[:, j], sample_weight=history.weights)
        np.testing.assert_allclose(found[:, j], alone.decision_function(history.at(PROBES)), atol=1e-8)
        np.testing.assert_allclose(left_out[:, j], alone.loo_decision_function(), atol=1e-8)
        np.testing.assert_allclose(p[:, j], alone.predict_proba(history.at(PROBES))[:, 1], atol=1e-5)
    assert model.certificate_.residual <= 1e-8


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_learn_forget_files_and_copies(name, kernel, tmp_path):
    history = begin(name, kernel)
    assert_each_alone(history)
    history.forget([2, 17])
    history.learn(PROBES[:3], labels(PROBES[:3]))
    assert_each_alone(history)
    history.assert_as_if_never_seen()
    squaresvm.save(history.model, tmp_path / "m")
    same = history.model.predict_proba(history.at(PROBES))
    for model in (squaresvm.load(tmp_path / "m"), pickle.loads(pickle.dumps(history.model))):
        np.testing.assert_allclose(model.predict_proba(history.at(PROBES)), same, rtol=1e-12)
        assert squaresvm.verify(model).ok
        model.forget([5])
    history.forget([5])
    assert_each_alone(history, model)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_cross_validation_and_influence_equal_refits(name):
    history = begin(name, "rbf")
    X, Y, model = history.X, history.y, history.model
    own = {"sample_weight": history.weights}
    cv = KFold(4, shuffle=True, random_state=2)
    folds = list(cv.split(X))
    expected = np.empty((len(X), K))
    for rest, out in folds:
        fresh = histories.resolved(model).fit(X[rest], Y[rest], sample_weight=history.weights[rest])
        expected[out] = fresh.decision_function(X[out])
    np.testing.assert_allclose(model.cross_decision_function(folds), expected, atol=1e-8)
    assert model.cross_predict(folds).tolist() == (expected > 0).astype(int).tolist()
    right = np.all((expected > 0) == Y, axis=1)
    assert model.cross_score(folds) == pytest.approx(np.average(right, weights=history.weights))
    assert model.score(X, Y, **own) == pytest.approx(accuracy_score(Y, model.predict(X), **own))
    for scoring in (None, "roc_auc", "f1_macro"):
        found = model.influence(PROBES, labels(PROBES, 5), scoring=scoring)
        scorer = get_scorer(scoring) if scoring else lambda m, X, y: m.score(X, y)
        for row in (0, 3, 11):
            less = copy.copy(model)
            less.forget([row])
            change = scorer(less, PROBES, labels(PROBES, 5)) - scorer(model, PROBES, labels(PROBES, 5))
            assert found[row] == pytest.approx(change, abs=1e-8)


def test_equals_ridge_classifier():
    X, _ = data("regression", 60, seed=1)
    theirs, ours = RidgeClassifier(alpha=0.25), LSSVC(C=4.0, kernel="linear")
    theirs.fit(X, labels(X)), ours.fit(X, sp.csr_matrix(labels(X)))
    np.testing.assert_allclose(
        ours.decision_function(PROBES), theirs.decision_function(PROBES), rtol=1e-9, atol=1e-9
    )
    assert ours.predict(PROBES).tolist() == theirs.predict(PROBES).tolist()


@pytest.mark.parametrize("k", [2, 3])
def test_metrics_of_scikit_learn_take_what_is_returned(k):
    """Two labels as well: `classes_` is a list, as that of trees and forests, and not [0, 1]."""
    X, _ = data("regression", 60, seed=1)
    Y = labels(X)[:, :k]
    model = LSSVC(gamma=0.2).fit(X, Y)
    assert get_tags(model).classifier_tags.multi_label
    assert [each.tolist() for each in model.classes_] == [[0, 1]] * k
    assert model.class_weight_.tolist() == [1.0] * k
    expected = roc_auc_score(Y, model.decision_function(X))
    assert get_scorer("roc_auc")(model, X, Y) == pytest.approx(expected)
    assert roc_auc_score(Y, model.predict_proba(X)) == pytest.approx(expected)
    assert np.isfinite(cross_val_score(model, X, Y, cv=3, scoring="average_precision")).all()
    folds = KFold(3)
    np.testing.assert_allclose(
        cross_val_predict(model, X, Y, cv=folds), model.cross_predict(list(folds.split(X)))
    )


@pytest.mark.parametrize("cls", [LSSVCCV, RLSSVCCV])
def test_search_goes_by_rows_that_are_right_in_all_labels(cls):
    X, _ = data("regression", 30, seed=4)
    grid = {"Cs": [0.1, 10.0], "gammas": [0.05, 0.5], "cv": KFold(3)}
    model = cls(**grid).fit(X, labels(X))
    plain = {LSSVCCV: LSSVC, RLSSVCCV: RLSSVC}[cls]
    scores = [plain(**cell).fit(X, labels(X)).cross_score(KFold(3)) for cell in model.cv_results_["params"]]
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], scores)
    assert 0.0 <= model.honest_score_ <= 1.0
    by_name = cls(**grid, scoring="f1_micro").fit(X, labels(X))
    assert by_name.best_score_ > 0.0


def test_onnx(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, _ = data("regression", 40, seed=5)
    for model in (LSSVC(gamma=0.2), RLSSVC(kernel="linear")):
        model.fit(X, labels(X))
        session = runtime.InferenceSession(squaresvm.to_onnx(model).SerializeToString())
        found, decision, p = session.run(None, {"X": PROBES})
        assert found.tolist() == model.predict(PROBES).tolist()
        np.testing.assert_allclose(decision, model.decision_function(PROBES), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(p, model.predict_proba(PROBES), atol=1e-6)


def test_windows_robust_weights_partial_fit_reports_and_data_to_verify():
    X, _ = data("regression", 40, seed=5)
    Y = labels(X)
    window = Window(LSSVC(gamma=0.2), size=30).fit(X[:30], Y[:30]).learn(X[30:], Y[30:])
    fresh = LSSVC(gamma=0.2).fit(X[10:], Y[10:])
    np.testing.assert_allclose(window.decision_function(PROBES), fresh.decision_function(PROBES), atol=1e-9)
    bits = LSSVC(gamma=0.2).partial_fit(X[10:25], Y[10:25]).partial_fit(X[25:], Y[25:])
    np.testing.assert_allclose(bits.decision_function(PROBES), fresh.decision_function(PROBES), atol=1e-9)
    again = bits.refit().decision_function(PROBES)
    np.testing.assert_allclose(again, fresh.decision_function(PROBES), atol=1e-9)
    assert LSSVC(gamma=0.2, robust=2).fit(X, Y).robust_weights_.min() < 1.0
    assert examine(fresh) is not None
    assert squaresvm.verify(fresh, data=(X[10:], Y[10:])).ok
    assert not squaresvm.verify(fresh, data=(X[10:], 1 - Y[10:])).ok


@pytest.mark.parametrize("cls", [LSSVC, RelaxedLSSVC, ProximalSVC, RLSSVC, LagrangianSVC])
def test_a_label_that_all_rows_have_or_none(cls):
    X, _ = data("regression", 20, seed=5)
    Y = np.column_stack([labels(X)[:, 0], np.ones(20), np.zeros(20)]).astype(int)
    model = cls(gamma=0.2).fit(X, Y)
    assert model.predict(X)[:, 1:].tolist() == Y[:, 1:].tolist()
    assert np.isfinite(model.loo_decision_function()).all()
    assert np.isfinite(model.predict_log_proba(X)).all()


class TestStreams:
    @pytest.mark.parametrize("cls", [LSSVC, RLSSVC, LagrangianSVC])
    def test_equal_a_fit_in_memory(self, cls, tmp_path):
        X, _ = data("regression", 200, seed=5)
        Y, weights = labels(X), np.random.default_rng(0).uniform(0.5, 2.0, 200)
        source = ArraySource(X, Y, weights, block_rows=64)
        streamed = cls(kernel="linear", C=3.0, tol=1e-9).fit(source)
        held = cls(kernel="linear", C=3.0, tol=1e-9).fit(X, Y, sample_weight=weights)
        np.testing.assert_allclose(streamed.decision_function(X), held.decision_function(X), atol=1e-7)
        assert streamed.predict(X).tolist() == np.concatenate(list(streamed.predict(source))).tolist()
        assert streamed.score(source) == pytest.approx(held.score(X, Y, weights))
        np.testing.assert_allclose(streamed.predict_proba(X), held.predict_proba(X), atol=0.05)
        assert squaresvm.verify(streamed, data=source).ok
        squaresvm.save(streamed, tmp_path / "m")
        again = squaresvm.load(tmp_path / "m")
        assert again.predict_proba(X).tobytes() == streamed.predict_proba(X).tobytes()
        assert np.load(streamed.predict(source, out=tmp_path / "labels.npy")).shape == (200, K)
        streamed.forget([3, 77], source=source)
        held.forget([3, 77])
        np.testing.assert_allclose(streamed.decision_function(X), held.decision_function(X), atol=1e-7)

    def test_learn_and_forget_by_sums(self):
        X, _ = data("regression", 60, seed=5)
        model = LSSVC(kernel="linear").fit(ArraySource(X[:50], labels(X)[:50]))
        model.learn(X[50:], labels(X)[50:])
        model.forget_rows(X[:5], labels(X)[:5])
        fresh = LSSVC(kernel="linear").fit(X[5:], labels(X)[5:])
        np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-9)

    def test_bad_blocks(self):
        X, Y = np.ones((4, 2)), np.ones((4, 2))
        Y[2, 1] = 2.0
        with pytest.raises(ValueError, match=r"0 and 1 .* y\[2, 1\] is"):
            LSSVC(kernel="linear").fit(ArraySource(X, Y))
        with pytest.raises(ValueError, match="class_weight is for rows that have one label"):
            LSSVC(kernel="linear", class_weight="balanced").fit(ArraySource(X, np.ones((4, 2))))


class TestBadInput:
    @pytest.fixture
    def model(self):
        X, _ = data("regression", 12, seed=0)
        model = LSSVC().fit(X, labels(X))
        before = model.decision_function(X)
        yield model
        assert model.decision_function(X).tobytes() == before.tobytes()

    @pytest.mark.parametrize("value", [2, -1, 0.5])
    def test_an_indicator_has_zeros_and_ones(self, model, value):
        X, _ = data("regression", 12, seed=0)
        Y = labels(X).astype(type(value))
        Y[3, 1] = value
        for step in (model.fit, model.learn):
            with pytest.raises(ValueError, match=rf"0 and 1 .* y\[3, 1\] is .*{value}"):
                step(X, Y)

    def test_nan_in_one_label(self, model):
        X, _ = data("regression", 12, seed=0)
        Y = labels(X).astype(float)
        Y[3, 1] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            model.fit(X, Y)

    def test_another_number_of_labels(self, model):
        X, _ = data("regression", 12, seed=0)
        for other in (labels(X)[:, 0], labels(X)[:, :2]):
            with pytest.raises(ValueError, match="fitted on an indicator of 3 labels"):
                model.learn(X, other)
        with pytest.raises(ValueError, match="fitted on one label a row"):
            LSSVC().fit(X, labels(X)[:, 0]).learn(X, labels(X))

    def test_what_is_of_one_label_a_row(self, model):
        X, _ = data("regression", 12, seed=0)
        with pytest.raises(ValueError, match="predict_set is of rows that have one label"):
            model.predict_set(X)
        for weights in ("balanced", {0: 2.0}):
            with pytest.raises(ValueError, match="class_weight is for rows that have one label"):
                LSSVC(class_weight=weights).fit(X, labels(X))
        with pytest.raises(ValueError, match="classes is for rows of one label"):
            LSSVC().partial_fit(X, labels(X), classes=[0, 1])
        with pytest.raises(ValueError, match="1d array"):
            OneVsOne(LSSVC()).fit(X, labels(X))
