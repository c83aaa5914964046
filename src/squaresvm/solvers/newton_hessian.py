"""What Newton's method asks of a Hessian, formed or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

from squaresvm.factors import MomentsFactor
from squaresvm.linear import Point
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["Hessian", "Step"]


@dataclass(frozen=True, eq=False)
class Step:
    """Where the Hessian sends each column, and by how much the objective falls, to first order."""

    dw: FloatArray
    db: FloatArray
    decrement: FloatArray


class Hessian(Protocol):
    """The Hessian of each column at a point."""

    @property
    def is_exact(self) -> bool:
        """Whether it is that of all rows at the current point, and not that of some."""
        ...

    @property
    def factors(self) -> tuple[MomentsFactor, ...] | None:
        """A factor for each column, or one for all; None where there is none."""
        ...

    def estimate(self, point: Point) -> FloatArray:
        """Return about what the residual of each column is: its root mean square over the active rows."""
        ...

    def step(self, point: Point, enough: FloatArray) -> Step:
        """Return the Newton step of every column.

        Parameters
        ----------
        point : Point
        enough : ndarray of shape (k,)
            Share of the gradient below which none of it need be left; 1 where a column rests.
        """
        ...

    def after(self, before: Point, w: FloatArray, b: FloatArray) -> tuple[Point, Self]:
        """Return another point, and the Hessian there: one pass."""
        ...

    def with_columns(self, other: Self, columns: BoolArray) -> Self:
        """Return this Hessian with some columns of another."""
        ...
