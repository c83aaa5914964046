"""Values of rows by models without their fold or group, against as many fits as there are folds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
)

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, OneVsOne, ProximalSVC, RelaxedLSSVC
from support import histories
from support.histories import PLAIN, PROBES, begin, combinations, data, loo_values, values

M = 24
#: Groups of 1 to m/2 rows.
GROUPS = np.random.default_rng(5).permutation(np.repeat(np.arange(6), [1, 2, 3, 2, 4, 12]))


def crossed(model, cv=None, groups=None):
    if isinstance(model, LSSVR):
        return model.cross_predict(cv, groups)
    return model.cross_decision_function(cv, groups)


def brute_force(history, groups):
    """Return f at all rows held, each of a fit without its group."""
    found = [None] * len(history.ids)
    for group in np.unique(groups):
        rest, own = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        model = history.fresh(rest)
        X = history.X[own]
        if history.kernel == "precomputed":
            at = histories.precomputed_kernel(X, history.X[rest])
        else:
            at = history.form(X)
        for row, value in zip(own, values(model, at), strict=True):
            found[row] = value
    return np.array(found)


def assert_exact(history, groups, accuracy=1e-8):
    np.testing.assert_allclose(
        crossed(history.model, groups=groups), brute_force(history, groups), rtol=0, atol=accuracy
    )


@pytest.mark.parametrize(("name", "kernel", "kind"), combinations())
def test_groups_equal_brute_force(name, kernel, kind):
    """Weighted, with rows of weight zero, for two classes, three, and values; groups of 1 to m/2 rows."""
    history = begin(name, kernel, kind)
    before = values(history.model, history.at(PROBES))
    assert_exact(history, GROUPS)
    assert values(history.model, history.at(PROBES)).tobytes() == before.tobytes()


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("name", PLAIN)
def test_after_requests(name, kernel):
    """Corrections wait in the factor, then slots are empty, then new rows fill them."""
    history = begin(name, kernel)
    history.forget([2, 20])
    assert_exact(history, GROUPS[:22])
    history.model.flush()
    history.learn(PROBES[:3], history.y[:3])
    assert_exact(history, np.append(GROUPS[:22], [0, 1, 1]))
    history.forget([5])
    assert_exact(history, np.append(GROUPS[:21], [0, 1, 1]))
    history.assert_as_if_never_seen()


@pytest.mark.parametrize("C", [1e-6, 1e8])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("name", PLAIN)
def test_extreme_costs(name, kernel, C):
    """As far as the condition of the system lets two ways agree."""
    history = begin(name, kernel, C=C, tol=1e-6)
    scale = max(1.0, np.abs(brute_force(history, GROUPS)).max())
    assert_exact(history, GROUPS, accuracy=1e-8 * scale if C < 1 else 1e-4 * scale)


@pytest.mark.parametrize("cls", [LSSVC, RelaxedLSSVC, ProximalSVC, RLSSVC, LagrangianSVC])
def test_splitters_of_scikit_learn(cls):
    X, y = data("binary", 40, seed=3)
    model = cls(C=2.0, gamma=0.3, tol=1e-10).fit(X, y)
    for cv in (4, KFold(5, shuffle=True, random_state=1), StratifiedKFold(3), list(KFold(4).split(X))):
        expected = cross_val_predict(model, X, y, cv=cv, method="decision_function")
        np.testing.assert_allclose(model.cross_decision_function(cv), expected, rtol=0, atol=1e-8)
        labels = cross_val_predict(model, X, y, cv=cv)
        assert model.cross_predict(cv).tolist() == labels.tolist()
        assert model.cross_score(cv) == pytest.approx(accuracy_score(y, labels))
    assert model.loo_cost_.seconds > 0.0


def test_values():
    X, y = data("regression", 40, seed=3)
    model = LSSVR(C=2.0, gamma=0.3).fit(X, y)
    groups = np.arange(40) % 7
    expected = cross_val_predict(model, X, y, cv=GroupKFold(3), groups=groups)
    np.testing.assert_allclose(model.cross_predict(GroupKFold(3), groups), expected, atol=1e-10)
    np.testing.assert_allclose(model.cross_predict(3, groups), expected, atol=1e-10)
    assert model.cross_score(3, groups) == pytest.approx(r2_score(y, expected))


@pytest.mark.parametrize("name", PLAIN)
def test_single_rows_are_leave_one_out(name):
    history = begin(name, "rbf")
    model, alone = history.model, np.arange(M)
    expected = loo_values(model)
    for found in (crossed(model), crossed(model, LeaveOneOut()), crossed(model, groups=alone)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert model.cross_score() == pytest.approx(model.loo_score())
    grouped = crossed(model, groups=GROUPS)
    same = (
        model.loo_predict(GROUPS) if isinstance(model, LSSVR) else model.loo_decision_function(groups=GROUPS)
    )
    assert same.tobytes() == grouped.tobytes()
    assert model.loo_score(groups=GROUPS) == pytest.approx(model.cross_score(groups=GROUPS))


def test_groups_of_any_kind_and_rows_in_duplicate():
    X, y = data("binary", 20, seed=4)
    X, y = np.vstack([X, X]), np.tile(y, 2)
    X[:, 2] = 1.0
    model = LSSVC(C=3.0).fit(X, y)
    numbered = model.cross_decision_function(groups=np.arange(40) % 20)
    named = model.cross_decision_function(groups=[f"patient {i % 20}" for i in range(40)])
    assert numbered.tobytes() == named.tobytes()
    mixed = [None] * 40
    for i in range(40):
        mixed[i] = i % 20 if i % 2 else str(i % 20)
    assert model.cross_decision_function(groups=np.array(mixed, dtype=object)).tobytes() == numbered.tobytes()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=30, max_size=30), st.sampled_from(PLAIN))
def test_any_partition(parts, name):
    history = begin(name, "rbf", m=30)
    groups = np.array(parts)
    if np.unique(groups).size < 2 or not all(
        isinstance(history.model, LSSVR)
        or set(history.y[(groups != g) & (history.weights > 0)]) == {"yes", "no"}
        for g in range(5)
    ):
        return
    assert_exact(history, groups)


def test_pairs_of_classes():
    X, y = data("multi", 45, seed=6)
    y[:12] = np.resize(["low", "mid", "high"], 12)
    groups, weights = np.arange(45) % 4, np.random.default_rng(0).uniform(0.5, 2.0, 45)
    weights[3] = 0.0
    model = OneVsOne(LSSVC(C=2.0, gamma=0.2)).fit(X, y, sample_weight=weights)
    found = model.cross_decision_function(groups=groups)
    for group in range(4):
        own, rest = groups == group, groups != group
        fresh = OneVsOne(LSSVC(C=2.0, gamma=0.2)).fit(X[rest], y[rest], sample_weight=weights[rest])
        np.testing.assert_allclose(found[own], fresh.decision_function(X[own]), rtol=0, atol=1e-9)
    right = model.cross_predict(groups=groups) == y
    assert model.cross_score(groups=groups) == pytest.approx(np.average(right, weights=weights))


class TestBadInput:
    """A clear error, and the model is what it was."""

    @pytest.fixture
    def model(self):
        X, y = data("binary", 20, seed=0)
        y[:10], y[10:] = "no", "yes"
        model = LSSVC().fit(X, y)
        before = model.decision_function(X)
        yield model
        assert model.decision_function(X).tobytes() == before.tobytes()
        assert model.ids_.tolist() == list(range(20))

    def test_groups_of_the_wrong_length(self, model):
        with pytest.raises(ValueError, match=r"groups must name the group of each of the 20 rows.*\(19,\)"):
            model.cross_score(groups=np.arange(19))

    @pytest.mark.parametrize("hole", [np.nan, None])
    def test_a_row_without_a_group(self, model, hole):
        with pytest.raises(ValueError, match=r"groups\[3\] is (nan|None)"):
            model.cross_score(groups=np.array([0, 1, 2, hole] + [4] * 16, dtype=object))

    def test_one_group(self, model):
        with pytest.raises(ValueError, match="all rows into one group"):
            model.loo_score(groups=np.zeros(20))

    def test_a_fold_that_takes_a_class(self, model):
        with pytest.raises(ValueError, match="group 0 contains all rows of class 'no'"):
            model.cross_predict(groups=np.repeat([0, 1], 10))
        with pytest.raises(ValueError, match="fold 0 contains all rows of class 'no'"):
            model.cross_predict(KFold(2))

    def test_a_fold_that_takes_all_rows_that_count(self):
        X, y = data("regression", 6, seed=0)
        model = LSSVR().fit(X, y, sample_weight=[1, 1, 0, 0, 0, 0])
        with pytest.raises(ValueError, match="group 0 contains all rows of positive weight"):
            model.cross_predict(groups=[0, 0, 0, 1, 1, 1])

    @pytest.mark.parametrize(
        ("splits", "message"),
        [
            ([(range(20), [])], "fold 0 of cv is empty"),
            ([(range(10, 20), range(10))], "row 10 is in no fold"),
            ([(range(10, 20), range(10)), (range(9), range(9, 20))], "row 9 is in folds 0 and 1"),
            ([(range(12, 20), range(10))], "fold 0 of cv trains on 8 rows and not on the 10 others"),
            ([(range(1, 20), [0, 0])], "fold 0 of cv names a row twice"),
            ([(range(1, 20), [20])], "fold 0 of cv names row 20, but rows 0 to 19"),
            ([(range(1, 20), [0.5])], "fold 0 of cv must be positions"),
        ],
    )
    def test_folds_that_are_no_partition(self, model, splits, message):
        with pytest.raises(ValueError, match=message):
            model.cross_decision_function(splits)

    @pytest.mark.parametrize("cv", [ShuffleSplit(3, random_state=0), TimeSeriesSplit(3)])
    def test_splitters_that_make_none(self, model, cv):
        with pytest.raises(ValueError, match=r"each row must be in one fold|cross_validate"):
            model.cross_score(cv)

    def test_something_else(self, model):
        with pytest.raises(ValueError, match="cv"):
            model.cross_score("five")

    def test_a_fixed_set_with_groups(self, model):
        with pytest.raises(ValueError, match="fixed_set is for single rows"):
            model.loo_score(fixed_set=True, groups=np.arange(20))

    def test_models_without_rows(self):
        from squaresvm.streaming import ArraySource

        X, y = data("regression", 20, seed=0)
        model = LSSVR(kernel="linear").fit(ArraySource(X, y))
        with pytest.raises(ValueError, match="cross-validation"):
            model.cross_predict(5)
