"""Regression of several targets on one factor: each is fitted as if it were alone, whatever is asked."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_predict

import squaresvm
from squaresvm import LSSVR, LSSVRCV, Window, prune
from squaresvm.pages.report import examine
from squaresvm.streaming import ArraySource
from support import histories
from support.histories import PROBES, History, data

KERNELS = ["rbf", "linear", "linear-wide", "rbf-sparse", "precomputed"]
K = 3


def targets(X, seed=0):
    """Return three targets of different scales."""
    rng = np.random.default_rng(seed)
    Y = np.column_stack([np.sin(X[:, 0]), 1e3 * X[:, 1] ** 2, 1e-3 * X[:, 2]])
    return Y + 0.1 * np.abs(Y).mean(axis=0) * rng.normal(size=Y.shape)


def begin(kernel, m=20, **parameters):
    X, _ = data("regression", m, seed=0)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, m)
    if kernel != "precomputed":
        weights[[3, 9]] = 0.0
    return History(histories.estimator("LSSVR", kernel, **parameters), kernel, X, targets(X), weights)


def assert_each_alone(history, model=None, accuracy=1e-8):
    """Assert that the model predicts, leaves out and certifies as a fresh fit of each target does."""
    model = history.model if model is None else model
    found, left_out = model.predict(history.at(PROBES)), model.loo_predict()
    assert found.shape == (len(PROBES), K)
    for j in range(K):
        X = history._given(history.X)
        alone = histories.resolved(model).fit(X, history.y[:, j], sample_weight=history.weights)
        scale = np.abs(history.y[:, j]).max()
        np.testing.assert_allclose(found[:, j], alone.predict(history.at(PROBES)), atol=accuracy * scale)
        np.testing.assert_allclose(left_out[:, j], alone.loo_predict(), atol=accuracy * scale)
    assert model.certificate_.residual <= 1e-8


@pytest.mark.parametrize("kernel", KERNELS)
class TestHistories:
    def test_fit(self, kernel):
        assert_each_alone(begin(kernel))

    def test_learn_and_forget(self, kernel):
        history = begin(kernel)
        history.forget([2, 17])
        assert_each_alone(history)
        history.learn(PROBES[:3], targets(PROBES[:3]))
        assert_each_alone(history)
        history.model.flush()
        history.forget([5])
        assert_each_alone(history)
        history.assert_as_if_never_seen()

    def test_files_pickles_and_copies(self, kernel, tmp_path):
        history = begin(kernel)
        squaresvm.save(history.model, tmp_path / "m", factor=True)
        for model in (
            squaresvm.load(tmp_path / "m"),
            pickle.loads(pickle.dumps(history.model)),
            copy.copy(history.model),
        ):
            same = model.predict(history.at(PROBES))
            assert same.tobytes() == history.model.predict(history.at(PROBES)).tobytes()
            model.forget([1])
        history.forget([1])
        assert_each_alone(history, model)

    def test_groups(self, kernel):
        history = begin(kernel)
        # Of one row to half of them.
        groups = np.random.default_rng(5).permutation(np.repeat(np.arange(5), [1, 2, 3, 4, 10]))
        found = history.model.cross_predict(groups=groups)
        for j in range(K):
            X = history._given(history.X)
            alone = histories.resolved(history.model).fit(X, history.y[:, j], sample_weight=history.weights)
            scale = np.abs(history.y[:, j]).max()
            np.testing.assert_allclose(found[:, j], alone.cross_predict(groups=groups), atol=1e-9 * scale)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("C", [1e-6, 1e8])
def test_extreme_costs(kernel, C):
    X, _ = data("regression", 25, seed=3)
    Y = targets(X)
    model = LSSVR(C=C, gamma=0.3, kernel=kernel).fit(X, Y)
    for j in range(K):
        alone = LSSVR(C=C, gamma=0.3, kernel=kernel).fit(X, Y[:, j])
        np.testing.assert_allclose(model.predict(X)[:, j], alone.predict(X), rtol=1e-6)


def test_equals_ridge():
    X, _ = data("regression", 60, seed=1)
    Y = targets(X)
    theirs = Ridge(alpha=0.25).fit(X, Y)
    ours = LSSVR(C=4.0, kernel="linear").fit(X, Y)
    np.testing.assert_allclose(ours.predict(PROBES), theirs.predict(PROBES), rtol=1e-9)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    assert ours.score(X, Y) == pytest.approx(theirs.score(X, Y))
    left_out = RidgeCV(alphas=[0.25], store_cv_results=True).fit(X, Y).cv_results_[..., 0]
    np.testing.assert_allclose((ours.loo_predict() - Y) ** 2, left_out, rtol=1e-7)


def test_a_column_stays_a_column():
    X, y = data("regression", 15, seed=0)
    flat, column = LSSVR().fit(X, y), LSSVR().fit(X, y[:, None])
    assert flat.predict(X).shape == (15,)
    assert column.predict(X).tolist() == flat.predict(X)[:, None].tolist()
    assert column.loo_predict().shape == column.cross_predict(3).shape == (15, 1)


def test_scores():
    X, _ = data("regression", 40, seed=2)
    Y = targets(X)
    model = LSSVR(gamma=0.2).fit(X, Y)
    expected = cross_val_predict(model, X, Y, cv=4)
    np.testing.assert_allclose(model.cross_predict(4), expected, rtol=0, atol=1e-9 * np.abs(Y).max())
    assert model.cross_score(4) == pytest.approx(r2_score(Y, expected))
    assert model.loo_score() == pytest.approx(r2_score(Y, model.loo_predict()))


def test_intervals():
    X, _ = data("regression", 40, seed=2)
    Y = targets(X)
    found = LSSVR(gamma=0.2).fit(X, Y).predict_interval(PROBES, 0.8)
    assert found.shape == (len(PROBES), K, 2)
    for j in range(K):
        alone = LSSVR(gamma=0.2).fit(X, Y[:, j]).predict_interval(PROBES, 0.8)
        np.testing.assert_allclose(found[:, j], alone, rtol=1e-7, atol=1e-9 * np.abs(Y[:, j]).max())


def test_search_goes_by_the_mean_of_all():
    X, _ = data("regression", 30, seed=4)
    Y = targets(X)
    model = LSSVRCV(Cs=[0.1, 10.0], gammas=[0.05, 0.5]).fit(X, Y)
    scores = []
    for cell in model.cv_results_["params"]:
        scores.append(LSSVR(**cell).fit(X, Y).loo_score())
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], scores, rtol=1e-7)
    assert model.best_score_ == pytest.approx(model.loo_score())
    by_name = LSSVRCV(Cs=[0.1, 10.0], gammas=[0.05, 0.5], scoring="r2").fit(X, Y)
    np.testing.assert_allclose(by_name.cv_results_["mean_test_score"], scores, rtol=1e-7)


class TestStreams:
    def test_equal_a_fit_in_memory(self, tmp_path):
        X, _ = data("regression", 200, seed=5)
        Y, weights = targets(X), np.random.default_rng(0).uniform(0.5, 2.0, 200)
        source = ArraySource(X, Y, weights, block_rows=64)
        streamed = LSSVR(kernel="linear", C=3.0).fit(source)
        held = LSSVR(kernel="linear", C=3.0).fit(X, Y, sample_weight=weights)
        scale = np.abs(Y).max(axis=0)
        np.testing.assert_allclose(streamed.predict(X) / scale, held.predict(X) / scale, atol=1e-10)
        np.testing.assert_allclose(np.concatenate(list(streamed.predict(source))), streamed.predict(X))
        assert streamed.score(source) == pytest.approx(held.score(X, Y, weights))
        streamed.forget_rows(X[:20], Y[:20], weights[:20])
        streamed.learn(PROBES, targets(PROBES))
        held.forget(range(20))
        held.learn(PROBES, targets(PROBES))
        np.testing.assert_allclose(streamed.predict(X) / scale, held.predict(X) / scale, atol=1e-9)
        squaresvm.save(streamed, tmp_path / "m")
        again = squaresvm.load(tmp_path / "m")
        assert again.predict(X).tobytes() == streamed.predict(X).tobytes()
        again.learn(X[:3], Y[:3])
        out = streamed.predict(source, out=tmp_path / "values.npy")
        assert np.load(out).shape == (200, K)

    def test_bad_blocks(self):
        X, Y = np.ones((4, 2)), np.ones((4, 2))
        Y[2, 1] = np.nan
        with pytest.raises(ValueError, match="row 2: y is"):
            LSSVR(kernel="linear").fit(ArraySource(X, Y))
        with pytest.raises(ValueError, match="labels must have one dimension"):
            squaresvm.LSSVC(kernel="linear").fit(ArraySource(X, np.ones((4, 1), dtype=int)))

    def test_another_number_of_targets(self):
        X, _ = data("regression", 30, seed=5)
        model = LSSVR(kernel="linear").fit(ArraySource(X, targets(X)))
        with pytest.raises(ValueError, match="3 targets a row"):
            model.learn(X, X[:, 0])
        with pytest.raises(ValueError, match="1 values a row; the model has 3"):
            model.score(ArraySource(X, X[:, 0]))


def test_onnx():
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, _ = data("regression", 20, seed=5)
    for kernel in ("rbf", "linear"):
        model = LSSVR(kernel=kernel).fit(X, targets(X))
        session = runtime.InferenceSession(squaresvm.to_onnx(model, dtype="float64").SerializeToString())
        (values,) = session.run(None, {"X": PROBES})
        assert values.shape == (len(PROBES), K)
        np.testing.assert_allclose(values, model.predict(PROBES), rtol=1e-9, atol=1e-9)


def test_windows_pruning_robust_weights_and_reports():
    X, _ = data("regression", 40, seed=5)
    Y = targets(X)
    window = Window(LSSVR(gamma=0.2), size=30).fit(X[:30], Y[:30]).learn(X[30:], Y[30:])
    fresh = LSSVR(gamma=0.2).fit(X[10:], Y[10:])
    np.testing.assert_allclose(window.predict(PROBES), fresh.predict(PROBES), rtol=1e-7, atol=1e-9)
    pruned = prune(fresh, budget=10)
    assert pruned.model.predict(PROBES).shape == (len(PROBES), K)
    Y[4, 2] += 100.0
    robust = LSSVR(gamma=0.2, robust=2).fit(X, Y)
    assert robust.robust_weights_.argmin() == 4
    report = examine(LSSVR(gamma=0.2).fit(X, Y))
    assert report.suspects[0].id == 4
    assert squaresvm.verify(fresh).ok


class TestBadInput:
    @pytest.fixture
    def model(self):
        X, _ = data("regression", 12, seed=0)
        model = LSSVR().fit(X, targets(X))
        before = model.predict(X)
        yield model
        assert model.predict(X).tobytes() == before.tobytes()

    def test_nan_in_one_target(self, model):
        X, _ = data("regression", 12, seed=0)
        Y = targets(X)
        Y[3, 1] = np.nan
        for step in (model.fit, model.learn):
            with pytest.raises(ValueError, match=r"y\[3, 1\] is nan"):
                step(X, Y)

    def test_another_number_of_targets(self, model):
        X, y = data("regression", 12, seed=0)
        for other in (y, y[:, None], np.ones((12, 4))):
            with pytest.raises(ValueError, match="fitted on 3 targets a row"):
                model.learn(X, other)

    def test_no_targets_and_cubes(self, model):
        X, _ = data("regression", 12, seed=0)
        with pytest.raises(ValueError, match=r"y must be of shape|0 feature"):
            model.fit(X, np.empty((12, 0)))
        with pytest.raises(ValueError, match=r"dim 3|y must be of shape"):
            model.fit(X, np.ones((12, 2, 2)))
