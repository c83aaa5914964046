"""Models that learn and forget, beside a plain record of the rows that they must equal.

A `History` sends each request to a model and to its record. `fresh()` is the model that never saw anything
but the record: the same estimator, fitted on those rows, with the numbers that were resolved at `fit`.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import scipy.sparse as sp

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from support import oracle, problems

N_COLUMNS = 4
#: Rows at which decision values are compared; one of them is far from all others.
PROBES = np.vstack([np.random.default_rng(99).normal(size=(11, N_COLUMNS)), 6.0 * np.ones((1, N_COLUMNS))])
EPS = np.finfo(float).eps

#: Every estimator, away from its default parameters, where a number that gets lost would show.
ESTIMATORS = {
    "LSSVC": (LSSVC, {"C": 3.0}),
    "LSSVC-balanced": (LSSVC, {"C": 3.0, "class_weight": "balanced"}),
    "LSSVC-no-bias": (LSSVC, {"C": 3.0, "fit_intercept": False}),
    "RelaxedLSSVC": (RelaxedLSSVC, {"C": 5.0, "A": 0.3}),
    "ProximalSVC": (ProximalSVC, {"C": 0.7}),
    "ProximalSVC-balanced": (ProximalSVC, {"C": 0.7, "class_weight": "balanced"}),
    "RLSSVC": (RLSSVC, {"C": 2.0}),
    "RLSSVC-balanced": (RLSSVC, {"C": 2.0, "class_weight": "balanced"}),
    "LagrangianSVC": (LagrangianSVC, {"C": 2.0, "A": 0.5}),
    "LagrangianSVC-augment": (LagrangianSVC, {"C": 2.0, "augment": True}),
    "LSSVR": (LSSVR, {"C": 10.0}),
}
#: One of each class.
PLAIN = ["LSSVC", "RelaxedLSSVC", "ProximalSVC", "RLSSVC", "LagrangianSVC", "LSSVR"]


def _rows(X):
    return np.asarray(X)


def _wide(X):
    """Return more columns than there will be rows: linear models then hold K."""
    mix = np.random.default_rng(7).normal(size=(N_COLUMNS, 90)) / 10
    return np.hstack([X @ mix, np.sin(X @ mix * 20)])


def precomputed_kernel(X, Z):
    """Return the kernel values that a caller computes beforehand."""
    return oracle.kernel_matrix("rbf", X, Z, gamma=0.15)


#: Name to (parameters of the estimator, what it is given in place of plain rows).
KERNELS = {
    "rbf": ({"kernel": "rbf"}, _rows),
    "rbf-sparse": ({"kernel": "rbf"}, sp.csr_matrix),
    "linear": ({"kernel": "linear"}, _rows),
    "linear-sparse": ({"kernel": "linear"}, sp.csr_matrix),
    "linear-wide": ({"kernel": "linear"}, _wide),
    "poly": ({"kernel": "poly", "degree": 2, "coef0": 0.5}, _rows),
    "laplacian": ({"kernel": "laplacian"}, _rows),
    "callable": ({"kernel": problems.cauchy}, _rows),
    "precomputed": ({"kernel": "precomputed"}, _rows),
}


def is_regression(name):
    return ESTIMATORS[name][0] is LSSVR


def is_hinge(name):
    return ESTIMATORS[name][0] in (RLSSVC, LagrangianSVC)


def estimator(name, kernel, **more):
    """Return an unfitted estimator with a tolerance that leaves only rounding."""
    cls, parameters = ESTIMATORS[name]
    return cls(**{"tol": 1e-10, **parameters, **KERNELS[kernel][0], **more})


def data(kind, m, seed):
    """Return m rows, and labels of two or three classes, or values, that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, N_COLUMNS))
    score = X[:, 0] + 0.4 * X[:, 1] ** 2 + 0.5 * rng.normal(size=m)
    if kind == "regression":
        return X, 5.0 + np.sin(2 * score)
    if kind == "binary":
        return X, np.where(score > 0.4, "yes", "no")
    return X, np.array(["low", "mid", "high"])[np.digitize(score, [-0.1, 0.9])]


