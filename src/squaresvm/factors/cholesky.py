"""Cholesky factor of H = K + diag(1/C), bordered by the bias."""

from __future__ import annotations

import numpy as np

from squaresvm.factors.jitter import cholesky_with_jitter
from squaresvm.lapack import solve_triangular_in_place
from squaresvm.operators import KernelStore
from squaresvm.operators.blocks import row_blocks
from squaresvm.problem import Bias
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray

__all__ = ["CholeskyFactor"]


class CholeskyFactor:
    """L with L L' = K + diag(ridge), in the room of a kernel store.

    With N0 = inv(H) and u = N0 1, the bordered system [H, 1; 1', -A] (beta, b) = (t, c) has the solution

        b = (1'N0 t - c) / (A + 1'u),    beta = N0 t - u b

    so one factor serves free, penalised and absent bias, and any number of right-hand sides.

    Where H is singular in floating point (equal rows at C = 1e8) the factor is that of H with a jitter of
    the size of rounding on its diagonal. `refine` then works towards H itself, and the problem's certificate
    says how far that went.

    Parameters
    ----------
    store : KernelStore
        K, and room for L.
    ridge : ndarray of shape (m,)
        1 / C_i.
    bias : Bias

    Attributes
    ----------
    jitter : float
        What was added to the diagonal; 0.0 where H is positive definite in floating point.
    """

    def __init__(self, store: KernelStore, ridge: FloatArray, bias: Bias) -> None:
        self.store = store
        self.ridge = ridge
        self.bias = bias
        self._factorise()

    def _factorise(self) -> None:
        diagonal = self.store.diagonal + self.ridge
        refill = self.store.copy_kernel_to_room
        self.jitter = cholesky_with_jitter(self.store.room, diagonal, refill)
        self._ones = self._inner_solve(np.ones((self.store.n_rows, 1)))[:, 0]
        penalty = 0.0 if self.bias.is_absent else self.bias.penalty
        self._schur = penalty + float(self._ones.sum())

    def refresh(self) -> None:
        """Factor anew from K."""
        self.store.copy_kernel_to_room()
        self._factorise()

    def _inner_solve(self, rhs: FloatArray) -> FloatArray:
        """Return N0 rhs."""
        out = np.array(rhs, dtype=np.float64, order="F")
        solve_triangular_in_place(self.store.room, out)
        solve_triangular_in_place(self.store.room, out, transpose=True)
        return out

    def _bordered_solve(
        self, rhs: FloatArray, border: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        beta = self._inner_solve(rhs)
        if self.bias.is_absent:
            return beta, np.zeros(rhs.shape[1])
        bias = (beta.sum(axis=0) - border) / self._schur
        beta -= np.outer(self._ones, bias)
        return beta, bias

    def solve(self, targets: FloatArray) -> Solution:
        """Return the solution of H beta + b = targets, 1'beta = A b."""
        beta, bias = self._bordered_solve(targets)
        return self._balance(beta, bias)

    def _balance(self, beta: FloatArray, bias: FloatArray) -> Solution:
        """Return the solution with what rounding left of 1'beta - A b moved into the bias.

        Where the targets are all but constant, beta is all rounding, and so would its sum be.
        """
        if not self.bias.is_absent:
            left = (beta.sum(axis=0) - self.bias.penalty * bias) / self._schur
            beta -= np.outer(self._ones, left)
            bias = bias + left
        return Solution(beta=beta, bias=bias, factor=self)

    def residual(self, solution: Solution, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return targets - H beta - b and A b - 1'beta."""
        beta = solution.beta
        assert beta is not None
        rows = targets - self.store.matmul(beta) - self.ridge[:, None] * beta - solution.bias
        if self.bias.is_absent:
            return rows, np.zeros(targets.shape[1])
        return rows, self.bias.penalty * solution.bias - beta.sum(axis=0)

    def refine(self, solution: Solution, targets: FloatArray) -> Solution:
        """Return the solution after one step of iterative refinement."""
        rows, border = self.residual(solution, targets)
        step, bias = self._bordered_solve(rows, border)
        assert solution.beta is not None
        return self._balance(solution.beta + step, solution.bias + bias)

    def diag_inverse(self) -> FloatArray:
        """Return the diagonal of the inverse of the bordered matrix, rows only.

        (N0)_ii is the squared norm of column i of inv(L), which starts at row i: blocks of columns need no
        second m x m matrix.
        """
        m = self.store.n_rows
        diagonal = np.empty(m)
        for columns in row_blocks(m, m):
            start = columns.start
            unit = np.zeros((m - start, columns.stop - start), order="F")
            unit[np.diag_indices(columns.stop - start)] = 1.0
            solve_triangular_in_place(self.store.room[start:, start:], unit)
            diagonal[columns] = np.einsum("ij,ij->j", unit, unit)
        if not self.bias.is_absent:
            diagonal -= self._ones**2 / self._schur
        return diagonal
