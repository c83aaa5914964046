"""What every solver offers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from squaresvm.problem import Problem, columns_of
from squaresvm.runtime.arguments import check_flag, check_integer
from squaresvm.solution import Outcome, Solution
from squaresvm.typing import FloatArray

__all__ = [
    "Callback",
    "Monitor",
    "Progress",
    "Solver",
    "by_column",
    "check_callback",
    "check_memory",
    "ended",
    "origin",
    "tell",
]


class Solver(Protocol):
    """A way to reach the solution of the problems that it declares."""

    @property
    def name(self) -> str:
        """What it is called in ``solver=``."""
        ...

    @property
    def solves(self) -> str:
        """The problems that it solves, in words."""
        ...

    def accepts(self, problem: Problem) -> bool:
        """Return whether the problem is one of those."""
        ...

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return a solution; from `start`, where one is given and of use."""
        ...


def check_callback(callback: Any, trace: Any) -> None:
    """Raise a ValueError unless both are usable."""
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a callable or None; got {callback!r}")
    check_flag("trace", trace)


def check_memory(memory: Any) -> int:
    """Return the bytes that kernel rows may take."""
    return check_integer("memory", memory, 1)


class Progress(NamedTuple):
    """Where a solver stands after an iteration: what callbacks are told, and what a trace consists of.

    Every solver that iterates takes ``callback=``, which is called with one of these after each iteration
    and stops the search by returning True, and ``trace=True``, which keeps them all in ``trace_`` of the
    estimator.

    Parameters
    ----------
    iteration : int
        Counted from 1, anew for each column of targets.
    objective : float
        Primal objective of the iterate.
    residual : float
        Residual of the iterate, as the certificate measures it, in the solver's own arithmetic.
    seconds : float
        Since the solver started.
    balance : float
        1'beta, that is lambda'y of the papers: what a free bias asks to vanish.
    column : int
        Which column of targets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> from squaresvm.solvers import Sumt
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVC(solver=Sumt(trace=True)).fit(X, y == 0)
    >>> [entry.iteration for entry in model.trace_] == list(range(1, model.n_iter_ + 1))
    True
    >>> abs(model.trace_[-1].balance) < abs(model.trace_[0].balance)
    True
    """

    iteration: int
    objective: float
    residual: float
    seconds: float
    balance: float
    column: int


#: Called after each iteration; the solver stops where it returns True.
Callback: TypeAlias = Callable[[Progress], bool | None]


class Monitor:
    """Keeps the trace where one was asked for, and asks the callback whether to stop.

    Parameters
    ----------
    callback : callable, optional
    trace : bool, default=False

    Attributes
    ----------
    stopped : bool
        Whether the callback has asked to stop.
    """

    def __init__(self, callback: Callback | None = None, trace: bool = False) -> None:
        self.stopped = False
        self.column = 0
        self._callback = callback
        self._kept: list[Progress] | None = [] if trace else None
        self._started = time.perf_counter()

    @property
    def listens(self) -> bool:
        """Whether anybody wants to know: else objectives need not be computed."""
        return self._callback is not None or self._kept is not None

    @property
    def trace(self) -> tuple[Progress, ...] | None:
        """What was told so far; None where no trace was asked for."""
        return None if self._kept is None else tuple(self._kept)

    def tell(self, iteration: int, objective: float, residual: float, balance: float = 0.0) -> bool:
        """Note an iteration; return whether to stop."""
        seconds = time.perf_counter() - self._started
        progress = Progress(iteration, objective, residual, seconds, balance, self.column)
        if self._kept is not None:
            self._kept.append(progress)
        if self._callback is not None and self._callback(progress):
            self.stopped = True
        return self.stopped


def origin(problem: Problem) -> Solution:
    """Return the multipliers zero: where to start where nothing else is known."""
    return Solution(beta=np.zeros(problem.targets.shape), bias=np.zeros(problem.n_columns))


def by_column(
    problem: Problem,
    start: Solution | None,
    monitor: Monitor,
    solve: Callable[[Problem, Solution | None], Solution],
) -> Solution:
    """Return the solution of all columns of targets, one after the other.

    Parameters
    ----------
    problem : Problem
    start : Solution, optional
    monitor : Monitor
        Is told which column is solved. Once it has stopped, `solve` is called all the same, and returns
        where it would begin.
    solve : callable
        Given the problem of one column, and its column of `start` in multipliers; None where there is none.
    """
    beta = None if start is None else problem.multipliers(start)
    found = []
    for index in range(problem.n_columns):
        monitor.column = index
        first = None
        if start is not None and beta is not None:
            first = Solution(beta=beta[:, [index]], bias=start.bias[[index]])
        found.append(solve(problem.column(index), first))
    return columns_of(found, monitor.trace)


def tell(
    problem: Problem, beta: FloatArray, b: float, gradient: FloatArray, iteration: int, monitor: Monitor
) -> bool:
    """Tell the monitor of an iterate whose r is known; return whether to stop."""
    if not monitor.listens:
        return False
    solution = Solution(beta=beta[:, None], bias=np.array([b]))
    decision = (gradient + problem.targets[:, 0] - problem.ridge * beta)[:, None]
    residual = float(problem.residual_at(solution, decision, np.arange(beta.size))[0])
    objective = float(problem.objective_at(solution, decision)[0])
    return monitor.tell(iteration, objective, residual, float(beta.sum()))


def ended(beta: FloatArray, b: float, n_iter: int, reached: bool, monitor: Monitor) -> Solution:
    """Return the solution of one column, with how its search ended."""
    outcome = Outcome.FINISHED if reached else Outcome.MAX_ITER
    if monitor.stopped:
        outcome = Outcome.STOPPED
    return Solution(beta=beta[:, None], bias=np.array([b]), n_iter=n_iter, outcome=outcome)
