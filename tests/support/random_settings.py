"""Random estimators and rows: every family, kernel, wrapper, weighting, and sizes over many decades."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from squaresvm import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    RLSSVC,
    LagrangianSVC,
    OneVsOne,
    ProximalSVC,
    RelaxedLSSVC,
    Window,
)
from support.shared import problems

ESTIMATORS = [LSSVC, LSSVC, LSSVR, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC]
KERNELS = ["linear", "rbf", "poly", "laplacian", "precomputed", "callable"]
#: Tables as people have them; most are plain.
TABLES = ["sparse", "wide", "wide and sparse", "duplicates", "constant column", "shifted"]
SOLVERS = {
    "squared": ["direct", "cg", "2smo", "sumt", "penalty-flow", "substitution"],
    "hinge": ["active-set", "newton", "sesquismo", "lagrangian"],
}
N_COLUMNS, N_WIDE = 3, 80
M_LEAST, M_MOST = 3, 60


@dataclass
class Setting:
    """What a random history or fit is about, and how to draw more rows of it."""

    model: object
    kernel: str
    classes: int
    scale: float
    weighted: float
    class_weight: object
    rng: np.random.Generator = field(repr=False)
    wrapper: str = "plain"
    table: str = "plain"
    words: str = ""

    @property
    def has_solver(self):
        """Whether a solver was asked for by name."""
        return "solver=" in self.words

    def rows(self, m):
        """Return m rows, labels of all classes in turn or values, and sample weights."""
        rng = self.rng
        X = rng.normal(size=(m, N_COLUMNS))
        score = X[:, 0] + 0.4 * X[:, 1] ** 2 + 0.5 * rng.normal(size=m)
        if self.classes == 0:
            y = 2.0 + np.sin(2 * score)
        else:
            y = np.digitize(score, [0.4] if self.classes == 2 else [-0.1, 0.9])
        weights = np.ones(m)
        if self.weighted:
            weights = 10.0 ** rng.uniform(-self.weighted, self.weighted, m)
            weights[rng.random(m) < 0.05] = 0.0
        return self._shaped(X) * self.scale, y, weights

    def _shaped(self, X):
        """Return the columns as this table has them."""
        if "wide" in self.table:
            words = self.rng.normal(size=(len(X), N_WIDE)) * (self.rng.random((len(X), N_WIDE)) < 0.1)
            return np.hstack([X, words])
        if self.table == "duplicates":
            return np.round(X)
        if self.table == "constant column":
            return np.hstack([X, np.full((len(X), 1), 3.0)])
        if self.table == "shifted":
            return X + 1e6
        return np.where(np.abs(X) < 0.5, 0.0, X) if self.table == "sparse" else X

    def first_rows(self, m):
        """Return rows to fit on: each class has two that count."""
        X, y, weights = self.rows(m)
        for label in range(self.classes):
            places = [label, -1 - label] if m >= 2 * self.classes else [label]
            y[places] = label
            weights[places] = np.where(weights[places] > 0, weights[places], 1.0)
        if not np.any(weights > 0):
            weights[0] = 1.0
        return X, y, weights

    def given(self, X, Z):
        """Return kernel values between rows as a caller with a precomputed kernel has them, or the rows."""
        if self.kernel == "precomputed":
            return problems.cauchy(X / self.scale, Z / self.scale)
        return sp.csr_array(X) if "sparse" in self.table else X


def _decades(rng, wild, width):
    """Return a size: near 1, or anywhere over 2 `width` decades."""
    return float(10.0 ** (rng.uniform(-width, width) if wild else rng.uniform(-1, 3)))


def random_setting(seed, wild=None, wrappers=True):
    """Return the setting of a seed."""
    rng = np.random.default_rng(seed)
    wild = rng.random() < 0.4 if wild is None else wild
    cls = ESTIMATORS[rng.integers(len(ESTIMATORS))]
    kernel = KERNELS[rng.integers(len(KERNELS))]
    classes = 0 if cls is LSSVR else int(rng.integers(2, 4))
    parameters = {"C": _decades(rng, wild and rng.random() < 0.5, 10), "kernel": kernel}
    scale = _decades(rng, True, 8) if wild and rng.random() < 0.5 else 1.0
    if kernel == "callable":
        parameters["kernel"], scale = problems.cauchy, 1.0
    if kernel == "poly":
        parameters.update(degree=int(rng.integers(2, 4)), coef0=float(rng.integers(0, 2)))
    if cls in (RelaxedLSSVC, LagrangianSVC):
        parameters["A"] = _decades(rng, True, 8) if wild else float(10.0 ** rng.uniform(-1, 1))
    if cls is not LSSVR:
        parameters["class_weight"] = _class_weight(rng, classes, wild)
    if rng.random() < 0.15:
        parameters["fit_intercept"] = False
    if cls is LagrangianSVC and kernel not in ("precomputed", "callable") and rng.random() < 0.2:
        parameters.update(augment=True, A=1.0, fit_intercept=True)
    if not wild and rng.random() < 0.15:
        names = SOLVERS["hinge" if cls in (LagrangianSVC, RLSSVC) else "squared"]
        parameters["solver"] = names[rng.integers(len(names))]
    model, wrapper = cls(**parameters), "plain"
    if wrappers:
        model, wrapper = _wrapped(rng, model, kernel, classes, parameters)
    weighted = 0.0 if rng.random() < 0.5 else (6.0 if wild and rng.random() < 0.5 else 0.7)
    table = TABLES[rng.integers(len(TABLES))] if rng.random() < 0.4 and kernel != "callable" else "plain"
    words = f"{model!r} {table} scale={scale:.1e} weighted={weighted} classes={classes}".replace("\n", " ")
    class_weight = parameters.get("class_weight")
    return Setting(model, kernel, classes, scale, weighted, class_weight, rng, wrapper, table, words)


def _class_weight(rng, classes, wild):
    draw = rng.random()
    if draw < 0.6:
        return None
    if draw < 0.75:
        return "balanced"
    width = 3 if wild else 1
    return {label: float(10.0 ** rng.uniform(-width, width)) for label in range(classes)}


def _wrapped(rng, model, kernel, classes, parameters):
    draw = rng.random()
    if draw < 0.15:
        return Window(model, size=int(rng.integers(8, 40))), "window"
    if draw < 0.3 and classes == 3 and kernel != "precomputed":
        return OneVsOne(model), "pairs"
    if draw < 0.4 and type(model) is LSSVC:
        searched = LSSVCCV(Cs=[0.1, 10.0], kernel=parameters["kernel"], class_weight=model.class_weight)
        if kernel == "poly":
            searched.set_params(degree=model.degree, coef0=model.coef0)
        return searched, "search"
    return model, "plain"


def resolved(model, class_weight):
    """Return the unfitted plain estimator with the numbers that the fit resolved in place of words."""
    kind = LSSVC if isinstance(model, LSSVCCV) else type(model)
    names = kind._get_param_names()
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name in names}
    parameters["C"] = model.C_
    if not callable(model.kernel) and model.kernel not in ("linear", "precomputed"):
        parameters["gamma"] = model.gamma_
    if class_weight is not None:
        present = set(model.classes_.tolist())
        parameters["class_weight"] = {k: v for k, v in class_weight.items() if k in present}
    return kind(**parameters)