def weights_with_zeros(m, seed):
    """Return weights between 0.5 and 2, a few of them zero."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2.0, m)
    weights[rng.integers(m, size=max(1, m // 12))] = 0.0
    return weights


def combinations():
    """Return (estimator, kernel, kind) for all that fit together; variants with fewer kernels."""
    for name in ESTIMATORS:
        every = KERNELS if name in PLAIN else ["rbf", "linear", "linear-wide", "precomputed"]
        if name == "LagrangianSVC-augment":
            every = [kernel for kernel in KERNELS if kernel != "precomputed"]  # It needs the rows.
        for kernel in every:
            for kind in ["regression"] if is_regression(name) else ["binary", "multi"]:
                yield name, kernel, kind


def values(model, X):
    """Return what the model computes, before labels hide small differences."""
    return model.predict(X) if isinstance(model, LSSVR) else model.decision_function(X)


def loo_values(model):
    return model.loo_predict() if isinstance(model, LSSVR) else model.loo_decision_function()


def resolved(model):
    """Return the unfitted estimator with the numbers that the fit resolved in place of words."""
    parameters = model.get_params()
    parameters["C"] = model.C_
    if "gamma" in parameters and hasattr(model, "gamma_"):
        parameters["gamma"] = model.gamma_
    if parameters.get("class_weight") is not None:
        pairs = zip(model.classes_.tolist(), model.class_weight_.tolist(), strict=True)
        parameters["class_weight"] = dict(pairs)
    return type(model)(**parameters)


class History:
    """A model and the record of the rows that it should hold, in order."""

    def __init__(self, model, kernel, X, y, weights=None, ids=None):
        self.kernel, self.form = kernel, KERNELS[kernel][1]
        self.X, self.y = X, y
        self.weights = np.ones(len(X)) if weights is None else weights
        self.numbered = ids is None
        self.ids = list(range(len(X))) if ids is None else list(ids)
        self.arrived = len(X)
        self.model = model.fit(self._given(X), y, sample_weight=self.weights, ids=ids)

    def _given(self, X):
        """Return training rows as the estimator takes them."""
        return precomputed_kernel(X, X) if self.kernel == "precomputed" else self.form(X)

    def at(self, X):
        """Return rows to predict as the estimator takes them."""
        return precomputed_kernel(X, self.X) if self.kernel == "precomputed" else self.form(X)

    def forget(self, ids):
        receipt = self.model.forget(ids)
        keep = [i for i, name in enumerate(self.ids) if name not in set(ids)]
        self.X, self.y, self.weights = self.X[keep], self.y[keep], self.weights[keep]
        self.ids = [self.ids[i] for i in keep]
        return receipt

    def learn(self, X, y, weights=None, ids=None):
        weights = np.ones(len(X)) if weights is None else weights
        together = np.vstack([self.X, X])
        given = precomputed_kernel(X, together) if self.kernel == "precomputed" else self.form(X)
        self.model.learn(given, y, sample_weight=weights, ids=ids)
        self.X, self.y = together, np.concatenate([self.y, y])
        self.weights = np.concatenate([self.weights, weights])
        self.ids += list(range(self.arrived, self.arrived + len(X))) if ids is None else list(ids)
        self.arrived += len(X)

    def fresh(self, rows=slice(None)):
        """Return the fit of the record, or of some of its rows, with the same resolved numbers."""
        X = self.X[rows]
        return resolved(self.model).fit(self._given(X), self.y[rows], sample_weight=self.weights[rows])

    def may_forget(self, ids):
        """Return whether every class keeps a row that counts, and some row does."""
        stay = [i for i, name in enumerate(self.ids) if name not in set(ids) and self.weights[i] > 0]
        counted = self.weights > 0
        if isinstance(self.model, LSSVR):
            return len(stay) > 0
        return set(self.y[stay]) == set(self.y[counted])

    def error(self, probes=PROBES):
        """Return how far decision values are from those of a fresh fit."""
        X = self.at(probes)
        mine, theirs = values(self.model, X), values(self.fresh(), X)
        assert mine.shape == theirs.shape
        return float(np.abs(mine - theirs).max())

    def condition(self):
        """Return cond(H) of the rows that count."""
        state = self.model._state
        problem = state.problem
        everyone = np.arange(problem.n_rows)
        A = problem.bias.penalty
        return oracle.condition(problem.operator.block(everyone, everyone), problem.costs, A)

    def assert_as_if_never_seen(self):
        """Assert that the model equals the fresh fit in every number, and holds the record's rows."""
        assert self.model.ids_.tolist() == self.ids
        error = self.error()
        if error > 1e-8:
            assert error <= 100 * EPS * self.condition()
        certificate = self.model.certificate_
        assert certificate.status in ("converged", "precision"), certificate


def begin(name, kernel, kind=None, m=24, **parameters):
    """Return the history of a fit, weighted, whose classes have rows all over: a group takes none of them."""
    kind = kind or ("regression" if is_regression(name) else "binary")
    X, y = data(kind, m, seed=0)
    if kind != "regression":  # No class may leave with a group.
        labels = ["yes", "no"] if kind == "binary" else ["low", "mid", "high"]
        y = np.where(np.arange(m) % 2, y, np.resize(labels, m))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, m)
    if kernel != "precomputed":  # Kernel values of such rows are not kept there.
        weights[[7, 10]] = 0.0
    return History(estimator(name, kernel, **parameters), kernel, X, y, weights)


def pickled(model):
    """Return a model as a pickle, without its receipts: they have times, and hashes under a random key."""
    other = copy.copy(model)
    inner = other.__dict__.get("estimator_", other)
    if inner is not other:  # A Window.
        inner = other.estimator_ = copy.copy(inner)
    count = None if inner._log is None else inner._log.count
    inner._log = None
    return count, pickle.dumps(other)
