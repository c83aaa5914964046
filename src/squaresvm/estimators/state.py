"""A trained model, whole and frozen: rows, numbers taken at fit, solution, certificate."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from squaresvm.choose import choose
from squaresvm.kernels import Kernel
from squaresvm.operators import (
    DenseOperator,
    LinearOperator,
    Operator,
    PrecomputedOperator,
    ProximalOperator,
    StoredOperator,
)
from squaresvm.problem import Bias, Loss, Problem
from squaresvm.rows import Rows
from squaresvm.solution import Certificate, Solution, Status
from squaresvm.solvers.base import Solver
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Settings", "State", "train"]


@dataclass(frozen=True)
class Settings:
    """Everything that training depends on besides the rows, resolved to numbers at `fit`.

    Parameters
    ----------
    loss : Loss
    bias : Bias
    kernel : Kernel or None
        None where the kernel matrix is precomputed.
    C : float
    class_weight : dict or None
        Weight of each class; a class that is not named has weight 1.
    proximal : bool
        Whether the kernel is K W K', the nonlinear proximal SVM's.
    solver : str or Solver
    tol : float
    max_iter : int or None
    """

    loss: Loss
    bias: Bias
    kernel: Kernel | None
    C: float
    class_weight: dict[Hashable, float] | None
    proximal: bool
    solver: str | Solver
    tol: float
    max_iter: int | None

    @property
    def is_linear(self) -> bool:
        """Whether the model is a linear function of the columns."""
        return self.kernel is not None and self.kernel.function == "linear"

    def row_weights(self, rows: Rows) -> FloatArray:
        """Return sample weight times class weight of each row."""
        if self.class_weight is None:
            return rows.weights
        factors = [self.class_weight.get(label, 1.0) for label in rows.y.tolist()]
        return rows.weights * np.asarray(factors, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class State:
    """A model as it stands after `fit`, `learn` or `forget`. Nothing in it changes any more.

    Parameters
    ----------
    rows : Rows
        All rows held.
    settings : Settings
    classes : ndarray of shape (n_classes,) or None
        None for regression.
    problem : Problem
        Over the rows of positive weight.
    held : ndarray of shape (m,)
        Where the problem's rows stand among those held.
    solution : Solution
    certificate : Certificate
    solver, reason : str
        Which solver it was, and why.
    """

    rows: Rows
    settings: Settings
    classes: np.ndarray[Any, Any] | None
    problem: Problem
    held: IntArray
    solution: Solution
    certificate: Certificate
    solver: str
    reason: str

    @cached_property
    def primal(self) -> FloatArray | None:
        """The vector w, of shape (n, k), of a linear model; None for other kernels."""
        if self.solution.primal is not None or not self.settings.is_linear:
            return self.solution.primal
        assert self.solution.beta is not None
        return np.asarray(self.rows.X[self.held].T @ self.solution.beta)

    @cached_property
    def expansion(self) -> FloatArray:
        """Coefficients of k(x_i, .) in f, of shape (m, k), over the problem's rows."""
        return self.problem.operator.expand(self.problem.multipliers(self.solution))

    @cached_property
    def support(self) -> IntArray:
        """Where the rows with a coefficient that is not zero stand among those held."""
        used: IntArray = np.flatnonzero(np.any(self.expansion != 0.0, axis=1))
        return self.held[used]

    @cached_property
    def dual_coef(self) -> FloatArray:
        """Coefficients of the support rows, of shape (k, n_support)."""
        used = np.any(self.expansion != 0.0, axis=1)
        return np.ascontiguousarray(self.expansion[used].T)

    def decision(self, X: Matrix) -> FloatArray:
        """Return f at new rows, of shape (rows, k)."""
        if self.primal is not None:
            return np.asarray(X @ self.primal, dtype=np.float64) + self.solution.bias
        if self.settings.kernel is None and self.held.size < self.rows.count:
            X = X[:, self.held]
        return self.problem.operator.cross(X, self.expansion) + self.solution.bias


def train(rows: Rows, settings: Settings) -> State:
    """Return the model of the rows: from rows to operator, problem, solver, certificate.

    Parameters
    ----------
    rows : Rows
    settings : Settings

    Returns
    -------
    State

    Warns
    -----
    ConvergenceWarning
        If the solver ended before the residual was within tol.
    """
    weights = settings.row_weights(rows)
    held: IntArray = np.flatnonzero(weights > 0)
    if held.size == 0:
        raise ValueError("all rows have weight zero: there is nothing to learn from")
    classes, targets = encode(rows.y[held], settings)
    costs = settings.C * weights[held]
    operator = _operator(rows, held, weights[held], settings)
    problem = Problem(operator, targets, costs, settings.loss, settings.bias)
    solver, reason = choose(problem, settings.solver)
    solution = solver.solve(problem, tol=settings.tol, max_iter=settings.max_iter)
    certificate = problem.certify(solution, settings.tol)
    warn_unless_converged(certificate, solver.name)
    return State(rows, settings, classes, problem, held, solution, certificate, solver.name, reason)


def warn_unless_converged(certificate: Certificate, solver: str) -> None:
    """Raise a ConvergenceWarning where the solver ended above tol."""
    if certificate.status is Status.MAX_ITER:
        warnings.warn(
            f"solver {solver!r} ended with {certificate}: {certificate.status.advice}",
            ConvergenceWarning,
            stacklevel=4,
        )


def encode(y: np.ndarray[Any, Any], settings: Settings) -> tuple[np.ndarray[Any, Any] | None, FloatArray]:
    """Return the classes and a column of +1 and -1 for each (one for two); values as one column."""
    if settings.class_weight is None:
        return None, np.asarray(y, dtype=np.float64)[:, None]
    classes, codes = np.unique(y, return_inverse=True)
    if classes.size < 2:
        raise ValueError(
            f"a classifier needs rows of at least two classes with positive weight; got one class, "
            f"{classes.tolist()[0]!r}"
        )
    if classes.size == 2:
        return classes, np.where(codes == 1, 1.0, -1.0)[:, None]
    return classes, np.where(codes[:, None] == np.arange(classes.size), 1.0, -1.0)


def _operator(rows: Rows, held: IntArray, weights: FloatArray, settings: Settings) -> Operator:
    everything = held.size == rows.count
    X = rows.X if everything else rows.X[held]
    operator: StoredOperator
    if settings.kernel is None:
        operator = PrecomputedOperator(X if everything else X[:, held])
    elif settings.is_linear and X.shape[1] < X.shape[0]:
        return LinearOperator(X)
    else:
        operator = DenseOperator(settings.kernel, X)
    return ProximalOperator(operator, weights) if settings.proximal else operator
