"""Leave-one-out values: f(x_i) of the model without row i, for all rows from one fit.

For the squared loss, with N the inverse of the bordered matrix of the fit,

    y_i - f^(-i)(x_i) = beta_i / N_ii                                                                    (1)

exactly. For the squared hinge, (1) on the active set is exact where the set stays as it is without row i
(`fixed_set`); it mostly does not, and then only a warm re-solve is exact (`leave_one_out`).

Of wide sparse rows, for which no m x m or n x n numbers are formed, N_ii comes by conjugate gradients, with a
bound on how far it may be off: see `InverseByProducts`.

Where the last row of a class leaves, the others are of one class. That is a problem like any other where the
bias is penalised or absent. With a free bias its optimum is w = 0 and any b with y b >= 1, all of objective
zero; the value is the label of the others, b = y: the limit of the optima with a penalised bias as A goes to
zero, and what (1) on the active set says too, since equalities of one class have w = 0 and b = y.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from squaresvm.factors import CholeskyFactor, Moments, MomentsFactor
from squaresvm.judging.by_products import InverseByProducts
from squaresvm.judging.left_out import column_starts, left_out
from squaresvm.operators import ProximalOperator
from squaresvm.problem import Loss, Problem
from squaresvm.problem.products import is_large
from squaresvm.runtime.resources import row_blocks
from squaresvm.solution import Solution
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["Cost", "fixed_set", "leave_one_out", "leave_one_out_at_cost"]

#: Share of tol to which N_ii is known of rows that have no factor, and for values not exact anyway.
_SHARE, _ROUGHLY = 0.1, 1e-6


@dataclass(frozen=True)
class Cost:
    """What leave-one-out values took.

    Parameters
    ----------
    resolved : int
        Problems that were solved again without a row, over all classes: none for the squared loss.
    steps : int
        Steps of the solver that these took.
    seconds : float
        Wall-clock time of it all.
    """

    resolved: int
    steps: int
    seconds: float


def leave_one_out(problem: Problem, solution: Solution, tol: float) -> FloatArray:
    """Return f(x_i) of the model without row i, exactly: `leave_one_out_at_cost` without the cost."""
    return leave_one_out_at_cost(problem, solution, tol)[0]


def leave_one_out_at_cost(problem: Problem, solution: Solution, tol: float) -> tuple[FloatArray, Cost]:
    """Return f(x_i) of the model without row i, exactly, and what that took.

    Parameters
    ----------
    problem : Problem
    solution : Solution
        Its optimum.
    tol : float
        Bound on the residual of the re-solves that the squared hinge needs; where there is no factor, a tenth
        of it on what y - f may be off, relative to itself.

    Returns
    -------
    values : ndarray of shape (m, k)
    cost : Cost
    """
    if problem.n_rows < 2:
        raise ValueError("leaving one row out needs at least two rows of positive weight")
    begin, steps = time.perf_counter(), list[int]()
    if problem.loss == Loss.SQUARED:
        values = _squared(problem, solution, _SHARE * tol)
    else:
        values = _by_column(problem, solution, lambda column, start: _resolved(column, start, tol, steps))
    return values, Cost(len(steps), sum(steps), time.perf_counter() - begin)


def _squared(problem: Problem, solution: Solution, accuracy: float) -> FloatArray:
    """Return the values for the squared loss, by (1)."""
    if isinstance(problem.operator, ProximalOperator):
        return _without_landmark(problem, solution)
    beta = problem.multipliers(solution)
    return problem.targets - beta / _diag_inverse(problem, solution, accuracy)[:, None]


def fixed_set(problem: Problem, solution: Solution) -> FloatArray:
    """Return f(x_i) of the model without row i, with the active set of the squared hinge held fixed.

    Exact where the set stays, and good enough for calibration elsewhere.

    Parameters
    ----------
    problem : Problem
    solution : Solution

    Returns
    -------
    ndarray of shape (m, k)
    """
    return _by_column(problem, solution, _fixed)


def _by_column(
    problem: Problem, solution: Solution, values: Callable[[Problem, Solution], FloatArray]
) -> FloatArray:
    starts = column_starts(problem, solution)
    return np.column_stack([values(problem.column(j), start) for j, start in enumerate(starts)])


def _diag_inverse(problem: Problem, solution: Solution, accuracy: float) -> FloatArray:
    """Return the diagonal of N, rows only."""
    Z = problem.operator.features
    if Z is None:
        return CholeskyFactor.current(solution.factor, problem).diag_inverse()
    if is_large(Z):
        return InverseByProducts(Z, problem.costs, problem.bias).diagonal(accuracy)
    leverage = MomentsFactor.current(solution.factor, problem).leverage(Z)
    return problem.costs * (1.0 - problem.costs * leverage)


def _fixed(problem: Problem, start: Solution) -> FloatArray:
    """Return the values of one column with the set fixed."""
    values = problem.decision(start)[:, 0]
    assert start.beta is not None
    active = start.beta[:, 0] != 0.0
    if not active.any():
        return values
    rows, diagonal = np.flatnonzero(active), _set_diag_inverse(problem, active)
    # A set of one row with a free bias has nothing left without it: f stays as it is.
    usable = diagonal > 0
    rows, diagonal = rows[usable], diagonal[usable]
    values[rows] = problem.targets[rows, 0] - start.beta[rows, 0] / diagonal
    last = _last_of_class(problem)
    values[last] = -problem.targets[last, 0]
    return values


def _last_of_class(problem: Problem) -> BoolArray:
    """Return the rows without which a free bias has rows of one class only, in one column of targets."""
    positive = problem.targets[:, 0] > 0.0
    last = np.zeros(problem.n_rows, dtype=bool)
    for side in (positive, ~positive):
        if problem.bias.is_free and side.sum() == 1 and problem.n_rows > 1:
            last |= side
    return last


def _set_diag_inverse(problem: Problem, active: BoolArray) -> FloatArray:
    """Return the diagonal of N of the active rows alone."""
    Z = problem.operator.features
    if Z is None:
        system = EqualitySystem(problem)
        system.solve(active, 0.0)
        return system.diag_inverse()
    costs = problem.costs[active]
    if is_large(Z):
        return InverseByProducts(Z[active], costs, problem.bias).diagonal(_ROUGHLY)
    factor = MomentsFactor(Moments.of(Z[active], costs, problem.targets[active]), problem.bias)
    return costs * (1.0 - costs * factor.leverage(Z[active]))


def _resolved(problem: Problem, start: Solution, tol: float, steps: list[int]) -> FloatArray:
    """Return the values of one column, exactly: by a warm re-solve for each row of the active set.

    The steps of each are put to `steps`.
    """
    values = problem.decision(start)[:, 0]
    assert start.beta is not None
    last = _last_of_class(problem)
    values[last] = -problem.targets[last, 0]
    rows = np.flatnonzero((start.beta[:, 0] != 0.0) & ~last)
    if rows.size:
        without = left_out(problem, start, tol, steps)
        for row in rows:
            values[row] = without.values(np.array([row]))[0, 0]
    return values


def _without_landmark(problem: Problem, solution: Solution) -> FloatArray:
    """Return the values of the nonlinear proximal SVM, where row i is a landmark too.

    After (1), H of the others loses w_i v v' with v = K[rest, i]; by the Woodbury identity

        s'' = s' + N'v (v's') / (1/w_i - v'N'v),    N' = N - N_i N_i' / N_ii                               (2)
    """
    operator, beta = problem.operator, solution.beta
    assert isinstance(operator, ProximalOperator)
    assert beta is not None
    factor = CholeskyFactor.current(solution.factor, problem)
    m = problem.n_rows
    everyone, values = np.arange(m), np.empty_like(beta)
    for part in row_blocks(m, m):
        own = everyone[part]
        place = (own, np.arange(own.size))
        unit = np.zeros((m, own.size))
        unit[place] = 1.0
        n, n_border = factor.bordered(unit)
        pivot = n[place]
        v = operator.inner.block(everyone, own)
        weight = operator.weights[own]
        to_landmarks = operator.matmul(unit) - weight * v[place] * v
        to_landmarks[place] = 0.0
        v[place] = 0.0
        nv, nv_border = factor.bordered(v)
        nv_own = nv[place]
        bent = nv - n * (nv_own / pivot)
        bent_border = nv_border - n_border * (nv_own / pivot)
        bent[place] = 0.0
        room = 1.0 / weight - np.einsum("ij,ij->j", v, bent)
        for column in range(beta.shape[1]):
            lead = beta[own, column] / pivot
            s = beta[:, [column]] - n * lead
            s[place] = 0.0
            b = solution.bias[column] - n_border * lead
            pull = np.einsum("ij,ij->j", v, s) / room
            s += bent * pull
            values[own, column] = np.einsum("ij,ij->j", to_landmarks, s) + b + bent_border * pull
    return values
