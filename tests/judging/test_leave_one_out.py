"""Leave-one-out values against as many fits as there are rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC
from squaresvm.judging.leave_one_out import leave_one_out
from support import histories, oracle
from support.histories import PLAIN, PROBES, History, combinations, data, loo_values, values

KERNELS = ["rbf", "linear", "linear-wide", "precomputed"]


def begin(name, kernel, kind=None, m=14, zeros=True, **parameters):
    kind = kind or ("regression" if histories.is_regression(name) else "binary")
    X, y = data(kind, m, seed=0)
    if kind != "regression":  # No class may vanish with one row.
        y[:6] = ["yes", "no"] * 3 if kind == "binary" else ["low", "mid", "high"] * 2
    weights = np.random.default_rng(1).uniform(0.5, 2.0, m)
    if zeros and kernel != "precomputed":  # Values of such rows are not kept there, so none can be given.
        weights[[7, 10]] = 0.0
    return History(histories.estimator(name, kernel, **parameters), kernel, X, y, weights)


def brute_force(history, places):
    """Return f at some rows held, each of a fit without it."""
    found = []
    for i in places:
        rest = np.delete(np.arange(len(history.ids)), i)
        model = history.fresh(rest)
        if history.kernel == "precomputed":
            X = histories.precomputed_kernel(history.X[[i]], history.X[rest])
        else:
            X = history.form(history.X[[i]])
        found.append(values(model, X)[0])
    return np.array(found)


def assert_exact(history, step=1, accuracy=1e-7):
    """Assert that the values are those of as many fits; of every `step`th row, and of the newest."""
    count = len(history.ids)
    places = sorted({*range(0, count, step), count - 1})
    found = loo_values(history.model)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[places], brute_force(history, places), rtol=0, atol=accuracy)


CASES = [case for case in combinations() if case[2] != "multi" or case[1] in KERNELS]


@pytest.mark.parametrize(("name", "kernel", "kind"), CASES)
def test_equals_brute_force(name, kernel, kind):
    """Weighted, with rows of weight zero, for two classes, three, and values."""
    history = begin(name, kernel, kind)
    before = values(history.model, history.at(PROBES))
    found = loo_values(history.model)
    assert found.shape == ((14, 3) if kind == "multi" else (14,))
    assert_exact(history, step=1 if kernel == "rbf" else 4)
    assert values(history.model, history.at(PROBES)).tobytes() == before.tobytes()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", PLAIN)
class TestAfterRequests:
    def test_that_wait_for_a_repair(self, name, kernel):
        history = begin(name, kernel)
        history.forget([8, 13])
        assert_exact(history, step=4)
        history.learn(PROBES[:2], history.y[:2])
        assert_exact(history, step=4)

    def test_and_a_repair_before_new_rows(self, name, kernel):
        """New rows take slots that a repair has emptied."""
        history = begin(name, kernel)
        history.forget([8, 13])
        history.model.flush()
        assert_exact(history, step=4)
        history.learn(PROBES[:1], history.y[:1])
        assert_exact(history, step=4)
        history.forget([9])
        assert_exact(history, step=4)

    def test_that_made_it_an_inverse(self, name, kernel):
        history = begin(name, kernel, m=20)
        for i in range(8, 14):
            history.forget([i])
        assert_exact(history, step=4)
        history.model.flush()
        history.learn(PROBES[:3], history.y[:3])
        assert_exact(history, step=4)

    def test_of_a_model_that_was_loaded(self, name, kernel):
        history = begin(name, kernel)
        history.forget([8])
        history.model = pickle.loads(pickle.dumps(history.model))
        assert_exact(history, step=4)
        history.forget([9])
        history.assert_as_if_never_seen()


@pytest.mark.parametrize("name", PLAIN)
def test_in_pieces(name, block_size):
    """Blocks of a few rows, as only large data has them."""
    assert_exact(begin(name, "rbf", m=17), step=3)
    assert_exact(begin(name, "linear", m=17), step=3)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("name", PLAIN)
def test_rows_of_weight_zero_have_their_decision_value(name, kernel):
    history = begin(name, kernel)
    found = loo_values(history.model)
    at_rows = values(history.model, history.form(history.X))
    np.testing.assert_allclose(found[[7, 10]], at_rows[[7, 10]], rtol=0, atol=1e-13)
    others = np.setdiff1d(np.arange(14), [7, 10])
    if not histories.is_hinge(name):
        assert np.abs(found[others] - at_rows[others]).min() > 1e-6


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("cls", [RLSSVC, LagrangianSVC])
class TestSquaredHinge:
    def problem(self, cls, kernel, C=5.0):
        X, y = data("binary", 40, seed=2)
        model = cls(kernel=kernel, C=C, tol=1e-10).fit(X, y)
        return X, y, model

    def test_exact_where_the_set_moves(self, cls, kernel):
        X, y, model = self.problem(cls, kernel)
        exact = model.loo_decision_function()
        fixed = model.loo_decision_function(fixed_set=True)
        stays, moves = [], []
        for i in range(40):
            rest = np.delete(np.arange(40), i)
            without = histories.resolved(model).fit(X[rest], y[rest])
            expected = without.decision_function(X[[i]])[0]
            assert exact[i] == pytest.approx(expected, abs=1e-7)
            kept = np.setdiff1d(model.support_, [i])
            same = np.array_equal(rest[without.support_], kept)
            (stays if same else moves).append(abs(fixed[i] - expected))
        assert len(moves) > 5
        assert max(moves) > 1e-4  # The fixed set is not exact there, so the warm re-solves were needed.
        assert len(stays) > 5
        assert max(stays) < 1e-7  # And is where the set stays.

    def test_rows_that_are_no_support_vectors_keep_their_value(self, cls, kernel):
        X, _, model = self.problem(cls, kernel)
        others = np.setdiff1d(np.arange(40), model.support_)
        assert others.size > 0
        for found in (
            model.loo_decision_function(),
            model.loo_decision_function(fixed_set=True),
        ):
            np.testing.assert_allclose(found[others], model.decision_function(X)[others], rtol=0, atol=1e-9)

    def test_shows_what_the_exact_values_cost(self, cls, kernel):
        _, _, model = self.problem(cls, kernel)
        model.loo_score(fixed_set=True)
        with pytest.raises(AttributeError, match="asked for"):
            _ = model.loo_cost_
        model.loo_score()
        assert model.loo_cost_.resolved == model.support_.size
        assert model.loo_cost_.steps >= model.loo_cost_.resolved
        assert model.loo_cost_.seconds >= 0.0
        model.forget([0])
        with pytest.raises(AttributeError, match="asked for"):
            _ = model.loo_cost_

    def test_exact_for_separable_rows(self, cls, kernel):
        """Few support vectors, and without one of them another set altogether."""
        X, _ = data("binary", 24, seed=0)
        y = np.where(X[:, 0] > 0, 1, -1)
        X[:, 0] += 0.5 * y
        model = cls(kernel=kernel, C=1e3, tol=1e-9).fit(X, y)
        found = model.loo_decision_function()
        for i in range(24):
            rest = np.delete(np.arange(24), i)
            expected = histories.resolved(model).fit(X[rest], y[rest]).decision_function(X[[i]])[0]
            assert found[i] == pytest.approx(expected, abs=1e-6)


class TestAgainstTheOracle:
    """In 50 digits, also where one row is all of its class, which no estimator would be fitted without."""

    @pytest.mark.parametrize("cls", [LSSVC, ProximalSVC, LagrangianSVC])
    def test_the_only_row_of_a_class(self, cls):
        X, _ = data("binary", 9, seed=0)
        y = np.where(np.arange(9) == 4, 1, -1)
        model = cls(gamma=0.3, tol=1e-10).fit(X, y)
        K = oracle.kernel_matrix("rbf", X, X, gamma=0.3)
        signs, costs, A = y.astype(float), np.ones(9), 0.0 if cls is LSSVC else 1.0
        if cls is ProximalSVC:
            expected = [self._without_landmark(K, signs, i) for i in range(9)]
        else:
            loss = oracle.HINGE if cls is LagrangianSVC else oracle.SQUARED
            expected = oracle.leave_one_out(K, signs, costs, loss, A)
        np.testing.assert_allclose(model.loo_decision_function(), expected, rtol=0, atol=1e-7)

    @staticmethod
    def _without_landmark(K, y, i):
        rest = np.delete(np.arange(len(y)), i)
        inner = K[np.ix_(rest, rest)]
        answer = oracle.solve(inner @ inner, y[rest], np.ones(len(rest)), oracle.SQUARED, 1.0)
        return K[i, rest] @ (inner @ answer.beta) + answer.bias

    def test_two_rows(self):
        """Without one of two rows the free bias is the other's value."""
        for kernel in ("rbf", "linear"):
            model = LSSVR(kernel=kernel).fit([[0.0], [1.0]], [3.0, 5.0])
            np.testing.assert_allclose(model.loo_predict(), [5.0, 3.0])
        model = LSSVC().fit([[0.0], [1.0]], ["a", "b"])
        np.testing.assert_allclose(model.loo_decision_function(), [1.0, -1.0])


