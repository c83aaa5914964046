"""The first pass over a source: how many rows, which labels, how heavy, and a sample of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from squaresvm.rows.labels import two_labels
from squaresvm.streaming import Block
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Look", "Sample", "Survey"]


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
        Distinct labels of those rows, sorted; empty for regression.
    counts : ndarray
        Rows of each label.
    weights : ndarray
        Sample weight of each label's rows together.
    scale : float
        Largest |y| of a regression, 1 for labels.
    sample : Sample
    is_dense : bool
    """

    rows: int
    labels: np.ndarray[Any, Any]
    counts: FloatArray
    weights: FloatArray
    scale: float
    sample: Sample
    is_dense: bool

    def joined(self, other: Survey, size: int) -> Survey:
        """Return what both tell together, with a sample of so many rows at most."""
        labels, places = np.unique(np.concatenate([self.labels, other.labels]), return_inverse=True)
        counts, weights = np.zeros(labels.size), np.zeros(labels.size)
        np.add.at(counts, places, np.concatenate([self.counts, other.counts]))
        np.add.at(weights, places, np.concatenate([self.weights, other.weights]))
        return Survey(
            self.rows + other.rows,
            labels,
            counts,
            weights,
            max(self.scale, other.scale),
            self.sample.joined(other.sample).lowest(size),
            self.is_dense and other.is_dense,
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
    """

    has_labels: bool
    size: int
    highest: float = 1.0

    def __call__(self, block: Block) -> Survey:
        """Return what one block tells."""
        X, y = block.X, block.y
        ones = np.broadcast_to(np.float64(1.0), block.rows)
        weights = ones if block.weights is None else block.weights
        if not weights.all():
            held: IntArray = np.flatnonzero(weights)
            X, y, weights = X[held], y[held], weights[held]
        # Seeded by the place of the block, so that a pass that is made again finds the same sample.
        random = np.random.default_rng(block.first)
        count = y.shape[0] if self.highest == 1.0 else int(random.binomial(y.shape[0], self.highest))
        low = np.sort(random.choice(y.shape[0], count, replace=False))
        ranks = self.highest * random.random((count,))
        sample = Sample(X[low], y[low], weights[low], ranks).lowest(self.size)
        if not self.has_labels:
            values = _values(y, block)
            largest = float(np.abs(values).max(initial=0.0))
            none = np.empty(0)
            return Survey(y.shape[0], values[:0], none, none, largest, sample, not sp.issparse(X))
        labels, counts, totals = _counted(y, weights)
        # At the first block that has none, not after millions. Twice each, or scikit-learn takes labels that
        # are all distinct for the values of a regression.
        check_classification_targets(np.repeat(labels, 2))
        return Survey(y.shape[0], labels, counts, totals, 1.0, sample, not sp.issparse(X))


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
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{block.place}: the values of a regression must be numbers") from None
