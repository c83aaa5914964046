"""Values of C and gamma: the default grid, the caller's, and finer ones around the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import rankdata

from squaresvm.runtime.arguments import check_positive

__all__ = ["Cell", "SearchResults", "check_values", "default_Cs", "default_gammas", "finer"]

#: A value of C and one of gamma; None where the kernel has no gamma.
Cell = tuple[float, float | None]


def default_Cs() -> list[float]:
    """Return 15 values from 1e-3 to 1e4, two a decade: each costs next to nothing."""
    return [float(f"{value:.4g}") for value in np.logspace(-3, 4, 15)]


def default_gammas(scale: float) -> list[float]:
    """Return 7 values from 1/256 to 16 times ``'scale'``, a factor of 4 apart: each costs a decomposition."""
    return [scale * 4.0**power for power in range(-4, 3)]


def check_values(name: str, values: Any) -> list[float]:
    """Return the caller's values, sorted, after a check: positive, finite, at least one, no two alike."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be a sequence of numbers, such as [0.1, 1.0, 10.0]; got {values!r}")
    checked = sorted(check_positive(f"{name}[{i}]", value) for i, value in enumerate(values))
    if not checked:
        raise ValueError(f"{name} is empty: give at least one value, or None for the default grid")
    for left, right in pairwise(checked):
        if left == right:
            raise ValueError(f"{name} holds {left!r} twice")
    return checked


def finer(seen: Sequence[float], best: float) -> list[float]:
    """Return values between the best and its neighbours, by ratio; a step beyond where there is no neighbour.

    Parameters
    ----------
    seen : sequence of floats
        Values tried so far.
    best : float
        One of them.

    Returns
    -------
    list of floats
        Empty where only one value was tried.

    Examples
    --------
    >>> from squaresvm.search.grid import finer
    >>> finer([1.0, 4.0, 16.0], 4.0)
    [2.0, 8.0]
    >>> finer([1.0, 4.0], 4.0)
    [2.0, 16.0]
    """
    ordered = sorted(seen)
    place = ordered.index(best)
    below = ordered[place - 1] if place else None
    above = ordered[place + 1] if place + 1 < len(ordered) else None
    if below is None and above is None:
        return []
    down = best * best / above if below is None and above is not None else _middle(below, best)
    up = best * best / below if above is None and below is not None else _middle(best, above)
    return [value for value in (down, up) if np.isfinite(value) and value > 0 and value not in ordered]


def _middle(left: float | None, right: float | None) -> float:
    assert left is not None
    assert right is not None
    return float(np.sqrt(left) * np.sqrt(right))


@dataclass
class SearchResults:
    """Scores of cells in the order of ``ParameterGrid``: by round, then C, then gamma.

    Parameters
    ----------
    cells : list of Cell
    scores : list of floats
        NaN where the problem was not convex.
    seconds : list of floats
        What each cell took, its share of the decomposition included.
    rounds : list of ints
        0 for the grid itself, then the finer ones.
    """

    cells: list[Cell] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)

    def extend(self, found: dict[Cell, tuple[float, float]], number: int) -> None:
        """Add the scores and seconds of one round."""
        for cell in sorted(found, key=lambda cell: (cell[0], cell[1] or 0.0)):
            score, seconds = found[cell]
            self.cells.append(cell)
            self.scores.append(score)
            self.seconds.append(seconds)
            self.rounds.append(number)

    @property
    def best_index(self) -> int:
        """Where the first cell with the best score stands: of equal ones that of the smallest C."""
        return int(np.nanargmax(self.scores))

    @property
    def best(self) -> Cell:
        """The best C and gamma."""
        return self.cells[self.best_index]

    def tried(self, axis: int) -> list[float]:
        """Return the values of C (0) or gamma (1) so far, sorted."""
        return sorted({value for cell in self.cells if (value := cell[axis]) is not None})

    def as_dict(self) -> dict[str, Any]:
        """Return the results in the form of ``GridSearchCV.cv_results_``."""
        scores = np.array(self.scores)
        worst = np.nanmin(scores) - 1.0
        ranks = rankdata(-np.where(np.isnan(scores), worst, scores), method="min").astype(np.int32)
        names = ("C",) if self.cells[0][1] is None else ("C", "gamma")
        params = [dict(zip(names, cell, strict=False)) for cell in self.cells]
        columns = {
            f"param_{name}": np.ma.array([cell[i] for cell in self.cells]) for i, name in enumerate(names)
        }
        return {
            "mean_fit_time": np.array(self.seconds),
            **columns,
            "params": params,
            "mean_test_score": scores,
            "rank_test_score": ranks,
            "iter": np.array(self.rounds),
        }
