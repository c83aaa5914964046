"""The search over C and gamma of the squared hinge: each C from the answer of the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from squaresvm.estimators.c_path import solved_at
from squaresvm.linalg.lapack import NotPositiveSemidefiniteError
from squaresvm.models.model import Settings
from squaresvm.models.state import State
from squaresvm.models.train import train
from squaresvm.operators import PrecomputedOperator
from squaresvm.rows import Rows
from squaresvm.search.searching import LooSearch, Searched
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["HingePath", "HingeSearch"]


class HingePath:
    """Values of rows left out of a model with the squared hinge, over C.

    Parameters
    ----------
    rows : Rows
    settings : Settings
        With the gamma of the path; C is not used.
    folds : list of ndarrays or None
        Positions among the rows of positive weight that leave together; None: each row alone.
    K : ndarray of shape (m, m), optional
        The kernel matrix of the rows of positive weight, where it was given.
    """

    def __init__(
        self, rows: Rows, settings: Settings, folds: list[IntArray] | None, K: Matrix | None = None
    ) -> None:
        self._rows, self._settings, self._folds, self._K = rows, settings, folds, K

    def left_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C; None where the problem is not convex."""
        state: State | None = None
        for C in Cs:
            try:
                state = self._first(C) if state is None else solved_at(state, state.problem, C, state)
                yield state.leave_one_out() if self._folds is None else state.without_folds(self._folds)
            except NotPositiveSemidefiniteError:
                state = None  # Its buffers are left as the failure found them.
                yield None

    def _first(self, C: float) -> State:
        operator = None if self._K is None else PrecomputedOperator(np.array(self._K, np.float64))
        return train(self._rows, replace(self._settings, C=C), operator)


class HingeSearch(LooSearch):
    """A search whose cells are solved one after the other.

    There is no decomposition that serves every C, as the squared loss has. But the active set of one C is
    most of that of the next, and that of all rows is most of that without a fold.
    """

    def _walks(self, settings: Settings, X: Matrix) -> bool:
        return False  # Low-rank models of the squared hinge have no values of rows left out by themselves.

    def _paths(self, settings: Settings, given: Searched) -> Any:
        K = given.X if settings.kernel is None else None

        def path(gamma: float | None) -> HingePath:
            return HingePath(
                given.rows, self._in_cell(settings, given.rows, settings.C, gamma), given.folds, K
            )

        return path

    def _at(self, state: State) -> Any:
        """Return the model at another C: the search did not choose it."""
        model = super()._at(state)
        model._search = None
        return model
