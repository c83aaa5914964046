r"""Residual, objective, gap and a bound on decision values, from their definitions.

With m rows, targets y, costs C_i and f(x) = w'phi(x) + b, a model should minimise

    P(w, b) = 1/2 |w|^2 + A/2 b^2 + 1/2 sum C_i xi_i^2                                                    (1)

with xi_i = y_i - f_i (squared loss) or y_i max(0, 1 - y_i f_i) (squared hinge), A = 0 where the bias is free
and b = 0 where there is none (A infinite). Multipliers beta stand for w = sum beta_i phi(x_i); a model in w
stands for beta_i = C_i xi_i. At the optimum r = K beta + beta / C + b - y vanishes, and

    residual    the larger of   |r|_inf / max|y|  (squared loss),  |min(h y beta, y r)|_inf  (hinge)      (2)
                and             |A b - 1'beta| / (A |b| + |beta|_1)  (where there is a bias)
                with h_i = K_ii + 1/C_i (+ 1/A where the bias is penalised), max|y| = 1 for classes.

**Gap.** Let beta be feasible: y_i beta_i >= 0 for the hinge, 1'beta = 0 where the bias is free. The dual
objective D = y'beta - 1/2 beta'(K + 1/C) beta - (1'beta)^2 / (2 A) is at most P*, the least value of (1).
Completing squares, with v = sum beta_i phi(x_i),

    P(w, b) - D(beta) = 1/2 |w - v|^2 + 1/2 sum C_i (xi_i - beta_i / C_i)^2
                        + sum |beta_i| max(0, y_i f_i - 1)  [hinge]  + (A b - 1'beta)^2 / (2 A)           (3)

where no term is negative, so that no digits are lost. It is taken at the model's own beta, moved to the
nearest feasible point that is simple: wrong signs are cut off, and where the bias is free beta is centred
(squared loss), or its heavier side scaled down (hinge).

**Bound.** Let G be the gap, (w*, b*) the optimum, d f = f - f*, and t_i = 1 - y_i f_i. As the gradient of
(1) vanishes at the optimum, P(w, b) - P* is at least 1/2 |w - w*|^2 + A/2 (b - b*)^2 plus what the losses
are above their tangents at f*. For the squared loss that is C_i/2 (d f_i)^2. For the hinge it is as much
where t_i and t*_i are positive, and C_i/2 t_i^2 where t_i > 0 > t*_i; so it is at least
C_i/2 min(|d f_i|, t_i)^2, and at a row with t_i > sqrt(2 G / C_i) the smaller of both must be |d f_i|, or
that row alone would exceed G. With S these rows (all rows for the squared loss) and P(w, b) - P* <= G,

    |w - w*|^2 + A (b - b*)^2 + sum over S of C_i (d f_i)^2 <= 2 G.                                       (4)

Hence at a row of S |d f_i|^2 <= 2 G / C_i. Where the bias is penalised or absent d f(x) is the product of
(w - w*, sqrt(A) (b - b*)) and (phi(x), 1 / sqrt(A)), so |d f(x)|^2 <= 2 G (k(x, x) + 1/A), for any x. For any
bias, a free one too, let c be the mean of phi and d of d f over S, weighted by C_i, and C_S their sum.
Then d f(x) = (w - w*)'(phi(x) - c) + d, and C_S d^2 is at most the sum in (4), so for any x

    |d f(x)|^2 <= 2 G (|phi(x) - c|^2 + 1 / C_S),  |phi(x) - c| <= sqrt(k(x, x)) + max over S sqrt(K_ii).  (5)

The bound that is given is the largest over the rows, each by the best of these, plus the rounding of f in
float64. Where the bias is free and S is empty there is none. All of this needs a semidefinite kernel.

**Rounding.** A certificate is computed in float64. What its sums and products may have lost is bounded by
`UNIT` times the sizes of what they are made of; (2) and the root of (3) change by no more than their parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.typing import BoolArray, FloatArray
from squaresvm.verifier.kernel_values import KernelValues
from squaresvm.verifier.wide import Wide

__all__ = [
    "NEGLIGIBLE",
    "OWN",
    "UNIT",
    "Reach",
    "Truth",
    "bias_residual",
    "gap_rounding_of",
    "is_penalised",
    "judge_multipliers",
    "scale_of",
    "slack",
]

#: Rounding errors of float64, per unit of the sizes that they are made of, that a certificate may have.
UNIT = 8 * float(np.finfo(np.float64).eps)
#: How much smaller the verifier's own rounding is.
OWN = 2.0**-36
#: Squared distances below this a certificate may give by an upper bound.
NEGLIGIBLE = 1e-24


@dataclass(frozen=True, eq=False)
class Truth:
    """What is true of every column of targets; arrays of shape (k,)."""

    residual: FloatArray
    gap: FloatArray
    objective: FloatArray
    residual_rounding: FloatArray
    gap_rounding: FloatArray
    objective_rounding: FloatArray
    decision_error: FloatArray
    rows: int


def slack(y: FloatArray, error: Wide, is_hinge: bool) -> Wide:
    """Return the signed slack."""
    return error.where(y * error.hi > 0.0) if is_hinge else error


def scale_of(largest: FloatArray, has_labels: bool) -> FloatArray:
    """Return what residuals are measured by: max|y|, 1 for labels."""
    return np.ones_like(largest) if has_labels else np.where(largest > 0.0, largest, 1.0)


def bias_residual(A: float, b: FloatArray, total: Wide, size: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return A b - 1'beta, and its share of A |b| + |beta|_1; zeros where there is no bias."""
    if np.isinf(A):
        return np.zeros_like(b), np.zeros_like(b)
    violation = (Wide.of(b) * A - total).hi
    scale = A * np.abs(b) + size
    return violation, np.divide(np.abs(violation), scale, out=np.zeros_like(scale), where=scale > 0.0)


