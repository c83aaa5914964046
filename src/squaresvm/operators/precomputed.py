"""A kernel matrix that the caller computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite

from squaresvm.linalg.blas import times
from squaresvm.operators.store import KernelStore
from squaresvm.operators.stored import StoredOperator
from squaresvm.rows.chunks import Features, dropped
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["PrecomputedOperator", "check_symmetric", "symmetrised"]

#: Asymmetry, relative to the largest entry, that is taken for the noise of whoever computed K.
_ASYMMETRY = 1e-8
#: Asymmetry, relative to the largest entry, that is rounding.
_ROUNDING = 100 * np.finfo(np.float64).eps
#: Change of f, relative to the targets, that noise may bring about.
_EFFECT = 1e-6
#: Difference between K v and K'v, relative to the diagonal, up to which nobody looks any closer.
_NO_DOUBT = 1e-10
#: Rows and columns of a tile of K.
_TILE = 512


def check_symmetric(K: FloatArray, name: str | None = None, C: float = 1.0) -> bool:
    """Raise a ValueError unless K is finite, square and symmetric, but for noise that changes nothing.

    beta is at most C times the largest error of a row, so that entries that differ by D from their mirror
    images leave open f up to C sum_j |D_ij| / 2 of it. Rounding passes in any case.

    Parameters
    ----------
    K : ndarray
    name : str, optional
        Of the estimator that it was given to.
    C : float, default=1.0
        The largest C_i.

    Returns
    -------
    bool
        Whether K is symmetric as it is. Where it is not, the mean of K and K' is.
    """
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"a precomputed kernel must be a square matrix of the training rows; got shape {K.shape}"
        )
    if _is_beyond_doubt(K, C):
        return True
    assert_all_finite(K, estimator_name=name, input_name="X")
    return _check_tiles(K, C)


def symmetrised(K: FloatArray, name: str | None = None, C: float = 1.0) -> FloatArray:
    """Return K itself, or the mean of K and K' where they differ by so little that it changes nothing.

    Raises
    ------
    ValueError
        See `check_symmetric`.
    """
    return K if check_symmetric(K, name, C) else np.asarray(0.5 * K + 0.5 * K.T)


def _is_beyond_doubt(K: FloatArray, C: float) -> bool:
    """Return whether K v = K'v for random numbers v: two products, where tiles are read against the grain.

    This is Freivalds' check. Numbers that differ would have to cancel out in every row; one that is not
    finite is seen for sure.
    """
    if K.dtype != np.float64 or K.shape[0] < _TILE:
        return False
    rng = np.random.default_rng(0)
    v: FloatArray = rng.uniform(0.5, 1.0, K.shape[0]) * rng.choice(np.array([-1.0, 1.0]), K.shape[0])
    with np.errstate(invalid="ignore", over="ignore"):
        away = np.abs(times(K, v) - times(K.T, v)).max()
    largest = np.abs(np.diagonal(K)).max()
    return bool(away <= _NO_DOUBT * largest and (away == 0.0 or C * away <= _EFFECT))


def _check_tiles(K: FloatArray, C: float) -> bool:
    """Return whether K is symmetric; raise a ValueError where more than noise is in the way."""
    size: float | None = None
    total, worst, place = np.zeros(K.shape[0]), 0.0, (0, 0)
    # Tile by tile, each against its mirror image: both fit the processor's cache. Mostly all are equal, or
    # the first is not.
    for top in range(0, K.shape[0], _TILE):
        for left in range(top, K.shape[0], _TILE):
            rows, columns = slice(top, top + _TILE), slice(left, left + _TILE)
            tile, mirrored = K[rows, columns], K[columns, rows].T
            if np.array_equal(tile, mirrored):
                continue
            size = max(float(K.max()), -float(K.min())) if size is None else size
            difference = np.abs(tile - mirrored)
            i, j = np.unravel_index(int(difference.argmax()), difference.shape)
            if difference[i, j] > worst:
                worst, place = float(difference[i, j]), (int(i) + top, int(j) + left)
            if worst > _ASYMMETRY * size:
                raise ValueError(_different(K, *place))
            total[rows] += difference.sum(axis=1)
            if left > top:
                total[columns] += difference.sum(axis=0)
    if size is None:
        return True
    effect = 0.5 * C * float(total.max())
    if worst > _ROUNDING * size and effect > _EFFECT:
        raise ValueError(
            f"{_different(K, *place)}: at C = {C:g} such noise may change decision values by {effect:.1g}; "
            "give (K + K.T) / 2"
        )
    return False


def _different(K: FloatArray, i: int, j: int) -> str:
    there, back = float(K[i, j]), float(K[j, i])
    digits = "g" if f"{there:g}" != f"{back:g}" else ".17g"
    return (
        f"a precomputed kernel must be symmetric; K[{i}, {j}] = {there:{digits}} but "
        f"K[{j}, {i}] = {back:{digits}}"
    )


class PrecomputedOperator(StoredOperator):
    """K as given, copied into a store: what the caller does with its matrix later is its own business.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Symmetric.
    """

    def __init__(self, K: FloatArray) -> None:
        super().__init__(int(K.shape[0]))
        self._given: FloatArray | None = K

    def _block(self, rows: slice, columns: slice) -> FloatArray:
        assert self._given is not None
        return self._given[rows, columns]

    def _held(self, *, lent: bool = False) -> KernelStore:
        if self._store is None and not lent and self._given is not None:
            self._store = KernelStore.copy_of(self._given)
        store = super()._held(lent=lent)
        self._given = None
        return store

    def cross(self, X: Matrix, coefficients: FloatArray) -> FloatArray:
        """Return X coefficients: the columns of X are the kernel values with the rows held."""
        return times(X, coefficients)

    def without(self, gone: IntArray, X: Features) -> PrecomputedOperator:
        """Return the operator of the rest, on the same store; X is of no use here."""
        rest = PrecomputedOperator(np.empty((self.n_rows - gone.size, 0)))
        return self._sharing(rest, dropped(self.slots, gone))

    def joined(self, X: Matrix) -> tuple[PrecomputedOperator, FloatArray, FloatArray]:
        """Return the operator of these rows and new ones; X holds the new rows' kernel values.

        X has a column for each row held and each new one. With the operator come K between held and new
        rows, and K of the new rows.
        """
        held = self.n_rows
        cross, corner = X[:, :held].T, X[:, held:]
        slots = self._put(cross, corner)
        both = PrecomputedOperator(np.empty((held + X.shape[0], 0)))
        return self._sharing(both, np.concatenate([self.slots, slots])), cross, corner

    def private(self) -> PrecomputedOperator:
        """Return an operator with a copy of K."""
        return PrecomputedOperator(self._entries().copy())

    def _entries(self) -> FloatArray:
        """Return K, from the store where there is one: operators made from one another have no other K."""
        if self._store is None and self._given is not None:
            return self._given
        everything = np.arange(self.n_rows)
        return self.block(everything, everything)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with K itself: nobody else has it."""
        return {**super().__getstate__(), "_given": self._entries()}
