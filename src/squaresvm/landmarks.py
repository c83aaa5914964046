"""Which rows stand for all others: ways to choose landmarks."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from squaresvm.kernels import Kernel
from squaresvm.operators.single import Tiles
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["LANDMARKS", "choose_landmarks"]

#: Ways to choose landmarks.
LANDMARKS = ("uniform", "k-means++", "leverage", "pivoted-cholesky")
#: Rows looked at for each landmark, and at least, by the ways that compare rows with landmarks one by one.
_CANDIDATES, _LEAST_CANDIDATES = 10, 2000


def choose_landmarks(
    how: str, kernel: Kernel, X: Matrix, count: int, random: np.random.RandomState
) -> IntArray:
    """Return the rows to take as landmarks, sorted.

    Parameters
    ----------
    how : str
        Out of ``LANDMARKS``.
    kernel : Kernel
    X : array or CSR matrix of shape (m, n)
    count : int
        At most m.
    random : RandomState

    Returns
    -------
    ndarray of at most `count` rows
        Fewer only with ``'pivoted-cholesky'``, where the landmarks so far explain all rows.
    """
    m = int(X.shape[0])
    if count == m:
        return np.arange(m)
    if how == "uniform":
        return np.sort(random.choice(m, size=count, replace=False))
    if how == "leverage":
        return _by_leverage(kernel, X, count, random)
    limit = max(_CANDIDATES * count, _LEAST_CANDIDATES)
    candidates = np.sort(random.choice(m, size=min(limit, m), replace=False))
    if how == "k-means++":
        from sklearn.cluster import kmeans_plusplus  # Imported late: it would slow down every start.

        _, inner = kmeans_plusplus(X[candidates], count, random_state=random)
        return _filled(np.unique(candidates[inner]), count, candidates, random)
    return np.sort(candidates[_pivots(kernel, X[candidates], count)])


def _filled(chosen: IntArray, count: int, candidates: IntArray, random: np.random.RandomState) -> IntArray:
    """Return `count` rows: where some were chosen twice, others in their place."""
    others = np.setdiff1d(candidates, chosen)
    extra = random.choice(others, size=count - chosen.size, replace=False)
    return np.sort(np.concatenate([chosen, extra]))


def _by_leverage(kernel: Kernel, X: Matrix, count: int, random: np.random.RandomState) -> IntArray:
    """Return rows drawn with chances in proportion to approximate ridge leverage scores.

    With S drawn with equal chances, a score is what K_SS leaves unexplained of a row,

        min(1, (k_ii - k_iS inv(K_SS + l I) k_Si) / L),    L = l m / |S|

    where the ridge l is what the eigenvalues of K_SS behind the first quarter add up to, shared among that
    quarter. No score is above one, or a few outliers would be all that is seen.
    """
    m = int(X.shape[0])
    sample = np.sort(random.choice(m, size=count, replace=False))
    K = Tiles(kernel, X).columns(sample)
    corner = 0.5 * (K[sample] + K[sample].T)
    values = scipy.linalg.eigvalsh(corner)
    first = max(1, count // 4)
    tail = float(np.maximum(values[: count - first], 0.0).sum()) / first
    ridge = max(tail, 1e-10 * float(values[-1]), float(np.finfo(np.float64).tiny))
    corner[np.diag_indices(count)] += ridge
    root = scipy.linalg.cholesky(corner, lower=True)
    explained = scipy.linalg.blas.dtrsm(1.0, root, K, side=1, lower=1, trans_a=1, overwrite_b=1)
    unexplained = kernel.diagonal(X) - np.einsum("ij,ij->i", explained, explained)
    # A score of zero could leave fewer rows to draw from than are wanted.
    scores = np.clip(unexplained * count / (ridge * m), 1e-6 * count / m, 1.0)
    return np.sort(random.choice(m, size=count, replace=False, p=scores / scores.sum()))


def _pivots(kernel: Kernel, X: Matrix, count: int) -> IntArray:
    """Return the pivots of a Cholesky factor of K with pivoting, until nothing is left but rounding."""
    left = kernel.diagonal(X)
    rounding = float(np.finfo(np.float64).eps) * X.shape[0] * float(left.max())
    factor = np.empty((X.shape[0], count), order="F")
    chosen: list[int] = []
    for step in range(count):
        pivot = int(np.argmax(left))
        if left[pivot] <= rounding:
            break
        column: FloatArray = kernel(X, X[[pivot]])[:, 0]
        column -= factor[:, :step] @ factor[pivot, :step]
        column /= np.sqrt(left[pivot])
        factor[:, step] = column
        left = left - column**2
        left[pivot] = -np.inf
        chosen.append(pivot)
    return np.array(chosen or [0], dtype=np.intp)
