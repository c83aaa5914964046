"""What a search found: scores of cells, and which of them are exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

__all__ = ["Cell", "Score", "SearchResults"]

#: A value of C and one of gamma; None where the kernel has no gamma.
Cell = tuple[float, float | None]


class Score(NamedTuple):
    """The score of a cell, what it took, and the score of each fold by itself, where there are folds."""

    score: float
    seconds: float = 0.0
    splits: tuple[float, ...] = ()


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
    exact : list of bools
        Whether the score is of the exact model, and not of a low-rank one.
    sampled : bool
        Whether the rows of the search are a sample, so that no score is of the model of all rows.
    splits : list of tuples of float
        Scores of each fold by itself; empty where single rows left.
    """

    cells: list[Cell] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    exact: list[bool] = field(default_factory=list)
    sampled: bool = False
    splits: list[tuple[float, ...]] = field(default_factory=list)

    def extend(self, found: dict[Cell, Score], number: int) -> None:
        """Add the exact scores and seconds of one round; those of cells that are there replace theirs."""
        for cell in sorted(found, key=lambda cell: (cell[0], cell[1] or 0.0)):
            score, seconds, splits = found[cell]
            if cell in self.cells:
                place = self.cells.index(cell)
                self.scores[place], self.exact[place], self.splits[place] = score, True, splits
                self.seconds[place] += seconds
                continue
            self.exact.append(True)
            self.cells.append(cell)
            self.scores.append(score)
            self.seconds.append(seconds)
            self.rounds.append(number)
            self.splits.append(splits)

    @property
    def best_index(self) -> int:
        """Where the first cell with the best exact score stands: of equal ones that of the smallest C."""
        exact, scores = np.array(self.exact), np.array(self.scores)
        if np.isfinite(scores[exact]).any():
            scores[~exact] = np.nan
        return int(np.nanargmax(scores))

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
        ranked = np.where(np.isnan(scores), worst, scores)
        # Scores of low-rank models say where to look: they come after all exact ones.
        ranked[~np.array(self.exact)] -= ranked.max() - ranked.min() + 1.0
        ranks = rankdata(-ranked, method="min").astype(np.int32)
        names = ("C",) if self.cells[0][1] is None else ("C", "gamma")
        params = [dict(zip(names, cell, strict=False)) for cell in self.cells]
        columns = {
            f"param_{name}": np.ma.array([cell[i] for cell in self.cells]) for i, name in enumerate(names)
        }
        by_fold = np.array(self.splits).reshape(len(self.cells), -1)
        splits: dict[str, Any] = {f"split{i}_test_score": each for i, each in enumerate(by_fold.T)}
        if splits:
            splits["std_test_score"] = by_fold.std(axis=1)
        return {
            "mean_fit_time": np.array(self.seconds),
            **columns,
            "params": params,
            **splits,
            "mean_test_score": scores,
            "rank_test_score": ranks,
            "iter": np.array(self.rounds),
            "exact": np.array(self.exact) & (not self.sampled),
        }
