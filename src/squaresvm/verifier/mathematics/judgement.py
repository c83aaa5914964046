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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from squaresvm.typing import FloatArray
from squaresvm.verifier.mathematics.kernel_values import KernelValues
from squaresvm.verifier.mathematics.subject import Rows, Subject
from squaresvm.verifier.mathematics.wide import Wide, product

__all__ = ["Passes", "Tally", "Truth", "joined", "judge_multipliers", "judge_primal"]

#: Rounding errors of float64, per unit of the sizes that they are made of, that a certificate may have.
UNIT = 8 * float(np.finfo(np.float64).eps)
#: How much smaller the verifier's own rounding is.
OWN = 2.0**-36
#: Squared distances below this a certificate may give by an upper bound.
NEGLIGIBLE = 1e-24

#: What was found of some rows, by name: sums, and largest values where the name begins so.
Tally: TypeAlias = dict[str, Any]
#: Makes a pass: what a task says of all rows, piece by piece, joined.
Passes: TypeAlias = Callable[[Callable[[Rows], Tally]], Tally]


@dataclass(frozen=True, eq=False)
class Truth:
    """What is true of every column of targets, arrays of shape (k,), and rounding that a claim may have."""

    residual: FloatArray
    gap: FloatArray
    objective: FloatArray
    residual_rounding: FloatArray
    gap_rounding: FloatArray
    objective_rounding: FloatArray
    decision_error: FloatArray
    rows: int


def joined(one: Tally, other: Tally) -> Tally:
    """Return what two pieces of the rows say together."""
    pairs = ((name, value, other[name]) for name, value in one.items())
    return {name: np.maximum(a, b) if name.startswith("largest") else a + b for name, a, b in pairs}


# The definitions, row by row ---------------------------------------------------------------------------


def _slack(of: Subject, y: FloatArray, error: Wide) -> Wide:
    """Return the signed xi of y - f."""
    return error.where(y * error.hi > 0.0) if of.is_hinge else error


def _h(of: Subject, K_ii: FloatArray, costs: FloatArray) -> FloatArray:
    return K_ii[:, None] + 1.0 / costs + (1.0 / of.A if of.bias_cost > 0.0 else 0.0)


def _violations(of: Subject, h: FloatArray, y: FloatArray, beta: Wide, r: Wide) -> FloatArray:
    """Return what (2) takes of rows, before it is divided by max|y|."""
    return np.abs(np.minimum(h * y * beta.hi, y * r.hi) if of.is_hinge else r.hi)


def _sides(of: Subject, y: FloatArray, beta: Wide) -> Tally:
    """Return the sums of what is positive, and of what is negative, in beta with wrong signs cut off."""
    right = beta.where(y * beta.hi > 0.0) if of.is_hinge else beta
    up, down = right.where(right.hi > 0.0).total(), (-right).where(right.hi < 0.0).total()
    return {"up": up, "down": down, "m": y.shape[0]}


def _step(of: Subject, y: FloatArray, beta: FloatArray, *, up: Wide, down: Wide, m: int) -> FloatArray:
    """Return beta less the feasible point beside it, by the sides of all m rows; next to nothing."""
    surplus = (up - down).hi if of.A == 0.0 else np.zeros_like(of.bias)
    if not of.is_hinge:
        return np.broadcast_to(surplus / m, beta.shape)
    right = np.where(y * beta > 0.0, beta, 0.0)
    # 1 - lighter / heavier, from the difference of both: a quotient near one would lose its digits.
    share = _share(np.abs(surplus), np.maximum(up.hi, down.hi))
    return np.asarray((beta - right) + np.where((surplus > 0.0) == (right > 0.0), share * right, 0.0))


def _gap_of_rows(of: Subject, y: FloatArray, costs: FloatArray, error: Wide, feasible: Wide) -> Wide:
    """Return twice what (3) adds up over rows."""
    mismatch = _slack(of, y, error) - feasible / costs
    terms = (mismatch * mismatch * costs).total()
    if of.is_hinge:
        terms = terms + ((-(error * y)).where(y * error.hi < 0.0) * feasible.size).total() * 2.0
    return terms


