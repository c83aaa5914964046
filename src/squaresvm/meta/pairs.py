"""Two-class models of every pair of classes, and what they say together."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from squaresvm.estimators.callbacks import FitTasks
from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.rows import Rows
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = [
    "Pair",
    "Pairs",
    "combine",
    "features_of",
    "fit_pair",
    "for_pair",
    "in_pair",
    "places",
    "train_pairs",
]

#: Two labels, in the order of the classes.
Pair: TypeAlias = tuple[Any, Any]
#: The fitted model of each pair.
Pairs: TypeAlias = dict[Pair, SquareSVMClassifier]


def train_pairs(
    estimator: Any, X: Matrix, rows: Rows, classes: np.ndarray[Any, Any], tasks: FitTasks | None = None
) -> Pairs:
    """Return a fitted model for each pair of classes."""
    return {pair: fit_pair(estimator, X, rows, pair, tasks) for pair in combinations(classes.tolist(), 2)}


def fit_pair(
    estimator: Any, X: Matrix, rows: Rows, pair: Pair, tasks: FitTasks | None = None
) -> SquareSVMClassifier:
    """Return the model of one pair, on the rows of its two classes and under their ids."""
    model = for_pair(estimator, pair)
    (own,) = np.nonzero(in_pair(rows.y, pair))
    with nullcontext() if tasks is None else tasks.part("pair", model):
        return model.fit(X[own], rows.y[own], sample_weight=rows.weights[own], ids=rows.ids.values[own])


def for_pair(estimator: Any, pair: Pair) -> SquareSVMClassifier:
    """Return an estimator for one pair, not fitted yet; of the class weights it gets those of its classes."""
    model: SquareSVMClassifier = clone(estimator)
    if isinstance(model.class_weight, Mapping):
        model.class_weight = {k: v for k, v in model.class_weight.items() if k in pair}
    return model


def in_pair(y: np.ndarray[Any, Any], pair: Pair) -> BoolArray:
    """Return which labels are of the pair; one by one, because arrays of labels may cut long ones short."""
    return np.fromiter((label in pair for label in y.tolist()), dtype=bool, count=y.size)


def places(rows: Rows, model: SquareSVMClassifier) -> IntArray:
    """Return where the rows that a model holds stand among all."""
    return rows.ids.positions(model.ids_)


def features_of(rows: Rows, pairs: Pairs) -> Matrix:
    """Return the features of all rows, in their order, from the models that hold them."""
    blocks, order, seen = [], [], set()
    for pair, model in pairs.items():
        own = places(rows, model)
        for label in pair:
            if label in seen:
                continue
            seen.add(label)
            held = model._holding("a model of pairs").rows
            (mine,) = np.nonzero(held.y == label)
            blocks.append(held.take(mine))
            order.append(own[mine])
    back = np.argsort(np.concatenate(order))
    stacked = sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)
    return stacked[back]


def combine(values: FloatArray, n_classes: int) -> FloatArray:
    """Return one column a class from the values of the pairs, of shape (rows, n_classes).

    A pair votes for the second of its classes where its value is positive, else for the first. To the number
    of votes comes the sum of values for the class less those against it, squeezed into (-1/3, 1/3): it
    decides between equal numbers of votes, and no more. Two classes keep the value of their pair.

    Parameters
    ----------
    values : ndarray of shape (rows, n_pairs)
        In the order of ``itertools.combinations``.
    n_classes : int

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.meta.pairs import combine
    >>> combine(np.array([[0.5, -2.0, 1.0]]), 3).argmax(axis=1)  # One vote each: the strongest wins.
    array([0])
    """
    if n_classes == 2:
        return values
    votes, sums = np.zeros((values.shape[0], n_classes)), np.zeros((values.shape[0], n_classes))
    for column, (first, second) in enumerate(combinations(range(n_classes), 2)):
        value = values[:, column]
        sums[:, first] -= value
        sums[:, second] += value
        votes[:, second] += value > 0
        votes[:, first] += value <= 0
    return votes + sums / (3.0 * (np.abs(sums) + 1.0))
