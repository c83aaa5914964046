"""What all classifiers share: labels, class weights, one against the rest."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets

from squaresvm.estimators.attributes import refuse_out
from squaresvm.estimators.left_out import PredictingSets
from squaresvm.estimators.requests import Updating, WaitingRows
from squaresvm.judging.calibration import Calibration
from squaresvm.kernels import KernelFunction
from squaresvm.models.model import Decider, Model, as_flat, labels_of
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.state import State
from squaresvm.rows import Rows
from squaresvm.rows.labels import balanced, check_among, has_columns, indicator, indicator_signs, two_labels
from squaresvm.runtime.arguments import check_positive
from squaresvm.solvers.base import Solver
from squaresvm.streaming import is_source
from squaresvm.streaming.output import storable
from squaresvm.typing import FloatArray

__all__ = ["SquareSVMClassifier"]


class SquareSVMClassifier(ClassifierMixin, PredictingSets, Updating):
    """Base of all classifiers; see :class:`squaresvm.LSSVC`."""

    #: Rows of a single class that `partial_fit` keeps until another comes.
    _waiting: WaitingRows

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | KernelFunction = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-6,
        max_iter: int | None = None,
        fit_intercept: bool = True,
        class_weight: Mapping[Hashable, float] | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        solver: str | Solver = "auto",
    ) -> None:
        super().__init__(
            C=C,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            tol=tol,
            max_iter=max_iter,
            fit_intercept=fit_intercept,
            random_state=random_state,
            verbose=verbose,
            solver=solver,
        )
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        weights = self.class_weight
        if isinstance(weights, Mapping):
            for label, weight in weights.items():
                check_positive(f"class_weight[{label!r}]", weight, zero=True)
        elif weights is not None and not (isinstance(weights, str) and weights == "balanced"):
            raise ValueError(f"class_weight must be a dict, 'balanced' or None; got {weights!r}")

    def _target_rules(self, y: Any) -> dict[str, Any]:
        return {"multi_output": True} if has_columns(y) else {}

    def _check_targets(self, y: Any) -> np.ndarray[Any, Any]:
        if y.ndim == 2:
            return indicator_signs(y)
        pair = two_labels(y)
        if pair is None or not float(pair[0]).is_integer() or not float(pair[1]).is_integer():
            check_classification_targets(y)
        return np.asarray(y)

    def _check_new_targets(self, state: Model, y: np.ndarray[Any, Any]) -> None:
        k = state.solution.bias.size
        if (y.ndim == 2) is not (state.classes is None) or (y.ndim == 2 and y.shape[1] != k):
            held = "one label a row" if state.classes is not None else f"an indicator of {k} labels"
            raise ValueError(f"the model was fitted on {held}; got y of shape {y.shape}")

    def _class_weights(self, rows: Rows, is_refit: bool = False) -> dict[Hashable, float]:
        if self.class_weight is None:
            return {}
        if rows.y.ndim == 2:
            raise ValueError(
                "class_weight is for rows that have one label each: a row of several has one weight for all "
                "of them, its sample_weight"
            )
        if isinstance(self.class_weight, Mapping):
            known = set(rows.y.tolist())
            unknown = [label for label in self.class_weight if label not in known]
            # A class that was there at fit may have been forgotten since.
            if unknown and not is_refit:
                raise ValueError(f"class_weight names {unknown[0]!r}, which is not a label in y")
            return {label: float(weight) for label, weight in self.class_weight.items() if label in known}
        return balanced(rows.y, rows.weights)

    def _named_weights(self) -> dict[Hashable, float]:
        if not isinstance(self.class_weight, Mapping):
            return {}
        return {label: float(weight) for label, weight in self.class_weight.items()}

    @property
    def classes_(self) -> Any:
        """The labels, sorted; where rows may have several, whether each is there, a list of [0, 1]."""
        state = self._fitted("classes_")
        if state.classes is None:
            return [np.arange(2) for _ in range(state.solution.bias.size)]
        return state.classes.copy()

    @property
    def class_weight_(self) -> FloatArray:
        """Weight of each class, as resolved at fit."""
        state = self._fitted("class_weight_")
        weights, classes = state.settings.class_weight or {}, state.classes
        if classes is None:
            return np.ones(state.solution.bias.size)
        return np.array([weights.get(label, 1.0) for label in classes.tolist()])

    def decision_function(self, X: Any, *, out: str | os.PathLike[str] | None = None) -> Any:
        """Return f at each row: positive for ``classes_[1]`` of two, a column a class for more.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n), or source
            With a precomputed kernel, kernel values with the rows held, in the order of ``ids_``.
        out : path, optional
            With a source, a file to write to, block by block: ``.npy`` or ``.parquet``. It is there when all
            is written, or not at all.
            Columns in Parquet are named ``decision``, or ``decision_`` and the label.

        Returns
        -------
        ndarray of shape (rows,) or (rows, n_classes)
            Of a source, an iterator of such arrays, one a block; the path, where `out` was given.
        """
        state = self._current()
        if is_source(X):
            k = state.solution.bias.size
            labels = range(k) if state.classes is None else state.classes.tolist()
            return self._said(X, Decider.of(state).decisions, out, "decision", labels if k > 1 else ())
        refuse_out(out)
        return as_flat(self._decision(state, X))

    def predict(self, X: Any, *, out: str | os.PathLike[str] | None = None) -> Any:
        """Return the label of each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n), or source
        out : path, optional
            As in `decision_function`; the column in Parquet is named ``prediction``.

        Returns
        -------
        ndarray of shape (rows,)
            Of a source, an iterator of such arrays, one a block; the path, where `out` was given.
        """
        state = self._current()
        if is_source(X):
            decide = Decider.of(state)
            if out is not None and decide.classes is not None:
                decide = replace(decide, classes=storable(decide.classes))
            k = 1 if decide.classes is not None else state.solution.bias.size
            return self._said(X, decide.labels, out, "prediction", range(k) if k > 1 else ())
        refuse_out(out)
        return labels_of(state, self._decision(state, X))

    def score(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the share of rows, by weight, that get the right label.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n), or source
        y : array-like of shape (rows,)
            Labels; a source has its own.
        sample_weight : array-like of shape (rows,), optional

        Returns
        -------
        float
        """
        if is_source(X):
            right = np.sum(list(self._over_source(X, Decider.of(self._current()).right)), axis=0)
            return float(right[0] / right[1])
        return float(super().score(X, y, sample_weight))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return calibrated probabilities, a column a class, or a label where rows may have several.

        Calibrated on leave-one-out decision values when first asked for: exact ones for the squared loss,
        those of a fixed active set for the squared hinge. For wide sparse rows, on the values of ten folds,
        each by a warm re-solve without it; ``calibrated_on_`` says which it is. Probabilities are of the data
        as they come: rows count by their sample weights, and class weights move the decision and not the
        probabilities. So without class weights the largest is always that of `predict`; with them it need not
        be.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows, n_classes)
        """
        state, calibration = self._calibrated()
        return calibration.probabilities(self._decision(state, X))

    @property
    def calibrated_on_(self) -> str:
        """Which values probabilities are calibrated on."""
        return str(self._fitted("calibrated_on_").attribute("calibrated_on"))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows, n_classes)
        """
        with np.errstate(divide="ignore"):  # The logarithm of zero is minus infinity, as it should be.
            return np.log(self.predict_proba(X))

    def _calibrated(self) -> tuple[Model, Calibration]:
        """Return the model and its calibration, computed once."""
        state = self._current()
        if state.calibration is None:
            with REQUESTS:
                state = self._holding("calibrating probabilities anew")
                if state.known.calibration is None:
                    values, weights = state.values_to_calibrate_on(), state.given_weights[state.held]
                    moved = state.settings.weighs_classes(state.classes)
                    y = state.rows.y[state.held]
                    state.known.calibration = Calibration.of(values, y, state.classes, weights, moved)
        assert state.calibration is not None
        return state, state.calibration

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
    ) -> Self:
        """Learn rows; the first call fits, as soon as rows of two classes have come.

        Parameters
        ----------
        X, y, sample_weight, ids :
            As in `learn`.
        classes : array-like, optional
            If given, labels in y must be among them, and rows of a single class wait until another comes; the
            model is not fitted until then. Without, a class may appear at any time after the first call.

        Returns
        -------
        self
        """
        is_indicator, is_fitted = has_columns(y), self.__sklearn_is_fitted__()
        if classes is not None:
            if is_indicator:
                raise ValueError(
                    "classes is for rows of one label each: with several, the columns of y are the labels"
                )
            check_among(y, classes)
        if is_indicator or is_fitted:
            return (self.learn if is_fitted else self.fit)(X, y, sample_weight, ids)
        waiting: WaitingRows | None = self.__dict__.get("_waiting")
        if waiting is None and (classes is None or np.unique(np.asarray(y)).size != 1):
            return self.fit(X, y, sample_weight, ids)
        batch = WaitingRows.of(self, X, y, sample_weight, ids)
        rows = batch if waiting is None else waiting.joined(batch)
        if np.unique(rows.y).size == 1:
            self._waiting = rows
            return self
        self.fit(rows.X, rows.y, rows.weights, rows.ids)
        if rows.names is not None:
            self.feature_names_in_ = np.array(rows.names, dtype=object)
        del self._waiting
        return self

    def loo_decision_function(
        self, fixed_set: bool = False, groups: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Return f at each row held, of the model without that row, in the order of ``ids_``.

        The squared loss needs no more than the diagonal of an inverse, about the cost of one more fit. The
        squared hinge needs a warm re-solve for each support row; ``loo_cost_`` says how many there were, and
        how long they took.

        Parameters
        ----------
        fixed_set : bool, default=False
            For the squared hinge, whether to hold the set of support vectors fixed in place of solving again:
            at the cost of one factorisation, and exact only where the set stays the same without the row,
            which it mostly does not. Good enough for calibration. The squared loss is exact either way.
        groups : array-like of shape (m,), optional
            The group of each row: rows leave with their group, as in `cross_decision_function`.

        Returns
        -------
        ndarray of shape (m,) or (m, n_classes)
        """
        return as_flat(self._loo(fixed_set, groups))

    def loo_score(self, fixed_set: bool = False, groups: npt.ArrayLike | None = None) -> float:
        """Return the leave-one-out accuracy: the share of rows that the model without them labels rightly.

        Rows count by their sample weights, as in `score`. Class weights move the decision and do not count.

        Parameters
        ----------
        fixed_set, groups :
            As in `loo_decision_function`.

        Returns
        -------
        float
        """
        return self._score_of(*self._loo_inside(fixed_set, groups))

    def cross_decision_function(self, cv: Any = None, groups: npt.ArrayLike | None = None) -> FloatArray:
        """Return f at each row held, of the model without its fold, in the order of ``ids_``.

        What ``cross_val_predict`` would return with the numbers of this fit, exactly. The squared loss needs
        the blocks of one inverse and no refit; the squared hinge goes on, fold by fold, from the support
        rows that it has.

        Parameters
        ----------
        cv : int, splitter or iterable of (train, test), optional
            As in scikit-learn; each row must be in one fold, and each fold be trained without on all other
            rows. By default each row leaves alone, or each group. An integer with groups keeps groups whole.
            A fold that takes all rows of a class is an error.
        groups : array-like of shape (m,), optional
            The group of each row (a patient, a machine, a day), handed on to the splitter.

        Returns
        -------
        ndarray of shape (m,) or (m, n_classes)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from squaresvm import LSSVC
        >>> model = LSSVC(C=10.0, gamma=0.2).fit(*load_iris(return_X_y=True))
        >>> model.cross_decision_function(cv=5).shape
        (150, 3)
        """
        return as_flat(self._cross(cv, groups)[1])

    def cross_predict(self, cv: Any = None, groups: npt.ArrayLike | None = None) -> np.ndarray[Any, Any]:
        """Return the label of each row held, by the model without its fold, in the order of ``ids_``.

        Parameters
        ----------
        cv, groups :
            As in `cross_decision_function`.

        Returns
        -------
        ndarray of shape (m,)
        """
        return labels_of(*self._cross(cv, groups))

    @staticmethod
    def _score_of(state: State, values: FloatArray) -> float:
        held, y = state.held, state.rows.y[state.held]
        truth = indicator(y) if state.classes is None else y
        predicted, weights = labels_of(state, values), state.given_weights[held]
        return float(accuracy_score(truth, predicted, sample_weight=weights))

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