def _reach(of: Subject, costs: FloatArray, K_ii: FloatArray, xi: Wide, gap: FloatArray) -> Tally:
    """Return what (4) and (5) need: C_S, the largest 1 / C_i and K_ii in S, and the largest K_ii outside."""
    in_S = np.abs(xi.hi) > np.sqrt(2.0 * gap / costs) if of.is_hinge else np.ones(xi.hi.shape, dtype=bool)
    return {
        "C_S": np.where(in_S, costs, 0.0).sum(axis=0),
        "largest_ridge": np.where(in_S, 1.0 / costs, 0.0).max(axis=0),
        "largest_inside": np.where(in_S, K_ii[:, None], -1.0).max(axis=0),  # -1 where there are none.
        "largest_outside": np.where(in_S, -1.0, K_ii[:, None]).max(axis=0),
    }


# The same of all rows, from a tally --------------------------------------------------------------------


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0.0)


def _violation(of: Subject, total: Wide) -> FloatArray:
    """Return A b - 1'beta, zero where there is no bias."""
    return (Wide.of(of.bias) * of.A - total).hi if of.has_bias else np.zeros_like(of.bias)


def _gap_terms(of: Subject, of_rows: Wide, apart: Wide, total: Wide) -> FloatArray:
    """Return twice the gap by (3): from its sum over rows, |w - v|^2, and 1'beta."""
    of_bias = _violation(of, total) ** 2 / of.A if of.bias_cost > 0.0 else 0.0
    return np.asarray(of_rows.hi + np.maximum(apart.hi, 0.0) + of_bias)


def _gap_rounding(found: Tally, share: float = 1.0) -> FloatArray:
    """Return how much the gap may change by noise in the vectors whose squares are the terms of (3)."""
    terms, noise = found["terms"], share * found["noise"]
    return np.asarray(np.sqrt(terms) * noise + 0.5 * noise**2 + share * found["beyond"] + 0.5 * UNIT * terms)


def _most(found: Tally) -> FloatArray:
    """Return G of (4): the gap, with all that the verifier's own rounding may hide of it."""
    return np.asarray(0.5 * found["terms"] + _gap_rounding(found, OWN))


def _bound(of: Subject, found: Tally) -> FloatArray:
    """Return the bound on |f - f*| at the rows, by (4) and (5)."""
    G, inside = _most(found), found["largest_inside"]
    by_S = np.divide(1.0, found["C_S"], out=np.full_like(G, np.inf), where=found["C_S"] > 0.0)

    def anywhere(K_ii: FloatArray) -> FloatArray:
        by_bias = K_ii + 1.0 / of.A if of.A > 0.0 else np.inf
        by_mean = by_S + (np.sqrt(np.maximum(K_ii, 0.0)) + np.sqrt(np.maximum(inside, 0.0))) ** 2
        return np.where(K_ii < 0.0, 0.0, np.minimum(by_bias, by_mean))

    most = np.maximum(
        np.minimum(found["largest_ridge"], anywhere(inside)), anywhere(found["largest_outside"])
    )
    return np.sqrt(np.multiply(2.0 * G, most, out=np.zeros_like(G), where=G > 0.0))


def _truth(of: Subject, found: Tally) -> Truth:
    """Return what is true, from all that was found."""
    b, A, y, norm, loss = of.bias, of.bias_cost, found["largest_y"], found["norm"].hi, found["loss"].hi
    size, penalty = A * np.abs(b) + found["size"], A * b**2
    scale = np.ones_like(y) if of.are_classes else np.where(y > 0.0, y, 1.0)
    of_bias, of_bias_lost = (
        _share(part, size) for part in (np.abs(_violation(of, found["total"])), found["total_lost"])
    )
    return Truth(
        residual=np.maximum(found["largest_r"] / scale, of_bias),
        gap=0.5 * found["terms"],
        objective=0.5 * (norm + loss + penalty),
        residual_rounding=np.maximum(found["largest_r_lost"] / scale, of.has_bias * of_bias_lost),
        gap_rounding=_gap_rounding(found) + NEGLIGIBLE,
        objective_rounding=2.0 * found["lost"] + UNIT * (np.abs(norm) + loss + penalty),
        decision_error=_bound(of, found) + found["largest_f_lost"],
        rows=int(found["rows"]),
    )


