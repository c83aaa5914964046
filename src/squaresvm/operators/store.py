"""One preallocated buffer for K, filled by blocks, with room for a triangular factor beside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from squaresvm.lapack import symmetric_product
from squaresvm.operators.blocks import row_blocks
from squaresvm.typing import FloatArray, IntArray

__all__ = ["KernelStore"]


class KernelStore:
    """A symmetric matrix in the upper triangle of one buffer, and room for a factor in the lower one.

    The buffer has one row more than columns. K takes its upper triangle, diagonal included; one row further
    down, what is left is a whole lower triangle, diagonal included, for a Cholesky factor or an inverse.
    So K stays at hand for the certificate, for refinement and for a new factorisation, in the memory of
    one square matrix.

    Parameters
    ----------
    n_rows : int
    block : callable
        ``block(rows, columns)`` returns K[rows, columns] for two slices.

    Attributes
    ----------
    kernel : ndarray of shape (m, m)
        View of the buffer whose upper triangle is K.
    room : ndarray of shape (m, m)
        View of the buffer whose lower triangle is free. It starts as K.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.operators import KernelStore
    >>> K = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> store = KernelStore(2, lambda rows, columns: K[rows, columns])
    >>> store.room[np.tril_indices(2)] = np.nan  # whoever borrows the room may write there
    >>> store.matmul(np.array([[1.0], [1.0]])).ravel()
    array([3., 4.])
    """

    def __init__(self, n_rows: int, block: Callable[[slice, slice], FloatArray]) -> None:
        buffer = np.empty((n_rows + 1, n_rows), order="F")
        self.kernel = buffer[:-1]
        self.room = buffer[1:]
        for columns in row_blocks(n_rows, n_rows):
            start, stop = columns.start, columns.stop
            values = block(slice(start, n_rows), columns)
            below = values[stop - start :]
            self.room[stop:, columns] = below
            self.kernel[columns, stop:] = below.T
            self._fill_corner(values[: stop - start], columns)

    def _fill_corner(self, values: FloatArray, part: slice) -> None:
        lower = np.tril_indices(values.shape[0])
        self.room[part, part][lower] = values[lower]
        self.kernel[part, part].T[lower] = values[lower]

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return int(self.kernel.shape[0])

    @property
    def diagonal(self) -> FloatArray:
        """Diagonal of K."""
        return np.diagonal(self.kernel).copy()

    def copy_kernel_to_room(self) -> None:
        """Write K into the room again, for another factorisation."""
        m = self.n_rows
        for columns in row_blocks(m, m):
            self.room[columns.stop :, columns] = self.kernel[columns, columns.stop :].T
            self._fill_corner(self.kernel[columns, columns].T, columns)

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b for b of shape (m, k)."""
        return symmetric_product(self.kernel, b, lower=False)

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j| for each row and column of b."""
        total = np.zeros_like(b)
        size = np.abs(b)
        m = self.n_rows
        for columns in row_blocks(m, m):
            start, stop = columns.start, columns.stop
            above = np.abs(self.kernel[:stop, columns])
            above[start:] = np.triu(above[start:], 1)
            total[:stop] += above @ size[columns]
            total[columns] += above.T @ size[:stop]
        total += np.abs(self.diagonal)[:, None] * size
        return total

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return K[rows, columns], a new array."""
        first = np.minimum(rows[:, None], columns[None, :])
        second = np.maximum(rows[:, None], columns[None, :])
        return self.kernel[first, second]
