"""What comes with the columns of a table, and the history of a file."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm import LSSVC
from squaresvm.files import History as Requests
from squaresvm.files import Record, with_columns
from squaresvm.readers.preparation import Category, Number, Preparation, PreparedRows
from support import histories
from support.histories import PROBES, data, values
from support.round_trips import again

M = 24


class TestColumns:
    """A column that is zero in all rows may come and go."""

    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian", "sigmoid"])
    @pytest.mark.parametrize("name", histories.PLAIN)
    def test_without_effect(self, name, kernel, convert):
        kind = "regression" if name == "LSSVR" else "multi"
        X, y = data(kind, M, seed=0)
        X[:, 1] = 0.0
        parameters = {"kernel": kernel, "gamma": 0.05, "C": 0.5, "solver": "auto"}
        model = histories.ESTIMATORS[name][0](**parameters).fit(convert(X), y)
        narrow = with_columns(model, np.array([0, 2, 3]))
        wide = with_columns(narrow, np.array([-1, 0, -1, 1, 2, -1]))
        probe = PROBES[:, [0, 2, 3]]
        spread = np.zeros((len(PROBES), 6))
        spread[:, [1, 3, 4]] = probe
        full = PROBES.copy()
        full[:, 1] = 0.0
        expected = values(model, convert(full))
        assert np.allclose(values(narrow, convert(probe)), expected, rtol=1e-12, atol=1e-12)
        assert np.allclose(values(wide, convert(spread)), expected, rtol=1e-12, atol=1e-12)
        assert wide.certificate_.residual <= max(1e-9, 2 * model.certificate_.residual)
        wide.forget([2])
        model.forget([2])
        assert np.allclose(values(wide, convert(spread)), values(model, convert(full)), atol=1e-6)

    def preparation(self):
        features = (Category("town", ("Bonn", "Ulm on the Danube")), Number("age", 1.0, 2.0, 1.0))
        return Preparation(features, "label", "name", None, "mean")

    def test_a_level_that_no_row_has_is_not_saved(self, tmp_path):
        X = np.array([[1.0, 0.0, 0.5], [1.0, 0.0, -0.5], [0.0, 1.0, 0.1], [1.0, 0.0, 0.9]])
        model = LSSVC().fit(X, [0, 1, 1, 0])
        Record(Requests().brought("train", 4), self.preparation()).attach(model)
        loaded = again(model, tmp_path)
        assert Record.of(loaded).preparation == self.preparation()
        model.forget([2])
        loaded = again(model, tmp_path)
        assert loaded.n_features_in_ == 2
        assert model.n_features_in_ == 3  # The model in memory stays as it is.
        assert Record.of(loaded).preparation.features[0].levels == ("Bonn",)
        assert b"Danube" not in (tmp_path / "a.model").read_bytes()
        probe = np.array([[1.0, 0.3], [0.0, 0.2]])
        wide = np.insert(probe, 1, 0.0, axis=1).view(PreparedRows)
        found = loaded.decision_function(probe.view(PreparedRows))
        assert np.allclose(found, model.decision_function(wide))

    def test_a_new_fit_forgets_what_came_with_the_file(self, tmp_path):
        X, y = np.eye(3)[[0, 1, 2, 0]], [0, 1, 1, 0]
        model = LSSVC().fit(X, y)
        Record(Requests().brought("train", 4), self.preparation()).attach(model)
        loaded = again(model, tmp_path)
        assert Record.of(copy.copy(loaded)).preparation is not None
        assert Record.of(loaded.refit()).preparation is not None
        assert Record.of(loaded.fit(X, y)).preparation is None


class TestHistory:
    def test_lines_go_with_their_last_row(self):
        requests = Requests().brought("train", 3).brought("learn", 2).brought("learn", 1)
        requests = requests.forgot(np.array([3, 0]))
        assert [(e.action, e.rows, e.left) for e in requests.events] == [
            ("train", 3, 2),
            ("learn", 2, 1),
            ("learn", 1, 1),
            ("forget", 2, 0),
        ]
        requests = requests.forgot(np.array([2]))
        assert [e.action for e in requests.events] == ["train", "learn", "forget", "forget"]
        assert requests.held == 3

    def test_models_changed_in_python_have_a_line_that_accounts_for_all(self, tmp_path):
        X, y = data("binary", M, seed=0)
        loaded = again(LSSVC().fit(X, y), tmp_path)
        assert [(e.action, e.rows) for e in Record.of(loaded).history.events] == [("save", M)]
        loaded.forget([0])
        loaded = again(loaded, tmp_path)
        assert [(e.action, e.rows) for e in Record.of(loaded).history.events] == [("save", M - 1)]
