"""Sets of labels: what they hold by definition, and how often they hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm import LSSVC, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.streaming import ArraySource
from support import histories
from support.histories import History, combinations, data

CASES = [
    case for case in combinations() if case[2] != "regression" and case[1] in ("rbf", "linear", "precomputed")
]


def strangeness(decision):
    """Return minus the lead of each class, naively."""
    if decision.ndim == 1:
        decision = np.column_stack([-decision, decision])
        return -decision
    found = np.empty_like(decision)
    for k in range(decision.shape[1]):
        found[:, k] = np.delete(decision, k, axis=1).max(axis=1) - decision[:, k]
    return found


def naive(history, probes, coverage, by_class):
    """Return the sets by as many fits as there are rows."""
    m, classes = len(history.y), history.model.classes_
    counts, totals = np.zeros((len(probes), classes.size)), np.zeros(classes.size)
    for i in range(m):
        rest = np.delete(np.arange(m), i)
        model = history.fresh(rest)

        def at(X, model=model, rest=rest):
            if history.kernel == "precomputed":
                return strangeness(model.decision_function(histories.precomputed_kernel(X, history.X[rest])))
            return strangeness(model.decision_function(history.form(X)))

        own = int(np.searchsorted(classes, history.y[i]))
        larger = at(probes) > at(history.X[[i]])[0, own]
        if by_class:
            larger[:, np.arange(classes.size) != own] = False
        counts += larger
        totals += np.arange(classes.size) == own if by_class else 1
    return counts < coverage * (totals + 1)


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize(("name", "kernel", "kind"), CASES)
def test_equals_the_definition(name, kernel, kind, by_class):
    X, y = data(kind, 24, seed=0)
    labels = ["yes", "no"] if kind == "binary" else ["low", "mid", "high"]
    y[:12] = np.resize(labels, 12)
    history = History(histories.estimator(name, kernel), kernel, X, y)
    probes = np.random.default_rng(8).normal(size=(7, X.shape[1]))
    found = history.model.predict_set(history.at(probes), 0.77, by_class)
    assert found.dtype == bool
    assert found.tolist() == naive(history, probes, 0.77, by_class).tolist()


def drawn(rng, m, rare):
    y = (rng.random(m) < rare).astype(int)
    return rng.normal(size=(m, 2)) + 1.3 * y[:, None], y


@pytest.mark.parametrize("make", [lambda: LSSVC(gamma=0.3), lambda: RelaxedLSSVC(kernel="linear")])
@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_coverage(make, coverage):
    """Over 200 draws: near the promise on average, and above 2 coverage - 1 whatever happens."""
    rng, hits = np.random.default_rng(0), []
    for _ in range(200):
        X, y = drawn(rng, 90, 0.5)
        sets = make().fit(X[:60], y[:60]).predict_set(X[60:], coverage)
        hits.append(sets[np.arange(30), y[60:]].mean())
    assert np.mean(hits) == pytest.approx(coverage, abs=0.02)
    assert np.mean(hits) >= 2 * coverage - 1


def test_coverage_by_class():
    """Of a class of one row in six; over all rows it would be covered less often than promised."""
    rng, by_class, together = np.random.default_rng(1), [[], []], []
    for _ in range(250):
        X, y = drawn(rng, 150, 1 / 6)
        model = LSSVC(gamma=0.3).fit(X[:100], y[:100])
        sets = model.predict_set(X[100:], 0.8, by_class=True)
        inside = sets[np.arange(50), y[100:]]
        for k in (0, 1):
            by_class[k] += inside[y[100:] == k].tolist()
        rare = model.predict_set(X[100:], 0.8)[:, 1]
        together += rare[y[100:] == 1].tolist()
    assert np.mean(by_class[0]) == pytest.approx(0.8, abs=0.02)
    # The rare class has some 17 rows, so its quantile is up to one in 18 above the level.
    assert 0.78 <= np.mean(by_class[1]) <= 0.8 + 1 / 12
    assert np.mean(together) < 0.7


def test_coverage_of_a_class_of_one_row_in_six():
    """Of 19 and 99 rows, for which 0.8 of the rows and the one to come is a whole number."""
    rng, inside = np.random.default_rng(2), [[], []]
    y, new = np.repeat([0, 1], [99, 19]), np.repeat([0, 1], 20)
    for _ in range(250):
        X, Z = (rng.normal(size=(len(labels), 2)) + 1.3 * labels[:, None] for labels in (y, new))
        sets = LSSVC(gamma=0.3).fit(X, y).predict_set(Z, 0.8, by_class=True)
        for k in (0, 1):
            inside[k].append(sets[new == k, k].mean())
    for covered in inside:
        assert np.mean(covered) == pytest.approx(0.8, abs=0.02)
        assert np.mean(covered) >= 2 * 0.8 - 1


def test_larger_coverage_larger_sets():
    X, y = data("multi", 60, seed=1)
    model = RLSSVC(C=2.0).fit(X, y)
    small, large = model.predict_set(X[:20], 0.5), model.predict_set(X[:20], 0.95)
    assert np.all(large | ~small)
    assert large.sum() > small.sum()
    few = LSSVC().fit(X[:9], np.resize([0, 1], 9)).predict_set(X, 0.95)
    assert few.all()  # Nine rows cannot exclude at one in twenty.


def test_weights_count_as_rows():
    X, y = data("binary", 30, seed=2)
    even = LSSVC(gamma=0.2).fit(X, y).predict_set(X, 0.8)
    half = LSSVC(gamma=0.2, C=2.0).fit(X, y, sample_weight=np.full(30, 0.5)).predict_set(X, 0.8)
    assert even.tolist() == half.tolist()


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.5, np.nan, "most"])
@pytest.mark.parametrize("cls", [LSSVC, LagrangianSVC, ProximalSVC])
def test_bad_coverage(cls, coverage):
    X, y = data("binary", 20, seed=2)
    model = cls().fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
        model.predict_set(X, coverage)
    assert model.decision_function(X).tobytes() == before.tobytes()


def test_other_bad_input():
    X, y = data("binary", 20, seed=2)
    with pytest.raises(ValueError, match="by_class"):
        LSSVC().fit(X, y).predict_set(X, 0.9, by_class="each")
    with pytest.raises(ValueError, match="predict_set needs the rows"):
        LSSVC(kernel="linear").fit(ArraySource(X, y)).predict_set(X)
