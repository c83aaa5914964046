"""A trained model, whole and frozen: rows, numbers taken at fit, solution, certificate."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from squaresvm.kernels import Kernel
from squaresvm.linalg.products import times
from squaresvm.models.fit_log import Teller
from squaresvm.operators import (
    DenseOperator,
    LinearOperator,
    OnDemandOperator,
    Operator,
    PrecomputedOperator,
    ProximalOperator,
    StoredOperator,
)
from squaresvm.problem import Bias, Loss, Problem
from squaresvm.rows import Rows
from squaresvm.rows.labels import sign_columns, two_labels
from squaresvm.solution import Certificate, Solution, Status
from squaresvm.solvers.base import Solver
from squaresvm.solvers.choose import choose, wants_rows
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["REQUESTS", "Settings", "State", "encode", "train"]

#: Whoever reads or changes the store that states of one model share holds this lock. Few models are changed
#: by several threads at once, so one for all of them is enough; predictions never take it.
REQUESTS = threading.RLock()


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
        Weight of each class, 1 where a class is not named; None for regression.
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

    def row_weights(self, y: np.ndarray[Any, Any], weights: FloatArray) -> FloatArray:
        """Return sample weight times class weight of each row."""
        return weigh(y, weights, self.class_weight)


def weigh(
    y: np.ndarray[Any, Any], weights: FloatArray, class_weight: dict[Hashable, float] | None
) -> FloatArray:
    """Return sample weight times class weight of each row."""
    if not class_weight:
        return weights
    factors = [class_weight.get(label, 1.0) for label in y.tolist()]
    return weights * np.asarray(factors, dtype=np.float64)


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
    solution : Solution
        Of the problem over the rows of positive weight.
    solver, reason : str
        Which solver it was, and why.
    operator : Operator or None
        How K is reached; None: made from the rows when asked for.
    requests : int, default=0
        Requests since the residual of all rows was last taken.
    """

    rows: Rows
    settings: Settings
    classes: np.ndarray[Any, Any] | None
    solution: Solution
    solver: str
    reason: str
    operator: Operator | None
    requests: int = 0

    @cached_property
    def weights(self) -> FloatArray:
        """Sample weight times class weight of each row held."""
        return self.settings.row_weights(self.rows.y, self.rows.weights)

    @cached_property
    def held(self) -> IntArray:
        """Where the rows of the problem, those of positive weight, stand among the rows held."""
        return np.flatnonzero(self.weights > 0)

    @cached_property
    def problem(self) -> Problem:
        """The problem that the solution belongs to."""
        held = rows_of_weight(self.weights)
        weights, operator = self.weights[held], self.operator
        if operator is None:
            in_w = self.solution.primal is not None
            operator = make_operator(self.rows, held, weights, self.settings, in_w)
        targets = encode(self.rows.y[held], self.classes)
        if operator.features is not None and weights.strides == (0,):
            costs = np.broadcast_to(self.settings.C * weights[0], weights.shape)
        else:
            costs = self.settings.C * weights
        return Problem(operator, targets, costs, self.settings.loss, self.settings.bias)

    @cached_property
    def certificate(self) -> Certificate:
        """Residual of all rows, gap, objective, status."""
        return self.problem.certify(self.solution, self.settings.tol)

    @cached_property
    def primal(self) -> FloatArray | None:
        """The vector w, of shape (n, k), of a linear model; None for other kernels."""
        if self.solution.primal is not None or not self.settings.is_linear:
            return self.solution.primal
        assert self.solution.beta is not None
        return times(self.rows.take(self.held).T, self.solution.beta)

    @cached_property
    def expansion(self) -> FloatArray:
        """Coefficients of k(x_i, .) in f, of shape (m, k), over the problem's rows."""
        if self.solution.beta is not None and not self.settings.proximal:
            return self.solution.beta
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
            return times(X, self.primal) + self.solution.bias
        if self.settings.kernel is None:
            if X.shape[1] != self.rows.count:
                raise ValueError(
                    f"kernel values with {self.rows.count} rows are needed, in the order of ids_; "
                    f"got {X.shape[1]} columns"
                )
            X = X if self.held.size == self.rows.count else X[:, self.held]
        return self.problem.operator.cross(X, self.expansion) + self.solution.bias

    def detached(self) -> State:
        """Return the same model without anything that requests change: store and factor are its own."""
        operator = None
        if self.settings.kernel is None:
            operator = copy.copy(self.problem.operator)
        return replace(self, operator=operator, solution=replace(self.solution, factor=None))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what can be computed again; a precomputed K is kept."""
        names = ("rows", "settings", "classes", "solution", "solver", "reason", "calibration")
        kept = {name: self.__dict__[name] for name in names if name in self.__dict__}
        operator = self.operator if self.settings.kernel is None else None
        return {**kept, "operator": operator, "requests": 0}


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


def rows_of_weight(weights: FloatArray) -> IntArray | slice:
    """Return where the positive weights are; all of them as a slice, which copies nothing."""
    positive = weights > 0
    return slice(None) if positive.all() else np.flatnonzero(positive)


def check_costs(C: float, weights: FloatArray, rows: IntArray | slice) -> None:
    """Raise a ValueError where C times the weight of a row, or its inverse, is out of range."""
    if weights.size == 0:
        return
    for extreme in (weights.min(), weights.max()):
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            usable = np.isfinite(C * extreme) and np.isfinite(1.0 / (C * extreme))
        if not usable:
            place = int(np.flatnonzero(weights == extreme)[0])
            row = place if isinstance(rows, slice) else int(rows[place])
            raise ValueError(
                f"C times the weight of row {row} is out of the range of float64: choose another C"
            )


def warn_unless_converged(state: State) -> None:
    """Raise a ConvergenceWarning where the solver ended above tol."""
    certificate = state.certificate
    if certificate.status is Status.MAX_ITER:
        warnings.warn(
            f"solver {state.solver!r} ended with {certificate}: {certificate.status.advice}",
            ConvergenceWarning,
            stacklevel=4,
        )


def find_classes(y: np.ndarray[Any, Any], settings: Settings) -> np.ndarray[Any, Any] | None:
    """Return the sorted labels, at least two; None for regression."""
    if settings.class_weight is None:
        return None
    classes = two_labels(y)
    if classes is None:
        classes = np.unique(y)
    if classes.size < 2:
        raise ValueError(
            "a classifier needs rows of at least two classes with positive weight; got one class, "
            f"{classes.tolist()[0]!r}"
        )
    return classes


def encode(y: np.ndarray[Any, Any], classes: np.ndarray[Any, Any] | None) -> FloatArray:
    """Return a column of +1 and -1 for each class (one for two); values as one column."""
    if classes is None:
        return np.asarray(y, dtype=np.float64)[:, None]
    return sign_columns(y, classes).astype(np.float64)


def features(rows: Rows, held: IntArray | slice) -> Matrix:
    """Return the features of the rows in `held`; no copy where those are all."""
    if isinstance(held, slice) or held.size == rows.count:
        return rows.X
    return rows.take(held)


def make_operator(
    rows: Rows, held: IntArray | slice, weights: FloatArray, settings: Settings, in_w: bool | None = None
) -> Operator:
    """Return the operator of the rows in `held`.

    A linear model is solved in w where it has fewer columns than rows, unless `in_w` says otherwise.
    """
    X = features(rows, held)
    if settings.kernel is not None:
        settings.kernel.check_range(X)
    operator: StoredOperator
    if settings.kernel is None:
        operator = PrecomputedOperator(X if X.shape[0] == rows.count else X[:, held])
    elif settings.is_linear and (X.shape[1] < X.shape[0] if in_w is None else in_w):
        return LinearOperator(X)
    elif wants_rows(settings.solver, X.shape[0]) and not settings.proximal:
        operator = OnDemandOperator(settings.kernel, X)
    else:
        operator = DenseOperator(settings.kernel, X)
    return ProximalOperator(operator, weights) if settings.proximal else operator
