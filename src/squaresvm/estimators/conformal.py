"""Intervals and sets of labels with a promised coverage, for every estimator that has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from squaresvm.estimators.left_out import probes_of
from squaresvm.estimators.requests import Updating
from squaresvm.judging.conformal import by_reach, jackknife_plus, label_sets, one_by_one
from squaresvm.judging.left_out import reach
from squaresvm.models.ownership import REQUESTS
from squaresvm.problem import Loss
from squaresvm.runtime.arguments import check_between, check_flag
from squaresvm.runtime.resources import row_blocks
from squaresvm.typing import FloatArray

__all__ = ["PredictingIntervals", "PredictingSets"]


class PredictingIntervals(Updating):
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
            residuals = state.problem.targets - state.leave_one_out()
            weights = state.rows.weights[state.held]
            ends = np.empty((*centre.shape, 2))
            for part in row_blocks(centre.shape[0], state.held.size):
                reached = reach(*state.judged, probes_of(state, probes[part]))
                for j, column in enumerate(residuals.T):
                    ends[part, j] = jackknife_plus(centre[part, j], reached, column, weights, float(coverage))
        return ends[:, 0] if state.is_flat else ends


class PredictingSets(Updating):
    """Sets of labels; see :class:`squaresvm.LSSVC`."""

    def predict_set(
        self, X: Any, coverage: float = 0.9, by_class: bool = False
    ) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
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
                sets[part] = label_sets(
                    alone, codes, weights, state.classes.size, float(coverage), bool(by_class)
                )
        return sets
