"""Pruning: each round against fits, every score from models that have not seen the row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score

from squaresvm import LSSVC, LSSVCCV, LSSVR, RLSSVC, ProximalSVC, RelaxedLSSVC, prune
from squaresvm.streaming import ArraySource

M = 24


def rows(kind="binary", m=M, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    value = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=m)
    if kind == "regression":
        return X, value
    return X, np.digitize(value, [0.7] if kind == "binary" else [0.3, 1.5])


def naive_score(model, X, y, weights, kept):
    """Return the score over all rows by a fit for each row held, and one for all others."""
    values = []
    for i in range(len(y)):
        rest = np.array([j for j in kept if j != i])
        if model.kernel == "precomputed":
            fitted = model.fit(X[np.ix_(rest, rest)], y[rest], sample_weight=weights[rest])
            values.append(fitted.predict(X[[i]][:, rest])[0])
        else:
            values.append(model.fit(X[rest], y[rest], sample_weight=weights[rest]).predict(X[[i]])[0])
    score = r2_score if isinstance(model, LSSVR) else accuracy_score
    return score(y, values, sample_weight=weights)


@pytest.mark.parametrize(
    ("kind", "kernel", "weighted"),
    [
        ("binary", "rbf", False),
        ("binary", "linear", True),
        ("multi", "precomputed", False),
        ("multi", "rbf", True),
        ("regression", "linear", False),
        ("regression", "precomputed", True),
    ],
)
def test_rounds_are_fits_of_the_rows_that_are_left(kind, kernel, weighted):
    X, y = rows(kind)
    if kernel == "precomputed":
        X = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=M) if weighted else np.ones(M)
    cls = LSSVR if kind == "regression" else LSSVC
    options = {"C": 3.0, "gamma": 1.0, "kernel": kernel}
    model = cls(**options).fit(X, y, sample_weight=weights)
    pruned = prune(model, budget=11, share=0.4)
    assert [r.rows for r in pruned.rounds] == [M, 15, 11]
    assert model.ids_.size == M
    kept = pruned.model.ids_
    for r, ids in ((pruned.rounds[0], np.arange(M)), (pruned.rounds[-1], kept)):
        assert r.score == pytest.approx(naive_score(cls(**options), X, y, weights, ids), abs=1e-9)
    own = X[np.ix_(kept, kept)] if kernel == "precomputed" else X[kept]
    alone = cls(**options).fit(own, y[kept], sample_weight=weights[kept])
    probe = X[:, kept] if kernel == "precomputed" else X
    np.testing.assert_allclose(pruned.model.predict(probe), alone.predict(probe), atol=1e-8)
    assert pruned.loss == pruned.rounds[0].score - pruned.rounds[-1].score


def test_smallest_multipliers_go_first():
    X, y = rows("regression")
    model = LSSVR(gamma=1.0).fit(X, y)
    dropped = np.setdiff1d(model.ids_, prune(model, budget=M - 10, share=0.9).model.ids_)
    order = np.argsort(np.abs(model.dual_coef_[0]))
    assert set(dropped) == set(order[:10])


def test_rows_of_weight_zero_go_before_all_others():
    X, y = rows("regression")
    weights = np.ones(M)
    weights[[4, 9]] = 0.0
    model = LSSVR(gamma=1.0).fit(X, y, sample_weight=weights)
    pruned = prune(model, budget=M - 2)
    assert not np.isin([4, 9], pruned.model.ids_).any()
    assert pruned.loss == pytest.approx(0.0, abs=1e-12)


def test_every_class_stays():
    X, y = rows("multi", m=90)
    pruned = prune(LSSVC(C=10.0).fit(X, y), budget=6)
    assert np.bincount(y[pruned.model.ids_]).tolist() == [2, 2, 2]
    assert pruned.model.classes_.tolist() == [0, 1, 2]


def test_little_is_lost_until_much_is_gone():
    X, y = rows(m=200)
    model = LSSVCCV(Cs=[1.0, 10.0], gammas=[0.3, 1.0]).fit(X, y)
    pruned = prune(model, budget=100, share=0.2)
    assert pruned.loss < 0.03
    assert str(pruned).splitlines()[0].endswith("(+0.0000)")
    assert len(str(pruned).splitlines()) == len(pruned.rounds)
    assert not hasattr(pruned.model, "cv_results_")
    assert hasattr(model, "cv_results_")


def test_a_budget_that_is_met_changes_nothing():
    X, y = rows()
    pruned = prune(RelaxedLSSVC().fit(X, y), budget=M)
    assert len(pruned.rounds) == 1
    assert pruned.loss == 0.0


@pytest.mark.parametrize("cls", [RLSSVC, ProximalSVC])
def test_refused_models(cls):
    X, y = rows()
    with pytest.raises(ValueError, match="pruning is for models with squared loss"):
        prune(cls().fit(X, y), budget=10)


@pytest.mark.parametrize(
    ("budget", "share", "message"),
    [
        (3, 0.1, "budget must be at least 4, two rows a class; got 3"),
        (10.5, 0.1, "budget must be an integer"),
        (10, 0.0, "share must be a float between 0 and 1"),
        (10, 1, "share must be a float between 0 and 1"),
    ],
)
def test_refused_numbers(budget, share, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        prune(LSSVC().fit(X, y), budget, share)


def test_refused_before_fit():
    with pytest.raises(ValueError, match="not fitted"):
        prune(LSSVC(), 10)


def test_refused_without_rows():
    X, y = rows("regression")
    with pytest.raises(ValueError, match="pruning needs the rows"):
        prune(LSSVR(kernel="linear").fit(ArraySource(X, y)), budget=10)