# Models in multipliers ---------------------------------------------------------------------------------


def judge_multipliers(kernel: KernelValues) -> tuple[Truth, tuple[Wide, FloatArray] | None]:
    """Return what is true of multipliers, and W K beta, by which a proximal SVM decides, with rounding."""
    of, y, weights, k = kernel.of, kernel.rows.targets, kernel.rows.weights[:, None], kernel.of.bias.size
    costs, beta = of.C * weights, Wide.of(of.beta)
    step = _step(of, y, beta.hi, **_sides(of, y, beta))
    values, sizes = kernel.times(np.hstack([beta.hi, step]))
    K_ii, expansion = np.maximum(kernel.diagonal.hi, 0.0), None
    if of.proximal:
        inner, sizes = values * weights, weights * sizes
        expansion = inner[:, :k], UNIT * sizes[:, :k]
        values, sizes = kernel.times(inner, sizes)
        K_ii = K_ii * (weights[:, 0] @ K_ii)  # (K W K)_ii <= K_ii sum_l w_l K_ll, by Cauchy and Schwarz.
    w, feasible = values[:, :k], beta - step
    error = y - (w + of.bias)
    xi, ridge, size = _slack(of, y, error), beta / costs, np.abs(beta.hi).sum(axis=0)
    h, r = _h(of, kernel.diagonal.hi, costs), ridge - error
    lost = UNIT * (sizes[:, :k] + np.abs(ridge.hi) + np.abs(of.bias) + np.abs(y))
    total_lost = UNIT * (of.bias_cost * np.abs(of.bias) + size)
    noise = np.sqrt((costs * lost**2).sum(axis=0)) + UNIT * size * np.sqrt(K_ii.max())
    near = lost * (-y * error.hi > -lost) if of.is_hinge else 0.0
    apart = (values[:, k:] * step).total()
    found = {
        "rows": y.shape[0],
        "total": beta.total(),
        "size": size,
        "norm": (w * beta).total(),
        "loss": (xi * xi * costs).total(),
        "terms": _gap_terms(of, _gap_of_rows(of, y, costs, error, feasible), apart, feasible.total()),
        "largest_y": np.abs(y).max(axis=0),
        "largest_r": _violations(of, h, y, beta, r).max(axis=0),
        # What float64 may have lost of these, and of f.
        "largest_r_lost": (np.maximum(lost, UNIT * np.abs(h * beta.hi)) if of.is_hinge else lost).max(axis=0),
        "largest_f_lost": lost.max(axis=0),
        "total_lost": total_lost,
        "lost": (np.abs(beta.hi) * lost + costs * lost * (np.abs(xi.hi) + lost)).sum(axis=0),
        "noise": noise + (total_lost / np.sqrt(of.A) if of.bias_cost > 0.0 else 0.0),
        "beyond": (np.abs(feasible.hi) * near).sum(axis=0),
    }
    found |= _reach(of, costs, K_ii, xi, _most(found))
    return _truth(of, found), expansion


# Models in w, whose rows are reached by passes ---------------------------------------------------------


def _seen(of: Subject, rows: Rows) -> tuple[FloatArray, FloatArray, Wide, Wide]:
    """Return C_i, the size of what f is made of, y - f and xi."""
    assert of.w is not None
    error = rows.targets - (product(rows.Z, of.w.T) + of.bias)
    size = np.asarray(abs(rows.Z) @ np.abs(of.w)) + np.abs(of.bias) + np.abs(rows.targets)
    return of.C * rows.weights[:, None], size, error, _slack(of, rows.targets, error)


def _squares(rows: Rows) -> FloatArray:
    """Return K_ii."""
    return np.asarray((rows.Z.multiply(rows.Z) if sp.issparse(rows.Z) else rows.Z**2).sum(axis=1)).ravel()


def _sides_of(of: Subject, rows: Rows) -> Tally:
    """Return the sums of the multipliers on both sides."""
    costs, _, _, xi = _seen(of, rows)
    return _sides(of, rows.targets, xi * costs)


