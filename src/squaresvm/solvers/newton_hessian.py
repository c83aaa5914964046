"""What Newton's method in (w, b) asks of a Hessian: formed, or by its products.

By products each iteration of conjugate gradients is a pass. Steps are solved for the more exactly, the
smaller the gradient is (Dembo, Eisenstat and Steihaug 1982): far from the optimum few products are spent on
a step, and near it the search is as fast as with exact ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from squaresvm.factors import ColumnFactors, Moments, MomentsFactor
from squaresvm.family import Loss
from squaresvm.linalg.blas import times
from squaresvm.problem.linear import LinearProblem, Point
from squaresvm.problem.passes import in_float64
from squaresvm.problem.products import Outline, Sides, squared
from squaresvm.solvers.block_cg import NotDefiniteError, conjugate_gradients, preconditioned_norm
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["Direction", "FormedHessian", "Hessian", "ProductHessian"]


@dataclass(frozen=True, eq=False)
class Direction:
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
    def factors(self) -> ColumnFactors | None:
        """Factors of the Hessian; None where it is not formed."""
        ...

    def estimate(self, point: Point) -> FloatArray:
        """Return about what the residual of each column is: its root mean square over the active rows."""
        ...

    def step(self, point: Point, enough: FloatArray) -> Direction:
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
    def factors(self) -> ColumnFactors:
        """A factor for each of the moments."""
        return ColumnFactors(tuple(MomentsFactor(moments, self.problem.bias) for moments in self.moments))

    def step(self, point: Point, enough: FloatArray) -> Direction:
        """Return the Newton step of every column, as exact as its factor."""
        down = np.vstack([point.down_w, point.down_b])
        found = self._solve(down)
        return Direction(found[:-1], found[-1], (found * down).sum(axis=0))

    def _solve(self, down: FloatArray) -> FloatArray:
        """Return the inverse of the Hessian times `down`, by the two loops of the BFGS formula."""
        down, taken = down.copy(), []
        for moved, changed in reversed(self.pairs):
            scale = (moved * changed).sum(axis=0)
            share = np.divide((moved * down).sum(axis=0), scale, out=np.zeros_like(scale), where=scale > 0.0)
            down -= share * changed
            taken.append((share, scale))
        found = np.vstack(self.factors.step(down[:-1], down[-1]))
        for (moved, changed), (share, scale) in zip(self.pairs, reversed(taken), strict=True):
            back = (changed * found).sum(axis=0)
            found += moved * (share - np.divide(back, scale, out=np.zeros_like(scale), where=scale > 0.0))
        return found

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


#: Share of the gradient that a step leaves at most, and how it falls with the gradient: superlinearly.
_FORCING, _POWER = 0.1, 0.5
#: Products of a step at most, for each feature and in any case.
_PRODUCTS_A_FEATURE, _PRODUCTS = 10, 2000
#: Share to which the trace of the inverse is known well enough, and mean of C_i times leverage at most.
_ROUGHLY, _MOST = 0.02, 0.99


@dataclass(frozen=True, eq=False)
class ProductHessian:
    """The Hessian of each column with the bias eliminated, R of (4) in `squaresvm.problem.products`.

    Parameters
    ----------
    problem : LinearProblem
    outline : Outline
    sides : Sides
        The active rows.
    first : ndarray of shape (k,) or None
        Size of the gradient where the search began; None: here.
    """

    problem: LinearProblem
    outline: Outline
    sides: Sides
    first: FloatArray | None = None

    is_exact = True
    factors = None

    @classmethod
    def at(cls, problem: LinearProblem, w: FloatArray, b: FloatArray) -> tuple[Point, ProductHessian]:
        """Return the point and the Hessian there: one pass."""
        point, outline, sides = problem.outlined(w, b)
        hessian = cls(problem, outline, sides)
        return point, replace(hessian, first=hessian._size(hessian._reduced(point)))

    def after(self, before: Point, w: FloatArray, b: FloatArray) -> tuple[Point, ProductHessian]:
        """Return another point, and the Hessian there: one pass."""
        if self.problem.loss == Loss.SQUARED:
            return self.problem.at(w, b), self
        point, outline, sides = self.problem.outlined(w, b)
        return point, replace(self, outline=outline, sides=sides)

    def with_columns(self, other: ProductHessian, columns: BoolArray) -> ProductHessian:
        """Return this Hessian with some columns of another; one that serves all columns is the same."""
        if self.problem.loss == Loss.SQUARED:
            return self
        outline = self.outline.with_columns(other.outline, columns)
        return replace(self, outline=outline, sides=self.sides.with_columns(other.sides, columns))

    # The bias ----------------------------------------------------------------------------------------

    @cached_property
    def _weight(self) -> FloatArray:
        """A + S of each column; infinite where there is no bias, or no row that it could go by."""
        weight = self.problem.bias.penalty + self.outline.total
        return np.where(self.problem.bias.is_absent | (weight <= 0.0), np.inf, weight)

    @cached_property
    def _pull(self) -> FloatArray:
        """P of (4), of shape (n, k): minus what a step in w does to b."""
        return np.asarray(self.outline.column / self._weight)

    @cached_property
    def _diagonal(self) -> FloatArray:
        """The diagonal of R, (5); what rounding may have taken from it is not below zero."""
        return 1.0 + np.maximum(self.outline.squares - self.outline.column * self._pull, 0.0)

    def _reduced(self, point: Point) -> FloatArray:
        """Return minus the gradient in w after the bias has followed."""
        return point.down_w - self._pull * point.down_b

    # Products ------------------------------------------------------------------------------------------

    def _own(self, sums: FloatArray, columns: IntArray) -> FloatArray:
        """Return sums of the column that each vector is meant for."""
        return sums[..., np.zeros_like(columns) if sums.shape[-1] == 1 else columns]

    def times(self, V: FloatArray, columns: IntArray) -> FloatArray:
        """Return R v for each vector and its column: one pass."""
        shift = np.einsum("ij,ij->j", self._own(self._pull, columns), V)
        return V + self.problem.product(self.sides, V, shift, columns)

    def _size(self, V: FloatArray) -> FloatArray:
        """Return the size of gradients as the preconditioner measures them."""
        return np.sqrt(np.square(V / np.sqrt(self._diagonal)).sum(axis=0))

    def estimate(self, point: Point) -> FloatArray:
        """Return about what the residual of each column is: its root mean square over the active rows."""
        g, total = point.down_w, self.outline.total
        columns = np.arange(g.shape[1])
        around = _inner(g, self.problem.product(self.sides, g, np.zeros(columns.size), columns))
        rows = np.sqrt(
            np.divide(np.maximum(around, 0.0), total, out=np.zeros_like(point.b), where=total > 0.0)
        )
        weight = np.sqrt(total * point.sums.loss)
        along = np.divide(np.abs(point.down_b), weight, out=np.zeros_like(point.b), where=weight > 0.0)
        found = np.maximum(rows / self.problem.scale, along)
        return np.where(total > 0.0, found, np.abs(g).max(axis=0, initial=0.0))

    def step(self, point: Point, enough: FloatArray) -> Direction:
        """Return the Newton step of every column, as exact as the gradient is small."""
        down = self._reduced(point)
        size = self._size(down)
        first = size if self.first is None else self.first
        share = np.divide(size, first, out=np.ones_like(size), where=first > 0.0) ** _POWER
        forcing = np.where(enough >= 1.0, 1.0, np.maximum(np.minimum(_FORCING, share), enough))
        dw = self.solve(down, np.arange(size.size), forcing)
        db = point.down_b / self._weight - (self._pull * dw).sum(axis=0)
        return Direction(dw, db, (dw * point.down_w).sum(axis=0) + db * point.down_b)

    def solve(self, rhs: FloatArray, columns: IntArray, share: FloatArray) -> FloatArray:
        """Return X with R X close to `rhs`, by conjugate gradients, all vectors in the same passes.

        Parameters
        ----------
        rhs : ndarray of shape (n, q)
        columns : ndarray of int of shape (q,)
            The column whose active rows each vector is meant for.
        share : ndarray of shape (q,)
            How much of the right-hand side may be left, as the preconditioner measures it.
        """
        diagonal = self._own(self._diagonal, columns)
        goal = share * np.sqrt(_inner(rhs, rhs / diagonal))
        try:
            X, _ = conjugate_gradients(
                lambda V, some: self.times(V, columns[some]),
                lambda V, some: V / diagonal[:, some],
                rhs,
                goal,
                min(_PRODUCTS, _PRODUCTS_A_FEATURE * rhs.shape[0]),
                measure=preconditioned_norm,
            )
        except NotDefiniteError as error:
            # R is I and a scatter, so that is rounding: what was reached before still leads downwards.
            X = error.reached
        return X

    # Leaving rows out ----------------------------------------------------------------------------------

    @cached_property
    def _freedom(self) -> FloatArray:
        """About the sum of C_i times leverage over the active rows: n less the trace of inv(R), and the bias.

        The trace is estimated by one vector of random signs a column, which is the better the larger n is.
        """
        n, k = self._diagonal.shape
        signs = np.random.default_rng(0).choice(np.array([-1.0, 1.0]), size=(n, k))
        columns = np.arange(k)
        trace = _inner(signs, self.solve(signs, columns, np.full(k, _ROUGHLY)))
        return np.clip(n - trace, 0.0, n) + self.outline.total / self._weight

    def leverage(self, Z: Matrix, costs: FloatArray, column: int) -> FloatArray:
        """Return about (z_i, 1)' inv(Hessian) (z_i, 1) of rows that are active in a column.

        The preconditioner tells how they compare, the trace of the inverse how much they are in all.
        """
        at = min(column, self._diagonal.shape[1] - 1)
        diagonal, pull = self._diagonal[:, at], self._pull[:, at]
        Z = in_float64(Z)
        squares = times(squared(Z), 1.0 / diagonal) - 2.0 * times(Z, pull / diagonal)
        size = np.maximum(squares + (pull / diagonal) @ pull, 0.0) + 1.0 / self._weight[at]
        mean = np.clip(self._freedom[at] / max(self.outline.count[at], 1.0), 0.0, _MOST)
        return _scaled(costs * size, float(mean)) / costs


def _scaled(size: FloatArray, mean: float) -> FloatArray:
    """Return t s / (1 + t s), between 0 and 1, with the t at which their mean is the given one."""
    if not size.any():
        return size
    low, high = -60.0, 60.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        found = np.exp(middle) * size
        low, high = (middle, high) if np.mean(found / (1.0 + found)) < mean else (low, middle)
    found = np.exp(low) * size
    return np.asarray(found / (1.0 + found))


def _inner(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->j", a, b))
