"""Models that share what requests change: copies, wrappers, threads, forks.

No state may see another's changes: after every request the model is the optimum of the rows that it should
hold, whatever was done to what it was derived from or what was derived from it.
"""

from __future__ import annotations

import copy
import pickle
import threading
import time
import warnings
from itertools import combinations

import numpy as np
import pytest

from squaresvm import LSSVC, LSSVR, RLSSVC, OneVsOne, ProximalSVC, RelaxedLSSVC, Window
from support import referee
from support.hands import PATIENCE, FailsAt, Rows, frequent_switches, in_child, start

TOL = 1e-6


def rows(m, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    score = X[:, 0] + 0.5 * rng.normal(size=m)
    if classes == 2:
        return X, np.where(score > 0, 1, -1)
    return X, np.array(["a", "b", "c"])[np.digitize(score, [-0.4, 0.4])]


def rbf(X, Z, gamma=0.3):
    return np.exp(-gamma * ((X[:, None] - Z[None]) ** 2).sum(axis=2))


def true_residual(model, X, y):
    """Return the residual of a model of arrival numbers on the rows that its ids name."""
    ids = np.asarray(model.ids_)
    inner = model.estimator_ if isinstance(model, Window) else model
    return referee.truth(inner, X[ids], y[ids]).residual


def true_residual_of_pairs(model, X, y, ids):
    """Return the largest residual of the models of the pairs, on the rows that they should hold."""
    ids, worst = np.asarray(ids), 0.0
    for pair, inner in zip(combinations(model.classes_.tolist(), 2), model.estimators_, strict=True):
        mine = ids[np.isin(y[ids], pair)]
        worst = max(worst, referee.truth(inner, X[mine], y[mine]).residual)
    return worst


class TestCopies:
    def test_a_copy_of_a_precomputed_proximal_model_has_its_own_kernel(self):
        X, y = rows(30)
        K = rbf(X, X)
        model = ProximalSVC(kernel="precomputed").fit(K, y)
        copy.copy(model).forget([19])
        model.forget([5])
        keep = np.delete(np.arange(30), 5)
        fresh = ProximalSVC(kernel="precomputed").fit(K[np.ix_(keep, keep)], y[keep])
        np.testing.assert_allclose(
            model.decision_function(K[:, keep]), fresh.decision_function(K[:, keep]), rtol=0, atol=1e-9
        )

    @pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
    @pytest.mark.parametrize("cls", [LSSVC, RelaxedLSSVC, RLSSVC, LSSVR])
    def test_a_copy_of_another_precomputed_model_has_its_own_kernel(self, cls, way):
        X, y = rows(30)
        K = rbf(X, X)
        model = cls(kernel="precomputed").fit(K, y)
        other = way(model)
        other.forget([19])
        model.forget([5])
        other.forget([7])
        for one, gone in ((model, [5]), (other, [19, 7])):
            keep = np.delete(np.arange(30), gone)
            assert referee.truth(one, K[np.ix_(keep, keep)], y[keep]).residual <= TOL

    def test_an_old_estimator_of_a_window_that_leaves_one_out_changes_nothing(self):
        X, y = rows(110)
        window = Window(LSSVC(), size=40).fit(X[:40], y[:40])
        worst = 0.0
        for i in range(40, 100):
            old = window.estimator_
            window.learn(X[i : i + 1], y[i : i + 1])
            window.estimator_.flush()
            old.loo_score()
            window.forget([window.ids_[5]])
            worst = max(worst, true_residual(window, X, y))
        assert worst <= 10 * TOL

    def test_an_old_estimator_of_a_window_keeps_its_own_answers(self):
        """What the old one says of its rows is of its rows, or it says that it no longer can."""
        X, y = rows(90)
        window = Window(LSSVC(), size=40).fit(X[:40], y[:40])
        old = window.estimator_
        expected, left_out = old.decision_function(X), old.loo_decision_function()
        for i in range(40, 80):
            window.learn(X[i : i + 1], y[i : i + 1])
        np.testing.assert_allclose(old.decision_function(X), expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(old.loo_decision_function(), left_out, rtol=0, atol=1e-7)


class TestRefit:
    def test_a_precomputed_proximal_model_takes_its_new_class_weights(self):
        X, _ = rows(30)
        y = np.where(X[:, 0] > 0.7, 1, -1)
        K = rbf(X, X)
        model = ProximalSVC(kernel="precomputed", class_weight="balanced").fit(K, y)
        gone = np.flatnonzero(y == -1)[:8]
        keep = np.setdiff1d(np.arange(30), gone)
        model.forget(gone.tolist())
        model.refit()
        fresh = ProximalSVC(kernel="precomputed", class_weight="balanced")
        fresh.fit(K[np.ix_(keep, keep)], y[keep])
        np.testing.assert_allclose(model.class_weight_, fresh.class_weight_)
        np.testing.assert_allclose(
            model.decision_function(K[:, keep]), fresh.decision_function(K[:, keep]), rtol=0, atol=1e-9
        )


class TestThreads:
    def test_leave_one_out_of_a_superseded_state_leaves_the_live_factor_alone(self):
        m, rounds = 60, 60
        X, y = rows(m + rounds)
        model, worst = LSSVC(C=10.0).fit(X[:m], y[:m]), 0.0
        for i in range(rounds):
            asking = threading.Event()

            def ask(asking=asking):
                asking.set()
                model.loo_score()

            threads = []

            def interrupted(asking=asking, ask=ask, threads=threads):
                threads.append(start(ask))
                asking.wait(PATIENCE)
                time.sleep(0.005)

            model.learn(Rows(X[m + i : m + i + 1], interrupted), y[m + i : m + i + 1])
            model.flush()
            for thread, errors in threads:
                thread.join(PATIENCE)
                assert errors == []
            model.forget([i])
            worst = max(worst, true_residual(model, X, y))
        assert worst <= 10 * TOL

    def test_a_row_that_a_window_forgot_does_not_come_back(self):
        X, y = rows(60)
        window = Window(LSSVC(), size=50).fit(X[:40], y[:40])
        threads = []

        def interrupted():
            threads.append(start(lambda: window.forget([3])))
            threads[0][0].join(0.5)

        window.learn(Rows(X[40:41], interrupted), y[40:41])
        for thread, errors in threads:
            thread.join(PATIENCE)
            assert errors == []
        assert sorted(window.ids_.tolist()) == sorted(set(range(41)) - {3})
        assert true_residual(window, X, y) <= 10 * TOL

    def test_probabilities_of_pairs_while_a_class_comes_and_goes(self):
        X, y = rows(60, classes=3)
        last = np.flatnonzero(y == "c")
        model, over = OneVsOne(LSSVC()).fit(X, y, ids=np.arange(60).tolist()), threading.Event()
        legitimate = [model.predict_proba(X)]
        model.forget(last.tolist())
        legitimate.append(model.predict_proba(X))
        model.learn(X[last], y[last], ids=last.tolist())
        strange = []

        def ask():
            while not over.is_set():
                found = model.predict_proba(X)
                same = [one.shape == found.shape and np.allclose(one, found, atol=1e-6) for one in legitimate]
                if not any(same):
                    strange.append(found)

        with frequent_switches():
            thread, errors = start(ask)
            end = time.monotonic() + 6.0
            while time.monotonic() < end and not errors and not strange:
                model.forget(last.tolist())
                model.learn(X[last], y[last], ids=last.tolist())
            over.set()
            thread.join(PATIENCE)
        assert errors == []
        assert strange == []


class TestFailedRequests:
    """A request that fails anywhere has changed all or nothing, and the next one finds a whole model."""

    @staticmethod
    def assert_whole(make, request, follow_up, ids, residual):
        """Fail at every fifth call of a request, then send another; `ids` are those that it may leave."""
        model = make()
        with FailsAt() as counted:
            request(model)
        assert counted.calls > 20
        for call in range(0, counted.calls, 5):
            model = make()
            with FailsAt(call) as fails:
                request(model)
            if not fails.failed:  # What was cached since makes it fewer calls.
                break
            assert model.ids_.tolist() in ids, f"after a failure at call {call}"
            follow_up(model)
            assert residual(model) <= 10 * TOL, f"after a failure at call {call}"

    @pytest.mark.parametrize("kind", ["learn", "forget"])
    def test_of_pairs(self, kind):
        X, y = rows(33, classes=3)
        first, second = (
            [int(np.flatnonzero(y == label)[place]) for label in ("a", "b", "c")] for place in (0, 1)
        )
        started = OneVsOne(LSSVC(C=10.0)).fit(X[:30], y[:30])
        started.forget([12])  # What shares a store with its past has been changed before.
        before = started.ids_.tolist()
        forgot = [i for i in before if i not in first]
        learned = [*before, 30, 31, 32]
        self.assert_whole(
            make=lambda: pickle.loads(pickle.dumps(started)),
            request=lambda m: m.forget(first) if kind == "forget" else m.learn(X[30:], y[30:]),
            follow_up=lambda m: m.forget(second),
            ids=[before, forgot if kind == "forget" else learned],
            residual=lambda m: true_residual_of_pairs(m, X, y, m.ids_),
        )

    @pytest.mark.parametrize("kind", ["learn", "forget"])
    def test_of_a_window(self, kind):
        X, y = rows(34)
        started = Window(LSSVC(C=10.0), size=30).fit(X[:30], y[:30])
        self.assert_whole(
            make=lambda: copy.deepcopy(started).learn(X[30:32], y[30:32]),
            request=lambda m: m.forget([4]) if kind == "forget" else m.learn(X[32:34], y[32:34]),
            follow_up=lambda m: m.forget([7]),
            ids=[list(range(2, 32)), [2, 3, *range(5, 32)] if kind == "forget" else list(range(4, 34))],
            residual=lambda m: true_residual(m, X, y),
        )


class TestForks:
    @pytest.mark.parametrize(
        "action", [lambda model: model.forget([3]), pickle.dumps], ids=["forget", "pickle"]
    )
    def test_a_child_forked_in_the_middle_of_a_request_can_go_on(self, action):
        X, y = rows(41)
        model = LSSVC().fit(X[:40], y[:40])
        inside, go_on = threading.Event(), threading.Event()

        def waiting():
            inside.set()
            go_on.wait(2.0)  # A fork may wait for the request to end.

        thread, errors = start(lambda: model.learn(Rows(X[40:], waiting), y[40:]))
        inside.wait(PATIENCE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Of forks beside threads, since Python 3.12.
            ended = in_child(lambda: action(model))
        go_on.set()
        thread.join(PATIENCE)
        assert errors == []
        assert ended == "done"
