"""A C for each of several targets: each as a fit of it alone with that C, whatever is asked."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold

import squaresvm
from squaresvm import LSSVR, LSSVRCV
from support.histories import PROBES, data, precomputed_kernel

CS = [1e-3, 0.03, 1.0, 30.0]
KERNELS = ["rbf", "linear", "linear-wide", "precomputed"]


def rows(m=40, seed=0):
    """Return rows, targets of which one is all signal and one is all noise, and weights."""
    X, _ = data("regression", m, seed)
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(m, 3)) * [0.01, 0.5, 2.0]
    signal = np.column_stack([X @ [1.0, 2.0, -1.0, 0.5], np.sin(X[:, 0]), np.zeros(m)])
    return X, signal + noise, rng.uniform(0.5, 2.0, m)


def given(kernel, X, held=None):
    if kernel == "precomputed":
        return precomputed_kernel(X, X if held is None else held)
    return np.hstack([X, np.cos(X @ np.ones((4, 90)) * np.arange(90))]) if kernel == "linear-wide" else X


def fitted(kernel, X, Y, weights, **more):
    more = {"gammas": [0.1], **more} if kernel == "rbf" else more
    parameters = {"Cs": CS, "C_per_target": True, "kernel": kernel.split("-")[0], **more}
    return LSSVRCV(**parameters).fit(given(kernel, X), Y, sample_weight=weights)


def assert_each_alone(model, kernel, X, Y, weights):
    """Assert that everything that the model says of a target is what a fit of it alone says."""
    shared = {"kernel": model.kernel, **({"gamma": model.gamma_} if kernel == "rbf" else {})}
    at, groups = given(kernel, PROBES, X), np.arange(len(X)) % 5
    ends, std = model.predict_interval(at, 0.8), None
    if kernel != "precomputed":
        std = model.predict(at, return_std=True)[1]
    for j, C in enumerate(model.C_.tolist()):
        alone = LSSVR(C=C, **shared).fit(given(kernel, X), Y[:, j], sample_weight=weights)
        close = {"rtol": 0, "atol": 1e-8}
        np.testing.assert_allclose(model.predict(at)[:, j], alone.predict(at), **close)
        np.testing.assert_allclose(model.loo_predict()[:, j], alone.loo_predict(), **close)
        crossed = alone.cross_predict(groups=groups)
        np.testing.assert_allclose(model.cross_predict(groups=groups)[:, j], crossed, **close)
        np.testing.assert_allclose(ends[:, j], alone.predict_interval(at, 0.8), **close)
        if std is not None:
            np.testing.assert_allclose(std[:, j], alone.predict(at, return_std=True)[1], **close)
    assert model.certificate_.status == "converged"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equals_ridge_cv(fit_intercept, weighted):
    X, Y, weights = rows()
    weights = weights if weighted else None
    options = {"alpha_per_target": True, "fit_intercept": fit_intercept, "scoring": "r2"}
    theirs = RidgeCV(alphas=[1 / C for C in CS], **options).fit(X, Y, sample_weight=weights)
    ours = fitted("linear", X, Y, weights, fit_intercept=fit_intercept)
    assert np.unique(ours.C_).size > 1
    np.testing.assert_allclose(ours.C_, 1 / theirs.alpha_)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.predict(PROBES), theirs.predict(PROBES), rtol=1e-9)
    if not weighted:  # RidgeCV scores rows without their weights.
        np.testing.assert_allclose(ours.best_score_, theirs.best_score_, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_requests_files_and_copies(kernel, tmp_path):
    X, Y, weights = rows()
    model = fitted(kernel, X, Y, weights)
    assert np.unique(model.C_).size > 1
    assert model.C_.shape == model.best_index_.shape == model.best_score_.shape == (3,)
    assert_each_alone(model, kernel, X, Y, weights)
    squaresvm.save(model, tmp_path / "m")
    others = squaresvm.load(tmp_path / "m"), pickle.loads(pickle.dumps(model)), copy.copy(model)
    for other in others:
        assert other.best_params_["C"].tolist() == model.C_.tolist()
        assert other.best_score_.tolist() == model.best_score_.tolist()
    for other in (model, *others):
        receipt = other.forget([3, 17], verify=True)
        assert receipt.rows == 2
        assert receipt.residual < 1e-8
        stay = np.delete(np.arange(len(X)), [3, 17])
        new = X[[3]] + 0.1
        there = np.vstack([X[stay], new])
        other.learn(given(kernel, new, there), Y[[17]], sample_weight=[0.7])
        assert squaresvm.verify(other).ok
        more = there, np.vstack([Y[stay], Y[[17]]]), np.append(weights[stay], 0.7)
        assert_each_alone(other.flush(), kernel, *more)
        assert other.ids_.tolist() == [*stay.tolist(), len(X)]
    assert_each_alone(model.refit(), kernel, *more)


def test_the_file_says_what_is_verified(tmp_path):
    X, Y, weights = rows()
    squaresvm.save(fitted("rbf", X, Y, weights), tmp_path / "m")
    verdict = squaresvm.verify(tmp_path / "m")
    assert verdict.ok
    assert verdict.rows == len(X)
    assert len(verdict.parts) == np.unique(squaresvm.load(tmp_path / "m").C_).size
    assert not any("without a certificate" in note for note in verdict.notes)


@pytest.mark.parametrize("cv", [None, 4])
def test_each_target_has_its_best_C_and_all_the_gamma_of_the_best_mean(cv):
    X, Y, _ = rows()
    gammas, folds = [0.02, 0.5], None if cv is None else KFold(cv)
    model = fitted("rbf", X, Y, None, gammas=gammas, cv=folds)
    best = {}
    for gamma in gammas:
        scores = np.empty((len(CS), 3))
        for i, C in enumerate(CS):
            alone = LSSVR(C=C, gamma=gamma).fit(X, Y)
            values = alone.loo_predict() if cv is None else alone.cross_predict(folds)
            scores[i] = [r2_score(Y[:, j], values[:, j]) for j in range(3)]
        best[gamma] = scores.max(axis=0), np.array(CS)[scores.argmax(axis=0)]
    gamma = max(gammas, key=lambda gamma: best[gamma][0].mean())
    assert model.best_params_["gamma"] == gamma
    assert model.C_.tolist() == best[gamma][1].tolist()
    np.testing.assert_allclose(model.best_score_, best[gamma][0], rtol=1e-8)
    assert "target2_test_score" in model.cv_results_
    assert model.honest_score_ <= model.best_score_.mean() + 0.05


def test_influence_and_onnx():
    X, Y, weights = rows()
    model = fitted("rbf", X, Y, weights)
    less = copy.copy(model)
    less.forget([8])
    change = less.score(PROBES, Y[: len(PROBES)]) - model.score(PROBES, Y[: len(PROBES)])
    assert model.influence(PROBES, Y[: len(PROBES)])[8] == pytest.approx(change, abs=1e-8)
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(squaresvm.to_onnx(model).SerializeToString())
    np.testing.assert_allclose(session.run(None, {"X": PROBES})[0], model.predict(PROBES), atol=1e-9)


def test_one_target_has_one_C():
    X, Y, _ = rows()
    flat = LSSVRCV(kernel="linear", Cs=CS, C_per_target=True).fit(X, Y[:, 1])
    column = LSSVRCV(kernel="linear", Cs=CS, C_per_target=True).fit(X, Y[:, [1]])
    assert column.C_.tolist() == [flat.C_]
    np.testing.assert_allclose(column.predict(X)[:, 0], flat.predict(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C_per_target": "yes"}, "C_per_target must be"),
        ({"scoring": "evidence"}, "evidence' is for all targets together"),
        ({"refine": 1}, "refine goes on from one best cell"),
        ({"robust": 1}, "robust weights are for all targets together"),
    ],
)
def test_bad_parameters(parameters, message):
    X, Y, _ = rows()
    with pytest.raises(ValueError, match=message):
        LSSVRCV(**{"C_per_target": True, **parameters}).fit(X, Y)


def test_bad_input_changes_nothing():
    X, Y, weights = rows()
    model = fitted("rbf", X, Y, weights)
    before, wrong = model.predict(X), Y.copy()
    wrong[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"y\[3, 1\] is nan"):
        model.learn(X, wrong)
    with pytest.raises(ValueError, match="fitted on 3 targets a row"):
        model.learn(X, Y[:, :2])
    with pytest.raises(KeyError, match="99"):
        model.forget([1, 99])
    assert model.predict(X).tobytes() == before.tobytes()


def test_files_whose_values_of_C_do_not_fit(tmp_path):
    from squaresvm.files import container

    X, Y, weights = rows()
    squaresvm.save(fitted("rbf", X, Y, weights), tmp_path / "m")
    header, arrays, _ = container.read(tmp_path / "m")
    for name, wrong in (("short", [1.0]), ("other", [0.5, 0.5, 0.5])):
        container.write(tmp_path / name, {**header, "Cs": wrong}, arrays)
        with pytest.raises(ValueError, match="other values of C"):
            squaresvm.load(tmp_path / name)
