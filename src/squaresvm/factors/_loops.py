"""The adjacent switches of an L D L' factor, compiled when first needed and kept on disk.

Import this module only where a factor is about to be switched: importing Numba takes half a second.
"""

from __future__ import annotations

from squaresvm.runtime.jit import compiled
from squaresvm.typing import FloatArray, IntArray

__all__ = ["switch_out"]


@compiled()
def switch_out(L: FloatArray, D: FloatArray, order: IntArray, positions: IntArray, size: int) -> float:
    """Move the rows at `positions`, largest first, behind the last by switches (64); return their cost."""
    work = 0.0
    end = size - 1
    for first in positions:
        for p in range(first, end):
            _switch(L, D, p, size)
            order[p], order[p + 1] = order[p + 1], order[p]
            work += 8.0 * (size - p)
        end -= 1
    return work


@compiled()
def _switch(L: FloatArray, D: FloatArray, p: int, size: int) -> None:
    """Exchange rows p and p + 1 of A, and bring L and D up to date: equation (64)."""
    q = p + 1
    below, upper, lower = L[q, p], D[p], D[q]
    # The lines of (64), top to bottom; its mu comes first, and mu^ is first * between.
    mu = upper * below
    first = lower + mu * below
    between = mu / first
    second = upper - first * between * between
    if second <= 0.0:  # upper lower / first in exact arithmetic, and never negative.
        second = upper * lower / first
    for j in range(p):
        L[p, j], L[q, j] = L[q, j], L[p, j]
    left, right = L[:size, p], L[:size, q]
    share, inverse = lower / first, upper / second
    for i in range(q + 1, size):
        old = left[i]
        new = share * right[i] + between * old
        left[i] = new
        right[i] = inverse * old - mu / second * new
    L[q, p] = between
    D[p], D[q] = first, second
