"""Residual, gap and objective of a fitted public estimator, from their definitions, in extended precision.

The referee is given the rows that a model should hold and reads nothing else of the model than its public
numbers: ``dual_coef_`` on ``support_``, ``coef_``, ``intercept_``, ``C_``, ``gamma_``, ``class_weight_`` and
its parameters. Kernel values are computed from differences of rows, in ``np.longdouble``, so that neither a
store that has drifted nor distances that cancel can hide from it. `exact` solves the same problem in 50
digits by the suite's oracle, where the optimum itself is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal, localcontext

import numpy as np
import scipy.sparse as sp

from squaresvm import LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from support.shared import oracle

LONG = np.longdouble
EPS = float(np.finfo(np.float64).eps)
FREE, NONE = oracle.FREE, oracle.NONE


@dataclass(frozen=True)
class Truth:
    """What the certificate should say: worst column's residual; gap and objective summed over columns."""

    residual: float
    gap: float
    objective: float
    decision: np.ndarray
    scale: float
    rounding: float


@dataclass(frozen=True)
class Model:
    """A fitted estimator as the mathematics sees it: K and costs of the rows of positive weight."""

    K: np.ndarray
    targets: np.ndarray
    costs: np.ndarray
    hinge: bool
    A: float
    beta: np.ndarray
    bias: np.ndarray
    weights: np.ndarray
    proximal: bool
    coef: np.ndarray | None
    X: np.ndarray | None
    held: np.ndarray


# From the estimator to its problem -------------------------------------------------------------------


def is_hinge(model):
    return isinstance(model, RLSSVC | LagrangianSVC)


def is_regression(model):
    return isinstance(model, LSSVR)


def penalty(model):
    """Return A: 0 for a free bias, infinity for none."""
    if not model.fit_intercept:
        return NONE
    if getattr(model, "augment", False):
        return 1.0 if model.kernel == "linear" else NONE
    if isinstance(model, RelaxedLSSVC | LagrangianSVC):
        return float(model.A)
    return 1.0 if isinstance(model, ProximalSVC) else FREE


def dense(X):
    return np.asarray(X.toarray() if sp.issparse(X) else X)


def kernel_matrix(model, X, Z):
    """Return k(x, z) for all pairs of rows in extended precision; a callable's values as they come."""
    kernel = model.kernel
    if callable(kernel):
        return np.asarray(dense(kernel(X, Z)), dtype=LONG)
    X, Z = dense(X).astype(LONG), dense(Z).astype(LONG)
    if kernel == "linear":
        return X @ Z.T
    gamma = LONG(model.gamma_)
    if kernel in ("rbf", "laplacian"):
        apart = np.abs(X[:, None, :] - Z[None, :, :])
        return np.exp(-gamma * (apart**2 if kernel == "rbf" else apart).sum(axis=2))
    coef0 = LONG(model.coef0) + (gamma if getattr(model, "augment", False) else 0)
    inner = gamma * (X @ Z.T) + coef0
    return inner**model.degree if kernel == "poly" else np.tanh(inner)


def encoded(model, y):
    """Return a column of +1 and -1 for each class (one for two); values as they are."""
    y = np.asarray(y)
    if is_regression(model):
        return y.astype(LONG).reshape(len(y), -1)
    classes = model.classes_
    if len(classes) == 2:
        return np.where(y == classes[1], LONG(1), LONG(-1))[:, None]
    return np.where(y[:, None] == classes, LONG(1), LONG(-1))


def row_weights(model, y, weights, weight_of=None):
    """Return sample weight times class weight, by default the model's own, of each row."""
    if is_regression(model) or model.class_weight is None:
        return np.asarray(weights, dtype=LONG)
    if weight_of is None:
        weight_of = dict(zip(model.classes_.tolist(), model.class_weight_.tolist(), strict=True))
    return np.asarray(weights, dtype=LONG) * np.array([weight_of.get(v, 1.0) for v in np.asarray(y).tolist()])


def problem_of(model, X, y, weights=None, K=None, class_weight=None):
    """Return what the model should be the optimum of, with the numbers that it holds.

    Parameters
    ----------
    model : fitted estimator
    X : rows that the model should hold, in the order of ``ids_``; for a precomputed kernel their values
    y, weights : their labels and sample weights
    K : kernel values of the rows in extended precision, where they are at hand
    class_weight : dict of the weights that classes should have; by default those that the model says
    """
    weights = np.ones(len(y)) if weights is None else weights
    all_weights = row_weights(model, y, weights, class_weight)
    held = np.flatnonzero(all_weights > 0)
    if K is None:
        K = dense(X).astype(LONG) if model.kernel == "precomputed" else kernel_matrix(model, X, X)
    K = K[np.ix_(held, held)]
    targets = encoded(model, y)[held]
    expansion = np.zeros((len(y), targets.shape[1]), dtype=LONG)
    linear = model.kernel == "linear"
    if hasattr(model, "dual_coef_"):  # A model that was fitted from a stream has none.
        expansion[model.support_] = np.atleast_2d(model.dual_coef_).T
    return Model(
        K=K,
        targets=targets,
        costs=LONG(model.C_) * all_weights[held],
        hinge=is_hinge(model),
        A=penalty(model),
        beta=expansion[held],
        bias=np.atleast_1d(np.asarray(model.intercept_, dtype=LONG)),
        weights=all_weights[held],
        proximal=isinstance(model, ProximalSVC) and not linear,
        coef=np.atleast_2d(model.coef_).astype(LONG).T if linear else None,
        X=dense(X).astype(LONG)[held] if linear else None,
        held=held,
    )


