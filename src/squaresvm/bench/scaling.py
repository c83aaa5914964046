"""Scales of columns: taken from training rows, applied to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from squaresvm.typing import FloatArray

__all__ = ["Scaling"]


class Scaling(NamedTuple):
    """x becomes (x - centre) / scale, a missing x `fill` before that.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.bench.scaling import Scaling
    >>> train = np.array([[0.0, 5.0], [4.0, 5.0]])
    >>> Scaling.of(train, ["symmetric"])(np.array([[2.0, 7.0], [8.0, 5.0]]))
    array([[0., 0.],
           [3., 0.]])
    """

    fill: FloatArray
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, X: FloatArray, steps: Sequence[str]) -> Scaling:
        """Return the scaling that the rows and the steps call for: 'standardise', 'unit' or 'symmetric'."""
        missing = np.isnan(X)
        counts = np.maximum((~missing).sum(axis=0), 1)
        fill = np.where(missing, 0.0, X).sum(axis=0) / counts
        if missing.any():
            X = np.where(missing, fill, X)
        centre, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if "standardise" in steps:
            centre, scale = X.mean(axis=0), X.std(axis=0)
        elif "unit" in steps or "symmetric" in steps:
            low, high = X.min(axis=0), X.max(axis=0)
            centre, scale = (low, high - low) if "unit" in steps else ((low + high) / 2, (high - low) / 2)
        constant = scale <= 1e-12 * np.maximum(np.abs(centre), 1.0)
        return cls(fill, centre, np.where(constant, np.inf, scale))

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return rows in the scale of the training rows; columns that were constant there are 0."""
        filled = np.where(np.isnan(X), self.fill, X)
        return np.ascontiguousarray((filled - self.centre) / self.scale)
