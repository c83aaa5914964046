"""The first pass over a source: how many rows, which labels, how heavy, and a sample of the rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from squaresvm.rows.labels import indicator_signs, two_labels, value_columns
from squaresvm.runtime.resources import row_blocks
from squaresvm.streaming import Block
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Look", "Sample", "Survey", "fingerprint"]

#: Odd 64-bit constants that mix bits: those of SplitMix64.
_STEP, _FIRST, _SECOND = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows out of a source, as they came, each with a random rank: those of the lowest ranks are a sample."""

    X: Matrix
    y: np.ndarray[Any, Any]
    weights: FloatArray
    ranks: FloatArray

    def lowest(self, size: int) -> Sample:
        """Return the rows of the lowest ranks, in their order."""
        if self.ranks.size <= size:
            return self
        chosen = np.sort(np.argpartition(self.ranks, size)[:size])
        return Sample(self.X[chosen], self.y[chosen], self.weights[chosen], self.ranks[chosen])

    def joined(self, other: Sample) -> Sample:
        """Return the rows of both."""
        pair = [self.X, other.X]
        X = sp.vstack(pair, format="csr") if sp.issparse(self.X) else np.concatenate(pair)
        return Sample(
            X,
            np.concatenate([self.y, other.y]),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.ranks, other.ranks]),
        )


@dataclass(frozen=True, eq=False)
class Survey:
    """What a first pass tells of a source.

    Parameters
    ----------
    rows : int
        Rows of positive weight.
    labels : ndarray
        Distinct labels of those rows, sorted; empty for regression, and of shape (0, k) where rows may have
        several of k labels.
    counts : ndarray
        Rows of each label.
    weights : ndarray
        Sample weight of each label's rows together.
    scale : ndarray of shape (1,) or (n_values,)
        Largest |y| of each value of a regression, 1 for labels.
    sample : Sample
    is_dense : bool
    fingerprint : int, default=0
        Of all rows with their labels and weights, whatever their order and their blocks; 0 where nobody
        asked for it.
    """

    rows: int
    labels: np.ndarray[Any, Any]
    counts: FloatArray
    weights: FloatArray
    scale: FloatArray
    sample: Sample
    is_dense: bool
    fingerprint: int = 0

    def joined(self, other: Survey, size: int) -> Survey:
        """Return what both tell together, with a sample of so many rows at most."""
        if self.scale.shape != other.scale.shape:
            raise ValueError(
                f"blocks of the source have {self.scale.size} and {other.scale.size} values a row: all must "
                "have the same"
            )
        if self.labels.ndim == 2:
            labels, places = self.labels, np.empty(0, dtype=np.intp)
        else:
            labels, places = np.unique(np.concatenate([self.labels, other.labels]), return_inverse=True)
        counts, weights = np.zeros(labels.size), np.zeros(labels.size)
        np.add.at(counts, places, np.concatenate([self.counts, other.counts]))
        np.add.at(weights, places, np.concatenate([self.weights, other.weights]))
        return Survey(
            self.rows + other.rows,
            labels,
            counts,
            weights,
            np.maximum(self.scale, other.scale),
            self.sample.joined(other.sample).lowest(size),
            self.is_dense and other.is_dense,
            (self.fingerprint + other.fingerprint) % 2**64,
        )

    @staticmethod
    def of(parts: Iterable[Survey], size: int) -> Survey:
        """Return what all parts tell together."""
        found: Survey | None = None
        for part in parts:
            found = part if found is None else found.joined(part, size)
        if found is None or found.rows == 0:
            raise ValueError("the source has no rows of positive weight: there is nothing to learn from")
        return found


