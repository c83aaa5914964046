"""Many classes by a model for every pair of them, which learns, forgets and leaves one out like any other."""

from __future__ import annotations

import copy
import time
from collections.abc import Hashable, Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.judging.receipt import Receipt
from squaresvm.kernels import scale_gamma
from squaresvm.meta.pairs import Pairs, features_of, fit_pair, in_pair, train_pairs
from squaresvm.meta.votes import Voting
from squaresvm.models.state import REQUESTS
from squaresvm.rows import Ids, Rows, canonical_csr
from squaresvm.typing import FloatArray, Matrix

__all__ = ["OneVsOne", "check_classes"]


class OneVsOne(Voting):
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

    _template: Any

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    # Rows come and go --------------------------------------------------------------------------------

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
        self._check_estimator()
        trial = copy.copy(self)
        for name in ("n_features_in_", "feature_names_in_"):
            trial.__dict__.pop(name, None)
        X, y, weights = trial._check_rows(X, y, sample_weight, reset=True)
        named = Ids.numbered(y.size) if ids is None else Ids.given(ids, y.size)
        trial._build(X, Rows(np.empty((y.size, 0)), y, weights, named))
        self.__dict__.clear()
        self.__dict__.update(trial.__dict__)
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
            # A new object, so that nothing computed from the old models is taken for theirs.
            self._build(features_of(self._rows, self._pairs), replace(self._rows))
        return self

    def _build(self, X: Matrix, rows: Rows) -> None:
        classes = check_classes(rows)
        template = clone(self.estimator)
        kernel, gamma = template.kernel, getattr(template, "gamma", None)
        if gamma == "scale" and kernel != "linear" and not callable(kernel):
            template.gamma = scale_gamma(X, rows.weights)
        pairs = train_pairs(template, X, rows, classes)
        self.__dict__.update(_rows=rows, _pairs=pairs, _template=template)

    def learn(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
    ) -> Self:
        """Add rows to the models of their classes; a new class gets models of its own.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (k, n)
        y : array-like of shape (k,)
        sample_weight : array-like of shape (k,), optional
        ids : iterable of hashables, optional
            Required if the rows held have ids of their own, refused if they have arrival numbers.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        X, y, weights = self._check_rows(X, y, sample_weight, reset=False)
        with REQUESTS:
            held = self._rows
            named = held.ids.extended(ids, y.size)
            rows = held.joined(Rows(np.empty((y.size, 0)), y, weights, named))
            pairs: Pairs = {}
            together: Matrix | None = None
            for pair in combinations(check_classes(rows).tolist(), 2):
                known = self._pairs.get(pair)
                (new,) = np.nonzero(in_pair(y, pair))
                if known is None:
                    if together is None:
                        together = _stacked(features_of(held, self._pairs), X)
                    pairs[pair] = fit_pair(self._template, together, rows, pair)
                    continue
                model = known._copy()
                if new.size:
                    model.learn(X[new], y[new], weights[new], named.values[held.count + new])
                pairs[pair] = model
            self.__dict__.update(_rows=rows, _pairs=pairs)
        return self

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
        X : array-like, data frame or sparse matrix of shape (k, n)
        y : array-like of shape (k,)
        classes : array-like, optional
            If given, labels in y must be among them. Not needed: a class may appear at any time.
        sample_weight : array-like of shape (k,), optional
        ids : iterable of hashables, optional

        Returns
        -------
        self
        """
        if classes is not None:
            strange = np.setdiff1d(np.asarray(y), np.asarray(classes))
            if strange.size:
                raise ValueError(f"y holds {strange.tolist()[0]!r}, which is not among classes")
        step = self.learn if self.__sklearn_is_fitted__() else self.fit
        return step(X, y, sample_weight, ids)

    def forget(self, ids: Iterable[Hashable]) -> Receipt:
        """Remove rows from every model that holds them; one receipt for all.

        Rows of weight zero leave with the last row of positive weight of their class.

        Parameters
        ----------
        ids : iterable of hashables
            As in ``ids_``.

        Returns
        -------
        Receipt
            With the largest residual of the models that were changed.

        Raises
        ------
        KeyError
            If a row is not held. Nothing has changed then.
        ValueError
            If an id is given twice, or fewer than two classes would remain. Nothing has changed then.
        """
        begin = time.perf_counter()
        check_is_fitted(self)
        with REQUESTS:
            held = self._rows
            positions = held.ids.positions(ids)
            if positions.size == 0:
                raise ValueError("no ids were given: there is nothing to forget")
            names, labels = held.ids.values[positions], held.y[positions]
            rest = held.without(positions)
            classes = check_classes(rest, without=self.classes_)
            pairs: Pairs = {}
            receipts = []
            for pair in combinations(classes.tolist(), 2):
                model = self._pairs[pair]._copy()
                mine = names[in_pair(labels, pair)]
                if mine.size:
                    receipts.append(model.forget(mine))
                pairs[pair] = model
            gone = np.setdiff1d(self.classes_, classes)
            rest = _without_labels(rest, gone)
            self.__dict__.update(_rows=rest, _pairs=pairs)
        return Receipt(
            ids=tuple(names.tolist()),
            remaining=rest.count,
            residual=max((r.residual for r in receipts), default=self.certificate_.residual),
            sampled=any(r.sampled for r in receipts),
            refactored=any(r.refactored for r in receipts),
            seconds=time.perf_counter() - begin,
            classes_gone=tuple(gone.tolist()),
        )

    def flush(self) -> Self:
        """Repair the factors of all models now, so that nothing derived from forgotten rows is left in them.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        for model in self._pairs.values():
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


def _without_labels(rows: Rows, gone: np.ndarray[Any, Any]) -> Rows:
    """Return the rows less those of weight zero of classes that are gone: no pair holds them now."""
    idle = np.flatnonzero(np.isin(rows.y, gone))
    return rows.without(idle) if idle.size else rows


def _stacked(first: Matrix, second: Matrix) -> Matrix:
    if not sp.issparse(first) and not sp.issparse(second):
        return np.concatenate([first, second])
    return sp.vstack([sp.csr_matrix(first), sp.csr_matrix(second)], format="csr")
