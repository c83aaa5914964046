"""Standard errors of shares: the formula by hand, how often its intervals hold, and what weights do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from squaresvm.judging.figures import Figure, accuracy_figures, against_guessing
from squaresvm.judging.shares import share_of, wilson


def rows(right, count):
    return np.arange(count) < right


def by_hand(right, count):
    """Return middle and error as in the paper: two rows right and two wrong are added."""
    p = (right + 2) / (count + 4)
    return p, np.sqrt(p * (1 - p) / (count + 4))


@pytest.mark.parametrize(
    ("right", "count"), [(1, 1), (0, 1), (178, 178), (0, 178), (175, 178), (5, 10), (10**5, 10**5)]
)
def test_is_the_formula_of_the_paper(right, count):
    found = share_of(rows(right, count))
    assert found.value == pytest.approx(right / count, abs=1e-14)
    assert (found.middle, found.error) == pytest.approx(by_hand(right, count), rel=1e-10)
    assert found.error > 0.0


@pytest.mark.parametrize("count", [5, 20, 100, 500])
@pytest.mark.parametrize("p", [0.5, 0.8, 0.95, 0.99])
def test_two_errors_hold_the_truth_in_nine_of_ten_samples(count, p):
    """Over all counts of right rows, each by its probability; the usual error is far off near 0 and 1."""
    chances = binom.pmf(np.arange(count + 1), count, p)
    found = [share_of(rows(right, count)) for right in range(count + 1)]
    holds = np.array([abs(each.middle - p) <= 2 * each.error for each in found])
    assert chances @ holds > 0.92
    if count * (1 - p) <= 1:
        usual = np.array(
            [abs(each.value - p) <= 2 * np.sqrt(each.value * (1 - each.value) / count) for each in found]
        )
        assert chances @ usual < 0.67


def test_weights():
    rng = np.random.default_rng(0)
    hits, weights = rng.random(200) < 0.9, rng.gamma(1.0, size=200)
    found = share_of(hits, weights)
    assert found.value == pytest.approx(np.average(hits, weights=weights), rel=1e-14)
    none = share_of(np.append(hits, False), np.append(weights, 0.0))
    for other in (share_of(hits, 1000.0 * weights), none):
        assert (other.value, other.middle, other.error) == pytest.approx(
            (found.value, found.middle, found.error), rel=1e-12
        )
    alike, plain = share_of(hits, np.full(200, 3.0)), share_of(hits)
    assert (alike.value, alike.error) == pytest.approx((plain.value, plain.error), rel=1e-12)


def test_unequal_weights_say_as_much_as_fewer_rows():
    """Kish's count of rows: (sum of weights)^2 over the sum of their squares."""
    weights = np.array([1.0, 1.0, 1.0, 5.0])
    count = weights.sum() ** 2 / (weights**2).sum()
    found = share_of(rows(4, 4), weights)
    assert (found.middle, found.error) == pytest.approx(by_hand(count, count), rel=1e-12)


def test_the_error_is_the_spread_over_samples():
    rng = np.random.default_rng(1)
    weights = rng.gamma(2.0, size=300)
    found = [share_of(rng.random(300) < 0.85, weights) for _ in range(1000)]
    spread = np.std([each.value for each in found])
    assert np.mean([each.error for each in found]) == pytest.approx(spread, rel=0.1)


def test_balanced_accuracy_has_the_errors_of_its_classes():
    y = np.repeat([0, 1, 2], [20, 5, 1])
    predicted = y.copy()
    predicted[0] = 1
    balanced = accuracy_figures(y, predicted)[1]
    classes = [by_hand(19, 20), by_hand(5, 5), by_hand(1, 1)]
    assert balanced.value == pytest.approx((19 / 20 + 1 + 1) / 3, rel=1e-14)
    assert balanced.middle == pytest.approx(np.mean([middle for middle, _ in classes]), rel=1e-12)
    assert balanced.error == pytest.approx(np.sqrt(sum(error**2 for _, error in classes)) / 3, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (1.0, 2.04e-5, "1.000 +- 2e-05"),
        (0.983, 0.01213, "0.983 +- 0.012"),
        (8.8e-4, 3.12e-4, "0.00088 +- 0.00031"),
        (54321.2, 1234.5, "54321.2 +- 1234"),
    ],
)
def test_no_error_is_printed_as_zero(value, error, words):
    assert str(Figure("accuracy", value, error)) == f"accuracy {words}"


def test_two_rows_are_no_evidence():
    y = np.array(["a", "b"])
    accuracy = accuracy_figures(y, y)[0]
    assert accuracy.value - accuracy.baseline > 2 * accuracy.error  # Around the value, not around the middle.
    assert "not better than the majority class 'a'" in against_guessing([accuracy])
    wrong = accuracy_figures(np.arange(10), np.roll(np.arange(10), 1))
    assert not wrong[1].is_above_guessing  # Ten classes of one row each, all wrong.
    many = np.repeat(y, 20)
    assert not against_guessing(accuracy_figures(many, many))


@pytest.mark.parametrize(("hits", "rows"), [(0, 7), (3, 11), (40, 40), (500, 1000)])
def test_intervals_are_those_of_scipy(hits, rows):
    low, high = wilson(np.array([hits / rows]), np.array([float(rows)]), z=1.959963984540054)
    peer = binomtest(hits, rows).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((peer.low, peer.high), abs=1e-12)
