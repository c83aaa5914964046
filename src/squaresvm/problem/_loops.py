"""Passes over many dense rows of one column of targets, compiled: one read of the rows, no temporaries.

Import this module only where a compiled loop is about to run: importing Numba takes half a second, and small
fits need none of it. The loops say the same as :mod:`squaresvm.problem.passes`, row by row.
"""

from __future__ import annotations

import numpy as np

from squaresvm.runtime.resources import compiled
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = [
    "compare_rows",
    "evaluate_rows",
    "multiply_rows",
    "multiply_sparse",
    "outline_rows",
    "scatter_rows",
    "verify_rows",
]

# Sums may be taken in another order, for the sake of vector instructions; nothing else is given up.
_FAST = {"reassoc", "contract", "nsz"}
#: Rows that are gathered for the products of their columns, and rows whose decisions are held at a time.
_GATHERED, _CHUNK = 64, 256


@compiled(fastmath=_FAST)
def evaluate_rows(
    Z: FloatArray,
    y: FloatArray,
    costs: FloatArray,
    step: int,
    w: FloatArray,
    b: float,
    hinge: bool,
    in_w: FloatArray,
    active: BoolArray,
) -> tuple[float, float]:
    """Add Z'beta to `in_w`, mark active rows, and return sum C xi^2 and 1'beta.

    Row i costs `costs[i * step]`: with step 0, all cost the same.
    """
    loss, in_b = 0.0, 0.0
    m, n = Z.shape
    # Four rows at a time and no branches: the sums are read and written a fourth as often, and rows that
    # are active here and there cost no more than others.
    together = m - m % 4
    for i in range(0, together, 4):
        f0, f1, f2, f3 = b, b, b, b
        for j in range(n):
            f0 += Z[i, j] * w[j]
            f1 += Z[i + 1, j] * w[j]
            f2 += Z[i + 2, j] * w[j]
            f3 += Z[i + 3, j] * w[j]
        beta0, loss0, active[i] = _multiplier(y[i], f0, costs[i * step], hinge)
        beta1, loss1, active[i + 1] = _multiplier(y[i + 1], f1, costs[(i + 1) * step], hinge)
        beta2, loss2, active[i + 2] = _multiplier(y[i + 2], f2, costs[(i + 2) * step], hinge)
        beta3, loss3, active[i + 3] = _multiplier(y[i + 3], f3, costs[(i + 3) * step], hinge)
        loss += loss0 + loss1 + loss2 + loss3
        in_b += beta0 + beta1 + beta2 + beta3
        for j in range(n):
            in_w[j] += beta0 * Z[i, j] + beta1 * Z[i + 1, j] + beta2 * Z[i + 2, j] + beta3 * Z[i + 3, j]
    for i in range(together, m):
        f = b
        for j in range(n):
            f += Z[i, j] * w[j]
        beta, its_loss, active[i] = _multiplier(y[i], f, costs[i * step], hinge)
        loss += its_loss
        in_b += beta
        for j in range(n):
            in_w[j] += beta * Z[i, j]
    return loss, in_b


@compiled(fastmath=_FAST, inline="always")
def _multiplier(y: float, f: float, cost: float, hinge: bool) -> tuple[float, float, bool]:
    """Return beta, C xi^2 and whether the row is active."""
    xi = y - f
    is_active = not hinge or y * xi > 0.0
    beta = cost * xi if is_active else 0.0
    return beta, beta * xi, is_active


@compiled(fastmath=_FAST)
def compare_rows(
    Z: FloatArray,
    y: FloatArray,
    costs: FloatArray,
    step: int,
    w: FloatArray,
    b: float,
    former_w: FloatArray,
    former_b: float,
    in_w: FloatArray,
    active: BoolArray,
    was_active: BoolArray,
) -> tuple[float, float]:
    """Do what `evaluate_rows` does for the squared hinge, and mark the rows that were active formerly."""
    loss, in_b = 0.0, 0.0
    # Few rows at a time, so that what the first loop has read is still in the cache for the second.
    for start in range(0, Z.shape[0], _CHUNK):
        stop = min(start + _CHUNK, Z.shape[0])
        rows, labels = Z[start:stop], y[start:stop]
        its_costs = costs[start * step : max(stop * step, 1)]
        more = evaluate_rows(rows, labels, its_costs, step, w, b, True, in_w, active[start:stop])
        loss += more[0]
        in_b += more[1]
        for i in range(start, stop):
            f = former_b
            for j in range(Z.shape[1]):
                f += Z[i, j] * former_w[j]
            was_active[i] = y[i] * (y[i] - f) > 0.0
    return loss, in_b


@compiled(fastmath=_FAST)
def scatter_rows(
    Z: FloatArray,
    y: FloatArray,
    costs: FloatArray,
    step: int,
    wanted: BoolArray,
    origin: FloatArray,
    first: FloatArray,
    second: FloatArray,
    response: FloatArray,
) -> tuple[float, float, float]:
    """Add sums of C (z - o), C (z - o)(z - o)' below its diagonal and C (z - o) y over the wanted rows.

    Returns sum C, sum C y and sum C y^2.
    """
    total, target, squares = 0.0, 0.0, 0.0
    n = Z.shape[1]
    # Rows are gathered side by side, so that each product is one sum over neighbours in memory.
    away, cost, label = np.empty((n, _GATHERED)), np.empty(_GATHERED), np.empty(_GATHERED)
    weighted, used = np.empty(_GATHERED), 0
    for i in range(Z.shape[0]):
        if not wanted[i]:
            continue
        for j in range(n):
            away[j, used] = Z[i, j] - origin[j]
        its_cost = costs[i * step]
        cost[used], label[used] = its_cost, y[i]
        total += its_cost
        target += its_cost * y[i]
        squares += its_cost * y[i] * y[i]
        used += 1
        if used == _GATHERED:
            _add_products(away, cost, label, used, weighted, first, second, response)
            used = 0
    _add_products(away, cost, label, used, weighted, first, second, response)
    return total, target, squares


