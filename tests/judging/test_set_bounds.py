"""Bounds that decide labels: they hold, and sets are the same as by what all models without a row say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from squaresvm import LSSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.factors import CholeskyFactor
from squaresvm.factors.inverse_diagonal import diagonal_bounds, diagonal_of_inverse
from squaresvm.judging import set_bounds
from support.histories import data

KERNELS = [
    {"kernel": "rbf", "gamma": 0.2},
    {"kernel": "laplacian", "gamma": 0.1},
    {"kernel": "poly", "gamma": 0.3, "degree": 2, "coef0": 1.0},
]


@pytest.fixture
def few_rows_are_enough(monkeypatch):
    """Bounds for models of any size, with the weights of (1) on fewer rows than there are."""
    monkeypatch.setattr(set_bounds, "_MANY_ROWS", 2)
    monkeypatch.setattr(set_bounds, "_SOME", 16)


def of_all(model, X, coverage, by_class):
    """Return sets by what all models without a row say."""
    held = model._holding("sets")
    return model._sets_by_all(held, model._checked_queries(X), coverage, by_class)


def is_bounded(model):
    return model._holding("sets").known.sets is not None


def problem(kind, m, seed):
    X, y = data(kind, m, seed=seed)
    rng = np.random.default_rng(seed)
    # A new row is a training row now and then, and some training rows are there twice.
    X[m // 2 : m // 2 + 5], y[m // 2 : m // 2 + 5] = X[:5], y[:5]
    return X, y, np.vstack([rng.normal(size=(40, X.shape[1])), X[:20], 30.0 * np.ones((1, X.shape[1]))])


@pytest.mark.usefixtures("few_rows_are_enough")
class TestEqualsTheSetsOfAllModels:
    """With few rows asked exactly and with many: whatever is decided by bounds is decided rightly."""

    @pytest.mark.parametrize("by_class", [False, True])
    @pytest.mark.parametrize("kind", ["binary", "multi"])
    @pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
    @pytest.mark.parametrize("make", [LSSVC, RelaxedLSSVC])
    def test_kernels_and_classes(self, make, kernel, kind, by_class):
        X, y, probes = problem(kind, 160, seed=3)
        for C, coverage in itertools.product([0.05, 1.0, 50.0], [0.6, 0.77, 0.93]):
            model = make(C=C, solver="direct", **kernel).fit(X, y)
            found = model.predict_set(probes, coverage, by_class)
            assert is_bounded(model)
            assert found.tolist() == of_all(model, probes, coverage, by_class).tolist()

    @pytest.mark.parametrize("seed", range(20))
    def test_weights_of_rows_and_classes(self, seed):
        rng = np.random.default_rng(seed)
        X, y, probes = problem("multi", 140, seed=seed)
        weights = rng.choice([0.0, 0.1, 1.0, 7.0], size=len(y))
        model = LSSVC(C=2.0, gamma=0.1, class_weight="balanced", solver="direct")
        model.fit(X, y, sample_weight=weights)
        coverage = float(rng.uniform(0.3, 0.97))
        found = model.predict_set(probes, coverage, by_class=bool(seed % 2))
        assert is_bounded(model)
        assert found.tolist() == of_all(model, probes, coverage, bool(seed % 2)).tolist()

    def test_learn_and_forget(self):
        X, y, probes = problem("binary", 130, seed=5)
        model = LSSVC(gamma=0.2, solver="direct").fit(X[:100], y[:100])
        for change in (
            lambda: model.forget(model.ids_[3:9]),
            lambda: model.learn(X[100:], y[100:]),
            lambda: [model.forget(model.ids_[[0]]) for _ in range(12)],
        ):
            before = model.predict_set(probes, 0.8)
            change()
            after = model.predict_set(probes, 0.8)
            assert after.tolist() == of_all(model, probes, 0.8, False).tolist()
            assert before.shape == after.shape

    def test_asked_again(self):
        """What one question settled serves the next, of other coverage and other rows."""
        X, y, probes = problem("multi", 150, seed=7)
        model = LSSVC(gamma=0.2, solver="direct").fit(X, y)
        for coverage, rows in ((0.9, probes[:5]), (0.5, probes), (0.7, probes[-1:]), (0.9, probes)):
            found = model.predict_set(rows, coverage)
            fresh = LSSVC(gamma=0.2, solver="direct").fit(X, y)
            assert found.tolist() == of_all(fresh, rows, coverage, False).tolist()

    def test_no_rows(self):
        X, y, _ = problem("binary", 60, seed=1)
        with pytest.raises(ValueError, match="0 sample"):
            LSSVC(solver="direct").fit(X, y).predict_set(X[:0])

    def test_where_no_bound_holds(self):
        """K that need not be semidefinite, or is so by rounding alone, a proximal model, known values."""
        X, y, probes = problem("binary", 60, seed=2)
        made = [
            LSSVC(kernel="sigmoid", gamma=0.01, solver="direct").fit(X, y),
            LSSVC(kernel=lambda X, Z: X @ Z.T, solver="direct").fit(X, y),
            LSSVC(C=1e13, gamma=0.2, solver="direct").fit(X, y),
            ProximalSVC(kernel="rbf").fit(X, y),
            LSSVC(gamma=0.2, solver="direct").fit(X, y),
        ]
        made[-1].loo_decision_function()
        for model in made:
            found = model.predict_set(probes, 0.8)
            assert not is_bounded(model)
            assert found.tolist() == of_all(model, probes, 0.8, False).tolist()


def test_many_rows_take_bounds():
    X, y = data("binary", 1200, seed=4)
    model = LSSVC(gamma=0.2).fit(X[:1100], y[:1100])
    found = model.predict_set(X[1100:], 0.85)
    assert is_bounded(model)
    assert found.tolist() == of_all(model, X[1100:], 0.85, False).tolist()
    few = LSSVC(gamma=0.2).fit(X[:50], y[:50])
    few.predict_set(X[1100:])
    assert not is_bounded(few)


def definite(m, seed):
    """Return D and a Cholesky factor of H >= D, of a low-rank part and of rows tied to no other."""
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(m, 7)) * rng.choice([0.0, 1.0, 3.0], size=(m, 1))
    ridge = rng.uniform(0.1, 4.0, size=m)
    return ridge, np.linalg.cholesky(V @ V.T + np.diag(ridge)), np.linalg.inv(V @ V.T + np.diag(ridge))


@pytest.mark.parametrize("m", [1, 2, 60, 300])
def test_diagonal(m):
    ridge, lower, inverse = definite(m, seed=m)
    low, high = diagonal_bounds(lower, ridge)
    assert np.all(low <= np.diag(inverse) * (1 + 1e-12))
    assert np.all(high >= np.diag(inverse) * (1 - 1e-12))
    assert low[-1] == pytest.approx(inverse[-1, -1], rel=1e-12)
    columns = np.random.default_rng(0).permutation(m)[: m // 2 + 1]
    found = diagonal_of_inverse(np.asfortranarray(lower), columns)
    assert found == pytest.approx(np.diag(inverse)[columns], rel=1e-10)


@pytest.mark.parametrize("bias", ["free", "absent"])
def test_diagonal_of_a_factor(bias):
    X, y = data("binary", 90, seed=6)
    make = LSSVC if bias == "free" else RelaxedLSSVC
    model = make(gamma=0.3, solver="direct").fit(X, y)
    posed, solution = model._holding("a test").judged
    factor = CholeskyFactor.current(solution.factor, posed)
    low, high = factor.diag_inverse_bounds()
    exact, some = factor.diag_inverse(), np.array([70, 3, 41])
    assert np.all(low <= exact * (1 + 1e-12))
    assert np.all(exact <= high * (1 + 1e-12))
    assert factor.diag_inverse_at(some) == pytest.approx(exact[some], rel=1e-10)
    factor.inverted()
    assert all(np.array_equal(bound, factor.diag_inverse()) for bound in factor.diag_inverse_bounds())
    assert factor.diag_inverse_at(some) == pytest.approx(exact[some], rel=1e-10)


def test_weight_that_comes_over():
    """No choice of rows that can pay has a larger weight, by trying them all."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        distance, pull = rng.normal(size=8), rng.uniform(0.1, 2.0, size=8)
        weights, spread = rng.choice([0.5, 1.0, 3.0], size=8), float(rng.uniform(0.01, 4.0))
        found = set_bounds._sum_reached(distance, 0.0, pull, weights, spread)
        prices = (pull * distance) ** 2
        best = max(
            weights[list(chosen)].sum()
            for size in range(9)
            for chosen in itertools.combinations(np.flatnonzero(distance >= 0.0), size)
            if prices[list(chosen)].sum() <= spread
        )
        assert found >= best
