"""Scores of decision values by scorers of scikit-learn that need no probabilities; evidence and variances."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer

from squaresvm.factors import CholeskyFactor, Moments, MomentsFactor
from squaresvm.judging.by_products import InverseByProducts
from squaresvm.kernels import Kernel
from squaresvm.linalg.blas import solve_triangular_in_place
from squaresvm.linalg.lapack import cholesky_in_place
from squaresvm.problem import Problem
from squaresvm.problem.products import is_large
from squaresvm.rows.labels import decided, value_columns
from squaresvm.runtime.resources import row_blocks
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Judge", "check_scoring", "evidence_of", "log_evidence", "variances"]


def check_scoring(scoring: Any) -> Callable[..., float] | None:
    """Return the scorer that `scoring` names or is; None for the estimator's own ``loo_score``."""
    if scoring is None:
        return None
    if isinstance(scoring, str):
        found: Callable[..., float] = get_scorer(scoring)
        return found
    if not callable(scoring):
        raise ValueError(
            f"scoring must be None, the name of a scorer or a callable(estimator, X, y); got {scoring!r}"
        )
    return scoring


@dataclass(frozen=True, eq=False)
class Judge:
    """What turns decision values of rows, by models without them or others, into a score.

    Parameters
    ----------
    scorer : callable or None
        None: accuracy by weight, or the coefficient of determination.
    X : array or CSR matrix
        The rows, handed on to the scorer.
    y : ndarray of shape (m,)
    classes : ndarray or None
        None for regression, and where rows may have several labels.
    sample_weight : ndarray of shape (m,)
        Of the caller.
    weights : ndarray of shape (m,)
        Sample weight times class weight.
    is_classifier : bool
    """

    scorer: Callable[..., float] | None
    X: Matrix
    y: np.ndarray[Any, Any]
    classes: np.ndarray[Any, Any] | None
    sample_weight: FloatArray
    weights: FloatArray
    is_classifier: bool

    def __call__(self, values: FloatArray) -> float:
        """Return the score of decision values of shape (m, k)."""
        if self.scorer is None:
            if not self.is_classifier:
                return self._determination(values)
            right = decided(self.classes, values) == self.y
            return float(np.average(right if right.ndim == 1 else right.all(axis=1), weights=self.weights))
        outputs: BaseEstimator = _Regressor(values if self.y.ndim == 2 else values[:, 0])
        if self.is_classifier:
            outputs = _Classifier(values, self.classes)
        score = self.scorer(outputs, self.X, self.y, **self._weights())
        if isinstance(score, bool) or not isinstance(score, Real):
            raise ValueError(f"scoring must return one number; got {score!r}")
        return float(score)

    def within(self, rows: IntArray) -> Judge:
        """Return what judges some of the rows."""
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            sample_weight=self.sample_weight[rows],
            weights=self.weights[rows],
        )

    def of_folds(self, values: FloatArray, folds: Sequence[IntArray]) -> tuple[float, ...]:
        """Return the score of each fold by itself; NaN where a scorer has none for such rows."""
        return tuple(self._of_fold(values, fold) for fold in folds)

    def of_targets(self, values: FloatArray) -> tuple[float, ...]:
        """Return the score of each of several targets by itself."""
        return tuple(replace(self, y=y)(own[:, None]) for y, own in zip(self.y.T, values.T, strict=True))

    def _of_fold(self, values: FloatArray, fold: IntArray) -> float:
        try:
            return self.within(fold)(values[fold])
        except ValueError:  # As of one class alone.
            return float("nan")

    def _determination(self, predicted: FloatArray) -> float:
        """Return what ``r2_score`` would: its checks would take longer than the rest of a small search."""
        share, y = self.weights / self.weights.sum(), value_columns(self.y)
        total = share @ (y - share @ y) ** 2
        left = share @ (y - predicted) ** 2
        alike = np.where(left == 0.0, 0.0, 1.0)
        return float(1.0 - np.divide(left, total, out=alike, where=total > 0.0).mean())

    def _weights(self) -> dict[str, FloatArray]:
        """Return the weights where there are any and the scorer takes them."""
        if np.all(self.sample_weight == self.sample_weight[0]):
            return {}
        function: Any = getattr(self.scorer, "_score_func", self.scorer)
        takes = "sample_weight" in inspect.signature(function).parameters
        return {"sample_weight": self.sample_weight} if takes else {}


