"""What every factor offers."""

from __future__ import annotations

from typing import Protocol

from squaresvm.solution import Solution
from squaresvm.typing import FloatArray

__all__ = ["Factor"]


class Factor(Protocol):
    """A factor of M = [H, 1; 1', -A], the matrix of the squared loss, in whatever form.

    H = K + diag(1/C). The bias is kept in the border, free (A = 0), penalised or absent, because 1/A inside
    H would ruin its condition where A is small.
    """

    def solve(self, targets: FloatArray) -> Solution:
        """Return the solution of H beta + b = targets, 1'beta = A b."""
        ...

    def refine(self, solution: Solution, targets: FloatArray) -> Solution:
        """Return the solution after one step of iterative refinement."""
        ...

    def diag_inverse(self) -> FloatArray:
        """Return the diagonal of inv(M), rows only, of shape (m,)."""
        ...
