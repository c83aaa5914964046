"""Mean and deviation of the columns of plain rows at fit, and how far they have moved since.

The rows that are held give the figures of today, summed anew whenever somebody asks, so that no request
pays for them and nothing drifts. What is kept of the fit is rounded so far that it says next to nothing of a
single row that has left: in hundredths of a deviation, and in coarser steps where a row has a larger share.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.runtime.resources import row_blocks
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Columns", "Moves", "figures"]

#: In what steps movements are told, of a deviation: the first that is no less than this many rows' share.
_STEPS, _ROWS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0), 4.0
#: So many rows, and such a share, must have a value in a column of sparse rows: rare words tell of one.
_ENOUGH, _COMMON = 16, 0.01
#: Sums of squares below this may have lost terms; and bytes of a block of rows, which a cache holds.
_SMALL, _BLOCK_BYTES = 1e-200, 2**20
#: So many columns are told one by one; of more, those that have moved most.
_ALL, _MOST = 32, 8

#: For each column that is told its name, and by how much mean and deviation would move; None for no number.
Moves = dict[str, list[float | None]]


def _step(count: int) -> float:
    return next((step for step in _STEPS if step * count >= _ROWS), _STEPS[-1])


@dataclass(frozen=True, eq=False)
class Columns:
    """Mean and deviation of each column of the rows of a fit, as far as receipts may tell.

    Parameters
    ----------
    count : int
        Rows that they were taken from.
    means, deviations : ndarray of shape (n,)
    numbers : ndarray of shape (n,), optional
        Of sparse rows, which columns they are of, sorted; None: of all.
    unit : float, default=0.0
        Of sparse rows, the root mean square of the deviations, in which movements are told. Those of dense
        rows are told in the deviation of each column.
    """

    count: int
    means: FloatArray
    deviations: FloatArray
    numbers: IntArray | None = None
    unit: float = 0.0

    @classmethod
    def of(cls, X: Matrix) -> Columns:
        """Return the figures of the rows of X, rounded.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.arange(2000.0).reshape(1000, 2)
        >>> Columns.of(X).moved(X, ["a", "b"])
        {'a': [0.0, 0.0], 'b': [0.0, 0.0]}
        >>> -0.9 < Columns.of(X).moved(X[:500])["x0"][0] < -0.8
        True
        """
        step, (means, deviations, numbers) = _step(X.shape[0]), figures(X)
        if numbers is None:
            deviations = _rounded(deviations, step)
            return cls(X.shape[0], _on_grid(means, step * deviations), deviations)
        unit = _rounded(np.sqrt(np.mean(np.square(deviations), keepdims=True)), step) if means.size else [0.0]
        grid = step * np.float64(unit[0])
        return cls(X.shape[0], _on_grid(means, grid), _on_grid(deviations, grid), numbers, float(unit[0]))

    def moved(self, X: Matrix, names: Sequence[str] | None = None) -> Moves:
        """Return by how much mean and deviation would move if they were taken from the rows of X.

        In deviations. A column whose figures were, or are, out of the range of numbers is left out.
        """
        step = max(_step(self.count), _step(X.shape[0]))
        means, deviations, numbers = figures(X)
        if (numbers is None) != (self.numbers is None):
            raise ValueError("columns of dense rows and of sparse ones have no figures in common")
        if numbers is None or self.numbers is None:
            if means.size != self.means.size:
                raise ValueError(f"there are {means.size} columns, and figures of {self.means.size}")
            told, units = np.arange(means.size), self.deviations
            before = self.means, self.deviations
        else:
            told = np.union1d(self.numbers, numbers)
            units = np.full(told.size, self.unit)
            before = _spread(self.numbers, told, self.means), _spread(self.numbers, told, self.deviations)
            means, deviations = _all_of(X, told, means, deviations, numbers)
        with np.errstate(all="ignore"):
            pairs = np.column_stack([means - before[0], deviations - before[1]])
            pairs = np.where(pairs == 0.0, 0.0, pairs / units[:, None])
            pairs = np.round(np.round(pairs / step) * step, 2) + 0.0
        measured = np.isfinite(before[0] + before[1]) & np.isfinite(means + deviations)
        return _named(pairs[measured], told[measured], names)

    def hashed(self, key: bytes) -> str:
        """Return a keyed hash of the figures, by which a receipt binds them."""
        text = json.dumps(self.to_json(), sort_keys=True).encode("ascii")
        return hashlib.blake2b(text, key=key, digest_size=32).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        numbers = None if self.numbers is None else _encoded(self.numbers, "<i8")
        means, deviations = _encoded(self.means, "<f8"), _encoded(self.deviations, "<f8")
        arrays = {"means": means, "deviations": deviations, "numbers": numbers}
        return {"count": self.count, "unit": self.unit, **arrays}

    @classmethod
    def from_json(cls, said: Any) -> Columns:
        """Return figures from JSON; a ValueError where they are none."""
        means, deviations = _decoded(said["means"], "<f8"), _decoded(said["deviations"], "<f8")
        numbers = None if said["numbers"] is None else _decoded(said["numbers"], "<i8").astype(np.intp)
        count, unit = said["count"], said["unit"]
        fits = type(count) is int and count > 0 and type(unit) is float and 0.0 <= unit < np.inf
        fits = fits and means.size == deviations.size and not np.any(deviations < 0.0)
        if numbers is not None:
            fits = fits and numbers.size == means.size and bool(np.all(np.diff(numbers, prepend=-1) > 0))
        if not fits:
            raise ValueError("the figures of its columns at fit are none")
        return cls(count, means, deviations, numbers, unit)


def figures(X: Matrix) -> tuple[FloatArray, FloatArray, IntArray | None]:
    """Return mean and deviation of each column; of sparse rows only of those that are not rare, and which.

    Every row counts once, whatever its weight.
    """
    return _sparse_figures(X) if sp.issparse(X) else (*_dense_figures(X), None)


def _dense_figures(X: Matrix) -> tuple[FloatArray, FloatArray]:
    """Return mean and deviation, by sums of the differences to the first row and of their squares.

    Some row is as far from the first as the largest difference, so the variance is no less than 1 / (2 m)
    of its square, and the subtraction below costs log2(2 m) bits. Columns of one value have exactly zero.
    """
    first = X[0].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        sums, squares = _sums(X, first, np.ones_like(first))
        odd = np.flatnonzero(~((squares > _SMALL) & np.isfinite(squares)))
        scale = np.ones_like(first)
        if odd.size:  # Squares that have left the range of numbers, and columns of one value.
            parts = row_blocks(X.shape[0], odd.size, _BLOCK_BYTES)
            span = np.max([np.abs(X[part][:, odd] - first[odd]).max(axis=0) for part in parts], axis=0)
            scale[odd] = np.where(span > 0.0, span, 1.0)
            sums[odd], squares[odd] = _sums(X, first[odd], scale[odd], odd)
        means = sums / X.shape[0]
        deviations = np.sqrt(np.maximum(squares / X.shape[0] - np.square(means), 0.0))
        return first + scale * means, scale * deviations


def _sums(
    X: Matrix, first: FloatArray, scale: FloatArray, some: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the sums of (x - first) / scale and of its squares, over rows, of all columns or some."""
    sums, squares = np.zeros_like(first), np.zeros_like(first)
    for part in row_blocks(X.shape[0], first.size, _BLOCK_BYTES):
        block = X[part] if some is None else X[part][:, some]
        block = block - first
        if some is not None:
            block /= scale
        sums += block.sum(axis=0)
        squares += np.einsum("ij,ij->j", block, block)
    return sums, squares


