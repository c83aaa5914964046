"""The equalities of an active set by conjugate gradients: no factor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from squaresvm.problem import Problem
from squaresvm.solution import Solution
from squaresvm.solvers.active_set_search import Iterate, Target
from squaresvm.solvers.equalities import bias_of_no_rows
from squaresvm.solvers.kernel_system import KernelSystem
from squaresvm.solvers.preconditioner import Preconditioner
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["IteratedEqualities"]

#: Share of tol that is aimed at, and reduction of the residual asked of one Newton step.
_SHARE, _REDUCTION = 0.25, 1e-3
#: Exact residuals that may fail to improve before the search ends.
_STALLS = 3


class IteratedEqualities:
    """The equalities (48) of a set of rows, the closer solved the closer the search has come.

    Multipliers are carried from set to set. K beta comes along by products with what changes, quick ones;
    where beta hardly changes, little is lost.

    Parameters
    ----------
    problem : Problem
        With one column of targets.
    system : KernelSystem
    start : Solution
        In multipliers.
    """

    #: The search ends where tol is reached.
    enough = 1.0

    def __init__(self, problem: Problem, system: KernelSystem, start: Solution) -> None:
        assert start.beta is not None
        self.problem, self.system = problem, system
        self.beta: FloatArray = start.beta[:, 0].copy()
        self.bias = float(start.bias[0])
        self.product: FloatArray = np.zeros(problem.n_rows)
        self.is_exact = not self.beta.any()
        self._ones: FloatArray | None = None
        self._active: BoolArray | None = None
        self._preconditioner: Preconditioner | None = None
        self._stalls = 0

    def exactly(self) -> Target:
        """Return the last target, with K beta in float64."""
        if not self.is_exact:
            self.product = self.system.exactly(self.beta[:, None])[:, 0]
            self.is_exact = True
        return self._target(0)

    def _add(self, change: FloatArray) -> None:
        if not change.any():
            return
        self.beta = self.beta + change
        self.product = self.product + self.system.times(change[:, None])[:, 0]
        self.is_exact = self.is_exact and self.system.single is None

    def _enter(self, active: BoolArray) -> None:
        if self._active is not None and np.array_equal(active, self._active):
            return
        self._add(np.where(active, 0.0, -self.beta))
        # What rounding may have left there.
        self.beta[~active] = 0.0
        self._active, self._ones = active, None
        self._preconditioner = self.system.preconditioner.restricted(active)

    def goes_on(self, settled: bool, improved: bool) -> bool:
        """Return whether the residual still falls, or may fall again with products in float64."""
        self._stalls = 0 if improved else self._stalls + 1
        if self._stalls < _STALLS:
            return True
        self._stalls = 0
        return self.system.widen("products in float32 did not reach tol")

    def solve(self, active: BoolArray, bias: float, tol: float, limit: int) -> Target:
        """Go to the solution on the active rows, or closer to it."""
        if active.any():
            return self._target(self._advance(active, tol, limit))
        self.beta, self.product, self.is_exact = np.zeros_like(self.beta), np.zeros_like(self.beta), True
        self.bias, self._active = bias_of_no_rows(self.problem, bias), None
        return self._target(0)

    def _advance(self, active: BoolArray, tol: float, limit: int) -> int:
        """Solve the equalities of the active rows more closely; return the iterations taken."""
        self._enter(active)
        problem, A = self.problem, self.problem.bias.penalty
        missing = problem.targets[:, 0] - self.product - self.bias - problem.ridge * self.beta
        rhs = np.where(active, missing, 0.0)[:, None]
        wanted = np.maximum(_SHARE * tol, _REDUCTION * np.abs(rhs).max(axis=0))
        has_bias = not problem.bias.is_absent
        if has_bias and self._ones is None:
            rhs = np.column_stack([rhs, active.astype(np.float64)])
            wanted = np.append(wanted, max(_SHARE * tol, _REDUCTION**2))
        X, count = self.system.solve(rhs, wanted, limit, lambda *_: False, self._preconditioner, active)
        if X.shape[1] > 1:
            self._ones = X[:, 1]
        change, step = X[:, 0], 0.0
        if has_bias:
            assert self._ones is not None
            for _ in range(2):  # The second time for what rounding left of the sum.
                left = float((self.beta + change).sum() - A * (self.bias + step)) / float(
                    A + self._ones.sum()
                )
                change, step = change - left * self._ones, step + left
        self._add(change)
        self.bias += step
        return count

    def _target(self, cost: int) -> Target:
        """Return the point that the multipliers stand for, and its residual."""
        problem, decision = self.problem, self.product + self.bias
        norm = max(float(self.beta @ self.product), 0.0)
        target = Target(self.beta.copy(), Iterate(decision, self.bias, norm), np.inf, self.is_exact, cost)
        residual = problem.residual_at(target.solution, decision[:, None], np.arange(problem.n_rows))
        return replace(target, residual=float(residual[0]))