# The definitions of docs/family.rst ---------------------------------------------------------------------


def _slack(p, decision):
    error = p.targets - decision
    return np.where(p.targets * error < 0, LONG(0), error) if p.hinge else error


def _scale(p):
    largest = np.abs(p.targets).max(axis=0)
    return np.where(largest > 0, largest, LONG(1)) if not p.hinge else np.ones_like(largest)


def _row_defect(p, product, beta):
    return product + beta / p.costs[:, None] + p.bias - p.targets


def _residual(p, product, beta):
    """Return rows and bias, the larger of the two, of each column."""
    defect = _row_defect(p, product, beta)
    if p.hinge:
        h = np.diagonal(p.K) + 1 / p.costs + (0 if p.A in (FREE, NONE) else 1 / LONG(p.A))
        defect = np.minimum(h[:, None] * p.targets * beta, p.targets * defect)
    rows = np.abs(defect).max(axis=0) / _scale(p)
    if p.A == NONE:
        return rows
    pull = LONG(p.A) * p.bias
    size = np.abs(pull) + np.abs(beta).sum(axis=0)
    return np.maximum(rows, np.abs(pull - beta.sum(axis=0)) / np.where(size > 0, size, 1))


def _feasible(p, beta):
    """Return a point of the dual's feasible set beside beta."""
    if not p.hinge:
        return beta - beta.mean(axis=0) if p.A == FREE else beta
    size = np.maximum(p.targets * beta, 0)
    if p.A == FREE:
        up = np.where(p.targets > 0, size, 0).sum(axis=0)
        down = np.where(p.targets < 0, size, 0).sum(axis=0)
        lighter = np.minimum(up, down)
        shrink = [np.divide(lighter, s, out=np.zeros_like(s), where=s > 0) for s in (up, down)]
        size = size * np.where(p.targets > 0, shrink[0], shrink[1])
    return p.targets * size


def _objective(p, norm, decision):
    loss = (p.costs[:, None] * _slack(p, decision) ** 2).sum(axis=0)
    pull = 0 if p.A in (FREE, NONE) else LONG(p.A) * p.bias**2
    return (norm + loss + pull) / 2


def _dual(p, K, beta):
    """Return the dual objective of feasible multipliers: no model has a lower primal one."""
    inner = (beta * (K @ beta)).sum(axis=0) + (beta**2 / p.costs[:, None]).sum(axis=0)
    if p.A not in (FREE, NONE):
        inner = inner + beta.sum(axis=0) ** 2 / LONG(p.A)
    return (p.targets * beta).sum(axis=0) - inner / 2


def judge(p):
    """Return the truth about a model."""
    if p.proximal:
        return _judge_proximal(p)
    product = p.K @ p.beta
    through_beta = _verdict(p, product, p.beta, (p.beta * product).sum(axis=0))
    if p.coef is None:
        return through_beta
    # What a linear model says is w'x + b, whatever its multipliers say. But one in w has no multipliers of
    # its own, and C times its slack stands for them: of residual and gap, the kinder reading counts.
    through_w = judge_in_w(p)
    dual = _dual(p, p.K, _feasible(p, p.beta))
    return replace(
        through_w,
        residual=min(through_w.residual, through_beta.residual),
        gap=min(through_w.gap, through_w.objective - float(dual.sum())),
    )


def judge_in_w(p):
    """Return the truth about a linear model from w and b alone, with beta_i = C_i times slack."""
    decision = p.X @ p.coef + p.bias
    beta = p.costs[:, None] * _slack(p, decision)
    return _verdict(p, p.K @ beta, beta, (p.coef**2).sum(axis=0), decision=decision)


def _verdict(p, product, beta, norm, decision=None):
    decision = product + p.bias if decision is None else decision
    objective = _objective(p, norm, decision)
    gap = objective - _dual(p, p.K, _feasible(p, beta))
    size = (np.abs(p.K) @ np.abs(beta) + np.abs(beta) / p.costs[:, None] + np.abs(p.bias)).max(axis=0)
    return Truth(
        residual=float(_residual(p, product, beta).max()),
        gap=float(gap.sum()),
        objective=float(objective.sum()),
        decision=decision,
        scale=float(_scale(p).max()),
        rounding=float(EPS * ((size + _scale(p)) / _scale(p)).max()),
    )


