"""The change of a score when a row or a group leaves, against forgetting it."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from squaresvm import LSSVC, LSSVR
from support import histories
from support.histories import PROBES, begin, combinations, data

TRUTH = {
    "binary": np.resize(["yes", "no", "no"], len(PROBES)),
    "multi": np.resize(["low", "mid", "high"], len(PROBES)),
    "regression": 5.0 + np.sin(PROBES[:, 0]),
}
CASES = [case for case in combinations() if case[1] in ("rbf", "linear", "precomputed")]


@pytest.mark.parametrize(("name", "kernel", "kind"), CASES)
def test_equals_forgetting(name, kernel, kind):
    """By squared errors of decision values, which every row changes, and by the default score."""
    history = begin(name, kernel, kind)
    X, y = history.at(PROBES), TRUTH[kind]

    def loss(model, X, y):
        values = model.predict(X) if kind == "regression" else model.decision_function(X)
        return -float(np.mean((values - 0.3) ** 2))

    found = history.model.influence(X, y, scoring=loss)
    default = history.model.influence(X, y)
    assert found.shape == default.shape == (24,)
    before = loss(history.model, X, y), history.model.score(X, y)
    for i in range(0, 24, 5):
        model = copy.copy(history.model)
        model.forget([i])
        at = histories.precomputed_kernel(PROBES, np.delete(history.X, i, axis=0))
        at = at if kernel == "precomputed" else X
        assert found[i] == pytest.approx(loss(model, at, y) - before[0], abs=1e-8)
        assert default[i] == pytest.approx(model.score(at, y) - before[1], abs=1e-8)


@pytest.mark.parametrize("name", ["LSSVC", "RLSSVC", "LSSVR", "ProximalSVC"])
def test_groups(name):
    history = begin(name, "rbf")
    kind = "regression" if histories.is_regression(name) else "binary"
    groups = np.array(["north", "south", "west"])[np.arange(24) % 3]
    scoring = "r2" if kind == "regression" else "roc_auc"
    found = history.model.influence(PROBES, TRUTH[kind], scoring=scoring, groups=groups)
    from sklearn.metrics import get_scorer

    before = get_scorer(scoring)(history.model, PROBES, TRUTH[kind])
    for place, group in enumerate(["north", "south", "west"]):
        model = copy.copy(history.model)
        model.forget(np.flatnonzero(groups == group).tolist())
        after = get_scorer(scoring)(model, PROBES, TRUTH[kind])
        assert found[place] == pytest.approx(after - before, abs=1e-8)


def test_rows_that_hurt():
    X, y = data("binary", 80, seed=3)
    wrong = y.copy()
    wrong[11] = "no" if y[11] == "yes" else "yes"
    model = LSSVC(C=10.0, gamma=0.1).fit(X, wrong)

    def loss(model, X, y):
        return -float(np.mean((model.decision_function(X) - np.where(y == "yes", 1.0, -1.0)) ** 2))

    assert model.influence(X, y, scoring=loss).argmax() == 11


class TestBadInput:
    @pytest.fixture
    def model(self):
        X, y = data("binary", 20, seed=0)
        model = LSSVC().fit(X, y)
        before = model.decision_function(X)
        yield model
        assert model.decision_function(X).tobytes() == before.tobytes()

    def test_labels(self, model):
        with pytest.raises(ValueError, match="'maybe', which is not a class of the model"):
            model.influence(PROBES, np.resize(["yes", "maybe"], len(PROBES)))

    def test_lengths_and_groups(self, model):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.influence(PROBES, ["yes"])
        with pytest.raises(ValueError, match="groups must name"):
            model.influence(PROBES, TRUTH["binary"], groups=[1, 2])

    def test_scorers_of_probabilities(self, model):
        with pytest.raises(ValueError, match="probabilities"):
            model.influence(PROBES, TRUTH["binary"], scoring="neg_log_loss")
        with pytest.raises(ValueError, match="scoring must be"):
            model.influence(PROBES, TRUTH["binary"], scoring=3)

    def test_targets(self):
        X, y = data("regression", 20, seed=0)
        model = LSSVR().fit(X, np.column_stack([y, y]))
        with pytest.raises(ValueError, match="targets of shape"):
            model.influence(X, y)
