"""A solver that has the kernel matrix computed and kept before it starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from squaresvm.operators import OnDemandOperator
from squaresvm.problem import Problem
from squaresvm.solution import Solution
from squaresvm.solvers.base import Callback, Solver

__all__ = ["WithKernelHeld"]


@dataclass(frozen=True)
class WithKernelHeld:
    """Another solver, on a kernel matrix that is held while it could be computed on demand.

    Parameters
    ----------
    solver : Solver
        One that takes a callback.
    callback : callable, optional
        See :class:`~squaresvm.solvers.Progress`.
    """

    solver: Solver
    callback: Callback | None = None

    @property
    def name(self) -> str:
        """Name of the solver itself."""
        return self.solver.name

    @property
    def solves(self) -> str:
        """The problems that it solves, in words."""
        return self.solver.solves

    def accepts(self, problem: Problem) -> bool:
        """Return whether the problem is one of those."""
        return self.solver.accepts(problem)

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Compute K, and return the solver's own solution."""
        if isinstance(problem.operator, OnDemandOperator):
            problem.operator.hold()
        options: Any = self.solver
        solver: Solver = options if self.callback is None else replace(options, callback=self.callback)
        return solver.solve(problem, tol=tol, max_iter=max_iter, start=start)
