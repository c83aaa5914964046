"""The methods that learn and forget, for every estimator, and those that weigh rows by their residuals."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_X_y, validate_data

from squaresvm.estimators.base import SquareSVM
from squaresvm.estimators.evidence import classes_lost, hashes_between, hashes_of
from squaresvm.estimators.left_out import LeavingOut
from squaresvm.estimators.receipts import Proposal, Requests, begun, written
from squaresvm.evidence.columns import Columns
from squaresvm.evidence.receipt import Receipt
from squaresvm.judging.robust import Robust, robust_weights
from squaresvm.models.model import Model, NewRows, Settings, Update, warn_unless_converged
from squaresvm.models.ownership import REQUESTS, Claim
from squaresvm.models.state import State
from squaresvm.models.train import reweighted, train
from squaresvm.operators import Operator
from squaresvm.operators.precomputed import symmetrised
from squaresvm.rows import Rows, canonical_csr, ids_from
from squaresvm.runtime.arguments import check_flag
from squaresvm.streaming import Source
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Reweighting", "Updating", "WaitingRows"]


@dataclass(frozen=True, eq=False)
class WaitingRows:
    """Rows, labels, weights, ids and names of columns, as they came."""

    X: Matrix
    y: np.ndarray[Any, Any]
    weights: FloatArray
    ids: list[Hashable] | None
    names: tuple[Any, ...] | None

    @classmethod
    def of(cls, estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, ids: Any) -> WaitingRows:
        """Return rows after a check."""
        names = tuple(X.columns) if hasattr(X, "columns") else None
        ids = ids_from(ids, X)
        X, y = check_X_y(X, y, accept_sparse="csr", dtype=(np.float64, np.float32), estimator=estimator)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        named = list(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else None
        return cls(X, y, weights, named, names)

    def joined(self, other: WaitingRows) -> WaitingRows:
        """Return these rows and others behind them."""
        if (self.ids is None) != (other.ids is None):
            raise ValueError(
                "rows of earlier calls have ids, or have none: all calls of partial_fit must agree"
            )
        if self.names != other.names or self.X.shape[1] != other.X.shape[1]:
            raise ValueError("rows of earlier calls of partial_fit have other columns than these")
        pair = [self.X, other.X]
        mixed = any(sp.issparse(X) for X in pair)
        ids = None if self.ids is None or other.ids is None else self.ids + other.ids
        return WaitingRows(
            sp.vstack(pair, format="csr") if mixed else np.concatenate(pair),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.weights, other.weights]),
            ids,
            self.names,
        )


class Updating(LeavingOut, Requests):
    """Learning and forgetting; see :class:`squaresvm.LSSVC`."""

    def _propose_learn(self, X: Any, y: Any, sample_weight: Any = None, ids: Any = None) -> Proposal:
        """Return what `learn` leads to; the lock is held until it is in place or given up."""
        start, state = time.perf_counter(), self._state
        update = state.learn(self._new_rows(state, X, y, sample_weight, ids))
        return self._proposed(state, update, "learn", start)

    def _proposed(
        self, before: Model, update: Update, kind: str, start: float, gone: IntArray | None = None
    ) -> Proposal:
        """Return the proposal of an update, with the receipt of its request; `gone` are rows that left."""
        if not update.sampled:
            warn_unless_converged(update.model)
        trial, after = self._copy(), update.model
        trial._take(after)
        log = self._noted_log()
        names = () if gone is None else before.holding("forget").rows.ids.leaving(gone)
        trial._log, receipt = written(
            log,
            kind,
            update,
            (before.n_rows, after.n_rows),
            hashes_between(log.key, before, after, gone, self._record),
            time.perf_counter() - start,
            names,
            classes_lost(before, after),
        )
        return Proposal(trial, update.commit, receipt)

    def _adopt_proposal(self, proposal: Proposal) -> None:
        self._adopt(proposal.estimator)
        proposal.commit()

    def _new_rows(self, state: Model, X: Any, y: Any, sample_weight: Any, ids: Any = None) -> NewRows:
        ids = ids_from(ids, X)
        X, y = self._check_new_rows(state, X, y)
        self._check_new_targets(state, y)
        return NewRows(X, y, _check_weights(sample_weight, X), ids, self._named_weights())

    def _check_new_targets(self, state: Model, y: np.ndarray[Any, Any]) -> None:
        """Raise a ValueError where new targets are of another kind than those held."""

    def _named_weights(self) -> dict[Hashable, float]:
        """Return the weights of classes that the parameters name."""
        return {}

    def _check_new_rows(self, state: Model, X: Any, y: Any) -> tuple[Matrix, np.ndarray[Any, Any]]:
        if state.settings.kernel is not None:
            X = self._prepared(X, new_levels=False)
            X, y = validate_data(self, X, y, reset=False, **self._array_rules(), **self._target_rules(y))
            return state.like_held(canonical_csr(X)), np.array(self._check_targets(y))
        # A precomputed kernel grows with the rows, so its width is not that of `fit`.
        probe = self._copy()
        X, y = validate_data(probe, X, y, **self._array_rules(), **self._target_rules(y))
        X = X.toarray() if sp.issparse(X) else X
        held = state.holding("learn").rows.count
        width = held + X.shape[0]
        if X.shape[1] != width:
            raise ValueError(
                f"{X.shape[0]} new rows of a precomputed kernel need {width} columns, one for each row held "
                f"and each new one; got {X.shape[1]}"
            )
        corner = X[:, held:]
        try:
            even = symmetrised(corner, type(self).__name__, state.settings.C)
        except ValueError as error:
            raise ValueError(
                f"the kernel values of the new rows with each other must be symmetric: {error}"
            ) from None
        if even is not corner:
            X = np.hstack([X[:, :held], even])
        return X, np.array(self._check_targets(y))

    def forget(
        self, ids: Iterable[Hashable], verify: bool = False, *, source: Source | None = None
    ) -> Receipt:
        """Remove rows: the model equals a fit of the remaining rows with the numbers resolved at `fit`.

        Row, label, id and weight are gone at once. What the factor derived from them goes at its next
        repair, which `flush`, pickling and saving bring about.

        Parameters
        ----------
        ids : iterable of hashables
            As in ``ids_``; all rows of each id leave.
        verify : bool, default=False
            Whether to take the residual of every remaining row for the receipt. Otherwise it may be taken
            from random combinations of all rows, between full checks at most 64 requests apart.
        source : Source, optional
            For a model that was fitted from a stream, and so keeps no rows: the rows that it is of, those
            that leave included. Their ids are their numbers in it, counted from 0. Passes over the others go
            on from the model and end at its certificate.

        Returns
        -------
        Receipt

        Raises
        ------
        KeyError
            If no row of an id is held. Nothing has changed then.
        ValueError
            If an id is given twice, or if too few rows would remain. Nothing has changed then.
        """
        start = time.perf_counter()
        check_flag("verify", verify)
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)
        with REQUESTS:
            if source is not None:
                return self._forget_from(source, ids, start)
            return self._forgotten(ids, verify)

    def _forget_from(self, source: Source, ids: Iterable[Hashable], start: float) -> Receipt:
        """Remove rows of the source that a streamed model is of."""
        before, numbers = self._state, list[Any](ids)
        proposal = self._proposed(before, before.forget_from(source, numbers), "forget", start)
        self._adopt_proposal(proposal)
        assert proposal.receipt is not None
        return proposal.receipt.but(
            ids=tuple(map(int, numbers)), rows=len(numbers), seconds=time.perf_counter() - start
        )

    def _propose_forget(self, ids: Iterable[Hashable], verify: bool = False) -> Proposal:
        """Return what `forget` leads to; the lock is held until it is in place or given up."""
        return self._propose_forget_at(self._state.positions_of(ids), verify)

    def _propose_forget_at(self, positions: IntArray, verify: bool = False) -> Proposal:
        """Return what forgetting the rows at some positions leads to, whatever other rows have their ids."""
        start, before = time.perf_counter(), self._state
        update = before.forget(positions, verify=verify)
        proposal = self._proposed(before, update, "forget", start, positions)
        proposal.estimator._drop_results()
        return proposal

    def _propose_on(self, X: Matrix, positions: IntArray) -> Proposal:
        """Return what a fit of the other rows by the same numbers leads to; their features are X now."""
        start, before, claim = time.perf_counter(), self._holding("other features"), Claim()
        rest = before.rows.without(positions).compact().as_given()
        trial = self._copy()
        trial.n_features_in_ = int(X.shape[1])
        trial.__dict__.pop("feature_names_in_", None)
        after = trial._trained(replace(rest, base=X, is_owned=True), before.settings, None, claim)
        trial._state = after
        trial._drop_results()
        log = self._noted_log()
        names, counts = before.rows.ids.leaving(positions), (before.n_rows, after.n_rows)
        key, held = log.key, after.certificate.residual
        found = Receipt(names, after.n_rows, held, False, True, 0.0, checked=after.n_rows)
        left, came = hashes_of(key, before.rows), hashes_of(key, after.rows)
        seconds, gone = time.perf_counter() - start, classes_lost(before, after)
        trial._log, receipt = written(log, "forget", found, counts, left, seconds, names, gone, came)
        trial._log = replace(trial._log, columns=Columns.of(X))  # Of the other features there were none yet.
        return Proposal(trial, claim.commit, receipt)

    def _propose_reweighted(self, factors: FloatArray) -> Proposal:
        """Return what the caller's weights times `factors` lead to: a fit of the same rows with them."""
        start, before = time.perf_counter(), self._holding("other weights")
        claim, trial = Claim(before.claim), self._copy()
        trial._take(reweighted(before, factors, claim))
        trial._log = begun(trial._state, time.perf_counter() - start, self._noted_log(), resolved=False)
        return Proposal(trial, claim.commit)

    def _counted_by(self, given: FloatArray | None) -> Self:
        """Return a copy whose rows have `given` as the caller's weights; None: those of the problem."""
        state, trial = self._holding("other weights"), self._copy()
        trial._state = replace(state, rows=replace(state.rows, given=given))
        return trial

    def _drop_results(self) -> None:
        """Drop what was taken from rows that have left, besides the model itself."""

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
        start = time.perf_counter()
        check_is_fitted(self)
        with REQUESTS:
            before = self._state
            update = before.forget_rows(self._new_rows(before, X, y, sample_weight))
            proposal = self._proposed(before, update, "forget", start)
            self._adopt_proposal(proposal)
        assert proposal.receipt is not None
        return proposal.receipt.but(ids=tuple(range(update.rows)), rows=update.rows)

    def _take(self, model: Model) -> None:
        self._state = model
        if model.settings.kernel is None:
            self.n_features_in_ = model.holding("a precomputed kernel").rows.count

    def flush(self) -> Self:
        """Repair the factor now, so that nothing derived from forgotten rows is left in it.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with REQUESTS:
            self._state = self._state.flushed()
        return self

    def __copy__(self) -> Self:
        """Return a model that goes its own way: requests to one leave the other as it is."""
        other = self._copy()
        if self.__sklearn_is_fitted__():
            with REQUESTS:
                other._take(self._state.detached())
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: no factor, and nothing of rows that were forgotten."""
        with REQUESTS:
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


