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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.typing import BoolArray, FloatArray, Matrix
from squaresvm.verifier.kernel_values import KernelValues
from squaresvm.verifier.reading import Fitted
from squaresvm.verifier.wide import Wide, product

__all__ = ["Chunk", "Truth", "judge_multipliers", "judge_primal"]

#: Rounding errors of float64, per unit of the sizes that they are made of, that a certificate may have.
UNIT = 8 * float(np.finfo(np.float64).eps)
#: How much smaller the verifier's own rounding is.
OWN = 2.0**-36
#: Squared distances below this a certificate may give by an upper bound.
NEGLIGIBLE = 1e-24


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


@dataclass(frozen=True)
class Reach:
    """What (4) and (5) need of one column, of some rows.

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
        largest = (max(getattr(self, n), getattr(other, n)) for n in ("inside", "outside", "loosest"))
        return Reach(self.gap, self.total + other.total, *largest)

    def bound(self, A: float) -> float:
        """Return the bound on |f - f*| at the rows."""
        inside, outside = (0.0 if n < 0.0 else self._anywhere(n, A) for n in (self.inside, self.outside))
        found = max(min(self.loosest, inside), outside)
        return float(np.sqrt(2.0 * self.gap * found)) if self.gap > 0.0 else 0.0

    def _anywhere(self, norm: float, A: float) -> float:
        found = np.inf if A == 0.0 else norm + 1.0 / A
        if self.total > 0.0:
            found = min(found, 1.0 / self.total + (np.sqrt(norm) + np.sqrt(self.inside)) ** 2)
        return float(found)


# What a model in multipliers and one in w have in common ------------------------------------------------


def _slack(of: Fitted, y: FloatArray, error: Wide) -> Wide:
    """Return the signed xi of y - f."""
    return error.where(y * error.hi > 0.0) if of.is_hinge else error


def _sides(of: Fitted, y: FloatArray, beta: Wide) -> tuple[Wide, Wide]:
    """Return the sums of what is positive, and of what is negative, in beta with wrong signs cut off."""
    right = beta.where(y * beta.hi > 0.0) if of.is_hinge else beta
    return right.where(right.hi > 0.0).total(), (-right).where(right.hi < 0.0).total()


def _step(of: Fitted, y: FloatArray, beta: FloatArray, sides: tuple[Wide, Wide], m: int) -> FloatArray:
    """Return beta less the feasible point beside it, by the sides of all m rows; next to nothing."""
    surplus, lighter = (sides[0] - sides[1]).hi, np.minimum(sides[0].hi, sides[1].hi)
    if not of.is_hinge:
        return np.broadcast_to(surplus / m if of.A == 0.0 else 0.0 * surplus, beta.shape)
    right = np.where(y * beta > 0.0, beta, 0.0)
    if of.A > 0.0:
        return np.asarray(beta - right)
    # 1 - lighter / heavier, from the difference of both: a quotient near one would lose its digits.
    heavier = lighter + np.abs(surplus)
    share = np.divide(np.abs(surplus), heavier, out=np.zeros_like(heavier), where=heavier > 0.0)
    return np.asarray((beta - right) + np.where((surplus > 0.0) == (right > 0.0), share * right, 0.0))


def _gap_of_rows(of: Fitted, y: FloatArray, costs: FloatArray, error: Wide, feasible: Wide) -> Wide:
    """Return twice what (3) adds up over rows."""
    mismatch = _slack(of, y, error) - feasible / costs
    terms = (mismatch * mismatch * costs).total()
    if of.is_hinge:
        terms = terms + ((-(error * y)).where(y * error.hi < 0.0) * feasible.size).total() * 2.0
    return terms


def _violations(of: Fitted, h: FloatArray, y: FloatArray, beta: Wide, r: Wide) -> FloatArray:
    """Return what (2) takes of rows, before it is divided by max|y|."""
    return np.abs(np.minimum(h * y * beta.hi, y * r.hi) if of.is_hinge else r.hi)


def _h(of: Fitted, norms: FloatArray, costs: FloatArray) -> FloatArray:
    return norms[:, None] + 1.0 / costs + (1.0 / of.A if of.is_penalised else 0.0)


def _reach(of: Fitted, costs: FloatArray, norms: FloatArray, xi: Wide, gap: FloatArray) -> list[Reach]:
    room = np.abs(xi.hi) if of.is_hinge else np.full(xi.hi.shape, np.inf)
    return [Reach.of(costs[:, 0], norms, room[:, j], each) for j, each in enumerate(gap.tolist())]


def _violation(of: Fitted, total: Wide) -> FloatArray:
    """Return A b - 1'beta, zero where there is no bias."""
    return (Wide.of(of.bias) * of.A - total).hi if of.has_bias else np.zeros_like(of.bias)


