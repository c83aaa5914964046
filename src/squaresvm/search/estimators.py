"""Estimators that choose C and gamma by exact leave-one-out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from squaresvm.estimators import LSSVC, LSSVR
from squaresvm.estimators.requests import Updating
from squaresvm.judging.robust import Robust
from squaresvm.judging.scores import Judge, check_scoring
from squaresvm.kernels import KernelFunction
from squaresvm.models.model import Settings
from squaresvm.models.problems import check_costs, encode, features, find_classes
from squaresvm.rows import Rows
from squaresvm.runtime.arguments import check_integer
from squaresvm.search.grid import (
    Search,
    SearchResults,
    check_values,
    default_Cs,
    default_gammas,
)
from squaresvm.search.paths import HAVE_GAMMA, KernelFamily, KernelPath, LinearPath, Path
from squaresvm.solvers.base import Solver
from squaresvm.streaming import Source
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["LSSVCCV", "LSSVRCV", "LooSearch"]


class LooSearch(Updating):
    """What both searches share: `fit` searches first, and `forget` drops what the search said."""

    Cs: Sequence[float] | None
    gammas: Sequence[float] | None
    scoring: Any
    refine: int
    n_jobs: int | None
    _search: SearchResults | None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.Cs is not None:
            check_values("Cs", self.Cs)
        if self.gammas is not None:
            check_values("gammas", self.gammas)
            if not self._has_gamma:
                raise ValueError(f"kernel={self.kernel!r} has no gamma: leave gammas=None")
        check_scoring(self.scoring)
        check_integer("refine", self.refine, 0)
        if self.n_jobs is not None and (check_integer("n_jobs", self.n_jobs, -(2**31)) == 0):
            raise ValueError("n_jobs must not be 0: None or 1 is one job, -1 as many as there are cores")

    def _fit_source(self, source: Source, y: Any, sample_weight: Any, ids: Any, checkpoint: Any) -> Self:
        raise ValueError(
            f"{type(self).__name__} searches over rows in memory, not over a source: search on some rows, "
            "then fit the plain estimator from the source with the C that was found"
        )

    @property
    def _has_gamma(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel in HAVE_GAMMA

    def _settings(self, rows: Rows, is_refit: bool = False) -> Settings:
        """Return the settings with the C and gamma of the best leave-one-out score."""
        settings = super()._settings(rows, is_refit)
        weights = settings.row_weights(rows.y, rows.weights)
        held: IntArray = np.flatnonzero(weights > 0)
        if held.size == 0:
            raise ValueError("all rows have weight zero: there is nothing to learn from")
        y = rows.y[held]
        classes = find_classes(y, settings)
        _check_rows_to_leave_out(y, classes)
        Cs = default_Cs() if self.Cs is None else check_values("Cs", self.Cs)
        for C in (Cs[0], Cs[-1]):
            check_costs(C, weights[held], held)
        X = self._rows_or_kernel(rows, held)
        judge = Judge(check_scoring(self.scoring), X, y, classes, rows.weights[held], weights[held])
        path = self._paths(X, settings, encode(y, classes), weights[held])
        tasks = self._tasks
        told = None if tasks is None else (lambda: tasks.told("decomposition"))
        search = Search(path, judge, self.refine, self.n_jobs, bool(self.verbose), told)
        self._search = search.run(Cs, self._gamma_values(settings))
        C, gamma = self._search.best
        kernel = settings.kernel
        if kernel is not None and gamma is not None:
            kernel = replace(kernel, gamma=gamma)
        return replace(settings, C=C, kernel=kernel)

    def _gamma_values(self, settings: Settings) -> list[float | None]:
        if not self._has_gamma:
            return [None]
        assert settings.kernel is not None
        if self.gammas is None:
            return [*default_gammas(settings.kernel.gamma)]
        return [*check_values("gammas", self.gammas)]

    def _rows_or_kernel(self, rows: Rows, held: IntArray) -> Matrix:
        """Return the features of the rows in the problem, or their kernel matrix where that was given."""
        if not self._is_precomputed:
            return features(rows, held)
        if rows.n_columns:
            return rows.X[np.ix_(held, held)]
        # A model that is fitted again: its operator has K, of these very rows.
        everyone = np.arange(held.size)
        return self._holding("searching anew").problem.operator.block(everyone, everyone)

    @staticmethod
    def _paths(X: Matrix, settings: Settings, targets: FloatArray, weights: FloatArray) -> Any:
        """Return what makes the path over C of one gamma."""
        free_bias = settings.bias.is_free
        kernel = settings.kernel
        if kernel is None:

            def given(gamma: float | None) -> Path:
                return KernelPath(np.array(X, np.float64, order="F"), targets, weights, free_bias=free_bias)

            return given
        if settings.is_linear and X.shape[1] < X.shape[0]:
            return lambda gamma: LinearPath(X, targets, weights, free_bias=free_bias)
        family = KernelFamily(kernel, X)

        def computed(gamma: float | None) -> Path:
            K = family(kernel.gamma if gamma is None else gamma)
            return KernelPath(K, targets, weights, free_bias=free_bias)

        return computed

    def _kept_of_rows(self) -> list[str]:
        numbers = "C and gamma" if self._has_gamma else "C"
        return [
            *super()._kept_of_rows(),
            f"{numbers} were chosen by scores on all rows of the fit, and stay until refit",
        ]

    def _drop_results(self) -> None:
        # The scores were taken from the rows that left, too; C and gamma stay.
        self._search = None

    def _results(self, attribute: str) -> SearchResults:
        self._fitted(attribute)
        if self._search is None:
            raise AttributeError(
                f"{attribute} was dropped when rows were forgotten, because it was taken from them, too; "
                "best_params_, C_ and gamma_ are kept, and refit() searches anew"
            )
        return self._search

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Scores of all cells, as in ``GridSearchCV``; not after `forget`."""
        return self._results("cv_results_").as_dict()

    @property
    def best_index_(self) -> int:
        """Where the best cell stands in ``cv_results_``."""
        return self._results("best_index_").best_index

    @property
    def best_score_(self) -> float:
        """The leave-one-out score of the best cell."""
        results = self._results("best_score_")
        return results.scores[results.best_index]

    @property
    def best_params_(self) -> dict[str, float]:
        """The C, and the gamma where the kernel has one, that were chosen."""
        settings = self._fitted("best_params_").settings
        if not self._has_gamma:
            return {"C": settings.C}
        assert settings.kernel is not None
        return {"C": settings.C, "gamma": settings.kernel.gamma}