@compiled(fastmath=_FAST)
def _add_products(
    away: FloatArray,
    cost: FloatArray,
    label: FloatArray,
    used: int,
    weighted: FloatArray,
    first: FloatArray,
    second: FloatArray,
    response: FloatArray,
) -> None:
    """Add what the gathered rows, the columns of `away`, bring to the three sums."""
    for j in range(away.shape[0]):
        alone, with_label = 0.0, 0.0
        for i in range(used):
            weighted[i] = cost[i] * away[j, i]
            alone += weighted[i]
            with_label += weighted[i] * label[i]
        first[j] += alone
        response[j] += with_label
        for k in range(j + 1):
            product = 0.0
            for i in range(used):
                product += weighted[i] * away[k, i]
            second[j, k] += product


@compiled(fastmath=_FAST)
def verify_rows(
    Z: FloatArray,
    y: FloatArray,
    costs: FloatArray,
    step: int,
    w: FloatArray,
    b: float,
    shortfall: FloatArray,
    hinge: bool,
    curvature: float,
    up: FloatArray,
) -> tuple[float, float, float, float]:
    """Return the worst row, |beta|_1, and over rows with beta > 0 its sum and their loss.

    `shortfall` is Z'beta - w; `curvature` is 1/A, what h_i has besides K_ii + 1/C_i. Z'beta over rows with
    beta > 0 is added to `up` unless that is empty.
    """
    worst, size, sum_up, loss_up = 0.0, 0.0, 0.0, 0.0
    f, away, cost = np.empty(_CHUNK), np.empty(_CHUNK), np.empty(_CHUNK)
    for start in range(0, Z.shape[0], _CHUNK):
        stop = min(start + _CHUNK, Z.shape[0])
        # First both products, with nothing between that would keep them from being vectorised.
        for i in range(start, stop):
            here, there = b, 0.0
            for j in range(Z.shape[1]):
                here += Z[i, j] * w[j]
                there += Z[i, j] * shortfall[j]
            f[i - start], away[i - start], cost[i - start] = here, there, costs[i * step]
        most, tight = 0.0, 0
        for i in range(start, stop):
            decision, lead = f[i - start], y[i] * away[i - start]
            xi = y[i] - decision
            room = y[i] * xi
            is_active = not hinge or room > 0.0
            beta = cost[i - start] * xi if is_active else 0.0
            above = max(beta, 0.0)
            size += abs(beta)
            sum_up += above
            loss_up += above * xi
            value = abs(away[i - start]) if is_active else 1.0 - y[i] * decision - lead
            most = value if value > most else most
            tight += hinge and is_active and room < lead
        if tight > 0:
            most = _worst_of(Z[start:stop], y[start:stop], cost, f, away, curvature)
        worst = most if most > worst else worst
        if up.size > 0:
            for i in range(start, stop):
                xi = y[i] - f[i - start]
                if xi > 0.0 and y[i] * xi > 0.0:
                    for j in range(up.size):
                        up[j] += cost[i - start] * xi * Z[i, j]
    return worst, size, sum_up, loss_up


@compiled(fastmath=_FAST)
def _worst_of(
    Z: FloatArray, y: FloatArray, costs: FloatArray, f: FloatArray, away: FloatArray, curvature: float
) -> float:
    """Return the largest |min(h y beta, y r)| of the squared hinge, where some rows are all but inactive."""
    worst = 0.0
    for i in range(Z.shape[0]):
        lead, room = y[i] * away[i], y[i] * (y[i] - f[i])
        if room <= 0.0:
            worst = max(worst, 1.0 - y[i] * f[i] - lead)
            continue
        if room < lead:
            h = 1.0 / costs[i] + curvature
            for j in range(Z.shape[1]):
                h += Z[i, j] * Z[i, j]
            lead = min(lead, h * costs[i] * room)
        worst = max(worst, abs(lead))
    return worst


@compiled(fastmath=_FAST)
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


@compiled(fastmath=_FAST)
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


@compiled(fastmath=_FAST)
def gather_columns(
    data: FloatArray, indices: IntArray, indptr: IntArray, V: FloatArray, out: FloatArray
) -> None:
    """Add Z'V to `out`, for a CSR matrix Z and some columns V."""
    for i in range(V.shape[0]):
        for place in range(indptr[i], indptr[i + 1]):
            value, j = data[place], indices[place]
            for c in range(V.shape[1]):
                out[j, c] += value * V[i, c]


@compiled(fastmath=_FAST)
def spread_columns(
    data: FloatArray, indices: IntArray, indptr: IntArray, W: FloatArray, out: FloatArray
) -> None:
    """Add Z W to `out`, for a CSR matrix Z and some columns W."""
    for i in range(out.shape[0]):
        for place in range(indptr[i], indptr[i + 1]):
            value, j = data[place], indices[place]
            for c in range(W.shape[1]):
                out[i, c] += value * W[j, c]


@compiled(fastmath=_FAST)
def outline_rows(
    Z: FloatArray, rows: IntArray, costs: FloatArray, column: FloatArray, squares: FloatArray
) -> None:
    """Add sum C_i z_i and sum C_i z_i^2 over some rows."""
    for i in rows:
        for j in range(column.size):
            weighted = costs[i] * Z[i, j]
            column[j] += weighted
            squares[j] += weighted * Z[i, j]
