"""A Cholesky factor that is inverted by and by, against dense inverses, at every place of the split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squaresvm.factors.slot_inverse import (
    columns_of_split,
    invert_further,
    share_done,
    solve_split,
    split_after,
)


def definite(m, seed=0):
    A = np.random.default_rng(seed).normal(size=(m, m))
    return A @ A.T + 0.1 * m * np.eye(m)


def room_of(H):
    """Return L in the lower triangle of a part of a larger buffer, and that part's upper triangle, taken."""
    m = len(H)
    buffer = np.full((m + 3, m + 2), np.nan, order="F")
    room = buffer[1 : m + 1, :m]
    room[np.tril_indices(m)] = np.linalg.cholesky(H)[np.tril_indices(m)]
    room[np.triu_indices(m, 1)] = 7.0
    return room


@st.composite
def splits(draw):
    m = draw(st.integers(1, 40))
    stops = draw(st.lists(st.integers(0, m), max_size=4).map(lambda found: sorted(set(found))))
    return m, stops


@given(splits())
def test_every_split_stands_for_the_same_inverse(drawn):
    m, stops = drawn
    H = definite(m)
    N, room, split = np.linalg.inv(H), room_of(H), 0
    rng = np.random.default_rng(1)
    for stop in [0, *stops]:
        invert_further(room, split, stop)
        split = stop
        head = np.linalg.inv(H[:split, :split])
        np.testing.assert_allclose(np.tril(room[:split, :split]), np.tril(head), rtol=0, atol=1e-10)
        rhs = np.asfortranarray(rng.normal(size=(m, 3)))
        found = rhs.copy(order="F")
        solve_split(room, split, found)
        np.testing.assert_allclose(found, N @ rhs, rtol=0, atol=1e-10)
        columns = rng.permutation(m)[: 1 + m // 2]
        np.testing.assert_allclose(columns_of_split(room, split, columns), N[:, columns], rtol=0, atol=1e-10)
    assert np.all(room[np.triu_indices(m, 1)] == 7.0)


@pytest.mark.parametrize("width", [1, 5])
def test_more_columns_than_go_together(width):
    m = 1300
    H = definite(m)
    N, room = np.linalg.inv(H), room_of(H)
    invert_further(room, 0, 200)
    invert_further(room, 200, 640)
    rhs = np.asfortranarray(np.random.default_rng(2).normal(size=(m, width)))
    found = rhs.copy(order="F")
    solve_split(room, 640, found)
    np.testing.assert_allclose(found, N @ rhs, rtol=0, atol=1e-12)
    invert_further(room, 640, m)
    np.testing.assert_allclose(np.tril(room), np.tril(N), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [1, 100, 129, 1000, 4000, 20_000])
@pytest.mark.parametrize("share", [1 / 16, 1 / 3, 1.0])
def test_shares_are_alike_and_come_to_an_end(size, share):
    split, steps = 0, []
    while split < size:
        before, split = split, split_after(size, split, share, least=96)
        steps.append(share_done(size, split) - share_done(size, before))
    assert sum(steps) == pytest.approx(1.0)
    assert len(steps) <= np.ceil(1 / share)
    # A step is rounded up to the columns that BLAS likes, and to those that are not worth parting.
    assert max(steps) <= share + 1.5 * 96 / size
