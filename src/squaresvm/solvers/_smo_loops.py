"""Loops that BLAS cannot do, compiled when first needed and kept on disk.

Import this module only where a compiled loop is about to run: importing Numba takes half a second, and
small fits need none of it.

Rows of K come as a flat array, see :class:`squaresvm.operators.RowCache`. Each loop ends when nothing
violates by more than `tol`, when its updates are used up, or when it needs a row that is not at hand; it
returns the number of updates and that row, -1 where none is missing (for pairs, both rows).
"""

from __future__ import annotations

import numpy as np

from squaresvm.runtime.jit import compiled
from squaresvm.typing import FloatArray, IntArray

__all__ = ["pairwise_updates", "plain_updates", "sesqui_updates", "two_updates"]

#: The largest violation is found chunk by chunk: within one without a branch, so that it is vectorised.
_CHUNK = 512
#: A row at hand is taken in place of the largest violation if its own is at least this share of it.
_SHARE = 0.5
#: Below the bits of any violation.
_NOTHING = np.int64(-1)

# LLVM vectorises the maximum of integers, not that of floats; and the bits of floats that are not negative
# are in the order of the floats.


@compiled(fastmath={"contract"})
def _move(
    gradient: FloatArray,
    row: FloatArray,
    drift: FloatArray,
    step: float,
    extra: float,
    violation: FloatArray,
    bits: IntArray,
) -> np.int64:
    """Update a chunk of the gradient; return its largest violation, as bits."""
    for j in range(gradient.size):
        g = gradient[j] + step * (row[j] + extra - drift[j])  # f of (19) at all rows, after one step.
        gradient[j] = g
        violation[j] = abs(g)
    largest = np.int64(0)
    for j in range(gradient.size):
        largest = max(largest, bits[j])
    return largest


@compiled(fastmath={"contract"})
def _move_bounded(
    gradient: FloatArray,
    row: FloatArray,
    reach: FloatArray,
    y: FloatArray,
    step: float,
    extra: float,
    violation: FloatArray,
    bits: IntArray,
) -> np.int64:
    """Update a chunk of the gradient; return its largest violation under bounds, as bits."""
    for j in range(gradient.size):
        g = gradient[j] + step * (row[j] + extra)  # f of (19) at all rows, after one step.
        gradient[j] = g
        violation[j] = abs(min(reach[j], y[j] * g))  # (34) and (35) in one number.
    largest = np.int64(0)
    for j in range(gradient.size):
        largest = max(largest, bits[j])
    return largest


@compiled(fastmath={"contract"})
def two_updates(
    values: FloatArray,
    stride: int,
    place: IntArray,
    lengths: FloatArray,
    ridge: FloatArray,
    shift: FloatArray,
    drift: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    tol: float,
    max_updates: int,
) -> tuple[int, int]:
    """Update one signed multiplier at a time, the one of largest violation |r_i|, without bounds.

    The matrix is K + diag(ridge) + shift_i - drift_j; `gradient` is its product with beta, less the targets.
    It is kept up to date, and the next multiplier is found in the same loop. A step is minus the gradient
    times its length: the reciprocal of the diagonal leads to the minimum, less than twice as far is downhill.
    Equation numbers are those of the relaxed paper; lambda_k is y_k beta_k, and a gradient y_k times what
    (18) asks to vanish.
    """
    m = beta.size
    violation = np.empty(_CHUNK)
    bits = violation.view(np.int64)
    best, worst = 0, -1.0
    for j in range(m):
        if abs(gradient[j]) > worst:
            best, worst = j, abs(gradient[j])
    updates = 0
    while worst > tol and updates < max_updates:  # Step 2: (18) holds for all.
        i = best  # Step 1: the one that violates (18) most.
        if place[i] < 0:
            near, most = -1, -1.0
            for j in range(m):
                if place[j] >= 0 and abs(gradient[j]) > most:
                    near, most = j, abs(gradient[j])
            if near < 0 or most < _SHARE * worst:
                return updates, i
            i = near
        step = -gradient[i] * lengths[i]  # (31), with the numerator 1 - y_k f(x_k) - lambda_k / C.
        beta[i] += step
        gradient[i] += step * ridge[i]  # 1/C on the diagonal of (21); its other entries, K + 1/A, in _move.
        start = place[i] * stride
        row = values[start : start + m]
        extra = shift[i]
        top, chunk = _NOTHING, 0
        for low in range(0, m, _CHUNK):
            high = min(low + _CHUNK, m)
            largest = _move(gradient[low:high], row[low:high], drift[low:high], step, extra, violation, bits)
            if largest > top:
                top, chunk = largest, low
        best, worst = chunk, -1.0
        for j in range(chunk, min(chunk + _CHUNK, m)):
            if abs(gradient[j]) > worst:
                best, worst = j, abs(gradient[j])
        updates += 1
    return updates, -1


