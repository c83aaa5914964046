"""Classifiers, one for each model of the papers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import ClassVar

import numpy as np

from squaresvm.estimators.c_path import WithCPath
from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.estimators.requests import Reweighting
from squaresvm.judging.robust import Robust
from squaresvm.kernels import Kernel, KernelFunction
from squaresvm.problem import Bias, Loss
from squaresvm.rows import Rows
from squaresvm.runtime.arguments import check_flag, check_positive
from squaresvm.solvers.base import Solver

__all__ = ["LSSVC", "RLSSVC", "LagrangianSVC", "ProximalSVC", "RelaxedLSSVC"]


class LSSVC(Reweighting, SquareSVMClassifier):
    r"""Least squares support vector classifier (Suykens and Vandewalle).

    .. math::
        \min_{w,\,b}\; \tfrac12 |w|^2 + \tfrac12 \sum_i C_i\, (y_i - f(x_i))^2,
        \qquad f(x) = w^\top \phi(x) + b

    for labels +1 and -1. Every row pulls f towards its label, also rows that are on the right side by more
    than 1; :class:`RLSSVC` lets those go. More than two classes are separated one from the rest, and all
    share one factor.

    Rows may have several labels each: y of shape (m, k), scikit-learn's indicator of labels. Each label is
    fitted as if it were alone, on the one factor; `predict` returns such an indicator, and decision values
    and probabilities have a column a label, which scikit-learn's metrics take. ``classes_`` is then a list of
    ``[0, 1]`` for each label, as that of trees and forests, and scores are shares of rows that are right in
    all of their labels.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss; C_i is C times the sample weight and the class weight.
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
    class_weight : dict, 'balanced' or None, default=None
        Multiplies C class by class; ``'balanced'`` weighs all classes alike.
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
    classes_ : ndarray of shape (n_classes,), or list of such
    support_ : ndarray of shape (n_support,)
        Positions of the support vectors among the rows held.
    support_vectors_ : array or CSR matrix of shape (n_support, n_features)
    dual_coef_ : ndarray of shape (1 or n_classes, n_support)
        Signed multipliers beta: f(x) = sum_i beta_i k(x_i, x) + b.
    intercept_ : ndarray of shape (1 or n_classes,)
    coef_ : ndarray of shape (1 or n_classes, n_features)
        Linear kernels only.
    n_iter_ : int
    solver_ : str
    solver_reason_ : str
    certificate_ : Certificate
        Residual, duality gap, objective and status of the fit.
    ids_ : ndarray of shape (m,)
        Id of each row held.
    gamma_ : float
    C_ : float
    class_weight_ : ndarray of shape (n_classes,)
    trace_ : tuple of Progress
    loo_cost_ : object
    robust_weights_ : ndarray of shape (m,)
        What the weight of each row held was multiplied by.

    See Also
    --------
    RLSSVC : Squared hinge in place of the squared loss.
    RelaxedLSSVC : With a penalty on the bias.
    LSSVR : Regression.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVC(C=10.0, gamma=0.1).fit(X, y)
    >>> round(model.score(X, y), 3)
    0.993
    >>> model.certificate_.residual < 1e-10
    True
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
        class_weight: Mapping[Hashable, float] | str | None = None,
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
            class_weight=class_weight,
            random_state=random_state,
            verbose=verbose,
            solver=solver,
        )
        self.robust = robust

    def _bias(self) -> Bias:
        return Bias.free()


class RLSSVC(WithCPath):
    r"""Support vector classifier with squared hinge and free bias (Peng, Rafferty and Ferguson).

    .. math::
        \min_{w,\,b}\; \tfrac12 |w|^2 + \tfrac12 \sum_i C_i\, \max(0,\, 1 - y_i f(x_i))^2

    The L2 support vector machine, solved as a sequence of regularised least squares problems. Its
    multipliers are sparse: rows beyond the margin have none. `C_path` gives the models at several C.
    Parameters and attributes are those of :class:`LSSVC`, but for robust weights.

    See Also
    --------
    LagrangianSVC : With a penalty on the bias.
    LSSVC : Squared loss: cheaper to update, not sparse.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from squaresvm import RLSSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), RLSSVC()).fit(X, y)
    >>> round(model.score(X, y), 3)
    0.989
    >>> int(model[-1].support_.size) < len(y)
    True
    """

    _loss: ClassVar[Loss] = Loss.SQUARED_HINGE

    def _bias(self) -> Bias:
        return Bias.free()


