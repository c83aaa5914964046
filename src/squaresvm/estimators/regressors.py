"""Regressors; and the squared loss seen as a Gaussian process.

With k as the covariance of f, 1/C_i as the variance of the noise of row i and a flat prior of the bias, f
given the rows is normal with the fitted f as its mean and

    var f(x) = k(x, x) - (k_x, 1)' inv(M) (k_x, 1),    M = [H, 1; 1', 0]                                  (1)

and the logarithm of the evidence, that of m - 1 contrasts between the rows, is

    -1/2 y'beta - 1/2 log |H| - 1/2 log 1'inv(H)1 - (m - 1)/2 log 2 pi                                    (2)

Without a bias the border is absent, and these are the formulas of Gaussian process regression.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from squaresvm.estimators.attributes import refuse_out
from squaresvm.estimators.left_out import PredictingIntervals
from squaresvm.estimators.requests import Reweighting, Updating
from squaresvm.judging.robust import Robust
from squaresvm.judging.scores import log_evidence
from squaresvm.kernels import KernelFunction
from squaresvm.models.model import Decider, Model
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.state import State
from squaresvm.problem import Bias, Loss
from squaresvm.rows import Rows
from squaresvm.runtime.arguments import check_flag
from squaresvm.solvers.base import Solver
from squaresvm.streaming import is_source
from squaresvm.typing import FloatArray, Matrix

__all__ = ["LSSVR"]


class LSSVR(RegressorMixin, Reweighting, PredictingIntervals, Updating):
    r"""Least squares support vector regression: kernel ridge regression with a free bias.

    .. math::
        \min_{w,\,b}\; \tfrac12 |w|^2 + \tfrac12 \sum_i C_i\, (y_i - w^\top \phi(x_i) - b)^2

    Values may be several a row, y of shape (m, k): the targets share K, C and one factor, and each is fitted
    as if it were alone.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss; C_i is C times the sample weight.
    kernel : {'linear', 'rbf', 'poly', 'sigmoid', 'laplacian', 'precomputed'} or callable, default='rbf'
        A callable is called as ``kernel(X, Z)`` and returns an array of shape (len(X), len(Z)).
    gamma : {'scale', 'auto'} or float, default='scale'
        Parameter of rbf, poly, sigmoid and laplacian. ``'scale'`` is 1 / (n_features * X.var()), with
        weighted variance where rows have weights; ``'auto'`` is 1 / n_features.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=0.0
        Of the polynomial and sigmoid kernels.
    tol : float, default=1e-6
        Bound on the residual of the certificate, whatever the solver.
    max_iter : int, optional
        Each solver has its own default.
    fit_intercept : bool, default=True
        False leaves the bias out.
    random_state : int, RandomState or None, default=None
        Kept for scikit-learn's conventions, and without effect: solvers that draw rows draw the same ones on
        every run.
    verbose : int, default=0
        From 1 on, `fit` says on standard error which solver it takes and why, how its search goes, at most
        five times a second (from 2 on: every iteration), and how it ended. Programs had better ask
        ``callback`` and ``trace`` of a solver.
    solver : str or solver, default='auto'
        ``'auto'`` says what it chose, and why, in ``solver_`` and ``solver_reason_``.
    robust : int or Robust, default=0
        Rounds in which rows with large residuals lose weight (weighted LS-SVM, Suykens et al. 2002; see
        :class:`squaresvm.Robust`). The weights are numbers taken once at `fit`: rows learned later
        have their own, rows that are forgotten leave the others' as they are, and `refit` judges all anew.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, coef_, n_iter_, solver_, solver_reason_ :
        As in :class:`squaresvm.LSSVC`.
    certificate_ : Certificate
        Residual, duality gap, objective and status of the fit.
    ids_ : ndarray of shape (m,)
        Id of each row held.
    gamma_, C_ : float
        The numbers of the fit.
    robust_weights_ : ndarray of shape (m,)
        What the weight of each row held was multiplied by.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm import LSSVR
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = LSSVR(C=100.0, gamma=1.0).fit(X, np.sin(X).ravel())
    >>> round(float(model.predict([[np.pi / 2]])[0]), 2)
    1.0
    """

    _loss: ClassVar[Loss] = Loss.SQUARED

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
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        solver: str | Solver = "auto",
        robust: int | Robust = 0,
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
        self.robust = robust

    def _bias(self) -> Bias:
        return Bias.free()

    def _target_rules(self, y: Any) -> dict[str, Any]:
        return {"y_numeric": True, "multi_output": True}

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, ids: Any) -> Rows:
        _check_several(y)
        return super()._check_rows(X, y, sample_weight, ids)

    def _check_new_rows(self, state: Model, X: Any, y: Any) -> tuple[Matrix, np.ndarray[Any, Any]]:
        _check_several(y)
        return super()._check_new_rows(state, X, y)

    def _check_targets(self, y: Any) -> np.ndarray[Any, Any]:
        values = np.asarray(y, dtype=np.float64)
        if values.ndim > 2 or 0 in values.shape[1:]:
            raise ValueError(f"y must be of shape (m,), or (m, k) for k targets; got shape {values.shape}")
        return values

    def _check_new_targets(self, state: Model, y: np.ndarray[Any, Any]) -> None:
        if not state.takes_shape(y):
            held = "flat values" if state.is_flat else f"{state.solution.bias.size} targets a row"
            raise ValueError(f"the model was fitted on {held}; got y of shape {y.shape}")

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any, return_std: bool = False, *, out: str | os.PathLike[str] | None = None) -> Any:
        """Return the value at each row, and its standard deviation if asked for.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n), or source
        return_std : bool, default=False
            Whether to return the standard deviation of f too, with the kernel as the covariance of f and 1/C
            as the variance of the noise, which it does not include: that of
            ``GaussianProcessRegressor(kernel, alpha=1/C)``, with a flat prior of the bias unless
            ``fit_intercept=False``. It says where rows are missing; for intervals that hold whatever the
            noise is, see `predict_interval`.
        out : path, optional
            With a source, a file to write to, block by block: ``.npy`` or ``.parquet``. It is there when all
            is written, or not at all.
            The column in Parquet is named ``prediction``, several ``prediction_0`` and so on.

        Returns
        -------
        ndarray of shape (rows,) or (rows, k)
            Of a source, an iterator of such arrays, one a block; the path, where `out` was given.
        std : ndarray of the same shape
            Where `return_std`.
        """
        state = self._current()
        check_flag("return_std", return_std)
        if return_std and (is_source(X) or out is not None):
            raise ValueError("return_std is for rows in memory: give blocks of a source one by one")
        if is_source(X):
            k = state.solution.bias.size
            return self._said(X, Decider.of(state).decisions, out, "prediction", range(k) if k > 1 else ())
        refuse_out(out)
        values = _shaped(state, self._decision(state, X))
        if not return_std:
            return values
        return values, _shaped(state, self._deviations(X))

    def score(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the coefficient of determination; of several targets the mean.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n), or source
        y : array-like of shape (rows,)
            Values; a source has its own.
        sample_weight : array-like of shape (rows,), optional

        Returns
        -------
        float
        """
        if not is_source(X):
            return float(super().score(X, y, sample_weight))
        sums = list(self._over_source(X, Decider.of(self._current()).squares))
        weight, first, second, error = np.sum(sums, axis=0)
        spread = second - first**2 / weight
        alike = np.where(error == 0.0, 1.0, 0.0)  # Values that do not vary.
        scores = 1.0 - np.divide(error, spread, out=1.0 - alike, where=spread > 0.0)
        return float(scores.mean())

    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
    ) -> Self:
        """Learn rows; the first call fits.

        Parameters
        ----------
        X, y, sample_weight, ids :
            As in `learn`.

        Returns
        -------
        self
        """
        step = self.learn if self.__sklearn_is_fitted__() else self.fit
        return step(X, y, sample_weight, ids)

    def loo_predict(self, groups: npt.ArrayLike | None = None) -> FloatArray:
        """Return the value at each row held, of the model without that row, in the order of ``ids_``.

        Parameters
        ----------
        groups : array-like of shape (m,), optional
            The group of each row: rows leave with their group.

        Returns
        -------
        ndarray of shape (m,) or (m, k)
        """
        return _shaped(self._current(), self._loo(groups=groups))

    def loo_score(self, groups: npt.ArrayLike | None = None) -> float:
        """Return the coefficient of determination of the leave-one-out values, rows by their sample weights.

        Parameters
        ----------
        groups : array-like of shape (m,), optional
            As in `loo_predict`.

        Returns
        -------
        float
        """
        return self._score_of(*self._loo_inside(groups=groups))

    def cross_predict(self, cv: Any = None, groups: npt.ArrayLike | None = None) -> FloatArray:
        """Return the value at each row held, of the model without its fold, in the order of ``ids_``.

        What ``cross_val_predict`` would return with the numbers of this fit, exactly, and without a refit.

        Parameters
        ----------
        cv : int, splitter or iterable of (train, test), optional
            As in scikit-learn; each row must be in one fold, and each fold be trained without on all other
            rows. By default each row leaves alone, or each group. An integer with groups keeps groups whole.
        groups : array-like of shape (m,), optional
            The group of each row, handed on to the splitter.

        Returns
        -------
        ndarray of shape (m,) or (m, k)

        Examples
        --------
        >>> import numpy as np
        >>> from squaresvm import LSSVR
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> model = LSSVR(C=100.0, gamma=1.0).fit(X, np.sin(X).ravel())
        >>> days = np.arange(60) // 6
        >>> model.cross_predict(groups=days).shape
        (60,)
        >>> model.cross_score(groups=days) < model.loo_score()
        True
        """
        return _shaped(*self._cross(cv, groups))

    def log_marginal_likelihood(self) -> float:
        """Return the logarithm of the evidence for C and the kernel: equation (2), summed over targets.

        Equal to that of ``GaussianProcessRegressor(kernel, alpha=1/C)`` for ``fit_intercept=False``; with an
        intercept, which has a flat prior, that of the contrasts between rows (the restricted likelihood).
        Values are taken in the units of the kernel: standardise y, or scale the kernel.

        Returns
        -------
        float

        Examples
        --------
        >>> import numpy as np
        >>> from squaresvm import LSSVR
        >>> X = np.linspace(0, 6, 40)[:, None]
        >>> y = np.sin(X).ravel()
        >>> smooth, rough = LSSVR(C=100.0, gamma=0.5).fit(X, y), LSSVR(C=100.0, gamma=50.0).fit(X, y)
        >>> smooth.log_marginal_likelihood() > rough.log_marginal_likelihood()
        True
        """
        with REQUESTS:
            state = self._holding("log_marginal_likelihood")
            return float(sum(log_evidence(*own.judged).sum() for _, own in state.by_cost))

    def _deviations(self, X: Any) -> FloatArray:
        """Return the standard deviation of f at each row, of shape (rows, k)."""
        with REQUESTS:
            state = self._current()
            return np.sqrt(np.maximum(state.variances(self._checked_queries(X)), 0.0))

    @staticmethod
    def _score_of(state: State, values: FloatArray) -> float:
        held = state.held
        return float(r2_score(state.rows.y[held], values, sample_weight=state.given_weights[held]))


def _check_several(y: Any) -> None:
    """Raise a ValueError that names the place of what is missing among several targets."""
    if sp.issparse(y):
        raise ValueError("y must be dense: targets of a regression are seldom zero; give y.toarray()")
    values = np.asarray(y)
    if values.ndim != 2 or values.dtype.kind != "f":
        return
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        row, target = bad[0].tolist()
        raise ValueError(
            f"Input y contains NaN or infinity: y[{row}, {target}] is {values[row, target]}. Every row needs "
            "a value of each target; leave the row out, or fit that target by itself"
        )


def _shaped(state: Model, values: FloatArray) -> FloatArray:
    """Return values in the shape that y had."""
    return values[:, 0] if state.is_flat else values