class TestRefused:
    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    def test_one_row(self, kernel):
        model = LSSVR(kernel=kernel).fit([[1.0]], [2.0])
        with pytest.raises(ValueError, match="at least two rows"):
            model.loo_predict()
        with pytest.raises(ValueError, match="at least two rows"):
            model.loo_score()

    def test_one_row_of_weight(self):
        model = LSSVR().fit([[1.0], [2.0], [3.0]], [2.0, 3.0, 4.0], sample_weight=[0.0, 1.0, 0.0])
        with pytest.raises(ValueError, match="at least two rows"):
            model.loo_predict()

    def test_one_row_that_is_left(self):
        model = LSSVR().fit([[1.0], [2.0], [3.0]], [2.0, 3.0, 4.0])
        model.forget([0, 2])
        with pytest.raises(ValueError, match="at least two rows"):
            model.loo_predict()
        assert model.predict([[2.0]]) == pytest.approx(3.0)

    def test_before_fit(self):
        for method in ("loo_decision_function", "loo_score"):
            with pytest.raises(ValueError, match="not fitted"):
                getattr(LSSVC(), method)()


class TestScore:
    @pytest.mark.parametrize(
        ("name", "kind"), [("LSSVC", "binary"), ("ProximalSVC", "multi"), ("RLSSVC", "multi")]
    )
    def test_is_the_weighted_share_of_right_labels(self, name, kind):
        history = begin(name, "rbf", kind, m=30)
        found = loo_values(history.model)
        classes = history.model.classes_
        labels = classes[(found > 0).astype(int)] if kind == "binary" else classes[found.argmax(axis=1)]
        expected = accuracy_score(history.y, labels, sample_weight=history.weights)
        assert 0.0 < expected < 1.0
        assert history.model.loo_score() == pytest.approx(expected)

    def test_is_the_weighted_r2_of_a_regression(self):
        history = begin("LSSVR", "rbf", m=30)
        expected = r2_score(history.y, history.model.loo_predict(), sample_weight=history.weights)
        assert history.model.loo_score() == pytest.approx(expected)

    @pytest.mark.parametrize("name", ["LSSVC", "LSSVR"])
    def test_needs_no_values_of_rows_without_weight(self, name):
        """They have no share in it: with a precomputed kernel, too, it is that of the other rows."""
        X, y = data("regression" if name == "LSSVR" else "binary", 20, seed=0)
        weights = np.r_[np.ones(17), np.zeros(3)]
        K = histories.precomputed_kernel(X, X)
        cls = LSSVR if name == "LSSVR" else LSSVC
        model = cls(kernel="precomputed").fit(K, y, sample_weight=weights)
        alone = cls(kernel="precomputed").fit(K[:17, :17], y[:17])
        assert model.loo_score() == pytest.approx(alone.loo_score())


def test_values_stand_in_the_order_of_the_ids():
    history = begin("LSSVC", "rbf", zeros=False)
    before = dict(zip(history.model.ids_.tolist(), loo_values(history.model), strict=True))
    fitted = history.model._state
    np.testing.assert_allclose(
        list(before.values()), leave_one_out(fitted.problem, fitted.solution, 1e-10)[:, 0], rtol=0, atol=1e-12
    )
    history.forget([3])
    history.learn(history.X[:1] + 9.0, history.y[:1])
    assert history.model.ids_.tolist() == [0, 1, 2, *range(4, 15)]
    assert_exact(history)
