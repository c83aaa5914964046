"""A matrix close to K + diag(1/C) that is cheap to solve with."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Protocol

import numpy as np
import scipy.linalg

from squaresvm.linalg.blas import gram_update
from squaresvm.problem import Problem
from squaresvm.runtime.resources import on_threads, thread_count
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = [
    "Exact",
    "LowRank",
    "Preconditioner",
    "choose_rank",
    "expected_iterations",
    "expected_work",
    "make_preconditioner",
    "rank_bytes",
]

#: Rows up to which the matrix itself is factored.
_WHOLE_ROWS = 512
#: Ranks out of which one is chosen.
_RANKS = (64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096)
#: Nanoseconds, measured: of making a preconditioner, for each row times rank^2 and times rank; of a product,
#: for each entry of K, with each column, and where entries are computed anew; of solving with a
#: preconditioner, for each row times rank, and with each column.
_FACTORING, _SELECTING = 0.05, 12.0
_ENTRY, _ENTRY_COLUMN, _ENTRY_ANEW = 0.17, 0.025, 1.4
_SOLVING, _SOLVING_COLUMN = 1.4, 0.12
#: ln(2 / accuracy) in the bound on iterations, a second run after refinement included.
_DIGITS = 17.0
#: Attempts to factor, each with a hundred times the jitter of the last.
_ATTEMPTS = 6
#: Columns up to which products with one vector at a time are faster than with a matrix.
_FEW_COLUMNS = 3
#: Rows of a block of the Gram matrix.
_BLOCK = 4096


class Preconditioner(Protocol):
    """M, close to H = K + diag(1/C) on some rows."""

    def solve(self, v: FloatArray) -> FloatArray:
        """Return inv(M) v; zero outside the rows."""
        ...

    def restricted(self, active: BoolArray) -> Preconditioner:
        """Return the preconditioner of some of the rows."""
        ...


def expected_iterations(problem: Problem, rank: int) -> float:
    """Return half of a bound on the iterations with the best preconditioner of a rank.

    The eigenvalues of K sum up to its trace, so those behind the first `rank` are at most trace / rank, and
    sqrt(condition) / 2 ln(2 / accuracy) iterations do. On rows without structure, whose spectrum falls as
    slowly as that of any, 0.45 of the bound were needed.
    """
    trace = float((problem.costs * problem.operator.diagonal()).sum())
    return 0.25 * _DIGITS * float(np.sqrt(1.0 + trace / max(rank, 1)))


def expected_work(problem: Problem, rank: int, held: bool = True) -> float:
    """Return the nanoseconds that preconditioner and iterations are expected to take.

    Parameters
    ----------
    problem : Problem
    rank : int
    held : bool, default=True
        Whether K is held in float32 from one product to the next.
    """
    m, columns = problem.n_rows, problem.n_columns + (0 if problem.bias.is_absent else 1)
    making = m * rank * (_FACTORING * rank + _SELECTING)
    product = m**2 * (_ENTRY + _ENTRY_COLUMN * columns + (0.0 if held else _ENTRY_ANEW))
    solving = m * rank * (_SOLVING + _SOLVING_COLUMN * columns)
    return making + expected_iterations(problem, rank) * (product + solving)


def rank_bytes(n_rows: int, rank: int) -> int:
    """Return the bytes that a preconditioner of this rank takes."""
    return 8 * rank * (n_rows + 2 * rank)


def choose_rank(problem: Problem, memory: float, held: bool = True) -> int:
    """Return the rank at which preconditioner and iterations together take least, within the memory.

    Parameters
    ----------
    problem : Problem
    memory : float
        Bytes.
    held : bool, default=True
        As in `expected_work`.

    Returns
    -------
    int
        0 where none fits; the number of rows where the matrix itself is as cheap.
    """
    m = problem.n_rows
    if m <= _WHOLE_ROWS and rank_bytes(m, m) <= memory:
        return m
    fitting = [rank for rank in _RANKS if rank < m and rank_bytes(m, rank) <= memory]
    return min(fitting, key=lambda rank: expected_work(problem, rank, held), default=0)


class Exact:
    """H itself, factored: for few rows.

    Parameters
    ----------
    H : ndarray of shape (s, s)
    rows : ndarray of shape (s,)
        Where they stand among all.

    Attributes
    ----------
    jitter : float
        What was added to the diagonal, relative to its largest entry.
    rebuilt : int
        How often the factorisation failed.
    """

    def __init__(self, H: FloatArray, rows: IntArray) -> None:
        self._H = H
        self._rows = rows
        self._lower, self.jitter, self.rebuilt = _cholesky(H, 0.0)

    def solve(self, v: FloatArray) -> FloatArray:
        """Return inv(H) v; zero outside the rows."""
        out = np.zeros_like(v)
        out[self._rows] = scipy.linalg.cho_solve((self._lower, True), v[self._rows], check_finite=False)
        return out

    def restricted(self, active: BoolArray) -> Exact:
        """Return the factor of some of the rows."""
        place = np.flatnonzero(active[self._rows])
        return Exact(self._H[np.ix_(place, place)], self._rows[place])


class LowRank:
    """M = K_mr inv(K_rr) K_rm + diag(1/C) with r landmarks, by the Woodbury identity.

    With W = C^1/2 K_mr inv(R'), K_rr = R R':   inv(M) = C^1/2 (I - W inv(I + W'W) W') C^1/2.

    Whatever W is, this is positive definite; a W that rounding spoilt costs iterations and nothing else.

    Parameters
    ----------
    K : ndarray of shape (m, r), Fortran-ordered
        Columns of K; overwritten.
    landmarks : ndarray of shape (r,)
    costs : ndarray of shape (m,)

    Attributes
    ----------
    jitter, rebuilt
        As in `Exact`.
    """

    def __init__(self, K: FloatArray, landmarks: IntArray, costs: FloatArray) -> None:
        corner = K[landmarks]
        root, self.jitter, self.rebuilt = _cholesky(
            0.5 * (corner + corner.T), float(np.finfo(np.float64).eps) * landmarks.size
        )
        W = scipy.linalg.blas.dtrsm(1.0, root, K, side=1, lower=1, trans_a=1, overwrite_b=1)
        self._scale = np.sqrt(costs)
        W *= self._scale[:, None]
        self._W: FloatArray = W
        self._inner = _inverse_root(W)

    def solve(self, v: FloatArray) -> FloatArray:
        """Return inv(M) v; zero outside the rows."""
        scale, W, threads = self._scale[:, None], self._W, thread_count()
        out = np.empty(v.shape, order="F")

        def pulls(t: int, threads: int) -> FloatArray:
            part = _share(v.shape[0], t, threads)
            np.multiply(scale[part], v[part], out=out[part])
            return _times(W[part].T, out[part])

        def rest(t: int, threads: int) -> None:
            part = _share(v.shape[0], t, threads)
            out[part] -= _times(W[part], pull)
            out[part] *= scale[part]

        pull = np.sum(on_threads(pulls, threads), axis=0)
        # By the inverse of the triangular factor: a solve would go through another library's threads.
        pull = np.asfortranarray(self._inner.T @ (self._inner @ pull))
        on_threads(rest, threads)
        return out

    def restricted(self, active: BoolArray) -> LowRank:
        """Return the preconditioner of some of the rows, on the same columns."""
        other = copy(self)
        # A row that is left out costs nothing: its C is zero in both places.
        other._scale = np.where(active, self._scale, 0.0)
        other._inner = _inverse_root(self._W, active)
        return other


class Diagonal:
    """The diagonal of H: what is left where a kernel matrix of landmarks is not semidefinite.

    Parameters
    ----------
    diagonal : ndarray of shape (m,)
    """

    def __init__(self, diagonal: FloatArray) -> None:
        self._inverse: FloatArray = 1.0 / diagonal

    def solve(self, v: FloatArray) -> FloatArray:
        """Return v divided by the diagonal; zero outside the rows."""
        return self._inverse[:, None] * v

    def restricted(self, active: BoolArray) -> Diagonal:
        """Return the diagonal of some of the rows."""
        other = copy(self)
        other._inverse = np.where(active, self._inverse, 0.0)
        return other


def _share(n_rows: int, t: int, threads: int) -> slice:
    return slice(n_rows * t // threads, n_rows * (t + 1) // threads)


def _times(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a b, column by column: for few columns faster than a product of matrices."""
    if b.shape[1] > _FEW_COLUMNS:
        return (b.T @ a.T).T  # BLAS is a third faster with the narrow matrix on this side.
    out = np.empty((a.shape[0], b.shape[1]), order="F")
    for column in range(b.shape[1]):
        out[:, column] = a @ b[:, column]
    return out


def _inverse_root(W: FloatArray, active: BoolArray | None = None) -> FloatArray:
    """Return inv(L), where L L' = I + W'W over the active rows."""
    r = W.shape[1]
    gram = np.zeros((r, r), order="F")
    for start in range(0, W.shape[0], _BLOCK):
        block = W[start : start + _BLOCK]
        if active is not None:
            block = block[active[start : start + _BLOCK]]
        gram_update(gram, np.asfortranarray(block.T))
    gram[np.diag_indices(r)] += 1.0
    inverse, _ = scipy.linalg.lapack.dtrtri(_cholesky(gram, 0.0)[0], lower=1, overwrite_c=1)
    return np.asarray(inverse)


def _cholesky(matrix: FloatArray, jitter: float) -> tuple[FloatArray, float, int]:
    """Return the lower factor, the jitter relative to the largest diagonal entry, and failed attempts."""
    size = float(np.abs(np.diagonal(matrix)).max(initial=0.0)) or 1.0
    least = float(np.finfo(np.float64).eps) * matrix.shape[0]
    for attempt in range(_ATTEMPTS):
        shifted = matrix.copy(order="F")
        shifted[np.diag_indices_from(shifted)] += jitter * size
        lower, info = scipy.linalg.lapack.dpotrf(shifted, lower=1, overwrite_a=1, clean=1)
        if info == 0:
            return lower, jitter, attempt
        jitter = max(100.0 * jitter, least)
    raise np.linalg.LinAlgError("no jitter makes the preconditioner definite")


def make_preconditioner(
    problem: Problem, rank: int, columns: Callable[[IntArray], FloatArray]
) -> tuple[Preconditioner, str, dict[str, float]]:
    """Return a preconditioner of the given rank, what is to be said of it, and its jitter in numbers.

    Landmarks are drawn at random, always the same ones, with chances in proportion to C_i K_ii: what a row
    may add to the spectrum. A rank of as many as there are rows is H itself.
    """
    m = problem.n_rows
    made: Exact | LowRank
    try:
        if rank >= m:
            everyone = np.arange(m)
            H = problem.operator.block(everyone, everyone)
            H[np.diag_indices(m)] += problem.ridge
            made = Exact(H, everyone)
        else:
            landmarks = _landmarks(problem, rank)
            made = LowRank(columns(landmarks), landmarks, problem.costs)
    except np.linalg.LinAlgError:
        diagonal = np.abs(problem.operator.diagonal()) + problem.ridge
        note = "no jitter made the preconditioner definite, and the diagonal took its place"
        return Diagonal(diagonal), note, {"rank": 0.0, "rebuilt": float(_ATTEMPTS), "jitter": 0.0}
    work = {"rank": float(rank), "rebuilt": float(made.rebuilt), "jitter": made.jitter}
    note = f"the preconditioner failed to factor and was rebuilt with a jitter of {made.jitter:.0e}"
    return made, note if made.rebuilt else "", work


def _landmarks(problem: Problem, rank: int) -> IntArray:
    chance = problem.costs * np.abs(problem.operator.diagonal())
    total = float(chance.sum())
    share = chance / total if np.isfinite(total) and np.count_nonzero(chance) >= rank else None
    random = np.random.default_rng(0)
    return np.sort(random.choice(problem.n_rows, size=rank, replace=False, p=share))
