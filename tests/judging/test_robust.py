"""Robust weights: equation (1) by hand, outliers that lose their pull, and exact updates afterwards."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from squaresvm import LSSVC, LSSVR, LSSVRCV
from squaresvm.judging.robust import Robust, robust_weights
from squaresvm.streaming import ArraySource


def wave(m=80, outliers=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(m, 1))
    truth = np.sin(X[:, 0])
    y = truth + 0.1 * rng.normal(size=m)
    y[:outliers] += 4.0
    return X, y, truth


def by_hand(residuals, c1, c2):
    away = np.abs(residuals - np.median(residuals))
    size = np.abs(residuals) / (np.median(away) / 0.674489750196082)
    return np.array([1.0 if z <= c1 else max((c2 - z) / (c2 - c1), 1e-4) for z in size])


class TestWeights:
    @pytest.mark.parametrize(("c1", "c2"), [(2.5, 3.0), (0.5, 4.0)])
    def test_formula(self, c1, c2):
        residuals = np.random.default_rng(0).standard_t(2, size=51)
        found = robust_weights(residuals[:, None], np.ones(51), c1, c2)
        np.testing.assert_allclose(found, by_hand(residuals, c1, c2), rtol=1e-12)
        assert found.min() == 1e-4
        assert found.max() == 1.0

    def test_weights_are_repeated_rows(self):
        rng = np.random.default_rng(1)
        residuals, weights = rng.standard_t(2, size=30), rng.integers(1, 4, size=30)
        repeated = np.repeat(residuals, weights)
        found = robust_weights(residuals[:, None], weights.astype(float), 1.0, 3.0)
        again = robust_weights(repeated[:, None], np.ones(repeated.size), 1.0, 3.0)
        np.testing.assert_allclose(np.repeat(found, weights), again, rtol=1e-12)

    def test_no_spread_no_judgement(self):
        assert robust_weights(np.zeros((5, 1)), np.ones(5)).tolist() == [1.0] * 5
        mostly = np.array([[0.0], [0.0], [0.0], [9.0]])
        assert robust_weights(mostly, np.ones(4)).tolist() == [1.0] * 4

    def test_worst_class_counts(self):
        one = np.random.default_rng(0).normal(size=(20, 2))
        one[3, 1] = 90.0
        assert robust_weights(one, np.ones(20))[3] == 1e-4


class TestModels:
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
    @pytest.mark.parametrize("rounds", [1, 3])
    def test_rounds_are_refits_with_weights(self, kernel, rounds):
        X, y, _ = wave()
        if kernel == "precomputed":
            X = np.exp(-((X - X.T) ** 2))
        given = np.random.default_rng(5).uniform(0.5, 2.0, size=80)
        options = {"C": 5.0, "kernel": kernel, "gamma": 1.0}
        model = LSSVR(**options, robust=rounds).fit(X, y, sample_weight=given)
        factors = np.ones(80)
        for _ in range(rounds):
            plain = LSSVR(**options).fit(X, y, sample_weight=given * factors)
            factors = robust_weights((y - plain.predict(X))[:, None], given)
        plain = LSSVR(**options).fit(X, y, sample_weight=given * factors)
        np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.robust_weights_, factors, rtol=1e-6)
        assert model.robust_weights_.min() < 1.0

    def test_outliers_lose_their_pull(self):
        X, y, truth = wave()
        plain = LSSVR(C=5.0, gamma=0.5).fit(X, y)
        robust = LSSVR(C=5.0, gamma=0.5, robust=2).fit(X, y)
        wrong, less = (np.sqrt(np.mean((m.predict(X) - truth) ** 2)) for m in (plain, robust))
        assert less < 0.3 * wrong
        assert np.all(robust.robust_weights_[:6] == 1e-4)
        assert np.all(plain.robust_weights_ == 1.0)

    def test_wrong_labels_lose_their_pull(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 2)) + np.repeat([[2.5, 0.0], [-2.5, 0.0]], 150, axis=0)
        y = np.repeat(["right", "left"], 150)
        wrong = y.copy()
        wrong[:12] = "left"
        model = LSSVC(kernel="linear", robust=2).fit(X, wrong)
        assert np.mean(model.robust_weights_[:12] < 0.01) > 0.8
        assert np.mean(model.robust_weights_[12:] == 1.0) > 0.9
        assert np.abs(model.intercept_) < np.abs(LSSVC(kernel="linear").fit(X, wrong).intercept_)
        three = np.where(X[:, 1] > 1, "up", wrong)
        assert LSSVC(robust=1).fit(X, three).robust_weights_.min() < 1.0

    def test_learn_and_forget_keep_the_weights_of_the_fit(self):
        X, y, _ = wave()
        given = np.random.default_rng(5).uniform(0.5, 2.0, size=80)
        given[7] = 0.0
        model = LSSVR(C=5.0, gamma=1.0, robust=1).fit(X[:70], y[:70], sample_weight=given[:70])
        factors = np.r_[model.robust_weights_, np.ones(10)]
        model.learn(X[70:], y[70:], sample_weight=given[70:])
        model.forget([0, 3, 20, 75])
        rest = np.delete(np.arange(80), [0, 3, 20, 75])
        np.testing.assert_array_equal(model.robust_weights_, factors[rest])
        plain = LSSVR(C=5.0, gamma=1.0).fit(X[rest], y[rest], sample_weight=(given * factors)[rest])
        np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=0, atol=1e-9)
        copied = pickle.loads(pickle.dumps(model))
        for each in (model, copied):
            each.refit()
            fresh = LSSVR(C=5.0, gamma=1.0, robust=1).fit(X[rest], y[rest], sample_weight=given[rest])
            np.testing.assert_allclose(each.predict(X), fresh.predict(X), rtol=0, atol=1e-9)
            np.testing.assert_allclose(each.robust_weights_, fresh.robust_weights_, rtol=1e-6)

    def test_search_then_weights(self):
        X, y, _ = wave()
        model = LSSVRCV(Cs=[1.0, 10.0], gammas=[0.5], robust=Robust(1, 1.0, 2.0)).fit(X, y)
        plain = LSSVR(C=model.C_, gamma=0.5, robust=Robust(1, 1.0, 2.0)).fit(X, y)
        np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-12)
        assert clone(model).robust == Robust(1, 1.0, 2.0)

    @pytest.mark.parametrize(
        ("robust", "message"),
        [
            (-1, "robust must be a number of rounds"),
            (True, "robust must be a number of rounds"),
            ("huber", "robust must be a number of rounds"),
        ],
    )
    def test_refused(self, robust, message):
        X, y, _ = wave()
        with pytest.raises(ValueError, match=message):
            LSSVR(robust=robust).fit(X, y)

    def test_refused_numbers(self):
        with pytest.raises(ValueError, match="c1 must be above 0 and below c2"):
            Robust(c1=3.0, c2=2.0)
        with pytest.raises(ValueError, match="rounds must be an integer"):
            Robust(rounds=1.5)
        with pytest.raises(ValueError, match="c2 must be a finite number"):
            Robust(c2=np.inf)

    def test_a_source_is_refused(self):
        X, y, _ = wave()
        with pytest.raises(ValueError, match="robust weights need the rows"):
            LSSVR(kernel="linear", robust=1).fit(ArraySource(X, y))
        assert LSSVR(kernel="linear").fit(ArraySource(X, y)).certificate_.residual < 1e-6
