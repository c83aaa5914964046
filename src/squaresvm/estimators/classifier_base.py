"""What all classifiers share: labels, class weights, one against the rest."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from squaresvm.estimators.base import SquareSVM
from squaresvm.estimators.parameters import check_positive
from squaresvm.kernels import KernelFunction
from squaresvm.rows import Rows
from squaresvm.solvers.base import Solver
from squaresvm.typing import FloatArray

__all__ = ["SquareSVMClassifier"]


class SquareSVMClassifier(ClassifierMixin, SquareSVM):
    """Base of all classifiers; see :class:`squaresvm.LSSVC`."""

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

    def _check_targets(self, y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        check_classification_targets(y)
        return y

    def _class_weights(self, rows: Rows) -> dict[Hashable, float]:
        if self.class_weight is None:
            return {}
        if isinstance(self.class_weight, Mapping):
            known = set(rows.y.tolist())
            unknown = [label for label in self.class_weight if label not in known]
            if unknown:
                raise ValueError(f"class_weight names {unknown[0]!r}, which is no label in y")
            return {label: float(weight) for label, weight in self.class_weight.items()}
        # 'balanced' by weighted counts: a row of weight 2 counts as two rows.
        held = rows.weights > 0
        classes, codes = np.unique(rows.y[held], return_inverse=True)
        counts = np.bincount(codes, weights=rows.weights[held])
        shares = counts.sum() / (classes.size * counts)
        return dict(zip(classes.tolist(), shares.tolist(), strict=True))

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """The labels, sorted."""
        classes = self._fitted("classes_").classes
        assert classes is not None
        return classes

    @property
    def class_weight_(self) -> FloatArray:
        """Weight of each class, as resolved at fit."""
        state = self._fitted("class_weight_")
        assert state.settings.class_weight is not None
        weights = state.settings.class_weight
        return np.array([weights.get(label, 1.0) for label in self.classes_.tolist()])

    def decision_function(self, X: Any) -> FloatArray:
        """Return f at each row: positive for ``classes_[1]`` of two, a column a class for more.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)
            With a precomputed kernel, kernel values with the rows held, in the order of ``ids_``.

        Returns
        -------
        ndarray of shape (rows,) or (rows, n_classes)
        """
        decision = self._decision(X)
        return decision[:, 0] if decision.shape[1] == 1 else decision

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the label of each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows,)
        """
        state = self._fitted("classes_")
        decision = self._decision(X)
        assert state.classes is not None
        if decision.shape[1] == 1:
            return state.classes[(decision[:, 0] > 0).astype(np.intp)]
        return state.classes[decision.argmax(axis=1)]
