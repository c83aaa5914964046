"""What every operator offers."""

from __future__ import annotations

from typing import Protocol

from squaresvm.operators.single import SingleKernel
from squaresvm.operators.store import KernelStore
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Operator"]


class Operator(Protocol):
    """The kernel matrix K of m rows.

    ``features`` is Z with K = Z Z' where such a factor with fewer columns than rows is at hand (a linear
    kernel, Nystrom features), else None. Whoever can work on Z does; whoever cannot asks for blocks.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        ...

    @property
    def features(self) -> Matrix | None:
        """Z of shape (m, n), n < m, with K = Z Z'; None where there is none."""
        ...

    def diagonal(self) -> FloatArray:
        """Return the diagonal of K."""
        ...

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b for b of shape (m, k)."""
        ...

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j|, the size that rounding is measured by; 0 in rows not computed."""
        ...

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns], a new array."""
        ...

    def full(self) -> FloatArray | None:
        """Return K in one array, to read, where it is held so; else None."""
        ...

    def in_single(self, memory: float) -> SingleKernel | None:
        """Return products with K in float32, within some bytes; None where K is at hand in float64."""
        ...

    def store(self) -> KernelStore:
        """Return K in a buffer that a factor may share; made when first asked for."""
        ...

    @property
    def slots(self) -> IntArray:
        """Slot of each row in the store."""
        ...

    def expand(self, coefficients: FloatArray) -> FloatArray:
        """Return the coefficients of k(x_i, .) in f, given the multipliers: the same for most kernels."""
        ...

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return sum_i k(x, x_i) coefficients_i for each row x of X."""
        ...
