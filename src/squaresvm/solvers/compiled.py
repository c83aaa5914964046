"""Loops that BLAS cannot do, compiled when first needed and kept on disk.

Import this module only where a compiled loop is about to run: importing Numba takes half a second, and
small fits need none of it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from squaresvm.typing import FloatArray

__all__ = ["pairwise_updates", "sesqui_updates"]


@njit(cache=True, nogil=True, fastmath=False)
def sesqui_updates(
    K: FloatArray,
    h: FloatArray,
    ridge: FloatArray,
    inverse_A: float,
    y: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    tol: float,
    max_updates: int,
) -> int:
    """Update one signed multiplier at a time, the one of largest violation, each clipped at zero.

    `gradient` is H beta - y and is kept up to date; the next multiplier is found in the same loop.
    Returns the number of updates.
    """
    m = y.size
    best, worst = -1, tol
    for j in range(m):
        violation = abs(min(h[j] * y[j] * beta[j], y[j] * gradient[j]))
        if violation > worst:
            best, worst = j, violation
    updates = 0
    while best >= 0 and updates < max_updates:
        i = best
        new = max(0.0, y[i] * (beta[i] - gradient[i] / h[i])) * y[i]
        step = new - beta[i]
        beta[i] = new
        gradient[i] += step * ridge[i]
        best, worst = -1, tol
        row = K[i]
        for j in range(m):
            gradient[j] += step * (row[j] + inverse_A)
            violation = abs(min(h[j] * y[j] * beta[j], y[j] * gradient[j]))
            if violation > worst:
                best, worst = j, violation
        updates += 1
    return updates


@njit(cache=True, nogil=True, fastmath=False)
def pairwise_updates(
    K: FloatArray,
    h: FloatArray,
    ridge: FloatArray,
    y: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    tol: float,
    max_updates: int,
) -> int:
    """Move two signed multipliers against each other, so that their sum stays zero.

    The pair is the one that violates the optimality conditions most. `gradient` is H beta - y, without the
    bias, and is kept up to date. Returns the number of updates.
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
    while most - least > tol and updates < max_updates:
        i, j = up, down
        step = (most - least) / (h[i] + h[j] - 2.0 * K[i, j])
        if y[i] < 0:
            step = min(step, -beta[i])
        if y[j] > 0:
            step = min(step, beta[j])
        beta[i] = 0.0 if y[i] < 0 and step == -beta[i] else beta[i] + step
        beta[j] = 0.0 if y[j] > 0 and step == beta[j] else beta[j] - step
        gradient[i] += step * ridge[i]
        gradient[j] -= step * ridge[j]
        row_i, row_j = K[i], K[j]
        least, most = np.inf, -np.inf
        for t in range(m):
            g = gradient[t] + step * (row_i[t] - row_j[t])
            gradient[t] = g
            if g < least and (y[t] > 0 or beta[t] < 0):
                up, least = t, g
            if g > most and (y[t] < 0 or beta[t] > 0):
                down, most = t, g
        updates += 1
    return updates
