"""After `forget` the row, its label, its id and its weight are nowhere; after `flush` what came of them too.

One row has unmistakable numbers and names. Everything that the estimator refers to is searched for them, and
the bytes of its pickle.
"""

from __future__ import annotations

import pickle
import struct

import numpy as np
import pytest
from sklearn.base import clone

import squaresvm.rows
from squaresvm import LSSVR
from support import histories, oracle
from support.histories import PLAIN, PROBES, History, data
from support.remains import Remains
from support.secrets import (
    CASES,
    ID,
    LABEL,
    PLACE,
    ROW,
    VALUE,
    WEIGHT,
    M,
    prepared,
)

NAMES = [*PLAIN, "LSSVC-balanced"]
CASES += [("LSSVC-balanced", kernel) for kernel in ("rbf", "linear", "precomputed")]

every_name = pytest.mark.parametrize("name", NAMES)


def assert_gone(secret):
    """Assert that row, label, id and weight are neither in the model nor in its pickle."""
    numbers = [*secret.row, WEIGHT, WEIGHT * secret.model.C_]
    texts = [ID]
    if isinstance(secret.model, LSSVR):
        numbers.append(VALUE)
    else:
        texts.append(LABEL)
    if secret.history.kernel == "precomputed":
        numbers = [*numbers[len(ROW) :], *secret.kernel_values]  # They are the row.
    left = Remains(secret.model)
    assert [number for number in numbers if left.number(number)] == []
    assert [text for text in texts if left.text(text)] == []
    saved = pickle.dumps(secret.model)
    assert [number for number in numbers if struct.pack("<d", number) in saved] == []
    assert [text for text in texts if Remains(saved).text(text)] == []


def assert_undone(secret, numbers):
    """Assert that nothing that was computed from the row is left."""
    left = Remains(secret.model)
    assert [number for number in numbers if abs(number) > 1e-9 and left.about(number)] == []


@pytest.mark.parametrize("arrives", ["fit", "learn"])
@pytest.mark.parametrize(("name", "kernel"), CASES)
class TestForgotten:
    def test_at_once(self, name, kernel, arrives):
        secret = prepared(name, kernel, arrives)
        receipt = secret.history.forget([ID])
        assert receipt.ids == (ID,)
        assert_gone(secret)

    def test_what_came_of_it_after_flush(self, name, kernel, arrives):
        secret = prepared(name, kernel, arrives)
        secret.history.forget([ID])
        secret.model.flush()
        assert_undone(secret, [*secret.kernel_values, *secret.derived])
        assert_gone(secret)
        secret.history.assert_as_if_never_seen()


@every_name
class TestLongHistories:
    def test_after_many_requests_and_repairs(self, name):
        """The row leaves early; later requests, and repairs, do not bring it back."""
        secret = prepared(name, "rbf", "fit")
        kind = "regression" if name == "LSSVR" else "multi"
        secret.history.forget([ID])
        for step in range(70):
            X, y = data(kind, 1, seed=step)
            secret.history.learn(X, np.where(y == "mid", "low", y) if kind == "multi" else y, ids=[step])
            if step >= 3:
                secret.history.forget([step - 3])
        assert_gone(secret)
        secret.model.flush()
        assert_undone(secret, secret.kernel_values)

    def test_among_a_large_batch(self, name):
        secret = prepared(name, "rbf", "fit")
        X, y = data("regression" if name == "LSSVR" else "multi", 90, seed=1)
        if name != "LSSVR":
            y = np.where(y == "mid", "low", y)
        secret.history.learn(X, y, ids=range(90))
        secret.history.forget([ID, *range(80)])
        assert_gone(secret)
        secret.model.flush()
        assert_undone(secret, secret.kernel_values)

    def test_a_row_without_weight(self, name):
        secret = prepared(name, "rbf", "fit")
        new, name_of_new = PROBES[:1] + 0.123456789, "without weight"
        secret.history.learn(new, secret.history.y[:1], np.zeros(1), [name_of_new])
        assert Remains(secret.model).number(new[0, 0])
        secret.history.forget([name_of_new])
        left = Remains(secret.model)
        assert not left.number(new[0, 0])
        assert not left.text(name_of_new)

    def test_a_clone_knows_nothing(self, name):
        secret = prepared(name, "rbf", "fit")
        left = Remains(clone(secret.model))
        assert not left.text(ID)
        assert left.arrays == []


