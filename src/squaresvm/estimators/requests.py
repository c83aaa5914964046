"""The methods that learn and forget, for every estimator."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from squaresvm.estimators.base import SquareSVM
from squaresvm.factors import CholeskyFactor
from squaresvm.judging.leave_one_out import Cost, fixed_set, leave_one_out_at_cost
from squaresvm.judging.receipt import Receipt
from squaresvm.models import updates
from squaresvm.models.state import REQUESTS, State, check_costs, warn_unless_converged
from squaresvm.models.streamed import StreamedState, forget_rows, learn_rows
from squaresvm.rows import Rows, canonical_csr
from squaresvm.solution import Solution
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.typing import FloatArray, Matrix

__all__ = ["Updating"]


class Updating(SquareSVM):
    """Learning, forgetting and leaving one out; see :class:`squaresvm.LSSVC`."""

    def learn(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
    ) -> Self:
        """Add rows: the model equals a fit of all rows with the numbers resolved at `fit`.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (k, n)
            With a precomputed kernel, kernel values of shape (k, held + k).
        y : array-like of shape (k,)
        sample_weight : array-like of shape (k,), optional
        ids : iterable of hashables, optional
            Required if the rows held have ids of their own, refused if they have arrival numbers.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with REQUESTS:
            state = self._state
            X, y = self._check_new_rows(state, X, y)
            weights = _check_weights(sample_weight, X)
            if isinstance(state, StreamedState):
                if ids is not None:
                    raise ValueError("a model fitted from a stream keeps no rows, and so no ids: give none")
                self._state = learn_rows(state, X, y, weights)
                return self
            check_costs(state.settings.C, weights[weights > 0], np.flatnonzero(weights > 0))
            if state.settings.kernel is not None:
                state.settings.kernel.check_range(X)
            named = state.rows.ids.extended(ids, y.shape[0])
            precomputed = state.settings.kernel is None
            base = np.empty((y.shape[0], 0)) if precomputed else X
            added = Rows(base, y, weights, named)
            rows = state.rows.joined(added)
            self._swap(updates.learn(state, rows, added, X if precomputed else None))
        return self

    def _check_new_rows(self, state: State, X: Any, y: Any) -> tuple[Matrix, np.ndarray[Any, Any]]:
        if state.settings.kernel is not None:
            X, y = validate_data(self, X, y, reset=False, **self._array_rules(), **self._target_rules())
            return self._like_held(state, canonical_csr(X)), np.array(self._check_targets(y))
        # A precomputed kernel grows with the rows, so its width is not that of `fit`.
        probe = self._copy()
        X, y = validate_data(probe, X, y, **self._array_rules(), **self._target_rules())
        X = X.toarray() if sp.issparse(X) else X
        width = state.rows.count + X.shape[0]
        if X.shape[1] != width:
            raise ValueError(
                f"{X.shape[0]} new rows of a precomputed kernel need {width} columns, one for each row held "
                f"and each new one; got {X.shape[1]}"
            )
        corner = X[:, state.rows.count :]
        if not np.allclose(corner, corner.T):
            raise ValueError("the kernel values of the new rows with each other must be symmetric")
        return X, np.array(self._check_targets(y))

    @staticmethod
    def _like_held(state: State, X: Matrix) -> Matrix:
        """Return new rows dense or sparse, whichever the rows held are."""
        if sp.issparse(state.rows.base):
            return X if sp.issparse(X) else sp.csr_matrix(X)
        return X.toarray() if sp.issparse(X) else X

    def forget(self, ids: Iterable[Hashable]) -> Receipt:
        """Remove rows: the model equals a fit of the remaining rows with the numbers resolved at `fit`.

        Row, label, id and weight are gone at once. What the factor derived from them goes at its next
        repair, which `flush`, pickling and saving bring about.

        Parameters
        ----------
        ids : iterable of hashables
            As in ``ids_``.

        Returns
        -------
        Receipt

        Raises
        ------
        KeyError
            If a row is not held. Nothing has changed then.
        ValueError
            If an id is given twice, or if too few rows would remain. Nothing has changed then.
        """
        start = time.perf_counter()
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)
        with REQUESTS:
            state = self._state
            if isinstance(state, StreamedState):
                raise ValueError(
                    "a model fitted from a stream keeps no rows, and so no ids: forget_rows takes the rows "
                    "themselves"
                )
            positions = state.rows.ids.positions(ids)
            if positions.size == 0:
                raise ValueError("no ids were given: there is nothing to forget")
            names = tuple(state.rows.ids.values[positions].tolist())
            update = updates.forget(state, positions)
            self._swap(update)
        lost: tuple[Hashable, ...] = ()
        if state.classes is not None and update.state.classes is not state.classes:
            assert update.state.classes is not None
            lost = tuple(np.setdiff1d(state.classes, update.state.classes).tolist())
        return Receipt(
            ids=names,
            remaining=update.state.rows.count,
            residual=update.residual,
            sampled=update.sampled,
            refactored=update.refactored,
            seconds=time.perf_counter() - start,
            classes_gone=lost,
        )

    def forget_rows(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> Receipt:
        """Remove rows from a linear squared-loss model that was fitted from a stream, by its sums.

        The model keeps sums over its rows and not the rows, so it takes them at their word: rows that were
        never there would be subtracted all the same, unless more would leave than there are.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (k, n)
        y : array-like of shape (k,)
        sample_weight : array-like of shape (k,), optional
            As they were when the rows came.

        Returns
        -------
        Receipt
            Its ids are the numbers of the rows in the request; the residual is of those rows, and the root
            mean square of all.
        """
        check_is_fitted(self)
        with REQUESTS:
            state = self._state
            if not isinstance(state, StreamedState):
                raise ValueError("the rows of this model are held under ids: use forget(ids)")
            X, y = self._check_new_rows(state, X, y)
            self._state, receipt = forget_rows(state, X, y, _check_weights(sample_weight, X))
        return receipt

    def _swap(self, update: updates.Update) -> None:
        if not update.sampled:
            warn_unless_converged(update.state)
        self._state = update.state
        if update.state.settings.kernel is None:
            self.n_features_in_ = update.state.rows.count
        update.wipe()

    def flush(self) -> Self:
        """Repair the factor now, so that nothing derived from forgotten rows is left in it.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with REQUESTS:
            state = self._state
            if isinstance(state, StreamedState):
                self._state = state.flushed()
                return self
            factor, solution = state.solution.factor, state.solution
            if isinstance(factor, CholeskyFactor) and factor.is_current:
                wiped = factor.wiped()
                if wiped is not factor:
                    solution = Solution(beta=solution.beta, bias=solution.bias, factor=wiped)
            if isinstance(factor, EqualitySystem):
                factor.flush()
            rows = state.rows.compact()
            if solution is not state.solution or rows is not state.rows:
                operator = state.operator if rows is state.rows else None
                flushed = replace(state, solution=solution, rows=rows, operator=operator)
                # The model is the same: what was computed from a store that requests change must not be
                # computed again while they do.
                kept = ("expansion", "calibration", "loo_cost")
                flushed.__dict__.update(
                    {name: state.__dict__[name] for name in kept if name in state.__dict__}
                )
                self._state = flushed
        return self

    @property
    def loo_cost_(self) -> Cost:
        """What the exact leave-one-out values took, once they have been asked for."""
        cost: Cost | None = self._fitted("loo_cost_").__dict__.get("loo_cost")
        if cost is None:
            raise AttributeError("loo_cost_ exists once exact leave-one-out values have been asked for")
        return cost

    def _loo(self, state: State, fixed: bool = False) -> FloatArray:
        """Return f at each row held, of the model without that row, of shape (rows, k)."""
        self._require_rows("leaving one out")
        values = np.empty((state.rows.count, state.solution.bias.size))
        values[state.held] = self._loo_inside(state, fixed)
        outside = np.setdiff1d(np.arange(state.rows.count), state.held)
        if outside.size:
            # Rows of weight zero are no part of the problem: the model is the one without them.
            if state.settings.kernel is None:
                raise ValueError(
                    "rows of weight zero of a precomputed kernel are not kept, so no value can be given for "
                    "them; fit without them"
                )
            values[outside] = state.decision(state.rows.take(outside))
        return values

    @staticmethod
    def _loo_inside(state: State, fixed: bool = False) -> FloatArray:
        """Return f at each row of positive weight, of the model without that row."""
        with REQUESTS:
            if fixed:
                return fixed_set(state.problem, state.solution)
            values, cost = leave_one_out_at_cost(state.problem, state.solution, state.settings.tol)
        state.__dict__["loo_cost"] = cost
        return values

    def __copy__(self) -> Self:
        """Return a model that goes its own way: requests to one leave the other as it is."""
        other = self._copy()
        if self.__sklearn_is_fitted__():
            with REQUESTS:
                other._state = self._state.detached()
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: no factor, and nothing of rows that were forgotten."""
        if self.__sklearn_is_fitted__():
            self.flush()
        return super().__getstate__()


def _check_weights(sample_weight: npt.ArrayLike | None, X: Matrix) -> FloatArray:
    """Return the weights of new rows, which may all be zero: the rows are held then, and no more."""
    if sample_weight is not None and not np.any(np.asarray(sample_weight)):
        none = np.zeros(np.shape(sample_weight))
        _check_sample_weight(none + 1.0, X)
        return none
    checked: FloatArray = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return checked
