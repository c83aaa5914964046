"""What the models of all pairs say together: votes, probabilities, leave-one-out values."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from squaresvm.estimators.callbacks import CallbackSupportMixin
from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.judging.calibration import Calibration
from squaresvm.meta.pairs import Pairs, combine, features_of, places
from squaresvm.models.ownership import REQUESTS
from squaresvm.rows import Rows, canonical_csr
from squaresvm.solution import Certificate
from squaresvm.typing import FloatArray, Matrix

__all__ = ["Votes", "Voting"]


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

    def decision(self, X: Matrix) -> FloatArray:
        """Return the votes at new rows."""
        values = [model.decision_function(X) for model in self.pairs.values()]
        return combine(np.column_stack(values), self.classes.size)

    def labels(self, decision: FloatArray) -> np.ndarray[Any, Any]:
        """Return the label that each row's votes stand for."""
        if decision.shape[1] == 1:
            return self.classes[(decision[:, 0] > 0).astype(np.intp)]
        return self.classes[decision.argmax(axis=1)]

    def left_out(self, fixed_set: bool) -> FloatArray:
        """Return decision values without each row: only the models of its own class change for it."""
        rows = self.rows
        X = features_of(rows, self.pairs)
        values = np.empty((rows.count, len(self.pairs)))
        for column, model in enumerate(self.pairs.values()):
            own = places(rows, model)
            values[own, column] = model.loo_decision_function(fixed_set)
            others = np.setdiff1d(np.arange(rows.count), own)
            if others.size:
                values[others, column] = model.decision_function(X[others])
        return combine(values, self.classes.size)

    def calibrated(self) -> Calibration:
        """Return the calibration, computed once."""
        if self.calibration is None:
            with REQUESTS:
                used = self.rows.weights > 0
                codes = np.searchsorted(self.classes, self.rows.y[used])
                left_out = self.left_out(fixed_set=True)[used]
                self.calibration = Calibration.fit(left_out, codes, self.rows.weights[used])
        return self.calibration


class Voting(CallbackSupportMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A fitted model of every pair of classes, to be asked; see :class:`squaresvm.OneVsOne`."""

    _votes: Votes
    #: What goes with the file of the model: a :class:`squaresvm.files.Record`, which owns it.
    _record: Any = None

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
        values = self._current().decision(self._checked(X))
        return values[:, 0] if values.shape[1] == 1 else values

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
        """Return probabilities, calibrated on leave-one-out values; the largest is always that of `predict`.

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

        Parameters
        ----------
        fixed_set : bool, default=False
            As in `LSSVC.loo_decision_function`.

        Returns
        -------
        ndarray of shape (m,) or (m, n_classes)
        """
        with REQUESTS:
            values = self._current().left_out(fixed_set)
        return values[:, 0] if values.shape[1] == 1 else values

    def loo_score(self, fixed_set: bool = False) -> float:
        """Return the share of rows, by sample weight, that models without them label rightly.

        Parameters
        ----------
        fixed_set : bool, default=False
            As in `loo_decision_function`.

        Returns
        -------
        float
        """
        with REQUESTS:
            votes = self._current()
            found = votes.labels(votes.left_out(fixed_set))
        return float(accuracy_score(votes.rows.y, found, sample_weight=votes.rows.weights))

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
            pairs = self._fitted("certificate_").pairs
            return max((model.certificate_ for model in pairs.values()), key=lambda c: c.residual)

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