class TestLargeRows:
    """Rows too large to copy are the caller's own array; the model must not keep them beyond `flush`."""

    @pytest.fixture(autouse=True)
    def everything_is_large(self, monkeypatch):
        monkeypatch.setattr(squaresvm.rows, "LARGE_BYTES", 100)

    def fitted(self, name, kernel, convert):
        kind = "regression" if name == "LSSVR" else "binary"
        X, y = data(kind, M, seed=0)
        X[PLACE] = ROW
        X = convert(X)
        return X, histories.estimator(name, kernel).fit(X, y)

    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    @pytest.mark.parametrize("name", PLAIN)
    def test_flush_and_pickle_let_go_of_them(self, name, kernel):
        X, model = self.fitted(name, kernel, np.asarray)
        model.forget([PLACE])
        holders = [array for array in Remains(model).arrays if ROW[0] in array]
        assert all(array is X for array in holders)
        model.flush()
        assert not Remains(model).number(ROW[0])

    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    @pytest.mark.parametrize("name", PLAIN)
    def test_a_copy_that_the_model_made_itself_loses_the_row_at_once(self, name, kernel):
        """Lists, and numbers of other types, are converted: nobody but the model has that array."""
        _, model = self.fitted(name, kernel, lambda X: X.tolist())
        model.forget([PLACE])
        assert not Remains(model).number(ROW[0])


@pytest.mark.parametrize("name", ["LSSVC", "ProximalSVC", "RLSSVC", "LSSVR"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_no_memory_is_kept_that_was_never_written(name, kernel, monkeypatch):
    """What `np.empty` returns may hold rows that were freed before: no buffer may keep it."""
    poison, plain = 4.6692016091029909, np.empty

    def poisoned(*arguments, **keywords):
        array = plain(*arguments, **keywords)
        if array.dtype == np.float64:
            array[...] = poison
        return array

    monkeypatch.setattr(np, "empty", poisoned)
    kind = "regression" if name == "LSSVR" else "binary"
    X, y = data(kind, M, seed=0)
    history = History(histories.estimator(name, kernel), kernel, X, y)
    history.forget([1, 2, 3])
    history.learn(*data(kind, 12, seed=1))
    history.learn(*data(kind, 30, seed=2))
    history.forget([4, 25])
    assert not Remains(history.model).number(poison)
    history.model.flush()
    assert not Remains(history.model).number(poison)


class TestTheSearchItself:
    """A search that finds nothing proves nothing unless it finds what is there."""

    def test_in_views_closures_slots_and_tails(self):
        buffer = np.zeros(20)
        buffer[17] = ROW[0]

        class Slotted:
            __slots__ = ("held",)

        slotted = Slotted()
        slotted.held = {"x": [(buffer[:3],)]}

        def closure():
            return slotted

        assert Remains({"f": closure}).number(ROW[0])
        assert Remains(memoryview(buffer)).number(ROW[0])
        assert not Remains({"f": closure}).number(ROW[1])
        assert Remains(slotted).about(ROW[0] * (1 + 1e-14))
        assert not Remains(slotted).about(ROW[0] * (1 + 1e-9))

    def test_in_strings_of_any_kind(self):
        mixed = np.array([ID, None], dtype=object)
        for thing in (np.array(["a", ID]), mixed, {ID: 1}, [f"<{ID}>"], ID.encode(), {1: {"a": ID}}):
            assert Remains(thing).text(ID)
        assert not Remains(np.array(["a", "b"])).text(ID)

    def test_in_a_model_that_still_has_the_row(self):
        secret = prepared("LSSVC", "rbf", "fit")
        there = Remains(secret.model)
        assert all(there.number(number) for number in (*ROW, WEIGHT, WEIGHT * secret.model.C_))
        assert there.text(LABEL)
        K = oracle.kernel_matrix("rbf", ROW[None], secret.history.X[:1], gamma=secret.model.gamma_)
        assert there.about(K[0, 0])