def _gap_rounding(terms: FloatArray, noise: FloatArray, beyond: Any = 0.0) -> FloatArray:
    """Return how much the gap may change by noise in the vectors whose squares are the terms of (3)."""
    return np.asarray(np.sqrt(terms) * noise + 0.5 * noise**2 + beyond + 0.5 * UNIT * terms)


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0.0)


def _residual(
    of: Fitted, largest: FloatArray, rows: FloatArray, lost: FloatArray, sums: dict[str, Any], lost_b: Any
) -> tuple[FloatArray, FloatArray]:
    """Return the residual and its rounding, from the worst row and the sums 1'beta and |beta|_1."""
    scale = np.ones_like(largest) if of.classes is not None else np.where(largest > 0.0, largest, 1.0)
    size = of.bias_cost * np.abs(of.bias) + sums["size"]
    of_bias = _share(np.abs(_violation(of, sums["total"])), size)
    return np.maximum(rows / scale, of_bias), np.maximum(lost / scale, of.has_bias * _share(lost_b, size))


# Models in multipliers ---------------------------------------------------------------------------------


def judge_multipliers(kernel: KernelValues) -> tuple[Truth, tuple[Wide, FloatArray] | None]:
    """Return what is true of multipliers, and of a proximal SVM W K beta and its rounding."""
    of, (_, y, weights), b = kernel.of, kernel.of.problem, kernel.of.bias
    costs, beta, penalty = (of.C * weights)[:, None], Wide.of(of.beta), of.bias_cost * of.bias**2
    m, k = beta.hi.shape
    step = _step(of, y, beta.hi, _sides(of, y, beta), m)
    moves = bool(step.any())
    values, sizes = kernel.times(np.hstack([beta.hi, step]) if moves else beta.hi)
    norms, expansion = np.maximum(kernel.diagonal.hi, 0.0), None
    if of.proximal:
        inner, sizes = values * weights[:, None], weights[:, None] * sizes
        expansion = inner[:, :k], UNIT * sizes[:, :k]
        values, sizes = kernel.times(inner, sizes)
        norms = norms * float(weights @ norms)  # (K W K)_ii <= K_ii sum_l w_l K_ll, by Cauchy and Schwarz.
    share, w = beta / costs, values[:, :k]
    error = y - (w + b)
    xi = _slack(of, y, error)
    rounding = UNIT * (sizes[:, :k] + np.abs(share.hi) + np.abs(b) + np.abs(y))
    size = np.abs(beta.hi).sum(axis=0)
    # The residual, by (2).
    h, sums = _h(of, kernel.diagonal.hi, costs), {"total": beta.total(), "size": size}
    worst = _violations(of, h, y, beta, share - error).max(axis=0)
    lost = np.maximum(rounding, UNIT * np.abs(h * beta.hi)) if of.is_hinge else rounding
    residual, residual_rounding = _residual(
        of, np.abs(y).max(axis=0), worst, lost.max(axis=0), sums, UNIT * size
    )
    # The objective, by (1).
    norm, loss = (w * beta).total().hi, (xi * xi * costs).total().hi
    off = (np.abs(beta.hi) * rounding + costs * rounding * (np.abs(xi.hi) + rounding)).sum(axis=0)
    # The gap, by (3).
    feasible = beta - step
    terms = _gap_of_rows(of, y, costs, error, feasible).hi
    noise = np.sqrt((costs * rounding**2).sum(axis=0)) + UNIT * size * np.sqrt(norms.max())
    if moves:
        terms = terms + np.maximum((values[:, k:] * step).total().hi, 0.0)
    if of.is_penalised:
        terms = terms + _violation(of, feasible.total()) ** 2 / of.A
        noise = noise + UNIT * (of.A * np.abs(b) + size) / np.sqrt(of.A)
    near = rounding * (-y * error.hi > -rounding) if of.is_hinge else 0.0
    beyond = (np.abs(feasible.hi) * near).sum(axis=0)
    reach = _reach(of, costs, norms, xi, 0.5 * terms + _gap_rounding(terms, OWN * noise, OWN * beyond))
    truth = Truth(
        residual=residual,
        gap=0.5 * terms,
        objective=0.5 * (norm + loss + penalty),
        residual_rounding=residual_rounding,
        gap_rounding=_gap_rounding(terms, noise, beyond) + NEGLIGIBLE,
        objective_rounding=2.0 * off + UNIT * (np.abs(norm) + loss + penalty),
        decision_error=np.array([each.bound(of.A) for each in reach]) + rounding.max(axis=0),
        rows=m,
    )
    return truth, expansion


