"""Models that travelled, by every way there is, beside those that stayed: the same answers and proofs.

Serialisers differ in what they return: skops gives members of an enumeration back as plain strings, which a
comparison by identity takes for another loss.
"""

from __future__ import annotations

import copy
import io
import pickle
from functools import cache, partial
from typing import NamedTuple

import cloudpickle
import joblib
import numpy as np
import pytest
import skops.io
from sklearn.base import clone, is_regressor
from sklearn.metrics.pairwise import rbf_kernel

import squaresvm
from squaresvm import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    RLSSVC,
    LagrangianSVC,
    Nystrom,
    OneVsOne,
    ProximalSVC,
    RelaxedLSSVC,
    Status,
    Window,
)
from squaresvm.family import Loss
from squaresvm.solution import Outcome
from squaresvm.solvers import ActiveSet
from squaresvm.streaming import ArraySource

TOL = 1e-9
#: How far decision values of two solutions within TOL may be apart in these problems.
NEAR = 1e-6


def through_joblib(model, folder):
    held = io.BytesIO()
    joblib.dump(model, held)
    held.seek(0)
    return joblib.load(held)


def through_skops(model, folder):
    held = skops.io.dumps(model)
    return skops.io.loads(held, trusted=skops.io.get_untrusted_types(data=held))


def through_clone(model, folder):
    other = clone(model)
    other.__setstate__(model.__getstate__())
    return copy.deepcopy(other)


def through_file(model, folder):
    squaresvm.save(model, folder / "a.model")
    return squaresvm.load(folder / "a.model")


def through_file_with_factor(model, folder):
    squaresvm.save(model, folder / "a.model", factor=True)
    return squaresvm.load(folder / "a.model")


WAYS = {
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
    "pickle, protocol 2": lambda model, folder: pickle.loads(pickle.dumps(model, protocol=2)),
    "cloudpickle": lambda model, folder: pickle.loads(cloudpickle.dumps(model)),
    "joblib": through_joblib,
    "skops": through_skops,
    "copy": lambda model, folder: copy.copy(model),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
    "clone and state": through_clone,
    "file": through_file,
    "file with factor": through_file_with_factor,
}


class Data(NamedTuple):
    """Rows to fit, rows to learn, rows to ask for."""

    first: np.ndarray
    y_first: np.ndarray
    more: np.ndarray
    y_more: np.ndarray
    asked: np.ndarray


def data_for(model):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(33, 3))
    score = X[:, 0] - 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=33)
    edges = [-0.8, 0.2] if isinstance(model, LSSVC | OneVsOne) else [-0.3]
    y = score if is_regressor(model) else np.digitize(score, edges)
    return Data(X[:24], y[:24], X[24:28], y[24:28], X[28:])


def decisions(model, X):
    return model.predict(X) if is_regressor(model) else model.decision_function(X)


def is_precomputed(model):
    return getattr(model, "kernel", None) == "precomputed"


def kernel_of(model, A, B):
    return rbf_kernel(A, B, gamma=0.5) if is_precomputed(model) else A


MODELS = {
    f"{cls.__name__}, {kernel}": cls(kernel=kernel, gamma=0.7, tol=TOL)
    for cls in (LSSVC, LSSVR, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC)
    for kernel in ("linear", "rbf", "precomputed")
}
MODELS |= {
    "LSSVCCV": LSSVCCV(Cs=(0.1, 1.0), gammas=(0.7,), tol=TOL),
    "LSSVRCV": LSSVRCV(Cs=(0.1, 1.0), kernel="linear", tol=TOL),
    "OneVsOne, linear": OneVsOne(LagrangianSVC(kernel="linear", tol=TOL)),
    "OneVsOne, rbf": OneVsOne(LSSVC(gamma=0.7, tol=TOL)),
    "a solver with options": LagrangianSVC(gamma=0.7, solver=ActiveSet(), tol=TOL),
    "weights": LSSVC(gamma=0.7, class_weight={0: 2.0, 1: 1.0, 2: 0.5}, tol=TOL),
    "robust": LSSVR(gamma=0.7, robust=2, tol=TOL),
}
#: skops writes dictionaries as JSON, which has no place for pairs as keys: it refuses, and says so.
NO_WAY = {("OneVsOne, linear", "skops"), ("OneVsOne, rbf", "skops")}
#: What a fresh fit would resolve anew from other rows.
RESOLVED_AT_FIT = ("LSSVCCV", "LSSVRCV", "robust")


def lives(model, way):
    """Yield the model after fit, learn and forget, with its rows; before each request it travels."""
    data = data_for(model)
    model = way(clone(model).fit(kernel_of(model, data.first, data.first), data.y_first))
    yield model, data.first, data.y_first
    X, y = np.vstack((data.first, data.more)), np.concatenate((data.y_first, data.y_more))
    model = way(model.learn(kernel_of(model, data.more, X), data.y_more))
    yield model, X, y
    assert model.forget([4, 25]).residual <= TOL
    yield model, np.delete(X, [4, 25], 0), np.delete(y, [4, 25])


