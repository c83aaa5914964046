"""From rows to a trained model: operator, problem, solver, certificate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from squaresvm.family import Loss
from squaresvm.models.fit_log import FitListener
from squaresvm.models.model import Known, Settings, warn_unless_converged
from squaresvm.models.ownership import Claim
from squaresvm.models.problems import check_costs, find_classes, make_operator, make_problem, rows_of_weight
from squaresvm.models.state import State
from squaresvm.operators import Operator, ProximalOperator
from squaresvm.rows import Rows
from squaresvm.solution import Solution
from squaresvm.solvers.choose import choose
from squaresvm.typing import FloatArray

__all__ = ["given_kernel", "reweighted", "same_kernel", "train"]


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
    operator = state.problem.operator
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
