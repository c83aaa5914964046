"""A kernel matrix that the caller computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite

from squaresvm.linalg.products import times
from squaresvm.operators.store import KernelStore
from squaresvm.operators.stored import StoredOperator
from squaresvm.rows.chunks import Features, dropped
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["PrecomputedOperator", "check_symmetric"]

#: Asymmetry, relative to the largest entry, that is taken for rounding.
_ASYMMETRY = 1e-8
#: Difference between K v and K'v, relative to the diagonal, up to which nobody looks any closer.
_NO_DOUBT = 1e-10
#: Rows and columns of a tile of K.
_TILE = 512


def check_symmetric(K: FloatArray, name: str | None = None) -> None:
    """Raise a ValueError unless K is finite, square and, but for rounding, symmetric.

    Parameters
    ----------
    K : ndarray
    name : str, optional
        Of the estimator that it was given to.
    """
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"a precomputed kernel must be a square matrix of the training rows; got shape {K.shape}"
        )
    if not _is_beyond_doubt(K):
        assert_all_finite(K, estimator_name=name, input_name="X")
        _check_tiles(K)


def _is_beyond_doubt(K: FloatArray) -> bool:
    """Return whether K v = K'v for random numbers v: two products, where tiles are read against the grain.

    This is Freivalds' check. Numbers that differ would have to cancel out in every row; one that is not
    finite is seen for sure.
    """
    if K.dtype != np.float64 or K.shape[0] < _TILE:
        return False
    rng = np.random.default_rng(0)
    v = rng.uniform(0.5, 1.0, K.shape[0]) * rng.choice([-1.0, 1.0], K.shape[0])
    with np.errstate(invalid="ignore", over="ignore"):
        away = np.abs(times(K, v) - times(K.T, v)).max()
    return bool(away <= _NO_DOUBT * np.abs(np.diagonal(K)).max())


def _check_tiles(K: FloatArray) -> None:
    """Raise a ValueError unless K is symmetric but for rounding, and say where it is not."""
    allowed: float | None = None
    # Tile by tile, each against its mirror image: both fit the processor's cache. Mostly all are equal, or
    # the first is not.
    for top in range(0, K.shape[0], _TILE):
        for left in range(top, K.shape[0], _TILE):
            rows, columns = slice(top, top + _TILE), slice(left, left + _TILE)
            tile, mirrored = K[rows, columns], K[columns, rows].T
            if allowed is None and np.array_equal(tile, mirrored):
                continue
            allowed = _ASYMMETRY * max(float(K.max()), -float(K.min())) if allowed is None else allowed
            difference = tile - mirrored
            if max(difference.max(), -difference.min()) > allowed:
                difference = np.abs(difference)
                i, j = np.unravel_index(int(difference.argmax()), difference.shape)
                i, j = i + top, j + left
                raise ValueError(
                    f"a precomputed kernel must be symmetric; K[{i}, {j}] = {K[i, j]:g} but "
                    f"K[{j}, {i}] = {K[j, i]:g}"
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

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with K itself: nobody else has it."""
        everything = np.arange(self.n_rows)
        given = self._given if self._given is not None else self.block(everything, everything)
        return {**super().__getstate__(), "_given": given}
