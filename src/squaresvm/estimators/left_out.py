"""What every estimator says of its own rows, by models that lack them; intervals and sets of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.utils.validation import validate_data

from squaresvm.estimators.base import SquareSVM
from squaresvm.judging.calibration import jackknife_plus
from squaresvm.judging.folds import Folds
from squaresvm.judging.leave_one_out import Cost
from squaresvm.judging.left_out import LeftOut, reach
from squaresvm.judging.scores import Judge, check_scoring
from squaresvm.judging.set_bounds import BoundedSets
from squaresvm.judging.sets import by_reach, label_sets, one_by_one
from squaresvm.models.model import Known
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.state import State
from squaresvm.problem import Loss
from squaresvm.rows import canonical_csr
from squaresvm.rows.labels import indicator, same_kind
from squaresvm.runtime.arguments import check_between, check_flag
from squaresvm.runtime.resources import row_blocks
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["LeavingOut", "PredictingIntervals", "PredictingSets", "probes_of", "values_without"]


class LeavingOut(SquareSVM):
    """Values of rows by models without them; see :class:`squaresvm.LSSVC`."""

    @property
    def loo_cost_(self) -> Cost:
        """What the exact leave-one-out or cross-validated values took that were asked for last."""
        known: Known = self._fitted("loo_cost_").attribute("known")
        if known.loo_cost is None:
            raise AttributeError("loo_cost_ exists once exact leave-one-out values have been asked for")
        return known.loo_cost

    def _loo(self, fixed: bool = False, groups: Any = None) -> FloatArray:
        """Return f at each row held, of the model without that row or its group, of shape (rows, k)."""
        if groups is not None:
            _refuse_fixed_set(fixed)
            return self._cross(None, groups)[1]
        # The lock comes first: a state that another thread replaces meanwhile has no buffers any more.
        with REQUESTS:
            state, inside = self._loo_inside(fixed)
            values = np.empty((state.rows.count, inside.shape[1]))
            values[state.held] = inside
            outside = np.setdiff1d(np.arange(state.rows.count), state.held)
            if outside.size:
                # Rows of weight zero are no part of the problem: the model is the one without them.
                values[outside] = state.decision(_features(state, outside))
        return values

    def _loo_inside(self, fixed: bool = False, groups: Any = None) -> tuple[State, FloatArray]:
        """Return the model, and f at each of its rows of positive weight, without that row or its group."""
        if groups is not None:
            _refuse_fixed_set(fixed)
            return self._cross_inside(None, groups)
        with REQUESTS:
            state = self._holding("leaving one out")
            return state, state.leave_one_out(fixed)

    def _cross_inside(self, cv: Any, groups: Any) -> tuple[State, FloatArray]:
        """Return the model, and f at each of its rows of positive weight, of the model without its fold."""
        with REQUESTS:
            state, folds = self._folds(cv, groups)
            return state, state.without_folds(folds.within(state.held, state.rows.count))

    def _cross(self, cv: Any, groups: Any) -> tuple[State, FloatArray]:
        """Return the model, and f at each row held, of the model without its fold, of shape (rows, k)."""
        with REQUESTS:
            state, folds = self._folds(cv, groups)
            is_held = np.zeros(state.rows.count, dtype=bool)
            is_held[state.held] = True
            outside = [rows[~is_held[rows]] for rows in folds.rows]
            others = [_features(state, rows) if rows.size else None for rows in outside]
            inside, beside = values_without(state, folds.within(state.held, state.rows.count), others)
        values = np.empty((state.rows.count, inside.shape[1]))
        values[state.held] = inside
        for rows, found in zip(outside, beside, strict=True):
            if found is not None:
                values[rows] = found
        return state, values

    def cross_score(self, cv: Any = None, groups: npt.ArrayLike | None = None) -> float:
        """Return the score of all rows held at once, each by the model without its fold.

        The share of rows with the right label, or the coefficient of determination; rows count by their
        sample weights.

        Parameters
        ----------
        cv, groups :
            As in `cross_predict`.

        Returns
        -------
        float
        """
        return self._score_of(*self._cross_inside(cv, groups))

    @staticmethod
    def _score_of(state: State, values: FloatArray) -> float:
        raise NotImplementedError

    def influence(
        self, X: Any, y: Any, scoring: Any = None, groups: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Return by how much the score on given rows changes when each training row leaves, or each group.

        Exact: the score of the model that `forget` would leave, less that of this model. Rows with large
        values hurt: without them the model is better on (X, y). The squared loss needs no refit; the squared
        hinge a warm re-solve for each support row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)
            With a precomputed kernel, kernel values with the rows held, in the order of ``ids_``.
        y : array-like of shape (rows,)
        scoring : str or callable, optional
            Any scorer of scikit-learn that judges labels, decision values or predicted values; larger is
            better. By default the accuracy, or the coefficient of determination. Scorers such as
            ``'neg_mean_squared_error'`` or ``'roc_auc'`` tell single rows apart where the accuracy does not.
        groups : array-like of shape (m,), optional
            The group of each row held: rows leave with their group.

        Returns
        -------
        ndarray of shape (m,) or (n_groups,)
            In the order of ``ids_``, or of the sorted groups. A row of weight zero changes nothing.

        Examples
        --------
        >>> import numpy as np
        >>> from squaresvm import LSSVR
        >>> X = np.linspace(0, 6, 40)[:, None]
        >>> y = np.sin(X).ravel()
        >>> y[7] += 2.0
        >>> model = LSSVR(C=10.0, gamma=1.0).fit(X, y)
        >>> clean = np.linspace(0.1, 5.9, 50)[:, None]
        >>> int(model.influence(clean, np.sin(clean).ravel()).argmax())
        7
        """
        scorer = check_scoring(scoring)
        with REQUESTS:
            state, folds = self._folds(None, groups)
            rows, truth = self._check_new_rows_to_judge(state, X, y)
            ones = np.ones(truth.shape[0])
            judge = Judge(scorer, rows, truth, state.classes, ones, ones, is_classifier(self))
            at = state.left_out().at(probes_of(state, rows))
            whole = judge(state.decision(rows))
            inner = folds.within(state.held, state.rows.count)
            return np.array([judge(at(left)) - whole if left.size else 0.0 for left in inner])

    def _check_new_rows_to_judge(self, state: State, X: Any, y: Any) -> tuple[Matrix, np.ndarray[Any, Any]]:
        """Return rows and their true targets; a ValueError where these are not of the model's kind."""
        X = self._prepared(X)
        X, y = validate_data(self, X, y, reset=False, **self._array_rules(), **self._target_rules(y))
        truth = np.asarray(self._check_targets(y))
        if state.classes is not None:
            truth = same_kind(truth, state.classes)
            strange = truth[~np.isin(truth, state.classes)]
            if strange.size:
                raise ValueError(f"y holds {strange.tolist()[0]!r}, which is not a class of the model")
        elif truth.shape[1:] != state.rows.y.shape[1:]:
            raise ValueError(f"the model has targets of shape {state.rows.y.shape}; got {truth.shape}")
        elif is_classifier(self):
            truth = indicator(truth)
        return state.like_held(canonical_csr(X)), truth

    def _folds(self, cv: Any, groups: Any) -> tuple[State, Folds]:
        state = self._holding("cross-validation")
        rows = state.rows
        X = np.empty((rows.count, 1)) if state.settings.kernel is None else rows.X
        folds = Folds.of(cv, groups, X, rows.y, is_classifier=is_classifier(self))
        folds.check_rest(rows.y, state.weights, state.classes)
        return state, folds


