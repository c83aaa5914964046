"""Searches of the squared hinge, and honest scores of all searches, against refits and loops by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneOut, StratifiedKFold
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

import squaresvm
from squaresvm import LSSVCCV, LSSVRCV, RLSSVC, RLSSVCCV, LagrangianSVC, LagrangianSVCCV
from support.histories import data

WEIGHT_CHECKS = (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)
CS, GAMMAS = [0.05, 3.0, 200.0], [0.1, 0.7]
KINDS = {"free": (RLSSVCCV, RLSSVC, {}), "penalised": (LagrangianSVCCV, LagrangianSVC, {"A": 0.3})}
GROUPS = np.random.default_rng(4).permutation(np.repeat(np.arange(6), [2, 3, 5, 6, 7, 7]))
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, 30)


def rows(kind="binary"):
    X, y = data(kind, 30, seed=0)
    if kind != "regression":
        y[::2] = np.resize(["yes", "no"] if kind == "binary" else ["low", "mid", "high"], 15)
    return X, y


def kernel_of(X):
    return np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2))


class Shown:
    """A scorer that keeps the decision values of all rows; it is shown each fold by itself too."""

    def __init__(self):
        self.values = []

    def __call__(self, estimator, X, y):
        if len(y) == 30:
            self.values.append(np.array(estimator.decision_function(X)).reshape(len(y), -1))
        return -float(len(self.values))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("labels", ["binary", "multi"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_groups", [True, False])
def test_values_of_every_cell_equal_refits(kind, labels, kernel, by_groups):
    search, plain, options = KINDS[kind]
    X, y = rows(labels)
    given = kernel_of(X) if kernel == "precomputed" else X
    common, shown = {"kernel": kernel, "tol": 1e-10, **options}, Shown()
    Cs = CS[:2] if kernel == "linear" else CS
    model = search(Cs=Cs, gammas=[0.7] if kernel == "rbf" else None, scoring=shown, **common)
    model.fit(given, y, WEIGHTS, groups=GROUPS if by_groups else None)
    folds = [np.flatnonzero(g == GROUPS) for g in range(6)] if by_groups else np.arange(30)[:, None]
    for cell, values in zip(model.cv_results_["params"], shown.values, strict=True):
        for fold in folds:
            rest = np.setdiff1d(np.arange(30), fold)
            columns = rest if kernel == "precomputed" else slice(None)
            alone = plain(**cell, **common).fit(given[rest][:, columns], y[rest], WEIGHTS[rest])
            expected = alone.decision_function(given[fold][:, columns]).reshape(fold.size, -1)
            np.testing.assert_allclose(values[fold], expected, atol=1e-6)


@pytest.mark.parametrize("cv", [None, GroupKFold(3)], ids=["leave-one-out", "groups"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_as_a_grid_search(kind, cv):
    search, plain, options = KINDS[kind]
    X, y = rows("multi")
    groups = None if cv is None else np.arange(30) % 6  # Folds of equal size: means are those of all rows.
    model = search(Cs=CS, gammas=GAMMAS, cv=cv, **options).fit(X, y, groups=groups)
    grid = GridSearchCV(plain(**options), {"C": CS, "gamma": GAMMAS}, cv=cv or LeaveOneOut())
    grid.fit(X, y, groups=groups)
    ours, theirs = model.cv_results_, grid.cv_results_
    assert ours["params"] == theirs["params"]
    if cv is not None:  # Of one row alone there are no splits worth keeping.
        for name in ("split0_test_score", "split1_test_score", "split2_test_score", "std_test_score"):
            np.testing.assert_allclose(ours[name], theirs[name], atol=1e-12)
    assert set(ours) - {"iter", "exact"} <= set(theirs)
    np.testing.assert_allclose(ours["mean_test_score"], theirs["mean_test_score"], atol=1e-12)
    assert model.best_params_ == grid.best_params_
    assert model.best_score_ == pytest.approx(grid.best_score_)
    best = grid.best_estimator_
    np.testing.assert_allclose(model.decision_function(X), best.decision_function(X), atol=1e-4)
    assert model.certificate_.residual <= 1e-6


@pytest.mark.parametrize("kernel", ["poly", "sigmoid", "rbf"])
def test_an_augmented_kernel_has_its_gamma_everywhere(kernel):
    X, y = rows()
    common = {"augment": True, "kernel": kernel, "coef0": 0.5, "degree": 2, "tol": 1e-9}
    model = LagrangianSVCCV(Cs=[0.2], gammas=[0.02, 0.05], **common).fit(X, y)
    plain = LagrangianSVC(C=model.C_, gamma=model.gamma_, **common).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-6)
    assert model.best_score_ == pytest.approx(plain.loo_score())


def test_cells_that_are_not_convex_have_no_score():
    X, y = rows()
    model = RLSSVCCV(kernel="sigmoid", coef0=-2.0, gammas=[0.3], Cs=[1e-3, 1e4])
    with pytest.warns(UserWarning, match="1 of 2 cells have no score"):
        model.fit(X, y)
    assert np.isnan(model.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert model.C_ == 1e-3


def test_rounds_jobs_sparse_rows_and_balanced_weights():
    X, y = rows("multi")
    options = {"Cs": CS[:2], "gammas": GAMMAS, "refine": 1, "class_weight": "balanced", "cv": KFold(3)}
    weights = np.r_[0.0, WEIGHTS[1:]]
    one = RLSSVCCV(**options).fit(X, y, weights)
    two = RLSSVCCV(n_jobs=2, **options).fit(sp.csr_array(X), y, weights)
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert max(one.cv_results_["iter"]) == 1
    assert one.honest_score_ == pytest.approx(two.honest_score_)
    alone = RLSSVCCV(**{**options, "cv": None}).fit(X, y, weights)
    without = RLSSVCCV(**{**options, "cv": None}).fit(X[1:], y[1:], weights[1:])
    assert without.best_score_ == pytest.approx(alone.best_score_)


def test_the_model_has_all_methods(tmp_path):
    X, y = rows()
    model = RLSSVCCV(Cs=CS, gammas=GAMMAS).fit(X[:25], y[:25])
    at = model.best_params_
    path = model.C_path([0.5, 2.0])
    assert path.model(2.0).C_ == 2.0
    with pytest.raises(AttributeError, match="models of C_path never have it"):
        path.model(2.0).best_score_.hex()
    model.learn(X[25:], y[25:])
    squaresvm.save(model, tmp_path / "m")
    again = squaresvm.load(tmp_path / "m")
    assert type(again) is RLSSVCCV
    assert (again.best_score_, again.best_params_) == (model.best_score_, at)
    model.forget([3])
    rest = np.delete(np.arange(30), 3)
    plain = RLSSVC(**at).fit(X[rest], y[rest])
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-5)
    assert not hasattr(model, "best_score_")
    fresh = RLSSVCCV(Cs=CS, gammas=GAMMAS).fit(X[rest], y[rest])
    assert model.honest_score_ == pytest.approx(fresh.honest_score_)
    assert model.refit().best_params_ == fresh.best_params_


def test_a_precomputed_kernel_is_searched_again():
    X, y = rows()
    K = kernel_of(X)
    before = K.copy()
    model = LagrangianSVCCV(Cs=CS, kernel="precomputed").fit(K, y, np.r_[0.0, np.ones(29)])
    assert np.array_equal(K, before)
    model.forget([5])
    rest = np.delete(np.arange(1, 30), 4)
    alone = LagrangianSVCCV(Cs=CS, kernel="precomputed").fit(K[np.ix_(rest, rest)], y[rest])
    assert model.refit().best_score_ == pytest.approx(alone.best_score_)
    assert model.honest_score_ == pytest.approx(alone.honest_score_)


def by_hand(model, X, y, weights, folds, groups=None):
    """Return what models say of each row whose searches had none of its outer fold."""
    said = np.empty_like(y)
    for rest, fold in folds:
        inner = clone(model)
        columns = rest if model.kernel == "precomputed" else slice(None)
        own = None if groups is None else groups[rest]
        inner.fit(X[rest][:, columns], y[rest], weights[rest], groups=own)
        said[fold] = inner.predict(X[fold][:, columns])
    return said


SEARCHES = {
    "LSSVCCV": (LSSVCCV(Cs=CS, gammas=GAMMAS), "multi"),
    "LSSVRCV": (LSSVRCV(Cs=CS, gammas=GAMMAS), "regression"),
    "RLSSVCCV": (RLSSVCCV(Cs=CS, gammas=[0.7]), "multi"),
    "LagrangianSVCCV": (LagrangianSVCCV(Cs=CS, kernel="linear", A=0.2), "binary"),
    "robust": (LSSVRCV(Cs=CS, gammas=GAMMAS, robust=1), "regression"),
    "evidence": (LSSVRCV(Cs=CS, gammas=GAMMAS, scoring="evidence"), "regression"),
    "precomputed": (LSSVCCV(Cs=CS, kernel="precomputed"), "binary"),
}


@pytest.mark.parametrize("how", ["leave-one-out", "cv", "groups"])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_honest_score_is_that_of_nested_loops(name, how):
    model, kind = SEARCHES[name]
    if how == "cv" and model.scoring == "evidence":
        return  # Evidence takes no cv.
    X, y = rows(kind)
    X = kernel_of(X) if name == "precomputed" else X
    stratified = StratifiedKFold(5) if kind != "regression" else KFold(5)
    cv = {"leave-one-out": None, "cv": KFold(4, shuffle=True, random_state=1), "groups": GroupKFold(3)}[how]
    if model.scoring == "evidence":
        cv = None
    groups = GROUPS if how == "groups" and cv is not None else None
    model = clone(model).set_params(cv=cv).fit(X, y, WEIGHTS, groups=groups)
    said = by_hand(model, X, y, WEIGHTS, (cv or stratified).split(X, y, groups), groups)
    score = r2_score if kind == "regression" else accuracy_score
    assert model.honest_score_ == pytest.approx(score(y, said, sample_weight=WEIGHTS), abs=1e-7)


def test_where_groups_leave_the_outer_folds_are_of_whole_groups():
    X, y = rows("regression")
    model = LSSVRCV(Cs=CS, gammas=GAMMAS).fit(X, y, groups=GROUPS)
    said = by_hand(model, X, y, np.ones(30), GroupKFold(5).split(X, y, GROUPS), GROUPS)
    assert model.honest_score_ == pytest.approx(r2_score(y, said))


def test_noise_is_told_from_knowledge():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    model = LSSVCCV().fit(X, y)
    assert model.best_score_ > 0.55  # The best of 105 cells.
    assert model.honest_score_ < model.best_score_ - 0.05


def test_the_honest_score_is_of_the_rows_held():
    X, y = rows("regression")
    model = LSSVRCV(Cs=CS, gammas=GAMMAS).fit(X[:25], y[:25])
    before = model.honest_score_
    model.learn(X[25:], y[25:])
    whole = LSSVRCV(Cs=CS, gammas=GAMMAS).fit(X, y)
    assert model.honest_score_ == pytest.approx(whole.honest_score_, abs=1e-9)
    assert model.honest_score_ != before


class TestBadInput:
    def test_groups_that_were_not_kept(self, tmp_path):
        X, y = rows()
        model = RLSSVCCV(Cs=[1.0], gammas=[0.1]).fit(X, y, groups=np.arange(30) % 5)
        assert 0 < model.honest_score_ <= 1
        squaresvm.save(model, tmp_path / "m")
        again = squaresvm.load(tmp_path / "m")
        model.learn(X[:2] + 0.1, y[:2])
        for changed in (model, again):
            with pytest.raises(AttributeError, match="needs the groups of all rows held"):
                changed.honest_score_.hex()
            with pytest.raises(ValueError, match="groups of the fit were not kept"):
                changed.refit()
        with pytest.raises(ValueError, match="groups must name the group"):
            model.fit(X, y, groups=[1, 2])

    def test_folds_of_all_rows(self):
        X, y = rows()
        model = RLSSVCCV(Cs=[1.0], gammas=[0.1], cv=list(KFold(3).split(X))).fit(X, y)
        with pytest.raises(ValueError, match="cv must be a number or a splitter"):
            model.honest_score_.hex()
        assert model.best_score_ > 0

    @pytest.mark.parametrize("search", [RLSSVCCV, LagrangianSVCCV])
    def test_parameters(self, search):
        X, y = rows()
        for options, message in (
            ({"Cs": []}, "Cs is empty"),
            ({"gammas": [-1.0]}, "gammas"),
            ({"kernel": "linear", "gammas": [1.0]}, "has no gamma"),
            ({"scoring": "evidence"}, "is for regression"),
            ({"scoring": "neg_log_loss", "Cs": [1.0], "gammas": [1.0]}, "needs probabilities"),
        ):
            with pytest.raises(ValueError, match=message):
                search(**options).fit(X, y)
        with pytest.raises(ValueError, match="has only one row of positive weight"):
            search().fit(X[:3], ["a", "b", "b"])

    def test_a_class_of_two_rows_has_no_honest_score(self):
        X, _ = rows()
        model = RLSSVCCV(Cs=[1.0], gammas=[0.1]).fit(X, np.r_[1, 1, np.zeros(28)])
        with pytest.raises(ValueError, match=r"class 1\.0 has only one row of positive weight"):
            model.honest_score_.hex()


@parametrize_with_checks(
    [RLSSVCCV(Cs=[0.1, 10.0], gammas=[0.1], cv=2), LagrangianSVCCV(kernel="linear", Cs=[0.1, 10.0], cv=2)],
    expected_failed_checks=lambda estimator: {
        check.__name__: "a row of weight 3 is not three rows when folds are made" for check in WEIGHT_CHECKS
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
