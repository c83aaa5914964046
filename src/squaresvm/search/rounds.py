"""The rounds of a search: decompositions in parallel, one for each gamma, each serving every C."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from squaresvm.search.grid import Cell, SearchResults, finer
from squaresvm.search.paths import Path
from squaresvm.search.scoring import Judge

__all__ = ["Search"]

#: A gamma and the Cs to try with it.
_Task: TypeAlias = tuple[float | None, list[float]]


@dataclass(frozen=True, eq=False)
class Search:
    """A search by exact leave-one-out.

    Parameters
    ----------
    path : callable
        Takes a gamma, or None, and returns the values over C.
    judge : Judge
    refine : int
        Rounds of a finer grid around the best.
    n_jobs : int or None
    verbose : bool
        Show progress, on a terminal.
    told : callable, optional
        Called after each decomposition.
    """

    path: Callable[[float | None], Path]
    judge: Judge
    refine: int
    n_jobs: int | None
    verbose: bool
    told: Callable[[], object] | None = None

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
        found: dict[Cell, tuple[float, float]] = {}
        with self._bar(len(grid), number) as advance:
            for column in self._columns(list(grid.items())):
                found.update(column)
                advance()
                if self.told is not None:
                    self.told()
        results.extend(found, number)
        self._check(results, found)

    def _columns(self, tasks: list[_Task]) -> Iterator[dict[Cell, tuple[float, float]]]:
        """Yield the results of each gamma as they come."""
        workers = min(effective_n_jobs(self.n_jobs), len(tasks))
        # The one that would be alone in its turn gets all threads of linear algebra instead.
        shared = len(tasks) - (len(tasks) % workers == 1) if workers > 1 else 0
        if shared:
            with _single_threaded():
                pool = Parallel(n_jobs=workers, backend="threading", return_as="generator_unordered")
                yield from pool(delayed(self._column)(*task) for task in tasks[:shared])
        for task in tasks[shared:]:
            yield self._column(*task)

    def _column(self, gamma: float | None, Cs: Sequence[float]) -> dict[Cell, tuple[float, float]]:
        """Return scores and seconds for one gamma and every C."""
        start = time.perf_counter()
        scores = [
            float("nan") if values is None else self.judge(values)
            for values in self.path(gamma).leave_one_out(Cs)
        ]
        share = (time.perf_counter() - start) / len(Cs)
        return {(C, gamma): (score, share) for C, score in zip(Cs, scores, strict=True)}

    @staticmethod
    def _check(results: SearchResults, found: dict[Cell, tuple[float, float]]) -> None:
        failed = [cell for cell, (score, _) in found.items() if np.isnan(score)]
        if len(failed) == len(found) and not np.isfinite(results.scores).any():
            raise ValueError(
                "no value of C and gamma has a score: either the kernel plus diag(1/C) is positive definite "
                "nowhere on the grid (choose smaller Cs or another kernel), or the scorer returned NaN"
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
