"""One step of learning or forgetting: what every kind of model offers, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from squaresvm.models.drift import Watch
from squaresvm.models.model import Settings, all_positive, positive
from squaresvm.models.problems import encode, features
from squaresvm.operators import Operator, StoredOperator
from squaresvm.problem import Problem
from squaresvm.rows import Rows
from squaresvm.rows.chunks import Features, dropped
from squaresvm.solution import Certificate, Solution
from squaresvm.typing import FloatArray, IntArray, Matrix

if TYPE_CHECKING:
    from squaresvm.models.state import State

__all__ = ["Check", "Coming", "Leaving", "Step", "StepBase"]


@dataclass(frozen=True, eq=False)
class Leaving:
    """Rows of positive weight that leave.

    Parameters
    ----------
    state : State
        With them.
    rest : Rows
        All other rows.
    positions : ndarray
        Where those that leave stand among the rows held, sorted.
    weights : ndarray
        Sample weight times class weight of the rest.
    classes : ndarray or None
        Of the rest; the very same array as the state's where none is lost.
    settings : Settings
        Of the rest: without the weights of classes that are lost.
    """

    state: State
    rest: Rows
    positions: IntArray
    weights: FloatArray
    classes: np.ndarray[Any, Any] | None
    settings: Settings

    @property
    def same_classes(self) -> bool:
        """Whether no class is lost."""
        return self.classes is self.state.classes

    @cached_property
    def held(self) -> IntArray:
        """Where the rows of the new problem stand among the rest."""
        return positive(self.weights)

    @cached_property
    def gone(self) -> IntArray:
        """Where the rows that leave stand in the old problem."""
        state = self.state
        everyone = all_positive(state.weights)
        return self.positions if everyone else np.searchsorted(state.held, self.positions)

    @property
    def targets(self) -> FloatArray:
        """Targets of the new problem."""
        if self.same_classes:
            return np.asarray(dropped(self.state.problem.targets, self.gone))
        return encode(self.rest.y[self.held], self.classes)

    @property
    def X(self) -> Features:
        """Features of the new problem; in chunks for whoever holds K, and may never need them whole."""
        stored = isinstance(self.state.problem.operator, StoredOperator)
        in_chunks = stored and all_positive(self.weights)
        return self.rest.features if in_chunks else features(self.rest, self.held)


@dataclass(frozen=True, eq=False)
class Coming:
    """Rows that come, some of them of positive weight.

    Parameters
    ----------
    state : State
        Without them.
    rows : Rows
        Held and new ones.
    added : Rows
        The new ones alone.
    all_weights : ndarray
        Sample weight times class weight of the new rows.
    classes : ndarray or None
        Of all; the very same array as the state's where none is new.
    settings : Settings
        Of all: with the weights of classes that come.
    kernel_values : ndarray or None
        Of the new rows with all rows, where the kernel is precomputed.
    """

    state: State
    rows: Rows
    added: Rows
    all_weights: FloatArray
    classes: np.ndarray[Any, Any] | None
    settings: Settings
    kernel_values: Matrix | None

    @property
    def same_classes(self) -> bool:
        """Whether no class is new."""
        return self.classes is self.state.classes

    @cached_property
    def counted(self) -> IntArray:
        """Which of the new rows have positive weight."""
        return np.flatnonzero(self.all_weights > 0)

    @property
    def weights(self) -> FloatArray:
        """Weights of the new rows of positive weight."""
        return self.all_weights[self.counted]

    @cached_property
    def held(self) -> IntArray:
        """Where the rows of the new problem stand among all rows."""
        return np.concatenate([self.state.held, self.state.rows.count + self.counted])

    @property
    def targets(self) -> FloatArray:
        """Targets of the new problem."""
        return encode(self.rows.y[self.held], self.classes)

    @property
    def X(self) -> Matrix:
        """Features of the new problem; with a precomputed kernel, the new rows' kernel values with all."""
        if self.kernel_values is None:
            return features(self.rows, self.held)
        return self.kernel_values[self.counted][:, self.held]


@dataclass(frozen=True)
class Check:
    """What was found of the residual.

    Parameters
    ----------
    residual : float
    checked : int
        How many numbers it was taken from.
    sampled : bool
        Whether these are random combinations of all rows; else they are the rows themselves.
    """

    residual: float
    checked: int
    sampled: bool


class Step(Protocol):
    """A model on its way from one set of rows to the next.

    After `learn` or `forget` it has the new solution; `problem` is None where nobody needed the new rows in
    one place. `check` takes the residual and mends what has drifted.
    """

    problem: Problem | None
    solution: Solution
    solver: str
    reason: str
    refactored: bool
    requests: int
    watch: Watch | None
    certificate: Certificate | None

    def forget(self, leaving: Leaving) -> None:
        """Go to the rows without those that leave."""
        ...

    def learn(self, coming: Coming) -> None:
        """Go to the rows held and new ones."""
        ...

    def check(self, verify: bool) -> Check:
        """Return the residual; of all rows, one by one, where `verify` asks for it."""
        ...

    def wipe(self) -> None:
        """Overwrite what buffers hold of rows that left: the new state is in place."""
        ...


def _nothing() -> None:
    """Do nothing."""


class StepBase:
    """What the steps of models that reach K share: the old state, the new problem, the new solution."""

    solver = ""

    def __init__(self, state: State) -> None:
        self.state = state
        self.problem: Problem | None = state.problem
        self.solution = state.current_solution
        self.reason = state.reason
        self.refactored = False
        self.requests = state.requests
        self.watch: Watch | None = None
        self.certificate: Certificate | None = None
        self._wipe: Callable[[], None] = _nothing

    @property
    def now(self) -> Problem:
        """The problem that the step has come to."""
        assert self.problem is not None
        return self.problem

    def wipe(self) -> None:
        """Overwrite what buffers hold of rows that left."""
        self._wipe()

    def _go(self, operator: Operator, targets: FloatArray, costs: FloatArray) -> None:
        self.problem = Problem(operator, targets, costs, self.now.loss, self.now.bias)

    def _joined_costs(self, weights: FloatArray) -> FloatArray:
        return np.concatenate([self.now.costs, self.state.settings.C * weights])

    @property
    def _operator(self) -> StoredOperator:
        operator = self.now.operator
        assert isinstance(operator, StoredOperator)
        return operator

    def check(self, verify: bool) -> Check:
        """Return the residual of all rows."""
        self.certificate = self.now.certify(self.solution, self.state.settings.tol)
        return Check(self.certificate.residual, self.now.n_rows, False)

    def _tell(self, what: str) -> None:
        """Say in `reason` what was done in this request, beside what was asked for at fit."""
        asked = self.state.settings.solver
        name = asked if isinstance(asked, str) else asked.name
        by_name = "" if name in ("auto", self.solver) else f"; {name!r} was asked for, and did the fit"
        self.reason = f"{what}{by_name}"
