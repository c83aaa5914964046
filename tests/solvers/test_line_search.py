"""The exact line search against its own definition: a zero of the derivative, and nothing lower anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from squaresvm.solvers.active_set_search import minimise_on_line


def phi(t, slope, curvature, margin, change, costs):
    return slope * t + curvature / 2 * t**2 + costs @ np.maximum(0.0, margin - t * change) ** 2 / 2


def derivative(t, slope, curvature, margin, change, costs):
    """Return phi'(t), and the sum of the sizes of its terms, which rounding is measured by."""
    hinge = costs * change * np.maximum(0.0, margin - t * change)
    size = costs * np.abs(change) * (np.abs(margin) + t * np.abs(change))
    return slope + curvature * t - hinge.sum(), abs(slope) + curvature * t + size.sum()


def minimise(slope, curvature, margin, change, costs):
    """Return the package's minimiser of phi; it takes phi'(0) in place of the slope of the quadratic part."""
    start = derivative(0.0, slope, curvature, margin, change, costs)[0]
    return minimise_on_line(start, curvature, margin, change, costs)


# Zeros and repeated values are what makes pieces of no length and rows that never switch.
few = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
number = few | st.floats(-10, 10).filter(lambda v: v == 0 or abs(v) > 1e-6)
cost = st.sampled_from([1e-6, 0.5, 1.0, 1e4, 1e8])


@st.composite
def lines(draw):
    m = draw(st.integers(1, 12))
    margin, change = (np.array(draw(st.lists(number, min_size=m, max_size=m))) for _ in range(2))
    costs = np.array(draw(st.lists(cost, min_size=m, max_size=m)))
    curvature = draw(st.sampled_from([1e-3, 1.0, 1e3]))
    return draw(number), curvature, margin, change, costs


@given(lines())
@example((0.0, 1.0, np.array([0.0]), np.array([-1.0]), np.array([1.0])))  # on the margin, about to enter
@example((-1.0, 1.0, np.array([0.0, 0.0]), np.array([0.0, 2.0]), np.array([1.0, 1.0])))
def test_is_a_stationary_point(line):
    t = minimise(*line)
    assert t >= 0.0
    value, size = derivative(t, *line)
    if t == 0.0:
        assert value >= -1e-12 * size
    else:
        assert abs(value) <= 1e-9 * size


@given(lines())
def test_nothing_on_the_line_is_lower(line):
    t = minimise(*line)
    reached = phi(t, *line)
    rounding = 1e-11 * (phi(0.0, *line) + abs(reached))
    scan = np.concatenate([np.linspace(0.0, 2.0 * t + 1.0, 200), np.geomspace(1e-8, 1e4, 200)])
    assert reached <= min(phi(s, *line) for s in scan) + rounding


def test_agrees_with_a_scalar_minimiser():
    rng = np.random.default_rng(0)
    for _ in range(40):
        m = int(rng.integers(1, 60))
        line = (-rng.exponential(), rng.exponential(), *rng.normal(size=(2, m)), rng.exponential(size=m))
        found = minimize_scalar(
            phi, bounds=(0.0, 50.0), args=line, method="bounded", options={"xatol": 1e-10}
        )
        assert minimise(*line) == pytest.approx(found.x, abs=1e-6)


def test_does_not_move_uphill():
    ones = np.ones(3)
    assert minimise(1.0, 1.0, -ones, -0.1 * ones, ones) == 0.0


def test_full_newton_step_where_no_row_changes_sides():
    """Every row keeps its margin at t = 1, so the quadratic's own minimum is the answer."""
    margin, change, costs = np.array([2.0, 3.0]), np.array([1.0, 1.0]), np.array([1.0, 2.0])
    assert minimise(-3.0, 8.0, margin, change, costs) == 1.0


def test_does_not_write_to_its_arguments():
    margin, change, costs = np.array([1.0, -1.0]), np.array([2.0, -3.0]), np.array([1.0, 5.0])
    kept = margin.copy(), change.copy(), costs.copy()
    minimise_on_line(-1.0, 1.0, margin, change, costs)
    for a, b in zip((margin, change, costs), kept, strict=True):
        assert np.array_equal(a, b)
