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
    """What (4) and (5) need of one column: K_ii and C_i of the rows in S and of the others.

    Parameters
    ----------
    gap : float
    total : float
        C_S.
    inside, outside : float
        The largest K_ii in S, and of the other rows; -1 where there are none.
    loosest : float
        The largest 1 / C_i in S.
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
        return cls(
            float(gap),
            float(costs[certain].sum()),
            float(norms[certain].max(initial=-1.0)),
            float(norms[~certain].max(initial=-1.0)),
            float((1.0 / costs[certain]).max(initial=0.0)),
        )

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