# Models in w, whose rows are reached by passes -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows: Z of shape (rows, n), targets, and weights that are all positive."""

    Z: Matrix
    targets: FloatArray
    weights: FloatArray

    def pieces(self, max_memory: float) -> Iterator[Chunk]:
        """Return the rows in pieces that take so much memory, with all that is computed of them."""
        n, k = self.Z.shape[1], self.targets.shape[1]
        wide = self.Z.nnz / max(1, self.Z.shape[0]) if sp.issparse(self.Z) else n
        rows = int(max(16, max_memory / (8 * 24 * (wide + 2 * k))))
        for start in range(0, self.targets.shape[0], rows):
            part = slice(start, start + rows)
            Z = self.Z[part]
            yield Chunk(Z.astype(np.float64, copy=False), self.targets[part], self.weights[part])


#: Makes a pass: returns what a task says of every chunk.
Passes = Callable[[Callable[[Chunk], Any]], Iterator[Any]]


@dataclass(frozen=True, eq=False)
class _Tally:
    """What a pass has found of some rows: sums, largest values, and how far a bound reaches."""

    sums: dict[str, Any] = field(default_factory=dict)
    largest: dict[str, FloatArray] = field(default_factory=dict)
    reach: tuple[Reach, ...] = ()

    def plus(self, other: _Tally) -> _Tally:
        """Return it for the rows of both."""
        return _Tally(
            {name: value + other.sums[name] for name, value in self.sums.items()},
            {name: np.maximum(value, other.largest[name]) for name, value in self.largest.items()},
            tuple(one.joined(more) for one, more in zip(self.reach, other.reach, strict=True)),
        )


def _tallied(passes: Passes, task: Callable[[Chunk], _Tally], max_memory: float) -> _Tally:
    found: _Tally | None = None
    for more in passes(partial(_by_pieces, task, max_memory)):
        found = more if found is None else found.plus(more)
    if found is None:
        raise ValueError("the data has no rows of positive weight: there is nothing to verify")
    return found


def _by_pieces(task: Callable[[Chunk], _Tally], max_memory: float, chunk: Chunk) -> _Tally:
    first, *rest = map(task, chunk.pieces(max_memory))
    for more in rest:
        first = first.plus(more)
    return first


def _seen(of: Fitted, piece: Chunk) -> tuple[FloatArray, FloatArray, Wide, Wide]:
    """Return C_i, the size of what f is made of, y - f and xi."""
    assert of.w is not None
    error = piece.targets - (product(piece.Z, of.w.T) + of.bias)
    size = np.asarray(abs(piece.Z) @ np.abs(of.w)) + np.abs(of.bias) + np.abs(piece.targets)
    return (of.C * piece.weights)[:, None], size, error, _slack(of, piece.targets, error)


def _norms(Z: Matrix) -> FloatArray:
    squares = Z.multiply(Z) if sp.issparse(Z) else Z * Z
    return np.asarray(squares.sum(axis=1)).ravel()


def _sides_of(of: Fitted, piece: Chunk) -> _Tally:
    """Return the sums of the multipliers on both sides."""
    costs, _, _, xi = _seen(of, piece)
    up, down = _sides(of, piece.targets, xi * costs)
    return _Tally({"up": up, "down": down, "rows": costs.size})


