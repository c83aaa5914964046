"""Ids, receipts, `partial_fit`, rows of weight zero: what requests promise besides exact numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from squaresvm import LSSVC, LSSVR, RLSSVC, ProximalSVC, Receipt
from support import histories
from support.histories import PLAIN, PROBES, History, data, values

every_class = pytest.mark.parametrize("name", PLAIN)
SOME = ["LSSVC", "ProximalSVC", "RLSSVC", "LSSVR"]


def kind_of(name):
    return "regression" if histories.is_regression(name) else "binary"


def begin(name, kernel="rbf", m=16, ids=None, weights=None, seed=0):
    X, y = data(kind_of(name), m, seed)
    if ids is not None:
        ids = [ids(i) for i in range(m)]
    return History(histories.estimator(name, kernel), kernel, X, y, weights, ids)


class TestArrivalNumbers:
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
    @every_class
    def test_do_not_shift(self, name, kernel):
        history = begin(name, kernel)
        history.forget([0, 5])
        assert history.model.ids_.tolist() == [1, 2, 3, 4, *range(6, 16)]
        history.learn(*data(kind_of(name), 2, seed=1))
        assert history.model.ids_.tolist() == [1, 2, 3, 4, *range(6, 18)]
        history.forget([17, 1])
        history.learn(*data(kind_of(name), 1, seed=2))
        assert history.model.ids_.tolist()[-2:] == [16, 18]  # A number is never given twice.
        history.assert_as_if_never_seen()

    @pytest.mark.parametrize(
        "some",
        [
            [3, 7],
            (7, 3),
            {3, 7},
            np.array([3, 7]),
            np.array([3, 7], dtype=np.uint8),
            [np.int64(3), np.int32(7)],
            range(3, 8, 4),
            iter([3, 7]),
            pd.Series([3, 7]),
            pd.Index([3, 7]),
        ],
        ids=lambda some: type(some).__name__,
    )
    def test_may_come_in_any_collection(self, some):
        model = begin("LSSVC").model
        receipt = model.forget(some)
        assert sorted(receipt.ids) == [3, 7]
        assert model.ids_.tolist() == [0, 1, 2, 4, 5, 6, *range(8, 16)]

    def test_as_read_from_the_model(self):
        model = begin("LSSVC").model
        model.forget([model.ids_[2]])
        model.forget(list(model.ids_[:2]))
        assert model.ids_.tolist() == list(range(3, 16))

    @pytest.mark.parametrize("strange", [2.0, "2", None, (2,), -1, 16, 10**30, b"2", 2.5])
    def test_nothing_but_a_number_is_one(self, strange):
        model = begin("LSSVC").model
        with pytest.raises(KeyError, match="no row with id"):
            model.forget([strange])


#: Ids of many types, one for each row.
MIXED = ["a", ("b", 2), 3, 4.5, frozenset({6}), b"bytes", None, 10**40, ("c",), -1, "", 1j, *"xyz", "last"]
OWN = {
    "strings": lambda i: f"person {i}" * (1 + i % 3),
    "numbers": lambda i: 100 - 7 * i,
    "tuples": lambda i: ("site", i),
    "mixed": lambda i: MIXED[i],
}


@pytest.mark.parametrize("kind", OWN)
class TestOwnIds:
    @pytest.mark.parametrize("name", SOME)
    def test_stay_as_they_came(self, kind, name):
        own = OWN[kind]
        history = begin(name, ids=own)
        assert history.model.ids_.tolist() == [own(i) for i in range(16)]
        receipt = history.forget([own(11), own(4)])
        assert receipt.ids == (own(11), own(4))
        history.learn(*data(kind_of(name), 2, seed=1), ids=["new", ("new", 2)])
        history.forget([own(0), ("new", 2)])
        history.learn(*data(kind_of(name), 1, seed=2), ids=[own(4)])  # Free again.
        assert history.model.ids_.tolist()[-2:] == ["new", own(4)]
        history.assert_as_if_never_seen()

    def test_are_found_by_equality_and_not_by_place(self, kind):
        history = begin("LSSVC", ids=OWN[kind])
        absent = 3 if kind != "mixed" else 2
        with pytest.raises(KeyError, match=f"no row with id {absent}"):
            history.model.forget([absent])
        history.assert_as_if_never_seen()


def test_ids_are_copied():
    X, y = data("binary", 6, seed=0)
    ids = np.array(["a", "b", "c", "d", "e", "f"])
    model = LSSVC().fit(X, y, ids=ids)
    ids[0] = "z"
    assert model.ids_[0] == "a"


@pytest.mark.parametrize("kernel", ["rbf", "linear", "linear-wide", "precomputed"])
@every_class
def test_rows_given_are_neither_changed_nor_held(name, kernel):
    """Requests leave the caller's arrays alone, and what the caller does to them later has no effect."""
    X, y = data(kind_of(name), 20, seed=0)
    weights = np.linspace(0.5, 1.5, 20)
    history = History(histories.estimator(name, kernel), kernel, X[:17], y[:17], weights[:17])
    new = histories.precomputed_kernel(X[17:], X) if kernel == "precomputed" else history.form(X[17:].copy())
    targets, costs = y[17:].copy(), weights[17:].copy()
    sent = [new.copy(), targets.copy(), costs.copy()]
    history.model.learn(new, targets, costs)
    for array, copy in zip((new, targets, costs), sent, strict=True):
        np.testing.assert_array_equal(array, copy)
    probes = histories.precomputed_kernel(PROBES, X) if kernel == "precomputed" else history.form(PROBES)
    before = values(history.model, probes)
    new[:], targets[:], costs[:] = 0.25, targets[0], 9.0
    np.testing.assert_array_equal(values(history.model, probes), before)
    history.X, history.y, history.weights = X, y, weights
    history.ids = list(range(20))
    history.forget([2])
    history.assert_as_if_never_seen()


