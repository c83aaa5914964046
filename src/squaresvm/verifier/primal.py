"""What is true of a model in w, whose rows are reached by passes: in memory, or from a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.typing import FloatArray, Matrix
from squaresvm.verifier.conditions import (
    NEGLIGIBLE,
    OWN,
    UNIT,
    Reach,
    Truth,
    bias_residual,
    gap_rounding_of,
    is_penalised,
    scale_of,
    slack,
)
from squaresvm.verifier.reading import Fitted
from squaresvm.verifier.wide import Wide, product

__all__ = ["Chunk", "judge_primal"]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows: Z of shape (rows, n) in float64, targets, and weights that are all positive."""

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
            if Z.dtype != np.float64:
                Z = Z.astype(np.float64)
            yield Chunk(Z, self.targets[part], self.weights[part])


#: Makes a pass: returns what a task says of every chunk.
Passes = Callable[[Callable[[Chunk], Any]], Iterator[Any]]


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums of a first pass over rows; those named `largest` are the largest.

    `pull` is Z'beta, `pull_up` that over rows with beta > 0, `ones` Z'1; `total` is 1'beta, `up` over
    rows with beta > 0; `loss` is sum C xi^2, `loss_up` likewise; `ridge` is sum 1/C. `reach` and `reach_b`
    are the sizes of what Z'beta and 1'beta are made of, `lost` those of the loss.
    """

    pull: Wide
    pull_up: Wide
    ones: Wide
    total: Wide
    up: Wide
    size: FloatArray
    loss: FloatArray
    loss_up: FloatArray
    ridge: float
    reach: FloatArray
    reach_b: FloatArray
    lost: FloatArray
    rows: int
    largest: FloatArray

    def plus(self, other: _Sums) -> _Sums:
        """Return the sums over the rows of both."""
        sums = {}
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            sums[each.name] = np.maximum(mine, theirs) if each.name == "largest" else mine + theirs
        return _Sums(**sums)


@dataclass(frozen=True, eq=False)
class _Point:
    """(w, b) of shapes (n, k) and (k,), and the problem that they should solve."""

    settings: Fitted
    w: FloatArray
    b: FloatArray
    max_memory: float

    def error(self, piece: Chunk) -> tuple[Wide, Wide, FloatArray, FloatArray]:
        """Return y - f, the signed slack, C_i, and the size of what f is made of."""
        error = piece.targets - (product(piece.Z, self.w.T) + self.b)
        xi = slack(piece.targets, error, self.settings.is_hinge)
        size = np.asarray(abs(piece.Z) @ np.abs(self.w)) + np.abs(self.b) + np.abs(piece.targets)
        return error, xi, (self.settings.C * piece.weights)[:, None], size


@dataclass(frozen=True, eq=False)
class _FirstPass:
    """The task of the first pass."""

    at: _Point

    def __call__(self, chunk: Chunk) -> _Sums:
        """Return the sums over one chunk."""
        found: _Sums | None = None
        for piece in chunk.pieces(self.at.max_memory):
            sums = self._of(piece)
            found = sums if found is None else found.plus(sums)
        assert found is not None
        return found

    def _of(self, piece: Chunk) -> _Sums:
        at, is_free = self.at, self.at.settings.A == 0.0
        _, xi, costs, size = at.error(piece)
        beta = xi * costs
        across = piece.Z.T.tocsr() if sp.issparse(piece.Z) else np.ascontiguousarray(piece.Z.T)
        none = Wide.of(np.zeros(at.w.shape))
        upper = beta.where(beta.hi > 0.0)
        is_hinge = at.settings.is_hinge
        losses = xi * beta
        near = size if not is_hinge else np.where(np.abs(xi.hi) > 0.0, size, 0.0)
        parts = costs * near + np.abs(beta.hi)
        return _Sums(
            pull=_pulled(across, beta),
            pull_up=_pulled(across, upper) if is_free and is_hinge else none,
            ones=_pulled(across, Wide.of(np.ones((costs.size, 1))))[:, 0] if is_free else none[:, 0],
            total=Wide.total(beta),
            up=Wide.total(upper),
            size=np.abs(beta.hi).sum(axis=0),
            loss=losses.sums(),
            loss_up=losses.where(beta.hi > 0.0).sums(),
            ridge=float((1.0 / costs).sum()),
            reach=np.asarray(abs(across) @ parts),
            reach_b=parts.sum(axis=0),
            lost=(costs * np.abs(xi.hi) * near).sum(axis=0),
            rows=int(costs.size),
            largest=np.abs(piece.targets).max(axis=0),
        )


def _pulled(across: Matrix, beta: Wide) -> Wide:
    return product(across, Wide(beta.hi.T, beta.lo.T))


@dataclass(frozen=True, eq=False)
class _SecondPass:
    """The task of the second pass: the largest |min(h y beta, y r)| or |r|, its rounding, and the reach."""

    at: _Point
    shortfall: Wide
    rounding: FloatArray
    gap: FloatArray

    def __call__(self, chunk: Chunk) -> tuple[FloatArray, FloatArray, FloatArray, list[Reach]]:
        """Return them for one chunk, with the rounding of f."""
        found = None
        for piece in chunk.pieces(self.at.max_memory):
            more = self._of(piece)
            found = more if found is None else _worse(found, more)
        assert found is not None
        return found

    def _of(self, piece: Chunk) -> tuple[FloatArray, FloatArray, FloatArray, list[Reach]]:
        settings, y = self.at.settings, piece.targets
        error, xi, costs, size = self.at.error(piece)
        squares = piece.Z.multiply(piece.Z) if sp.issparse(piece.Z) else piece.Z * piece.Z
        norms = np.asarray(squares.sum(axis=1)).ravel()
        # r = Z Z'beta + beta / C + b - y: where beta is C xi with xi = y - f, that is Z (Z'beta - w).
        away = product(piece.Z, Wide(self.shortfall.hi.T, self.shortfall.lo.T))
        lost = np.asarray(abs(piece.Z) @ self.rounding) + UNIT * np.abs(away.hi)
        if settings.is_hinge:
            r = away - (error - xi)
            h = norms[:, None] + 1.0 / costs + (1.0 / settings.A if is_penalised(settings.A) else 0.0)
            worst = np.abs(np.minimum(h * costs * y * xi.hi, y * r.hi))
            # Where beta is zero, f itself takes part; where it is next to zero, h beta does.
            edge = np.where(xi.hi == 0.0, UNIT * size, UNIT * h * costs * size * (worst < np.abs(y * r.hi)))
            lost = lost + edge
        else:
            worst = np.abs(away.hi)
        room = np.abs(xi.hi) if settings.is_hinge else np.full(y.shape, np.inf)
        reach = [Reach.of(costs[:, 0], norms, room[:, j], gap) for j, gap in enumerate(self.gap.tolist())]
        return worst.max(axis=0), lost.max(axis=0), UNIT * size.max(axis=0), reach


def _worse(one: Any, other: Any) -> Any:
    largest = tuple(np.maximum(a, b) for a, b in zip(one[:3], other[:3], strict=True))
    return (*largest, [a.joined(b) for a, b in zip(one[3], other[3], strict=True)])


def judge_primal(passes: Passes, of: Fitted, max_memory: float) -> Truth:
    """Return what is true of a model in w: two passes over its rows.

    A piece of the rows and what is computed of it takes `max_memory` bytes at most.
    """
    w, b, A = of.w, of.bias, of.A
    assert w is not None
    at = _Point(of, w, b, max_memory)
    sums: _Sums | None = None
    for more in passes(_FirstPass(at)):
        sums = more if sums is None else sums.plus(more)
    if sums is None:
        raise ValueError("the data has no rows of positive weight: there is nothing to verify")
    shortfall = sums.pull - w
    reach_w = UNIT * (sums.reach + np.abs(w))
    terms, away = np.zeros_like(b), shortfall
    if A == 0.0 and of.is_hinge:
        # The heavier side is scaled down by the share of its surplus.
        down = sums.up - sums.total
        surplus, lighter = sums.total.hi, np.minimum(sums.up.hi, down.hi)
        heavier = lighter + np.abs(surplus)
        share = np.divide(np.abs(surplus), heavier, out=np.zeros_like(b), where=heavier > 0.0)
        is_up = surplus > 0.0
        heavy = sums.pull_up.where(is_up) + (sums.pull - sums.pull_up).where(~is_up)
        away = shortfall - heavy * share
        terms = share**2 * np.where(is_up, sums.loss_up, sums.loss - sums.loss_up)
    elif A == 0.0:
        mean = sums.total / float(sums.rows)
        away = shortfall - Wide(sums.ones.hi[:, None], sums.ones.lo[:, None]) * mean
        terms = mean.hi**2 * sums.ridge
    violation, of_bias = bias_residual(A, b, sums.total, sums.size)
    if is_penalised(A):
        terms = terms + violation**2 / A
    terms = terms + (away * away).sums()
    noise = np.sqrt(np.square(reach_w).sum(axis=0))
    reach_b = UNIT * (sums.reach_b + (A * np.abs(b) if np.isfinite(A) else 0.0))
    if is_penalised(A):
        noise = noise + reach_b / np.sqrt(A)
    elif A == 0.0:
        noise = noise + reach_b * np.sqrt(sums.ridge) / sums.rows + _of_moving(sums, reach_b)
    gap, none = 0.5 * terms, np.zeros_like(b)
    own = gap_rounding_of(terms, OWN * noise, none)
    found: Any = None
    for more in passes(_SecondPass(at, shortfall, reach_w, gap + own)):
        found = more if found is None else _worse(found, more)
    scale = scale_of(sums.largest, of.classes is not None)
    bias_lost = np.zeros_like(b)
    if np.isfinite(A):
        share_of = A * np.abs(b) + sums.size
        bias_lost = np.divide(reach_b, share_of, out=np.zeros_like(b), where=share_of > 0.0)
    penalty = A * b**2 if np.isfinite(A) else np.zeros_like(b)
    norm = np.square(w).sum(axis=0)
    return Truth(
        residual=np.maximum(found[0] / scale, of_bias),
        gap=gap,
        objective=0.5 * (norm + sums.loss + penalty),
        residual_rounding=np.maximum(found[1] / scale, bias_lost),
        gap_rounding=gap_rounding_of(terms, noise, none) + NEGLIGIBLE,
        objective_rounding=UNIT * (norm + 2.0 * sums.lost + penalty),
        decision_error=np.array([each.bound(A) for each in found[3]]) + found[2],
        rows=sums.rows,
    )


def _of_moving(sums: _Sums, reach_b: FloatArray) -> FloatArray:
    """Return what rounding of 1'beta does to Z'beta when beta is moved to the sum zero."""
    mean = np.sqrt(np.square(sums.ones.hi).sum()) / sums.rows
    share = np.divide(reach_b, sums.size, out=np.zeros_like(reach_b), where=sums.size > 0.0)
    return np.asarray(reach_b * mean + share * np.sqrt(np.square(sums.reach).sum(axis=0)))
