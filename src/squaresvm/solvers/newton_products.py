"""The Hessian of Newton's method in (w, b) by its products: conjugate gradients, each iteration a pass.

Steps are solved for the more exactly, the smaller the gradient is (Dembo, Eisenstat and Steihaug 1982): far
from the optimum few products are spent on a step, and near it the search is as fast as with exact ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from squaresvm.family import Loss
from squaresvm.linalg.products import times
from squaresvm.problem.linear import LinearProblem, Point
from squaresvm.problem.passes import in_float64
from squaresvm.problem.products import Outline, Sides, squared
from squaresvm.solvers.block_cg import NotDefiniteError, conjugate_gradients, preconditioned_norm
from squaresvm.solvers.newton_hessian import Step
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["ProductHessian"]

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

    def step(self, point: Point, enough: FloatArray) -> Step:
        """Return the Newton step of every column, as exact as the gradient is small."""
        down = self._reduced(point)
        size = self._size(down)
        first = size if self.first is None else self.first
        share = np.divide(size, first, out=np.ones_like(size), where=first > 0.0) ** _POWER
        forcing = np.where(enough >= 1.0, 1.0, np.maximum(np.minimum(_FORCING, share), enough))
        dw = self.solve(down, np.arange(size.size), forcing)
        db = point.down_b / self._weight - (self._pull * dw).sum(axis=0)
        return Step(dw, db, (dw * point.down_w).sum(axis=0) + db * point.down_b)

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
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, k))
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
