"""The default search where all cells are too many: low-rank models of all, then exact ones near the best.

A model on landmarks has the leave-one-out values of all rows, for every C, from one small decomposition
(:class:`~squaresvm.search.paths.LinearPath` on its features). Its scores tell where the best cell is about.
From there on cells are exact, one Cholesky factor each: the best and its four neighbours, and on to a better
neighbour as long as there is one. That of smaller gamma, where kernels of distances are smoother, is left out
where its low-rank score is too low for what the best cell gained from being exact. Of more than some thousand
rows a sample is searched like this: an exact cell of all would cost more than it tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from squaresvm.kernels import Kernel
from squaresvm.linalg.blas import solve_triangular_in_place
from squaresvm.linalg.lapack import NotPositiveDefiniteError, cholesky_in_place, invert_triangular_in_place
from squaresvm.runtime.resources import row_blocks, thread_count
from squaresvm.search.grid import Cell, Search, SearchResults
from squaresvm.search.paths import LinearPath, Path
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = [
    "EXACT_ROWS",
    "WALK_ROWS",
    "CellPath",
    "Walk",
    "can_be_low_rank",
    "cell_paths",
    "low_rank_path",
    "rows_to_search",
]

#: Rows from which on a default grid is walked, up to which all of them are, and of a sample of more.
WALK_ROWS, EXACT_ROWS, _SAMPLE = 700, 6000, 3000
_LANDMARKS = 400
#: What is added to the kernel of the landmarks, as a share of its largest diagonal entry.
_JITTER = 1e-10
#: Moves to a better neighbour at most.
_MOVES = 20
#: Times what the best cell gains from being exact that a smoother neighbour may gain.
_MOST_GAIN = 2.0
#: Rows up to which kernel matrices of several gammas may be held at once without being asked for.
_SIDE_BY_SIDE = 3000
#: Columns of a triangle taken at once.
_COLUMNS = 64


def can_be_low_rank(kernel: Kernel | None) -> bool:
    """Return whether a kernel is semidefinite, whatever its gamma is."""
    if kernel is None or not isinstance(kernel.function, str):
        return False
    return kernel.function in ("rbf", "laplacian") or (kernel.function == "poly" and kernel.coef0 >= 0.0)


def rows_to_search(m: int) -> IntArray:
    """Return all of m rows, or a sample of them, sorted."""
    if m <= EXACT_ROWS:
        return np.arange(m)
    return np.sort(np.random.default_rng(0).choice(m, min(m, _SAMPLE), replace=False))


def low_rank_path(
    kernel: Kernel, X: Matrix, targets: FloatArray, weights: FloatArray, *, free_bias: bool
) -> Path:
    """Return leave-one-out values over C of the model on landmarks, which are some of the rows."""
    m = X.shape[0]
    count = min(m, _LANDMARKS)
    landmarks = X[np.sort(np.random.default_rng(0).choice(m, count, replace=False))]
    root = kernel(landmarks, landmarks)
    root[np.diag_indices(count)] += _JITTER * float(np.diagonal(root).max())
    root = scipy.linalg.cholesky(root, lower=True, overwrite_a=True, check_finite=False)
    Z = np.asfortranarray(kernel(landmarks, X))
    solve_triangular_in_place(np.asfortranarray(root), Z)
    return LinearPath(Z.T, targets, weights, free_bias=free_bias)


class CellPath:
    """Leave-one-out values of a kernel model for few values of C: one Cholesky factor and its inverse each.

    Parameters
    ----------
    K : ndarray of shape (m, m), Fortran-ordered
    targets : ndarray of shape (m, k)
    weights : ndarray of shape (m,)
        All positive.
    free_bias : bool
        Free bias (True) or none.
    """

    def __init__(self, K: FloatArray, targets: FloatArray, weights: FloatArray, *, free_bias: bool) -> None:
        self._K, self._targets, self._weights, self._free_bias = K, targets, weights, free_bias

    def left_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C; None where K + diag(1/C) is not positive definite."""
        for C in Cs:
            H = self._K.copy(order="F")
            H[np.diag_indices(H.shape[0])] += 1.0 / (C * self._weights)
            try:
                cholesky_in_place(H)
            except NotPositiveDefiniteError:
                yield None
                continue
            yield self._values(H)

    def _values(self, factor: FloatArray) -> FloatArray:
        columns = [np.ones((self._targets.shape[0], 1)), self._targets]
        solved = np.asfortranarray(np.hstack(columns if self._free_bias else columns[1:]))
        solve_triangular_in_place(factor, solved)
        solve_triangular_in_place(factor, solved, transpose=True)
        invert_triangular_in_place(factor)
        pivot = _squares_of_columns(factor)  # The diagonal of inv(L)' inv(L), and nothing else of it.
        if not self._free_bias:
            return np.asarray(self._targets - solved / pivot[:, None])
        u = solved[:, [0]]
        schur = u.sum()
        bias = solved[:, 1:].sum(axis=0) / schur
        pivot -= u[:, 0] ** 2 / schur
        return np.asarray(self._targets - (solved[:, 1:] - u * bias) / pivot[:, None])


