"""The search over a grid: values of C and gamma, and rounds over them.

Values are the default ones, the caller's, or finer ones around the best. A round takes decompositions in
parallel, one for each gamma, each serving every C.
"""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy.stats import rankdata

from squaresvm.judging.scores import Judge
from squaresvm.runtime.arguments import check_positive
from squaresvm.search.paths import Path
from squaresvm.typing import FloatArray, IntArray

__all__ = [
    "Cell",
    "Score",
    "Search",
    "SearchResults",
    "check_values",
    "default_Cs",
    "default_gammas",
    "finer",
]

#: A value of C and one of gamma; None where the kernel has no gamma.
Cell = tuple[float, float | None]


class Score(NamedTuple):
    """The score of a cell, what it took, and the score of each fold by itself, where there are folds."""

    score: float
    seconds: float = 0.0
    splits: tuple[float, ...] = ()
    targets: tuple[float, ...] = ()


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
    targets : list of tuples of float
        Scores of each target by itself; empty where all have the same C.
    """

    cells: list[Cell] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    exact: list[bool] = field(default_factory=list)
    sampled: bool = False
    splits: list[tuple[float, ...]] = field(default_factory=list)
    targets: list[tuple[float, ...]] = field(default_factory=list)

    def extend(self, found: dict[Cell, Score], number: int) -> None:
        """Add the exact scores and seconds of one round; those of cells that are there replace theirs."""
        for cell in sorted(found, key=lambda cell: (cell[0], cell[1] or 0.0)):
            score, seconds, splits, targets = found[cell]
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
            self.targets.append(targets)

    @property
    def best_index(self) -> int:
        """Where the first cell with the best exact score stands: of equal ones that of the smallest C."""
        exact, scores = np.array(self.exact), np.array(self.scores)
        if np.isfinite(scores[exact]).any():
            scores[~exact] = np.nan
        return int(np.nanargmax(scores))

    @property
    def best_of_targets(self) -> IntArray:
        """Where the best cell of each target stands, of the gamma with the best mean of their best scores."""
        scores = np.array(self.targets)
        scores[np.isnan(scores)] = -np.inf
        of_gamma = [
            np.flatnonzero([cell[1] == gamma for cell in self.cells])
            for gamma in dict.fromkeys(cell[1] for cell in self.cells)
        ]
        chosen = max(of_gamma, key=lambda places: float(scores[places].max(axis=0).mean()))
        return np.asarray(chosen[scores[chosen].argmax(axis=0)])

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
        by_target = np.array(self.targets).reshape(len(self.cells), -1)
        splits |= {f"target{j}_test_score": each for j, each in enumerate(by_target.T)}
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


#: A gamma and the Cs to try with it.
_Task: TypeAlias = tuple[float | None, list[float]]


@dataclass(frozen=True, eq=False)
class Search:
    """A search by exact leave-one-out.

    Parameters
    ----------
    path : callable
        Takes a gamma, or None, and returns the values over C.
    judge : Judge or None
        None: cells are judged by their evidence.
    refine : int
        Rounds of a finer grid around the best.
    n_jobs : int or None
    verbose : bool
        Show progress, on a terminal.
    told : callable, optional
        Called after each decomposition.
    folds : list of ndarray, optional
        Rows that leave together, whose scores by fold are kept.
    by_target : bool, default=False
        Whether the scores of each target are kept.
    """

    path: Callable[[float | None], Path]
    judge: Judge | None
    refine: int
    n_jobs: int | None
    verbose: bool
    told: Callable[[], object] | None = None
    folds: Sequence[IntArray] | None = None
    by_target: bool = False

    def run(self, Cs: Sequence[float], gammas: Sequence[float | None]) -> SearchResults:
        """Return the scores of the grid, and of the finer ones around its best."""
        results = SearchResults()
        self._round(results, {gamma: list(Cs) for gamma in gammas}, 0)
        for number in range(1, self.refine + 1):
            self._round(results, self._around_best(results), number)
        return results

    def _around_best(self, results: SearchResults) -> dict[float | None, list[float]]:
        """Return a finer grid around the best cell, without cells that were tried."""
        C, gamma = results.best
        tried, seen = results.tried(0), set(results.cells)
        Cs = sorted({C, *finer(tried, C), *_neighbours(tried, C)})
        gammas: list[float | None] = [gamma]
        if gamma is not None:
            gammas += finer(results.tried(1), gamma)
        grid = {g: [c for c in Cs if (c, g) not in seen] for g in gammas}
        return {g: cs for g, cs in grid.items() if cs}

    def _round(self, results: SearchResults, grid: dict[float | None, list[float]], number: int) -> None:
        if not grid:
            return
        found: dict[Cell, Score] = {}
        with self._bar(len(grid), number) as advance:
            for column in self._columns(list(grid.items())):
                found.update(column)
                advance()
                if self.told is not None:
                    self.told()
        results.extend(found, number)
        self._check(results, found)

    def _columns(self, tasks: list[_Task]) -> Iterator[dict[Cell, Score]]:
        """Yield the results of each gamma as they come."""
        workers = min(self._workers(), len(tasks))
        # The one that would be alone in its turn gets all threads of linear algebra instead.
        shared = len(tasks) - (len(tasks) % workers == 1) if workers > 1 else 0
        if shared:
            with _single_threaded():
                pool = Parallel(n_jobs=workers, backend="threading", return_as="generator_unordered")
                yield from pool(delayed(self._column)(*task) for task in tasks[:shared])
        for task in tasks[shared:]:
            yield self._column(*task)

    def _workers(self) -> int:
        """Return how many gammas to take at once."""
        return int(effective_n_jobs(self.n_jobs))

    def _column(self, gamma: float | None, Cs: Sequence[float]) -> dict[Cell, Score]:
        """Return scores and seconds for one gamma and every C."""
        start = time.perf_counter()
        path, judge = self.path(gamma), self.judge
        if judge is None:
            found = [Score(float("nan") if score is None else score) for score in path.evidence(Cs)]
        else:
            found = [self._judged(judge, values) for values in path.left_out(Cs)]
        share = (time.perf_counter() - start) / len(Cs)
        return {(C, gamma): each._replace(seconds=share) for C, each in zip(Cs, found, strict=True)}

    def _judged(self, judge: Judge, values: FloatArray | None) -> Score:
        """Return the score of a cell; NaN where the problem was not convex."""
        nan, folds = float("nan"), self.folds or ()
        if values is None:
            targets = (nan,) * (judge.y.shape[1] if self.by_target else 0)
            return Score(nan, 0.0, (nan,) * len(folds), targets)
        targets = judge.of_targets(values) if self.by_target else ()
        return Score(judge(values), 0.0, judge.of_folds(values, folds), targets)

    @staticmethod
    def _check(results: SearchResults, found: dict[Cell, Score]) -> None:
        failed = [cell for cell, found_there in found.items() if np.isnan(found_there.score)]
        if len(failed) == len(found) and not np.isfinite(results.scores).any():
            raise ValueError(
                "no value of C and gamma has a score: either the kernel plus diag(1/C) is nowhere on "
                "the grid positive definite (choose smaller Cs or another kernel), or the scorer returned NaN"
            )
        if failed:
            C, gamma = failed[0]
            warnings.warn(
                f"{len(failed)} of {len(found)} cells have no score and are left out, the first at C = {C:g}"
                + ("" if gamma is None else f", gamma = {gamma:g}")
                + ": the kernel plus diag(1/C) is not positive definite there, or the scorer returned NaN",
                UserWarning,
                stacklevel=7,
            )

    @contextlib.contextmanager
    def _bar(self, total: int, number: int) -> Iterator[Callable[[], None]]:
        """Show how many decompositions are done: on a terminal, in one line."""
        shown = self.verbose and sys.stderr.isatty()
        done = 0

        def show() -> None:
            if shown:
                bar = "#" * (30 * done // total)
                rounds = f"\rround {number + 1} of {self.refine + 1}"
                sys.stderr.write(f"{rounds}: [{bar:30s}] {done} of {total} decompositions")
                sys.stderr.flush()

        def advance() -> None:
            nonlocal done
            done += 1
            show()

        show()
        try:
            yield advance
        finally:
            if shown:
                sys.stderr.write("\n")


def _neighbours(tried: Sequence[float], value: float) -> list[float]:
    place = tried.index(value)
    return list(tried[max(place - 1, 0) : place + 2])


@contextlib.contextmanager
def _single_threaded() -> Iterator[None]:
    """Give each worker one thread of linear algebra: more would fight for the cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield
