"""Problems for the tests: data of several kinds, every way to reach K, and optima known by construction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from squaresvm.kernels import Kernel
from squaresvm.operators import (
    DenseOperator,
    LinearOperator,
    PrecomputedOperator,
    ProximalOperator,
)
from squaresvm.problem import Bias, Loss, Problem
from support import oracle

LOSSES = {oracle.SQUARED: Loss.SQUARED, oracle.HINGE: Loss.SQUARED_HINGE}
#: Penalties A of the bias by name; 0.3 because at A = 1 a lost factor A would not show.
BIASES = {"free": oracle.FREE, "penalised": 0.3, "none": oracle.NONE}


def bias_of(A):
    """Return the package's bias of penalty A, by the constructor a user would call."""
    if A == oracle.FREE:
        return Bias.free()
    return Bias.none() if A == oracle.NONE else Bias.penalised(A)


# Rows and labels ---------------------------------------------------------------------------------------


def rows(kind="random", m=20, n=3, seed=0):
    """Return m rows of n columns: 'random', 'duplicated', 'constant' (a column) or 'deficient' (rank 2)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    if kind == "duplicated":
        X[m // 2 :] = X[: m - m // 2]
    elif kind == "constant":
        X[:, 0] = 3.0
    elif kind == "deficient":
        X = X[:, :2] @ rng.normal(size=(2, n))
    return X


def signs(X, noise=0.8, seed=0):
    """Return labels +1 and -1, both present, that no plane separates as a rule."""
    rng = np.random.default_rng(seed)
    score = X @ rng.normal(size=X.shape[1]) + noise * rng.normal(size=len(X))
    y = np.where(score > np.median(score), 1.0, -1.0)
    y[np.argmax(score)], y[np.argmin(score)] = 1.0, -1.0
    return y


def weights_of(kind, m, seed=0):
    """Return weights of 1 ('equal'), or drawn from 0.1 to 10 ('mixed')."""
    rng = np.random.default_rng(seed)
    return np.ones(m) if kind == "equal" else 10.0 ** rng.uniform(-1, 1, m)


# Every way to reach K ----------------------------------------------------------------------------------


def cauchy(X, Z):
    """Return 1 / (1 + |x - z|^2), a kernel that only a callable gives."""
    return 1.0 / (1.0 + ((np.asarray(X)[:, None] - np.asarray(Z)[None]) ** 2).sum(axis=2))


#: Parameters away from their defaults, so that one that is dropped shows.
PARAMETERS = {
    "rbf": {"gamma": 0.4},
    "poly": {"gamma": 0.7, "degree": 2, "coef0": 0.5},
    "cubic": {"gamma": 0.5, "degree": 3, "coef0": 0.0},
    "sigmoid": {"gamma": 0.05, "coef0": 0.3},
    "laplacian": {"gamma": 0.3},
}


@dataclass(frozen=True)
class Case:
    """One way to reach K: the operator of the package, and K from its definition."""

    operator: object
    K: np.ndarray


def _named(name):
    function = "poly" if name == "cubic" else name

    def build(X, weights):
        parameters = PARAMETERS[name]
        operator = DenseOperator(Kernel(function, **parameters), X)
        return Case(operator, oracle.kernel_matrix(function, X, X, **parameters))

    return build


def _linear(convert):
    return lambda X, weights: Case(LinearOperator(convert(X)), oracle.kernel_matrix("linear", X, X))


def _wide(X, weights):
    # More columns than rows: nothing is gained by working on w, so K is held like any other.
    wide = np.hstack([X, np.random.default_rng(1).normal(size=(len(X), len(X)))]) / 2
    operator = DenseOperator(Kernel("linear"), wide)
    return Case(operator, oracle.kernel_matrix("linear", wide, wide))


def _precomputed(X, weights):
    K = cauchy(X, X)
    return Case(PrecomputedOperator(K), K)


def _proximal(X, weights):
    inner = _named("rbf")(X, weights)
    return Case(ProximalOperator(inner.operator, weights), inner.K @ np.diag(weights) @ inner.K)


CASES = {
    "linear": _linear(np.asarray),
    "linear-sparse": _linear(sp.csr_matrix),
    "linear-wide": _wide,
    "rbf": _named("rbf"),
    "poly": _named("poly"),
    "cubic": _named("cubic"),
    "sigmoid": _named("sigmoid"),
    "laplacian": _named("laplacian"),
    "callable": lambda X, weights: Case(DenseOperator(Kernel(cauchy), X), cauchy(X, X)),
    "precomputed": _precomputed,
    "proximal": _proximal,
}


def problem_of(operator, y, costs, loss, A):
    """Return the package's problem for one column of targets, or several."""
    targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    return Problem(operator, targets, np.asarray(costs), LOSSES[loss], bias_of(A))