def values_without(
    state: State, folds: Sequence[IntArray], others: Sequence[Matrix | None]
) -> tuple[FloatArray, list[FloatArray | None]]:
    """Return f at the rows of each fold, and at other rows that go with it, of the model without the fold.

    Parameters
    ----------
    state : State
    folds : sequence of ndarrays
        Positions among the rows of positive weight, each in one fold.
    others : sequence of matrices or None
        Rows that are no part of the problem, for each fold.

    Returns
    -------
    values : ndarray of shape (m, k)
    beside : list of ndarrays of shape (rows, k) or None
    """
    inside = state.without_folds(folds)
    beside: list[FloatArray | None] = [None] * len(others)
    without: LeftOut | None = None
    for i, (rows, X) in enumerate(zip(folds, others, strict=True)):
        if X is None:
            continue
        if rows.size == 0:
            beside[i] = state.decision(X)
            continue
        without = state.left_out() if without is None else without
        beside[i] = without.at(probes_of(state, X))(rows)
    return inside, beside


def _refuse_fixed_set(fixed: bool) -> None:
    if fixed:
        raise ValueError("fixed_set is for single rows: with groups, leave fixed_set=False")


def _features(state: State, rows: Any) -> Matrix:
    """Return the features of rows of weight zero."""
    if state.settings.kernel is None:
        raise ValueError(
            "rows of weight zero of a precomputed kernel are not kept, so no value can be given for "
            "them; fit without them"
        )
    return state.rows.take(rows)


