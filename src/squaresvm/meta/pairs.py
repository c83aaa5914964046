"""Two-class models of every pair of classes, and what they say together: votes and probabilities."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from squaresvm.estimators.callbacks import CallbackSupportMixin, FitTasks
from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.estimators.left_out import values_without
from squaresvm.judging.calibration import Calibration
from squaresvm.judging.folds import Folds
from squaresvm.models.model import as_flat
from squaresvm.models.ownership import REQUESTS
from squaresvm.rows import Rows, canonical_csr
from squaresvm.rows.labels import decided
from squaresvm.runtime.extras import Documented
from squaresvm.solution import Certificate
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = [
    "Pair",
    "Pairs",
    "Votes",
    "Voting",
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
    own = places(rows, pair)
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


def places(rows: Rows, pair: Pair) -> IntArray:
    """Return where the rows that the model of a pair holds stand among all: they keep their order."""
    return np.flatnonzero(in_pair(rows.y, pair))


def features_of(rows: Rows, pairs: Pairs, wanted: IntArray | None = None) -> Matrix:
    """Return the features of all rows, or of some, in their order, from the models that hold them."""
    blocks, order, seen = [], [], set()
    for pair, model in pairs.items():
        own = places(rows, pair)
        for label in pair:
            if label in seen:
                continue
            seen.add(label)
            held = model._holding("a model of pairs").rows
            if held.count != own.size:
                raise ValueError(f"the model of the pair {pair} was changed by itself: fit anew")
            (mine,) = np.nonzero(held.y == label)
            if wanted is not None:
                mine = mine[np.isin(own[mine], wanted)]
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


@dataclass(eq=False)
class Votes:
    """The models of all pairs and the rows behind them, replaced whole by every request.

    Parameters
    ----------
    rows : Rows
        Labels, weights and ids of all rows; the features are with the models.
    pairs : dict
        The fitted model of each pair.
    template : estimator
        What the models were made from, with gamma resolved from all rows.
    calibration : Calibration, optional
        Computed when probabilities are first asked for.
    """

    rows: Rows
    pairs: Pairs
    template: Any
    calibration: Calibration | None = None

    @cached_property
    def classes(self) -> np.ndarray[Any, Any]:
        """The labels, sorted."""
        return np.unique(self.rows.y)

    @property
    def n_rows(self) -> int:
        """Rows of all classes."""
        return self.rows.count

    @property
    def certificate(self) -> Certificate:
        """That of the worst pair."""
        return max((model.certificate_ for model in self.pairs.values()), key=lambda c: c.residual)

    def decision(self, X: Matrix) -> FloatArray:
        """Return the votes at new rows."""
        values = [model.decision_function(X) for model in self.pairs.values()]
        return combine(np.column_stack(values), self.classes.size)

    def labels(self, decision: FloatArray) -> np.ndarray[Any, Any]:
        """Return the label that each row's votes stand for."""
        return decided(self.classes, decision)

    def share_of_right(self, decision: FloatArray) -> float:
        """Return the share of rows held, by sample weight, that votes label rightly."""
        found = self.labels(decision)
        return float(accuracy_score(self.rows.y, found, sample_weight=self.rows.weights))

    def left_out(self, fixed_set: bool) -> FloatArray:
        """Return decision values without each row: only the models of its own class change for it."""
        rows = self.rows
        X = features_of(rows, self.pairs)
        values = np.empty((rows.count, len(self.pairs)))
        for column, (pair, model) in enumerate(self.pairs.items()):
            own = places(rows, pair)
            values[own, column] = model.loo_decision_function(fixed_set)
            others = np.setdiff1d(np.arange(rows.count), own)
            if others.size:
                values[others, column] = model.decision_function(X[others])
        return combine(values, self.classes.size)

    def crossed(self, cv: Any, groups: Any) -> FloatArray:
        """Return decision values of each row, by models without its fold."""
        rows = self.rows
        X = features_of(rows, self.pairs)
        folds = Folds.of(cv, groups, X, rows.y, is_classifier=True)
        folds.check_rest(rows.y, rows.weights, self.classes)
        values = np.empty((rows.count, len(self.pairs)))
        for column, (pair, model) in enumerate(self.pairs.items()):
            state = model._holding("cross-validation")
            counted = places(rows, pair)[state.held]
            others = [np.setdiff1d(fold, counted) for fold in folds.rows]
            features = [X[fold] if fold.size else None for fold in others]
            inside, beside = values_without(state, folds.within(counted, rows.count), features)
            values[counted, column] = inside[:, 0]
            for fold, found in zip(others, beside, strict=True):
                if found is not None:
                    values[fold, column] = found[:, 0]
        return combine(values, self.classes.size)

    def calibrated(self) -> Calibration:
        """Return the calibration, computed once."""
        if self.calibration is None:
            with REQUESTS:
                used = self.rows.weights > 0
                codes = np.searchsorted(self.classes, self.rows.y[used])
                left_out = self.left_out(fixed_set=True)[used]
                states = (model._state for model in self.pairs.values())
                moved = any(state.settings.weighs_classes(state.classes) for state in states)
                self.calibration = Calibration.fit(left_out, codes, self.rows.weights[used], moved)
        return self.calibration