class TestReceipt:
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
    @every_class
    def test_fields(self, name, kernel):
        model = begin(name, kernel).model
        receipt = model.forget([12, 2])
        assert isinstance(receipt, Receipt)
        assert (receipt.ids, receipt.remaining) == ((12, 2), 14)
        assert all(type(i) is int for i in receipt.ids)
        assert 0.0 <= receipt.residual <= 1e-10
        assert type(receipt.residual) is float
        assert not receipt.refactored
        assert receipt.classes_gone == ()
        assert 0.0 <= receipt.seconds < np.inf
        if not receipt.sampled:
            assert receipt.residual == pytest.approx(model.certificate_.residual, abs=1e-13)

    def test_says_so_where_a_factor_had_to_be_made(self):
        """A model that was loaded has no factor: the first request makes one, the next has it."""
        import pickle

        model = pickle.loads(pickle.dumps(begin("LSSVC").model))
        assert model.forget([1]).refactored
        assert not model.forget([2]).refactored

    def test_in_one_line(self):
        model = begin("LSSVC").model
        assert str(model.forget([1])).startswith("forgot 1 row in ")
        text = str(model.forget([2, 3]))
        assert text.startswith("forgot 2 rows in ")
        assert "13 remain" in text


class TestPartialFit:
    @pytest.mark.parametrize("name", PLAIN)
    def test_fits_then_learns(self, name):
        X, y = data(kind_of(name), 20, seed=0)
        weights = np.linspace(0.5, 2.0, 20)
        ids = [f"row {i}" for i in range(20)]
        model = histories.estimator(name, "rbf", gamma=0.2)
        for part in (slice(0, 12), slice(12, 13), slice(13, 20)):
            assert model.partial_fit(X[part], y[part], sample_weight=weights[part], ids=ids[part]) is model
        expected = histories.estimator(name, "rbf", gamma=0.2).fit(X, y, weights)
        np.testing.assert_allclose(values(model, PROBES), values(expected, PROBES), rtol=0, atol=1e-8)
        assert model.ids_.tolist() == ids

    def test_keeps_the_numbers_of_the_first_call(self):
        X, y = data("binary", 20, seed=0)
        model = LSSVC().partial_fit(X[:10], y[:10], classes=["no", "yes"])
        gamma = model.gamma_
        assert model.partial_fit(10 * X[10:], y[10:]).gamma_ == gamma

    def test_refuses_labels_that_are_not_among_classes(self):
        X, y = data("multi", 20, seed=0)
        model = LSSVC()
        with pytest.raises(ValueError, match=r"'high'.*not among classes"):
            model.partial_fit(X, y, classes=["low", "mid"])
        assert not hasattr(model, "classes_")
        model.partial_fit(X, y, classes=["low", "mid", "high", "never seen"])
        assert model.classes_.tolist() == ["high", "low", "mid"]
        before = values(model, PROBES)
        with pytest.raises(ValueError, match="'other'"):
            model.partial_fit(X[:1], ["other"], classes=["low", "mid", "high"])
        np.testing.assert_array_equal(values(model, PROBES), before)

    def test_of_a_regressor_takes_no_classes(self):
        X, y = data("regression", 20, seed=0)
        model = LSSVR().partial_fit(X[:10], y[:10], np.ones(10), range(10))
        model.partial_fit(X[10:], y[10:], None, range(10, 20))
        assert model.ids_.tolist() == list(range(20))

    def test_learn_and_forget_need_a_fit(self):
        for method, arguments in (("learn", (PROBES, [1])), ("forget", ([1],)), ("flush", ()), ("refit", ())):
            with pytest.raises(ValueError, match="not fitted"):
                getattr(LSSVC(), method)(*arguments)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "linear-wide", "precomputed"])