def _sparse_figures(X: Any, wanted: IntArray | None = None) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return mean and deviation of columns of sparse rows, and which these are; the rows stay sparse."""
    m, places = X.shape[0], X.indices
    if X.nnz < X.shape[1]:  # No array as long as columns that next to no row has.
        numbers, places = np.unique(X.indices, return_inverse=True)
    else:
        numbers = np.arange(X.shape[1])
    counts = np.bincount(places, minlength=numbers.size)
    values = X.data.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.bincount(places, values, minlength=numbers.size) / m
        values -= means[places]
        squares = np.bincount(places, np.square(values, out=values), minlength=numbers.size)
        deviations = np.sqrt((squares + (m - counts) * np.square(means)) / m)
    some = counts >= max(_COMMON * m, _ENOUGH) if wanted is None else np.isin(numbers, wanted)
    return means[some], deviations[some], numbers[some].astype(np.intp)


def _all_of(
    X: Matrix, told: IntArray, means: FloatArray, deviations: FloatArray, numbers: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the figures of all that is told, also of columns that few rows have a value in now."""
    if numbers.size != told.size:
        means, deviations, numbers = _sparse_figures(X, told)
    return _spread(numbers, told, means), _spread(numbers, told, deviations)


def _spread(numbers: IntArray, told: IntArray, values: FloatArray) -> FloatArray:
    found = np.zeros(told.size)
    found[np.searchsorted(told, numbers)] = values
    return found


def _rounded(values: FloatArray, step: float) -> FloatArray:
    """Return positive values to about so large a share of each."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp2(np.round(np.log2(values) / step) * step))


def _on_grid(values: FloatArray, grid: FloatArray | float) -> FloatArray:
    """Return the nearest multiples of a step; the values themselves where it is zero."""
    with np.errstate(all="ignore"):
        return np.asarray(np.where(np.greater(grid, 0.0), np.round(values / grid) * grid, values))


def _named(pairs: FloatArray, told: IntArray, names: Sequence[str] | None) -> Moves:
    """Return the pairs of all columns, or of those that have moved most, under their names."""
    order: Any = range(told.size)
    if told.size > _ALL:
        size = np.nan_to_num(np.abs(pairs).max(axis=1), nan=np.inf)
        order = np.argsort(-size, kind="stable")[:_MOST]
    names = [f"x{told[at]}" for at in order] if names is None else [str(names[told[at]]) for at in order]
    found = ([v if np.isfinite(v) else None for v in pairs[at].tolist()] for at in order)
    return dict(zip(names, found, strict=True))


def _encoded(values: FloatArray | IntArray, code: str) -> str:
    return base64.b64encode(values.astype(code).tobytes()).decode("ascii")


def _decoded(text: str, code: str) -> FloatArray:
    found = np.frombuffer(base64.b64decode(text, validate=True), dtype=code)
    return found.astype(code.lstrip("<"))
