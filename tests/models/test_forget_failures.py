"""A request that fails leaves the model bit for bit as it was, and as able to go on.

Each test makes two models by the same steps, sends the failing request to one, and compares the two.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from squaresvm import LSSVC, RLSSVC
from support import histories
from support.histories import PLAIN, PROBES, History, data, pickled, precomputed_kernel, values

#: (estimator, kernel): each kind of step that a request can take.
SUBJECTS = [
    ("LSSVC", "rbf"),
    ("LSSVC", "linear"),
    ("LSSVC", "precomputed"),
    ("RelaxedLSSVC", "rbf-sparse"),
    ("ProximalSVC", "rbf"),
    ("ProximalSVC", "precomputed"),
    ("RLSSVC", "rbf"),
    ("RLSSVC", "linear"),
    ("LagrangianSVC", "precomputed"),
    ("LSSVR", "rbf"),
]
every_subject = pytest.mark.parametrize(("name", "kernel"), SUBJECTS)


def kind_of(name):
    return "regression" if histories.is_regression(name) else "binary"


def grown(name, kernel, ids=None):
    """Return a history that has forgotten and learned, so that corrections wait and slots are free."""
    X, y = data(kind_of(name), 14, seed=0)
    history = History(histories.estimator(name, kernel), kernel, X, y, ids=ids)
    history.forget([history.ids[1], history.ids[5]])
    history.learn(*data(kind_of(name), 1, seed=1), ids=None if ids is None else ["new"])
    return history


def assert_same(touched, twin):
    """Assert that both models are the same in every bit, and stay the same model afterwards."""
    for attribute in ("dual_coef_", "intercept_", "support_", "ids_"):
        np.testing.assert_array_equal(getattr(touched.model, attribute), getattr(twin.model, attribute))
    X = twin.at(PROBES)
    assert values(touched.model, X).tobytes() == values(twin.model, X).tobytes()
    assert touched.model.n_features_in_ == twin.model.n_features_in_
    assert touched.model.certificate_ == twin.model.certificate_
    assert pickled(touched.model) == pickled(twin.model)
    touched.forget([touched.ids[3]])
    touched.assert_as_if_never_seen()


def refuse(name, kernel, request, error, match=None, ids=None):
    """Assert that the request is refused and has left no trace."""
    touched, twin = grown(name, kernel, ids), grown(name, kernel, ids)
    with pytest.raises(error, match=match):
        request(touched)
    assert_same(touched, twin)


def new_rows(history, count=2):
    """Return rows that `learn` would accept, with labels."""
    X, y = data(kind_of_model(history.model), count, seed=7)
    if history.kernel == "precomputed":
        return precomputed_kernel(X, np.vstack([history.X, X])), y
    return history.form(X.copy()), y


def kind_of_model(model):
    return "regression" if model.__class__.__name__ == "LSSVR" else "binary"


@every_subject
class TestForget:
    @pytest.mark.parametrize(
        ("ids", "error", "match"),
        [
            ([99], KeyError, "99"),
            ([3, 99], KeyError, "99"),
            ([1], KeyError, "no row with id 1 is held"),
            ([3, 4, 3], ValueError, "id 3 is given twice"),
            ([[3]], (KeyError, ValueError), None),
            ([{}], (KeyError, ValueError), None),
            ([], ValueError, "nothing to forget"),
            (3, ValueError, "sequence"),
            ("3", ValueError, "sequence"),
            (np.array([[3, 4]]), (KeyError, ValueError), None),
            ([float("nan")], KeyError, "nan"),
        ],
        ids=[
            "unknown",
            "one unknown",
            "gone",
            "repeated",
            "unhashable",
            "dict",
            "empty",
            "bare",
            "string",
            "2-D",
            "NaN",
        ],
    )
    def test_bad_ids(self, name, kernel, ids, error, match):
        refuse(name, kernel, lambda history: history.model.forget(ids), error, match)

    def test_everything(self, name, kernel):
        refuse(name, kernel, lambda history: history.model.forget(history.ids), ValueError, "no model")


@pytest.mark.parametrize(("name", "kernel"), [subject for subject in SUBJECTS if subject[0] != "LSSVR"])
def test_forget_all_but_one_class(name, kernel):
    def request(history):
        history.model.forget([i for i, y in zip(history.ids, history.y, strict=True) if y == "yes"])

    refuse(name, kernel, request, ValueError, "'no'")


@every_subject
class TestLearn:
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_values_that_are_no_numbers(self, name, kernel, bad):
        def request(history):
            X, y = new_rows(history)
            X[1, 2] = bad
            history.model.learn(X, y)

        refuse(name, kernel, request, ValueError, "NaN|infinity")

    @pytest.mark.parametrize("width", [-1, 1])
    def test_wrong_number_of_columns(self, name, kernel, width):
        def request(history):
            X, y = new_rows(history)
            X = X[:, :-1] if width < 0 else (sp.hstack if sp.issparse(X) else np.hstack)([X, X[:, :1]])
            history.model.learn(X, y)

        refuse(name, kernel, request, ValueError, "features|columns")

    @pytest.mark.parametrize(
        "change",
        [
            lambda X, y, w: (X, y[:1], w),
            lambda X, y, w: (X[:0], y[:0], w[:0]),
            lambda X, y, w: (X, y, w[:1]),
            lambda X, y, w: (X, y, [-1.0, 1.0]),
            lambda X, y, w: (X, y, [np.nan, 1.0]),
            lambda X, y, w: (X, [np.nan, 1.5], w),
            lambda X, y, w: (X, [[1, 2], [2, 3]], w),
            lambda X, y, w: (X, None, w),
        ],
        ids=["y short", "no rows", "w short", "w negative", "w NaN", "y NaN", "y 2-D", "no y"],
    )
    def test_parts_that_do_not_fit(self, name, kernel, change):
        def request(history):
            history.model.learn(*change(*new_rows(history), np.ones(2)))

        refuse(name, kernel, request, ValueError)

    def test_ids_where_numbers_are_held(self, name, kernel):
        def request(history):
            history.model.learn(*new_rows(history), ids=[100, 101])

        refuse(name, kernel, request, ValueError, "arrival numbers")

    @pytest.mark.parametrize(
        ("ids", "match"),
        [
            (None, "must bring theirs"),
            (["x"], "2 rows"),
            (["x", ["y"]], "hashable"),
            (["x", float("nan")], "equal themselves"),
            ("xy", "sequence"),
            ("index", "index of a pandas data frame, and X is of type"),
        ],
        ids=["missing", "too few", "unhashable", "NaN", "string", "no frame"],
    )
    def test_own_ids(self, name, kernel, ids, match):
        def request(history):
            history.model.learn(*new_rows(history), ids=ids)

        refuse(name, kernel, request, ValueError, match, ids=[f"row {i}" for i in range(14)])


@pytest.mark.parametrize("name", PLAIN)
class TestPrecomputed:
    @pytest.mark.parametrize("change", ["square", "transposed", "one row", "asymmetric"])
    def test_blocks_of_the_wrong_shape(self, name, change):
        def request(history):
            K, y = new_rows(history)
            if change == "asymmetric":
                K[0, -1] += 0.5
            else:
                K = {"square": K[:, -2:], "transposed": K.T, "one row": K[0]}[change]
            history.model.learn(K, y)

        refuse(name, "precomputed", request, ValueError)


@pytest.mark.parametrize("begin", ["fitted", "grown"])
@pytest.mark.parametrize("name", ["LSSVC", "RelaxedLSSVC", "LSSVR"])
def test_kernel_values_that_are_not_positive_definite(name, begin):
    """No model of these rows exists. That shows late, when their values are in the store already."""

    def make():
        X, y = data(kind_of(name), 14, seed=0)
        plain = History(histories.estimator(name, "precomputed"), "precomputed", X, y)
        return plain if begin == "fitted" else grown(name, "precomputed")

    touched, twin = make(), make()
    K = np.full((1, len(touched.ids) + 1), 40.0)
    K[0, -1] = 0.1
    with pytest.raises(ValueError, match="positive"):
        touched.model.learn(K, touched.y[:1])
    assert_same(touched, twin)


class Faulty:
    """A kernel that fails when told to."""

    def __init__(self):
        self.fault = None

    def __call__(self, X, Z):
        values = np.exp(-0.2 * ((np.asarray(X)[:, None] - np.asarray(Z)[None]) ** 2).sum(axis=2))
        if self.fault == "raise":
            raise RuntimeError("out of order")
        return values[:, :-1] if self.fault == "shape" else values


@pytest.mark.parametrize("fault", ["raise", "shape"])
@pytest.mark.parametrize("name", PLAIN)
def test_a_kernel_that_fails(name, fault):
    X, y = data(kind_of(name), 14, seed=0)
    kernel = Faulty()
    model = histories.estimator(name, "rbf").set_params(kernel=kernel).fit(X, y)
    model.forget([1])
    before = values(model, PROBES)
    kernel.fault = fault
    with pytest.raises((RuntimeError, ValueError)):
        model.learn(*data(kind_of(name), 2, seed=1))
    kernel.fault = None
    assert values(model, PROBES).tobytes() == before.tobytes()
    assert model.ids_.tolist() == [0, *range(2, 14)]
    model.forget([2])
    rest = [0, *range(3, 14)]
    expected = histories.estimator(name, "rbf").set_params(kernel=kernel).fit(X[rest], y[rest])
    np.testing.assert_allclose(values(model, PROBES), values(expected, PROBES), rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", ["learn", "forget"])
def test_a_warning_that_is_an_error(method):
    """Under `-W error` a request that does not reach tol fails, and has not happened."""
    X, y = data("binary", 40, seed=0)

    def short():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return RLSSVC(C=1e3, gamma=0.05, max_iter=1).fit(X, y)

    touched, twin = short(), short()
    arguments = (PROBES, ["yes", "no"] * 6) if method == "learn" else ([0, 1, 2],)
    with pytest.raises(ConvergenceWarning):
        getattr(touched, method)(*arguments)
    assert values(touched, PROBES).tobytes() == values(twin, PROBES).tobytes()
    assert touched.certificate_ == twin.certificate_
    assert pickled(touched) == pickled(twin)


def test_an_interrupted_repair_is_made_up_for(monkeypatch):
    """Whoever presses Ctrl-C while the factor is repaired gets the model as it was, and exact requests."""
    from squaresvm.factors import slot_inverse

    X, y = data("binary", 120, seed=0)
    history = History(LSSVC(tol=1e-10), "rbf", X, y)
    for i in range(63):
        history.forget([i])
    before = values(history.model, PROBES)
    plain = slot_inverse.gram_update

    def interrupted(*arguments):
        plain(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(slot_inverse, "gram_update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        history.model.forget([63])
    monkeypatch.setattr(slot_inverse, "gram_update", plain)
    assert values(history.model, PROBES).tobytes() == before.tobytes()
    assert history.model.ids_.tolist() == list(range(63, 120))
    assert history.forget([64]).refactored
    history.assert_as_if_never_seen()
    np.testing.assert_allclose(
        history.model.loo_decision_function(), history.fresh().loo_decision_function(), rtol=0, atol=1e-8
    )
