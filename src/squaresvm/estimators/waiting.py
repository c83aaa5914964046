"""Rows of one class that wait for another: no classifier can be fitted to them alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_X_y

from squaresvm.rows import ids_from
from squaresvm.typing import FloatArray, Matrix

__all__ = ["WaitingRows"]


@dataclass(frozen=True, eq=False)
class WaitingRows:
    """Rows, labels, weights, ids and names of columns, as they came."""

    X: Matrix
    y: np.ndarray[Any, Any]
    weights: FloatArray
    ids: list[Hashable] | None
    names: tuple[Any, ...] | None

    @classmethod
    def of(cls, estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, ids: Any) -> WaitingRows:
        """Return rows after a check."""
        names = tuple(X.columns) if hasattr(X, "columns") else None
        ids = ids_from(ids, X)
        X, y = check_X_y(X, y, accept_sparse="csr", dtype=(np.float64, np.float32), estimator=estimator)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        named = list(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else None
        return cls(X, y, weights, named, names)

    def joined(self, other: WaitingRows) -> WaitingRows:
        """Return these rows and others behind them."""
        if (self.ids is None) != (other.ids is None):
            raise ValueError("rows that wait have ids of their own, or none: the next must be like them")
        if self.names != other.names or self.X.shape[1] != other.X.shape[1]:
            raise ValueError("rows that wait have other columns than the next")
        pair = [self.X, other.X]
        mixed = any(sp.issparse(X) for X in pair)
        ids = None if self.ids is None or other.ids is None else self.ids + other.ids
        return WaitingRows(
            sp.vstack(pair, format="csr") if mixed else np.concatenate(pair),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.weights, other.weights]),
            ids,
            self.names,
        )
