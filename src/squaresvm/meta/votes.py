"""What the models of all pairs say together: votes, probabilities, leave-one-out values."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.judging.calibration import Calibration
from squaresvm.meta.pairs import Pairs, combine, features_of, places
from squaresvm.rows import Rows, canonical_csr
from squaresvm.solution import Certificate
from squaresvm.typing import FloatArray

__all__ = ["Voting"]


class Voting(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A fitted model of every pair of classes, to be asked; see :class:`squaresvm.OneVsOne`."""

    _rows: Rows
    _pairs: Pairs

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
        values = self._decision(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def _decision(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = canonical_csr(validate_data(self, X, reset=False, **SquareSVMClassifier._array_rules()))
        values = [model.decision_function(X) for model in self._pairs.values()]
        return combine(np.column_stack(values), self.classes_.size)

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the label of each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows,)
        """
        return self._labels(self._decision(X))

    def _labels(self, decision: FloatArray) -> np.ndarray[Any, Any]:
        if decision.shape[1] == 1:
            return self.classes_[(decision[:, 0] > 0).astype(np.intp)]
        return self.classes_[decision.argmax(axis=1)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities, calibrated on leave-one-out values; the largest is always that of `predict`.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows, n_classes)
        """
        decision = self._decision(X)
        return self._calibrated().probabilities(decision)

    def _calibrated(self) -> Calibration:
        """Return the calibration, computed once for the rows held and kept with them."""
        rows = self._rows
        found: Calibration | None = rows.__dict__.get("calibration")
        if found is None:
            used = rows.weights > 0
            codes = np.searchsorted(self.classes_, rows.y[used])
            left_out = self._left_out(fixed_set=True)[used]
            found = rows.__dict__["calibration"] = Calibration.fit(left_out, codes, rows.weights[used])
        return found

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
        check_is_fitted(self)
        values = self._left_out(fixed_set)
        return values[:, 0] if values.shape[1] == 1 else values

    def _left_out(self, fixed_set: bool) -> FloatArray:
        """Return decision values without each row: only the models of its own class change for it."""
        rows = self._rows
        X = features_of(rows, self._pairs)
        values = np.empty((rows.count, len(self._pairs)))
        for column, model in enumerate(self._pairs.values()):
            own = places(rows, model)
            values[own, column] = model.loo_decision_function(fixed_set)
            others = np.setdiff1d(np.arange(rows.count), own)
            if others.size:
                values[others, column] = model.decision_function(X[others])
        return combine(values, self.classes_.size)

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
        check_is_fitted(self)
        found = self._labels(self._left_out(fixed_set))
        return float(accuracy_score(self._rows.y, found, sample_weight=self._rows.weights))

    # What it is ------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """The labels, sorted."""
        return np.unique(self._fitted("classes_").y)

    @property
    def estimators_(self) -> tuple[SquareSVMClassifier, ...]:
        """The models of the pairs."""
        self._fitted("estimators_")
        return tuple(self._pairs.values())

    @property
    def ids_(self) -> np.ndarray[Any, Any]:
        """Id of each row held, in the order in which they are held."""
        return self._fitted("ids_").ids.values

    @property
    def certificate_(self) -> Certificate:
        """How far the worst pair is from its optimum."""
        self._fitted("certificate_")
        return max((model.certificate_ for model in self._pairs.values()), key=lambda c: c.residual)

    def _fitted(self, attribute: str) -> Rows:
        if "_rows" not in self.__dict__:
            raise NotFittedError(f"this OneVsOne has no {attribute!r} yet: call 'fit' first")
        return self._rows

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the models are fitted."""
        return "_rows" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __copy__(self) -> Self:
        """Return a model that goes its own way: requests to one leave the other as it is."""
        other = self._copy()
        if "_pairs" in self.__dict__:
            other._pairs = {pair: copy.copy(model) for pair, model in self._pairs.items()}
        return other

    def _copy(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other