def certificates(model):
    if isinstance(model, OneVsOne):
        return [pair.certificate_ for pair in model.estimators_]
    return [model.certificate_]


class Answers(NamedTuple):
    """What a model says of new rows, and what it proves."""

    decisions: np.ndarray
    labels: np.ndarray
    certificates: list


def answers(model, X):
    new = kernel_of(model, data_for(model).asked, X)
    return Answers(decisions(model, new), model.predict(new), certificates(model))


@cache
def stayed(name):
    """Return the answers after fit, learn and forget of a model that did not travel, beside fresh fits."""
    found = [answers(model, X) for model, X, _ in lives(MODELS[name], lambda model: model)]
    if name in RESOLVED_AT_FIT:
        return [(here, here) for here in found]
    rows = [(X, y) for _, X, y in lives(MODELS[name], lambda model: model)]
    fresh = [answers(clone(MODELS[name]).fit(kernel_of(MODELS[name], X, X), y), X) for X, y in rows]
    return list(zip(found, fresh, strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_travelled_models_learn_forget_and_prove_as_those_that_stayed(name, way, tmp_path):
    if (name, way) in NO_WAY:
        with pytest.raises(TypeError, match="keys must be"):
            list(lives(MODELS[name], partial(WAYS[way], folder=tmp_path)))
        return
    travelled = lives(MODELS[name], partial(WAYS[way], folder=tmp_path))
    for (there, X, _), (here, fresh) in zip(travelled, stayed(name), strict=True):
        found = answers(there, X)
        for other in (here, fresh):
            np.testing.assert_allclose(found.decisions, other.decisions, rtol=0.0, atol=NEAR)
            if not is_regressor(there):
                np.testing.assert_array_equal(found.labels, other.labels)
            for mine, theirs in zip(found.certificates, other.certificates, strict=True):
                assert mine.residual <= TOL
                assert mine.status is Status.CONVERGED
                if found.decisions.ndim == 1:  # Of several columns it is that of the worst.
                    assert mine.objective == pytest.approx(theirs.objective, rel=1e-6)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cls", [LSSVR, LSSVC, LagrangianSVC])
def test_travelled_streams(cls, way, tmp_path):
    model = cls(kernel="linear", tol=TOL)
    X, y, more, y_more, asked = data_for(model)
    here = clone(model).fit(ArraySource(X, y))
    there = WAYS[way](clone(model).fit(ArraySource(X, y)), tmp_path)
    assert str(there.certificate_) == str(here.certificate_)
    np.testing.assert_array_equal(decisions(there, asked), decisions(here, asked))
    if cls is LagrangianSVC:
        with pytest.raises(ValueError, match="sums"):
            there.learn(more, y_more)
        return
    for one in (here, there):
        one.learn(more, y_more)
        one.forget_rows(X[:1], y[:1])
    np.testing.assert_allclose(decisions(there, asked), decisions(here, asked), rtol=0.0, atol=NEAR)
    assert there.certificate_.status is Status.CONVERGED


@pytest.mark.parametrize("way", WAYS)
def test_travelled_windows(way, tmp_path):
    X, y, more, y_more, asked = data_for(LagrangianSVC())
    here = Window(LagrangianSVC(kernel="linear", tol=TOL), 20).fit(X, y)
    there = WAYS[way](Window(LagrangianSVC(kernel="linear", tol=TOL), 20).fit(X, y), tmp_path)
    for one in (here, there):
        one.learn(more, y_more)
        one.forget([10])
    np.testing.assert_allclose(
        there.decision_function(asked), here.decision_function(asked), rtol=0.0, atol=NEAR
    )
    assert there.certificate_.residual <= TOL


@pytest.mark.parametrize("way", WAYS)
def test_travelled_landmarks(way, tmp_path):
    X, *_, asked = data_for(LSSVC())
    here = Nystrom(6, random_state=0).fit(X)
    np.testing.assert_array_equal(WAYS[way](here, tmp_path).transform(asked), here.transform(asked))


def test_enumerations_are_themselves_again_after_skops(tmp_path):
    X, y, *_ = data_for(LagrangianSVC())
    there = through_skops(LagrangianSVC(kernel="linear").fit(X, y), tmp_path)
    assert there._state.settings.loss is Loss.SQUARED_HINGE
    assert there._state.solution.outcome is Outcome.FINISHED
    streamed = through_skops(LagrangianSVC(kernel="linear").fit(ArraySource(X, y)), tmp_path)
    assert streamed.certificate_.status is Status.CONVERGED
    assert "within tol" in streamed.certificate_.status.advice


def test_forget_after_skops_is_a_fit_of_the_rest(tmp_path):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4)) * 10.0
    y = np.where(X[:, 0] + 8.0 * rng.normal(size=60) > 0.0, 1, -1)
    there = through_skops(LagrangianSVC(kernel="linear").fit(X, y), tmp_path)
    receipt = there.forget([4])
    fresh = LagrangianSVC(kernel="linear").fit(np.delete(X, 4, 0), np.delete(y, 4))
    assert receipt.residual <= 1e-6
    np.testing.assert_allclose(there.decision_function(X), fresh.decision_function(X), rtol=0.0, atol=1e-4)
