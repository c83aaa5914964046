"""What is judged, as plain numbers: the problem that a model should solve, and its solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from squaresvm.typing import FloatArray, Matrix

__all__ = ["Rows", "Subject"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows: Z of shape (rows, n), targets of shape (rows, k), and weights that are all positive."""

    Z: Matrix
    targets: FloatArray
    weights: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Subject:
    """A model: `beta` of shape (m, k) with its `rows`, or `w` of shape (n, k), whose rows are read by passes.

    `A` is 0 where the bias is free and infinite where there is none, C_i is `C` times the weight of a row;
    `proximal`: the kernel is K W K', W the weights; `given` returns values of a kernel without a formula here
    between two ranges of rows. `are_classes`: targets are +1 and -1.
    """

    is_hinge: bool
    A: float
    C: float
    kernel: str
    gamma: float
    degree: int
    coef0: float
    proximal: bool
    are_classes: bool
    bias: FloatArray
    beta: FloatArray | None
    w: FloatArray | None
    rows: Rows | None = None
    given: Callable[[Any, Any], FloatArray] | None = None

    @property
    def has_bias(self) -> bool:
        """Whether there is a bias."""
        return bool(np.isfinite(self.A))

    @property
    def bias_cost(self) -> float:
        """A, and 0 where there is no bias."""
        return self.A if self.has_bias else 0.0
