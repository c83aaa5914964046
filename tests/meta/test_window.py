"""A window equals a fit of the latest rows, by count or by age, whatever has come and gone or has failed."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError

from squaresvm import LSSVC, LSSVR, RLSSVC, Window, check_absence, verify
from support.histories import PROBES, data, precomputed_kernel, values
from support.streams import NAMES, Stream, every_model, ways

#: Rows of each call: one by one, in batches, and more than the window holds.
CALLS = [1, 1, 4, 30, 1, 2, 45, 1]


@ways
@every_model
def test_equals_a_fresh_fit_of_its_rows(name, kernel, by):
    stream = Stream(name, kernel, by, own_ids=by == "age")
    numbers = [getattr(stream.window, word, None) for word in ("C_", "gamma_")]
    stream.assert_exact()
    for count in CALLS:
        stream.learn(count)
        stream.assert_exact(left_out=count == 2)
    assert 2 <= stream.window.ids_.size <= (18 if by == "count" else 50)
    assert [getattr(stream.window, word, None) for word in ("C_", "gamma_")] == numbers


def test_three_classes_that_come_and_go():
    X, y = data("multi", 60, seed=5)
    y = np.where(np.arange(60) < 30, np.where(y == "high", "mid", y), y)
    window = Window(LSSVC(C=3.0, gamma=0.2, tol=1e-10), 12).fit(X[:12], y[:12])
    assert window.classes_.tolist() == ["low", "mid"]
    for i in range(12, 60):
        window.learn(X[[i]], y[[i]])
        part = slice(i - 11, i + 1)
        fresh = clone(window.estimator).fit(X[part], y[part])
        assert window.classes_.tolist() == fresh.classes_.tolist() == np.unique(y[part]).tolist()
        np.testing.assert_allclose(window.decision_function(X), fresh.decision_function(X), atol=1e-8)
    assert window.classes_.size == 3


@ways
@every_model
def test_forget_before_time(name, kernel, by):
    stream = Stream(name, kernel, by, own_ids=True)
    for step in range(3):
        names = stream.window.ids_[[0, 3]].tolist()
        receipt = stream.window.forget(names)
        stream.kept = np.delete(stream.kept, [0, 3])
        assert receipt.ids == tuple(names)
        assert receipt.remaining == stream.kept.size
        assert receipt.residual <= 1e-10
        stream.assert_exact()
        with pytest.raises(KeyError, match="row"):
            stream.window.forget(names)
        stream.learn(1 + 2 * step)
        stream.assert_exact()


@ways
@every_model
def test_partial_fit(name, kernel, by):
    stream = Stream(name, kernel, by)
    first = Window(clone(stream.window.estimator), 18)
    m, X = 25, stream.X[:25]
    given = precomputed_kernel(X, X) if kernel == "precomputed" else X
    first.partial_fit(given, stream.y[:m], sample_weight=stream.weights[:m], **stream.more(slice(0, m)))
    np.testing.assert_allclose(values(first.estimator_, stream.at()), stream.values(), rtol=0, atol=1e-12)
    stream.window = first
    for count in (1, 5):
        stream.learn(count, "partial_fit")
        stream.assert_exact()


@ways
@pytest.mark.parametrize("name", NAMES)
def test_refit_resolves_anew(name, by):
    stream = Stream(name, by=by, gamma="scale")
    stream.learn(40)
    before = stream.window.gamma_
    assert stream.window.refit() is stream.window
    k = stream.kept
    fresh = clone(stream.window.estimator).fit(stream.X[k], stream.y[k], stream.weights[k])
    assert stream.window.gamma_ == pytest.approx(fresh.gamma_, rel=1e-12) != pytest.approx(before, rel=1e-3)
    np.testing.assert_allclose(stream.values(), values(fresh, PROBES), rtol=0, atol=1e-9)
    stream.learn(3)
    stream.assert_exact()


class TestFace:
    @pytest.mark.parametrize("model", [LSSVC(C=2.0, gamma=0.3), RLSSVC(C=2.0, gamma=0.3)])
    def test_of_a_classifier(self, model):
        X, y = data("binary", 40, seed=1)
        window = Window(model, size=15).fit(X, y)
        plain = clone(model).fit(X[25:], y[25:])
        assert is_classifier(window)
        np.testing.assert_array_equal(window.predict(X), plain.predict(X))
        np.testing.assert_allclose(window.decision_function(X), plain.decision_function(X), atol=1e-9)
        np.testing.assert_allclose(window.predict_proba(X), plain.predict_proba(X), atol=1e-4)
        assert window.score(X, y) == plain.score(X, y) == np.mean(plain.predict(X) == y)
        weights = np.arange(40.0)
        assert window.score(X, y, weights) == pytest.approx(plain.score(X, y, weights)) != window.score(X, y)
        assert window.certificate_.status == "converged"

    def test_of_a_regressor(self):
        X, y = data("regression", 40, seed=1)
        window = Window(LSSVR(C=20.0, gamma=0.3), size=15).fit(X, y)
        plain = LSSVR(C=20.0, gamma=0.3).fit(X[25:], y[25:])
        assert is_regressor(window)
        assert not hasattr(window, "decision_function")
        assert not hasattr(window, "predict_proba")
        assert window.score(X, y) == pytest.approx(plain.score(X, y))
        assert window.score(X[25:], y[25:]) > 0.5

    def test_of_its_evidence(self, tmp_path):
        X, y = data("binary", 40, seed=1)
        window = Window(LSSVC(), size=15)
        with pytest.raises(AttributeError):
            _ = window.prove_absence
        window.fit(X[:30], y[:30]).learn(X[30:], y[30:])
        commitment = window.receipts_[-1].commitment
        assert check_absence(window.prove_absence(24), commitment) == []
        assert len(window.anchor_receipts(tmp_path / "kept.jsonl")) == 4
        assert window.refit_due(share=1e6) == ()
        assert verify(window, receipts=tmp_path / "kept.jsonl", absent=24).ok

    def test_before_fit(self):
        window = Window(LSSVC(), 5)
        assert not hasattr(window, "ids_")
        for request in (lambda: window.predict(PROBES), lambda: window.learn(PROBES, np.arange(12) % 2)):
            with pytest.raises(NotFittedError):
                request()
        with pytest.raises(NotFittedError):
            window.forget([0])

    @ways
    def test_clone_pickle_and_copies_go_their_own_way(self, by):
        stream = Stream("LSSVC", by=by)
        stream.learn(7)
        unfitted = clone(stream.window)
        assert not hasattr(unfitted, "estimator_")
        assert (unfitted.size, unfitted.estimator.C) == (18, 3.0)
        for way in (lambda window: pickle.loads(pickle.dumps(window)), copy.deepcopy, copy.copy):
            twin = copy.copy(stream)
            twin.window = way(stream.window)
            before, gamma = stream.values(), stream.window.gamma_
            twin.learn(5)
            twin.assert_exact()
            twin.window.refit()
            assert stream.values().tobytes() == before.tobytes()
            assert stream.window.gamma_ == gamma
            stream.learn(2)
            stream.assert_exact()
