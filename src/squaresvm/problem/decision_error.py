"""How far the decision values of a linear model may be from those of the optimum, by passes over its rows.

The bounds are those of :mod:`squaresvm.problem.verdict`. Where the Hessian over the rows S of (6) can be
factored, (x, 1)' inv(H) (x, 1) takes the place of (7) and (8): it is never larger, and hardly ever as large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.family import Bias, Loss
from squaresvm.kernels import squared_norms
from squaresvm.linalg.blas import times
from squaresvm.problem.passes import Evaluate, RowBlock, in_float64, slack
from squaresvm.problem.verdict import EPSILON, certain_room, row_spread
from squaresvm.typing import BoolArray, FloatArray, Matrix

__all__ = ["error_by_norms", "error_by_sums"]

T = TypeVar("T")


class _Blocks(Protocol):
    """Who runs the blocks; see :class:`squaresvm.problem.linear.Runner`."""

    def map(self, task: Callable[[RowBlock], T]) -> Iterator[T]:
        """Yield `task(block)` for every block, in order."""
        ...


@dataclass(frozen=True, eq=False)
class _Certain:
    """Which rows of a block are in S of (6), for each column, at (w, b) with the gaps there."""

    at: Evaluate
    gap: FloatArray

    def of(self, block: RowBlock, Z: Matrix) -> BoolArray:
        """Return them, of shape (rows, k)."""
        if self.at.loss == Loss.SQUARED:
            return np.ones(block.targets.shape, dtype=bool)
        room = np.abs(slack(block.targets, times(Z, self.at.w) + self.at.b, self.at.loss))
        return np.stack([room[:, j] > certain_room(g, block.costs) for j, g in enumerate(self.gap)], axis=1)


@dataclass(frozen=True, eq=False)
class _CertainSums:
    """The task of a pass that needs the moments of S, for each column; one for all with the squared loss."""

    certain: _Certain
    forms_squares: ClassVar[bool] = True

    def __call__(self, block: RowBlock) -> tuple[Moments, ...]:
        """Return the moments over one block."""
        Z, y = in_float64(block.Z), block.targets
        if self.certain.at.loss == Loss.SQUARED:
            return (Moments.of(Z, block.costs, y),)
        chosen = (np.flatnonzero(rows) for rows in self.certain.of(block, Z).T)
        return tuple(Moments.of(Z[rows], block.costs[rows], y[rows][:, [j]]) for j, rows in enumerate(chosen))


@dataclass(frozen=True, eq=False)
class _CertainSize:
    """The task of a pass that needs C_S and the largest |z|^2 in S, each of shape (k,)."""

    certain: _Certain

    def __call__(self, block: RowBlock) -> tuple[FloatArray, FloatArray]:
        """Return both for one block."""
        Z = in_float64(block.Z)
        inside, norms = self.certain.of(block, Z), squared_norms(Z)
        return block.costs @ inside, np.where(inside, norms[:, None], 0.0).max(axis=0)


@dataclass(frozen=True, eq=False)
class _LargestError:
    """The task of a pass that finds the largest bound on |f - f*|, of shape (k,), f's rounding included.

    Parameters
    ----------
    certain : _Certain
    bias : Bias
    total, largest : ndarray of shape (k,)
        C_S, and the largest |z|^2 in S.
    factors : tuple of MomentsFactor
        Of the Hessian over S, one a column or one for all; none where only norms are known.
    """

    certain: _Certain
    bias: Bias
    total: FloatArray
    largest: FloatArray
    factors: tuple[MomentsFactor, ...] = ()

    def __call__(self, block: RowBlock) -> FloatArray:
        """Return the largest bound of one block."""
        at, Z = self.certain.at, in_float64(block.Z)
        inside, norms = self.certain.of(block, Z), squared_norms(Z)
        rounding = EPSILON * (times(abs(Z), np.abs(at.w)) + np.abs(at.b))
        worst = np.empty(at.b.size)
        for j in range(worst.size):
            size = float(self.total[j]), float(self.largest[j])
            spread = row_spread(norms, block.costs, inside[:, j], self.bias, *size)
            if self.factors and (self.total[j] > 0.0 or not self.bias.is_free):
                factor = self.factors[min(j, len(self.factors) - 1)]
                spread = np.minimum(spread, factor.leverage(Z))
            worst[j] = (_root(self.certain.gap[j], spread) + rounding[:, j]).max()
        return worst


def _root(gap: float, spread: FloatArray) -> FloatArray:
    """Return sqrt(2 G spread); zero where the gap is, however little is known besides."""
    return np.sqrt(2.0 * gap * spread) if gap > 0.0 else np.zeros_like(spread)


def error_by_sums(runner: _Blocks, at: Evaluate, bias: Bias, gap: FloatArray) -> FloatArray:
    """Return the largest bound on |f - f*| at the rows, of shape (k,), by the Hessian over S: two passes."""
    certain = _Certain(at, gap)
    found: tuple[Moments, ...] = ()
    for some in runner.map(_CertainSums(certain)):
        found = tuple(a.joined(b) for a, b in zip(found, some, strict=True)) if found else some
    factors = tuple(MomentsFactor(moments, bias) for moments in found)
    total = np.broadcast_to(np.array([moments.total for moments in found]), gap.shape)
    # The factor says more than the norms in S would.
    return _largest(runner, _LargestError(certain, bias, total, np.full(gap.shape, np.inf), factors))


def error_by_norms(runner: _Blocks, at: Evaluate, bias: Bias, gap: FloatArray) -> FloatArray:
    """Return the largest bound on |f - f*| at the rows, of shape (k,), by norms of rows alone: two passes."""
    certain = _Certain(at, gap)
    total, largest = np.zeros(gap.shape), np.zeros(gap.shape)
    for some, norms in runner.map(_CertainSize(certain)):
        total, largest = total + some, np.maximum(largest, norms)
    return _largest(runner, _LargestError(certain, bias, total, largest))


def _largest(runner: _Blocks, task: _LargestError) -> FloatArray:
    worst = np.zeros(task.total.shape)
    for some in runner.map(task):
        worst = np.maximum(worst, some)
    return worst