def is_penalised(A: float) -> bool:
    """Return whether there is a bias that costs something."""
    return 0.0 < A < np.inf


def gap_rounding_of(terms: FloatArray, noise: FloatArray, beyond: FloatArray) -> FloatArray:
    """Return how much the gap may change by noise in the vectors whose squares are the terms of (3)."""
    return np.asarray(np.sqrt(terms) * noise + 0.5 * noise**2 + beyond + 0.5 * UNIT * terms)


# How far decision values can be off --------------------------------------------------------------------


@dataclass(frozen=True)
class Reach:
    """What (4) and (5) need of one column.

    `gap` is G, `total` C_S, `loosest` the largest 1 / C_i in S; `inside` and `outside` are the largest K_ii
    in S and of the other rows, -1 where there are none.
    """

    gap: float
    total: float
    inside: float
    outside: float
    loosest: float

    @classmethod
    def of(cls, costs: FloatArray, norms: FloatArray, room: FloatArray, gap: float) -> Reach:
        """Return it for rows; `room` is t_i, infinite for the squared loss."""
        certain: BoolArray = room > np.sqrt(2.0 * gap / costs)
        inside, outside = (float(norms[part].max(initial=-1.0)) for part in (certain, ~certain))
        loosest = float((1.0 / costs[certain]).max(initial=0.0))
        return cls(float(gap), float(costs[certain].sum()), inside, outside, loosest)

    def joined(self, other: Reach) -> Reach:
        """Return it for the rows of both."""
        return Reach(
            self.gap,
            self.total + other.total,
            max(self.inside, other.inside),
            max(self.outside, other.outside),
            max(self.loosest, other.loosest),
        )

    def bound(self, A: float) -> float:
        """Return the bound on |f - f*| at the rows."""
        found = 0.0
        if self.inside >= 0.0:
            found = min(self.loosest, self._anywhere(self.inside, A))
        if self.outside >= 0.0:
            found = max(found, self._anywhere(self.outside, A))
        return float(np.sqrt(2.0 * self.gap * found)) if self.gap > 0.0 else 0.0

    def _anywhere(self, norm: float, A: float) -> float:
        found = np.inf if A == 0.0 else norm + 1.0 / A
        if self.total > 0.0:
            found = min(found, 1.0 / self.total + (np.sqrt(norm) + np.sqrt(self.inside)) ** 2)
        return float(found)


# Models in multipliers ---------------------------------------------------------------------------------


