"""Estimators that choose C and gamma by exact leave-one-out, or by folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from squaresvm.estimators import LSSVC, LSSVR, RLSSVC, LagrangianSVC
from squaresvm.estimators.c_path import solved_at
from squaresvm.judging.robust import Robust
from squaresvm.linalg.lapack import NotPositiveSemidefiniteError
from squaresvm.models.model import Settings
from squaresvm.models.ownership import Claim
from squaresvm.models.several_cs import train_each
from squaresvm.models.state import State
from squaresvm.models.train import train
from squaresvm.operators import Operator, PrecomputedOperator, StoredOperator
from squaresvm.rows import Rows
from squaresvm.runtime.arguments import check_flag
from squaresvm.search.searching import LooSearch, Searched, SearchParameters
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["LSSVCCV", "LSSVRCV", "RLSSVCCV", "HingePath", "HingeSearch", "LagrangianSVCCV", "LooSearch"]


class HingePath:
    """Values of rows left out of a model with the squared hinge, over C.

    Parameters
    ----------
    rows : Rows
    settings : Settings
        With the gamma of the path; C is not used.
    folds : list of ndarrays or None
        Positions among the rows of positive weight that leave together; None: each row alone.
    K : ndarray of shape (m, m), optional
        The kernel matrix of the rows of positive weight, where it was given.
    """

    def __init__(
        self, rows: Rows, settings: Settings, folds: list[IntArray] | None, K: Matrix | None = None
    ) -> None:
        self._rows, self._settings, self._folds, self._K = rows, settings, folds, K

    def left_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C; None where the problem is not convex."""
        state: State | None = None
        for C in Cs:
            try:
                state = self._first(C) if state is None else solved_at(state, state.problem, C, state)
                yield state.leave_one_out() if self._folds is None else state.without_folds(self._folds)
            except NotPositiveSemidefiniteError:
                state = None  # Its buffers are left as the failure found them.
                yield None

    def _first(self, C: float) -> State:
        operator = None if self._K is None else PrecomputedOperator(np.array(self._K, np.float64))
        return train(self._rows, replace(self._settings, C=C), operator)


class HingeSearch(LooSearch):
    """A search whose cells are solved one after the other.

    There is no decomposition that serves every C, as the squared loss has. But the active set of one C is
    most of that of the next, and that of all rows is most of that without a fold.
    """

    def _walks(self, settings: Settings, X: Matrix) -> bool:
        return False  # Low-rank models of the squared hinge have no values of rows left out by themselves.

    def _paths(self, settings: Settings, given: Searched) -> Any:
        K = given.X if settings.kernel is None else None

        def path(gamma: float | None) -> HingePath:
            return HingePath(
                given.rows, self._in_cell(settings, given.rows, settings.C, gamma), given.folds, K
            )

        return path

    def _at(self, state: State) -> Any:
        """Return the model at another C: the search did not choose it."""
        model = super()._at(state)
        model._search = None
        return model


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

    def __init__(self, *, C_per_target: bool = False, **others: Unpack[SearchParameters]) -> None:
        super().__init__(**others)
        self.C_per_target = C_per_target

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not check_flag("C_per_target", self.C_per_target):
            return
        if self._by_evidence:
            raise ValueError("scoring='evidence' is of all targets together: set C_per_target=False")
        if self.refine:
            raise ValueError("refine goes on from one best cell: with C_per_target=True it must be 0")
        if Robust.of(self.robust).rounds:
            raise ValueError("robust weights are of all targets together: set C_per_target=False")

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
