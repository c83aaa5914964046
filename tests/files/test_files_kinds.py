"""Files of models without rows, of searches, of pairs of classes and of features: the same in every bit."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import squaresvm
from squaresvm import (
    LSSVC,
    LSSVCCV,
    LSSVRCV,
    RLSSVC,
    LagrangianSVC,
    Nystrom,
    OneVsOne,
    ProximalSVC,
    RelaxedLSSVC,
    Robust,
    Window,
)
from squaresvm.files import Record
from support import forged
from support.histories import data
from support.remains import Remains
from support.round_trips import again, same
from support.secrets import ID, LABEL, ROW, WEIGHT

M = 30


def header_of(folder):
    return forged.opened((folder / "a.model").read_bytes())[0]


def in_file(folder, numbers, texts=()):
    """Return which numbers and texts are in the file, in the bytes of arrays or written out."""
    raw = (folder / "a.model").read_bytes()
    found = [n for n in numbers if struct.pack("<d", n) in raw or repr(float(n)).encode() in raw]
    return found + [text for text in texts if Remains(raw).text(text)]


def test_a_plain_model_has_no_new_parts(tmp_path):
    """What was written before there were other kinds is what is read and written now."""
    X, y = data("binary", M, seed=0)
    again(LSSVC().fit(X, y), tmp_path)
    names = "squaresvm estimator parameters settings n_features feature_names sparse labels_are_objects ids "
    names += "arrivals solver reason n_iter outcome factor window preparation history arrays certificate "
    names += "receipts"
    assert set(header_of(tmp_path)) == set(names.split())


SEARCHES = {
    "rbf": (LSSVCCV(Cs=[0.1, 1.0, 30.0], gammas=(0.05, 0.4), refine=1, n_jobs=1), "multi"),
    "scored": (LSSVCCV(scoring="balanced_accuracy", class_weight="balanced", kernel="laplacian"), "binary"),
    "linear": (LSSVCCV(kernel="linear", Cs=np.array([0.01, 2.0]), fit_intercept=False), "multi"),
    "not convex": (LSSVCCV(kernel="sigmoid", Cs=[1e-3, 1e4], gammas=[0.3], coef0=-2.0), "binary"),
    "regression": (LSSVRCV(Cs=[1.0, 100.0], kernel="poly", degree=2, coef0=1.0, robust=1), "regression"),
    "precomputed": (LSSVRCV(kernel="precomputed", Cs=[0.5, 5.0]), "regression"),
}


def searched(name):
    model, kind = SEARCHES[name]
    X, y = data(kind, M, seed=3)
    X = X @ X.T if name == "precomputed" else X
    model = clone(model)
    if name == "not convex":
        with pytest.warns(UserWarning, match="not positive definite"):
            model.fit(X, y)
    else:
        model.fit(X, y, sample_weight=np.linspace(0.5, 1.5, M))
    return model, X, y


def assert_same_results(mine, theirs):
    assert mine.keys() == theirs.keys()
    assert mine["params"] == theirs["params"]
    for name in mine.keys() - {"params"}:
        np.testing.assert_array_equal(mine[name], theirs[name])
        assert mine[name].dtype == theirs[name].dtype


class TestSearches:
    @pytest.mark.parametrize("name", SEARCHES)
    def test_is_the_same_and_goes_on(self, tmp_path, name):
        model, X, _ = searched(name)
        loaded = again(model, tmp_path, factor=True)
        assert type(loaded) is type(model)
        assert same(loaded.predict(X), model.predict(X))
        assert (loaded.best_params_, loaded.best_score_) == (model.best_params_, model.best_score_)
        assert loaded.best_index_ == model.best_index_
        assert_same_results(loaded.cv_results_, model.cv_results_)
        plain = {
            k: list(v) if k in ("Cs", "gammas") and v is not None else v
            for k, v in model.get_params().items()
        }
        assert loaded.get_params() == plain
        if name == "not convex":
            assert np.isnan(loaded.cv_results_["mean_test_score"]).any()
        for each in (model, loaded):
            each.forget([2, 5])
        probe = X if name != "precomputed" else X[:, model.ids_]
        if SEARCHES[name][1] == "regression":
            assert np.allclose(loaded.predict(probe), model.predict(probe), rtol=1e-9)
        else:
            mine, theirs = loaded.decision_function(probe), model.decision_function(probe)
            assert np.allclose(mine, theirs, rtol=1e-9, atol=1e-9)
        assert loaded.best_params_ == model.best_params_

    def test_results_are_dropped_with_the_first_row(self, tmp_path):
        model, _, _ = searched("regression")
        again(model, tmp_path)
        scores = [score for score in model._search.scores if score != model.best_score_]
        numbers = [*scores, model.best_score_, *model._search.seconds]
        assert len(in_file(tmp_path, numbers)) == len(numbers)
        model.forget([4])
        loaded = again(model, tmp_path)
        assert in_file(tmp_path, numbers) == []
        assert header_of(tmp_path)["search"] is None
        with pytest.raises(AttributeError, match="dropped when rows were forgotten"):
            _ = loaded.cv_results_
        loaded.refit()
        model.refit()
        assert loaded.best_score_ == pytest.approx(model.best_score_, rel=1e-12)

    def test_in_a_window(self, tmp_path):
        X, y = data("regression", M, seed=0)
        window = Window(LSSVRCV(Cs=[1.0, 10.0], gammas=[0.1]), size=12).fit(X, y)
        loaded = again(window, tmp_path)
        assert same(loaded.predict(X), window.predict(X))
        assert loaded.estimator.Cs == [1.0, 10.0]

    def test_refused(self, tmp_path):
        X, y = data("binary", M, seed=0)

        def score(estimator, X, y):
            return 1.0

        with pytest.raises(ValueError, match="scoring is a callable"):
            squaresvm.save(LSSVCCV(Cs=[1.0], gammas=[1.0], scoring=score).fit(X, y), tmp_path / "a")
        assert list(tmp_path.iterdir()) == []


PAIRS = {
    "hinge": (RLSSVC(C=10.0), np.asarray),
    "balanced": (LagrangianSVC(C=2.0, A=0.5, class_weight="balanced", kernel="laplacian"), np.asarray),
    "squared": (LSSVC(C=3.0, gamma=0.2), np.asarray),
    "weighed": (RelaxedLSSVC(C=3.0, A=0.2, class_weight={"low": 2.0, "mid": 0.5}), np.asarray),
    "proximal": (ProximalSVC(C=0.7), np.asarray),
    "robust": (LSSVC(C=3.0, robust=Robust(rounds=2, c1=1.0, c2=2.0)), np.asarray),
    "linear": (LSSVC(C=0.3, kernel="linear"), np.asarray),
    "sparse": (RLSSVC(kernel="poly", degree=2, coef0=1.0), sp.csr_matrix),
    "single": (LSSVC(), np.float32),
    "columns first": (LSSVC(), np.asfortranarray),
    "searched": (LSSVCCV(Cs=[0.5, 5.0], gammas=[0.1, 0.3]), np.asarray),
}


def paired(name, ids=None):
    estimator, convert = PAIRS[name]
    X, y = data("multi", 2 * M, seed=3)
    weights = np.linspace(0.5, 1.5, 2 * M)
    weights[5] = 0.0
    return OneVsOne(clone(estimator)).fit(convert(X), y, sample_weight=weights, ids=ids), convert, X, y


class TestPairs:
    @pytest.mark.parametrize("factor", [False, True])
    @pytest.mark.parametrize("name", PAIRS)
    def test_is_the_same_and_goes_on(self, tmp_path, name, factor):
        model, convert, X, _ = paired(name)
        model.forget([3, 40])
        Q = convert(X)
        if factor:
            model.predict_proba(Q)
        loaded = again(model, tmp_path, factor=factor)
        assert isinstance(loaded, OneVsOne)
        assert str(loaded) == str(model)
        assert str(loaded._votes.template) == str(model._votes.template)
        assert loaded.ids_.tolist() == model.ids_.tolist()
        assert same(loaded.decision_function(Q), model.decision_function(Q))
        assert loaded.certificate_.residual == pytest.approx(model.certificate_.residual, abs=1e-9)
        for mine, theirs in zip(loaded.estimators_, model.estimators_, strict=True):
            assert str(mine) == str(theirs)
            assert (mine.C_, mine.solver_, mine.n_iter_) == (theirs.C_, theirs.solver_, theirs.n_iter_)
            assert same(mine.class_weight_, theirs.class_weight_)
            assert same(mine.decision_function(Q), theirs.decision_function(Q))
        if factor:
            assert same(loaded.predict_proba(Q), model.predict_proba(Q))
        new = np.array(["low", "mid"])
        for each in (model, loaded):
            each.forget([5, 7])
            each.learn(convert(X[:2] + 0.25), new, sample_weight=[2.0, 0.5])
        assert loaded.ids_.tolist() == model.ids_.tolist()
        close = {"rtol": 1e-6, "atol": 1e-6}
        assert np.allclose(loaded.decision_function(Q), model.decision_function(Q), **close)
        assert (loaded.predict(Q) == model.predict(Q)).mean() > 0.95
        if name == "robust":
            assert same(loaded.estimators_[0].robust_weights_, model.estimators_[0].robust_weights_)

    def test_a_new_class_and_a_refit(self, tmp_path):
        model, _, X, _ = paired("squared", ids=[f"n {i}" for i in range(2 * M)])
        loaded = again(model, tmp_path)
        for each in (model, loaded):
            each.learn(X[:3] + 5.0, np.array(["new"] * 3), ids=["a", "b", "c"])
        assert np.allclose(loaded.decision_function(X), model.decision_function(X), rtol=1e-9)
        loaded = again(loaded, tmp_path)
        assert loaded.classes_.tolist() == ["high", "low", "mid", "new"]
        assert np.allclose(loaded.refit().decision_function(X), model.refit().decision_function(X), rtol=1e-9)

    def test_two_classes_and_ids_of_several_kinds(self, tmp_path):
        X, y = data("binary", M, seed=0)
        model = OneVsOne(LSSVC(C=7.0)).fit(X, y, ids=[1, "1", *(2**70 + i for i in range(M - 2))])
        loaded = again(model, tmp_path)
        assert same(loaded.decision_function(X), model.decision_function(X))
        assert loaded.forget(["1", 2**70]).remaining == M - 2

    @pytest.mark.parametrize("name", ["squared", "hinge", "linear", "proximal", "robust", "searched"])
    def test_nothing_of_a_forgotten_row(self, tmp_path, name):
        estimator = clone(PAIRS[name][0])
        X, y = data("multi", 2 * M, seed=3)
        y = y.astype("<U40")
        weights, ids = np.linspace(0.5, 1.5, 2 * M), [f"row {i}" for i in range(2 * M)]
        X[6], y[6], weights[6], ids[6] = ROW, LABEL, WEIGHT, ID
        X[7], y[7] = ROW + 0.5, LABEL if name == "searched" else "low"
        gone = [ID, "row 7"] if name == "searched" else [ID]  # Leaving one out needs two rows a class.
        if name != "searched":
            estimator.set_params(class_weight={LABEL: 2.5, "low": 2.0})
        model = OneVsOne(estimator).fit(X, y, sample_weight=weights, ids=ids)
        model.predict_proba(X)
        again(model, tmp_path, factor=True)
        numbers = [*ROW, WEIGHT]
        assert len(in_file(tmp_path, numbers, [ID, LABEL])) == len(numbers) + 2
        model.forget(gone)
        loaded = again(model, tmp_path, factor=True)
        assert in_file(tmp_path, numbers, [ID, LABEL]) == []
        assert all(pair.get("search") is None for pair in header_of(tmp_path)["pairs"]) or name == "searched"
        assert same(loaded.decision_function(X), model.decision_function(X))

    def test_searches_of_pairs_that_held_a_forgotten_row(self, tmp_path):
        model, _, _, y = paired("searched")
        model.forget([0])
        again(model, tmp_path)
        held = [y[0] in pair for pair in model._votes.pairs]
        assert [pair["search"] is None for pair in header_of(tmp_path)["pairs"]] == held

    def test_in_a_window(self, tmp_path):
        X, y = data("multi", 2 * M, seed=0)
        window = Window(OneVsOne(LSSVC(C=2.0)), size=40).fit(X, y)
        loaded = again(window, tmp_path)
        assert same(loaded.decision_function(X), window.decision_function(X))
        for each in (window, loaded):
            each.learn(X[:1], y[:1])
        assert loaded.ids_.tolist() == window.ids_.tolist()

    def test_a_pair_that_was_changed_by_itself_is_refused(self, tmp_path):
        model, _, _, _ = paired("squared")
        pair = model.estimators_[0]
        pair.forget(pair.ids_[:1])
        with pytest.raises(ValueError, match="was changed by itself"):
            squaresvm.save(model, tmp_path / "a")
        assert list(tmp_path.iterdir()) == []


FEATURES = {
    "rbf": (Nystrom(9, gamma=0.3, random_state=1), np.asarray),
    "spread out": (Nystrom(9, landmarks="k-means++", random_state=1), np.asarray),
    "by leverage": (Nystrom(9, landmarks="leverage", kernel="laplacian", random_state=1), np.asarray),
    "pivots": (Nystrom(25, landmarks="pivoted-cholesky", kernel="linear"), np.asarray),
    "sparse": (Nystrom(9, kernel="poly", degree=2, coef0=0.5, random_state=1), sp.csr_matrix),
    "single": (Nystrom(random_state=1), np.float32),
    "columns first": (Nystrom(kernel="sigmoid", gamma=0.01, random_state=1), np.asfortranarray),
    "one": (Nystrom(1, random_state=1), np.asarray),
}


class TestFeatures:
    @pytest.mark.parametrize("name", FEATURES)
    def test_is_the_same(self, tmp_path, name):
        model, convert = FEATURES[name]
        X, _ = data("binary", M, seed=0)
        X[4] = X[5]  # Alike: one of them adds no feature.
        model = clone(model).fit(convert(X))
        loaded = again(model, tmp_path)
        assert loaded.get_params() == model.get_params()
        probe, _ = data("binary", 50, seed=9)
        for rows in (convert(probe), sp.csr_matrix(probe), probe.astype(np.float32)):
            assert same(loaded.transform(rows), model.transform(rows))
        assert loaded.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()
        assert loaded.landmark_indices_.tolist() == model.landmark_indices_.tolist()
        assert type(loaded.landmarks_) is type(model.landmarks_)
        assert (loaded.gamma_, loaded.n_features_in_) == (model.gamma_, model.n_features_in_)
        assert Record.of(loaded).history.events == ()

    def test_refused(self, tmp_path):
        X, _ = data("binary", M, seed=0)
        with pytest.raises(ValueError, match="callable kernel cannot be saved"):
            squaresvm.save(Nystrom(5, kernel=lambda a, b: a @ b.T, random_state=0).fit(X), tmp_path / "a")
        with pytest.raises(ValueError, match="give a seed"):
            squaresvm.save(Nystrom(5, random_state=np.random.RandomState(0)).fit(X), tmp_path / "a")
        assert list(tmp_path.iterdir()) == []
