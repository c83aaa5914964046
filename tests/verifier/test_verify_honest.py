"""No false alarm: whatever happens to a model honestly, the verifier finds its claims true."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import squaresvm
from squaresvm import LSSVC, LSSVCCV, LSSVR, LSSVRCV, RLSSVC, LagrangianSVC, Nystrom, OneVsOne, Window
from squaresvm.models.model import Known
from squaresvm.streaming import ArraySource, MappedSource
from support import problems, random_histories, round_trips
from support.histories import ESTIMATORS


def rows(m=40, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 4))
    score = X[:, 0] + 0.5 * rng.normal(size=m)
    return X, np.digitize(score, [0.0] if classes == 2 else [-0.4, 0.5])


def all_true(model, data=None):
    verdict = squaresvm.verify(model, data)
    assert verdict.ok, str(verdict)
    assert verdict.agrees
    return verdict


@pytest.mark.parametrize("seed", range(40))
def test_histories_of_requests_raise_no_alarm(seed, monkeypatch):
    """Fits, requests, copies, pickles and files of random models, of all sizes of C and of rows."""
    verdicts = []

    def judge(self, subject, receipt, fresh):
        verdict = squaresvm.verify(subject.model)
        verdicts.append(verdict)
        return " ".join(verdict.faults)

    monkeypatch.setattr(random_histories._History, "_judge", judge)
    outcome = random_histories.run(seed, steps=7)
    assert [str(failure) for failure in outcome.failures] == []
    assert verdicts or outcome.refused


@pytest.mark.parametrize("size", [1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_no_bias_and_almost_no_weights(name, size):
    """With w next to zero y - f is rounded by what y has, which no bias hides."""
    cls, options = ESTIMATORS[name]
    options = {each: value for each, value in options.items() if each not in ("A", "augment")}
    for seed in range(20):
        X, y = rows(30, seed=seed)
        own = {**options, "kernel": "linear", "fit_intercept": False, "C": 0.05}
        model = cls(**own).fit(size * X, y.astype(float) if cls is LSSVR else y)
        all_true(model)
        model.forget([3, 5])
        all_true(model)


@pytest.mark.parametrize("name", list(ESTIMATORS))
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_requests_and_round_trips(name, kernel, tmp_path):
    cls, options = ESTIMATORS[name]
    X, y = rows()
    y = y.astype(float) if cls is LSSVR else y
    model = cls(kernel=kernel, **options).fit(X[:30], y[:30])
    all_true(model)
    model.learn(X[30:], y[30:])
    all_true(model)
    model.forget([3, 17, 31])
    all_true(model)
    model.refit()
    assert all_true(model).rows == 37
    again = round_trips.again(model, tmp_path)
    assert all_true(again).claimed == all_true(model).claimed
    all_true(round_trips.again(again, tmp_path))
    all_true(pickle.loads(pickle.dumps(again)))
    all_true(pickle.loads(pickle.dumps(model)))
    all_true(copy.deepcopy(model))
    again.forget([5])
    all_true(again)


def test_searches_windows_pairs_pipelines_and_pruned_models(tmp_path):
    X, y = rows(60, classes=3)
    all_true(LSSVCCV(Cs=[0.1, 1.0], gammas=[0.1, 1.0]).fit(X, y))
    all_true(LSSVRCV(Cs=[0.1, 1.0], kernel="linear").fit(X, X[:, 1]))
    pairs = OneVsOne(RLSSVC(C=3.0)).fit(X, y)
    verdict = all_true(pairs)
    assert len(verdict.parts) == 3
    assert verdict.residual == max(part.residual for part in verdict.parts)
    assert verdict.rows == 2 * 60
    all_true(round_trips.again(pairs, tmp_path))
    window = Window(LSSVC(), size=30).fit(X, y)
    window.learn(X[:5], y[:5])
    assert all_true(window).rows == 30
    all_true(round_trips.again(window, tmp_path))
    all_true(LSSVC(robust=2).fit(X, y))
    all_true(squaresvm.prune(LSSVC().fit(X, y > 0), 30).model)
    all_true(make_pipeline(StandardScaler(), LagrangianSVC()).fit(X, y))
    all_true(make_pipeline(Nystrom(20, random_state=0), LSSVC(kernel="linear")).fit(X, y))
    all_true(GridSearchCV(LSSVC(), {"C": [0.1, 1.0]}, cv=3).fit(X, y))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "precomputed", problems.cauchy])
@pytest.mark.parametrize("cls", [LSSVC, RLSSVC])
def test_solvers_that_stop_early_say_how_early(kernel, cls):
    """A residual far from zero is as true as any, where it is the one that is claimed."""
    X, y = rows(30)
    given = problems.cauchy(X, X) if kernel == "precomputed" else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cls(kernel=kernel, C=50.0, tol=1e-2).fit(given, y)
    all_true(model)


def test_float32_and_sparse_rows():
    X, y = rows(50)
    for kernel in ("linear", "rbf"):
        all_true(RLSSVC(kernel=kernel).fit(X.astype(np.float32), y))
        all_true(LSSVC(kernel=kernel).fit(sp.csr_matrix(np.where(X > 0.5, X, 0.0)), y))


@pytest.mark.parametrize("cls", [LSSVC, RLSSVC, LagrangianSVC])
def test_streams(cls, tmp_path):
    X, y = rows(200, classes=3)
    source = ArraySource(X, y, block_rows=64)
    model = cls(kernel="linear").fit(source)
    assert all_true(model, source).rows == 200
    all_true(round_trips.again(model, tmp_path), (X, y))
    mapped = MappedSource(source, Nystrom(10, random_state=0).fit(X))
    all_true(cls(kernel="linear").fit(mapped), mapped)


def test_streams_that_learn_and_forget():
    X, y = rows(300)
    model = LSSVC(kernel="linear").fit(ArraySource(X[:200], y[:200]))
    model.learn(X[200:], y[200:])
    assert squaresvm.verify(model, (X, y)).ok
    model.forget_rows(X[:50], y[:50])
    verdict = squaresvm.verify(model, (X[50:], y[50:]))
    assert verdict.ok, str(verdict)
    assert verdict.residual < verdict.claimed.residual


def test_a_file_without_a_certificate_is_of_an_earlier_version(tmp_path):
    from support.forged import opened, sealed

    X, y = rows()
    path = tmp_path / "a.model"
    squaresvm.save(LSSVC().fit(X, y), path)
    header, body = opened(path.read_bytes())
    assert header.pop("certificate")["status"] == "converged"
    assert not all_true(path).notes
    path.write_bytes(sealed(header, body))
    assert "has no stored certificate" in all_true(path).notes[0]


def test_rows_that_are_shown_are_those_held(tmp_path):
    X, y = rows()
    order = np.random.default_rng(0).permutation(40)
    for model in (LSSVC(), OneVsOne(LSSVC())):
        model.fit(X, y)
        all_true(model, (X[order], y[order]))
        model.forget([7])
        faults = squaresvm.verify(model, (X, y)).faults
        assert faults == ("1 row is in the data that the model does not hold: 7",)
        kept = np.delete(np.arange(40), [7, 9])
        faults = squaresvm.verify(model, (X[kept], y[kept])).faults
        assert faults == ("1 row is held that the data has not: ids 9",)


@pytest.mark.parametrize("size", [1e-2, 1e-5])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("name", ["LSSVC", "LSSVC-no-bias", "RelaxedLSSVC", "RLSSVC", "LagrangianSVC"])
def test_decision_values_are_within_the_bound(name, kernel, size):
    """Models beside the optimum are no farther from it at the rows than the verifier says."""
    cls, options = ESTIMATORS[name]
    X, y = rows(60)
    rng = np.random.default_rng(0)
    exact = cls(kernel=kernel, **{**options, "tol": 1e-11}).fit(X, y)
    best, state, bounds = exact.decision_function(X), exact._state, 0
    for _ in range(5):
        solution = state.solution
        changes = {
            part: values * (1.0 + size * rng.normal(size=values.shape))
            for part in ("beta", "primal", "bias")
            if (values := getattr(solution, part)) is not None
        }
        exact._state = replace(state, solution=replace(solution, factor=None, **changes), known=Known())
        verdict = squaresvm.verify(exact)
        if verdict.decision_error is not None:
            bounds += 1
            assert np.abs(exact.decision_function(X) - best).max() <= verdict.decision_error
    assert bounds or size > 1e-3
