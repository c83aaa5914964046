"""The problem of some rows under some settings: targets, costs, and how K is reached."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.models.model import Settings
from squaresvm.operators import (
    DenseOperator,
    DistributedOperator,
    LinearOperator,
    OnDemandOperator,
    Operator,
    PrecomputedOperator,
    ProximalOperator,
    StoredOperator,
)
from squaresvm.problem import Problem
from squaresvm.rows import Rows
from squaresvm.rows.labels import sign_columns, two_labels, value_columns
from squaresvm.runtime.resources import available_memory
from squaresvm.solvers.choose import wants_features, wants_rows
from squaresvm.streaming import Block, DaskSource
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = [
    "all_positive",
    "check_costs",
    "distributed_kernel",
    "encode",
    "features",
    "find_classes",
    "gathered_rows",
    "make_operator",
    "make_problem",
    "positive",
    "rows_of_weight",
]


def make_problem(
    rows: Rows,
    settings: Settings,
    classes: np.ndarray[Any, Any] | None,
    operator: Operator | None,
    in_w: bool | None,
) -> Problem:
    """Return the problem of the rows of positive weight.

    Parameters
    ----------
    rows : Rows
    settings : Settings
    classes : ndarray or None
    operator : Operator or None
        Where K is at hand already.
    in_w : bool or None
        Whether the solution of a linear model is in w, where the operator has to be made; None: not known
        yet.
    """
    weights = settings.row_weights(rows.y, rows.weights)
    held = rows_of_weight(weights)
    weights = weights[held]
    if operator is None:
        operator = make_operator(rows, held, weights, settings, in_w)
    targets = encode(rows.y[held], classes)
    if operator.features is not None and weights.strides == (0,):
        costs = np.broadcast_to(settings.C * weights[0], weights.shape)
    else:
        costs = settings.C * weights
    return Problem(operator, targets, costs, settings.loss, settings.bias)


def positive(weights: FloatArray) -> IntArray:
    """Return where the rows of positive weight stand."""
    return np.arange(weights.size) if all_positive(weights) else np.flatnonzero(weights > 0)


def rows_of_weight(weights: FloatArray) -> IntArray | slice:
    """Return the same, all of them as a slice, which copies nothing."""
    return slice(None) if all_positive(weights) else np.flatnonzero(weights > 0)


def all_positive(weights: FloatArray) -> bool:
    """Return whether no row has weight zero; one and the same weight of all rows is looked at once."""
    if weights.strides == (0,) and weights.size:
        return bool(weights[0] > 0)
    return bool(weights.min(initial=np.inf) > 0)


def check_costs(C: float, weights: FloatArray, rows: IntArray | slice) -> None:
    """Raise a ValueError where C times the weight of a row, or its inverse, is out of range."""
    if weights.size == 0:
        return
    for extreme in (weights.min(), weights.max()):
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            usable = np.isfinite(C * extreme) and np.isfinite(1.0 / (C * extreme))
        if not usable:
            place = int(np.flatnonzero(weights == extreme)[0])
            row = place if isinstance(rows, slice) else int(rows[place])
            raise ValueError(
                f"C times the weight of row {row} is out of the range of float64: choose another C"
            )


def find_classes(y: np.ndarray[Any, Any], settings: Settings) -> np.ndarray[Any, Any] | None:
    """Return the sorted labels, at least two; None for regression and where rows may have several."""
    if settings.class_weight is None or y.ndim == 2:
        return None
    classes = two_labels(y)
    if classes is None:
        classes = np.unique(y)
    if classes.size < 2:
        raise ValueError(
            "a classifier needs rows of at least two classes with positive weight; got one class, "
            f"{classes.tolist()[0]!r}"
        )
    return classes


def encode(y: np.ndarray[Any, Any], classes: np.ndarray[Any, Any] | None) -> FloatArray:
    """Return a column of +1 and -1 for each class (one for two); a column for each of several values."""
    if classes is None:
        return value_columns(y)
    return sign_columns(y, classes).astype(np.float64)


def features(rows: Rows, held: IntArray | slice) -> Matrix:
    """Return the features of the rows in `held`; no copy where those are all."""
    if isinstance(held, slice) or held.size == rows.count:
        return rows.X
    return rows.take(held)


def make_operator(
    rows: Rows, held: IntArray | slice, weights: FloatArray, settings: Settings, in_w: bool | None = None
) -> Operator:
    """Return the operator of the rows in `held`: their kernel matrix, or for linear models the rows."""
    X = features(rows, held)
    if settings.kernel is not None:
        settings.kernel.check_range(X)
    operator: StoredOperator
    if settings.kernel is None:
        operator = PrecomputedOperator(X if X.shape[0] == rows.count else X[:, held])
    elif settings.is_linear and _stays_linear(X, settings, in_w):
        return LinearOperator(X)
    elif wants_rows(settings.solver, X.shape[0]) and not settings.proximal:
        operator = OnDemandOperator(settings.kernel, X)
    else:
        operator = DenseOperator(settings.kernel, X)
    return ProximalOperator(operator, weights) if settings.proximal else operator


def gathered_rows(source: DaskSource) -> tuple[Matrix, np.ndarray[Any, Any], FloatArray | None]:
    """Return features, labels or values, and weights of all rows of a source; None: all weights are one."""
    rows, free = source.n_rows, available_memory()
    needed = 8 * (rows or 0) * source.n_features
    if needed > free:
        raise MemoryError(
            f"a kernel model keeps its rows, which take up to {needed / 2**30:.1f} GB, and "
            f"{free / 2**30:.1f} GB are free: use Nystrom features and a linear model, which keeps no rows"
        )
    blocks = list(source.map(_itself))
    parts = [block.X for block in blocks]
    X = sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.concatenate(parts)
    weights = None
    if any(block.weights is not None for block in blocks):
        weights = np.concatenate([block.row_weights for block in blocks])
    return X, np.concatenate([block.y for block in blocks]), weights


def _itself(block: Block) -> Block:
    return block


def distributed_kernel(rows: Rows, settings: Settings, source: DaskSource) -> Operator | None:
    """Return the operator whose products run where the rows of a source are; None without a cluster."""
    elsewhere = source.on_workers()
    if elsewhere is None:
        return None
    assert settings.kernel is not None
    held = np.flatnonzero(settings.row_weights(rows.y, rows.weights) > 0)
    X = features(rows, held)
    settings.kernel.check_range(X)
    return DistributedOperator(settings.kernel, X, elsewhere, held)


def _stays_linear(X: Matrix, settings: Settings, in_w: bool | None) -> bool:
    """Return whether solvers of a linear model get the rows themselves, and no kernel matrix.

    They do where there are fewer columns than rows, and where the kernel matrix of wide rows would cost more
    than updates that carry w.
    """
    if in_w is not None and in_w:
        return True
    return (in_w is None and X.shape[1] < X.shape[0]) or wants_features(settings.solver, X)
