"""The estimators among others: frames, pipelines, searches, routing, pickles, clones, threads."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from support import problems

CLASSIFIERS = [LSSVC, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC]
ALL = [*CLASSIFIERS, LSSVR]
NAMES = ["height", "weight", "age"]
M = 40

every = pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)


@pytest.fixture
def data():
    X = problems.rows(m=M)
    return X, problems.signs(X)


class TestFrames:
    @every
    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
    def test_are_read_like_arrays(self, cls, frame, data):
        X, y = data
        table = frame(dict(zip(NAMES, X.T, strict=True)))
        target = pd.Series(y) if frame is pd.DataFrame else pl.Series(y)
        model, plain = cls().fit(table, target), cls().fit(X, y)
        assert model.feature_names_in_.tolist() == NAMES
        np.testing.assert_allclose(model.predict(table), plain.predict(X), rtol=0, atol=1e-12)

    @every
    def test_other_columns_are_refused_at_prediction(self, cls, data):
        X, y = data
        model = cls().fit(pd.DataFrame(X, columns=NAMES), y)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(pd.DataFrame(X, columns=["height", "weight", "shoe size"]))

    @every
    def test_names_are_forgotten_by_a_fit_without_names(self, cls, data):
        X, y = data
        model = cls().fit(pd.DataFrame(X, columns=NAMES), y).fit(X[:, :2], y)
        assert not hasattr(model, "feature_names_in_")
        assert model.n_features_in_ == 2

    def test_string_series_as_labels(self, data):
        X, y = data
        labels = pd.Series(np.where(y > 0, "yes", "no"), dtype="string")
        model = LSSVC().fit(X, labels)
        assert set(model.predict(X)) <= {"yes", "no"}
        assert model.score(X, labels) > 0.7

    def test_weights_and_index_of_a_series(self, data):
        """A shuffled index must not realign anything."""
        X, y = data
        order = np.random.default_rng(0).permutation(M)
        weights = problems.weights_of("mixed", M)
        table = pd.DataFrame(X, columns=NAMES, index=order)
        model = LSSVC().fit(table, pd.Series(y, index=order), sample_weight=pd.Series(weights, index=order))
        plain = LSSVC().fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(model.decision_function(table), plain.decision_function(X), rtol=1e-12)


class TestPipelines:
    @every
    @pytest.mark.parametrize("output", ["pandas", "polars", "default"])
    def test_steps_that_hand_on_frames(self, cls, output, data):
        X, y = data
        table = pd.DataFrame(X, columns=NAMES).assign(town=np.array(["Rome", "Oslo"])[np.arange(M) % 2])
        prepare = make_column_transformer(
            (StandardScaler(), NAMES), (OneHotEncoder(sparse_output=False), ["town"])
        ).set_output(transform=output)
        model = make_pipeline(prepare, cls()).fit(table, y)
        assert model.predict(table).shape == (M,)
        assert model[-1].n_features_in_ == 5
        assert hasattr(model[-1], "feature_names_in_") == (output != "default")

    def test_sparse_steps(self, data):
        X, y = data
        table = pd.DataFrame({"a": np.round(X[:, 0]), "b": np.round(X[:, 1])})
        model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), RLSSVC()).fit(table, y)
        assert model.score(table, y) > 0.6


class TestSearches:
    @pytest.mark.parametrize("cls", CLASSIFIERS, ids=lambda cls: cls.__name__)
    def test_grid_of_pipeline_parameters(self, cls, data):
        X, y = data
        search = GridSearchCV(
            make_pipeline(StandardScaler(), cls()),
            {
                f"{cls.__name__.lower()}__C": [0.1, 10.0],
                f"{cls.__name__.lower()}__kernel": ["rbf", "linear"],
            },
            cv=3,
        ).fit(X, y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.predict(X).shape == (M,)

    @every
    def test_precomputed_kernels_are_cut_by_rows_and_columns(self, cls, data):
        X, y = data
        K = rbf_kernel(X, gamma=0.3)
        grid = {"C": [0.1, 10.0]}
        by_kernel = GridSearchCV(cls(kernel="precomputed"), grid, cv=4).fit(K, y)
        by_rows = GridSearchCV(cls(gamma=0.3), grid, cv=4).fit(X, y)
        for column in ("mean_test_score", "std_test_score"):
            np.testing.assert_allclose(by_kernel.cv_results_[column], by_rows.cv_results_[column], atol=1e-9)

    def test_regression(self, data):
        X, _ = data
        y = np.sin(X[:, 0]) + 0.5 * X[:, 1]
        assert cross_val_score(LSSVR(C=10.0), X, y, cv=4).mean() > 0.5


class TestMetadataRouting:
    @pytest.fixture(autouse=True)
    def routing(self):
        with sklearn.config_context(enable_metadata_routing=True):
            yield

    @pytest.mark.parametrize("cls", CLASSIFIERS, ids=lambda cls: cls.__name__)
    def test_weights_and_ids_reach_fit(self, cls, data):
        X, y = data
        weights, ids = problems.weights_of("mixed", M), [f"r{i}" for i in range(M)]
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = make_pipeline(scaler, cls().set_fit_request(sample_weight=True, ids=True))
        model.fit(X, y, sample_weight=weights, ids=ids)
        scaled = StandardScaler().fit_transform(X)
        alone = cls().fit(scaled, y, sample_weight=weights)
        assert model[-1].ids_.tolist() == ids
        np.testing.assert_allclose(
            model.decision_function(X), alone.decision_function(scaled), rtol=0, atol=1e-12
        )

    def test_weights_are_cut_with_the_folds(self, data):
        X, y = data
        weights = np.where(np.arange(M) < 20, 1e-6, 1.0)
        scored = cross_validate(
            LSSVC().set_fit_request(sample_weight=True).set_score_request(sample_weight=False),
            X,
            y,
            params={"sample_weight": weights, "groups": np.arange(M) // 20},
            cv=GroupKFold(2),
            return_estimator=True,
        )
        # One fold has only heavy rows to train on, the other only light ones.
        objectives = sorted(model.certificate_.objective for model in scored["estimator"])
        assert objectives[0] < 1e-4 * objectives[1]

    def test_unasked_weights_are_an_error(self, data):
        X, y = data
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
            make_pipeline(StandardScaler(), LSSVC()).fit(X, y, sample_weight=np.ones(M))


@every
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed", problems.cauchy])
class TestCopies:
    def fitted(self, cls, kernel, data):
        X, y = data
        rows = problems.cauchy(X, X) if kernel == "precomputed" else X
        weights = problems.weights_of("mixed", M)
        weights[5] = 0.0
        return cls(kernel=kernel, C=3.0).fit(rows, y, sample_weight=weights), rows

    @pytest.mark.parametrize("how", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
    def test_pickles_and_deep_copies_are_the_same_model(self, cls, kernel, how, data):
        model, rows = self.fitted(cls, kernel, data)
        twin = how(model)
        np.testing.assert_array_equal(twin.predict(rows), model.predict(rows))
        np.testing.assert_array_equal(twin.dual_coef_, model.dual_coef_)
        np.testing.assert_array_equal(twin.support_, model.support_)
        assert twin.certificate_ == model.certificate_
        assert twin.solver_reason_ == model.solver_reason_
        assert twin.get_params() == model.get_params()

    def test_clones_are_unfitted(self, cls, kernel, data):
        model, rows = self.fitted(cls, kernel, data)
        twin = clone(model)
        assert twin.get_params() == model.get_params()
        assert not hasattr(twin, "n_features_in_")
        with pytest.raises(sklearn.exceptions.NotFittedError):
            twin.predict(rows)


@every
def test_two_threads_fit_and_predict_side_by_side(cls, data):
    X, y = data
    alone = {C: cls(C=C).fit(X, y).predict(X) for C in (0.1, 1.0, 10.0)}
    shared = cls(C=1.0).fit(X, y)

    def work(C):
        return cls(C=C).fit(X, y).predict(X), shared.predict(X)

    Cs = [0.1, 1.0, 10.0] * 4
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(work, Cs))
    # How many threads BLAS takes may depend on who else works, and with it the last bits.
    for C, (fitted, predicted) in zip(Cs, found, strict=True):
        np.testing.assert_allclose(fitted, alone[C], rtol=0, atol=1e-10)
        np.testing.assert_allclose(predicted, alone[1.0], rtol=0, atol=1e-10)
