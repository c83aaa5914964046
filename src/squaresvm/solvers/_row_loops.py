"""Single updates of a linear model that carries w: an update costs the entries of one row.

Import this module only where a loop is about to run, as :mod:`squaresvm.solvers._smo_loops`.

Rows come as the arrays of a CSR matrix. Those of dense rows are the same without column numbers: where
`columns` is empty, row i holds the columns from the first to the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from squaresvm.runtime.jit import compiled
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["as_rows", "row_updates"]

#: Lehmer's generator: its numbers shuffle rows, and are the same on every machine and without Numba.
_FACTOR, _MODULUS = 48271, 2147483647
#: Places are counted by unsigned numbers: the compiler then need not ask whether they count from the end,
#: which takes as long as the products themselves.
_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


def as_rows(Z: Matrix) -> tuple[Any, Any, Any]:
    """Return values, column numbers and where rows begin, of dense or CSR rows."""
    if isinstance(Z, np.ndarray):
        flat = np.ascontiguousarray(Z).reshape(-1)
        return flat, np.empty(0, dtype=np.uint32), np.arange(Z.shape[0] + 1, dtype=np.uint64) * Z.shape[1]
    unsigned = np.uint32 if Z.indices.dtype == np.int32 else np.uint64
    return Z.data, Z.indices.view(unsigned), Z.indptr.astype(np.uint64)


@compiled(fastmath={"contract", "reassoc", "nsz"})
def _dense_along(values: Any, w: FloatArray) -> float:
    """Return x'w of a dense row."""
    total = 0.0
    for j in range(values.size):
        total += values[j] * w[j]
    return total


@compiled(fastmath={"contract"})
def _dense_add(values: Any, step: float, w: FloatArray) -> None:
    """Add `step` times a dense row to w."""
    for j in range(values.size):
        w[j] += step * values[j]


@compiled(fastmath={"contract"})
def _along(values: Any, columns: Any, begin: Any, end: Any, w: FloatArray) -> float:
    """Return x'w of a sparse row; in four sums, which need not wait for each other."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    p, fours = begin, begin + (end - begin) // _FOUR * _FOUR
    while p < fours:
        first += values[p] * w[columns[p]]
        second += values[p + _ONE] * w[columns[p + _ONE]]
        third += values[p + _TWO] * w[columns[p + _TWO]]
        fourth += values[p + _THREE] * w[columns[p + _THREE]]
        p += _FOUR
    while p < end:
        first += values[p] * w[columns[p]]
        p += _ONE
    return (first + second) + (third + fourth)


@compiled(fastmath={"contract"})
def _add(values: Any, columns: Any, begin: Any, end: Any, step: float, w: FloatArray) -> None:
    """Add `step` times a sparse row to w."""
    p = begin
    while p < end:
        w[columns[p]] += step * values[p]
        p += _ONE


@compiled()
def _shuffle(order: IntArray, count: int, seed: int) -> int:
    """Put the first `count` of `order` into another order; return a new seed."""
    for s in range(count):
        seed = seed * _FACTOR % _MODULUS
        t = s + ((seed * (count - s)) >> 31)
        i = order[s]
        order[s] = order[t]
        order[t] = i
    return seed


@compiled(fastmath={"contract"})
def row_updates(
    values: Any,
    columns: Any,
    begins: Any,
    y: FloatArray,
    h: FloatArray,
    ridge: FloatArray,
    inverse_A: float,
    length: float,
    bounded: bool,
    beta: FloatArray,
    w: FloatArray,
    b: float,
    order: IntArray,
    active: int,
    shrinks_at: float,
    seed: int,
) -> tuple[float, int, float, int]:
    """Update each of the first `active` multipliers of `order` once, in a new order of chance.

    Equation numbers are those of the relaxed paper. The step is (31) times `length`, cut at zero where the
    multipliers are `bounded`; the violation of a row is that of (18), or of (34) and (35) in one number,
    as it was found before its step. A row at its bound with a gradient beyond `shrinks_at` is put behind
    the active ones.

    Returns
    -------
    worst : float
        Largest violation.
    active : int
    b : float
        The bias, which follows the multipliers by (16).
    seed : int
    """
    seed = _shuffle(order, active, seed)
    aside = np.empty(active, dtype=order.dtype)
    worst, kept, left, is_sparse = 0.0, 0, 0, columns.size > 0
    for s in range(active):
        i = order[s]
        begin, end = begins[i], begins[i + 1]
        gradient = b + ridge[i] * beta[i] - y[i]
        if is_sparse:
            gradient += _along(values, columns, begin, end, w)
        else:
            gradient += _dense_along(values[begin:end], w)
        if bounded and beta[i] == 0.0 and y[i] * gradient > shrinks_at:
            aside[left] = i
            left += 1
            continue
        order[kept] = i
        kept += 1
        if bounded:
            violation = abs(min(h[i] * y[i] * beta[i], y[i] * gradient))
            new = max(0.0, y[i] * (beta[i] - length * gradient / h[i])) * y[i]
        else:
            violation = abs(gradient)
            new = beta[i] - length * gradient / h[i]
        worst = max(worst, violation)
        step = new - beta[i]
        if step != 0.0:
            beta[i] = new
            b += step * inverse_A
            if is_sparse:
                _add(values, columns, begin, end, step, w)
            else:
                _dense_add(values[begin:end], step, w)
    order[kept:active] = aside[:left]
    return worst, kept, b, seed
