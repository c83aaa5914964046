"""A model of the latest rows: learn what comes, forget what is too old."""

from __future__ import annotations

import copy
import time
from collections.abc import Hashable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from squaresvm.estimators.callbacks import CallbackSupportMixin, FitTasks, tells_callbacks
from squaresvm.estimators.requests import Proposal
from squaresvm.evidence.receipt import Receipt
from squaresvm.models.ownership import REQUESTS
from squaresvm.runtime.arguments import check_positive
from squaresvm.typing import FloatArray

__all__ = ["Window"]


def _has(method: str) -> Any:
    """Return a check that the wrapped estimator has a method."""

    def check(self: Window) -> bool:
        getattr(self.estimator, method)
        return True

    return check


class Window(CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator):
    """Keep a model of the latest rows only, by count or by age, exactly.

    Each call of `learn` adds rows and forgets those that have become too old, both by the updates of the
    wrapped estimator: the model equals a fit of the rows in the window with the numbers (gamma='scale' and
    the like) that were resolved at the first fit, until `refit`.

    Fitted attributes of the model, such as ``certificate_`` and ``classes_``, can be read from the window.

    Parameters
    ----------
    estimator : estimator
        Any of this package.
    size : int or float
        Rows that are kept; with `times`, the age up to which they are kept, in the same units.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model.
    ids_ : ndarray
        Ids of the rows in the window.
    times_ : ndarray or None
        Times of the rows in the window, where they were given.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm import LSSVR, Window
    >>> t = np.arange(300.0)
    >>> X, y = np.sin(t / 20)[:, None], np.cos(t / 20)
    >>> window = Window(LSSVR(gamma=1.0), size=100).fit(X[:100], y[:100])
    >>> for i in range(100, 300):
    ...     window = window.learn(X[i : i + 1], y[i : i + 1])
    >>> window.ids_[0], window.ids_.size
    (np.int64(200), 100)
    """

    #: What goes with the file of the model: a :class:`squaresvm.files.Record`, which owns it.
    _record: Any = None

    def __init__(self, estimator: Any, size: float) -> None:
        self.estimator = estimator
        self.size = size

    # Filling the window ----------------------------------------------------------------------------

    @tells_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
        times: npt.ArrayLike | None = None,
    ) -> Self:
        """Fit on the rows and keep those that are in the window.

        Parameters
        ----------
        X, y, sample_weight, ids :
            As in `fit` of the estimator.
        times : array-like of shape (m,), optional
            When each row arose, in no falling order. If given, `size` is an age.

        Returns
        -------
        self
        """
        self._check_size(times is not None)
        count = _count(y)
        moments = _check_times(times, count, None)
        inside = self._inside(count, moments)
        first = count - int(inside.sum())
        fitted = clone(self.estimator)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        tasks = FitTasks.of(self, X, y, sample_weight)
        with nullcontext() if tasks is None else tasks.part("rows of the window", fitted):
            fitted.fit(X, y, sample_weight=weights, ids=ids)
        if first:
            with REQUESTS:  # By position: an id may have rows in the window and behind it.
                fitted._adopt_proposal(fitted._propose_forget_at(np.arange(first)))
        self._replace(fitted, None if moments is None else moments[first:])
        if tasks is not None:
            tasks.done()
        return self

    def learn(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
        times: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn rows and forget those that have become too old; a failure changes nothing.

        Parameters
        ----------
        X, y, sample_weight, ids :
            As in `fit`, of the new rows.
        times : array-like of shape (k,), optional
            Required if the window is by age, refused if it is by count.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with REQUESTS:
            held = self.times_
            if (times is None) != (held is None):
                raise ValueError(
                    "times must be given with every row or with none: "
                    f"the window is by {'count' if held is None else 'age'}"
                )
            self._check_size(held is not None)
            moments = _check_times(times, _count(y), held)
            learned = self.estimator_._propose_learn(X, y, sample_weight, ids)
            inside = self._inside(learned.estimator.ids_.size, moments)
            steps = [learned]
            if not inside.all():
                steps.append(learned.estimator._propose_forget_at(np.flatnonzero(~inside)))
            self._put(steps, None if moments is None else moments[inside])
        return self

    def _put(self, steps: list[Proposal], times: FloatArray | None) -> None:
        """Put the model of the last of some steps in place, each made from the one before."""
        self._replace(steps[-1].estimator, times)
        for step in steps:
            step.commit()

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
        times: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn rows under scikit-learn's name; the first call fits.

        Parameters
        ----------
        X, y, sample_weight, ids, times :
            As in `learn`.
        classes : array-like, optional
            Not needed: a class may appear at any time.

        Returns
        -------
        self
        """
        step = self.learn if hasattr(self, "estimator_") else self.fit
        return step(X, y, sample_weight, ids, times)

    def forget(self, ids: Iterable[Hashable], verify: bool = False) -> Receipt:
        """Remove rows that are still in the window, all of each id.

        Parameters
        ----------
        ids : iterable of hashables
            As in ``ids_``.
        verify : bool, default=False
            Whether to take the residual of every remaining row for the receipt.

        Returns
        -------
        Receipt
        """
        check_is_fitted(self)
        start = time.perf_counter()
        with REQUESTS:
            before, times = self.estimator_.ids_, self.times_
            forgotten = self.estimator_._propose_forget(ids, verify)
            receipt: Receipt = forgotten.receipt
            if times is not None:
                gone = set(receipt.ids)
                times = times[[name not in gone for name in before.tolist()]]
            self._put([forgotten], times)
        return replace(receipt, seconds=time.perf_counter() - start)

    def flush(self) -> Self:
        """Repair the factor now, so that nothing derived from forgotten rows is left in it.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.estimator_.flush()
        return self

    def refit(self) -> Self:
        """Fit anew on the rows in the window, resolving ``'scale'`` and the like from them.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with REQUESTS:
            # Another object, as after every request: who kept the old one has it as it was.
            trial = self.estimator_._copy()
            trial.refit()
            self._replace(trial, self.times_)
        return self

    def __copy__(self) -> Self:
        """Return a window that goes its own way."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        if "estimator_" in self.__dict__:
            with REQUESTS:
                other._replace(copy.copy(self.estimator_), self.times_)
        return other

    def _replace(self, fitted: Any, times: FloatArray | None) -> None:
        self.__dict__.update(estimator_=fitted, times_=times)

    def _check_size(self, by_age: bool) -> None:
        check_positive("size", self.size)
        if not by_age and int(self.size) != self.size:
            raise ValueError(f"size must be a whole number of rows unless times are given; got {self.size!r}")

    def _inside(self, count: int, times: FloatArray | None) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if times is None:
            return np.arange(count) >= count - int(self.size)
        return np.asarray(times > times[-1] - self.size)

    # Using the model -------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of the wrapped estimator."""
        return get_tags(self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the window holds rows."""
        return hasattr(self, "estimator_")

    def __getattr__(self, name: str) -> Any:
        """Return a fitted attribute of the model, such as ``certificate_``."""
        if name.endswith("_") and not name.startswith("_") and name not in ("estimator_", "times_"):
            if "estimator_" not in self.__dict__:
                raise NotFittedError(f"this Window has no {name!r} yet: call 'fit' first")
            return getattr(self.__dict__["estimator_"], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _model(self) -> Any:
        check_is_fitted(self)
        return self.estimator_

    def predict(self, X: Any) -> Any:
        """Return the label or value of each row.

        Parameters
        ----------
        X : array-like of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows,)
        """
        return self._model().predict(X)

    def score(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return accuracy, or the coefficient of determination for regression.

        Parameters
        ----------
        X : array-like of shape (rows, n)
        y : array-like of shape (rows,)
        sample_weight : array-like of shape (rows,), optional

        Returns
        -------
        float
        """
        return float(self._model().score(X, y, sample_weight))

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Return the decision values of each row.

        Parameters
        ----------
        X : array-like of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows,) or (rows, n_classes)
        """
        return self._model().decision_function(X)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Return calibrated probabilities of each row.

        Parameters
        ----------
        X : array-like of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows, n_classes)
        """
        return self._model().predict_proba(X)


def _count(y: Any) -> int:
    return len(y)


def _check_times(times: npt.ArrayLike | None, count: int, held: FloatArray | None) -> FloatArray | None:
    """Return the times of the rows held and the new ones, after a check."""
    if times is None:
        return None
    new = np.asarray(times, dtype=np.float64)
    if new.shape != (count,):
        raise ValueError(f"times must give one number a row, {count}; got shape {new.shape}")
    if not np.isfinite(new).all():
        raise ValueError("times must be finite")
    joined = new if held is None else np.concatenate([held, new])
    if np.any(np.diff(joined) < 0):
        where = int(np.flatnonzero(np.diff(joined) < 0)[0]) + 1
        raise ValueError(f"times must not fall: {joined[where]:g} comes after {joined[where - 1]:g}")
    return joined