@compiled(fastmath={"contract"})
def sesqui_updates(
    values: FloatArray,
    stride: int,
    place: IntArray,
    h: FloatArray,
    lengths: FloatArray,
    ridge: FloatArray,
    inverse_A: float,
    y: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    reach: FloatArray,
    tol: float,
    max_updates: int,
) -> tuple[int, int]:
    """Update one signed multiplier at a time, the one of largest violation, each clipped at zero.

    `gradient` is H beta - y, `reach` is h y beta, the other half of the violation; both are kept up to date.
    Steps and equation numbers are as in `two_updates`.
    """
    m = beta.size
    scratch = np.empty(_CHUNK)
    bits = scratch.view(np.int64)
    best, worst = 0, -1.0
    for j in range(m):
        violation = abs(min(reach[j], y[j] * gradient[j]))
        if violation > worst:
            best, worst = j, violation
    updates = 0
    while worst > tol and updates < max_updates:
        i = best  # Step 1: the one that violates (34) or (35) most.
        if place[i] < 0:
            near, most = -1, -1.0
            for j in range(m):
                violation = abs(min(reach[j], y[j] * gradient[j]))
                if place[j] >= 0 and violation > most:
                    near, most = j, violation
            if near < 0 or most < _SHARE * worst:
                return updates, i
            i = near
        # (31), cut at the bound that (34) and (35) rest on.
        new = max(0.0, y[i] * (beta[i] - gradient[i] * lengths[i])) * y[i]
        step = new - beta[i]
        beta[i] = new
        reach[i] = h[i] * y[i] * new
        gradient[i] += step * ridge[i]  # As in `two_updates`: (21).
        start = place[i] * stride
        row = values[start : start + m]
        top, chunk = _NOTHING, 0
        for low in range(0, m, _CHUNK):
            high = min(low + _CHUNK, m)
            largest = _move_bounded(
                gradient[low:high],
                row[low:high],
                reach[low:high],
                y[low:high],
                step,
                inverse_A,
                scratch,
                bits,
            )
            if largest > top:
                top, chunk = largest, low
        best, worst = chunk, -1.0
        for j in range(chunk, min(chunk + _CHUNK, m)):
            violation = abs(min(reach[j], y[j] * gradient[j]))
            if violation > worst:
                best, worst = j, violation
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
        if (y[j] > 0 or beta[j] < 0) and gradient[j] < least:
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
            # (31) for one of them.
            step_i = -least / (h[i] + inverse_A) if -least >= most else 0.0
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
        gradient[i] += step_i * ridge[i]
        gradient[j] += step_j * ridge[j]
        extra = inverse_A * (step_i + step_j)
        up, down = -1, -1
        least, most = np.inf, -np.inf
        for t in range(m):
            g = gradient[t] + step_i * row_i[t] + step_j * row_j[t] + extra
            gradient[t] = g
            if g < least and (y[t] > 0 or beta[t] < 0):
                up, least = t, g
            if g > most and (y[t] < 0 or beta[t] > 0):
                down, most = t, g
        updates += 1
    return updates, -1, -1


@compiled(fastmath={"contract"})
def plain_updates(
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
        new = beta[k] - g / h[k]  # (31), with the numerator 1 - y_k f(x_k) - lambda_k / C.
        if bounded and y[k] * new < 0.0:
            new = 0.0
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
