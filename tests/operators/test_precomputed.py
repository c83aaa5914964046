"""Kernel matrices so large that two products check them first: what is wrong is named all the same."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm import LSSVC, RLSSVC
from squaresvm.operators import precomputed
from squaresvm.operators.precomputed import check_symmetric

M = 600
X = np.random.default_rng(0).standard_normal((M, 4))
Y = np.sign(X[:, 0] + 0.1)
K = np.exp(-0.3 * np.square(X[:, None] - X).sum(axis=2))


def changed(i, j, value, dtype=np.float64):
    other = K.astype(dtype)
    other[i, j] = value
    return other


def test_a_good_one_is_told_by_products_alone(monkeypatch):
    monkeypatch.setattr(precomputed, "_check_tiles", lambda *_: pytest.fail("tiles were read"))
    check_symmetric(K)
    # Products of another order leave rounding, which is no doubt.
    check_symmetric(K * (1.0 + 1e-15 * np.random.default_rng(1).standard_normal(K.shape)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("i", "j"), [(0, 599), (599, 0), (300, 301), (3, 550)])
@pytest.mark.parametrize("off", [1e-3, 1e3])
def test_one_entry_that_differs_is_named(i, j, off, dtype):
    first, second = sorted((i, j))
    message = rf"must be symmetric; K\[{first}, {second}\] = .* but K\[{second}, {first}\] = "
    with pytest.raises(ValueError, match=message):
        check_symmetric(changed(i, j, K[i, j] + off, dtype))


def test_a_tenth_of_what_is_allowed_is_looked_at_and_passes():
    check_symmetric(changed(2, 500, K[2, 500] + 1e-9))


def test_ten_times_what_is_allowed_is_refused():
    with pytest.raises(ValueError, match=r"K\[2, 500\]"):
        check_symmetric(changed(2, 500, K[2, 500] + 1e-7))


def test_the_opposite_of_a_symmetric_one():
    """Every entry differs from its mirror image, and the diagonal is zero."""
    crooked = np.triu(K, 1) - np.triu(K, 1).T
    with pytest.raises(ValueError, match="must be symmetric"):
        check_symmetric(crooked)


def test_a_symmetric_one_without_a_diagonal_passes():
    check_symmetric(K - np.eye(M))


@pytest.mark.parametrize("cls", [LSSVC, RLSSVC])
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("place", [(0, 0), (7, 590), (599, 599)])
def test_what_is_not_finite_is_refused_and_changes_nothing(cls, value, word, place):
    model = cls(kernel="precomputed", C=3.0).fit(K, Y)
    before = model.decision_function(K)
    both = changed(*place, value)
    both[place[::-1]] = value
    with pytest.raises(ValueError, match=f"Input X contains {word}"):
        model.fit(both, Y)
    np.testing.assert_array_equal(model.decision_function(K), before)


def test_numbers_near_the_end_of_the_range_pass():
    """Their products overflow, which is a doubt, and no more than that."""
    check_symmetric(1e308 * K)


@pytest.mark.parametrize("m", [40, M])
def test_noise_is_judged_by_what_it_does_to_the_answer(m):
    noisy = K[:m, :m] + np.triu(9e-9 * np.random.default_rng(0).uniform(-1.0, 1.0, (m, m)), 1)
    model = LSSVC(kernel="precomputed", C=1e6)
    with pytest.raises(ValueError, match=r"must be symmetric; .* at C = 1e\+06 .* \(K \+ K.T\) / 2"):
        model.fit(noisy, Y[:m])
    # Little comes of it where C is small; the mean of both triangles is what is fitted.
    small = LSSVC(kernel="precomputed", C=1e-3).fit(noisy, Y[:m])
    even = LSSVC(kernel="precomputed", C=1e-3).fit(0.5 * (noisy + noisy.T), Y[:m])
    np.testing.assert_allclose(small.dual_coef_, even.dual_coef_, rtol=1e-12)


def test_a_heavy_row_makes_noise_count():
    noisy = K[:40, :40] + np.triu(1e-10 * np.ones((40, 40)), 1)
    LSSVC(kernel="precomputed").fit(noisy, Y[:40])
    with pytest.raises(ValueError, match="may change decision values"):
        LSSVC(kernel="precomputed").fit(noisy, Y[:40], sample_weight=np.full(40, 1e6))


def test_rounding_passes_at_any_C_and_leaves_what_was_given_alone():
    m = 60
    rounded = K[:m, :m] * (1.0 + 1e-15 * np.random.default_rng(1).standard_normal((m, m)))
    given = rounded.copy()
    model = LSSVC(kernel="precomputed", C=1e8).fit(rounded, Y[:m])
    np.testing.assert_array_equal(rounded, given)
    assert model.certificate_.residual < 1e-6


@pytest.mark.parametrize("C", [1.0, 1e6])
def test_new_rows_are_judged_by_the_same_rule(C):
    model = LSSVC(kernel="precomputed", C=C).fit(K[:40, :40], Y[:40])
    new = K[40:50, :50].copy()
    new[0, 45] += 5e-9
    given = new.copy()
    if C == 1.0:
        model.learn(new, Y[40:50])
        np.testing.assert_array_equal(new, given)
        fresh = LSSVC(kernel="precomputed", C=C).fit(K[:50, :50], Y[:50])
        np.testing.assert_allclose(model.dual_coef_, fresh.dual_coef_, atol=1e-7)
    else:
        with pytest.raises(ValueError, match=r"new rows with each other must be symmetric: .* C = 1e"):
            model.learn(new, Y[40:50])
        assert model.dual_coef_.shape[1] == 40
