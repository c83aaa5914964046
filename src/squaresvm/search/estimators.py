"""Estimators that choose C and gamma by exact leave-one-out, or by folds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from squaresvm.estimators import LSSVC, LSSVR
from squaresvm.judging.robust import Robust
from squaresvm.kernels import KernelFunction
from squaresvm.search.searching import LooSearch
from squaresvm.solvers.base import Solver

__all__ = ["LSSVCCV", "LSSVRCV", "LooSearch"]


class LSSVCCV(LooSearch, LSSVC):
    r"""Least squares support vector classifier that chooses C and gamma by exact leave-one-out.

    For each gamma one decomposition of the kernel matrix gives the leave-one-out values of all rows, for
    every C and every class; nothing is fitted again and nothing is held back. The model with the best score
    is then an :class:`LSSVC` with all its methods: it learns, forgets, certifies and gives probabilities.

    Parameters
    ----------
    Cs : sequence of floats, optional
        Values of C. By default 15, from 1e-3 to 1e4, two a decade.
    gammas : sequence of floats, optional
        Values of gamma, for rbf, laplacian, poly and sigmoid. By default 7: ``'scale'`` (see :class:`LSSVC`)
        times 1/256, 1/64, 1/16, 1/4, 1, 4 and 16.
    scoring : str or callable, optional
        Any scorer of scikit-learn that judges labels or decision values, by name or as
        ``callable(estimator, X, y)``; larger is better. It gets the sample weights if it takes them. By
        default accuracy, weighted by sample and class weights (with ``class_weight='balanced'``: balanced
        accuracy; without: ``loo_score``). Scorers of probabilities are refused: probabilities are calibrated
        on the very values that would be judged.
    cv : int, splitter or iterable of (train, test), optional
        As in `cross_decision_function`: folds in place of single rows, exact as well and without refits. By
        default each row leaves alone, or with its group where `fit` is given groups.
    refine : int, default=0
        Rounds of a finer grid around the best: each halves the steps of C and gamma, on a scale of ratios,
        or goes a step beyond where the best is at the edge, and costs three decompositions.
    kernel, degree, coef0, tol, max_iter, fit_intercept, class_weight :
        As in :class:`LSSVC`; degree and coef0 are not searched. Precomputed, linear and callable kernels have
        no gamma: C alone is searched.
    random_state, solver :
        As in :class:`LSSVC`.
    robust : int or Robust, default=0
        As in :class:`LSSVC`, after the search, which goes by the weights that were given.
    verbose : int, default=0
        From 1 on, a bar shows progress on a terminal; then the fit tells what that of :class:`LSSVC` does.
    n_jobs : int, optional
        Decompositions that run at once, in threads, with one thread of linear algebra each; -1 for as many as
        there are cores. By default one, with all threads of linear algebra.

    Attributes
    ----------
    cv_results_ : dict
        As in ``GridSearchCV``: ``params``, ``param_C``, ``param_gamma``, ``mean_test_score`` (NaN where the
        kernel plus diag(1/C) is not positive definite), ``rank_test_score``, ``mean_fit_time``, and ``iter``,
        the round. Dropped by `forget`, like ``best_score_`` and ``best_index_``.
    best_params_ : dict
    best_score_ : float
    best_index_ : int
    C_, gamma_ : float
        The chosen numbers, which stay until `fit` or `refit`.

    Notes
    -----
    Of equal scores the one with the smallest C, then the smallest gamma, is taken: the smoothest model.
    Memory: one m x m matrix for all gammas and one for each job. The best score is the best of many, and so
    a little optimistic, as that of any search.

    From 700 rows on, the default grid of rbf, laplacian and poly is not decomposed gamma by gamma, unless
    folds, groups or the evidence are asked for. Models on 400 landmarks score all cells; then the best of
    them and its neighbours are scored exactly, and so on from the best as long as that changes. The cell that
    is chosen is always one of those. Of more than 6,000 rows a sample of 3,000 is searched, and ``exact`` in
    ``cv_results_`` is False throughout. Where `Cs` or `gammas` are given, every cell is exact.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVCCV(Cs=[0.1, 1.0, 10.0], gammas=[0.05, 0.2]).fit(X, y)
    >>> model.best_params_
    {'C': 10.0, 'gamma': 0.05}
    >>> round(model.best_score_, 3) == round(model.loo_score(), 3)
    True
    """

    def __init__(
        self,
        *,
        Cs: Sequence[float] | None = None,
        gammas: Sequence[float] | None = None,
        cv: Any = None,
        scoring: Any = None,
        refine: int = 0,
        kernel: str | KernelFunction = "rbf",
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
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            kernel=kernel,
            degree=degree,
            coef0=coef0,
            tol=tol,
            max_iter=max_iter,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            random_state=random_state,
            verbose=verbose,
            solver=solver,
            robust=robust,
        )
        self.Cs = Cs
        self.gammas = gammas
        self.cv = cv
        self.scoring = scoring
        self.refine = refine
        self.n_jobs = n_jobs


class LSSVRCV(LooSearch, LSSVR):
    r"""Least squares support vector regression that chooses C and gamma by exact leave-one-out.

    See :class:`LSSVCCV`, whose parameters it has, but for class_weight; the default score is the coefficient
    of determination of the leave-one-out values. The fitted model is an :class:`LSSVR` with all its methods.

    Parameters
    ----------
    Cs, gammas, cv, refine, verbose, n_jobs :
        As in :class:`LSSVCCV`.
    scoring : str or callable, optional
        As in :class:`LSSVCCV`; also ``'evidence'``, the `log_marginal_likelihood` of each cell.
    kernel, degree, coef0, tol, max_iter, fit_intercept, random_state, solver, robust :
        As in :class:`LSSVR`.

    Attributes
    ----------
    cv_results_, best_params_, best_score_, best_index_, C_, gamma_ :
        As in :class:`LSSVCCV`.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm import LSSVRCV
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = LSSVRCV().fit(X, np.sin(X).ravel())
    >>> round(float(model.predict([[np.pi / 2]])[0]), 2)
    1.0
    """

    def __init__(
        self,
        *,
        Cs: Sequence[float] | None = None,
        gammas: Sequence[float] | None = None,
        cv: Any = None,
        scoring: Any = None,
        refine: int = 0,
        kernel: str | KernelFunction = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-6,
        max_iter: int | None = None,
        fit_intercept: bool = True,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        solver: str | Solver = "auto",
        robust: int | Robust = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            kernel=kernel,
            degree=degree,
            coef0=coef0,
            tol=tol,
            max_iter=max_iter,
            fit_intercept=fit_intercept,
            random_state=random_state,
            verbose=verbose,
            solver=solver,
            robust=robust,
        )
        self.Cs = Cs
        self.gammas = gammas
        self.cv = cv
        self.scoring = scoring
        self.refine = refine
        self.n_jobs = n_jobs
