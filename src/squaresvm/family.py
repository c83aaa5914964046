"""What tells the members of the family apart: the loss and the bias."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

__all__ = ["Bias", "Loss"]


class Loss(StrEnum):
    """How the slack of a row counts."""

    SQUARED = "squared loss"
    SQUARED_HINGE = "squared hinge"


@dataclass(frozen=True)
class Bias:
    """The bias by its penalty A / 2 b^2: free at A = 0, absent at A = infinity.

    Parameters
    ----------
    penalty : float
        A.

    Examples
    --------
    >>> from squaresvm.problem import Bias
    >>> print(Bias.free(), Bias.penalised(2.0), Bias.none(), sep=", ")
    free bias, penalised bias (A = 2), no bias
    """

    penalty: float

    @classmethod
    def free(cls) -> Bias:
        """Return a bias that costs nothing."""
        return cls(0.0)

    @classmethod
    def penalised(cls, A: float) -> Bias:
        """Return a bias that costs A / 2 b^2."""
        return cls(A)

    @classmethod
    def none(cls) -> Bias:
        """Return the absence of a bias."""
        return cls(np.inf)

    @property
    def is_free(self) -> bool:
        """Whether the bias costs nothing."""
        return self.penalty == 0.0

    @property
    def is_absent(self) -> bool:
        """Whether there is no bias."""
        return self.penalty == np.inf

    def __str__(self) -> str:
        """Return the kind of bias in words."""
        if self.is_free:
            return "free bias"
        return "no bias" if self.is_absent else f"penalised bias (A = {self.penalty:g})"
