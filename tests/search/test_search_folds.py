"""Searches by folds, groups and evidence, against fits of every cell."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import squaresvm
from squaresvm import LSSVC, LSSVCCV, LSSVR, LSSVRCV
from support.histories import data

CS, GAMMAS = [1e-6, 0.3, 20.0, 1e8], [0.05, 0.8]
GROUPS = np.random.default_rng(4).permutation(np.repeat(np.arange(5), [1, 3, 6, 10, 20]))
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, 40)


def rows(kind):
    X, y = data(kind, 40, seed=0)
    if kind != "regression":
        y[::2] = np.resize(["yes", "no"] if kind == "binary" else ["low", "mid", "high"], 20)
    return X, y


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("kind", ["binary", "multi", "regression"])
@pytest.mark.parametrize("how", ["groups", "cv"])
def test_every_cell_has_its_cross_validated_score(kind, kernel, fit_intercept, how):
    X, y = rows(kind)
    given = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2)) if kernel == "precomputed" else X
    search, plain = (LSSVRCV, LSSVR) if kind == "regression" else (LSSVCCV, LSSVC)
    cv, groups = (None, GROUPS) if how == "groups" else (KFold(4, shuffle=True, random_state=0), None)
    grid = {"Cs": CS[:3] if kernel == "linear" else CS, "gammas": GAMMAS if kernel == "rbf" else None}
    common = {"kernel": kernel, "fit_intercept": fit_intercept}
    model = search(cv=cv, **grid, **common).fit(given, y, WEIGHTS, groups=groups)
    for cell, score in zip(model.cv_results_["params"], model.cv_results_["mean_test_score"], strict=True):
        alone = plain(**cell, **common).fit(given, y, WEIGHTS)
        assert score == pytest.approx(alone.cross_score(cv, groups), abs=1e-6)
    assert model.best_score_ == pytest.approx(model.cross_score(cv, groups), abs=1e-6)
    assert model.best_score_ == max(model.cv_results_["mean_test_score"])


def test_values_equal_refits():
    X, y = rows("regression")
    model = LSSVRCV(Cs=[2.0], gammas=[0.3], cv=4, scoring="neg_mean_squared_error").fit(X, y)
    expected = cross_val_predict(LSSVR(C=2.0, gamma=0.3), X, y, cv=4)
    assert model.best_score_ == pytest.approx(-np.mean((y - expected) ** 2), rel=1e-10)


def test_several_targets():
    X, y = rows("regression")
    Y = np.column_stack([y, X[:, 0]])
    model = LSSVRCV(Cs=CS, gammas=GAMMAS, cv=3).fit(X, Y)
    assert model.best_score_ == pytest.approx(model.cross_score(3), abs=1e-7)


def test_groups_are_routed():
    X, y = rows("regression")
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LSSVRCV(Cs=[1.0, 10.0], gammas=[0.1]).set_fit_request(groups=True)
        found = GridSearchCV(inner, {"refine": [0]}, cv=KFold(2)).fit(X, y, groups=GROUPS)
    assert np.isfinite(found.best_score_)


def test_groups_arrive_where_the_splitter_asks_for_them():
    """As in scikit-learn's own searches: through a pipeline and a cross-validation, nothing being set."""
    X, y = rows("regression")
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LSSVRCV(Cs=[1.0, 10.0], gammas=[0.1], refine=0, cv=GroupKFold(2))
        pipeline, outer = make_pipeline(StandardScaler(), inner), GroupKFold(3)
        found = cross_validate(
            pipeline, X, y, cv=outer, params={"groups": GROUPS}, return_estimator=True, error_score="raise"
        )
        for (train, _), fitted in zip(outer.split(X, y, GROUPS), found["estimator"], strict=True):
            alone = LSSVRCV(Cs=[1.0, 10.0], gammas=[0.1], refine=0, cv=GroupKFold(2))
            alone.fit(StandardScaler().fit_transform(X[train]), y[train], groups=GROUPS[train])
            assert fitted[-1].best_score_ == pytest.approx(alone.best_score_, rel=1e-12)
        refused = make_pipeline(inner.set_fit_request(groups=False))
        with pytest.raises(TypeError, match="not routed to any object"):
            refused.fit(X, y, groups=GROUPS)
        plain = make_pipeline(LSSVRCV(cv=3))
        with pytest.raises(UnsetMetadataPassedError, match="groups"):
            plain.fit(X, y, groups=GROUPS)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "linear-wide"])
def test_evidence(kernel, fit_intercept):
    X, y = rows("regression")
    X = np.hstack([X] * 12) if kernel == "linear-wide" else X
    common = {"kernel": kernel.split("-")[0], "fit_intercept": fit_intercept}
    gammas = GAMMAS if kernel == "rbf" else None
    model = LSSVRCV(Cs=[0.1, 1.0, 30.0], gammas=gammas, scoring="evidence", **common)
    model.fit(X, y, WEIGHTS)
    for cell, score in zip(model.cv_results_["params"], model.cv_results_["mean_test_score"], strict=True):
        alone = LSSVR(**cell, **common).fit(X, y, WEIGHTS)
        assert score == pytest.approx(alone.log_marginal_likelihood(), rel=1e-9)
    assert model.best_score_ == pytest.approx(model.log_marginal_likelihood(), rel=1e-9)


def test_evidence_finds_what_a_gaussian_process_finds():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 10, 60))[:, None]
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=60)
    gammas, Cs = np.geomspace(0.01, 10, 7), np.geomspace(0.5, 200, 9)
    model = LSSVRCV(Cs=Cs, gammas=gammas, scoring="evidence", fit_intercept=False).fit(X, y)
    scores = {
        (C, g): GaussianProcessRegressor(RBF(np.sqrt(0.5 / g)), alpha=1 / C, optimizer=None)
        .fit(X, y)
        .log_marginal_likelihood_value_
        for C in Cs
        for g in gammas
    }
    assert (model.C_, model.gamma_) == pytest.approx(max(scores, key=scores.get))


class TestBadInput:
    def test_folds(self):
        X, y = rows("binary")
        model = LSSVCCV(Cs=[1.0], gammas=[0.1])
        with pytest.raises(ValueError, match="groups must name the group"):
            model.fit(X, y, groups=[1, 2])
        ordered = np.sort(y)
        with pytest.raises(ValueError, match="contains all rows of class"):
            model.fit(X, ordered, groups=(ordered == "yes").astype(int))
        assert not hasattr(model, "best_params_")
        assert "_groups" not in vars(model)

    def test_evidence(self):
        X, y = rows("binary")
        with pytest.raises(ValueError, match="is for regression"):
            LSSVCCV(scoring="evidence").fit(X, y)
        with pytest.raises(ValueError, match="leaves no rows out"):
            LSSVRCV(scoring="evidence", cv=3).fit(*rows("regression"))

    def test_refit_without_the_groups(self):
        X, y = rows("binary")
        model = LSSVCCV(Cs=[1.0], gammas=[0.1]).fit(X, y, groups=np.arange(40) % 4)
        with pytest.raises(ValueError, match="groups of the fit were not kept"):
            model.refit()
        LSSVCCV(Cs=[1.0], gammas=[0.1], cv=3).fit(X, y).refit()


def test_files(tmp_path):
    X, y = rows("binary")
    model = LSSVCCV(Cs=[1.0, 10.0], gammas=[0.1], cv=3).fit(X, y)
    squaresvm.save(model, tmp_path / "m")
    again = squaresvm.load(tmp_path / "m")
    assert again.cv == 3
    assert again.best_score_ == model.best_score_
