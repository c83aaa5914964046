"""The LS-SVM paper's smallest ball, bound of the VC dimension, and Mercer's condition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from squaresvm import LSSVC, LagrangianSVC
from squaresvm.datasets import make_two_spirals
from squaresvm.kernels import Kernel
from squaresvm.linalg.lapack import NotPositiveSemidefiniteError
from squaresvm.search.capacity import least_capacity, mercer, smallest_ball, vc_bound


class TestSmallestBall:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(1, 15), st.integers(1, 4), st.integers(0, 100))
    def test_it_contains_all_and_none_is_smaller(self, m, n, seed):
        X = np.random.default_rng(seed).normal(size=(m, n))
        ball = smallest_ball(X @ X.T, tol=1e-10)
        centre = ball.weights @ X
        distances = ((X - centre) ** 2).sum(axis=1)
        assert ball.weights.sum() == pytest.approx(1.0)
        assert ball.weights.min() >= 0.0
        assert distances.max() <= ball.squared_radius + ball.gap + 1e-9
        # (14) is a lower bound for any weights, and the primal problem has no lower radius.
        naive = minimize(lambda q: ((X - q) ** 2).sum(axis=1).max(), centre, method="Nelder-Mead")
        assert ball.squared_radius <= naive.fun + 1e-9

    def test_two_points_duplicates_and_one_point(self):
        X = np.array([[0.0], [4.0], [4.0], [1.0]])
        assert smallest_ball(X @ X.T).squared_radius == pytest.approx(4.0)
        assert smallest_ball(np.ones((3, 3))).squared_radius == pytest.approx(0.0, abs=1e-12)
        assert smallest_ball(np.array([[7.0]])).squared_radius == 0.0

    def test_equal_distances(self):
        """Of an orthonormal basis: the centre is the mean, r^2 = 1 - 1/m."""
        ball = smallest_ball(np.eye(8))
        assert ball.squared_radius == pytest.approx(1 - 1 / 8, rel=1e-6)


class TestBound:
    def test_its_parts(self):
        X, y = make_two_spirals(n_samples=120)
        for model in (LSSVC(C=2.0, gamma=0.7), LagrangianSVC(C=2.0, gamma=0.7)):
            capacity = vc_bound(model.fit(X, y))
            K = np.exp(-0.7 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
            beta = np.zeros(len(y))
            beta[model.support_] = model.dual_coef_[0]
            assert capacity.squared_norm == pytest.approx(beta @ K @ beta)
            assert capacity.squared_radius == pytest.approx(smallest_ball(K).squared_radius, rel=1e-5)
            assert capacity.bound == np.floor(capacity.product) + 1

    @pytest.mark.parametrize(
        ("parameters", "most", "size"),
        [
            ({"kernel": "linear"}, 3, 100.0),
            ({"kernel": "poly", "degree": 2}, 4, 100.0),
            ({"kernel": "poly", "coef0": 1.0}, 11, 4.0),
        ],
    )
    def test_no_more_than_the_dimension_and_one(self, parameters, most, size):
        rng = np.random.default_rng(0)
        X = size * rng.normal(size=(60, 2))
        y = np.where(X[:, 0] + 0.3 * size * rng.normal(size=60) > 0, 1, -1)
        capacity = vc_bound(LSSVC(C=1e3, gamma=1.0, **parameters).fit(X, y))
        assert capacity.bound == min(np.floor(capacity.product) + 1, most)
        assert capacity.bound <= most

    def test_three_classes_are_refused(self):
        X = np.arange(9.0)[:, None]
        with pytest.raises(ValueError, match="two classes"):
            vc_bound(LSSVC().fit(X, np.arange(9) % 3))


def test_two_spirals_over_wide_ranges():
    """The paper: good results over a wide range of sigma and gamma; its own are 1 and 1."""
    X, y = make_two_spirals()
    test_X, test_y = make_two_spirals(n_samples=3582)
    for gamma in (1.0, 2.0, 4.0):  # sigma from 1 to 1/2.
        for C in (0.1, 1.0, 10.0, 1e3):
            assert LSSVC(C=C, gamma=gamma).fit(X, y).score(test_X, test_y) > 0.97
    best, tried = least_capacity(LSSVC(C=1.0), X, y, {"gamma": [1e-2, 0.25, 1.0, 4.0, 100.0]})
    assert len(tried) == 5
    assert LSSVC(C=1.0, **best).fit(X, y).score(test_X, test_y) > 0.97
    # Without the constraints in view, the bound is least where nothing is learned.
    careless, _ = least_capacity(LSSVC(C=1.0), X, y, {"gamma": [1e-2, 1.0]}, errors=1.0)
    assert LSSVC(C=1.0, **careless).fit(X, y).score(test_X, test_y) < 0.8


def test_the_two_layer_kernel_meets_mercers_condition_only_for_some_parameters():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.where(X[:, 0] > 0, 1, -1)
    bad = Kernel("sigmoid", gamma=1.0, coef0=-1.0)(X, X)
    found = mercer(bad)
    assert found.least_eigenvalue == pytest.approx(np.linalg.eigvalsh(bad)[0])
    sigmoid = {"kernel": "sigmoid", "gamma": 1.0, "coef0": -1.0}
    LSSVC(C=0.5 * found.largest_cost, **sigmoid).fit(X, y)
    with pytest.raises(NotPositiveSemidefiniteError):
        LSSVC(C=2.0 * found.largest_cost, **sigmoid).fit(X, y)
    assert mercer(Kernel("rbf", gamma=0.5)(X, X)).largest_cost == np.inf