def probes_of(state: State, X: Matrix) -> Matrix:
    """Return what the problem knows rows by: their features in w, else kernel values with its own rows."""
    if state.by_cost[0][1].judged[0].operator.features is not None:
        return X
    if state.settings.kernel is None:
        return X.toarray()[:, state.held] if sp.issparse(X) else X[:, state.held]
    return state.settings.kernel(X, state.rows.take(state.held))


class PredictingIntervals(LeavingOut):
    """Intervals for values; see :class:`squaresvm.LSSVR`."""

    def predict_interval(self, X: Any, coverage: float = 0.9) -> FloatArray:
        """Return an interval for the value at each row, from the models without each training row in turn.

        The jackknife+ of Barber, Candes, Ramdas and Tibshirani (2021), from exact leave-one-out models and
        without a refit: from a low quantile of f^(-i)(x) - abs(R_i) to a high one of f^(-i)(x) + abs(R_i),
        with R_i the leave-one-out residual of row i.

        Promised: if the training rows, of equal weights, and the new one are exchangeable, and C and gamma
        were not taken from these rows, the interval holds the new value with probability at least
        2 coverage - 1, whatever the noise and however bad the model. As a rule it is close to `coverage`. Not
        promised: coverage at each single x (widths hardly vary with x, so where the noise is larger, fewer
        are covered); coverage after the rows have drifted; the bound itself where weights differ, or where
        ``'scale'`` or a search took C and gamma from the same rows.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)
            With a precomputed kernel, kernel values with the rows held, in the order of ``ids_``.
        coverage : float, default=0.9
            Between 0 and 1. Where it is above m / (m + 1) for m rows, the intervals are infinite: so few rows
            cannot say. Rows count in the quantiles by their sample weights.

        Returns
        -------
        ndarray of shape (rows, 2), or (rows, k, 2) for several targets
            Lower and upper ends, of each target by itself.

        Examples
        --------
        >>> import numpy as np
        >>> from squaresvm import LSSVR
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 6, size=(200, 1))
        >>> y = np.sin(X).ravel() + rng.uniform(-0.5, 0.5, size=200)
        >>> low, high = LSSVR(gamma=1.0).fit(X, y).predict_interval([[1.5]], coverage=0.8)[0]
        >>> bool(0.8 < high - low < 1.0)
        True
        """
        check_between("coverage", coverage, 0.0, 1.0)
        with REQUESTS:
            state = self._holding("predict_interval")
            centre = self._decision(state, X)
            probes = self._checked_queries(X)
            weights, level = state.rows.weights[state.held], float(coverage)
            ends = np.empty((*centre.shape, 2))
            for columns, own in state.by_cost:
                problem, solution = own.judged
                residuals, middle = problem.targets - own.leave_one_out(), centre[:, columns]
                for rows in row_blocks(centre.shape[0], state.held.size):
                    reached = reach(problem, solution, probes_of(own, probes[rows]))
                    each = [
                        jackknife_plus(middle[rows, j], reached, column, weights, level)
                        for j, column in enumerate(residuals.T)
                    ]
                    ends[rows, columns] = np.stack(each, axis=1)
        return ends[:, 0] if state.is_flat else ends


