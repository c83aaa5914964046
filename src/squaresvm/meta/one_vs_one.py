"""Many classes by a model for every pair of them, which learns, forgets and leaves one out like any other."""

from __future__ import annotations

import copy
import time
from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from squaresvm.estimators.callbacks import FitTasks, tells_callbacks
from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.estimators.evidence import Evidence, hashes_of, moved_since_fit
from squaresvm.estimators.receipts import Proposal, Requests, begun, log_of, written
from squaresvm.evidence.receipt import Receipt
from squaresvm.kernels import scale_gamma
from squaresvm.meta.pairs import Pairs, Votes, Voting, features_of, fit_pair, in_pair, places, train_pairs
from squaresvm.models.ownership import REQUESTS
from squaresvm.rows import Ids, Rows, canonical_csr, ids_from
from squaresvm.rows.labels import check_among, same_kind
from squaresvm.runtime.arguments import check_flag
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["OneVsOne", "check_classes"]


class OneVsOne(Voting, Requests):
    """Classify by a two-class model for every pair of classes.

    Each of the K (K - 1) / 2 models has the rows of its two classes only, so it is small: with the squared
    hinge that is less work than K models of all rows, one against the rest. With squared loss one factor
    serves all classes of one against the rest. Each row is held by K - 1 models.

    Learning, forgetting and leaving one out are those of the pairs, so they are as exact: a request goes to
    the models that hold the row. ``gamma='scale'`` is taken from all rows, ``class_weight='balanced'`` and
    searches are resolved pair by pair; precomputed kernels are refused.

    Parameters
    ----------
    estimator : classifier
        Any of this package.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    estimators_ : tuple of classifiers
        The models of the pairs, in the order of ``itertools.combinations(classes_, 2)``.
    ids_ : ndarray of shape (m,)
        Id of each row held.
    certificate_ : Certificate
        That of the worst pair.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import OneVsOne, RLSSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OneVsOne(RLSSVC(C=10.0)).fit(X, y)
    >>> model.forget([3, 77]).remaining
    148
    >>> round(model.score(X, y), 2)
    0.98
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    # Rows come and go --------------------------------------------------------------------------------

    @tells_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
    ) -> Self:
        """Fit the models of all pairs; a failure leaves the estimator as it was.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (m, n)
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), optional
        ids : iterable of hashables, optional

        Returns
        -------
        self
        """
        start = time.perf_counter()
        self._check_estimator()
        tasks = FitTasks.of(self, X, y, sample_weight)
        trial = copy.copy(self)
        for name in ("n_features_in_", "feature_names_in_"):
            trial.__dict__.pop(name, None)
        ids = ids_from(ids, X)
        X, y, weights = trial._check_rows(X, y, sample_weight, reset=True)
        named = Ids.numbered(y.size) if ids is None else Ids.given(ids, y.size)
        trial._votes = trial._built(X, Rows(np.empty((y.size, 0)), y, weights, named), tasks)
        trial._record, trial._log = None, begun(trial._votes, time.perf_counter() - start)
        self.__dict__.clear()
        self.__dict__.update(trial.__dict__)
        if tasks is not None:
            tasks.done()
        return self

    def refit(self) -> Self:
        """Fit anew on the rows held, resolving ``'scale'`` and the like from them.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._check_estimator()
        with REQUESTS:
            start, votes = time.perf_counter(), self._votes
            self._votes = self._built(features_of(votes.rows, votes.pairs), votes.rows)
            log = log_of(self._log, votes.rows.count)
            self._log = begun(self._votes, time.perf_counter() - start, log)
        return self

    def _built(self, X: Matrix, rows: Rows, tasks: FitTasks | None = None) -> Votes:
        classes = check_classes(rows)
        template = clone(self.estimator)
        if _scales(template):
            template.gamma = scale_gamma(X, rows.weights)
        return Votes(rows, train_pairs(template, X, rows, classes, tasks), template)

    def _propose_learn(self, X: Any, y: Any, sample_weight: Any = None, ids: Any = None) -> Proposal:
        start, ids = time.perf_counter(), ids_from(ids, X)
        X, y, weights = self._check_rows(X, y, sample_weight, reset=False)
        votes = self._votes
        held = votes.rows
        y = same_kind(y, votes.classes)
        named = held.ids.extended(ids, y.size)
        rows = held.joined(Rows(np.empty((y.size, 0)), y, weights, named))
        pairs: Pairs = {}
        steps: list[Proposal] = []
        together: Matrix | None = None
        for pair in combinations(check_classes(rows).tolist(), 2):
            known = votes.pairs.get(pair)
            (new,) = np.nonzero(in_pair(y, pair))
            if known is None:
                if together is None:
                    together = _stacked(features_of(held, votes.pairs), X)
                pairs[pair] = fit_pair(votes.template, together, rows, pair)
                continue
            pairs[pair] = known
            if new.size:
                names = named.values[held.count + new]
                steps.append(known._propose_learn(X[new], y[new], weights[new], names))
                pairs[pair] = steps[-1].estimator
        return self._proposed(Votes(rows, pairs, votes.template), steps, "learn", start)

    def _proposed(
        self,
        after: Votes,
        steps: list[Proposal],
        kind: str,
        start: float,
        gone: IntArray | None = None,
        names: tuple[Hashable, ...] = (),
    ) -> Proposal:
        """Return the proposal of models of pairs, some by steps of their own, with the receipt of all.

        `gone` are the rows that left, `names` their ids.
        """
        receipts = [step.receipt for step in steps if step.receipt is not None]
        changed = {id(step.estimator) for step in steps}
        others = [model for model in after.pairs.values() if id(model) not in changed]
        trial, before = self._copy(), self._votes
        found = Receipt(
            ids=names,
            remaining=after.rows.count,
            residual=max([r.residual for r in receipts] + [m.certificate_.residual for m in others]),
            sampled=any(r.sampled for r in receipts),
            refactored=any(r.refactored for r in receipts),
            seconds=0.0,
            checked=sum(r.checked for r in receipts) + sum(m.ids_.size for m in others),
        )
        trial._votes, log = after, self._noted_log()
        of, moved = (after, np.arange(before.n_rows, after.n_rows)) if gone is None else (before, gone)
        hashes = hashes_of(log.key, of.rows, moved, features_of(of.rows, of.pairs, moved), self._record)
        counts, classes = (before.n_rows, after.n_rows), np.setdiff1d(before.classes, after.classes)
        seconds = time.perf_counter() - start
        trial._log, receipt = written(
            log, kind, found, counts, hashes, seconds, names, tuple(classes.tolist())
        )
        return Proposal(trial, partial(_commit, steps), receipt)

    def _adopt_proposal(self, proposal: Proposal) -> None:
        self._votes, self._log = proposal.estimator._votes, proposal.estimator._log
        proposal.commit()

    def _evidence(self) -> Evidence:
        votes, pairs = self._votes, self._votes.pairs
        rows = replace(votes.rows, base=features_of(votes.rows, pairs))
        states = [model._state for model in pairs.values()]
        moved = partial(self._moved_since_fit, rows)
        kept, names = tuple(self._kept_of_rows()), getattr(self, "feature_names_in_", None)
        return Evidence(rows.count, rows, states, self._record, kept, moved, self._front, names)

    def _moved_since_fit(self, rows: Rows) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return gamma, and the largest number of each kind of a pair, with how far they would move."""
        votes = self._votes
        resolved: dict[str, Any] = {}
        moved: dict[str, Any] = {}
        searched = hasattr(self.estimator, "gammas")  # Then gamma was chosen by scores.
        if _scales(self.estimator) and not searched:
            resolved["gamma"] = votes.template.gamma
            moved["gamma"] = round(scale_gamma(rows.X, rows.weights) / votes.template.gamma - 1.0, 2) + 0.0
        for model in votes.pairs.values():
            for name, share in moved_since_fit(model)[1].items():
                resolved[name] = len(votes.pairs)
                moved[name] = max(moved.get(name, 0.0), share, key=_size)
        return resolved, moved

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
    ) -> Self:
        """Learn rows under scikit-learn's name; the first call fits.

        Parameters
        ----------
        X, y, sample_weight, ids :
            As in `learn`.
        classes : array-like, optional
            If given, labels in y must be among them. Not needed: a class may appear at any time.

        Returns
        -------
        self
        """
        if classes is not None:
            check_among(y, classes)
        step = self.learn if self.__sklearn_is_fitted__() else self.fit
        return step(X, y, sample_weight, ids)

    def forget(self, ids: Iterable[Hashable], verify: bool = False) -> Receipt:
        """Remove rows from every model that holds them; one receipt for all.

        Rows of weight zero leave with the last row of positive weight of their class.

        Parameters
        ----------
        ids : iterable of hashables
            As in ``ids_``; all rows of each id leave.
        verify : bool, default=False
            Whether to take the residual of every remaining row for the receipt.

        Returns
        -------
        Receipt
            With the largest residual of all models: those that the request did not change keep theirs.

        Raises
        ------
        KeyError
            If no row of an id is held. Nothing has changed then.
        ValueError
            If an id is given twice, or fewer than two classes would remain. Nothing has changed then.
        """
        check_is_fitted(self)
        check_flag("verify", verify)
        with REQUESTS:
            return self._forgotten(ids, verify)

    def _propose_forget(self, ids: Iterable[Hashable], verify: bool = False) -> Proposal:
        return self._propose_forget_at(self._votes.rows.ids.some_positions(ids), verify)

    def _propose_forget_at(self, positions: IntArray, verify: bool = False) -> Proposal:
        """Return what forgetting the rows at some positions leads to, whatever other rows have their ids."""
        start, votes = time.perf_counter(), self._votes
        held = votes.rows
        classes = check_classes(held.without(positions), without=votes.classes)
        pairs: Pairs = {}
        steps: list[Proposal] = []
        for pair in combinations(classes.tolist(), 2):
            pairs[pair] = votes.pairs[pair]
            mine = np.flatnonzero(np.isin(places(held, pair), positions))
            if mine.size:
                steps.append(votes.pairs[pair]._propose_forget_at(mine, verify))
                pairs[pair] = steps[-1].estimator
        # Rows of weight zero go with the last of their class that had one: no pair holds them now.
        idle = np.flatnonzero(np.isin(held.y, np.setdiff1d(votes.classes, classes)))
        gone = np.union1d(positions, idle)
        after = Votes(held.without(gone), pairs, votes.template)
        return self._proposed(after, steps, "forget", start, gone, held.ids.leaving(gone))

    def _propose_reweighted(self, factors: FloatArray) -> Proposal:
        """Return what the caller's weights times `factors` lead to: fits of the same rows with them."""
        votes = self._votes
        steps = {
            pair: model._propose_reweighted(factors[places(votes.rows, pair)])
            for pair, model in votes.pairs.items()
        }
        start, trial = time.perf_counter(), self._copy()
        trial._votes = Votes(votes.rows, {pair: s.estimator for pair, s in steps.items()}, votes.template)
        trial._log = begun(trial._votes, time.perf_counter() - start, self._noted_log(), resolved=False)
        return Proposal(trial, partial(_commit, list(steps.values())))

    def _counted_by(self, given: FloatArray | None) -> Self:
        """Return a copy whose rows have `given` as the caller's weights; None: those of the problems."""
        votes, trial = self._votes, self._copy()
        weights, pairs = np.array(votes.rows.weights), dict[Any, Any]()
        for pair, model in votes.pairs.items():
            own = places(votes.rows, pair)
            pairs[pair] = model._counted_by(None if given is None else given[own])
            weights[own] = model._holding("other weights").rows.weights if given is None else given[own]
        trial._votes = Votes(replace(votes.rows, weights=weights), pairs, votes.template)
        return trial

    def flush(self) -> Self:
        """Repair the factors of all models now, so that nothing derived from forgotten rows is left in them.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with REQUESTS:
            for model in self._votes.pairs.values():
                model.flush()
        return self

    def _check_estimator(self) -> None:
        if not isinstance(self.estimator, SquareSVMClassifier):
            raise ValueError(f"estimator must be a classifier of this package; got {self.estimator!r}")
        if self.estimator._is_precomputed:
            raise ValueError(
                "OneVsOne needs the rows, because each pair has some of them only: "
                "a precomputed kernel cannot be used; give a callable one"
            )

    def _check_rows(
        self, X: Any, y: Any, sample_weight: npt.ArrayLike | None, *, reset: bool
    ) -> tuple[Matrix, np.ndarray[Any, Any], FloatArray]:
        X, y = validate_data(self, X, y, reset=reset, **SquareSVMClassifier._array_rules())
        check_classification_targets(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return canonical_csr(X), np.array(y), weights


def check_classes(rows: Rows, without: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """Return the labels of rows of positive weight, at least two, after a check that they are all labels.

    Classes named in `without` may have lost all their rows of positive weight.
    """
    classes = np.unique(rows.y[rows.weights > 0])
    if classes.size < 2:
        raise ValueError(
            "a classifier needs rows of at least two classes with positive weight; got "
            + (f"one class, {classes.tolist()[0]!r}" if classes.size else "none")
        )
    idle = np.setdiff1d(np.unique(rows.y), classes)
    if idle.size and without is None:
        raise ValueError(f"all rows of class {idle.tolist()[0]!r} have weight zero: no pair could hold them")
    return classes


def _commit(steps: list[Proposal]) -> None:
    for step in steps:
        step.commit()


def _scales(estimator: Any) -> bool:
    """Return whether gamma is taken from the variance of all rows."""
    kernel, gamma = estimator.kernel, getattr(estimator, "gamma", None)
    return isinstance(gamma, str) and gamma == "scale" and kernel != "linear" and not callable(kernel)


def _size(share: float | None) -> float:
    """Return how far a number has moved; None is beyond all numbers."""
    return np.inf if share is None else abs(share)


def _stacked(first: Matrix, second: Matrix) -> Matrix:
    if not sp.issparse(first) and not sp.issparse(second):
        return np.concatenate([first, second])
    return sp.vstack([sp.csr_matrix(first), sp.csr_matrix(second)], format="csr")
