"""Features in pieces: rows leave as if they had never been there, and nothing keeps a view of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squaresvm import LSSVC
from squaresvm.rows import chunks as module
from squaresvm.rows.chunks import Chunks


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Let pieces be of a few rows, so that small arrays have many."""
    monkeypatch.setattr(module, "_PIECE_BYTES", 100)


@settings(max_examples=50)
@given(st.data())
def test_rows_leave_one_request_after_the_other(data):
    m, n = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 5))
    X = np.random.default_rng(0).standard_normal((m, n))
    expected, held = X, Chunks.of(X)
    while expected.shape[0] > 1 and data.draw(st.booleans()):
        left = expected.shape[0]
        gone = data.draw(st.lists(st.integers(0, left - 1), min_size=1, max_size=left - 1, unique=True))
        expected, held = np.delete(expected, gone, axis=0), held.without(np.array(gone))
        assert held.shape == expected.shape
        np.testing.assert_array_equal(held.whole, expected)
        assert all(part.base is None and len(part) for part in held.parts)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_order_and_type_stay(order, kind):
    X = np.asarray(np.arange(60).reshape(20, 3), dtype=kind, order=order)
    whole = Chunks.of(X).without(np.array([7])).whole
    assert whole.dtype == kind
    assert whole.flags[f"{order}_CONTIGUOUS"]


def test_pieces_that_keep_their_rows_are_shared():
    held = Chunks.of(np.arange(80.0).reshape(20, 4))
    rest = held.without(np.array([10]))
    assert sum(a is b for a in held.parts for b in rest.parts) == len(held.parts) - 1


def test_the_older_pieces_stay_as_they_were():
    X = np.arange(80.0).reshape(20, 4)
    held = Chunks.of(X)
    held.without(np.array([0, 19]))
    np.testing.assert_array_equal(held.whole, X)


def test_a_model_predicts_learns_and_forgets_from_pieces():
    rng = np.random.default_rng(1)
    X, new = rng.standard_normal((40, 3)), rng.standard_normal((5, 3))
    y, labels = np.sign(X[:, 0] * X[:, 1]), np.sign(new[:, 0] * new[:, 1])
    model = LSSVC(gamma=0.7, C=3.0).fit(X, y)
    for gone in (3, 17, 39):
        model.forget([gone])
    model.learn(new, labels)
    model.forget([0, 41])
    rest = np.setdiff1d(np.arange(45), [0, 3, 17, 39, 41])
    Z, t = np.vstack([X, new])[rest], np.concatenate([y, labels])[rest]
    fresh = LSSVC(gamma=0.7, C=3.0).fit(Z, t)
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-10)
    np.testing.assert_array_equal(model._state.rows.X, Z)
