"""Classes that disappear with their last row, and classes that appear."""

from __future__ import annotations

import numpy as np
import pytest

from support import histories
from support.histories import ESTIMATORS, PROBES, History, data, values

CLASSIFIERS = [name for name in ESTIMATORS if name != "LSSVR"]
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)
KERNELS = ["rbf", "linear", "linear-wide", "precomputed"]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def begin(name, kernel, labels, m=24, weights=None):
    """Return a history whose rows take the given labels in turn."""
    if name == "LagrangianSVC-augment" and kernel == "precomputed":
        kernel = "poly"  # The bias inside the kernel needs the rows.
    X, _ = data("binary", m, seed=0)
    y = np.array([labels[i % len(labels)] for i in range(m)])
    X[:, 0] += np.arange(m) % len(labels)
    return History(histories.estimator(name, kernel), kernel, X, y, weights)


def rows_of(history, label):
    return [i for i, y in zip(history.ids, history.y, strict=True) if y == label]


@every_kernel
@every_classifier
class TestDisappears:
    def test_with_its_last_row(self, name, kernel):
        history = begin(name, kernel, ["a", "b", "c"])
        *most, last = rows_of(history, "b")
        receipt = history.forget(most)
        assert receipt.classes_gone == ()
        assert history.model.classes_.tolist() == ["a", "b", "c"]
        history.assert_as_if_never_seen()
        receipt = history.forget([last])
        assert receipt.classes_gone == ("b",)
        assert history.model.classes_.tolist() == ["a", "c"]
        assert history.model.decision_function(history.at(PROBES)).shape == (len(PROBES),)
        assert set(history.model.predict(history.at(PROBES))) <= {"a", "c"}
        history.assert_as_if_never_seen()
        history.forget(rows_of(history, "a")[:1])
        history.assert_as_if_never_seen()

    def test_two_of_four_at_once(self, name, kernel):
        history = begin(name, kernel, [4, 10, -3, 7])
        receipt = history.forget([*rows_of(history, 10), *rows_of(history, -3)])
        assert receipt.classes_gone == (-3, 10)
        assert history.model.classes_.tolist() == [4, 7]
        history.assert_as_if_never_seen()


@every_kernel
@every_classifier
class TestAppears:
    @pytest.mark.parametrize("labels", [["a", "c"], ["a", "c", "d"]], ids=["2 to 3", "3 to 4"])
    def test_with_its_first_row(self, name, kernel, labels):
        history = begin(name, kernel, labels)
        history.learn(PROBES[:2], np.array([labels[0], "a longer label"]))
        assert history.model.classes_.tolist() == sorted([*labels, "a longer label"])
        assert history.model.decision_function(history.at(PROBES)).shape == (len(PROBES), len(labels) + 1)
        history.assert_as_if_never_seen()
        history.learn(PROBES[2:4], np.array(["a longer label", "c"]))
        history.forget([2, 24])
        history.assert_as_if_never_seen()

    def test_and_disappears_again(self, name, kernel):
        history = begin(name, kernel, [0, 1])
        before = values(history.model, history.at(PROBES))
        history.learn(PROBES[:1], np.array([2]))
        receipt = history.forget([24])
        assert receipt.classes_gone == (2,)
        np.testing.assert_allclose(values(history.model, history.at(PROBES)), before, rtol=0, atol=1e-8)


@every_classifier
class TestWithoutWeight:
    """Rows of weight zero count for no class."""

    def test_a_class_whose_rows_of_weight_have_left(self, name):
        weights = np.ones(24)
        weights[1:24:3] = 0.0
        weights[[4, 7]] = 1.0
        history = begin(name, "rbf", ["a", "b", "c"], weights=weights)
        receipt = history.forget([4, 7])
        assert receipt.classes_gone == ("b",)
        assert history.model.classes_.tolist() == ["a", "c"]
        assert 1 in history.model.ids_
        history.assert_as_if_never_seen()

    def test_a_class_of_new_rows_without_weight(self, name):
        history = begin(name, "rbf", ["a", "b"])
        history.learn(PROBES[:2], np.array(["c", "a"]), np.array([0.0, 1.0]))
        assert history.model.classes_.tolist() == ["a", "b"]
        history.assert_as_if_never_seen()
        history.learn(PROBES[2:3], np.array(["c"]))
        assert history.model.classes_.tolist() == ["a", "b", "c"]
        history.assert_as_if_never_seen()


@pytest.mark.parametrize(
    ("labels", "new"),
    [([True, False], [True]), ([1.0, 2.0], [3.0]), (["b", "a"], ["c"]), ([10, 2], [1])],
    ids=["bool", "float", "string", "int"],
)
def test_labels_of_any_type(labels, new):
    history = begin("LSSVC", "rbf", labels)
    history.learn(PROBES[:1], np.array(new))
    history.forget([0])
    assert history.model.classes_.tolist() == sorted({*labels, *new})
    assert type(history.model.predict(history.at(PROBES)).tolist()[0]) is type(labels[0])
    history.assert_as_if_never_seen()


def test_weights_of_classes_stay_those_of_the_fit():
    """'balanced' is a number taken at fit; a class that comes later has weight 1 until `refit`."""
    history = begin("LSSVC-balanced", "rbf", ["a", "b", "b"])
    np.testing.assert_allclose(history.model.class_weight_, [1.5, 0.75])
    history.learn(PROBES[:4], np.array(["c"] * 4))
    np.testing.assert_allclose(history.model.class_weight_, [1.5, 0.75, 1.0])
    history.assert_as_if_never_seen()
    history.model.refit()
    np.testing.assert_allclose(history.model.class_weight_, [28 / 24, 28 / 48, 28 / 12])


@every_kernel
@every_classifier
class TestRefused:
    def test_all_but_one_class(self, name, kernel):
        history = begin(name, kernel, ["a", "b"])
        before = values(history.model, history.at(PROBES))
        with pytest.raises(ValueError, match=r"rows of one class only, 'a'.*needs two classes"):
            history.model.forget(rows_of(history, "b"))
        np.testing.assert_array_equal(values(history.model, history.at(PROBES)), before)
        history.assert_as_if_never_seen()

    def test_everything(self, name, kernel):
        history = begin(name, kernel, ["a", "b"])
        with pytest.raises(ValueError, match="forgetting all rows would leave no model"):
            history.model.forget(history.ids)
        history.assert_as_if_never_seen()

    def test_every_row_of_weight(self, name, kernel):
        weights = np.ones(24)
        weights[20:] = 0.0
        history = begin(name, kernel, ["a", "b"], weights=weights)
        with pytest.raises(ValueError, match="would leave"):
            history.model.forget(list(range(20)))
        history.assert_as_if_never_seen()


@every_kernel
def test_every_row_of_weight_of_a_regression(kernel):
    X, y = data("regression", 12, seed=0)
    weights = np.r_[np.ones(8), np.zeros(4)]
    history = History(histories.estimator("LSSVR", kernel), kernel, X, y, weights)
    with pytest.raises(ValueError, match="would leave"):
        history.model.forget(list(range(8)))
    with pytest.raises(ValueError, match="would leave"):
        history.model.forget(history.ids)
    history.assert_as_if_never_seen()
    history.forget([0])
    history.assert_as_if_never_seen()


@every_kernel
def test_a_regression_may_be_left_with_one_row(kernel):
    X, y = data("regression", 12, seed=0)
    history = History(histories.estimator("LSSVR", kernel), kernel, X, y)
    history.forget(list(range(1, 12)))
    history.assert_as_if_never_seen()
    history.learn(X[1:3], y[1:3])
    history.assert_as_if_never_seen()
