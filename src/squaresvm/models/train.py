"""From rows to a trained model: operator, problem, solver, certificate."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from squaresvm.models.fit_log import Teller
from squaresvm.models.model import Model, Settings
from squaresvm.models.ownership import Claim
from squaresvm.models.problems import check_costs, find_classes, make_operator, rows_of_weight
from squaresvm.models.state import Known, State
from squaresvm.operators import Operator
from squaresvm.rows import Rows
from squaresvm.solution import Solution, Status
from squaresvm.solvers.choose import choose

__all__ = ["train", "warn_unless_converged"]


def train(
    rows: Rows, settings: Settings, operator: Operator | None = None, teller: Teller | None = None
) -> State:
    """Return the model of the rows: from rows to operator, problem, solver, certificate.

    Parameters
    ----------
    rows : Rows
    settings : Settings
    operator : Operator, optional
        Where K is at hand already.
    teller : Teller, optional
        Who tells of it.

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
    if operator is None:
        operator = make_operator(rows, held, weights[held], settings)
    unsolved = State(rows, settings, classes, Solution(bias=np.empty(0)), "", "", operator)
    problem = unsolved.problem
    solver, reason = choose(problem, settings.solver)
    if teller is not None:
        teller.began(solver.name, reason, problem.targets.shape[1])
        solver = teller.listening(solver)
    solution = solver.solve(problem, tol=settings.tol, max_iter=settings.max_iter)
    if solution.note:
        reason = f"{reason}; {solution.note}"
    state = State(rows, settings, classes, solution, solver.name, reason, operator)
    state.__dict__["problem"] = problem  # The cache of the property: it has been built above.
    if settings.proximal:
        _ = state.expansion  # Needs the store as it is now: later requests change it.
    if teller is not None:
        teller.ended(state.certificate)
    warn_unless_converged(state)
    return state


def warn_unless_converged(state: State) -> None:
    """Raise a ConvergenceWarning where the solver ended above tol."""
    certificate = state.certificate
    if certificate.status is Status.MAX_ITER:
        warnings.warn(
            f"solver {state.solver!r} ended with {certificate}: {certificate.status.advice}",
            ConvergenceWarning,
            stacklevel=4,
        )