def _check_rows_to_leave_out(y: np.ndarray[Any, Any], classes: np.ndarray[Any, Any] | None) -> None:
    """Raise a ValueError where the problem without one of its rows is another one, or none."""
    if y.size < 2:
        raise ValueError(
            f"leaving one row out needs at least two rows of positive weight; got {y.size} (n_samples = 1)"
        )
    if classes is None:
        return
    for label in classes.tolist():
        if np.count_nonzero(y == label) == 1:
            raise ValueError(
                f"class {label!r} has one row of positive weight, and without it no model would know that "
                "class: leave-one-out needs two rows a class; add rows, or take the class out"
            )


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
        self.scoring = scoring
        self.refine = refine
        self.n_jobs = n_jobs


class LSSVRCV(LooSearch, LSSVR):
    r"""Least squares support vector regression that chooses C and gamma by exact leave-one-out.

    See :class:`LSSVCCV`, whose parameters it has, but for class_weight; the default score is the coefficient
    of determination of the leave-one-out values. The fitted model is an :class:`LSSVR` with all its methods.

    Parameters
    ----------
    Cs, gammas, scoring, refine, verbose, n_jobs :
        As in :class:`LSSVCCV`.
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
        self.scoring = scoring
        self.refine = refine
        self.n_jobs = n_jobs
