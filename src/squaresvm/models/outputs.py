"""What a fitted model does with the blocks of a source, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from squaresvm.linalg.blas import times
from squaresvm.models.model import Model
from squaresvm.rows.labels import value_columns
from squaresvm.streaming import Block
from squaresvm.typing import FloatArray, Matrix

__all__ = ["DecideOn", "Decider", "LabelOn", "RightOn", "SquaresOn", "as_flat", "labels_of"]


def as_flat(decision: FloatArray) -> FloatArray:
    """Return a single column as a flat array."""
    return decision[:, 0] if decision.shape[1] == 1 else decision


def labels_of(state: Model, decision: FloatArray) -> np.ndarray[Any, Any]:
    """Return the label that each row's decision values stand for."""
    assert state.classes is not None
    return _labels(state.classes, decision)


def _labels(classes: np.ndarray[Any, Any], decision: FloatArray) -> np.ndarray[Any, Any]:
    if decision.shape[1] == 1:
        return classes[(decision[:, 0] > 0).astype(np.intp)]
    return classes[decision.argmax(axis=1)]


@dataclass(frozen=True, eq=False)
class Decider:
    """A model's decision function, as little of it as can travel: of a linear one, w and b.

    Parameters
    ----------
    classes : ndarray or None
    bias : ndarray of shape (k,)
    w : ndarray of shape (n, k) or None
    state : Model or None
        Where there is no w.
    """

    classes: np.ndarray[Any, Any] | None
    bias: FloatArray
    w: FloatArray | None
    state: Model | None

    @classmethod
    def of(cls, state: Model) -> Decider:
        """Return the decision function of a model."""
        w = state.primal
        return cls(state.classes, state.solution.bias, w, state if w is None else None)

    def __call__(self, X: Matrix) -> FloatArray:
        """Return f at each row, of shape (rows, k)."""
        if self.state is not None:
            return self.state.decision(X)
        assert self.w is not None
        return times(X, self.w) + self.bias


@dataclass(frozen=True, eq=False)
class DecideOn:
    """Decision values of a block."""

    decide: Decider

    def __call__(self, block: Block) -> FloatArray:
        """Return f at the rows of a block."""
        return as_flat(self.decide(block.X))


@dataclass(frozen=True, eq=False)
class LabelOn:
    """Labels of a block."""

    decide: Decider

    def __call__(self, block: Block) -> np.ndarray[Any, Any]:
        """Return the labels that the model gives to the rows of a block."""
        assert self.decide.classes is not None
        return _labels(self.decide.classes, self.decide(block.X))


@dataclass(frozen=True, eq=False)
class RightOn:
    """How much of a block gets the right label."""

    decide: Decider

    def __call__(self, block: Block) -> tuple[float, float]:
        """Return the weight of rows with the right label, and of all."""
        right = LabelOn(self.decide)(block) == block.y
        weights = np.ones(block.rows) if block.weights is None else block.weights
        return float(weights @ right), float(weights.sum())


@dataclass(frozen=True, eq=False)
class SquaresOn:
    """Sums for the coefficient of determination, around a value near the mean."""

    decide: Decider

    def __call__(self, block: Block) -> FloatArray:
        """Return sums of w, w y, w y^2 and w (y - f)^2, of shape (4, k), y counted from the model's bias."""
        weights = np.ones(block.rows) if block.weights is None else block.weights
        y, decision = value_columns(block.y), self.decide(block.X)
        if y.shape != decision.shape:
            raise ValueError(
                f"{block.place}: {y.shape[1]} values a row, where the model has {decision.shape[1]}"
            )
        total = np.full(y.shape[1], weights.sum())
        error, y = y - decision, y - self.decide.bias
        return np.array([total, weights @ y, weights @ y**2, weights @ error**2])
