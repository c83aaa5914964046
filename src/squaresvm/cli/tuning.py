"""``train --tune``: what was chosen, whether the grid was wide enough, and what its score is worth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from squaresvm.cli.inputs import Data

__all__ = ["Tuning", "tuned"]

#: Parameters that a search takes from the command line as the fit does.
_SHARED = ("kernel", "degree", "coef0", "tol", "class_weight")
#: Times that the grid is made wider, and the range of C and gamma (by 'scale') in which it stays.
_WIDENED = 3
_RANGE = (1e-8, 1e8)


@dataclass(frozen=True)
class Tuning:
    """What a search chose.

    Parameters
    ----------
    best : dict
        C, and gamma where the kernel has one.
    score : float
        The largest score on the grid: of many, and so too good.
    cells : int
        Pairs of C and gamma that were tried.
    score_name : str
    ranges : dict
        Smallest and largest value that was tried of each.
    widened : int
        How often the grid was made wider because the best was at its edge.
    """

    best: dict[str, float]
    score: float
    cells: int
    score_name: str
    ranges: dict[str, tuple[float, float]]
    widened: int

    @property
    def at_edge(self) -> list[str]:
        """What is best at an edge of the grid still."""
        return [name for name, value in self.best.items() if value in self.ranges[name]]

    def lines(self) -> list[str]:
        """Return what was chosen for people."""
        chosen = ", ".join(f"{name} = {value:.6g}" for name, value in self.best.items())
        lines = [
            f"Tuned: {chosen}, with the largest leave-one-out {self.score_name} of {self.cells} tried, "
            f"{self.score:.4f}; as the best of many it is optimistic."
        ]
        if self.widened:
            lines.append("The best was at the edge of the grid, which was made wider.")
        for name in self.at_edge:
            low, high = self.ranges[name]
            lines.append(f"{name} is still best at the edge of what was tried, {low:.3g} to {high:.3g}.")
        return lines

    def facts(self) -> dict[str, Any]:
        """Return what was chosen as JSON."""
        return {**asdict(self), "at_edge": self.at_edge}


def tuned(model: Any, rows: Data) -> Tuning:
    """Return the best C and gamma by exact leave-one-out; a grid with the best at its edge is widened.

    Parameters
    ----------
    model : LSSVC or LSSVR
        With the parameters that are not searched.
    rows : Data
    """
    from squaresvm import search

    searches: dict[str, Any] = {"LSSVC": search.LSSVCCV, "LSSVR": search.LSSVRCV}
    shared = {name: getattr(model, name) for name in _SHARED if hasattr(model, name)}
    make = searches[type(model).__name__]
    grid: dict[str, Any] = {}
    for widened in range(_WIDENED + 1):
        found = make(**shared, **grid).fit(rows.X, rows.y, sample_weight=rows.weights)
        tried_cells = found.cv_results_["params"]
        values = {name: sorted({cell[name] for cell in tried_cells}) for name in found.best_params_}
        wider = {f"{name}s": _wider(tried, found.best_params_[name]) for name, tried in values.items()}
        if widened == _WIDENED or all(len(wider[f"{name}s"]) == len(values[name]) for name in values):
            break
        grid = wider
    kind = "R2" if not hasattr(model, "class_weight") else "accuracy"
    name = f"balanced {kind}" if getattr(model, "class_weight", None) == "balanced" else kind
    ranges = {each: (tried[0], tried[-1]) for each, tried in values.items()}
    cells = len(tried_cells)
    best = {each: float(value) for each, value in found.best_params_.items()}
    return Tuning(best, float(found.best_score_), cells, name, ranges, widened)


def _wider(tried: list[float], best: float) -> list[float]:
    """Return the values with four more beyond the edge at which the best is; the same where it is at none."""
    if len(tried) < 2 or best not in (tried[0], tried[-1]):
        return tried
    step = tried[1] / tried[0]
    if best == tried[0]:
        more = [tried[0] / step**power for power in range(4, 0, -1)]
    else:
        more = [tried[-1] * step**power for power in range(1, 5)]
    return sorted({*tried, *(value for value in more if _RANGE[0] <= value <= _RANGE[1])})
