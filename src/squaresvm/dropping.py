"""Arrays without some of their rows: what every request to forget does to everything that is held."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from squaresvm.typing import IntArray

__all__ = ["dropped"]

#: One row out of so many, and more, leave by copying what is between them.
_FEW = 256


def dropped(values: Any, positions: IntArray) -> Any:
    """Return an array or CSR matrix without some of its rows: few leave between straight copies.

    Parameters
    ----------
    values : array or CSR matrix, one row each
    positions : ndarray
        Of the rows that leave, each once.

    Returns
    -------
    array or CSR matrix
        A copy; of one value for all rows, a view.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.dropping import dropped
    >>> dropped(np.array([5, 6, 7, 8]), np.array([2, 0]))
    array([6, 8])
    """
    count, is_sparse = values.shape[0], not isinstance(values, np.ndarray)
    if not is_sparse and values.strides == (0,):
        return values[: count - positions.size]
    if is_sparse or positions.size > count // _FEW + 1:
        keep = np.ones(count, dtype=bool)
        keep[positions] = False
        return values[keep]
    if positions.size == 1:
        row = int(positions[0])
        return np.concatenate([values[:row], values[row + 1 :]])
    edges = np.concatenate([[-1], np.sort(positions), [count]])
    return np.concatenate([values[a + 1 : b] for a, b in pairwise(edges.tolist())])
