"""What the papers show, at the papers' settings."""

from __future__ import annotations

import pytest
from sklearn.exceptions import ConvergenceWarning

from squaresvm import LSSVC, LagrangianSVC, Status
from squaresvm.datasets import make_checkerboard, make_two_spirals


def test_two_spirals():
    """LS-SVM paper: sigma = 1 in exp(-d^2 / sigma^2), gamma (our C) = 1, 180 + 180 points."""
    X, y = make_two_spirals()
    model = LSSVC(C=1.0, kernel="rbf", gamma=1.0).fit(X, y)
    assert (y == 1).sum() == (y == -1).sum() == 180
    assert model.score(X, y) == 1.0
    # Nine points between any two neighbours on each arm.
    between, labels = make_two_spirals(2 * (10 * 179 + 1))
    assert len(between) > 9 * len(X)
    assert model.score(between, labels) == 1.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("augment", [True, False])
def test_checkerboard(seed, augment):
    """LSVM paper: kernel exp(-2e-4 d^2), nu = 1e5, 2.85 hours, 97.0 % on 39,000 fresh points.

    Whether the bias is inside the kernel, as the paper has it (an RBF kernel then has none), or penalised,
    makes no difference to speak of.
    """
    X, y = make_checkerboard(1000, random_state=seed)
    fresh, labels = make_checkerboard(39_000, random_state=100 + seed)
    model = LagrangianSVC(C=1e5, kernel="rbf", gamma=2e-4, tol=1e-6, augment=augment)
    model.fit(X, y)
    # 17 to 26 steps, each of which is a small system, for the paper's 100,000.
    assert model.n_iter_ <= 100
    assert model.certificate_.status is Status.CONVERGED
    assert model.certificate_.residual <= 1e-6
    assert model.score(fresh, labels) >= 0.97
    assert 50 < model.support_.size < 100  # 62 to 79 were seen.
    assert model.certificate_.gap < 1e-3 * model.certificate_.objective


def test_a_hundred_iterations_on_eight_drawn_checkerboards():
    """LSVM paper: 95.9 % after 100 iterations, on points of its own. That of any draw depends on the draw."""
    fresh, labels = make_checkerboard(39_000, random_state=100)
    rates = []
    for seed in range(8):
        X, y = make_checkerboard(1000, random_state=seed)
        model = LagrangianSVC(C=1e5, gamma=2e-4, augment=True, solver="lagrangian", max_iter=100)
        with pytest.warns(ConvergenceWarning):
            rates.append(100.0 * model.fit(X, y).score(fresh, labels))
    assert all(95.9 < rate < 97.9 for rate in rates)  # 96.4 to 97.3 were seen.
    assert sum(rate - 95.9 <= 1.0 for rate in rates) >= 2  # Four of the eight.
