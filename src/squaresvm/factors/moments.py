"""The primal system of a linear model, from the sums Z'CZ, Z'C1 and 1'C1 of its rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from squaresvm.factors.jitter import cholesky_with_jitter
from squaresvm.lapack import solve_triangular_in_place
from squaresvm.operators.blocks import row_blocks
from squaresvm.problem import Bias
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray, Matrix

__all__ = ["MomentsFactor"]


class MomentsFactor:
    """Factor of the Hessian in (w, b) of a linear model over given rows.

    With S = sum C_i, the weighted mean z and the weighted scatter G = sum C_i (z_i - z)(z_i - z)' the
    normal equations are

        [I + G + S z z',  S z ] [w]   [p]
        [S z'          ,  A + S] [b] = [q]

    and eliminating b leaves R = I + G + S A / (A + S) z z', a sum of semidefinite terms: nothing is
    subtracted, whatever the mean of the columns. (Sparse rows are not centred, to keep them sparse.)

    Parameters
    ----------
    Z : array or CSR matrix of shape (m, n)
    costs : ndarray of shape (m,)
        C_i.
    bias : Bias
    """

    def __init__(self, Z: Matrix, costs: FloatArray, bias: Bias) -> None:
        self.Z = Z
        self.costs = costs
        self.bias = bias
        n = Z.shape[1]
        total = float(costs.sum())
        mean = np.asarray(Z.T @ costs) / total if total > 0 else np.zeros(n)
        A = bias.penalty
        self._total = A + total
        self._pull = 0.0 * mean if bias.is_absent else total / (A + total) * mean
        self._matrix = np.asfortranarray(_scatter(Z, costs, mean, total))
        left = total if bias.is_absent else total * A / (A + total)
        self._matrix += left * np.outer(mean, mean)
        self._matrix[np.diag_indices(n)] += 1.0
        self._factor = self._matrix.copy(order="F")
        cholesky_with_jitter(self._factor, np.diagonal(self._matrix).copy(), self._refill)

    def _refill(self) -> None:
        self._factor[:] = self._matrix

    def step(self, p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (w, b) of the normal equations for right-hand sides p of shape (n, k), q of shape (k,)."""
        w = np.array(p - np.outer(self._pull, q), order="F")
        solve_triangular_in_place(self._factor, w)
        solve_triangular_in_place(self._factor, w, transpose=True)
        if self.bias.is_absent:
            return w, np.zeros_like(q)
        return w, q / self._total - self._pull @ w

    def solve(self, targets: FloatArray) -> Solution:
        """Return the (w, b) that minimises the squared loss of the rows."""
        weighted = self.costs[:, None] * targets
        w, b = self.step(np.asarray(self.Z.T @ weighted), weighted.sum(axis=0))
        return Solution(primal=w, bias=b, factor=self)

    def refine(self, solution: Solution, targets: FloatArray) -> Solution:
        """Return the solution after one step of iterative refinement."""
        w, b = solution.primal, solution.bias
        assert w is not None
        beta = self.costs[:, None] * (targets - np.asarray(self.Z @ w) - b)
        pull = 0.0 * b if self.bias.is_absent else self.bias.penalty * b
        dw, db = self.step(np.asarray(self.Z.T @ beta) - w, beta.sum(axis=0) - pull)
        return Solution(primal=w + dw, bias=b + db, factor=self)

    def diag_inverse(self) -> FloatArray:
        """Return the diagonal of inv(H), bordered by the bias: C_i (1 - C_i h_i), h_i the leverage."""
        m, n = self.Z.shape
        leverage = np.full(m, 0.0 if self.bias.is_absent else 1.0 / self._total)
        for part in row_blocks(m, n):
            block = self.Z[part]
            rows = block.toarray() if sp.issparse(block) else block
            away = np.array((rows - self._pull).T, dtype=np.float64, order="F")
            solve_triangular_in_place(self._factor, away)
            leverage[part] += np.einsum("ij,ij->j", away, away)
        return np.asarray(self.costs * (1.0 - self.costs * leverage))


def _scatter(Z: Matrix, costs: FloatArray, mean: FloatArray, total: float) -> FloatArray:
    """Return sum C_i (z_i - mean)(z_i - mean)', by blocks."""
    n = Z.shape[1]
    scatter = np.zeros((n, n))
    for part in row_blocks(Z.shape[0], n):
        block, weight = Z[part], costs[part, None]
        if sp.issparse(block):
            scatter += (block.multiply(weight).T @ block).toarray()
        else:
            centred = (block - mean) * np.sqrt(weight)
            scatter += centred.T @ centred
    if sp.issparse(Z):
        scatter -= total * np.outer(mean, mean)
    return scatter