class ProximalSVC(SquareSVMClassifier):
    r"""Proximal support vector classifier (Fung and Mangasarian), linear and nonlinear.

    With ``kernel='linear'``

    .. math::
        \min_{w,\,b}\; \tfrac12 |w|^2 + \tfrac12 b^2 + \tfrac12 \sum_i C_i\, (y_i - w^\top x_i - b)^2

    and with any other kernel the same with K W K' in place of the kernel matrix K, where W holds the
    weights of the rows: equations (10) to (12) of the relaxed least squares paper, with the labels
    where (10) lacks them. The model is f(x) = k(x, X) W K beta + b, and ``dual_coef_`` is W K beta.
    Parameters and attributes are those of :class:`LSSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import ProximalSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> round(ProximalSVC(C=10.0).fit(X, y).score(X, y), 3)
    0.98
    """

    _loss: ClassVar[Loss] = Loss.SQUARED
    _proximal: ClassVar[bool] = True

    def _bias(self) -> Bias:
        return Bias.penalised(1.0)


class _PenalisedSVC(SquareSVMClassifier):
    """A classifier with a penalty A on its bias."""

    def __init__(
        self,
        *,
        A: float = 1.0,
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
            class_weight=class_weight,
            random_state=random_state,
            verbose=verbose,
            solver=solver,
        )
        self.A = A

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("A", self.A)

    def _bias(self) -> Bias:
        return Bias.penalised(float(self.A))


class RelaxedLSSVC(_PenalisedSVC):
    r"""Relaxed least squares support vector classifier (Joshi, Jayadeva, Ramakrishnan and Chandra).

    .. math::
        \min_{w,\,b}\; \tfrac12 |w|^2 + \tfrac{A}{2} b^2 + \tfrac12 \sum_i C_i\, (y_i - f(x_i))^2

    :class:`LSSVC` with a penalty on the bias, which makes the dual problem unconstrained. As A falls to
    zero the model becomes :class:`LSSVC`; at A = 1e4 its bias is all but zero. Other parameters and
    attributes are those of :class:`LSSVC`.

    Parameters
    ----------
    A : float, default=1.0
        Penalty on the bias.
    C, kernel, gamma, degree, coef0, tol, max_iter, fit_intercept, class_weight :
        As in :class:`LSSVC`.
    random_state, verbose, solver :
        As in :class:`LSSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import RelaxedLSSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> round(RelaxedLSSVC(C=10.0, A=0.5).fit(X, y).score(X, y), 3)
    0.987
    """

    _loss: ClassVar[Loss] = Loss.SQUARED


class LagrangianSVC(_PenalisedSVC, WithCPath):
    r"""Lagrangian support vector classifier (Mangasarian and Musicant).

    .. math::
        \min_{w,\,b}\; \tfrac12 |w|^2 + \tfrac{A}{2} b^2
        + \tfrac12 \sum_i C_i\, \max(0,\, 1 - y_i f(x_i))^2

    ``LinearSVC(C=c, loss='squared_hinge', dual=False)`` of scikit-learn is this model with
    ``kernel='linear'``, C = 2 c and A = 1. Other parameters and attributes are those of :class:`LSSVC`.

    Parameters
    ----------
    A : float, default=1.0
        Penalty on the bias.
    augment : bool, default=False
        Put the bias inside the kernel, k([x, -1], [z, -1]), as the paper does. The extra column cancels in
        an RBF kernel, which then has no bias; it adds gamma to coef0 of a polynomial one; it is the
        penalised bias of a linear one. A must be 1, and the kernel must not be precomputed.
    C, kernel, gamma, degree, coef0, tol, max_iter, fit_intercept, class_weight :
        As in :class:`LSSVC`.
    random_state, verbose, solver :
        As in :class:`LSSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from squaresvm import LagrangianSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LagrangianSVC(kernel="linear")).fit(X, y)
    >>> round(model.score(X, y), 3)
    0.989
    """

    _loss: ClassVar[Loss] = Loss.SQUARED_HINGE

    def __init__(
        self,
        *,
        A: float = 1.0,
        augment: bool = False,
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
            A=A,
            C=C,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            tol=tol,
            max_iter=max_iter,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            random_state=random_state,
            verbose=verbose,
            solver=solver,
        )
        self.augment = augment

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not check_flag("augment", self.augment):
            return
        if self.A != 1.0:
            raise ValueError(f"augment=True fixes the penalty of the bias: A must be 1; got {self.A!r}")
        if self._is_precomputed:
            raise ValueError("augment=True needs the rows, so it cannot be used with a precomputed kernel")
        if not self.fit_intercept:
            raise ValueError("augment=True is a bias inside the kernel: fit_intercept must be True")

    def _kernel_and_bias(
        self, rows: Rows, class_weight: dict[Hashable, float] | None
    ) -> tuple[Kernel | None, Bias]:
        kernel, bias = super()._kernel_and_bias(rows, class_weight)
        if not self.augment or kernel is None:
            return kernel, bias
        kernel, is_bias = kernel.augmented()
        return kernel, bias if is_bias else Bias.none()