class Voting(Documented, CallbackSupportMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A fitted model of every pair of classes, to be asked; see :class:`squaresvm.OneVsOne`."""

    _votes: Votes

    def decision_function(self, X: Any) -> FloatArray:
        """Return a column a class, of votes of the pairs with their values to decide between equals.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows,) or (rows, n_classes)
            The largest is the class that is predicted; positive for ``classes_[1]`` of two.
        """
        return as_flat(self._current().decision(self._checked(X)))

    def _current(self) -> Votes:
        check_is_fitted(self)
        return self._votes

    def _checked(self, X: Any) -> Matrix:
        return canonical_csr(validate_data(self, X, reset=False, **SquareSVMClassifier._array_rules()))

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the label of each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows,)
        """
        votes = self._current()
        return votes.labels(votes.decision(self._checked(X)))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities, calibrated on leave-one-out values.

        The largest is always that of `predict`, unless class weights move the decision: probabilities are of
        the data as they come.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows, n_classes)
        """
        votes = self._current()
        # Models that a request replaces meanwhile have no buffers any more: the calibration comes first.
        with REQUESTS:
            if votes.calibration is None:
                votes = self._current()
                votes.calibrated()
        return votes.calibrated().probabilities(votes.decision(self._checked(X)))

    def loo_decision_function(self, fixed_set: bool = False) -> FloatArray:
        """Return the decision values of each row held, by models without that row, in the order of ``ids_``.

        See `LSSVC.loo_decision_function`.
        """
        with REQUESTS:
            return as_flat(self._current().left_out(fixed_set))

    def loo_score(self, fixed_set: bool = False) -> float:
        """Return the share of rows, by sample weight, that models without them label rightly.

        See `loo_decision_function`.
        """
        with REQUESTS:
            votes = self._current()
            return votes.share_of_right(votes.left_out(fixed_set))

    def cross_decision_function(self, cv: Any = None, groups: Any = None) -> FloatArray:
        """Return the decision values of each row held, by models without its fold, in the order of ``ids_``.

        Parameters
        ----------
        cv, groups :
            As in `LSSVC.cross_decision_function`.

        Returns
        -------
        ndarray of shape (m,) or (m, n_classes)
        """
        with REQUESTS:
            return as_flat(self._current().crossed(cv, groups))

    def cross_predict(self, cv: Any = None, groups: Any = None) -> np.ndarray[Any, Any]:
        """Return the label of each row held, by models without its fold, in the order of ``ids_``.

        See `cross_decision_function`.
        """
        with REQUESTS:
            votes = self._current()
            return votes.labels(votes.crossed(cv, groups))

    def cross_score(self, cv: Any = None, groups: Any = None) -> float:
        """Return the share of rows, by sample weight, that models without their fold label rightly.

        See `cross_decision_function`.
        """
        with REQUESTS:
            votes = self._current()
            return votes.share_of_right(votes.crossed(cv, groups))

    # What it is ------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """The labels, sorted."""
        return self._fitted("classes_").classes.copy()

    @property
    def estimators_(self) -> tuple[SquareSVMClassifier, ...]:
        """The models of the pairs."""
        return tuple(self._fitted("estimators_").pairs.values())

    @property
    def ids_(self) -> np.ndarray[Any, Any]:
        """Id of each row held, in the order in which they are held."""
        return self._fitted("ids_").rows.ids.values.copy()

    @property
    def certificate_(self) -> Certificate:
        """How far the worst pair is from its optimum."""
        with REQUESTS:
            return self._fitted("certificate_").certificate

    def _fitted(self, attribute: str) -> Votes:
        if "_votes" not in self.__dict__:
            raise NotFittedError(f"this OneVsOne has no {attribute!r} yet: call 'fit' first")
        return self._votes

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the models are fitted."""
        return "_votes" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __copy__(self) -> Self:
        """Return a model that goes its own way: requests to one leave the other as it is."""
        other = self._copy()
        if "_votes" in self.__dict__:
            with REQUESTS:
                pairs = {pair: copy.copy(model) for pair, model in self._votes.pairs.items()}
                other._votes = replace(self._votes, pairs=pairs)
        return other

    def _copy(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other