def judge_multipliers(kernel: KernelValues) -> tuple[Truth, tuple[Wide, FloatArray] | None]:
    """Return what is true of multipliers, and of a proximal SVM W K beta and its rounding."""
    at, (_, y, weights) = kernel.of, kernel.of.problem
    costs, A, is_hinge, b, beta = (at.C * weights)[:, None], at.A, at.is_hinge, at.bias, at.beta
    assert beta is not None
    k = beta.shape[1]
    step = _step(y, beta, is_hinge, A == 0.0)
    moves = bool(step.any())
    both = np.hstack([beta, step]) if moves else beta
    values, sizes = kernel.times(both)
    norms, expansion = np.maximum(kernel.diagonal.hi, 0.0), None
    if at.proximal:
        inner, sizes = values * weights[:, None], weights[:, None] * sizes
        expansion = inner[:, :k], UNIT * sizes[:, :k]
        values, sizes = kernel.times(inner, sizes)
        norms = norms * float(weights @ norms)  # (K W K)_ii <= K_ii sum_l w_l K_ll, by Cauchy and Schwarz.
    product_, lost = values[:, :k], sizes[:, :k]
    f = product_ + b
    error = y - f
    xi = slack(y, error, is_hinge)
    share = Wide.of(beta) / costs
    r = share - error
    rounding = UNIT * (lost + np.abs(share.hi) + np.abs(b) + np.abs(y))
    size, total = np.abs(beta).sum(axis=0), Wide.total(beta)
    # The residual.
    scale = scale_of(np.abs(y).max(axis=0), is_hinge)
    if is_hinge:
        h = kernel.diagonal.hi[:, None] + 1.0 / costs + (1.0 / A if is_penalised(A) else 0.0)
        rows = np.abs(np.minimum(h * y * beta, y * r.hi)).max(axis=0)
        rows_lost = np.maximum(rounding, UNIT * np.abs(h * beta)).max(axis=0)
    else:
        rows, rows_lost = np.abs(r.hi).max(axis=0) / scale, rounding.max(axis=0) / scale
    _, of_bias = bias_residual(A, b, total, size)
    # The objective.
    penalty = A * b**2 if np.isfinite(A) else np.zeros_like(b)
    loss = (xi * xi * costs).sums()
    norm = (product_ * beta).sums()
    objective = 0.5 * (norm + loss + penalty)
    objective_lost = (np.abs(beta) * rounding + costs * rounding * (np.abs(xi.hi) + rounding)).sum(axis=0)
    objective_lost = 2.0 * objective_lost + UNIT * (np.abs(norm) + loss + penalty)
    # The gap, by (3).
    feasible = Wide.of(beta) - step
    mismatch = xi - feasible / costs
    terms = (mismatch * mismatch * costs).sums()
    if moves:
        terms = terms + np.maximum((values[:, k:] * step).sums(), 0.0)
    beyond = np.zeros_like(terms)
    if is_hinge:
        over = (-(error * y)).where(y * error.hi < 0.0)
        terms = terms + 2.0 * (over * feasible.size).sums()
        beyond = (np.abs(feasible.hi) * np.where(-y * error.hi > -rounding, rounding, 0.0)).sum(axis=0)
    of_step = UNIT * size * np.sqrt(norms.max())
    of_total = np.zeros_like(b)
    if is_penalised(A):
        terms = terms + bias_residual(A, b, Wide.total(feasible), size)[0] ** 2 / A
        of_total = UNIT * (A * np.abs(b) + size) / np.sqrt(A)
    noise = np.sqrt((costs * rounding**2).sum(axis=0)) + of_step + of_total
    gap = 0.5 * terms
    room = np.abs(xi.hi) if is_hinge else np.full_like(beta, np.inf)
    own = gap_rounding_of(terms, OWN * noise, OWN * beyond)
    reach = [Reach.of(costs[:, 0], norms, room[:, j], gap[j] + own[j]) for j in range(k)]
    truth = Truth(
        residual=np.maximum(rows, of_bias),
        gap=gap,
        objective=objective,
        residual_rounding=np.maximum(rows_lost, 0.0 if np.isinf(A) else UNIT),
        gap_rounding=gap_rounding_of(terms, noise, beyond) + NEGLIGIBLE,
        objective_rounding=objective_lost,
        decision_error=np.array([each.bound(A) for each in reach]) + rounding.max(axis=0),
        rows=int(y.shape[0]),
    )
    return truth, expansion


def _step(y: FloatArray, beta: FloatArray, is_hinge: bool, is_free: bool) -> FloatArray:
    """Return beta less the feasible point beside it; in float64, as it is next to nothing."""
    if not is_hinge:
        mean = Wide.total(beta) / float(beta.shape[0])
        return np.broadcast_to(mean.hi, beta.shape) if is_free else np.zeros_like(beta)
    right = np.where(y * beta > 0.0, beta, 0.0)
    if not is_free:
        return beta - right
    up, down = Wide.total(np.maximum(right, 0.0)), Wide.total(np.maximum(-right, 0.0))
    lighter = np.minimum(up.hi, down.hi)
    # 1 - lighter / heavier, from the difference of both: a quotient near one would lose its digits.
    surplus = np.abs((up - down).hi)
    share = np.divide(surplus, lighter + surplus, out=np.zeros_like(lighter), where=lighter + surplus > 0.0)
    heavy = np.where((up - down).hi > 0.0, right > 0.0, right < 0.0)
    return np.asarray((beta - right) + np.where(heavy, share * right, 0.0))
