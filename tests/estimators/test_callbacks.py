"""scikit-learn's callbacks: what they hear of a fit, that they can stop it, and that they change nothing."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from squaresvm import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    RLSSVC,
    LagrangianSVC,
    OneVsOne,
    ProximalSVC,
    RelaxedLSSVC,
    Status,
    Window,
)
from squaresvm.solvers import ConjugateGradient
from squaresvm.streaming import ArraySource
from support import problems

callback = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")

ALL = [LSSVC, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC, LSSVR, LSSVCCV, LSSVRCV]
M = 40


class Recorder:
    """Keeps the name of the task with each call, and may ask to stop after some iterations."""

    def __init__(self, stop_after=None):
        self.calls, self.fitted, self.seen = [], [], []
        self.stop_after = stop_after

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.calls.append(f"end {context.task_name}")
        self.seen.append((estimator, X, y, metadata))
        if fitted_estimator is not None:
            self.fitted.append(fitted_estimator)
        return self.stop_after is not None and self.count("iteration") >= self.stop_after

    def count(self, task):
        return self.calls.count(f"end {task}")


class FarRecorder(Recorder):
    """One that reaches the estimators inside of others."""

    max_propagation_depth = None


@pytest.fixture
def data():
    X = problems.rows(m=M)
    return X, problems.signs(X)


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
class TestEveryEstimator:
    def test_tells_begin_and_end_and_shows_the_fitted_model(self, cls, data):
        X, y = data
        heard, weights = Recorder(), problems.weights_of("mixed", M)
        model = cls().set_callbacks(heard).fit(X, y, sample_weight=weights)
        assert heard.calls[:2] == ["setup", "begin fit"]
        assert heard.calls[-2:] == ["end fit", "teardown"]
        estimator, rows, labels, metadata = heard.seen[-1]
        assert (estimator, rows, labels) == (model, X, y)
        assert metadata["sample_weight"] is weights
        (shown,) = heard.fitted
        assert shown is not model
        np.testing.assert_array_equal(shown.predict(X), model.predict(X))

    def test_changes_nothing(self, cls, data):
        X, y = data
        np.testing.assert_array_equal(
            cls().set_callbacks(Recorder()).fit(X, y).dual_coef_, cls().fit(X, y).dual_coef_
        )

    def test_is_torn_down_after_a_failure_that_changes_nothing(self, cls, data):
        X, y = data
        heard = Recorder()
        model = cls().fit(X, y)
        before = model.dual_coef_
        with pytest.raises(ValueError, match="tol"):
            model.set_params(tol=-1.0).set_callbacks(heard).fit(X[:20], y[:20])
        assert heard.calls == ["setup", "begin fit", "teardown"]
        np.testing.assert_array_equal(model.dual_coef_, before)

    def test_leaves_nothing_of_the_fit_behind(self, cls, data):
        X, y = data
        plain, heard = cls().fit(X, y), cls().set_callbacks(Recorder()).fit(X, y)
        assert set(heard.__dict__) - set(plain.__dict__) == {"_skl_callbacks"}


def test_iterations_are_tasks(data):
    X, y = data
    heard = Recorder()
    model = RelaxedLSSVC(solver="2smo").set_callbacks(heard).fit(X, y)
    assert heard.count("iteration") == heard.calls.count("begin iteration") == model.n_iter_ > 1


def test_a_callback_can_stop_the_search(data):
    X, y = data
    model = RelaxedLSSVC(solver="2smo").set_callbacks(Recorder(stop_after=2)).fit(X, y)
    assert model.n_iter_ == 2
    assert model.certificate_.status == Status.STOPPED
    assert model.certificate_.residual > model.tol


def test_the_callback_of_the_solver_hears_as_before(data):
    X, y = data
    told, heard = [], Recorder()
    solver = ConjugateGradient(callback=lambda progress: told.append(progress.iteration))
    model = LSSVC(solver=solver).set_callbacks(heard).fit(X, y)
    assert len(told) == heard.count("iteration") == model.n_iter_
    assert model.solver is solver


def test_decompositions_of_a_search_are_tasks(data):
    X, y = data
    heard = Recorder()
    LSSVCCV(gammas=[0.1, 1.0, 10.0]).set_callbacks(heard).fit(X, y)
    assert heard.count("decomposition") == 3


def test_passes_over_a_source_are_tasks(data):
    X, y = data
    heard = Recorder()
    model = RLSSVC(kernel="linear").set_callbacks(heard).fit(ArraySource(X, y, block_rows=16))
    assert heard.count("pass") == heard.calls.count("begin pass") == model._state.solution.work["passes"]
    assert heard.calls[-2:] == ["end fit", "teardown"]


class TestMetaEstimators:
    def test_pairs_are_tasks_and_hand_callbacks_on(self):
        X = problems.rows(m=60)
        y = np.arange(60) % 3
        heard = FarRecorder()
        model = OneVsOne(RLSSVC()).set_callbacks(heard).fit(X, y)
        assert heard.calls.count("setup") == heard.calls.count("teardown") == 1
        # The task of a pair and the fit of its model are one.
        assert heard.count("fit") == 1 + 3
        assert all(not hasattr(pair, "_skl_callbacks") for pair in model.estimators_)
        np.testing.assert_array_equal(model.predict(X), OneVsOne(RLSSVC()).fit(X, y).predict(X))

    def test_a_window_hands_callbacks_on(self, data):
        X, y = data
        heard = FarRecorder()
        window = Window(LSSVC(solver="cg"), size=30).set_callbacks(heard).fit(X, y)
        assert heard.count("fit") == 2
        assert heard.count("iteration") > 0
        window.learn(X[:2], y[:2])
        assert window.ids_.size == 30

    def test_near_callbacks_stay(self, data):
        X, y = data
        heard = Recorder()
        Window(LSSVC(solver="cg"), size=30).set_callbacks(heard).fit(X, y)
        assert heard.count("iteration") == 0
        assert heard.count("rows of the window") == 1

    def test_inside_a_search_of_pipelines(self, data):
        X, y = data
        heard = FarRecorder()
        pipeline = make_pipeline(StandardScaler(), RLSSVC())
        grid = GridSearchCV(pipeline, {"rlssvc__C": [0.1, 1.0]}, cv=2).set_callbacks(heard)
        grid.fit(X, y)
        # Two Cs on two folds, and the best C on all rows: the model's tasks are within those of the search.
        assert heard.count("iteration") >= 5
        assert heard.calls.index("begin search") < heard.calls.index("begin iteration")
        assert heard.calls[-1] == "teardown"
        assert not hasattr(grid.best_estimator_[-1], "_parent_callback_ctx")


def test_scikit_learns_own_monitor_scores_the_fitted_model(data):
    X, y = data
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = LSSVC().set_callbacks(monitor).fit(X, y)
    (entry,) = monitor.get_logs().data
    assert entry["accuracy"] == model.score(X, y)


def test_clones_and_copies_keep_callbacks(data):
    X, y = data
    model = LSSVC().set_callbacks(Recorder()).fit(X, y)
    for twin in (clone(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert len(twin._skl_callbacks) == 1


def test_only_callbacks_are_taken():
    with pytest.raises(TypeError, match="FitCallback"):
        LSSVC().set_callbacks(print)
