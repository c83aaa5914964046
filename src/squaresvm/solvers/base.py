"""What every solver offers."""

from __future__ import annotations

from typing import Protocol

from squaresvm.problem import Problem
from squaresvm.solution import Solution

__all__ = ["Solver"]


class Solver(Protocol):
    """A way to reach the solution of the problems that it declares."""

    @property
    def name(self) -> str:
        """What it is called in ``solver=``."""
        ...

    @property
    def solves(self) -> str:
        """The problems that it solves, in words."""
        ...

    def accepts(self, problem: Problem) -> bool:
        """Return whether the problem is one of those."""
        ...

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return a solution; from `start`, where one is given and of use."""
        ...