class PredictingSets(LeavingOut):
    """Sets of labels; see :class:`squaresvm.LSSVC`."""

    def predict_set(self, X: Any, coverage: float = 0.9, by_class: bool = False) -> BoolArray:
        """Return which labels each row may have, from the models without each training row in turn.

        Cross-conformal sets (CV+ with a fold a row; Romano, Sesia and Candes, 2020; Barber, Candes, Ramdas
        and Tibshirani, 2021) from exact leave-one-out models. The squared loss needs no refit; the squared
        hinge a warm re-solve for each support row.

        Promised: if the training rows, of equal weights, and the new one are exchangeable, and C and gamma
        were not taken from these rows, the set holds the label with probability at least 2 coverage - 1; with
        `by_class`, in each class. As a rule it is close to `coverage`, or above it. A set may be empty, where
        no label fits, or hold all labels, where the rows cannot tell.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)
            With a precomputed kernel, kernel values with the rows held, in the order of ``ids_``.
        coverage : float, default=0.9
            Between 0 and 1.
        by_class : bool, default=False
            Whether to promise the coverage for each class and not over all: rare classes are covered as
            well as others then, by larger sets. A class of so few rows that they cannot say is in all sets.

        Returns
        -------
        ndarray of bool of shape (rows, n_classes)
            In the order of ``classes_``.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from squaresvm import LSSVC
        >>> X, y = load_iris(return_X_y=True)
        >>> model = LSSVC(C=10.0, gamma=0.2).fit(X[::2], y[::2])
        >>> sets = model.predict_set(X[1::2], coverage=0.9)
        >>> sets.shape
        (75, 3)
        >>> bool(sets[range(75), y[1::2]].mean() > 0.8)
        True
        """
        check_between("coverage", coverage, 0.0, 1.0)
        check_flag("by_class", by_class)
        with REQUESTS:
            state = self._holding("predict_set")
            probes = self._checked_queries(X)
            if state.classes is None:
                raise ValueError("predict_set is of rows that have one label each; this model has several")
            if state.problem.n_rows < 2:
                raise ValueError("leaving one row out needs at least two rows of positive weight")
            if (bounded := self._bounded_sets(state)) is not None:
                return bounded(probes, float(coverage), bool(by_class))
            return self._sets_by_all(state, probes, float(coverage), bool(by_class))

    @staticmethod
    def _bounded_sets(state: State) -> BoundedSets | None:
        """Return sets by bounds, where these hold and pay; else None."""
        known, kernel, classes = state.known, state.settings.kernel, state.classes
        if known.left_out is not None or state.settings.proximal or kernel is None or classes is None:
            return None
        if known.sets is None or not known.sets.is_current:
            problem, solution = state.judged
            if not BoundedSets.serves(problem, solution, kernel):
                return None
            codes, X = np.searchsorted(classes, state.rows.y[state.held]), state.rows.take(state.held)
            weights = state.given_weights[state.held]
            known.sets = BoundedSets(problem, solution, kernel, X, codes, weights, classes.size)
        return known.sets

    @staticmethod
    def _sets_by_all(state: State, probes: Matrix, coverage: float, by_class: bool) -> BoolArray:
        """Return sets by what all models without a row say."""
        assert state.classes is not None
        codes = np.searchsorted(state.classes, state.rows.y[state.held])
        weights, count = state.given_weights[state.held], probes.shape[0]
        squared = state.settings.loss == Loss.SQUARED and not state.settings.proximal
        if squared:
            own = state.leave_one_out()
            errors = state.problem.targets - own
        # Blocks bound memory; others would be asked again for each of them.
        parts = row_blocks(count, state.held.size) if squared else [slice(0, count)]
        sets = np.empty((count, state.classes.size), dtype=bool)
        for part in parts:
            near = probes_of(state, probes[part])
            if squared:
                alone = by_reach(state.decision(probes[part]), reach(*state.judged, near), own, errors)
            else:
                alone = one_by_one(state.left_out(), near, codes.size)
            sets[part] = label_sets(alone, codes, weights, state.classes.size, coverage, by_class)
        return sets
