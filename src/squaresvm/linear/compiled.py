"""Passes over many dense rows of one column of targets, compiled: one read of the rows, no temporaries.

Import this module only where a compiled loop is about to run: importing Numba takes half a second, and small
fits need none of it. The loops say the same as :mod:`squaresvm.linear.passes`, row by row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from squaresvm.typing import BoolArray, FloatArray

__all__ = ["evaluate_rows", "scatter_rows", "verify_rows"]

# Sums may be taken in another order, for the sake of vector instructions; nothing else is given up.
_FAST = {"reassoc", "contract", "nsz"}
#: Rows that are worked on side by side, and rows whose products are held at a time.
_LANES, _CHUNK = 8, 256


@njit(cache=True, nogil=True, fastmath=_FAST)
def evaluate_rows(
    Z: FloatArray,
    y: FloatArray,
    costs: FloatArray,
    w: FloatArray,
    b: float,
    hinge: bool,
    in_w: FloatArray,
    active: BoolArray,
) -> tuple[float, float]:
    """Add Z'beta to `in_w`, mark active rows, and return sum C xi^2 and 1'beta."""
    loss, in_b = 0.0, 0.0
    for i in range(Z.shape[0]):
        f = b
        for j in range(Z.shape[1]):
            f += Z[i, j] * w[j]
        xi = y[i] - f
        active[i] = not hinge or y[i] * xi > 0.0
        if active[i]:
            beta = costs[i] * xi
            loss += beta * xi
            in_b += beta
            for j in range(Z.shape[1]):
                in_w[j] += beta * Z[i, j]
    return loss, in_b


@njit(cache=True, nogil=True, fastmath=_FAST)
def scatter_rows(
    Z: FloatArray,
    y: FloatArray,
    costs: FloatArray,
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
    # Rows are gathered side by side, so that each product is a vector instruction over several of them.
    away, weighted = np.zeros((n, _LANES)), np.zeros((n, _LANES))
    sums, used = np.zeros((n, n, _LANES)), 0
    for i in range(Z.shape[0]):
        if not wanted[i]:
            continue
        cost = costs[i]
        total += cost
        target += cost * y[i]
        squares += cost * y[i] * y[i]
        for j in range(n):
            away[j, used] = Z[i, j] - origin[j]
            weighted[j, used] = cost * away[j, used]
            first[j] += weighted[j, used]
            response[j] += weighted[j, used] * y[i]
        used += 1
        if used == _LANES:
            _add_products(weighted, away, sums)
            used = 0
    weighted[:, used:] = 0.0
    _add_products(weighted, away, sums)
    for j in range(n):
        for k in range(j + 1):
            second[j, k] += sums[j, k].sum()
    return total, target, squares


@njit(cache=True, nogil=True, fastmath=_FAST)
def _add_products(weighted: FloatArray, away: FloatArray, sums: FloatArray) -> None:
    """Add to the lower triangle of `sums`, lane by lane, the products of two small matrices' rows."""
    for j in range(away.shape[0]):
        for k in range(j + 1):
            for lane in range(_LANES):
                sums[j, k, lane] += weighted[j, lane] * away[k, lane]


@njit(cache=True, nogil=True, fastmath=_FAST)
def verify_rows(
    Z: FloatArray,
    y: FloatArray,
    costs: FloatArray,
    w: FloatArray,
    b: float,
    shortfall: FloatArray,
    hinge: bool,
    curvature: float,
    up: FloatArray,
) -> tuple[float, float, float, float, float]:
    """Return the worst row, |beta|_1, sum C (|y| + |f|), and over rows with beta > 0 its sum and their loss.

    `shortfall` is Z'beta - w; `curvature` is 1/A, what h_i has besides K_ii + 1/C_i. Z'beta over rows with
    beta > 0 is added to `up` unless that is empty.
    """
    worst, size, rounding, sum_up, loss_up = 0.0, 0.0, 0.0, 0.0, 0.0
    f, away = np.empty(_CHUNK), np.empty(_CHUNK)
    for start in range(0, Z.shape[0], _CHUNK):
        stop = min(start + _CHUNK, Z.shape[0])
        # First both products, with nothing between that would keep them from being vectorised.
        for i in range(start, stop):
            here, there = b, 0.0
            for j in range(Z.shape[1]):
                here += Z[i, j] * w[j]
                there += Z[i, j] * shortfall[j]
            f[i - start], away[i - start] = here, there
        most, tight = 0.0, 0
        for i in range(start, stop):
            decision, lead = f[i - start], y[i] * away[i - start]
            xi = y[i] - decision
            room = y[i] * xi
            is_active = not hinge or room > 0.0
            beta = costs[i] * xi if is_active else 0.0
            above = max(beta, 0.0)
            size += abs(beta)
            sum_up += above
            loss_up += above * xi
            rounding += costs[i] * (abs(y[i]) + abs(decision))
            value = abs(away[i - start]) if is_active else 1.0 - y[i] * decision - lead
            most = value if value > most else most
            tight += hinge and is_active and room < lead
        if tight > 0:
            most = _worst_of(Z[start:stop], y[start:stop], costs[start:stop], f, away, curvature)
        worst = most if most > worst else worst
        if up.size > 0:
            for i in range(start, stop):
                xi = y[i] - f[i - start]
                if xi > 0.0 and y[i] * xi > 0.0:
                    for j in range(up.size):
                        up[j] += costs[i] * xi * Z[i, j]
    return worst, size, rounding, sum_up, loss_up


@njit(cache=True, nogil=True, fastmath=_FAST)
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
