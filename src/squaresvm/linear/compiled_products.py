"""Products with the Hessian of one column of targets, compiled: rows that are not active are not read.

Import this module only where a compiled loop is about to run, as :mod:`squaresvm.linear.compiled`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from squaresvm.typing import FloatArray, IntArray

__all__ = ["multiply_rows", "multiply_sparse", "outline_rows"]

# Sums may be taken in another order, for the sake of vector instructions; nothing else is given up.
_FAST = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def multiply_rows(
    Z: FloatArray, rows: IntArray, costs: FloatArray, v: FloatArray, shift: float, out: FloatArray
) -> None:
    """Add sum C_i z_i (z_i'v - shift) over some rows to `out`."""
    together = rows.size - rows.size % 4
    for at in range(0, together, 4):
        i0, i1, i2, i3 = rows[at], rows[at + 1], rows[at + 2], rows[at + 3]
        f0, f1, f2, f3 = -shift, -shift, -shift, -shift
        for j in range(v.size):
            f0 += Z[i0, j] * v[j]
            f1 += Z[i1, j] * v[j]
            f2 += Z[i2, j] * v[j]
            f3 += Z[i3, j] * v[j]
        f0, f1, f2, f3 = costs[i0] * f0, costs[i1] * f1, costs[i2] * f2, costs[i3] * f3
        for j in range(v.size):
            out[j] += f0 * Z[i0, j] + f1 * Z[i1, j] + f2 * Z[i2, j] + f3 * Z[i3, j]
    for at in range(together, rows.size):
        i = rows[at]
        f = -shift
        for j in range(v.size):
            f += Z[i, j] * v[j]
        f *= costs[i]
        for j in range(v.size):
            out[j] += f * Z[i, j]


@njit(cache=True, nogil=True, fastmath=_FAST)
def multiply_sparse(
    data: FloatArray,
    indices: IntArray,
    indptr: IntArray,
    rows: IntArray,
    costs: FloatArray,
    v: FloatArray,
    shift: float,
    out: FloatArray,
) -> None:
    """Add sum C_i z_i (z_i'v - shift) over some rows of a CSR matrix to `out`."""
    for i in rows:
        # Without a sign, no place has to be looked at for counting from the end.
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        f = -shift
        for place in range(begin, end):
            f += data[place] * v[np.uint64(indices[place])]
        f *= costs[i]
        for place in range(begin, end):
            out[np.uint64(indices[place])] += f * data[place]


@njit(cache=True, nogil=True, fastmath=_FAST)
def outline_rows(
    Z: FloatArray, rows: IntArray, costs: FloatArray, column: FloatArray, squares: FloatArray
) -> None:
    """Add sum C_i z_i and sum C_i z_i^2 over some rows."""
    for i in rows:
        for j in range(column.size):
            weighted = costs[i] * Z[i, j]
            column[j] += weighted
            squares[j] += weighted * Z[i, j]
