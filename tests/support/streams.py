"""Windows beside a plain record of the rows that they should hold."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm import Window
from support import histories
from support.histories import PROBES, data, precomputed_kernel, values

NAMES = ["LSSVC", "LSSVC-balanced", "RLSSVC", "LSSVR", "ProximalSVC"]
#: (estimator, kernel): each kind of step that a request can take.
SUBJECTS = [
    *((name, "rbf") for name in NAMES),
    ("LSSVC", "linear"),
    ("RLSSVC", "linear"),
    ("LSSVC", "precomputed"),
    ("ProximalSVC", "precomputed"),
]
every_model = pytest.mark.parametrize(("name", "kernel"), SUBJECTS)
ways = pytest.mark.parametrize("by", ["count", "age"])


def kind_of(name):
    return "regression" if histories.is_regression(name) else "binary"


class Stream:
    """A window beside a plain record of all rows that came and of which of them it should hold."""

    def __init__(
        self, name, kernel="rbf", by="count", size=18, m=25, own_ids=False, half_life=None, **parameters
    ):
        self.kernel, self.by, self.own_ids, self.half_life = kernel, by, own_ids, half_life
        self.X, self.y = data(kind_of(name), 160, seed=3)
        rng = np.random.default_rng(4)
        self.weights = rng.uniform(0.5, 2.0, 160)
        self.times = np.cumsum(rng.integers(0, 3, 160)) / 2.0  # Some rows come at the same time.
        self.size, self.arrived, self.kept = size, m, np.arange(m)
        self.window = Window(histories.estimator(name, kernel, **parameters), size, half_life)
        X = precomputed_kernel(self.X[:m], self.X[:m]) if kernel == "precomputed" else self.X[:m]
        self.window.fit(X, self.y[:m], self.weights[:m], **self.more(slice(0, m)))
        self.trim()

    def more(self, new):
        more = {"ids": [("row", i) for i in range(new.start, new.stop)]} if self.own_ids else {}
        return more | ({"times": self.times[new]} if self.by == "age" else {})

    def trim(self):
        if self.by == "count":
            self.kept = self.kept[-int(self.size) :]
        else:
            self.kept = self.kept[self.times[self.kept] > self.times[self.arrived - 1] - self.size]

    def learn(self, count, method="learn"):
        new = slice(self.arrived, self.arrived + count)
        self.kept, held = np.append(self.kept, np.arange(new.start, new.stop)), self.kept
        X = self.X[new]
        if self.kernel == "precomputed":
            X = precomputed_kernel(X, np.vstack([self.X[held], X]))
        step = getattr(self.window, method)
        assert step(X, self.y[new], sample_weight=self.weights[new], **self.more(new)) is self.window
        self.arrived += count
        self.trim()

    def at(self, X=PROBES):
        return precomputed_kernel(X, self.X[self.kept]) if self.kernel == "precomputed" else X

    def values(self):
        return values(self.window.estimator_, self.at())

    def fit_weights(self):
        """Return what each row should weigh in the problem now: its own weight, halved with its age."""
        if self.half_life is None:
            return self.weights[self.kept]
        moments = self.times if self.by == "age" else np.arange(160.0)
        ages = moments[self.arrived - 1] - moments[self.kept]
        return self.weights[self.kept] * 2.0 ** (-ages / self.half_life)

    def assert_exact(self, left_out=False):
        """Assert that the window holds the record's rows and equals a fresh fit of them."""
        names = [("row", i) for i in self.kept.tolist()] if self.own_ids else self.kept.tolist()
        assert self.window.ids_.tolist() == names
        if self.by == "age":
            assert self.window.times_.tolist() == self.times[self.kept].tolist()
        else:
            assert self.window.times_ is None
        X, k = self.X[self.kept], self.kept
        given = precomputed_kernel(X, X) if self.kernel == "precomputed" else X
        fresh = histories.resolved(self.window.estimator_).fit(given, self.y[k], self.fit_weights())
        np.testing.assert_allclose(self.values(), values(fresh, self.at()), rtol=0, atol=1e-8)
        if left_out:
            mine, theirs = histories.loo_values(self.window.estimator_), histories.loo_values(fresh)
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-7)