def _sums_of(of: Subject, sides: Tally | None, rows: Rows) -> Tally:
    """Return Z'beta, for beta and the feasible point beside it, and all sums that need no more."""
    y, (costs, size, error, xi) = rows.targets, _seen(of, rows)
    across = rows.Z.T.tocsr() if sp.issparse(rows.Z) else np.ascontiguousarray(rows.Z.T)
    beta = feasible = xi * costs
    if sides is not None:
        feasible = beta - _step(of, y, beta.hi, **sides)
    near = np.where(np.abs(xi.hi) > 0.0, size, 0.0) if of.is_hinge else size
    parts = costs * near + np.abs(beta.hi)
    return {
        "rows": costs.size,
        "pull": product(across, beta.T),
        "pull_feasible": product(across, feasible.T),
        "total": beta.total(),
        "size": np.abs(beta.hi).sum(axis=0),
        "loss": (xi * beta).total(),
        "of_rows": _gap_of_rows(of, y, costs, error, feasible),
        "largest_y": np.abs(y).max(axis=0),
        # Sizes of what these are made of, and what rounding of 1'beta moves.
        "pull_size": np.asarray(abs(across) @ parts),
        "total_size": parts.sum(axis=0),
        "loss_size": (costs * np.abs(xi.hi) * near).sum(axis=0),
        "ridge": float((1.0 / costs).sum()),
        "distance": float(np.sqrt(_squares(rows)).sum()),
    }


def _conditions_of(of: Subject, away: Wide, away_lost: FloatArray, gap: FloatArray, rows: Rows) -> Tally:
    """Return the worst row by (2), its rounding, that of f, and the reach; `away` is Z'beta - w."""
    y, (costs, size, error, xi), K_ii = rows.targets, _seen(of, rows), _squares(rows)
    pull, h = product(rows.Z, away.T), _h(of, K_ii, costs)
    r = pull - (error - xi)  # Z Z'beta + b + beta / C - y, where beta is C xi.
    worst = _violations(of, h, y, xi * costs, r)
    lost = np.asarray(abs(rows.Z) @ away_lost) + UNIT * (np.abs(pull.hi) + size)
    if of.is_hinge:  # Where beta is next to zero, h beta takes part.
        lost = lost + UNIT * size * h * costs * (worst < np.abs(y * r.hi))
    of_f = {"largest_f_lost": UNIT * size.max(axis=0), **_reach(of, costs, K_ii, xi, gap)}
    return {"largest_r": worst.max(axis=0), "largest_r_lost": lost.max(axis=0), **of_f}


def judge_primal(of: Subject, over: Passes) -> Truth:
    """Return what is true of a model in w: two passes over its rows, three where the bias is free."""
    assert of.w is not None
    sides = over(partial(_sides_of, of)) if of.A == 0.0 else None
    found = over(partial(_sums_of, of, sides))
    away, away_feasible = found["pull"] - of.w, found["pull_feasible"] - of.w
    away_lost = UNIT * (found["pull_size"] + np.abs(of.w))
    total_lost = UNIT * (found["total_size"] + of.bias_cost * np.abs(of.bias))
    noise = np.sqrt(np.square(away_lost).sum(axis=0))
    if of.bias_cost > 0.0:
        noise = noise + total_lost / np.sqrt(of.A)
    elif of.has_bias:  # What rounding of 1'beta does to the feasible point.
        noise = noise + total_lost * (np.sqrt(found["ridge"]) + found["distance"]) / found["rows"]
        pull = np.sqrt(np.square(found["pull_size"]).sum(axis=0))
        noise = noise + _share(total_lost, found["size"]) * pull
    apart = (away_feasible * away_feasible).total()
    found |= {
        "norm": (Wide.of(of.w) * of.w).total(),
        "terms": _gap_terms(of, found["of_rows"], apart, found["total"]),
        "lost": UNIT * found["loss_size"],
        "total_lost": total_lost,
        "noise": noise,
        "beyond": 0.0,
    }
    found |= over(partial(_conditions_of, of, away, away_lost, _most(found)))
    return _truth(of, found)