class _Outputs(BaseEstimator):
    """Stands for the models without each row in turn: it knows what they say of that row, and no more."""

    def __init__(self, values: FloatArray) -> None:
        self.values = values

    def _of(self, X: Any) -> FloatArray:
        if X.shape[0] != self.values.shape[0]:
            raise ValueError(
                f"leave-one-out values exist for all {self.values.shape[0]} judged rows together, and the "
                f"scorer asked for {X.shape[0]} rows: give a scorer that predicts all rows at once"
            )
        return self.values

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _Regressor(RegressorMixin, _Outputs):
    def predict(self, X: Any) -> FloatArray:
        return self._of(X)


class _Classifier(ClassifierMixin, _Outputs):
    def __init__(self, values: FloatArray, classes: np.ndarray[Any, Any] | None) -> None:
        super().__init__(values)
        self.classes = classes

    @property
    def classes_(self) -> Any:
        return [np.arange(2)] * self.values.shape[1] if self.classes is None else self.classes

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        return decided(self.classes, self._of(X))

    def decision_function(self, X: Any) -> FloatArray:
        values = self._of(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict_proba(self, X: Any) -> FloatArray:
        raise ValueError(
            "this scorer needs probabilities, which are calibrated on the same leave-one-out values that it "
            "would score: choose one that takes labels or decision values, such as 'accuracy' or 'roc_auc'"
        )


def evidence_of(fit: FloatArray, log_volume: float, contrasts: int) -> FloatArray:
    """Return the logarithm of the evidence of each target.

    Parameters
    ----------
    fit : ndarray of shape (k,)
        y'beta.
    log_volume : float
        log |H|, and log 1'inv(H)1 where the bias is free.
    contrasts : int
        Rows, less one where the bias is free.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.judging.scores import evidence_of
    >>> evidence_of(np.zeros(1), 0.0, 2).round(4).tolist()
    [-1.8379]
    """
    return -0.5 * (fit + log_volume + contrasts * np.log(2.0 * np.pi))


def log_evidence(problem: Problem, solution: Solution) -> FloatArray:
    """Return the logarithm of the evidence of each target, for a bias that is free or absent."""
    fit = np.einsum("ij,ij->j", problem.targets, problem.multipliers(solution))
    contrasts = problem.n_rows - int(problem.bias.is_free)
    return evidence_of(fit, _log_volume(problem), contrasts)


def variances(
    problem: Problem, solution: Solution, X: Matrix, kernel: Kernel, held: Callable[[], Matrix]
) -> FloatArray:
    """Return the variance of f at new rows: k(x, x) - (k_x, 1)' inv([H, 1; 1', 0]) (k_x, 1).

    Parameters
    ----------
    problem, solution :
        Of the squared loss.
    X : array or CSR matrix
    kernel : Kernel
    held : callable
        Returns the problem's rows, where the kernel needs them.
    """
    Z = problem.operator.features
    if Z is not None and is_large(Z):
        g, bias = InverseByProducts(Z, problem.costs, problem.bias).reach(X)
        near = np.asarray((Z @ X.T).toarray(), dtype=np.float64)
        return kernel.diagonal(X) - np.einsum("ij,ij->j", near, g) - bias
    if Z is not None:
        return MomentsFactor.current(solution.factor, problem).leverage(X)
    factor, rows = CholeskyFactor.current(solution.factor, problem), held()
    found = np.asarray(kernel.diagonal(X), dtype=np.float64).copy()
    for part in row_blocks(X.shape[0], problem.n_rows):
        near = np.asarray(kernel(X[part], rows), dtype=np.float64).T
        g, bias = factor.bordered(near, np.ones(near.shape[1]))
        found[part] -= np.einsum("ij,ij->j", near, g) + bias
    return found


def _log_volume(problem: Problem) -> float:
    """Return log |H|, and log 1'inv(H)1 where the bias is free."""
    Z, free = problem.operator.features, problem.bias.is_free
    if Z is not None:
        if is_large(Z):
            raise ValueError(
                "log_marginal_likelihood needs the determinant of an m x m or n x n matrix, which is not "
                f"formed for sparse rows of shape {Z.shape}: use fewer rows or columns"
            )
        # |H| = |I + Z'CZ| / prod C_i, and the border makes it the Hessian of w and b.
        factor = MomentsFactor(Moments.of(Z, problem.costs, problem.targets), problem.bias)
        return factor.log_determinant() - float(np.log(problem.costs).sum())
    everyone = np.arange(problem.n_rows)
    H = np.asfortranarray(problem.operator.block(everyone, everyone))
    H[np.diag_indices(everyone.size)] += problem.ridge
    cholesky_in_place(H)
    total = 2.0 * float(np.log(np.diagonal(H)).sum())
    if free:
        half = np.ones((everyone.size, 1), order="F")
        solve_triangular_in_place(H, half)
        total += float(np.log(np.square(half).sum()))
    return total