def _squares_of_columns(lower: FloatArray) -> FloatArray:
    """Return the sums of squares of the columns of a lower triangle."""
    sums = np.empty(lower.shape[0])
    for part in row_blocks(lower.shape[0], lower.shape[0], 8 * lower.shape[0] * _COLUMNS):
        corner, below = np.tril(lower[part, part]), lower[part.stop :, part]
        sums[part] = np.einsum("ij,ij->j", corner, corner) + np.einsum("ij,ij->j", below, below)
    return sums


@dataclass(frozen=True, eq=False)
class LowRankPaths:
    """Takes a gamma and returns the values over C of a low-rank model.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (m, n)
    targets : ndarray of shape (m, k)
    weights : ndarray of shape (m,)
    free_bias : bool
    """

    kernel: Kernel
    X: Matrix
    targets: FloatArray
    weights: FloatArray
    free_bias: bool

    def __call__(self, gamma: float | None) -> Path:
        """Return leave-one-out values over C."""
        kernel = _with_gamma(self.kernel, gamma)
        return low_rank_path(kernel, self.X, self.targets, self.weights, free_bias=self.free_bias)

    @property
    def is_by_distance(self) -> bool:
        """Whether models are smoother, and landmarks miss less of them, the smaller gamma is."""
        return self.kernel.function in ("rbf", "laplacian")


def cell_paths(
    kernel: Kernel, X: Matrix, targets: FloatArray, weights: FloatArray, free_bias: bool
) -> tuple[Callable[[float | None], Any], LowRankPaths]:
    """Return what makes exact paths of few cells of a gamma, and low-rank ones of many."""

    def exact(gamma: float | None) -> CellPath:
        K = _with_gamma(kernel, gamma)(X, X)
        return CellPath(K if K.flags.f_contiguous else K.T, targets, weights, free_bias=free_bias)

    return exact, LowRankPaths(kernel, X, targets, weights, free_bias)


def _with_gamma(kernel: Kernel, gamma: float | None) -> Kernel:
    return kernel if gamma is None else replace(kernel, gamma=gamma)


@dataclass(frozen=True, eq=False)
class Walk(Search):
    """A search whose first round is of low-rank models, and whose next goes from cell to better cell.

    Parameters
    ----------
    coarse : LowRankPaths
    sampled : bool
        Whether the rows are a sample.
    """

    coarse: LowRankPaths | None = None
    sampled: bool = False

    def run(self, Cs: Sequence[float], gammas: Sequence[float | None]) -> SearchResults:
        """Return the scores of the grid; exact ones near its best."""
        assert self.coarse is not None
        results = SearchResults(sampled=self.sampled)
        low_rank = Search(self.coarse, self.judge, 0, self._workers(), self.verbose, self.told)
        low_rank._round(results, {gamma: list(Cs) for gamma in gammas}, 0)
        results.exact = [False] * len(results.cells)
        self._go_up(results, Cs, gammas)
        for number in range(2, self.refine + 2):
            self._round(results, self._around_best(results), number)
        return results

    def _workers(self) -> int:
        """Return how many gammas to take at once.

        Where no number was asked for, a thread of linear algebra for each gamma does more than all threads
        for one gamma after the other, as long as the matrices are small.
        """
        assert self.judge is not None
        small = self.judge.X.shape[0] <= _SIDE_BY_SIDE
        return thread_count() if self.n_jobs is None and small else super()._workers()

    def _go_up(self, results: SearchResults, Cs: Sequence[float], gammas: Sequence[float | None]) -> None:
        """Take the best cell and its neighbours exactly, and go on from the best as long as it changes."""
        assert self.coarse is not None
        coarse = dict(zip(results.cells, results.scores, strict=True))
        best = results.best
        self._round(results, {best[1]: [best[0]]}, 1)
        for _ in range(_MOVES):
            known = {cell for cell, exact in zip(results.cells, results.exact, strict=True) if exact}
            score = results.scores[results.best_index]
            most = _MOST_GAIN * abs(score - coarse[best])
            grid: dict[float | None, list[float]] = {}
            for C, gamma in _cross(best, Cs, gammas):
                is_smoother = self.coarse.is_by_distance and (gamma or 0.0) < (best[1] or 0.0)
                hopeless = is_smoother and coarse[C, gamma] + most < score
                if (C, gamma) not in known and not hopeless:
                    grid.setdefault(gamma, []).append(C)
            self._round(results, grid, 1)
            if results.best == best:
                break
            best = results.best


def _cross(cell: Cell, Cs: Sequence[float], gammas: Sequence[float | None]) -> list[Cell]:
    """Return a cell and its neighbours along both axes."""
    row, column = list(Cs).index(cell[0]), list(gammas).index(cell[1])
    places = [(row, column), (row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    return [(Cs[i], gammas[j]) for i, j in places if 0 <= i < len(Cs) and 0 <= j < len(gammas)]