def _judge_proximal(p):
    """Return the truth about f = k(x, X) a + b with a = W K beta, from a and b alone.

    beta is not public. But any multipliers of residual r have sum C_i (f - f*)_i^2 <= sum C_i r_i^2, where f*
    is the optimum: the weighted root mean square of f - f* is a residual that no beta can undercut.
    """
    decision = p.K @ p.beta + p.bias
    KWK = p.K @ (p.weights[:, None] * p.K)
    H = KWK + (0 if p.A == NONE else 1 / LONG(p.A)) + np.diag(1 / p.costs)
    best = eliminate(H, p.targets)
    off = decision - (p.targets - best / p.costs[:, None])
    rms = np.sqrt((p.costs[:, None] * off**2).sum(axis=0) / p.costs.sum()) / _scale(p)
    objective = _objective(p, (p.beta**2 / p.weights[:, None]).sum(axis=0), decision)
    size = (np.abs(p.K) @ np.abs(p.beta)).max(axis=0) + (KWK @ np.abs(best)).max(axis=0)
    return Truth(
        residual=float(rms.max()),
        gap=float((objective - _dual(p, KWK, best)).sum()),
        objective=float(objective.sum()),
        decision=decision,
        scale=float(_scale(p).max()),
        rounding=float(EPS * ((size + _scale(p)) / _scale(p)).max()),
    )


def eliminate(matrix, right):
    """Return inv(matrix) right of a positive definite matrix, in extended precision."""
    a = np.concatenate([matrix, right], axis=1)
    n = len(matrix)
    for k in range(n):
        a[k + 1 :, k:] -= (a[k + 1 :, k] / a[k, k])[:, None] * a[k, k:]
    x = a[:, n:]
    for k in reversed(range(n)):
        x[k] = (x[k] - a[k, k + 1 : n] @ x[k + 1 :]) / a[k, k]
    return x


def truth(model, X, y, weights=None, K=None):
    """Return the truth about a fitted estimator that should hold the rows X, y."""
    return judge(problem_of(model, X, y, weights, K))


def truth_in_w(model, X, y, weights=None):
    """Return the truth about a linear model from ``coef_`` and ``intercept_`` alone."""
    return judge_in_w(problem_of(model, X, y, weights))


def exact(model, X, y, weights=None):
    """Return the optimum in 50 digits, an `oracle.Answer` a column of targets.

    K goes to the oracle with all its digits: rounded to float64 it would not be positive semidefinite at
    large scales, and the oracle's answer that of another problem.
    """
    return exact_of(problem_of(model, X, y, weights))


def exact_of(p):
    """Return the optimum of a problem in 50 digits."""
    with localcontext() as context:
        context.prec = oracle.DIGITS
        K = _decimals(p.X) @ _decimals(p.X).T if p.X is not None else _decimals(p.K)
        if p.proximal:
            K = K @ (_decimals(p.weights)[:, None] * K)
        return [_solved(p, K, column) for column in p.targets.astype(np.float64).T]


def _decimals(values):
    """Return numbers in extended precision as decimals, without a digit lost."""
    high = values.astype(np.float64)
    low = (values - high).astype(np.float64)
    flat = [Decimal(float(a)) + Decimal(float(b)) for a, b in zip(high.ravel(), low.ravel(), strict=True)]
    return np.array(flat, dtype=object).reshape(values.shape)


def _solved(p, K, y):
    dual = oracle._Dual(p.K.astype(np.float64), y, p.costs.astype(np.float64), p.A, exact=True)
    dual.K, dual.costs = K, _decimals(p.costs)
    dual.H = K + np.diag(1 / dual.costs)
    loss = oracle.HINGE if p.hinge else oracle.SQUARED
    if p.hinge:
        beta, bias, _ = dual.non_negative(dual.first_rows())
    else:
        beta, bias = dual.equalities(list(range(len(y))))
    assert oracle._residual(dual, beta, bias, loss) < Decimal("1e-20"), "the oracle itself failed"
    decision = dual.K @ beta + bias
    objective = oracle._objective(dual, beta, bias, decision, loss)
    return oracle.Answer(beta.astype(np.float64), float(bias), decision.astype(np.float64), float(objective))


def reach(p):
    """Return how far f can move at each row for a gap g, of sqrt(2 g).

    The squared loss has curvature C_i at each row. The squared hinge has none beyond the margin: there it is
    |w|^2 / 2, and A b^2 / 2, that hold f, so that it moves by up to |(x, 1 / sqrt(A))|.
    """
    by_loss = 1 / np.sqrt(p.costs.astype(float))
    if not p.hinge:
        return by_loss
    inside = np.diagonal(p.K).astype(float) + (0.0 if p.A in (FREE, NONE) else 1 / p.A)
    return np.maximum(by_loss, np.sqrt(np.maximum(inside, 0.0)))
