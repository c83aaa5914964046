"""What every trained model is: settings, classes, solution, decisions, and what requests lead to."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from squaresvm.factors import CholeskyFactor
from squaresvm.family import Bias, Loss
from squaresvm.judging.calibration import Calibration
from squaresvm.judging.leave_one_out import Cost
from squaresvm.judging.set_bounds import BoundedSets
from squaresvm.kernels import Kernel
from squaresvm.linalg.blas import times
from squaresvm.problem import Problem
from squaresvm.rows.labels import decided, value_columns, weigh
from squaresvm.solution import Certificate, Solution
from squaresvm.solvers.base import Solver
from squaresvm.streaming import Block, Source
from squaresvm.typing import FloatArray, IntArray, Matrix

if TYPE_CHECKING:
    from squaresvm.models.state import State

__all__ = [
    "Decider",
    "Known",
    "Model",
    "NewRows",
    "Settings",
    "Update",
    "as_flat",
    "labels_of",
    "nothing",
    "warn_unless_converged",
]


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

    def __post_init__(self) -> None:
        """Take the loss for what it says, whatever a serialiser made of it."""
        object.__setattr__(self, "loss", Loss(self.loss))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled."""
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def solver_name(self) -> str:
        """Name of the solver that was asked for."""
        return self.solver if isinstance(self.solver, str) else self.solver.name

    @property
    def is_linear(self) -> bool:
        """Whether the model is a linear function of the columns."""
        return self.kernel is not None and self.kernel.function == "linear"

    def row_weights(self, y: np.ndarray[Any, Any], weights: FloatArray) -> FloatArray:
        """Return sample weight times class weight of each row."""
        return weigh(y, weights, self.class_weight)

    def weighs_classes(self, classes: np.ndarray[Any, Any] | None) -> bool:
        """Return whether two of the classes have different weights."""
        named = self.class_weight or {}
        return classes is not None and len({named.get(label, 1.0) for label in classes.tolist()}) > 1


@dataclass(eq=False)
class Known:
    """What has been computed from a state, or came with it: each is the same whoever computes it.

    Parameters
    ----------
    problem : Problem
        Over the buffers of the line.
    own_problem : Problem
        Over buffers of the state's own, once it is not live any more.
    certificate : Certificate
    claimed : Certificate
        What the file or the pickle that the model came from says, for `verify` to compare.
    expansion : ndarray of shape (m, k)
    factor : CholeskyFactor
        Made for a question after a solver that kept none.
    calibration : Calibration
    left_out : ndarray of shape (m, k)
        Exact leave-one-out values.
    loo_cost : Cost
    sets : BoundedSets
        What has been found out for sets of labels.
    honest_score : float
        Of the search that chose C and gamma.
    """

    problem: Problem | None = None
    own_problem: Problem | None = None
    certificate: Certificate | None = None
    claimed: Certificate | None = None
    expansion: FloatArray | None = None
    factor: CholeskyFactor | None = None
    calibration: Calibration | None = None
    left_out: FloatArray | None = None
    loo_cost: Cost | None = None
    sets: BoundedSets | None = None
    honest_score: float | None = None

    def without_buffers(self) -> Known:
        """Return what holds as well where the model is the same and its buffers are others."""
        return replace(self, problem=None, own_problem=None, factor=None, sets=None)


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows to learn, validated.

    Parameters
    ----------
    X : array or CSR matrix of shape (k, n)
        With a precomputed kernel, kernel values with the rows held and with each other.
    y : ndarray of shape (k,)
    weights : ndarray of shape (k,)
    ids : sequence of hashables or None
        As the caller gave them.
    class_weight : dict
        Weights that the estimator's own parameters name, for classes that the model does not hold.
    """

    X: Matrix
    y: np.ndarray[Any, Any]
    weights: FloatArray
    ids: Any = None
    class_weight: dict[Hashable, float] = field(default_factory=dict)


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, eq=False)
class Update:
    """A new model that nobody has yet, and what is to be said of it.

    Parameters
    ----------
    model : Model
    residual : float
        Scaled violation of the optimality conditions.
    checked : int
        How many numbers the residual was taken from: all rows, or some random combinations of them.
    sampled : bool
        Whether it was taken from random combinations.
    refactored : bool
        Whether the factor was made anew.
    rows : int
        How many rows came or left.
    commit : callable
        To be called once, when the new model is about to be in place: buffers that models share are its own
        from then on, and what they hold of rows that left is wiped.
    """

    model: Model
    residual: float
    checked: int
    sampled: bool
    refactored: bool
    rows: int
    commit: Callable[[], None] = nothing


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """A trained model, whole and frozen; see :class:`~squaresvm.models.state.State`.

    Parameters
    ----------
    settings : Settings
    classes : ndarray of shape (n_classes,) or None
        None for regression, and where rows may have several labels each: values of -1 and +1 then.
    solution : Solution
    solver, reason : str
        Which solver it was, and why: of the fit, or of the last request.
    """

    settings: Settings
    classes: np.ndarray[Any, Any] | None
    solution: Solution
    solver: str
    reason: str

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """Residual of all rows, gap, objective, status."""

    @property
    @abstractmethod
    def calibration(self) -> Calibration | None:
        """The map to probabilities, where it has been computed or came with the model."""

    @property
    @abstractmethod
    def primal(self) -> FloatArray | None:
        """The vector w, of shape (n, k), of a linear model; None for other kernels."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows that the model is of."""

    @property
    def is_flat(self) -> bool:
        """Whether values of a regression are one a row, and not columns of several."""
        return self.solution.bias.size == 1

    @property
    def by_cost(self) -> tuple[tuple[Any, Any], ...]:
        """Targets that share a problem, and the model of them: several where targets have C of their own."""
        return ((slice(None), self),)

    @abstractmethod
    def like_held(self, X: Matrix) -> Matrix:
        """Return new rows dense or sparse, whichever this model works on."""

    @property
    def C(self) -> float | FloatArray:
        """C, or that of each target where they differ."""
        return self.settings.C

    def takes_shape(self, y: np.ndarray[Any, Any]) -> bool:
        """Return whether new values of a regression come in the shape of those that it was fitted on."""
        return (1 if y.ndim == 1 else y.shape[1]) == self.solution.bias.size

    @property
    @abstractmethod
    def holds_rows(self) -> bool:
        """Whether the model has the rows that it is of."""

    @abstractmethod
    def holding(self, what: str) -> State:
        """Return the model itself, with its rows; where it has none, a ValueError says what needs them."""

    @abstractmethod
    def attribute(self, name: str) -> Any:
        """Return what only a model that holds its rows has; AttributeError where it does not."""

    @abstractmethod
    def learn(self, new: NewRows) -> Update:
        """Return the model with new rows."""

    @abstractmethod
    def positions_of(self, ids: Any) -> IntArray:
        """Return where the rows of some ids stand, at least one."""

    @abstractmethod
    def forget(self, positions: IntArray, *, verify: bool = False) -> Update:
        """Return the model without the rows at some positions."""

    @abstractmethod
    def forget_rows(self, gone: NewRows) -> Update:
        """Return the model without rows that are given themselves."""

    @abstractmethod
    def forget_from(self, source: Source, numbers: list[Any]) -> Update:
        """Return the model without rows of the source that it is of, given their numbers there."""

    @abstractmethod
    def variances(self, X: Matrix) -> FloatArray:
        """Return the variance of f at new rows, of shape (rows, k), of the Gaussian process that it is."""

    @abstractmethod
    def flushed(self) -> Self:
        """Return the model with nothing left that stems from forgotten rows."""

    @abstractmethod
    def detached(self) -> Self:
        """Return the same model with buffers of its own."""

    def decision(self, X: Matrix) -> FloatArray:
        """Return f at new rows, of shape (rows, k)."""
        assert self.primal is not None, "a model without w says itself how it decides"
        return times(X, self.primal) + self.solution.bias


