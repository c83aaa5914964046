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
from squaresvm.estimators.receipts import Proposal
from squaresvm.evidence.receipt import Receipt
from squaresvm.meta.decay import Decay, check_decay, check_times
from squaresvm.models.ownership import REQUESTS
from squaresvm.runtime.arguments import check_positive
from squaresvm.runtime.extras import Documented
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["Window"]

#: Methods of the model that a window has as well: they are about the rows in it.
_EVIDENCE = ("anchor_receipts", "prove_absence", "refit_due", "sign_receipts")


def _has(method: str) -> Any:
    """Return a check that the wrapped estimator has a method."""

    def check(self: Window) -> bool:
        getattr(self.estimator, method)
        return True

    return check


class Window(Documented, CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator):
    """Keep a model of the latest rows only, by count or by age, whose weights may halve with age, exactly.

    Each call of `learn` adds rows and forgets those that have become too old, both by the updates of the
    wrapped estimator: the model equals a fit of the rows in the window with the numbers (gamma='scale' and
    the like) that were resolved at the first fit, until `refit`.

    Fitted attributes of the model, such as ``certificate_``, ``classes_`` and ``receipts_``, can be read from
    the window; `refit_due`, `prove_absence`, `sign_receipts` and `anchor_receipts` are those of the model.

    Parameters
    ----------
    estimator : estimator
        Any of this package.
    size : int or float
        Rows that are kept; with `times`, the age up to which they are kept, in the same units.
    half_life : float, optional
        Age at which a row weighs half of what it did when it came: in arrivals, or with `times` in the same
        units. The weight in the problem is the sample weight times 2^(-age / half_life), counted from the
        latest row that came, and the model equals a fit with these weights. Every weight moves when rows
        come, so each call of `learn` ends with a fit on the kernel values that are at hand: a factorisation,
        for linear models a pass over the window, for the squared hinge a search from the answer before.
        Scores and probabilities count rows by their own sample weights. Rows leave after 100 half-lives.

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

    #: When rows came, with a half-life.
    _decay: Decay | None = None

    def __init__(self, estimator: Any, size: float, half_life: float | None = None) -> None:
        self.estimator = estimator
        self.size = size
        self.half_life = half_life

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
        count = len(y)
        moments = check_times(times, count, None)
        decay = None if self.half_life is None else Decay.begun(moments, count)
        inside = self._inside(count, moments, decay)
        first = count - int(inside.sum())
        fitted = clone(self.estimator)
        given = None if sample_weight is None else np.asarray(sample_weight)
        weights = given if decay is None else self._faded(given, decay)
        tasks = FitTasks.of(self, X, y, sample_weight)
        with nullcontext() if tasks is None else tasks.part("rows of the window", fitted):
            fitted.fit(X, y, sample_weight=weights, ids=ids)
        if decay is not None:
            fitted = fitted._counted_by(np.ones(count) if given is None else given.astype(np.float64))
            decay = decay.at(inside)
        if first:
            with REQUESTS:  # By position: an id may have rows in the window and behind it.
                fitted._adopt_proposal(fitted._propose_forget_at(np.arange(first)))
        self._replace(fitted, None if moments is None else moments[first:], decay)
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
            if (self.half_life is None) != (self._decay is None):
                raise ValueError("half_life was set or taken away after fit: fit anew")
            moments = check_times(times, len(y), held)
            learned = self.estimator_._propose_learn(X, y, sample_weight, ids)
            count, decay = learned.estimator.ids_.size, self._decay
            if decay is not None:
                arrived = count - decay.moments.size
                decay = decay.joined(None if moments is None else moments[-arrived:], arrived)
            inside = self._inside(count, moments, decay)
            steps = [learned]
            if not inside.all():
                steps.append(learned.estimator._propose_forget_at(np.flatnonzero(~inside)))
            if decay is not None:
                assert self.half_life is not None
                decay = decay.at(inside)
                steps.append(steps[-1].estimator._propose_reweighted(decay.factors(self.half_life)))
            self._put(steps, None if moments is None else moments[inside], decay)
        return self

    def _put(self, steps: list[Proposal], times: FloatArray | None, decay: Decay | None) -> None:
        """Put the model of the last of some steps in place, each made from the one before."""
        self._replace(steps[-1].estimator, times, decay)
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
            before, times, decay = self.estimator_.ids_, self.times_, self._decay
            forgotten = self.estimator_._propose_forget(ids, verify)
            receipt: Receipt = forgotten.receipt
            if times is not None or decay is not None:
                gone = set(receipt.ids)
                stay = np.array([name not in gone for name in before.tolist()])
                times = None if times is None else times[stay]
                decay = None if decay is None else decay.at(stay)
            self._put([forgotten], times, decay)
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
            if self._decay is None:
                trial = self.estimator_._copy()
                trial.refit()
            else:
                given = self._given()
                trial = self.estimator_._counted_by(None).refit()._counted_by(given)
            self._replace(trial, self.times_, self._decay)
        return self

    def __copy__(self) -> Self:
        """Return a window that goes its own way."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        if "estimator_" in self.__dict__:
            with REQUESTS:
                other._replace(copy.copy(self.estimator_), self.times_, self._decay)
        return other

    def _replace(self, fitted: Any, times: FloatArray | None, decay: Decay | None) -> None:
        self.__dict__.update(estimator_=fitted, times_=times, _decay=decay)

    def _check_size(self, by_age: bool) -> None:
        check_positive("size", self.size)
        if self.half_life is not None:
            check_positive("half_life", self.half_life)
            check_decay(self.estimator)
        if not by_age and int(self.size) != self.size:
            raise ValueError(f"size must be a whole number of rows unless times are given; got {self.size!r}")

    def _inside(self, count: int, times: FloatArray | None, decay: Decay | None) -> BoolArray:
        latest = (
            np.arange(count) >= count - int(self.size) if times is None else times > times[-1] - self.size
        )
        if decay is None:
            return np.asarray(latest)
        assert self.half_life is not None
        return np.asarray(latest & decay.young(self.half_life))

    def _faded(self, given: Any, decay: Decay) -> Any:
        """Return the weights of the first rows; what is not one a row is left for the estimator to refuse."""
        assert self.half_life is not None
        factors = decay.factors(self.half_life)
        return factors if given is None else given * factors if given.shape == factors.shape else given

    def _given(self) -> FloatArray:
        """Return the caller's weights of the rows in the window."""
        model = self.estimator_
        if hasattr(model, "_votes"):
            return np.asarray(model._votes.rows.weights)
        return np.asarray(model._state.given_weights)

    # Using the model -------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of the wrapped estimator."""
        return get_tags(self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the window holds rows."""
        return hasattr(self, "estimator_")

    def __getattr__(self, name: str) -> Any:
        """Return a fitted attribute of the model, such as ``certificate_``, or what shows its evidence."""
        if name in _EVIDENCE and "estimator_" in self.__dict__:
            return getattr(self.__dict__["estimator_"], name)
        if name.endswith("_") and not name.startswith("_") and name not in ("estimator_", "times_"):
            if "estimator_" not in self.__dict__:
                raise NotFittedError(f"this Window has no {name!r} yet: call 'fit' first")
            return getattr(self.__dict__["estimator_"], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _model(self) -> Any:
        check_is_fitted(self)
        return self.estimator_

    def predict(self, X: Any) -> Any:
        """Return the label or value of each row, as the estimator does."""
        return self._model().predict(X)

    def score(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return accuracy, or the coefficient of determination for regression, as the estimator does."""
        return float(self._model().score(X, y, sample_weight))

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Return the decision values of each row, as the estimator does."""
        return self._model().decision_function(X)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Return calibrated probabilities of each row, as the estimator does."""
        return self._model().predict_proba(X)
