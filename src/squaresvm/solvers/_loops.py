"""Loops that BLAS cannot do, compiled when first needed and kept on disk.

Import this module only where a compiled loop is about to run: importing Numba takes half a second, and
small fits need none of it.

Rows of K come as a flat array, see :class:`squaresvm.operators.RowCache`. Each loop ends when nothing
violates by more than `tol`, when its updates are used up, or when it needs a row that is not at hand; it
returns the number of updates and that row, -1 where none is missing (for pairs, both rows).

`row_updates` are those of a linear model that carries w: an update costs the entries of one row. Rows come as
the arrays of a CSR matrix; those of dense rows are the same without column numbers: where `columns` is empty,
row i holds the columns from the first to the last.

Equation numbers are those of Joshi, Jayadeva, Ramakrishnan and Chandra, the relaxed paper; lambda_k is
y_k beta_k, and a gradient y_k times what (18) asks to vanish. Corrections: the numerator of (31) is
1 - y_k f(x_k) - lambda_k / C; and SesquiSMO has to cut it at lambda = 0, which (34) and (35) rest on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from squaresvm.runtime.resources import compiled
from squaresvm.typing import FloatArray, IntArray

__all__ = ["greedy_updates", "ordered_updates", "pairwise_updates", "row_updates"]

#: The largest violation is found chunk by chunk: within one without a branch, so that it is vectorised.
_CHUNK = 512
#: A row at hand is taken in place of the largest violation if its own is at least this share of it.
_SHARE = 0.5
#: Below the bits of any violation.
_NOTHING = np.int64(-1)
#: Lehmer's generator: its numbers shuffle rows, and are the same on every machine and without Numba.
_FACTOR, _MODULUS = 48271, 2147483647
#: Places are counted by unsigned numbers: the compiler then need not ask whether they count from the end,
#: which takes as long as the products themselves.
_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)

# LLVM vectorises the maximum of integers, not that of floats; and the bits of floats that are not negative
# are in the order of the floats.


@compiled(fastmath={"contract"})
def _move(
    gradient: FloatArray,
    row: FloatArray,
    drift: FloatArray,
    y: FloatArray | None,
    reach: FloatArray,
    step: float,
    extra: float,
    violation: FloatArray,
    bits: IntArray,
) -> np.int64:
    """Update a chunk of the gradient; return its largest violation, as bits. No drift under bounds."""
    for j in range(gradient.size):
        if y is None:
            g = gradient[j] + step * (row[j] + extra - drift[j])  # f of (19) after one step; extra is 1/A.
            violation[j] = abs(g)  # (18)
        else:
            g = gradient[j] + step * (row[j] + extra)  # (19)
            violation[j] = abs(min(reach[j], y[j] * g))  # (34) and (35) in one number.
        gradient[j] = g
    largest = np.int64(0)
    for j in range(gradient.size):
        largest = max(largest, bits[j])
    return largest


@compiled(fastmath={"contract"})
def _largest(
    gradient: FloatArray,
    y: FloatArray | None,
    reach: FloatArray,
    place: IntArray,
    low: int,
    high: int,
    at_hand: bool,
) -> tuple[int, float]:
    """Return the row of largest violation from `low` on, of all or of those at hand, and its violation."""
    best, worst = low, -1.0
    for j in range(low, high):
        if at_hand and place[j] < 0:
            continue
        violation = abs(gradient[j])  # (18)
        if y is not None:
            violation = abs(min(reach[j], y[j] * gradient[j]))  # (34) and (35).
        if violation > worst:
            best, worst = j, violation
    return best, worst


@compiled(fastmath={"contract"})
def greedy_updates(
    values: FloatArray,
    stride: int,
    place: IntArray,
    lengths: FloatArray,
    ridge: FloatArray,
    shift: FloatArray,
    drift: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    y: FloatArray | None,
    h: FloatArray,
    tol: float,
    max_updates: int,
) -> tuple[int, int]:
    """Update one signed multiplier at a time, the one of largest violation, cut at zero where y is given.

    The matrix is K + diag(ridge) + shift_i - drift_j, without drift under bounds, and h is its diagonal;
    `gradient` is its product with beta, less the targets. It is kept up to date, and the next multiplier is
    found in the same loop. A step is minus the gradient times its length: the reciprocal of the diagonal
    leads to the minimum, less than twice as far is downhill.
    """
    m = beta.size
    scratch = np.empty(_CHUNK)
    bits = scratch.view(np.int64)
    reach = h * beta  # With y the other half of the violation, (35).
    if y is not None:
        reach = y * reach
    best, worst = _largest(gradient, y, reach, place, 0, m, False)
    updates = 0
    while worst > tol and updates < max_updates:  # Step 2: until (18), or (34) and (35), hold for all.
        i = best  # Step 1: the one that violates them most.
        if place[i] < 0:
            near, most = _largest(gradient, y, reach, place, 0, m, True)
            if most < _SHARE * worst:
                return updates, i
            i = near
        new = beta[i] - gradient[i] * lengths[i]  # Step 3: (31), corrected.
        if y is not None:
            new = max(0.0, y[i] * new) * y[i]  # Cut at zero.
            reach[i] = h[i] * y[i] * new
        step = new - beta[i]
        beta[i] = new
        gradient[i] += step * ridge[i]  # 1/C on the diagonal of (21); its other entries, K + 1/A, in `_move`.
        start = place[i] * stride
        row = values[start : start + m]
        top, low = _NOTHING, 0
        for begin in range(0, m, _CHUNK):
            end = min(begin + _CHUNK, m)
            part, its = gradient[begin:end], row[begin:end]
            if y is None:
                largest = _move(part, its, drift[begin:end], None, reach, step, shift[i], scratch, bits)
            else:
                bound = reach[begin:end]
                largest = _move(part, its, drift, y[begin:end], bound, step, shift[i], scratch, bits)
            if largest > top:
                top, low = largest, begin
        best, worst = _largest(gradient, y, reach, place, low, min(low + _CHUNK, m), False)
        updates += 1
    return updates, -1


@compiled()
def pairwise_updates(
    values: FloatArray,
    stride: int,
    place: IntArray,
    h: FloatArray,
    ridge: FloatArray,
    inverse_A: float,
    y: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    tol: float,
    max_updates: int,
) -> tuple[int, int, int]:
    """Move two signed multipliers against each other, or one alone, each clipped at zero.

    The pair is the one that violates the optimality conditions most; it leaves 1'beta alone and so does not
    feel 1/A. One alone moves where that gains more, never where the bias is free (`inverse_A` is 0 then).
    `gradient` is H beta - y with the bias in it, and `h` the diagonal of K + diag(ridge), P of (41).
    """
    m = y.size
    up, down = -1, -1
    least, most = np.inf, -np.inf
    for j in range(m):
        if (y[j] > 0 or beta[j] < 0) and gradient[j] < least:  # (34) and (35), up to a free bias.
            up, least = j, gradient[j]
        if (y[j] < 0 or beta[j] > 0) and gradient[j] > most:
            down, most = j, gradient[j]
    updates = 0
    while updates < max_updates and up >= 0 and down >= 0:
        violation = most - least if inverse_A == 0.0 else max(most, -least)
        if violation <= tol:
            break
        i, j = up, down
        if place[i] < 0 or place[j] < 0:
            return updates, i, j
        row_i = values[place[i] * stride : place[i] * stride + m]
        row_j = values[place[j] * stride : place[j] * stride + m]
        both = 0.0
        if most > least:
            curvature = h[i] + h[j] - 2.0 * row_i[j]
            both = (most - least) / curvature if curvature > 0.0 else 0.0
        alone = max(most, -least)
        alone = alone * alone / ((h[i] if -least >= most else h[j]) + inverse_A)
        if inverse_A > 0.0 and alone > both * (most - least):
            step_i = -least / (h[i] + inverse_A) if -least >= most else 0.0  # (31) for one of them.
            step_j = 0.0 if -least >= most else -most / (h[j] + inverse_A)
        else:
            step_i, step_j = both, -both
            if y[i] < 0:
                step_i = min(step_i, -beta[i])
            if y[j] > 0:
                step_i = min(step_i, beta[j])
            step_j = -step_i
        if y[i] < 0:
            step_i = min(step_i, -beta[i])
        if y[j] > 0:
            step_j = max(step_j, -beta[j])
        if step_i == 0.0 and step_j == 0.0:
            break
        beta[i] = 0.0 if y[i] < 0 and step_i == -beta[i] else beta[i] + step_i
        beta[j] = 0.0 if y[j] > 0 and step_j == -beta[j] else beta[j] + step_j
        gradient[i] += step_i * ridge[i]  # (41)
        gradient[j] += step_j * ridge[j]
        extra = inverse_A * (step_i + step_j)  # The bias by (16).
        up, down = -1, -1
        least, most = np.inf, -np.inf
        for t in range(m):
            g = gradient[t] + step_i * row_i[t] + step_j * row_j[t] + extra  # f of (19) at all rows.
            gradient[t] = g
            if g < least and (y[t] > 0 or beta[t] < 0):
                up, least = t, g
            if g > most and (y[t] < 0 or beta[t] > 0):
                down, most = t, g
        updates += 1
    return updates, -1, -1


@compiled(fastmath={"contract"})
def ordered_updates(
    values: FloatArray,
    stride: int,
    place: IntArray,
    h: FloatArray,
    ridge: FloatArray,
    inverse_A: float,
    y: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    order: IntArray,
    begin: int,
    tol: float,
    bounded: bool,
) -> tuple[int, int, float]:
    """Update signed multipliers in a given order, from its place `begin` on, those that violate by `tol`.

    Return the place that was come to (that of a row that is not at hand, or the end), the number of updates,
    and the largest change of a multiplier. A negative `tol` updates all of them: no checks.
    """
    m, updates, largest = beta.size, 0, 0.0
    for t in range(begin, m):
        k = order[t]
        g = gradient[k]  # y_k times what (18) asks to vanish.
        violation = abs(min(h[k] * y[k] * beta[k], y[k] * g)) if bounded else abs(g)  # (34), (35); (18).
        if violation <= tol:
            continue
        new = beta[k] - g / h[k]  # (31), corrected.
        if bounded and y[k] * new < 0.0:
            new = 0.0  # Cut.
        step = new - beta[k]
        if step == 0.0:
            continue
        if place[k] < 0:
            return t, updates, largest
        beta[k] = new
        gradient[k] += step * ridge[k]  # (21)
        start = place[k] * stride
        row = values[start : start + m]
        for j in range(m):
            gradient[j] += step * (row[j] + inverse_A)  # f of (19) at all rows.
        largest = max(largest, abs(step))
        updates += 1
    return m, updates, largest


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

    The step is (31) times `length`. A row at its bound with a gradient beyond `shrinks_at` is put behind the
    active ones. Return the largest violation that was found, each before its step, and what `active`, `b`
    and `seed` have become.
    """
    seed = _shuffle(order, active, seed)
    aside = np.empty(active, dtype=order.dtype)
    worst, kept, left, is_sparse = 0.0, 0, 0, columns.size > 0
    for s in range(active):
        i = order[s]
        begin, end = begins[i], begins[i + 1]
        gradient = b + ridge[i] * beta[i] - y[i]  # (18), with f = w'x + b of (27).
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
            violation = abs(min(h[i] * y[i] * beta[i], y[i] * gradient))  # (34) and (35).
            new = max(0.0, y[i] * (beta[i] - length * gradient / h[i])) * y[i]  # (31), corrected and cut.
        else:
            violation = abs(gradient)  # (18)
            new = beta[i] - length * gradient / h[i]  # (31), corrected.
        worst = max(worst, violation)
        step = new - beta[i]
        if step != 0.0:
            beta[i] = new
            b += step * inverse_A  # (16)
            if is_sparse:  # w of (15).
                _add(values, columns, begin, end, step, w)
            else:
                _dense_add(values[begin:end], step, w)
    order[kept:active] = aside[:left]
    return worst, kept, b, seed
