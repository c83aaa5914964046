"""A model as it stands at one moment, for everybody who only asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from squaresvm.estimators.requests import Updating
from squaresvm.models.outputs import as_flat, labels_of
from squaresvm.models.state import State
from squaresvm.readers.preparation import Preparation, PreparedRows
from squaresvm.serve.rows import columns_of
from squaresvm.typing import FloatArray

__all__ = ["Answer", "View"]


@dataclass(frozen=True, eq=False)
class Answer:
    """What a model says of rows.

    Parameters
    ----------
    labels : ndarray of shape (rows,)
        Labels, or values of a regression.
    decision : ndarray of shape (rows,) or (rows, classes), or None
        None for regression.
    """

    labels: np.ndarray[Any, Any]
    decision: FloatArray | None

    def part(self, start: int, stop: int) -> Answer:
        """Return what is said of some of the rows."""
        decision = None if self.decision is None else self.decision[start:stop]
        return Answer(self.labels[start:stop], decision)


@dataclass(frozen=True, eq=False)
class View:
    """A model that no request changes any more: whoever has it sees all of a request or nothing.

    Parameters
    ----------
    estimator : estimator
        A copy that shares the frozen state of the model.
    preparation : Preparation or None
        How records become rows.
    number : int
        Of the last request that is in it; 0 where that is none since the file was put there.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> from squaresvm.serve.view import View
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVC().fit(X, y)
    >>> view = View.of(model, 0)
    >>> receipt = model.forget(range(50))
    >>> view.classes.tolist(), model.classes_.tolist(), int(view.answer(X[:1]).labels[0])
    ([0, 1, 2], [1, 2], 0)
    """

    estimator: Any
    preparation: Preparation | None
    number: int

    @classmethod
    def of(cls, model: Any, number: int) -> View:
        """Return the model as it is now. Nobody may change it meanwhile."""
        if not isinstance(model, Updating):
            return cls(model, None, number)
        preparation = columns_of(model)
        frozen = model._copy()
        # Columns are put in order by their names here: rows without names are right from then on.
        frozen.__dict__.pop("feature_names_in_", None)
        view = cls(frozen, preparation, number)
        if view.holds_rows and frozen._state.settings.kernel is not None:
            # What predictions need is computed now, while the buffers are still those of this state.
            view.answer(np.zeros((1, view.width)))
        return view

    @property
    def holds_rows(self) -> bool:
        """Whether the model has its rows, so that it learns, forgets and judges itself."""
        return isinstance(self.estimator, Updating) and isinstance(self.estimator._state, State)

    @property
    def can_change(self) -> bool:
        """Whether rows can be learned and forgotten through requests."""
        return self.holds_rows and self.estimator._state.settings.kernel is not None

    @property
    def width(self) -> int:
        """Columns that rows must have."""
        return int(self.estimator.n_features_in_)

    @property
    def rows(self) -> int | None:
        """Rows held; None where the model keeps none."""
        return int(self.estimator._state.rows.count) if self.holds_rows else None

    @property
    def classes(self) -> np.ndarray[Any, Any] | None:
        """Labels that it knows; None for regression."""
        found: np.ndarray[Any, Any] | None = getattr(self.estimator, "classes_", None)
        return found

    @property
    def has_probabilities(self) -> bool:
        """Whether it gives probabilities."""
        return hasattr(self.estimator, "predict_proba")

    def answer(self, X: FloatArray) -> Answer:
        """Return what the model says of rows, which have been prepared."""
        X = np.asarray(X).view(PreparedRows)
        if not isinstance(self.estimator, Updating):
            return Answer(np.asarray(self.estimator.predict(X)), None)
        state = self.estimator._state
        if state.classes is None:
            return Answer(np.asarray(self.estimator.predict(X)), None)
        decision = self.estimator._decision(state, X)
        return Answer(labels_of(state, decision), as_flat(decision))