def warn_unless_converged(model: Model) -> None:
    """Raise a ConvergenceWarning where the solver ended above tol, or lacked the digits that matter."""
    concern = model.certificate.concern
    if concern is not None:
        warnings.warn(f"solver {model.solver!r} ended with {concern}", ConvergenceWarning, stacklevel=4)


def as_flat(decision: FloatArray) -> FloatArray:
    """Return a single column as a flat array."""
    return decision[:, 0] if decision.shape[1] == 1 else decision


def labels_of(model: Model | Decider, decision: FloatArray) -> np.ndarray[Any, Any]:
    """Return the label that each row's decision values stand for."""
    return decided(model.classes, decision)


@dataclass(frozen=True, eq=False)
class Decider:
    """A model's decision function, as little of it as can travel to blocks: of a linear one, w and b.

    Parameters
    ----------
    classes : ndarray or None
    bias : ndarray of shape (k,)
    w : ndarray of shape (n, k) or None
    model : Model or None
        Where there is no w.
    """

    classes: np.ndarray[Any, Any] | None
    bias: FloatArray
    w: FloatArray | None
    model: Model | None

    @classmethod
    def of(cls, model: Model) -> Decider:
        """Return the decision function of a model."""
        w = model.primal
        return cls(model.classes, model.solution.bias, w, model if w is None else None)

    def __call__(self, X: Matrix) -> FloatArray:
        """Return f at each row, of shape (rows, k)."""
        if self.model is not None:
            return self.model.decision(X)
        assert self.w is not None
        return times(X, self.w) + self.bias

    def decisions(self, block: Block) -> FloatArray:
        """Return f at the rows of a block."""
        return as_flat(self(block.X))

    def labels(self, block: Block) -> np.ndarray[Any, Any]:
        """Return the labels that the model gives to the rows of a block."""
        return labels_of(self, self(block.X))

    def right(self, block: Block) -> tuple[float, float]:
        """Return the weight of rows of a block with the right label, and of all."""
        weights, right = block.row_weights, self.labels(block) == block.y
        return float(weights @ (right if right.ndim == 1 else right.all(axis=1))), float(weights.sum())

    def squares(self, block: Block) -> FloatArray:
        """Return sums for the coefficient of determination, around a value near the mean: the model's bias.

        Those of w, w y, w y^2 and w (y - f)^2, of shape (4, k), with y counted from the bias.
        """
        weights = block.row_weights
        y, decision = value_columns(block.y), self(block.X)
        if y.shape != decision.shape:
            raise ValueError(f"{block.place}: {y.shape[1]} values a row; the model has {decision.shape[1]}")
        total = np.full(y.shape[1], weights.sum())
        error, y = y - decision, y - self.bias
        return np.array([total, weights @ y, weights @ y**2, weights @ error**2])
