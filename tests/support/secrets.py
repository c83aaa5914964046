"""A row whose every number can be found again: what must be gone once it is forgotten."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm import RLSSVC, LagrangianSVC
from support import histories
from support.histories import PLAIN, PROBES, History, data
from support.remains import Remains

ROW = np.array([1.2345678987654321, -0.7182818284590451, 0.5772156649015329, 2.6854520010653064])


WEIGHT, VALUE = 1.6180339887498949, 7.3890560989306495


LABEL, ID = "label-of-the-one-who-left", "id-of-the-one-who-left"


KERNELS = ["rbf", "rbf-sparse", "linear", "linear-wide", "poly", "callable", "precomputed"]


CASES = [(name, kernel) for name in PLAIN for kernel in KERNELS]


M, PLACE = 20, 6


@dataclass
class Secret:
    """A fitted model, and what must not be found in it."""

    history: History
    row: np.ndarray
    kernel_values: np.ndarray
    derived: list

    @property
    def model(self):
        return self.history.model


def prepared(name, kernel, arrives):
    """Return a model that holds the row, with every cache filled, and some requests behind it."""
    kind = "regression" if histories.is_regression(name) else "multi"
    X, y = data(kind, M, seed=0)
    y = y if kind == "regression" else np.where(y == "mid", "low", y).astype("<U40")
    weights = np.linspace(0.5, 1.5, M)
    X[PLACE], y[PLACE], weights[PLACE] = ROW, VALUE if kind == "regression" else LABEL, WEIGHT
    ids = [f"row {i}" for i in range(M)]
    ids[PLACE] = ID
    others = np.delete(np.arange(M), PLACE)
    estimator = histories.estimator(name, kernel)
    if arrives == "fit":
        history = History(estimator, kernel, X, y, weights, ids)
    else:
        chosen = [ids[i] for i in others]
        history = History(estimator, kernel, X[others], y[others], weights[others], chosen)
        history.forget(["row 3"])
        one = [PLACE]
        history.learn(X[one], y[one], weights[one], [ID])
    derived = of_the_factor(history)  # As of now: the store of a proximal model stays what it is at first.
    use_everything(history)
    derived += of_the_factor(history)
    secret = Secret(history, row_given(history), kernel_values(history, X[others]), derived)
    before = Remains(history.model)  # A search that finds nothing later must find it all now.
    assert before.text(ID)
    assert before.number(WEIGHT)
    assert kernel == "precomputed" or all(before.number(value) for value in secret.row)
    return secret


def use_everything(history):
    """Ask for all that a model computes on demand and may keep."""
    model = history.model
    _ = (model.certificate_, model.support_, model.support_vectors_, model.dual_coef_, model.intercept_)
    model.predict(history.at(PROBES))
    if not isinstance(model, RLSSVC | LagrangianSVC):  # Those solve anew for each row, and keep nothing.
        histories.loo_values(model)
    if hasattr(model, "predict_proba"):
        model.predict_proba(history.at(PROBES))
    model.score(history.at(history.X), history.y)
    model.forget([history.ids[0]])
    history.X, history.y, history.weights = history.X[1:], history.y[1:], history.weights[1:]
    history.ids = history.ids[1:]


def row_given(history):
    """Return some numbers of the row as the model holds them, in every bit."""
    if history.kernel != "linear-wide":
        return ROW
    rows = history.model._state.rows
    return rows.X[rows.ids.values.tolist().index(ID)][:6]


def kernel_values(history, X):
    """Return k(row, x) for each x."""
    if history.kernel == "precomputed":
        return histories.precomputed_kernel(ROW[None], X)[0]
    kernel = history.model._state.settings.kernel
    return kernel(history.form(ROW[None]), history.form(X))[0]


def of_the_factor(history):
    """Return numbers that a factor may hold of the row: of inv(H), as corrections scale it, and of L."""
    state = history.model._state
    problem, place = state.problem, history.ids.index(ID)
    everyone = np.arange(problem.n_rows)
    K = problem.operator.block(everyone, everyone)
    H = K + np.diag(problem.ridge)
    column, others = np.linalg.inv(H)[:, place], everyone != place
    numbers = [column[others], column[others] / np.sqrt(column[place]), np.linalg.cholesky(H)[place, :place]]
    if state.settings.proximal:
        numbers.append(K[place])  # K W K', in which the row is a landmark as well.
    return [1.0 / (state.settings.C * WEIGHT), *np.concatenate(numbers)]
