"""The search over C and gamma against as many fits as there are rows and cells."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score, make_scorer, mean_absolute_error, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from squaresvm import LSSVC, LSSVCCV, LSSVR, LSSVRCV, Window
from squaresvm.kernels import Kernel
from squaresvm.search.grid import default_Cs, default_gammas, finer
from squaresvm.search.paths import HAVE_GAMMA, KernelFamily, KernelPath, LinearPath
from squaresvm.streaming import ArraySource
from support import oracle

WEIGHT_CHECKS = (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)
CS, GAMMAS = [0.05, 3.0, 200.0], [0.1, 0.7]
M = 11


def rows(kind="binary", m=M, n=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    X[1], X[2] = X[0], 0.0  # A row twice, and one without entries.
    value = X[:, 0] - X[:, 1] ** 2 + 0.5 * rng.normal(size=m)
    if kind == "regression":
        return X, value
    if kind == "binary":
        return X, np.where(value > np.median(value), "yes", "no")
    return X, np.array(["low", "mid", "high"])[np.argsort(np.argsort(value)) % 3]


def weights_of(m=M, seed=1):
    return np.random.default_rng(seed).uniform(0.2, 3.0, size=m)


def brute_force(estimator, X, y, weights):
    """Return f at each row of a model that was fitted without it."""
    values = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        own = X[np.ix_(rest, rest)] if estimator.kernel == "precomputed" else X[rest]
        probe = X[[i]][:, rest] if estimator.kernel == "precomputed" else X[[i]]
        model = clone(estimator).fit(own, y[rest], sample_weight=weights[rest])
        value = model.predict(probe) if isinstance(model, LSSVR) else model.decision_function(probe)
        values.append(np.atleast_1d(value[0]))
    return np.array(values)


class Recorder:
    """A scorer that keeps the values it is shown."""

    def __init__(self):
        self.seen = []

    def __call__(self, estimator, X, y):
        method = getattr(estimator, "decision_function", estimator.predict)
        self.seen.append(np.array(method(X)).reshape(len(y), -1))
        return -float(len(self.seen))


class TestAgainstBruteForce:
    @pytest.mark.parametrize("fit_intercept", [True, False], ids=["free-bias", "no-bias"])
    @pytest.mark.parametrize("weighted", [True, False], ids=["weights", "plain"])
    @pytest.mark.parametrize("kind", ["binary", "multi", "regression"])
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "linear-wide", "precomputed"])
    def test_every_cell(self, kernel, kind, weighted, fit_intercept):
        X, y = rows(kind, n=25 if kernel == "linear-wide" else 3)
        kernel = kernel.removesuffix("-wide")
        gammas = [0.3] if kernel == "rbf" else None
        if kernel == "precomputed":
            X = oracle.kernel_matrix("rbf", X, X, gamma=0.4)
        weights = weights_of() if weighted else np.ones(M)
        cls, plain = (LSSVRCV, LSSVR) if kind == "regression" else (LSSVCCV, LSSVC)
        recorder = Recorder()
        shared = {"kernel": kernel, "fit_intercept": fit_intercept}
        model = cls(Cs=CS, gammas=gammas, scoring=recorder, **shared).fit(X, y, sample_weight=weights)
        assert len(recorder.seen) == len(CS)
        for C, found in zip(CS, recorder.seen, strict=True):
            single = plain(C=C, gamma=0.3, **shared)
            np.testing.assert_allclose(found, brute_force(single, X, y, weights), rtol=0, atol=1e-8)
        assert model.best_params_["C"] == CS[0]  # The recorder's score falls.

    @pytest.mark.parametrize("kernel", [*HAVE_GAMMA])
    def test_gammas_share_the_pairs(self, kernel):
        X, _ = rows()
        family = KernelFamily(Kernel(kernel, gamma=9.0, degree=2, coef0=0.5), X)
        for gamma in (0.01, 0.3):
            expected = oracle.kernel_matrix(kernel, X, X, gamma=gamma, degree=2, coef0=0.5)
            np.testing.assert_allclose(family(gamma), expected, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(
                KernelFamily(family.kernel, sp.csr_matrix(X))(gamma), expected, rtol=1e-12, atol=1e-14
            )

    def test_equals_scikit_learns_search(self):
        X, y = rows(m=24)
        ours = LSSVCCV(Cs=CS, gammas=GAMMAS).fit(X, y)
        peer = GridSearchCV(LSSVC(), {"C": CS, "gamma": GAMMAS}, cv=LeaveOneOut(), scoring="accuracy")
        peer.fit(X, y)
        assert ours.best_params_ == peer.best_params_
        assert ours.best_index_ == peer.best_index_
        assert ours.best_score_ == pytest.approx(peer.best_score_)
        for key in ("mean_test_score", "rank_test_score", "param_C", "param_gamma"):
            np.testing.assert_allclose(
                ours.cv_results_[key].astype(float), peer.cv_results_[key].astype(float), rtol=1e-12
            )
        assert ours.cv_results_["params"] == peer.cv_results_["params"]
        assert set(ours.cv_results_) - {"iter", "exact"} <= set(peer.cv_results_)

    def test_class_weights_count(self):
        X, y = rows("multi", m=30)
        weights = np.random.default_rng(2).integers(0, 3, size=30).astype(float)
        options = {"class_weight": {"low": 4.0, "mid": 0.5}}
        model = LSSVCCV(Cs=CS, gammas=GAMMAS, **options).fit(X, y, sample_weight=weights)
        for params, score in zip(
            model.cv_results_["params"], model.cv_results_["mean_test_score"], strict=True
        ):
            single = LSSVC(**params, **options).fit(X, y, sample_weight=weights)
            counted = weights * np.array([{"low": 4.0, "mid": 0.5}.get(label, 1.0) for label in y])
            found = single.classes_[single.loo_decision_function().argmax(axis=1)]
            assert score == pytest.approx(np.average(found == y, weights=counted), abs=1e-12)

    @pytest.mark.parametrize("C", [1e-6, 1e8])
    def test_extreme_C(self, C):
        X, y = rows("regression", m=12)
        K = oracle.kernel_matrix("rbf", X, X, gamma=0.5)
        expected = oracle.leave_one_out(K, y, np.full(12, C), oracle.SQUARED, oracle.FREE)
        path = KernelPath(np.asfortranarray(K), y[:, None], np.ones(12), free_bias=True)
        (found,) = path.left_out([C])
        np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_linear_rows_around_a_large_mean_constant_columns_and_sparse_ones(self, fit_intercept):
        X, y = rows("regression", m=30)
        far = np.column_stack([X + (1e4 if fit_intercept else 10.0), np.full(30, 7.0)])
        for given in (far, sp.csr_matrix(np.column_stack([X, np.zeros(30)]))):
            (found,) = LinearPath(given, y[:, None], np.ones(30), free_bias=fit_intercept).left_out([2.0])
            single = LSSVR(C=2.0, kernel="linear", fit_intercept=fit_intercept).fit(given, y)
            np.testing.assert_allclose(found[:, 0], single.loo_predict(), rtol=1e-6, atol=1e-7)

    def test_two_rows(self):
        model = LSSVRCV(Cs=[0.5], gammas=[1.0], scoring="neg_mean_absolute_error")
        assert model.fit([[0.0], [1.0]], [3.0, 5.0]).best_score_ == pytest.approx(-2.0)


class TestScoring:
    def test_default_is_loo_score(self):
        X, y = rows("multi", m=30)
        model = LSSVCCV(Cs=CS, gammas=GAMMAS).fit(X, y)
        assert model.best_score_ == pytest.approx(model.loo_score())
        X, y = rows("regression", m=30)
        model = LSSVRCV(Cs=CS, gammas=GAMMAS).fit(X, y)
        assert model.best_score_ == pytest.approx(model.loo_score())
        assert model.best_score_ == pytest.approx(r2_score(y, model.loo_predict()))

    def test_names_and_callables(self):
        X, y = rows(m=30)
        by_name = LSSVCCV(Cs=CS, gammas=GAMMAS, scoring="roc_auc").fit(X, y)
        assert by_name.best_score_ == pytest.approx(
            roc_auc_score(y == "yes", by_name.loo_decision_function())
        )
        made = make_scorer(accuracy_score)
        assert LSSVCCV(Cs=CS, scoring=made).fit(X, y).best_score_ == LSSVCCV(Cs=CS).fit(X, y).best_score_
        X, y = rows("regression", m=30)
        model = LSSVRCV(Cs=CS, scoring="neg_mean_absolute_error").fit(X, y)
        assert -model.best_score_ == pytest.approx(mean_absolute_error(y, model.loo_predict()))

    def test_weights_reach_scorers_that_take_them(self):
        X, y = rows("regression", m=30)
        weights = weights_of(30)
        model = LSSVRCV(Cs=CS, scoring="neg_mean_absolute_error").fit(X, y, sample_weight=weights)
        expected = mean_absolute_error(y, model.loo_predict(), sample_weight=weights)
        assert -model.best_score_ == pytest.approx(expected)
        model = LSSVRCV(Cs=CS, scoring=lambda model, X, y: -mean_absolute_error(y, model.predict(X)))
        model.fit(X, y, sample_weight=weights)
        assert -model.best_score_ == pytest.approx(mean_absolute_error(y, model.loo_predict()))

    @pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score"])
    def test_scorers_of_probabilities_are_refused(self, scoring):
        X, y = rows()
        model = LSSVCCV(scoring=scoring)
        with pytest.raises(ValueError, match=r"needs probabilities, which are calibrated on the same"):
            model.fit(X, y)
        assert not hasattr(model, "_state")

    def test_scorers_see_all_rows_or_none(self):
        X, y = rows()
        with pytest.raises(ValueError, match="for all 11 judged rows together, and the scorer asked for 3"):
            LSSVCCV(scoring=lambda model, X, y: (model.predict(X[:3]) == y[:3]).mean()).fit(X, y)


class TestFittedModel:
    def test_is_the_plain_model_with_the_chosen_numbers(self):
        X, y = rows("multi", m=40)
        model = LSSVCCV(Cs=CS, gammas=GAMMAS).fit(X, y)
        assert model.best_params_ == {"C": model.C_, "gamma": model.gamma_}
        plain = LSSVC(C=model.C_, gamma=model.gamma_).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-12)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-9)
        assert model.certificate_.residual < 1e-10

    def test_learns_and_forgets_with_the_numbers_of_the_fit(self):
        X, y = rows("multi", m=40)
        model = LSSVCCV(Cs=CS, gammas=GAMMAS).fit(X[:30], y[:30])
        model.learn(X[30:], y[30:])
        assert model.cv_results_["params"]
        receipt = model.forget([3, 4, 31])
        assert receipt.remaining == 37
        rest = np.delete(np.arange(40), [3, 4, 31])
        plain = LSSVC(C=model.C_, gamma=model.gamma_).fit(X[rest], y[rest])
        np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-10)

    def test_results_are_dropped_when_rows_are_forgotten(self):
        X, y = rows(m=30)
        model = LSSVCCV(Cs=CS, gammas=GAMMAS).fit(X, y)
        chosen = model.best_params_
        with pytest.raises(KeyError):
            model.forget([99])
        assert model.best_score_ > 0  # Nothing was forgotten.
        model.forget([3])
        for name in ("cv_results_", "best_score_", "best_index_"):
            with pytest.raises(AttributeError, match=f"{name} was dropped when rows were forgotten"):
                getattr(model, name)
            assert not hasattr(pickle.loads(pickle.dumps(model)), name)
        assert model.best_params_ == chosen
        model.refit()
        assert (
            model.best_score_
            == LSSVCCV(Cs=CS, gammas=GAMMAS).fit(np.delete(X, 3, axis=0), np.delete(y, 3)).best_score_
        )

    def test_refit_of_a_precomputed_kernel(self):
        X, y = rows(m=30)
        K = oracle.kernel_matrix("rbf", X, X, gamma=0.4)
        model = LSSVCCV(Cs=CS, kernel="precomputed").fit(K, y, sample_weight=np.r_[0.0, np.ones(29)])
        model.forget([5])
        rest = np.delete(np.arange(1, 30), 4)
        alone = LSSVCCV(Cs=CS, kernel="precomputed").fit(K[np.ix_(rest, rest)], y[rest])
        assert model.refit().cv_results_["mean_test_score"].tolist() == (
            alone.cv_results_["mean_test_score"].tolist()
        )

    def test_copies_pipelines_windows(self):
        X, y = load_iris(return_X_y=True)
        pipe = make_pipeline(StandardScaler(), LSSVCCV(Cs=[1.0, 100.0])).fit(X, y)
        assert pipe.score(X, y) > 0.95
        model = pipe[-1]
        other = copy.copy(model)
        other.forget([0])
        assert hasattr(model, "cv_results_")
        assert not hasattr(other, "cv_results_")
        window = Window(LSSVCCV(Cs=[1.0], gammas=[0.3]), size=149).fit(X, y)
        assert window.best_params_ == {"C": 1.0, "gamma": 0.3}

    def test_a_failed_fit_changes_nothing(self):
        X, y = rows(m=30)
        model = LSSVCCV(Cs=CS, gammas=GAMMAS).fit(X, y)
        before = model.cv_results_
        with pytest.raises(ValueError, match="NaN"):
            model.fit(np.full_like(X, np.nan), y)
        assert model.cv_results_["params"] == before["params"]


class TestGrid:
    def test_default(self):
        assert len(default_Cs()) == 15
        assert (default_Cs()[0], default_Cs()[-1]) == (1e-3, 1e4)
        X, y = rows(m=30)
        model = LSSVCCV().fit(X, y)
        scale = 1.0 / (3 * X.var())
        tried = np.unique(model.cv_results_["param_gamma"])
        np.testing.assert_allclose(tried, default_gammas(scale))
        np.testing.assert_allclose(tried[[0, -1]], [scale / 256, scale * 16])
        assert len(model.cv_results_["params"]) == 105
        assert "param_gamma" not in LSSVCCV(kernel="linear").fit(X, y).cv_results_

    def test_refine_goes_between_and_beyond(self):
        X, y = rows("regression", m=40)
        coarse = LSSVRCV(Cs=[0.01, 1.0, 100.0], gammas=[0.01, 0.1, 1.0]).fit(X, y)
        fine = LSSVRCV(Cs=[0.01, 1.0, 100.0], gammas=[0.01, 0.1, 1.0], refine=3).fit(X, y)
        assert fine.best_score_ > coarse.best_score_
        results = fine.cv_results_
        assert results["iter"].tolist()[:9] == [0] * 9
        assert results["iter"].max() == 3
        cells = [tuple(params.values()) for params in results["params"]]
        assert len(set(cells)) == len(cells)
        assert results["mean_test_score"][fine.best_index_] == np.max(results["mean_test_score"])
        assert finer([3.0], 3.0) == []

    @pytest.mark.parametrize("n_jobs", [2, -1])
    def test_jobs_change_nothing(self, n_jobs, capfd):
        X, y = rows("multi", m=60)
        one = LSSVCCV(Cs=CS, gammas=[0.1, 0.2, 0.5]).fit(X, y)
        many = LSSVCCV(Cs=CS, gammas=[0.1, 0.2, 0.5], n_jobs=n_jobs, verbose=1).fit(X, y)
        assert one.cv_results_["mean_test_score"].tolist() == many.cv_results_["mean_test_score"].tolist()
        assert "decompositions" not in capfd.readouterr().err  # In a pipe there is no bar.

    def test_bar_on_a_terminal(self, monkeypatch, capsys):
        X, y = rows()
        monkeypatch.setattr(type(sys.stderr), "isatty", lambda self: True, raising=False)
        LSSVCCV(Cs=CS, gammas=GAMMAS, verbose=1).fit(X, y)
        assert "2 of 2 decompositions" in capsys.readouterr().err

    def test_an_indefinite_kernel_leaves_cells_out(self):
        X, y = rows(m=30)
        model = LSSVCCV(kernel="sigmoid", Cs=[1e-3, 1e3], gammas=[1.0], coef0=-1.0)
        with pytest.warns(
            UserWarning, match="1 of 2 cells have no score and are left out, the first at C = 1000"
        ):
            model.fit(X, y)
        assert model.best_params_ == {"C": 1e-3, "gamma": 1.0}
        assert model.cv_results_["rank_test_score"].tolist() == [1, 2]
        with pytest.raises(ValueError, match="no value of C and gamma has a score"):
            LSSVCCV(kernel="sigmoid", Cs=[1e3], gammas=[1.0], coef0=-1.0).fit(X, y)


class TestRefused:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"Cs": []}, "Cs is empty"),
            ({"Cs": 3.0}, "Cs must be a sequence of numbers"),
            ({"Cs": [1.0, -1.0]}, r"Cs\[1\] must be a finite number greater than 0"),
            ({"gammas": [1.0, 1.0]}, "gammas holds 1.0 twice"),
            ({"gammas": "scale"}, "gammas must be a sequence"),
            ({"gammas": [1.0], "kernel": "linear"}, "kernel='linear' has no gamma: leave gammas=None"),
            ({"refine": -1}, "refine must be an integer of at least 0"),
            ({"n_jobs": 0}, "n_jobs must not be 0"),
            ({"scoring": ["accuracy"]}, "scoring must be None, the name of a scorer or a callable"),
            ({"Cs": [1e-320]}, "out of the range of float64"),
        ],
    )
    def test_parameters(self, parameters, message):
        X, y = rows()
        with pytest.raises(ValueError, match=message):
            LSSVCCV(**parameters).fit(X, y)

    def test_a_class_of_one_row(self):
        X, y = rows()
        y = y.astype(object)
        y[3] = "alone"
        with pytest.raises(ValueError, match="class 'alone' has only one row of positive weight"):
            LSSVCCV().fit(X, y)
        with pytest.raises(ValueError, match="class 'yes' has only one row"):
            LSSVCCV().fit(X[:3], ["no", "no", "yes"])

    def test_one_row(self):
        with pytest.raises(ValueError, match="at least two rows of positive weight"):
            LSSVRCV(Cs=[1.0], gammas=[1.0]).fit([[1.0]], [2.0])
        with pytest.raises(ValueError, match="all rows have weight zero"):
            LSSVCCV(class_weight={"a": 0.0, "b": 0.0}).fit([[1.0], [2.0]], ["a", "b"])


@parametrize_with_checks(
    [LSSVCCV(), LSSVRCV()],
    # By folds, which the check chooses, a row of weight 3 is three rows; when probabilities are calibrated
    # it is one.
    expected_failed_checks=lambda estimator: {
        check.__name__: "predict_proba is calibrated on leave-one-out values, and a row of weight 3 is not "
        "three rows when one is left out; the same check passes on LSSVRCV"
        for check in WEIGHT_CHECKS
        if isinstance(estimator, LSSVCCV)
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", [{"kernel": "linear"}, {"gammas": [0.2]}], ids=["linear", "rbf"])
@pytest.mark.parametrize("check", WEIGHT_CHECKS, ids=lambda check: check.__name__)
def test_weights_are_repeated_rows_where_there_is_nothing_to_choose(check, kernel):
    check("LSSVRCV", LSSVRCV(Cs=[2.0], **kernel))


class TestSources:
    def test_a_source_is_refused(self):
        X, y = rows()
        for model in (LSSVCCV(kernel="linear"), LSSVCCV()):
            with pytest.raises(ValueError, match="LSSVCCV searches over rows in memory, not over a source"):
                model.fit(ArraySource(X, (y == "yes").astype(float)))
