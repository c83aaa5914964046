"""What a fitted estimator shows of its model, and says of the rows of a source."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from squaresvm.kernels import KernelFunction
from squaresvm.models.model import Model
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.state import State
from squaresvm.rows import Rows
from squaresvm.solution import Certificate
from squaresvm.streaming import Block, Source
from squaresvm.streaming.output import check_out, write_blocks
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["FittedAttributes", "refuse_out"]

T = TypeVar("T")


class FittedAttributes:
    """The attributes of a fitted estimator, read from its state: copies that nobody can write to."""

    kernel: str | KernelFunction
    n_features_in_: int
    _state: Model

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return "_state" in self.__dict__

    def _current(self) -> Model:
        check_is_fitted(self)
        return self._state

    def _holding(self, what: str) -> State:
        """Return the model as it is now, with its rows; a ValueError says that `what` needs them."""
        return self._current().holding(what)

    def _fitted(self, attribute: str) -> Model:
        try:
            state: Model = self.__dict__["_state"]
        except KeyError:
            raise NotFittedError(
                f"this {type(self).__name__} has no {attribute!r} yet: call 'fit' first"
            ) from None
        return state

    @property
    def support_(self) -> IntArray:
        """Positions, among the rows held, of the rows that the decision function uses."""
        return _read_only(self._fitted("support_").attribute("support"))

    @property
    def support_vectors_(self) -> Matrix:
        """The rows that the decision function uses; empty with a precomputed kernel."""
        state = self._fitted("support_vectors_")
        if state.settings.kernel is None:
            return np.empty((0, 0))
        support: IntArray = state.attribute("support")
        rows: Rows = state.attribute("rows")
        return rows.take(support)

    @property
    def dual_coef_(self) -> FloatArray:
        """Signed multipliers of the support vectors, of shape (1 or n_classes, n_support)."""
        return _read_only(self._fitted("dual_coef_").attribute("dual_coef"))

    @property
    def intercept_(self) -> FloatArray:
        """The bias b, of shape (1 or n_classes,)."""
        return _read_only(self._fitted("intercept_").solution.bias)

    @property
    def coef_(self) -> FloatArray:
        """The vector w, of shape (1 or n_classes, n_features); linear kernels only."""
        primal = self._fitted("coef_").primal
        if primal is None:
            raise AttributeError("coef_ exists only with kernel='linear'")
        return _read_only(primal.T)

    @property
    def n_iter_(self) -> int:
        """Iterations of the solver."""
        return self._fitted("n_iter_").solution.n_iter

    @property
    def solver_(self) -> str:
        """Name of the solver that was used."""
        return self._fitted("solver_").solver

    @property
    def solver_reason_(self) -> str:
        """Why that solver was used."""
        return self._fitted("solver_reason_").reason

    @property
    def certificate_(self) -> Certificate:
        """How far the fit is from the optimum."""
        with REQUESTS:
            return self._fitted("certificate_").certificate

    @property
    def trace_(self) -> tuple[Any, ...]:
        """What the solver told of each iteration, where it was asked to by ``trace=True``."""
        trace = self._fitted("trace_").solution.trace
        if trace is None:
            raise AttributeError("trace_ exists only with a solver that keeps it: TwoSmo(trace=True) does")
        return trace

    @property
    def ids_(self) -> np.ndarray[Any, Any]:
        """Id of each row held, in the order in which they are held."""
        rows: Rows = self._fitted("ids_").attribute("rows")
        values = rows.ids.values.view()
        values.flags.writeable = False
        return values

    @property
    def gamma_(self) -> float:
        """The number that gamma stood for at fit."""
        kernel = self._fitted("gamma_").settings.kernel
        if kernel is None or kernel.function == "linear" or callable(kernel.function):
            raise AttributeError(f"kernel={self.kernel!r} has no gamma")
        return kernel.gamma

    @property
    def C_(self) -> Any:
        """The C of the fit; where targets have C of their own, of each of them."""
        return self._fitted("C_").C

    # What it says of a source -----------------------------------------------------------------------

    def _said(
        self,
        source: Source,
        task: Callable[[Block], np.ndarray[Any, Any]],
        out: str | os.PathLike[str] | None,
        name: str,
        labels: Iterable[Hashable] = (),
    ) -> Iterator[np.ndarray[Any, Any]] | Path:
        """Return what a task says of each block of a source; where it was written, if it was to be.

        A file has a column named `name`, or one named so for each label.
        """
        if out is None:
            return self._over_source(source, task)
        path, names = check_out(out), tuple(f"{name}_{label}" for label in labels) or (name,)
        return write_blocks(self._over_source(source, task), path, names)

    def _over_source(self, source: Source, task: Callable[[Block], T]) -> Iterator[T]:
        """Make a pass over a source with a task that decides on its blocks."""
        if source.n_features != self.n_features_in_:
            raise ValueError(
                f"the source has {source.n_features} features, but the model was fitted on "
                f"{self.n_features_in_}"
            )
        names = getattr(self, "feature_names_in_", None)
        if names is not None and source.feature_names is not None and tuple(names) != source.feature_names:
            place = next(i for i, name in enumerate(source.feature_names) if name != names[i])
            raise ValueError(
                f"feature {place} of the source is {source.feature_names[place]!r}, but the model was fitted "
                f"on {names[place]!r} there: give the columns in the order of the fit"
            )
        return source.map(task)


def refuse_out(out: object) -> None:
    """Raise unless nothing is to be written: rows in memory have their answer in memory."""
    if out is not None:
        raise ValueError("out can be given only with a source: save the array that is returned")


def _read_only(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy that cannot be written to: what is written to a copy would be lost in silence."""
    copy = np.array(values, order="C")
    copy.flags.writeable = False
    return copy
