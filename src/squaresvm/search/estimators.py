"""Estimators that choose C and gamma by exact leave-one-out, or by folds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from squaresvm.estimators import LSSVC, LSSVR, RLSSVC, LagrangianSVC
from squaresvm.judging.robust import Robust
from squaresvm.kernels import KernelFunction
from squaresvm.models.model import Settings
from squaresvm.models.ownership import Claim
from squaresvm.models.several_cs import train_each
from squaresvm.models.state import State
from squaresvm.operators import Operator, StoredOperator
from squaresvm.rows import Rows
from squaresvm.runtime.arguments import check_flag
from squaresvm.search.searching import HingeSearch, LooSearch
from squaresvm.solvers.base import Solver

__all__ = ["LSSVCCV", "LSSVRCV", "RLSSVCCV", "LagrangianSVCCV"]


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
        there are cores. By default one, with all threads of linear algebra; of a default grid over kernels of
        700 to 3,000 rows as many as there are cores, too.

    Attributes
    ----------
    cv_results_ : dict
        As in ``GridSearchCV``: ``params``, ``param_C``, ``param_gamma``, ``mean_test_score`` (NaN where the
        kernel plus diag(1/C) is not positive definite), ``rank_test_score``, ``mean_fit_time``, and ``iter``,
        the round. Dropped by `forget`, like ``best_score_`` and ``best_index_``.
    best_params_ : dict
    best_score_ : float
    best_index_ : int
    honest_score_ : float
        The cross-validated score of the whole search: each outer fold by a model whose search never saw it.
        Outer folds are those of `cv`, or 5. Computed when first asked for, by a search for each fold.
    C_, gamma_ : float
        The chosen numbers, which stay until `fit` or `refit`.

    Notes
    -----
    Of equal scores the one with the smallest C, then the smallest gamma, is taken: the smoothest model.
    Memory: one m x m matrix for all gammas and one for each job. The best score is the best of many, and so
    a little optimistic, as that of any search; ``honest_score_`` is not.

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
    C_per_target : bool, default=False
        Whether each of several targets has the C that is best for it, as ``alpha_per_target`` of ``RidgeCV``
        does; gamma is the same for all, that of the best mean. ``C_``, ``best_index_`` and ``best_score_``
        then have a value for each target. H is another matrix for another C, so memory and time, of requests
        as well, grow with the number of different values. All cells are exact, and `refine` must be 0.
    kernel, degree, coef0, tol, max_iter, fit_intercept, random_state, solver, robust :
        As in :class:`LSSVR`.

    Attributes
    ----------
    cv_results_, best_params_, best_score_, best_index_, honest_score_, C_, gamma_ :
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
        C_per_target: bool = False,
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
        self.C_per_target = C_per_target
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not check_flag("C_per_target", self.C_per_target):
            return
        if self._by_evidence:
            raise ValueError("scoring='evidence' is for all targets together: set C_per_target=False")
        if self.refine:
            raise ValueError("refine goes on from one best cell: with C_per_target=True it must be 0")
        if Robust.of(self.robust).rounds:
            raise ValueError("robust weights are for all targets together: set C_per_target=False")

    def _by_target(self, y: np.ndarray[Any, Any]) -> bool:
        return self.C_per_target and y.ndim == 2

    def _trained(
        self, rows: Rows, settings: Settings, operator: Operator | None, claim: Claim | None = None
    ) -> State:
        if not self._by_target(rows.y):
            return super()._trained(rows, settings, operator, claim)
        assert self._search is not None
        assert operator is None or isinstance(operator, StoredOperator)
        Cs = np.array([self._search.cells[place][0] for place in self._search.best_of_targets])
        return train_each(rows, settings, Cs, operator, self._fit_log())


class RLSSVCCV(HingeSearch, RLSSVC):
    r"""Squared hinge classifier with free bias that chooses C and gamma by exact leave-one-out, or folds.

    For each gamma the models go from the smallest C to the largest, each from the answer of the one before,
    and without each row, or fold, by a warm re-solve from the model of all rows. The model with the best
    score is then an :class:`RLSSVC` with all its methods.

    Parameters
    ----------
    Cs, gammas, scoring, cv, refine, verbose :
        As in :class:`LSSVCCV`.
    kernel, degree, coef0, tol, max_iter, fit_intercept, class_weight, random_state, solver :
        As in :class:`RLSSVC`.
    n_jobs : int, optional
        Values of gamma that are searched at once, in threads.

    Attributes
    ----------
    cv_results_, best_params_, best_score_, best_index_, honest_score_, C_, gamma_ :
        As in :class:`LSSVCCV`.

    Notes
    -----
    Leave-one-out takes a re-solve for each support row in each cell: of more than some hundred rows, ``cv=5``
    or a small grid is much faster. Scores are exact to `tol`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import RLSSVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RLSSVCCV(Cs=[0.1, 1.0, 10.0], gammas=[0.1, 0.5], cv=5).fit(X, y)
    >>> bool(model.best_score_ == max(model.cv_results_["mean_test_score"]))
    True
    >>> model.honest_score_ <= model.best_score_
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
        )
        self.Cs = Cs
        self.gammas = gammas
        self.cv = cv
        self.scoring = scoring
        self.refine = refine
        self.n_jobs = n_jobs


class LagrangianSVCCV(HingeSearch, LagrangianSVC):
    r"""Lagrangian support vector classifier that chooses C and gamma by exact leave-one-out, or by folds.

    As :class:`RLSSVCCV`; the fitted model is a :class:`LagrangianSVC` with all its methods.

    Parameters
    ----------
    A, augment :
        As in :class:`LagrangianSVC`; not searched.
    Cs, gammas, cv, scoring, refine, verbose, n_jobs :
        As in :class:`RLSSVCCV`.
    kernel, degree, coef0, tol, max_iter, fit_intercept, class_weight, random_state, solver :
        As in :class:`LagrangianSVC`.

    Attributes
    ----------
    cv_results_, best_params_, best_score_, best_index_, honest_score_, C_, gamma_ :
        As in :class:`LSSVCCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LagrangianSVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LagrangianSVCCV(kernel="linear", Cs=[0.1, 1.0, 10.0]).fit(X, y)
    >>> abs(model.best_score_ - model.loo_score()) < 1e-9
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
        A: float = 1.0,
        augment: bool = False,
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
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            A=A,
            augment=augment,
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
        )
        self.Cs = Cs
        self.gammas = gammas
        self.cv = cv
        self.scoring = scoring
        self.refine = refine
        self.n_jobs = n_jobs
