"""What a fitted estimator shows of its model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from squaresvm.kernels import KernelFunction
from squaresvm.models.model import Model
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.state import State
from squaresvm.rows import Rows
from squaresvm.solution import Certificate
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["FittedAttributes"]


class FittedAttributes:
    """The attributes of a fitted estimator, read from its state: copies that nobody can write to."""

    kernel: str | KernelFunction
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


def _read_only(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy that cannot be written to: what is written to a copy would be lost in silence."""
    copy = np.array(values, order="C")
    copy.flags.writeable = False
    return copy
