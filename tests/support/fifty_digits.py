"""Residual, objective and gap of numbers that are taken for a model, in 50 digits, line by line from theory.

Plain and slow, in mpmath; the gap is the difference of both objectives, whatever cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath
import numpy as np

DIGITS = 50
FREE, NONE = 0.0, np.inf


@dataclass(frozen=True)
class Exact:
    """Of one column of targets; 50 digits."""

    residual: mpmath.mpf
    objective: mpmath.mpf
    gap: mpmath.mpf
    dual: mpmath.mpf


def kernel_matrix(name, X, gamma=1.0, degree=3, coef0=0.0):
    """Return k(x, z) for all pairs of rows."""
    with mpmath.workdps(DIGITS):
        rows = [[mpmath.mpf(float(v)) for v in row] for row in np.asarray(X)]
        gamma, coef0 = mpmath.mpf(float(gamma)), mpmath.mpf(float(coef0))

        def value(x, z):
            if name == "rbf":
                return mpmath.exp(-gamma * sum((a - b) ** 2 for a, b in zip(x, z, strict=True)))
            if name == "laplacian":
                return mpmath.exp(-gamma * sum(abs(a - b) for a, b in zip(x, z, strict=True)))
            inner = sum(a * b for a, b in zip(x, z, strict=True))
            if name == "linear":
                return inner
            return (gamma * inner + coef0) ** degree if name == "poly" else mpmath.tanh(gamma * inner + coef0)

        return mpmath.matrix([[value(x, z) for z in rows] for x in rows])


def proximal(K, weights):
    """Return K W K."""
    with mpmath.workdps(DIGITS):
        return K * mpmath.diag([mpmath.mpf(float(w)) for w in weights]) * K


def _vector(values):
    return [mpmath.mpf(float(v)) for v in values]


def _feasible(y, beta, hinge, A):
    m = len(beta)
    if not hinge:
        mean = sum(beta) / m if A == FREE else 0
        return [v - mean for v in beta]
    kept = [v if v * t > 0 else mpmath.mpf(0) for v, t in zip(beta, y, strict=True)]
    if A != FREE:
        return kept
    up, down = sum(v for v in kept if v > 0), -sum(v for v in kept if v < 0)
    least = min(up, down)
    return [v * (least / up if v > 0 else least / down) if v else v for v in kept]


def judge(K, y, costs, hinge, A, beta, b, scale=None):
    """Return the truth of multipliers and bias."""
    with mpmath.workdps(DIGITS):
        y, costs, beta, b = _vector(y), _vector(costs), _vector(beta), mpmath.mpf(float(b))
        Kb = list(K * mpmath.matrix(beta))
        f = [v + b for v in Kb]
        norm = sum(p * q for p, q in zip(beta, Kb, strict=True))
        return _judged(K, y, costs, hinge, A, beta, b, f, norm, scale)


def judge_linear(Z, y, costs, hinge, A, w, b, scale=None):
    """Return the truth of w and b, which stand for beta = C xi."""
    K = kernel_matrix("linear", Z)
    with mpmath.workdps(DIGITS):
        rows = [_vector(row) for row in np.asarray(Z)]
        y, costs, w, b = _vector(y), _vector(costs), _vector(w), mpmath.mpf(float(b))
        f = [sum(p * q for p, q in zip(row, w, strict=True)) + b for row in rows]
        beta = [c * s for c, s in zip(costs, _slack(y, f, hinge), strict=True)]
        return _judged(K, y, costs, hinge, A, beta, b, f, sum(v * v for v in w), scale)


def _slack(y, f, hinge):
    error = [t - v for t, v in zip(y, f, strict=True)]
    return [e if not hinge or e * t > 0 else mpmath.mpf(0) for e, t in zip(error, y, strict=True)]


def _judged(K, y, costs, hinge, A, beta, b, f, norm, scale):
    m = len(y)
    penalty = mpmath.mpf(0) if A in (FREE, NONE) else mpmath.mpf(float(A))
    curvature = 0 if A in (FREE, NONE) else 1 / penalty
    r = [v + beta[i] / costs[i] + b - y[i] for i, v in enumerate(K * mpmath.matrix(beta))]
    if hinge:
        h = [K[i, i] + 1 / costs[i] + curvature for i in range(m)]
        rows = max(abs(min(h[i] * y[i] * beta[i], y[i] * r[i])) for i in range(m))
    else:
        rows = max(abs(v) for v in r) / (scale or max(abs(t) for t in y))
    size = penalty * abs(b) + sum(abs(v) for v in beta)
    of_bias = 0 if A == NONE or size == 0 else abs(penalty * b - sum(beta)) / size
    xi = _slack(y, f, hinge)
    objective = (norm + penalty * b * b + sum(c * s * s for c, s in zip(costs, xi, strict=True))) / 2
    v = _feasible(y, beta, hinge, A)
    quadratic = sum(p * q for p, q in zip(v, K * mpmath.matrix(v), strict=True))
    quadratic += sum(p * p / c for p, c in zip(v, costs, strict=True)) + curvature * sum(v) ** 2
    dual = sum(p * t for p, t in zip(v, y, strict=True)) - quadratic / 2
    return Exact(max(rows, of_bias), objective, objective - dual, dual)
