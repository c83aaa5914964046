"""What every solver offers, and what those that iterate share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from squaresvm.problem import Loss, Problem, columns_of
from squaresvm.runtime.arguments import check_flag, check_integer
from squaresvm.runtime.resources import in_order
from squaresvm.solution import Outcome, Solution
from squaresvm.typing import FloatArray

__all__ = [
    "MEMORY",
    "Callback",
    "Crawling",
    "FreeBiasSolver",
    "IterativeSolver",
    "Monitor",
    "Progress",
    "RowSolver",
    "Solver",
    "balanced",
    "by_column",
    "ended",
    "first_multipliers",
    "origin",
    "size_of_targets",
    "tell",
]

#: Bytes for rows of K where K is not held.
MEMORY = 2**30
#: Single updates crawl where this many sweeps leave more than this share of the residual.
_PATIENCE, _LEFT = 30, 0.1


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


@dataclass(frozen=True, kw_only=True)
class IterativeSolver:
    """A solver that tells of its iterations, see `Progress`."""

    callback: Callback | None = None
    trace: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be a callable or None; got {self.callback!r}")
        check_flag("trace", self.trace)

    def _monitor(self) -> Monitor:
        return Monitor(self.callback, self.trace)


@dataclass(frozen=True, kw_only=True)
class RowSolver(IterativeSolver):
    """One that needs a row of K at a time, and keeps as many as `memory` bytes hold."""

    memory: int = MEMORY

    by_rows = True

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_integer("memory", self.memory, 1)


class FreeBiasSolver:
    """One of the relaxed paper's ways to a free bias."""

    solves = "the squared loss with a free bias"

    def accepts(self, problem: Problem) -> bool:
        """Return whether the loss is the squared one and the bias free."""
        return problem.loss == Loss.SQUARED and problem.bias.is_free


class Monitor:
    """Keeps the trace where one was asked for, and asks the callback whether to stop.

    Attributes
    ----------
    stopped : bool
        Whether the callback has asked to stop.
    column : int
        Which column of targets is solved, the first of them where several are solved at once.
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

    def tell(
        self, iteration: int, objective: npt.ArrayLike, residual: npt.ArrayLike, balance: npt.ArrayLike = 0.0
    ) -> bool:
        """Note an iteration, of one column or of several; return whether to stop."""
        seconds = time.perf_counter() - self._started
        of_columns = np.broadcast_arrays(*(np.atleast_1d(value) for value in (objective, residual, balance)))
        for column, (its, left, total) in enumerate(np.transpose(of_columns).tolist(), start=self.column):
            progress = Progress(iteration, its, left, seconds, total, column)
            if self._kept is not None:
                self._kept.append(progress)
            if self._callback is not None and self._callback(progress):
                self.stopped = True
        return self.stopped


class Crawling:
    """Tells, sweep by sweep, whether single updates get anywhere.

    Parameters
    ----------
    patience : int, default=30
        Sweeps over which the residual has to fall to a tenth.
    """

    def __init__(self, patience: int = _PATIENCE) -> None:
        self._patience = patience
        self._residuals: list[float] = []

    def after(self, residual: float) -> bool:
        """Note the residual after a sweep; return whether the last ones crawled, and begin anew if so."""
        self._residuals.append(residual)
        if len(self._residuals) <= self._patience:
            return False
        crawls = residual > _LEFT * self._residuals.pop(0)
        if crawls:
            self._residuals.clear()
        return crawls


def origin(problem: Problem) -> Solution:
    """Return the multipliers zero: where to start where nothing else is known."""
    return Solution(beta=np.zeros(problem.targets.shape), bias=np.zeros(problem.n_columns))


def first_multipliers(problem: Problem, start: Solution | None) -> FloatArray:
    """Return a copy of the multipliers of one column to start from; zeros where there are none."""
    if start is None:
        return np.zeros(problem.n_rows)
    return np.array(problem.multipliers(start)[:, 0])


def size_of_targets(problem: Problem) -> float:
    """Return what residuals of the squared loss are measured by, max |y|; never zero."""
    return float(max(np.abs(problem.targets).max(), np.finfo(float).tiny))


def balanced(beta: FloatArray, tol: float) -> bool:
    """Return whether 1'beta vanishes, (40) of the relaxed paper, as the certificate measures it."""
    return abs(float(beta.sum())) <= tol * float(np.abs(beta).sum())


def by_column(
    problem: Problem,
    start: Solution | None,
    monitor: Monitor,
    solve: Callable[[Problem, Solution | None], Solution],
    on_threads: bool = False,
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
    on_threads : bool, default=False
        Whether columns may be solved side by side, as long as nobody listens.
    """
    beta = None if start is None else problem.multipliers(start)

    def column(index: int) -> Solution:
        monitor.column = index
        first = None
        if start is not None and beta is not None:
            first = Solution(beta=beta[:, [index]], bias=start.bias[[index]])
        return solve(problem.column(index), first)

    jobs = [partial(column, index) for index in range(problem.n_columns)]
    side_by_side = on_threads and len(jobs) > 1 and not monitor.listens
    return columns_of(list(in_order(iter(jobs))) if side_by_side else [job() for job in jobs], monitor.trace)


def tell(
    problem: Problem,
    beta: FloatArray,
    b: float | FloatArray,
    gradient: FloatArray,
    iteration: int,
    monitor: Monitor,
) -> bool:
    """Tell the monitor of multipliers whose r is known, of shape (m,) or (m, k); return whether to stop."""
    if not monitor.listens:
        return False
    beta, gradient = beta.reshape(problem.targets.shape), gradient.reshape(problem.targets.shape)
    solution = Solution(beta=beta, bias=np.atleast_1d(b))
    decision = gradient + problem.targets - problem.ridge[:, None] * beta
    residual = problem.residual_at(solution, decision, np.arange(problem.n_rows))
    objective = problem.objective_at(solution, decision)
    return monitor.tell(iteration, objective, residual, beta.sum(axis=0))


def ended(beta: FloatArray, b: float, n_iter: int, reached: bool, monitor: Monitor) -> Solution:
    """Return the solution of one column, with how its search ended."""
    outcome = Outcome.FINISHED if reached else Outcome.MAX_ITER
    if monitor.stopped:
        outcome = Outcome.STOPPED
    return Solution(beta=beta[:, None], bias=np.array([b]), n_iter=max(n_iter, 1), outcome=outcome)