@every_class
class TestWeightZero:
    """Such rows are held, have an id, and are no part of the problem."""

    def test_learned_and_forgotten_without_effect(self, name, kernel):
        history = begin(name, kernel)
        rows = PROBES[:3]
        before = values(history.model, history.at(rows))
        history.learn(*data(kind_of(name), 1, seed=1), np.zeros(1))
        history.assert_as_if_never_seen()
        np.testing.assert_allclose(values(history.model, history.at(rows)), before, rtol=0, atol=1e-13)
        receipt = history.forget([16])
        assert receipt.remaining == 16
        assert not receipt.sampled
        np.testing.assert_allclose(values(history.model, history.at(rows)), before, rtol=0, atol=1e-13)
        history.assert_as_if_never_seen()

    def test_among_others(self, name, kernel):
        weights = np.ones(16)
        weights[[1, 6, 15]] = 0.0
        history = begin(name, kernel, weights=weights)
        history.forget([6, 7])
        history.assert_as_if_never_seen()
        history.learn(*data(kind_of(name), 3, seed=1), np.array([0.0, 2.0, 0.0]))
        history.assert_as_if_never_seen()
        history.forget([1, 16])
        history.forget([17])
        history.assert_as_if_never_seen()


@pytest.mark.parametrize("cls", [LSSVC, RLSSVC, ProximalSVC])
def test_a_class_of_weight_zero_stays_out(cls):
    X, y = data("multi", 20, seed=0)
    model = cls(class_weight={"mid": 0.0}, tol=1e-10).fit(X, y)
    assert model.classes_.tolist() == ["high", "low"]
    model.learn(PROBES[:2], ["mid", "low"])
    model.forget([0, 1])
    assert model.classes_.tolist() == ["high", "low"]
    everyone, labels = np.vstack([X[2:], PROBES[:2]]), np.concatenate([y[2:], ["mid", "low"]])
    counted = labels != "mid"
    expected = cls(gamma=model.gamma_, tol=1e-10).fit(everyone[counted], labels[counted])
    np.testing.assert_allclose(values(model, PROBES), values(expected, PROBES), rtol=0, atol=1e-8)