def _pulls_of(of: Fitted, sides: _Tally | None, piece: Chunk) -> _Tally:
    """Return Z'beta, for beta and the feasible point beside it, and all sums that need no more."""
    y, (costs, size, error, xi) = piece.targets, _seen(of, piece)
    across = piece.Z.T.tocsr() if sp.issparse(piece.Z) else np.ascontiguousarray(piece.Z.T)
    feasible = beta = xi * costs
    pull = pull_feasible = product(across, beta.T)
    if sides is not None:
        sums = sides.sums
        feasible = beta - _step(of, y, beta.hi, (sums["up"], sums["down"]), sums["rows"])
        pull_feasible = product(across, feasible.T)
    near = np.where(np.abs(xi.hi) > 0.0, size, 0.0) if of.is_hinge else size
    parts = costs * near + np.abs(beta.hi)
    found = {
        "pull": pull,
        "pull_feasible": pull_feasible,
        "total": beta.total(),
        "size": np.abs(beta.hi).sum(axis=0),
        "loss": (xi * beta).total(),
        "terms": _gap_of_rows(of, y, costs, error, feasible),
        "ridge": float((1.0 / costs).sum()),
        "distance": float(np.sqrt(_norms(piece.Z)).sum()),
        "reach": np.asarray(abs(across) @ parts),
        "reach_b": parts.sum(axis=0),
        "lost": (costs * np.abs(xi.hi) * near).sum(axis=0),
        "rows": int(costs.size),
    }
    return _Tally(found, {"y": np.abs(y).max(axis=0)})


def _conditions_of(of: Fitted, away: Wide, away_lost: FloatArray, gap: FloatArray, piece: Chunk) -> _Tally:
    """Return the worst row by (2), its rounding, that of f, and the reach; `away` is Z'beta - w."""
    y, (costs, size, error, xi), norms = piece.targets, _seen(of, piece), _norms(piece.Z)
    pull, h = product(piece.Z, away.T), _h(of, norms, costs)
    # r = Z Z'beta + b + beta / C - y, where beta is C xi.
    worst = _violations(of, h, y, xi * costs, pull - (error - xi))
    lost = np.asarray(abs(piece.Z) @ away_lost) + UNIT * np.abs(pull.hi)
    if of.is_hinge:  # Where beta is zero, f itself takes part; where it is next to zero, h beta does.
        next_to = worst < np.abs(y * (pull - (error - xi)).hi)
        lost = lost + np.where(xi.hi == 0.0, UNIT * size, UNIT * h * costs * size * next_to)
    largest = {"worst": worst.max(axis=0), "lost": lost.max(axis=0), "f": UNIT * size.max(axis=0)}
    return _Tally(largest=largest, reach=tuple(_reach(of, costs, norms, xi, gap)))


def judge_primal(passes: Passes, of: Fitted, max_memory: float) -> Truth:
    """Return what is true of a model in w: two passes over its rows, three where the bias is free.

    A piece of the rows and what is computed of it takes `max_memory` bytes at most.
    """
    w, b, A = of.w, of.bias, of.A
    assert w is not None
    sides = _tallied(passes, partial(_sides_of, of), max_memory) if A == 0.0 else None
    seen = _tallied(passes, partial(_pulls_of, of, sides), max_memory)
    sums = seen.sums
    away, away_feasible = sums["pull"] - w, sums["pull_feasible"] - w
    away_lost = UNIT * (sums["reach"] + np.abs(w))
    lost_b = UNIT * (sums["reach_b"] + of.bias_cost * np.abs(b))
    # The gap, by (3).
    terms = (sums["terms"] + (away_feasible * away_feasible).total()).hi
    noise = np.sqrt(np.square(away_lost).sum(axis=0))
    if of.is_penalised:
        terms = terms + _violation(of, sums["total"]) ** 2 / A
        noise = noise + lost_b / np.sqrt(A)
    elif A == 0.0:  # What rounding of 1'beta does to the feasible point.
        moved = (np.sqrt(sums["ridge"]) + sums["distance"]) / sums["rows"]
        noise = noise + lost_b * moved
        noise = noise + _share(lost_b, sums["size"]) * np.sqrt(np.square(sums["reach"]).sum(axis=0))
    gap = 0.5 * terms + _gap_rounding(terms, OWN * noise)
    last = _tallied(passes, partial(_conditions_of, of, away, away_lost, gap), max_memory)
    worst, lost = last.largest["worst"], last.largest["lost"]
    residual, residual_rounding = _residual(of, seen.largest["y"], worst, lost, sums, lost_b)
    norm, penalty = np.square(w).sum(axis=0), of.bias_cost * b**2
    return Truth(
        residual=residual,
        gap=0.5 * terms,
        objective=0.5 * (norm + sums["loss"].hi + penalty),
        residual_rounding=residual_rounding,
        gap_rounding=_gap_rounding(terms, noise) + NEGLIGIBLE,
        objective_rounding=UNIT * (norm + 2.0 * sums["lost"] + penalty),
        decision_error=np.array([each.bound(A) for each in last.reach]) + last.largest["f"],
        rows=int(sums["rows"]),
    )
