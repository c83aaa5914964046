"""Threads that predict while another learns and forgets see one whole model or the next, never a mixture.

The legitimate models are computed first, one after the other, in a single thread. Free-running threads look
for mixtures by chance; the tests with a rendezvous make a request happen in the middle of a prediction.
"""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from squaresvm import LSSVC, RLSSVC, ProximalSVC
from support import histories
from support.histories import PROBES, History, data, values

REQUESTS = 28


def kind_of(name):
    return "regression" if histories.is_regression(name) else "multi"


def begin(name, kernel="rbf", m=60):
    X, y = data(kind_of(name), m, seed=0)
    return History(histories.estimator(name, kernel), kernel, X, y)


def requests(name):
    """Return requests: rows that leave, rows that come, a class that goes and one that appears."""
    todo = []
    for step in range(REQUESTS):
        if step % 4 == 3:
            X, y = data(kind_of(name), 2, seed=step)
            todo.append(lambda model, X=X, y=y: model.learn(X, y))
        elif step == 10 and kind_of(name) == "multi":
            todo.append(lambda model: model.learn(PROBES[:1], ["another"]))
        elif step == 20 and kind_of(name) == "multi":
            todo.append(lambda model: model.forget([model.ids_.tolist()[_place_of(model, "another")]]))
        else:
            todo.append(lambda model, step=step: model.forget([step]))
        if step == 15:
            todo.append(lambda model: model.flush())
    return todo


def _place_of(model, label):
    return model._state.rows.y.tolist().index(label)


@pytest.fixture
def frequent_switches():
    """Let threads alternate many times within one prediction."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def outputs(model):
    """Return everything a thread may ask for, each from a call of its own."""
    found = [("values", values(model, PROBES).tobytes()), ("labels", model.predict(PROBES).tobytes())]
    if hasattr(model, "predict_proba"):
        found.append(("probabilities", model.predict_proba(PROBES).round(9).tobytes()))
    return found


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("name", ["LSSVC", "ProximalSVC", "RLSSVC", "LSSVR"])
def test_every_prediction_is_that_of_one_whole_model(name, kernel):
    rehearsal, legitimate = begin(name, kernel).model, set()
    legitimate.update(outputs(rehearsal))
    for request in requests(name):
        request(rehearsal)
        legitimate.update(outputs(rehearsal))

    model, over = begin(name, kernel).model, threading.Event()
    seen, errors = [], []

    def predict():
        try:
            while True:  # Once at least, however busy the machine is.
                seen.extend(outputs(model))
                if over.is_set():
                    break
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=predict) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for request in requests(name):
            request(model)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert len(seen) >= 2 * len(outputs(model))
    strange = {kind for kind, output in seen if (kind, output) not in legitimate}
    assert strange == set()
    assert outputs(model) == outputs(rehearsal)


class Rows:
    """Rows to predict that, while they are read, let another thread send a request, and wait for its end."""

    def __init__(self, X, request):
        self.X, self.request = X, request
        self.shape = X.shape

    def __len__(self):
        return len(self.X)

    def __array__(self, dtype=None, copy=None):
        thread = threading.Thread(target=self.request)
        thread.start()
        thread.join(timeout=20)
        assert not thread.is_alive(), "a request had to wait for a prediction"
        return np.asarray(self.X, dtype=dtype)


def _same(one, other):
    if one.dtype.kind == "U":
        return np.array_equal(one, other)
    return one.shape == other.shape and np.allclose(one, other, rtol=0, atol=1e-12)


class TestInTheMiddle:
    """A request begins after a prediction has, and ends before it does."""

    @pytest.mark.parametrize("method", ["decision_function", "predict", "predict_proba"])
    @pytest.mark.parametrize("cls", [LSSVC, ProximalSVC, RLSSVC])
    def test_while_the_rows_are_read(self, cls, method):
        X, y = data("binary", 30, seed=0)
        before, model = cls().fit(X, y), cls().fit(X, y)
        after = cls().fit(X, y)
        after.forget(range(10))
        result = getattr(model, method)(Rows(PROBES, lambda: model.forget(range(10))))
        expected = [getattr(one, method)(PROBES) for one in (before, after)]
        assert any(_same(result, one) for one in expected)
        np.testing.assert_allclose(
            model.decision_function(PROBES), after.decision_function(PROBES), atol=1e-10
        )

    @pytest.mark.parametrize("method", ["predict", "predict_proba"])
    @pytest.mark.parametrize("request_", ["disappears", "appears"])
    def test_while_a_kernel_is_computed_and_a_class(self, method, request_):
        """The values of three classes must meet the names of those three."""
        X, y = data("multi", 30, seed=0)
        pause = {"request": None}

        def kernel(A, B):
            if pause["request"] is not None:
                request, pause["request"] = pause["request"], None
                thread = threading.Thread(target=request)
                thread.start()
                thread.join()
            return histories.precomputed_kernel(A, B)

        model = LSSVC(kernel=kernel).fit(X, y)
        expected = getattr(model, method)(PROBES)
        gone = np.flatnonzero(y == "high").tolist()
        pause["request"] = (
            (lambda: model.forget(gone))
            if request_ == "disappears"
            else (lambda: model.learn(PROBES[:2], ["a new one", "low"]))
        )
        result = getattr(model, method)(PROBES)
        assert pause["request"] is None
        np.testing.assert_array_equal(result, expected)
        assert len(model.classes_) == (2 if request_ == "disappears" else 4)

    def test_between_the_parts_of_a_precomputed_model(self):
        """The kernel's width and the model change together: no values of one meet the other's columns."""
        X, y = data("binary", 20, seed=0)
        weights = np.ones(20)
        weights[[3, 8]] = 0.0
        K, found = histories.precomputed_kernel(X, X), []
        old = histories.precomputed_kernel(PROBES, X)

        class Watched(LSSVC):
            def __setattr__(self, attribute, value):
                if attribute in ("_state", "n_features_in_") and "_state" in self.__dict__:
                    self._look()
                super().__setattr__(attribute, value)
                if attribute in ("_state", "n_features_in_") and "_state" in self.__dict__:
                    self._look()

            def _look(self):
                try:
                    found.append(self.decision_function(old))
                except ValueError:
                    return  # Columns of another number of rows are refused, as they should be.

        model = Watched(kernel="precomputed").fit(K, y, sample_weight=weights)
        expected = LSSVC(kernel="precomputed").fit(K, y, sample_weight=weights).decision_function(old)
        found.clear()
        model.forget([0, 1])
        assert found, "nobody looked"
        for values_ in found:
            np.testing.assert_allclose(values_, expected, rtol=0, atol=1e-10)


class TestRequestsOfSeveralThreads:
    @pytest.mark.usefixtures("frequent_switches")
    @pytest.mark.parametrize("name", ["LSSVC", "ProximalSVC", "RLSSVC", "LSSVR"])
    def test_are_served_one_after_the_other(self, name):
        history = begin(name, m=80)
        parts, errors = [list(range(start, 40, 4)) for start in range(4)], []

        def forget(ids):
            try:
                for i in ids:
                    history.model.forget([i])
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=forget, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        history.X, history.y, history.weights = history.X[40:], history.y[40:], history.weights[40:]
        history.ids = history.ids[40:]
        history.assert_as_if_never_seen()

    def test_a_row_is_forgotten_once(self):
        model = begin("LSSVC").model
        outcomes = []

        def forget():
            try:
                outcomes.append(model.forget([7]).remaining)
            except KeyError:
                outcomes.append("KeyError")

        threads = [threading.Thread(target=forget) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes, key=str) == [59, "KeyError", "KeyError", "KeyError"]