@dataclass(frozen=True)
class Look:
    """The task of the first pass.

    Parameters
    ----------
    has_labels : bool
        Whether y holds labels; values of a regression otherwise.
    size : int
        Rows of the sample at most.
    highest : float, default=1.0
        Ranks, which are even between 0 and 1, that may be in the sample: where the number of rows is known,
        so is about how many of them it takes, and others need not travel.
    fingerprint : bool, default=False
        Whether to take that of the rows, so that others can be told from them.
    """

    has_labels: bool
    size: int
    highest: float = 1.0
    fingerprint: bool = False

    def __call__(self, block: Block) -> Survey:
        """Return what one block tells."""
        X, y, weights = block.X, block.y, block.row_weights
        if not weights.all():
            held: IntArray = np.flatnonzero(weights)
            X, y, weights = X[held], y[held], weights[held]
        # Seeded by the place of the block, so that a pass that is made again finds the same sample.
        random = np.random.default_rng(block.first)
        count = y.shape[0] if self.highest == 1.0 else int(random.binomial(y.shape[0], self.highest))
        low = np.sort(random.choice(y.shape[0], count, replace=False))
        ranks = self.highest * random.random((count,))
        sample = Sample(X[low], y[low], weights[low], ranks).lowest(self.size)
        mark = fingerprint(X, y, weights) if self.fingerprint else 0
        if not self.has_labels:
            largest = np.abs(_values(y, block)).max(axis=0, initial=0.0)
            none = np.empty(0)
            return Survey(y.shape[0], none, none, none, largest, sample, not sp.issparse(X), mark)
        if y.ndim == 2 and y.shape[1] > 1:
            try:
                targets = indicator_signs(y)
            except ValueError as error:
                raise ValueError(f"{block.place}: {error}") from None
            none, ones = np.empty(0), np.ones(targets.shape[1])
            labels = np.empty((0, targets.shape[1]))
            return Survey(y.shape[0], labels, none, none, ones, sample, not sp.issparse(X), mark)
        if y.ndim != 1:
            raise ValueError(f"{block.place}: labels must have one dimension; got shape {y.shape}")
        labels, counts, totals = _counted(y, weights)
        # At the first block that has none, not after millions. Twice each, or scikit-learn takes labels that
        # are all distinct for the values of a regression.
        check_classification_targets(np.repeat(labels, 2))
        return Survey(y.shape[0], labels, counts, totals, np.ones(1), sample, not sp.issparse(X), mark)


def _counted(
    y: np.ndarray[Any, Any], weights: FloatArray
) -> tuple[np.ndarray[Any, Any], FloatArray, FloatArray]:
    """Return the labels, sorted, how many rows each has, and the sum of their weights."""
    labels = two_labels(y)
    if labels is not None:
        upper = y == labels[1]
        rows = float(np.count_nonzero(upper))
        counts = np.array([y.size - rows, rows])
        if weights.strides == (0,):
            return labels, counts, counts * weights[0]
        weight = float(weights @ upper)
        return labels, counts, np.array([float(weights.sum()) - weight, weight])
    labels, places, found = np.unique(y, return_inverse=True, return_counts=True)
    totals = np.bincount(places, weights, labels.size).astype(np.float64, copy=False)
    return labels, found.astype(np.float64), totals


def _values(y: np.ndarray[Any, Any], block: Block) -> FloatArray:
    try:
        return value_columns(y)
    except (TypeError, ValueError):
        raise ValueError(f"{block.place}: the values of a regression must be numbers") from None


# Rows told from other rows -----------------------------------------------------------------------------


def fingerprint(X: Matrix, y: np.ndarray[Any, Any], weights: FloatArray) -> int:
    """Return a number of 64 bits that other rows, labels or weights would not have.

    It is a sum over the rows of what their bits are mixed to, in integers: the same in any order, in any
    blocks, for dense and for sparse rows, and on every machine.
    """
    entries = _entry_marks(X) + _mixed(_marks(y) + _STEP) + _mixed(_bits(weights) ^ _STEP)
    return int(_mixed(entries).sum(dtype=np.uint64))


def _entry_marks(X: Matrix) -> np.ndarray[Any, Any]:
    """Return for each row the sum of what its entries other than zero are mixed to with their columns."""
    if sp.issparse(X):
        marks = _mixed(_bits(X.data) ^ (_STEP * (X.indices.astype(np.uint64) + np.uint64(1))))
        marks[X.data == 0.0] = 0
        ends = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(marks, dtype=np.uint64)])
        return ends[X.indptr[1:]] - ends[X.indptr[:-1]]
    columns = _STEP * np.arange(1, X.shape[1] + 1, dtype=np.uint64)
    sums = np.empty(X.shape[0], dtype=np.uint64)
    for part in row_blocks(X.shape[0], X.shape[1]):
        marks = _mixed(_bits(X[part]) ^ columns)
        marks[X[part] == 0.0] = 0
        sums[part] = marks.sum(axis=1, dtype=np.uint64)
    return sums


def _marks(y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bits of numbers; a digest of each of other labels."""
    if y.ndim == 2:
        return _entry_marks(np.asarray(y, dtype=np.float64))
    if y.dtype.kind in "fiub":
        return _bits(y)
    labels, places = np.unique(y, return_inverse=True)
    digests = [hashlib.sha256(repr(label).encode()).digest()[:8] for label in labels.tolist()]
    return np.array([int.from_bytes(digest, "little") for digest in digests], dtype=np.uint64)[places]


def _bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # Zero is added because there are two zeros.
    return (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)


def _mixed(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return SplitMix64's bits: every bit of the input changes about half of them."""
    mixed = (bits ^ (bits >> np.uint64(30))) * _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed
