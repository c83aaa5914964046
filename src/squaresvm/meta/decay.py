"""Times of the rows in a window over a stream, and weights that halve with their age.

A row that came at t weighs its own sample weight times 2^(-(now - t) / half_life), where now is when the
latest row came. Time is counted in arrivals, or as the caller gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from squaresvm.typing import BoolArray, FloatArray

__all__ = ["OLDEST", "Decay", "check_decay", "check_times"]

#: Half-lives after which a row leaves: it weighs less than 1e-30 of the latest one.
OLDEST = 100.0


@dataclass(frozen=True, eq=False)
class Decay:
    """When the rows of a window came, and what time it is for them.

    Parameters
    ----------
    moments : ndarray of shape (m,)
        When each row held came: arrival numbers, or times.
    now : float
        When the latest row came, held or not: forgetting a row makes no other one younger.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.meta.decay import Decay
    >>> Decay(np.array([0.0, 5.0, 10.0]), 10.0).factors(5.0).tolist()
    [0.25, 0.5, 1.0]
    """

    moments: FloatArray
    now: float

    @classmethod
    def begun(cls, times: FloatArray | None, count: int) -> Decay:
        """Return the ages of the first rows."""
        moments = np.arange(count, dtype=np.float64) if times is None else times
        return cls(moments, float(moments[-1]))

    def joined(self, times: FloatArray | None, count: int) -> Decay:
        """Return the ages after `count` new rows have come; `times` are those of the new rows."""
        new = self.now + np.arange(1.0, count + 1.0) if times is None else times
        return Decay(np.concatenate([self.moments, new]), float(new[-1]))

    def at(self, kept: BoolArray) -> Decay:
        """Return the ages of some of the rows."""
        return Decay(self.moments[kept], self.now)

    def young(self, half_life: float) -> BoolArray:
        """Return which rows still weigh something."""
        return np.asarray(self.now - self.moments <= OLDEST * half_life)

    def factors(self, half_life: float) -> FloatArray:
        """Return what the weight of each row is multiplied by; 0 where it is too old."""
        found = np.exp2(-(self.now - self.moments) / half_life)
        return np.where(self.young(half_life), found, 0.0)


def check_decay(estimator: Any) -> None:
    """Raise a ValueError for an estimator whose weights cannot go down with age."""
    inner = getattr(estimator, "estimator", estimator)
    robust = getattr(inner, "robust", 0)
    if isinstance(robust, int) and robust == 0:
        return
    raise ValueError(
        "half_life and robust both change the weights of rows, and robust weights are computed once, at fit: "
        "choose one of them"
    )


def check_times(times: npt.ArrayLike | None, count: int, held: FloatArray | None) -> FloatArray | None:
    """Return the times of the rows held and the new ones, after a check."""
    if times is None:
        return None
    new = np.asarray(times, dtype=np.float64)
    if new.shape != (count,):
        raise ValueError(f"times must give one number a row, {count}; got shape {new.shape}")
    if not np.isfinite(new).all():
        raise ValueError("times must be finite")
    joined = new if held is None else np.concatenate([held, new])
    if np.any(np.diff(joined) < 0):
        where = int(np.flatnonzero(np.diff(joined) < 0)[0]) + 1
        raise ValueError(f"times must not fall: {joined[where]:g} comes after {joined[where - 1]:g}")
    return joined
