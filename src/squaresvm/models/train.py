"""From rows to a trained model: operator, problem, solver, certificate; and who is told how a fit goes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, TextIO

import numpy as np

from squaresvm.family import Loss
from squaresvm.models.model import Known, Settings, warn_unless_converged
from squaresvm.models.ownership import Claim
from squaresvm.models.problems import check_costs, find_classes, make_operator, make_problem, rows_of_weight
from squaresvm.models.state import State
from squaresvm.operators import Operator, ProximalOperator
from squaresvm.rows import Rows
from squaresvm.runtime.progress import Pace, print_line
from squaresvm.solution import Certificate, Solution
from squaresvm.solvers.base import Callback, Progress, Solver
from squaresvm.solvers.choose import choose
from squaresvm.typing import FloatArray

__all__ = [
    "FitListener",
    "FitListeners",
    "FitLog",
    "given_kernel",
    "listening_with",
    "reweighted",
    "same_kernel",
    "train",
]


def train(
    rows: Rows,
    settings: Settings,
    operator: Operator | None = None,
    log: FitListener | None = None,
    claim: Claim | None = None,
    start: Solution | None = None,
) -> State:
    """Return the model of the rows: from rows to operator, problem, solver, certificate.

    Parameters
    ----------
    rows : Rows
    settings : Settings
    operator : Operator, optional
        Where K is at hand already.
    log : FitListener, optional
        Who tells of it.
    claim : Claim, optional
        To the buffers of the operator, where others have used them before.
    start : Solution, optional
        Near the answer, for solvers that search.

    Returns
    -------
    State

    Warns
    -----
    ConvergenceWarning
        If the solver ended before the residual was within tol.
    """
    weights = settings.row_weights(rows.y, rows.weights)
    held = rows_of_weight(weights)
    if weights[held].size == 0:
        raise ValueError("all rows have weight zero: there is nothing to learn from")
    check_costs(settings.C, weights[held], held)
    classes = find_classes(rows.y[held], settings)
    problem = make_problem(rows, settings, classes, operator, in_w=None)
    solver, reason = choose(problem, settings.solver)
    if log is not None:
        log.began(solver.name, reason, problem.targets.shape[1])
        solver = log.listening(solver)
    solution = solver.solve(problem, tol=settings.tol, max_iter=settings.max_iter, start=start)
    if solution.note:
        reason = f"{reason}; {solution.note}"
    state = State(
        settings=settings,
        classes=classes,
        solution=solution,
        solver=solver.name,
        reason=reason,
        rows=rows,
        operator=problem.operator,
        claim=Claim() if claim is None else claim,
        known=Known(problem=problem),
    )
    if settings.proximal:
        _ = state.expansion  # Needs the store as it is now: later requests change it.
    if log is not None:
        log.ended(state.certificate)
    warn_unless_converged(state)
    return state


def reweighted(state: State, factors: FloatArray, claim: Claim) -> State:
    """Return the model of the same rows with the caller's weights times `factors`, fitted anew on the same K.

    Every weight moves, and with them the whole diagonal of H: no update of a factor would be less work. The
    squared hinge goes on from the answer that it has.

    Parameters
    ----------
    state : State
    factors : ndarray of shape (m,)
        Positive.
    claim : Claim
        Made from that of the state.

    Returns
    -------
    State
    """
    rows = state.rows.compact().reweighted(factors)
    is_hinge = state.settings.loss == Loss.SQUARED_HINGE
    start = replace(state.solution, factor=None) if is_hinge else None
    operator = same_kernel(state, rows, state.settings)
    return train(rows, state.settings, operator, claim=claim, start=start)


def same_kernel(state: State, rows: Rows, settings: Settings) -> Operator:
    """Return the operator of the same kernel matrix under other weights."""
    operator = state.by_cost[0][1].problem.operator
    weights = settings.row_weights(rows.y, rows.weights)
    if not np.array_equal(weights > 0, state.weights > 0):
        raise ValueError(
            "the rows of positive weight have changed, and the kernel values of the others were not kept: "
            "fit with the kernel matrix of all rows"
        )
    if isinstance(operator, ProximalOperator):
        return ProximalOperator(operator.inner, weights[weights > 0])
    return operator


def given_kernel(rows: Rows, settings: Settings) -> Operator:
    """Return the operator of a kernel matrix that came as the features of the rows."""
    weights = settings.row_weights(rows.y, rows.weights)
    held = np.flatnonzero(weights > 0)
    return make_operator(rows, held, weights[held], settings)


# Who is told -------------------------------------------------------------------------------------------


class FitListener(Protocol):
    """Who is told how a fit goes."""

    def began(self, solver: str, reason: str, columns: int = 1) -> None:
        """Hear which solver was taken, and why."""
        ...

    def listening(self, solver: Solver) -> Solver:
        """Return the solver with one more who hears of its iterations, where it tells of any."""
        ...

    def ended(self, certificate: Certificate) -> None:
        """Hear what the certificate says."""
        ...


@dataclass(frozen=True)
class FitListeners:
    """Several who are told alike.

    Parameters
    ----------
    members : tuple of FitListener
    """

    members: tuple[FitListener, ...]

    def began(self, solver: str, reason: str, columns: int = 1) -> None:
        """Tell all which solver was taken, and why."""
        for member in self.members:
            member.began(solver, reason, columns)

    def listening(self, solver: Solver) -> Solver:
        """Return the solver with all who hear of its iterations."""
        for member in self.members:
            solver = member.listening(solver)
        return solver

    def ended(self, certificate: Certificate) -> None:
        """Tell all what the certificate says."""
        for member in self.members:
            member.ended(certificate)


def listening_with(solver: Solver, hear: Callback) -> Solver:
    """Return the solver with one more who hears of its iterations, where it tells of any.

    Parameters
    ----------
    solver : Solver
    hear : callable
        Stops the search by returning True, as does the callback that the solver has.
    """
    if "callback" not in getattr(solver, "__dataclass_fields__", {}):
        return solver
    options: Any = solver
    first: Callback | None = options.callback

    def both(progress: Progress) -> bool:
        stops = bool(hear(progress))
        return bool(first is not None and first(progress)) or stops

    heard: Solver = replace(options, callback=both)
    return heard


class FitLog:
    """Tells which solver was taken, how its search goes, and how it ended.

    Parameters
    ----------
    name : str
        Of the estimator.
    verbose : int
        From 2 on every iteration is told; below, at most five a second.
    stream : file, optional
        Where to write; standard error by default.
    """

    def __init__(self, name: str, verbose: int, stream: TextIO | None = None) -> None:
        self.name = name
        self._pace = Pace(0.0) if verbose > 1 else Pace(starts_now=False)
        self._stream = stream
        self._columns = 1

    def began(self, solver: str, reason: str, columns: int = 1) -> None:
        """Tell which solver was taken, and why."""
        self._columns = columns
        self._say(f"squaresvm: {self.name} with solver {solver!r}: {reason}")

    def listening(self, solver: Solver) -> Solver:
        """Return the solver with one more who hears of its iterations, where it tells of any."""
        return listening_with(solver, self._tell)

    def _tell(self, progress: Progress) -> None:
        if not self._pace.is_due():
            return
        which = f"column {progress.column} of targets, " if self._columns > 1 else ""
        self._say(
            f"squaresvm: {which}iteration {progress.iteration}, residual {progress.residual:.1e}, "
            f"objective {progress.objective:.6g}, {progress.seconds:.2f} s"
        )

    def ended(self, certificate: Certificate) -> None:
        """Tell what the certificate says."""
        self._say(f"squaresvm: {certificate}")

    def _say(self, line: str) -> None:
        print_line(line, self._stream)
