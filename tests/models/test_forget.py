"""Learning and forgetting is exact: after any history the model is the one that saw nothing but its rows."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import squaresvm.rows
from squaresvm import LSSVC, LSSVR, RLSSVC, ProximalSVC
from support import histories
from support.histories import ESTIMATORS, KERNELS, PLAIN, PROBES, History, combinations, data, values

every_combination = pytest.mark.parametrize(("name", "kernel", "kind"), list(combinations()))
every_class = pytest.mark.parametrize("name", PLAIN)


def begin(name, kernel, kind=None, m=22, seed=0, weights=True, **parameters):
    """Return a history that has just been fitted."""
    kind = kind or ("regression" if histories.is_regression(name) else "binary")
    X, y = data(kind, m, seed)
    given = histories.weights_with_zeros(m, seed) if weights else None
    return History(histories.estimator(name, kernel, **parameters), kernel, X, y, given)


def pick(history, rng, count):
    """Return ids that may leave together without a class leaving too."""
    while True:
        ids = rng.choice(history.ids, size=count, replace=False).tolist()
        if history.may_forget(ids):
            return ids


@every_combination
class TestAsIfNeverSeen:
    def test_forget_and_learn(self, name, kernel, kind):
        """One by one, in batches, with weights, some of them zero."""
        history = begin(name, kernel, kind)
        rng = np.random.default_rng(1)
        fitted = {"gamma": getattr(history.model, "gamma_", None), "C": history.model.C_}
        for step, count in enumerate([1, 3, 2, 1]):
            if step in (1, 3):
                X, y = data(kind, count, seed=10 + step)
                history.learn(X, y, rng.uniform(0.5, 2.0, count))
            else:
                receipt = history.forget(pick(history, rng, count))
                assert receipt.residual <= 1e-10
            history.assert_as_if_never_seen()
        assert fitted == {"gamma": getattr(history.model, "gamma_", None), "C": history.model.C_}

    def test_learn_then_forget_is_the_identity(self, name, kernel, kind):
        history = begin(name, kernel, kind, m=16)
        rows, before = history.at(PROBES), values(history.model, history.at(PROBES))
        X, y = data(kind, 5, seed=3)
        history.learn(X, y, np.array([1.0, 0.0, 0.5, 2.0, 1.0]))
        learned = values(history.model, history.at(PROBES))
        history.forget(history.ids[-5:])
        np.testing.assert_allclose(values(history.model, rows), before, rtol=0, atol=1e-8)
        assert np.abs(learned - before).max() > 1e-4  # The rows did matter.


@every_class
class TestOrder:
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "linear-wide", "precomputed"])
    def test_any_order_of_learning_is_the_batch_fit(self, name, kernel):
        kind = "regression" if name == "LSSVR" else "multi"
        X, y = data(kind, 30, seed=4)
        weights = np.random.default_rng(5).uniform(0.5, 2.0, 30)
        whole = History(histories.estimator(name, kernel, gamma=0.2), kernel, X, y, weights)
        rng = np.random.default_rng(6)
        for cuts in ([14, 15, 16, 30], [14, 20, 21, 22, 28, 30], [29, 30]):
            order = rng.permutation(30)
            first = order[: cuts[0]]
            model = histories.estimator(name, kernel, gamma=0.2)
            part = History(model, kernel, X[first], y[first], weights[first])
            for start, stop in itertools.pairwise(cuts):
                new = order[start:stop]
                part.learn(X[new], y[new], weights[new])
            mine, batch = values(part.model, part.at(PROBES)), values(whole.model, whole.at(PROBES))
            np.testing.assert_allclose(mine, batch, rtol=0, atol=1e-8)

    def test_one_request_or_many(self, name):
        """A batch is what its rows are one by one, in any order."""
        histories_ = [begin(name, "rbf", m=30) for _ in range(3)]
        gone = [3, 4, 9, 17, 21, 22]
        histories_[0].forget(gone)
        for history, order in zip(histories_[1:], (gone, gone[::-1]), strict=True):
            for i in order:
                history.forget([i])
        first, *others = [values(h.model, PROBES) for h in histories_]
        for other in others:
            np.testing.assert_allclose(other, first, rtol=0, atol=1e-8)


@every_class
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
class TestLargeBatches:
    """More rows than corrections may wait for: the factor is made anew."""

    def test_forget(self, name, kernel):
        history = begin(name, kernel, m=150)
        receipt = history.forget(history.ids[10:110])
        assert receipt.remaining == 50
        assert not receipt.sampled
        history.assert_as_if_never_seen()
        history.forget([history.ids[0]])
        history.assert_as_if_never_seen()

    def test_learn(self, name, kernel):
        history = begin(name, kernel, m=30)
        kind = "regression" if name == "LSSVR" else "binary"
        X, y = data(kind, 90, seed=8)
        history.learn(X, y)
        history.assert_as_if_never_seen()
        history.forget([2, 40, 100])
        history.assert_as_if_never_seen()


@every_class
@pytest.mark.parametrize("kernel", ["rbf", "linear", "linear-wide", "precomputed"])
class TestInAnyMix:
    """Requests between pickling, copying, repairing, predicting, leaving out."""

    @pytest.mark.parametrize("between", ["pickle", "deepcopy", "flush", "loo", "attributes"])
    def test_forgets_and_learns_on(self, name, kernel, between):
        history = begin(name, kernel, m=24)
        rng = np.random.default_rng(2)
        for step in range(3):
            history.forget(pick(history, rng, 1 + step))
            before = values(history.model, history.at(PROBES))
            self._do(history, between)
            np.testing.assert_allclose(values(history.model, history.at(PROBES)), before, rtol=0, atol=1e-12)
            X, y = data("regression" if name == "LSSVR" else "binary", 1, seed=step)
            history.learn(X, y)
            history.assert_as_if_never_seen()

    @staticmethod
    def _do(history, between):
        if between == "pickle":
            history.model = pickle.loads(pickle.dumps(history.model))
        elif between == "deepcopy":
            history.model = copy.deepcopy(history.model)
        elif between == "flush":
            assert history.model.flush() is history.model
        elif between == "loo" and history.kernel != "precomputed":  # Its zero weights have no value.
            assert np.isfinite(histories.loo_values(history.model)).all()
        else:
            assert history.model.dual_coef_.shape[1] == len(history.model.support_)
            assert history.model.certificate_.residual <= 1e-10


@st.composite
def histories_of_requests(draw):
    """Return a fitted history with ties, duplicates and odd parameters, and requests to come."""
    name = draw(st.sampled_from([*ESTIMATORS]))
    kernel = draw(
        st.sampled_from([k for k in KERNELS if name != "LagrangianSVC-augment" or k != "precomputed"])
    )
    kind = "regression" if histories.is_regression(name) else draw(st.sampled_from(["binary", "multi"]))
    parameters = {
        "C": draw(st.sampled_from([0.05, 1.0, 30.0])),
        "gamma": draw(st.sampled_from(["scale", 0.3])),
    }
    if name != "LagrangianSVC-augment":
        parameters["fit_intercept"] = draw(st.booleans())
    m, seed = draw(st.integers(8, 20)), draw(st.integers(0, 10**6))
    X, y = _rounded(kind, m, seed)
    weights = np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=m, max_size=m)))
    weights[: 3 if kind == "multi" else 2] = 1.0
    own = draw(st.booleans())
    ids = [f"row {i}" if i % 2 else (i, "row") for i in range(m)] if own else None
    model = histories.estimator(name, kernel, **parameters)
    requests = draw(st.lists(st.sampled_from(["forget", "learn", "flush", "pickle", "predict"]), max_size=9))
    return History(model, kernel, X, y, weights, ids), kind, requests, seed


def _rounded(kind, m, seed):
    """Return rows with many ties; the first of them have one label each."""
    X, y = data(kind, m, seed)
    X = np.round(X)
    if kind != "regression":
        first = ["no", "yes"] if kind == "binary" else ["low", "mid", "high"]
        y[: len(first)] = first
    return X, y


@given(histories_of_requests())
def test_any_history_equals_a_fresh_fit(drawn):
    history, kind, requests, seed = drawn
    rng = np.random.default_rng(seed)
    for step, request in enumerate(requests):
        if request == "forget":
            ids = [history.ids[i] for i in rng.permutation(len(history.ids))[: rng.integers(1, 4)]]
            if not history.may_forget(ids):
                continue
            assert history.forget(ids).remaining == len(history.ids)
        elif request == "learn":
            count = int(rng.integers(1, 4))
            X, y = _rounded(kind, count + 3, seed + step)
            ids = None if history.numbered else [("new", step, i) for i in range(count)]
            history.learn(X[:count], y[:count], rng.choice([0.0, 1.0, 2.0], count), ids)
        elif request == "flush":
            history.model.flush()
        elif request == "pickle":
            history.model = pickle.loads(pickle.dumps(history.model))
        else:
            history.model.predict(history.at(PROBES))
        history.assert_as_if_never_seen()


class TestLinear:
    @pytest.mark.parametrize("name", PLAIN)
    def test_wide_rows_that_become_many(self, name):
        """A linear model that began with more columns than rows holds K; pickled, it is made again."""
        X, y = data("regression" if name == "LSSVR" else "binary", 20, seed=0)
        if name != "LSSVR":
            y[:4] = ["yes", "no", "no", "yes"]
        history = History(histories.estimator(name, "linear"), "linear", X[:4], y[:4])
        history.learn(X[4:], y[4:])
        history.model = pickle.loads(pickle.dumps(history.model))
        history.forget([5])
        history.assert_as_if_never_seen()
        history.learn(X[:1], y[:1])
        history.assert_as_if_never_seen()

    @pytest.mark.parametrize("name", PLAIN)
    def test_many_rows_that_become_few(self, name):
        history = begin(name, "linear", m=20, weights=False)
        rng = np.random.default_rng(0)
        while len(history.ids) > 3:
            history.forget(pick(history, rng, 1))
            history.assert_as_if_never_seen()

    @pytest.mark.parametrize(("size", "weight"), [(1e3, 1.0), (1e6, 1.0), (1.0, 1e8), (1.0, 1e13)])
    @pytest.mark.parametrize("name", ["LSSVC", "RelaxedLSSVC", "ProximalSVC", "LSSVR"])
    def test_a_row_that_outweighs_all_others(self, name, size, weight):
        """Sums that one row dominated hold few digits of the others once it is subtracted."""
        X, y = data("regression" if name == "LSSVR" else "binary", 40, seed=0)
        X[7] *= size
        weights = np.ones(40)
        weights[7] = weight
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # The fit with the row may be a rough one.
            history = History(histories.estimator(name, "linear", tol=1e-6), "linear", X, y, weights)
        receipt = history.forget([7])
        assert receipt.residual <= 1e-6
        assert history.model.certificate_.residual <= 1e-6
        assert history.error() <= 1e-8

    def test_all_but_a_few_of_many_rows(self):
        X, y = data("regression", 3000, seed=0)
        history = History(LSSVR(kernel="linear"), "linear", X + 100.0, y)
        history.forget(list(range(2990)))
        assert history.error() <= 1e-8


@pytest.mark.parametrize("kernel", ["rbf", "linear", "rbf-sparse", "linear-sparse", "linear-wide"])
@pytest.mark.parametrize("name", PLAIN)
def test_rows_too_large_to_copy(name, kernel, monkeypatch):
    """Large rows are struck out, not copied; that must not show."""
    monkeypatch.setattr(squaresvm.rows, "LARGE_BYTES", 100)
    history = begin(name, kernel)
    rng = np.random.default_rng(0)
    for step in range(7):
        history.forget(pick(history, rng, 1))
        if step == 3:
            history.model.flush()
        history.assert_as_if_never_seen()
    X, y = data("regression" if name == "LSSVR" else "binary", 2, seed=1)
    history.forget(pick(history, rng, 1))
    history.learn(X, y)
    history.forget(pick(history, rng, 2))
    history.assert_as_if_never_seen()


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("name", PLAIN)
class TestCopies:
    def test_a_shallow_copy_goes_its_own_way(self, name, kernel):
        """Neither may write into what the other computes with."""
        history = begin(name, kernel)
        other = begin(name, kernel)
        other.model = copy.copy(history.model)
        rng = np.random.default_rng(0)
        for _ in range(6):
            history.forget(pick(history, rng, 1))
            other.forget(pick(other, rng, 1))
        history.assert_as_if_never_seen()
        other.assert_as_if_never_seen()

    def test_a_deep_copy_goes_its_own_way(self, name, kernel):
        history = begin(name, kernel)
        before = values(history.model, PROBES)
        other = copy.deepcopy(history.model)
        other.forget([0, 1])
        np.testing.assert_array_equal(values(history.model, PROBES), before)
        history.assert_as_if_never_seen()


class TestNumbersOfTheFit:
    @pytest.mark.parametrize("name", ["LSSVC-balanced", "RLSSVC-balanced", "ProximalSVC-balanced"])
    def test_set_params_does_not_reach_into_requests(self, name):
        history = begin(name, "rbf")
        numbers = (history.model.C_, history.model.gamma_, history.model.class_weight_.tolist())
        reference = copy.deepcopy(history.model)
        history.model.set_params(C=77.0, gamma=9.0, class_weight=None, kernel="linear", fit_intercept=False)
        for model in (history.model, reference):
            model.forget([1, 2])
            model.learn(PROBES[:2], ["yes", "no"])
        np.testing.assert_array_equal(values(history.model, PROBES), values(reference, PROBES))
        assert numbers == (history.model.C_, history.model.gamma_, history.model.class_weight_.tolist())

    @pytest.mark.parametrize("name", PLAIN)
    def test_refit_resolves_them_anew(self, name):
        history = begin(name, "rbf")
        gamma = history.model.gamma_
        history.forget(history.ids[:6])
        assert history.model.gamma_ == gamma
        assert history.model.refit() is history.model
        new = histories.estimator(name, "rbf").fit(history.X, history.y, sample_weight=history.weights)
        assert history.model.gamma_ == new.gamma_ != gamma
        np.testing.assert_allclose(values(history.model, PROBES), values(new, PROBES), rtol=0, atol=1e-9)
        assert history.model.ids_.tolist() == history.ids
        history.forget(history.ids[:1])
        history.assert_as_if_never_seen()

    def test_refit_resolves_class_weights_anew(self):
        history = begin("LSSVC-balanced", "rbf", weights=False)
        before = history.model.class_weight_
        yes = [i for i in history.ids if history.y[i] == "yes"]
        history.forget(yes[:4])
        np.testing.assert_array_equal(history.model.class_weight_, before)
        after = history.model.refit().class_weight_
        counts = np.array([np.sum(history.y == label) for label in ("no", "yes")])
        np.testing.assert_allclose(after, counts.sum() / (2 * counts))

    @pytest.mark.parametrize("cls", [LSSVC, RLSSVC, ProximalSVC])
    def test_refit_of_a_precomputed_kernel(self, cls):
        X, y = data("binary", 20, seed=0)
        history = History(cls(kernel="precomputed", tol=1e-10), "precomputed", X, y)
        history.forget([3, 4])
        history.model.set_params(C=9.0).refit()
        assert history.model.C_ == 9.0
        history.assert_as_if_never_seen()
        history.forget([5])
        history.assert_as_if_never_seen()


@pytest.mark.parametrize("name", PLAIN)
def test_dense_and_sparse_rows_mix(name):
    """New rows may come dense to sparse ones and sparse to dense ones."""
    X, y = data("regression" if name == "LSSVR" else "binary", 20, seed=0)
    for held, new in ((sp.csr_matrix, np.asarray), (np.asarray, sp.csr_matrix)):
        model = histories.estimator(name, "rbf", gamma=0.2).fit(held(X[:15]), y[:15])
        model.learn(new(X[15:]), y[15:])
        model.forget([3])
        rest = np.delete(np.arange(20), 3)
        expected = histories.estimator(name, "rbf", gamma=0.2).fit(X[rest], y[rest])
        np.testing.assert_allclose(values(model, PROBES), values(expected, PROBES), rtol=0, atol=1e-8)
