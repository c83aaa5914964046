"""Memory: how much is free, and how many rows a temporary block may have."""

from __future__ import annotations

import os

__all__ = ["BLOCK_BYTES", "available_memory", "row_blocks"]

#: Bytes of one temporary block of kernel values.
BLOCK_BYTES = 16 * 2**20


def row_blocks(rows: int, columns: int, at_most: int = BLOCK_BYTES) -> list[slice]:
    """Return slices that cut `rows` into blocks of at most `at_most` bytes for `columns` float64s.

    Examples
    --------
    >>> row_blocks(5, 10, at_most=160)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, at_most // (8 * max(columns, 1)))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def available_memory() -> float:
    """Return the bytes of memory that are free; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")
