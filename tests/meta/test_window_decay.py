"""A window with a half-life equals a fit with weights that halve with age, whatever came, left or failed."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, OneVsOne, Window, check_chain, verify
from squaresvm.meta.decay import OLDEST
from support.histories import PROBES, data, values
from support.streams import NAMES, Stream, every_model, ways

CALLS = [1, 1, 4, 30, 1, 2, 45, 1]


def decayed(name, kernel="rbf", by="count", half_life=6.5, **parameters):
    return Stream(name, kernel, by, half_life=half_life, **parameters)


@ways
@every_model
def test_equals_a_weighted_fit_of_its_rows(name, kernel, by):
    stream = decayed(name, kernel, by, own_ids=by == "age")
    stream.assert_exact()
    for count in CALLS:
        stream.learn(count)
        stream.assert_exact(left_out=count == 2)
    assert stream.window.certificate_.residual <= 1e-9


@ways
@every_model
def test_forgetting_makes_no_row_younger(name, kernel, by):
    stream = decayed(name, kernel, by, own_ids=True)
    for step in range(3):
        # The latest row among them: the ages of the others are still counted from when it came.
        places = [0, 3, stream.kept.size - 1]
        names = stream.window.ids_[places].tolist()
        receipt = stream.window.forget(names)
        stream.kept = np.delete(stream.kept, places)
        assert receipt.ids == tuple(names)
        assert receipt.remaining == stream.kept.size
        stream.assert_exact()
        stream.learn(1 + 2 * step)
        stream.assert_exact()


@ways
@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_the_fit_are_of_the_weighted_rows(name, by):
    stream = decayed(name, by=by, gamma="scale", size=200)
    fresh = clone(stream.window.estimator).fit(stream.X[:25], stream.y[:25], stream.fit_weights())
    assert stream.window.gamma_ == pytest.approx(fresh.gamma_, rel=1e-12)
    stream.learn(40)
    k = stream.kept
    assert stream.window.refit() is stream.window
    fresh = clone(stream.window.estimator).fit(stream.X[k], stream.y[k], stream.fit_weights())
    assert stream.window.gamma_ == pytest.approx(fresh.gamma_, rel=1e-12)
    np.testing.assert_allclose(stream.values(), values(fresh, PROBES), rtol=0, atol=1e-8)
    stream.learn(3)
    stream.assert_exact()


def test_a_long_half_life_is_none_and_a_short_one_is_the_latest_rows():
    X, y = data("regression", 60, seed=2)
    model = LSSVR(C=5.0, gamma=0.3, tol=1e-10)
    plain, long = Window(model, 20).fit(X[:30], y[:30]), Window(model, 20, 1e12).fit(X[:30], y[:30])
    for window in (plain, long):
        window.learn(X[30:], y[30:])
    np.testing.assert_allclose(long.predict(X), plain.predict(X), rtol=0, atol=1e-8)
    short = Window(model, 50, half_life=0.1).fit(X[:30], y[:30])
    short.learn(X[30:33], y[30:33])
    ages = np.arange(short.ids_.size)[::-1]
    assert short.ids_.tolist() == (32 - ages).tolist()
    assert ages[0] == int(OLDEST * 0.1)
    fresh = clone(model).fit(X[short.ids_], y[short.ids_], 2.0 ** (-ages / 0.1))
    np.testing.assert_allclose(short.predict(X), fresh.predict(X), rtol=0, atol=1e-8)


def test_one_row_a_constant_column_and_equal_rows():
    X = np.column_stack([np.ones(12), np.repeat(np.arange(4.0), 3)])
    y = np.arange(12.0)
    for kernel in ("linear", "rbf"):
        model = LSSVR(C=3.0, kernel=kernel, gamma=0.5, tol=1e-10)
        window = Window(model, 5, half_life=2.0).fit(X[:1], y[:1])
        for i in range(1, 12):
            window.learn(X[[i]], y[[i]])
            kept = np.arange(max(0, i - 4), i + 1)
            fresh = clone(model).fit(X[kept], y[kept], 2.0 ** (-(i - kept) / 2.0))
            np.testing.assert_allclose(window.predict(X), fresh.predict(X), rtol=0, atol=1e-8)


def test_several_targets():
    X, y = data("regression", 50, seed=4)
    Y = np.column_stack([y, y**2, -3.0 * y + X[:, 0]])
    window = Window(LSSVR(C=5.0, gamma=0.3, tol=1e-10), 25, half_life=4.0).fit(X[:30], Y[:30])
    window.learn(X[30:], Y[30:])
    weights = 2.0 ** (-np.arange(25)[::-1] / 4.0)
    fresh = LSSVR(C=5.0, gamma=0.3, tol=1e-10).fit(X[25:], Y[25:], weights)
    np.testing.assert_allclose(window.predict(X), fresh.predict(X), rtol=0, atol=1e-8)
    before = window.predict(X)
    bad = Y[:1].copy()
    bad[0, 2] = np.nan
    with pytest.raises(ValueError, match=r"y\[0, 2\]"):
        window.learn(X[:1], bad)
    with pytest.raises(ValueError, match="targets"):
        window.learn(X[:1], Y[:1, :2])
    assert window.ids_.tolist() == list(range(25, 50))
    np.testing.assert_array_equal(window.predict(X), before)


@pytest.mark.parametrize("inner", [LSSVC(C=3.0, gamma=0.2, tol=1e-10), RLSSVC(C=3.0, gamma=0.2, tol=1e-10)])
def test_pairs_of_classes(inner, tmp_path):
    X, y = data("multi", 70, seed=5)
    window = Window(OneVsOne(inner), 40, half_life=9.0).fit(X[:45], y[:45])
    for part in (slice(45, 46), slice(46, 60)):
        window.learn(X[part], y[part])
    window.forget([30, 59])
    kept = np.setdiff1d(np.arange(20, 60), [30, 59])

    def assert_exact(window, kept, now):
        assert window.ids_.tolist() == kept.tolist()
        fresh = OneVsOne(inner).fit(X[kept], y[kept], 2.0 ** (-(now - kept) / 9.0))
        np.testing.assert_allclose(window.decision_function(X), fresh.decision_function(X), atol=1e-7)

    assert_exact(window, kept, 59)
    window.refit()
    assert_exact(window, kept, 59)
    squaresvm.save(window, tmp_path / "pairs.model")
    again = squaresvm.load(tmp_path / "pairs.model")
    for each in (window, again):
        each.learn(X[60:], y[60:])
        assert_exact(each, np.append(kept, np.arange(60, 70))[-40:], 69)


@ways
@pytest.mark.parametrize(
    ("name", "kernel"), [("LSSVC", "rbf"), ("LSSVR", "linear"), ("RLSSVC", "precomputed")]
)
def test_files_pickles_and_copies_go_on(name, kernel, by, tmp_path):
    stream = decayed(name, kernel, by)
    stream.learn(3)
    squaresvm.save(stream.window, tmp_path / "stream.model")
    held = stream.window
    for other in (
        squaresvm.load(tmp_path / "stream.model"),
        pickle.loads(pickle.dumps(held)),
        copy.copy(held),
    ):
        assert other.half_life == 6.5
        beside = copy.copy(stream)
        beside.window = other
        beside.assert_exact()
        for count in (1, 20):
            beside.learn(count)
            beside.assert_exact()
    stream.assert_exact()


def test_receipts_stay_true():
    stream = decayed("LSSVC", own_ids=True)
    for count in (1, 5):
        stream.learn(count)
    stream.window.forget(stream.window.ids_[[2]].tolist(), verify=True)
    model = stream.window.estimator_
    assert check_chain(model.receipts_) == []
    assert [receipt.kind for receipt in model.receipts_[-4:]] == ["learn", "forget", "refit", "forget"]
    assert verify(stream.window).ok
    # The digest of the rows is of what the caller gave, and not of weights that move with time.
    digests = [receipt.digest for receipt in model.receipts_]
    assert digests[-3] == digests[-2] != digests[-1]


@ways
def test_a_request_that_fails_changes_nothing(by):
    stream = decayed("LSSVC", by=by)
    stream.learn(2)
    held, before = stream.window.estimator_, stream.values()
    more = {"times": [stream.times[stream.arrived]]} if by == "age" else {}
    for X, y, weight, said in (
        (np.full((1, stream.X.shape[1]), np.nan), stream.y[:1], None, "NaN"),
        (stream.X[:1, :1], stream.y[:1], None, "features"),
        (stream.X[:1], stream.y[:1], [-1.0], "[Nn]egative"),
        (stream.X[:1], stream.y[:1], [np.nan], "NaN"),
    ):
        with pytest.raises(ValueError, match=said):
            stream.window.learn(X, y, sample_weight=weight, **more)
        assert stream.window.estimator_ is held
        np.testing.assert_array_equal(stream.values(), before)
    stream.learn(4)
    stream.assert_exact()


class TestBadParameters:
    X, y = data("regression", 20, seed=1)

    @pytest.mark.parametrize("half_life", [0.0, -1.0, np.nan, np.inf, "a day", True])
    def test_half_life_is_a_positive_number(self, half_life):
        with pytest.raises(ValueError, match="half_life"):
            Window(LSSVR(), 10, half_life=half_life).fit(self.X, self.y)

    def test_not_with_robust_weights(self):
        with pytest.raises(ValueError, match="robust"):
            Window(LSSVR(robust=1), 10, half_life=3.0).fit(self.X, self.y)

    def test_not_changed_on_the_way(self):
        window = Window(LSSVR(), 10).fit(self.X, self.y).set_params(half_life=3.0)
        with pytest.raises(ValueError, match="fit anew"):
            window.learn(self.X[:1], self.y[:1])
        window = Window(LSSVR(), 10, half_life=3.0).fit(self.X, self.y).set_params(half_life=None)
        with pytest.raises(ValueError, match="fit anew"):
            window.learn(self.X[:1], self.y[:1])

    def test_weights_of_the_wrong_length(self):
        with pytest.raises(ValueError, match="sample_weight"):
            Window(LSSVR(), 10, half_life=3.0).fit(self.X, self.y, sample_weight=np.ones(3))


def test_an_old_model_keeps_its_own_answers():
    """The last step of a request is a fit in the buffers that models share: who kept an older one has it."""
    X, y = data("regression", 80, seed=6)
    window = Window(LSSVR(C=5.0, gamma=0.3, tol=1e-10), 30, half_life=8.0).fit(X[:30], y[:30])
    old = window.estimator_
    expected, left_out = old.predict(X), old.loo_predict()
    for i in range(30, 60):
        window.learn(X[[i]], y[[i]])
    np.testing.assert_array_equal(old.predict(X), expected)
    np.testing.assert_allclose(old.loo_predict(), left_out, rtol=0, atol=1e-7)
