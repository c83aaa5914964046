"""What Newton's method asks of a Hessian, formed or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.family import Loss
from squaresvm.problem.linear import LinearProblem, Point
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["FormedHessian", "Hessian", "Step"]


@dataclass(frozen=True, eq=False)
class Step:
    """Where the Hessian sends each column, and by how much the objective falls, to first order."""

    dw: FloatArray
    db: FloatArray
    decrement: FloatArray


class Hessian(Protocol):
    """The Hessian of each column at a point."""

    @property
    def is_exact(self) -> bool:
        """Whether it is that of all rows at the current point, and not that of some."""
        ...

    @property
    def factors(self) -> tuple[MomentsFactor, ...] | None:
        """A factor for each column, or one for all; None where there is none."""
        ...

    def estimate(self, point: Point) -> FloatArray:
        """Return about what the residual of each column is: its root mean square over the active rows."""
        ...

    def step(self, point: Point, enough: FloatArray) -> Step:
        """Return the Newton step of every column.

        Parameters
        ----------
        point : Point
        enough : ndarray of shape (k,)
            Share of the gradient below which none of it need be left; 1 where a column rests.
        """
        ...

    def after(self, before: Point, w: FloatArray, b: FloatArray) -> tuple[Point, Self]:
        """Return another point, and the Hessian there: one pass."""
        ...

    def with_columns(self, other: Self, columns: BoolArray) -> Self:
        """Return this Hessian with some columns of another."""
        ...


#: Loss of relative accuracy by subtraction after which moments are taken anew.
_DIGITS = 1e6


@dataclass(frozen=True, eq=False)
class FormedHessian:
    """The Hessian of each column, or of all of them, by the moments of the active rows.

    Parameters
    ----------
    problem : LinearProblem
    moments : tuple of Moments
    is_exact : bool, default=True
        Whether it is that of all rows at the current point, and not that of some.
    pairs : tuple, default=()
        Steps, and what they changed in the gradient, each of shape (n + 1, k): what a Hessian of some rows
        has learned since.
    """

    problem: LinearProblem
    moments: tuple[Moments, ...]
    is_exact: bool = True
    pairs: tuple[tuple[FloatArray, FloatArray], ...] = ()

    @classmethod
    def at(
        cls, problem: LinearProblem, w: FloatArray, b: FloatArray, every: int = 1
    ) -> tuple[Point, FormedHessian]:
        """Return the point and the Hessian there: one pass."""
        point, moments = problem.with_curvature(w, b, every)
        return point, cls(problem, moments, is_exact=every == 1)

    @cached_property
    def factors(self) -> tuple[MomentsFactor, ...]:
        """A factor for each of the moments."""
        return tuple(MomentsFactor(moments, self.problem.bias) for moments in self.moments)

    def step(self, point: Point, enough: FloatArray) -> Step:
        """Return the Newton step of every column, as exact as its factor."""
        down = np.vstack([point.down_w, point.down_b])
        found = self._solve(down)
        return Step(found[:-1], found[-1], (found * down).sum(axis=0))

    def _solve(self, down: FloatArray) -> FloatArray:
        """Return the inverse of the Hessian times `down`, by the two loops of the BFGS formula."""
        down, taken = down.copy(), []
        for moved, changed in reversed(self.pairs):
            scale = (moved * changed).sum(axis=0)
            share = np.divide((moved * down).sum(axis=0), scale, out=np.zeros_like(scale), where=scale > 0.0)
            down -= share * changed
            taken.append((share, scale))
        found = self._solve_by_factors(down)
        for (moved, changed), (share, scale) in zip(self.pairs, reversed(taken), strict=True):
            back = (changed * found).sum(axis=0)
            found += moved * (share - np.divide(back, scale, out=np.zeros_like(scale), where=scale > 0.0))
        return found

    def _solve_by_factors(self, down: FloatArray) -> FloatArray:
        if len(self.factors) == 1:
            return np.vstack(self.factors[0].step(down[:-1], down[-1]))
        steps = [factor.step(down[:-1, [j]], down[-1, [j]]) for j, factor in enumerate(self.factors)]
        return np.hstack([np.vstack([w, b]) for w, b in steps])

    def after(self, before: Point, w: FloatArray, b: FloatArray) -> tuple[Point, FormedHessian]:
        """Return another point, and the Hessian there: one pass."""
        problem = self.problem
        if problem.loss == Loss.SQUARED:
            return problem.at(w, b), self
        if not self.is_exact:
            point = problem.at(w, b)
            return point, self._learned(before, point)
        point, moments = problem.moved(w, b, before, self.moments)
        if max(its.loss_of_digits(ridge=1.0) for its in moments) > _DIGITS:
            return self.at(problem, w, b)
        return point, replace(self, moments=moments)

    def _learned(self, before: Point, after: Point) -> FormedHessian:
        """Return the Hessian after a step has shown what it changes in the gradient."""
        moved = np.vstack([after.w - before.w, after.b - before.b])
        changed = np.vstack([before.down_w - after.down_w, before.down_b - after.down_b])
        return replace(self, pairs=(*self.pairs, (moved, changed)))

    def with_columns(self, other: FormedHessian, columns: BoolArray) -> FormedHessian:
        """Return this Hessian with some columns of another; one that serves all columns is the same."""
        if len(self.moments) == 1:
            return other if columns.all() else self
        pairs = zip(self.moments, other.moments, columns, strict=True)
        return replace(self, moments=tuple(its if take else mine for mine, its, take in pairs))

    def estimate(self, point: Point) -> FloatArray:
        """Return about what the residual of each column is: its root mean square over the active rows."""
        found, scale = np.empty_like(point.b), self.problem.scale
        for j in range(point.b.size):
            moments, g = self.moments[min(j, len(self.moments) - 1)], point.down_w[:, j]
            if moments.total == 0.0:
                found[j] = np.abs(g).max(initial=0.0)
                continue
            rows = float(g @ moments.scatter @ g) / moments.total + float(np.square(moments.mean @ g))
            # |beta|_1 is at most this, by the inequality of Cauchy and Schwarz.
            weight = np.sqrt(moments.total * point.sums.loss[j])
            along = abs(point.down_b[j]) / weight if weight > 0.0 else 0.0
            found[j] = max(np.sqrt(max(rows, 0.0)) / scale[j], along)
        return found