class Reweighting(SquareSVM):
    """A squared loss that may bound the influence of outliers; see :mod:`squaresvm.judging.robust`."""

    robust: int | Robust

    def _check_parameters(self) -> None:
        super()._check_parameters()
        Robust.of(self.robust)

    def _fit_source(self, source: Source, y: Any, sample_weight: Any, ids: Any, checkpoint: Any) -> Self:
        if Robust.of(self.robust).rounds:
            raise ValueError("robust weights need the rows, and a source keeps none: set robust=0")
        return super()._fit_source(source, y, sample_weight, ids, checkpoint)

    def _trained(
        self, rows: Rows, settings: Settings, operator: Operator | None, claim: Claim | None = None
    ) -> State:
        state = super()._trained(rows, settings, operator, claim)
        robust = Robust.of(self.robust)
        weights, last = rows.weights[state.held], np.ones(state.held.size)
        for _ in range(robust.rounds):
            residuals = state.problem.targets - state.problem.decision(state.solution)
            factors = robust_weights(residuals, weights, robust.c1, robust.c2)
            if np.array_equal(factors, last):
                break
            every = np.ones(rows.count)
            every[state.held] = last = factors
            # The same rows are in the problem, so K is at hand.
            state = train(
                rows.reweighted(every), settings, state.problem.operator, self._fit_log(), state.claim
            )
        return state

    @property
    def robust_weights_(self) -> FloatArray:
        """What the weight of each row held was multiplied by at fit, in the order of ``ids_``."""
        rows: Rows = self._fitted("robust_weights_").attribute("rows")
        if rows.given is None:
            return np.ones(rows.count)
        return np.divide(rows.weights, rows.given, out=np.ones(rows.count), where=rows.given > 0)