# Optima known by construction --------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """A linear problem with rows Z, and the multipliers and bias that solve it."""

    Z: np.ndarray
    y: np.ndarray
    costs: np.ndarray
    loss: str
    A: float
    beta: np.ndarray
    bias: float

    @property
    def K(self):
        return self.Z @ self.Z.T

    @property
    def problem(self):
        """The problem with K as given."""
        return problem_of(PrecomputedOperator(self.K), self.y, self.costs, self.loss, self.A)


def known(loss, A, C=1.0, m=16, n=5, seed=0):
    """Return a problem that is built around its optimum."""
    build = _known_squared if loss == oracle.SQUARED else _known_hinge
    return build(np.random.default_rng(seed), A, C, m, n)


def _bias_from(rng, A, beta):
    """Return b: any number where free, 1'beta / A where penalised, 0 where absent."""
    if A == oracle.FREE:
        return float(rng.normal())
    return 0.0 if A == oracle.NONE else float(beta.sum() / A)


def _known_squared(rng, A, C, m, n):
    """Choose rows, costs, beta and b; y = K beta + beta / C + b makes them optimal."""
    Z, costs = rng.normal(size=(m, n)), C * rng.uniform(0.5, 2.0, m)
    beta = min(C, 1.0) * rng.normal(size=m)
    if A == oracle.FREE:
        beta -= beta.mean()
    b = _bias_from(rng, A, beta)
    return Known(Z, Z @ (Z.T @ beta) + beta / costs + b, costs, oracle.SQUARED, A, beta, b)


def _known_hinge(rng, A, C, m, n):
    """Choose labels, costs, beta and b, then rows that have the margins which these ask for.

    Support rows need y f = 1 - |beta| / C. With unit vector u and rows z_i = a_i u + v_i, where v_i is
    orthogonal to u and sum beta_i v_i = 0, w = omega u and f_i = omega a_i + b; so a_i = (f_i - b) / omega,
    and w = Z'beta asks that omega^2 = sum beta_i (f_i - b). Other rows take any y f > 1.
    """
    support, y = 2 * (m // 3), np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    costs = C * rng.uniform(0.5, 2.0, m)
    size = min(C, 1.0) * rng.uniform(0.1, 0.4, m)
    size[support:] = 0.0
    if A == oracle.FREE:
        size[1:support:2] *= size[0:support:2].sum() / size[1:support:2].sum()
    else:
        size[1:support:2] = 0.9 * size[0:support:2]  # All but balanced, or 1'beta / A outgrows the margins.
    beta = y * size
    b = 0.3 if A == oracle.FREE else _bias_from(rng, A, beta)
    f = y * np.where(size > 0, 1.0 - size / costs, 1.0 + rng.uniform(0.1, 2.0, m))
    omega = np.sqrt(beta @ (f - b))
    v = rng.normal(size=(m, n - 1))
    v[0] -= beta @ v / beta[0]
    Z = np.column_stack([(f - b) / omega, v])
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return Known(Z @ turn, y, costs, oracle.HINGE, A, beta, b)
