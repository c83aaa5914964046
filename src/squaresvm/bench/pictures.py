"""What a picture of a model in the plane needs, small enough for a file of results."""

from __future__ import annotations

from typing import Any

import numpy as np

from squaresvm.typing import FloatArray

__all__ = ["picture_of"]

_GRID = 120
_FEW = 10


def picture_of(model: Any, X: FloatArray, y: FloatArray) -> dict[str, Any]:
    """Return decision values on a grid, the points, and the size of each one's multiplier.

    Parameters
    ----------
    model : fitted classifier
    X : ndarray of shape (m, 2)
    y : ndarray of shape (m,)

    Returns
    -------
    dict
        ``box`` (x from, to, y from, to), ``decision`` (rows from top to bottom), ``points``, ``labels``,
        ``sizes`` (multipliers, the largest is 1), ``margins`` (whether the lines at 1 and -1 are of use).
    """
    if X.shape[1] != 2:
        raise ValueError(f"a picture needs 2 columns; got {X.shape[1]}")
    low, high = X.min(axis=0), X.max(axis=0)
    room = (0.3 if len(y) <= _FEW else 0.08) * (high - low)  # Few points leave margins room beside them.
    low, high = low - room, high + room
    across, down = np.linspace(low[0], high[0], _GRID), np.linspace(high[1], low[1], _GRID)
    grid = np.column_stack([np.tile(across, _GRID), np.repeat(down, _GRID)])
    values = model.decision_function(grid).reshape(_GRID, _GRID)
    sizes = np.zeros(len(y))
    sizes[model.support_] = np.abs(model.dual_coef_[0])
    return {
        "box": [float(low[0]), float(high[0]), float(low[1]), float(high[1])],
        "decision": np.round(np.clip(values, -9.0, 9.0), 2).tolist(),
        "points": np.round(X, 4).tolist(),
        "labels": y.astype(int).tolist(),
        "margins": getattr(model, "kernel", "") == "linear",
        "sizes": np.round(sizes / max(sizes.max(), 1e-300), 3).tolist(),
    }
