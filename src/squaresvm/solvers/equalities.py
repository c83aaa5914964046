"""The squared loss on a set of rows that changes, (48) of the RLSSVM paper: what every active set asks for.

`EqualitySystem` updates a Cholesky factor; the paper's own, `SwitchedSystem`, is in `rlssvm`. `Factored` is
either of them for the search over sets.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np

from squaresvm.factors import CholeskyFactor
from squaresvm.linalg.blas import times
from squaresvm.operators import SubsetOperator
from squaresvm.problem import Problem
from squaresvm.solution import Factor, Solution
from squaresvm.solvers.active_set_search import Iterate, Target
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = ["EqualitySystem", "Factored", "SetSystem", "bias_of_no_rows", "changes", "factoring"]

#: A factor is reused where no more rows change than this share of the set, and no more than that many.
_FEW_SHARE, _FEW = 0.05, 64
#: Attempts to solve the equalities of a set more precisely.
_IMPROVEMENTS = 3


def bias_of_no_rows(problem: Problem, bias: float) -> float:
    """Return b where no row is active and w = 0: zero if it is penalised; a free one stays as it is.

    The paper's (48) divides by zero there.
    """
    return bias if problem.bias.is_free else 0.0


def factoring(size: int) -> float:
    """Return the operations that a factor of so many rows takes."""
    return float(size) ** 3 / 3.0


def _updating(count: int, size: int) -> float:
    """Return those for rows that come or go: two triangular solves each, as much again for the correction."""
    return 4.0 * count * float(size) ** 2


def _multiplying(count: int, size: int) -> float:
    """Return those of a product of K with so many multipliers."""
    return 2.0 * count * size


def changes(rows: IntArray, active: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the positions among some rows that are not active, and the active rows that are not there."""
    come = active.copy()
    come[rows] = False
    return np.flatnonzero(~active[rows]), np.flatnonzero(come)


class EqualitySystem(Factor):
    """(48), in signed multipliers: (H_SS, bordered) (beta_S, b) = (y_S, 0) for a changing set S.

    Where few rows come and go, the factor of the last set is updated; else it is made anew. The solution
    follows by the same updates.

    Parameters
    ----------
    problem : Problem
        With one column of targets.
    reuse : bool, default=True
        Whether to update the factor where few rows come and go.

    Attributes
    ----------
    is_updated : bool
        Whether the factor was updated since it was made, and so may have lost precision.
    work : dict
        Operations spent on factors, and those that factoring each set anew would have taken.
    """

    def __init__(self, problem: Problem, reuse: bool = True) -> None:
        self.problem = problem
        self.is_updated = False
        self.work = {"factor": 0.0, "refactoring": 0.0}
        self._reuse = reuse
        self._is_copy = False
        self._operator: SubsetOperator | None = None
        self._factor: CholeskyFactor | None = None
        self._solution: Solution | None = None

    @property
    def rows(self) -> IntArray:
        """The rows of the set, in the factor's order."""
        return np.empty(0, dtype=np.intp) if self._operator is None else self._operator.rows

    def solve(self, active: BoolArray, bias: float) -> tuple[FloatArray, float]:
        """Return beta over all rows, and b, with the active rows as equalities and the others left out."""
        if not active.any():
            return np.zeros(self.problem.n_rows), bias_of_no_rows(self.problem, bias)
        leave, come = changes(self.rows, active)
        few = min(_FEW, int(_FEW_SHARE * active.sum())) if self._reuse else 0
        self.work["refactoring"] += factoring(int(active.sum()))
        usable = self._factor is not None and self._factor.is_current
        if not usable or leave.size + come.size > few or not self._update(leave, come):
            self.rebuild(active)
        return self._expanded()

    def _expanded(self) -> tuple[FloatArray, float]:
        solution, beta = self._solution, np.zeros(self.problem.n_rows)
        assert solution is not None
        assert solution.beta is not None
        beta[self.rows] = solution.beta[:, 0]
        return beta, float(solution.bias[0])

    def _update(self, leave: IntArray, come: IntArray) -> bool:
        """Update the factor; return False where it is too close to singular for that."""
        self.is_updated = True
        self.work["factor"] += _updating(leave.size + come.size, self.rows.size)
        try:
            self._leave(leave)
            self._come(come)
        except np.linalg.LinAlgError:
            return False
        return True

    def rebuild(self, active: BoolArray) -> tuple[FloatArray, float]:
        """Factor anew; return beta over all rows, and b."""
        rows = np.flatnonzero(active)
        self.work["factor"] += factoring(rows.size)
        problem = self.problem
        self._factor = self._operator = None  # Free the old one before the new one is made.
        operator = SubsetOperator(problem.operator, rows)
        ridge = problem.ridge[rows]
        self._factor = CholeskyFactor.build(operator.store(), operator.slots, ridge, problem.bias)
        self._operator = operator
        self._solution = self._factor.solve(problem.targets[rows])  # (48), with 1/C_i in place of 1/C.
        self.is_updated = False
        return self._expanded()

    def improve(self, active: BoolArray) -> tuple[FloatArray, float]:
        """Return beta and b more precisely: by a new factor after updates, else by refinement."""
        if self.is_updated:
            return self.rebuild(active)
        assert self._factor is not None
        assert self._solution is not None
        self._solution = self._factor.refine(self._solution, self.problem.targets[self.rows])
        return self._expanded()

    def _leave(self, positions: IntArray) -> None:
        if positions.size == 0:
            return
        assert self._factor is not None
        assert self._operator is not None
        assert self._solution is not None
        keep = np.ones(self.rows.size, dtype=bool)
        keep[positions] = False
        self._factor, self._solution = self._factor.remove(positions, self._solution)
        self._operator = self._operator.shrunk(keep)
        self._repair_if_due()

    def _come(self, rows: IntArray) -> None:
        if rows.size == 0:
            return
        assert self._factor is not None
        assert self._operator is not None
        assert self._solution is not None
        self._operator, cross, corner = self._operator.grown(rows)
        beta = self._solution.beta
        assert beta is not None
        shortfall = self.problem.targets[rows] - times(cross.T, beta) - self._solution.bias
        ridge, slots = self.problem.ridge[rows], self._operator.slots[-rows.size :]
        self._factor, self._solution = self._factor.append(
            slots, cross, corner, ridge, shortfall, self._solution
        )
        self._repair_if_due()

    def _repair_if_due(self) -> None:
        assert self._factor is not None
        if self._factor.can_wait:
            return
        if self._is_copy:
            raise np.linalg.LinAlgError("too many corrections wait, and others use the same factor")
        self._factor = self._factor.repaired()

    def diag_inverse(self) -> FloatArray:
        """Return the diagonal of the inverse of the bordered system, in the order of `rows`."""
        assert self._factor is not None
        return self._factor.diag_inverse()

    def prepare_for_many(self) -> None:
        """Turn the factor into an inverse, so that copies of the system can each take rows out of it."""
        assert self._factor is not None
        self._factor = self._factor.inverted()

    def copy(self) -> EqualitySystem:
        """Return a system that starts from this one; both may change as long as neither is repaired."""
        other = EqualitySystem(self.problem, self._reuse)
        other._operator, other._factor, other._solution = self._operator, self._factor, self._solution
        other._is_copy = True
        return other

    def solution(self) -> Solution | None:
        """Return the solution of the set as it is; None before there is one."""
        if self._solution is None:
            return None
        beta, bias = self._expanded()
        return Solution(beta=beta[:, None], bias=np.array([bias]))

    def holds(self, beta: FloatArray) -> bool:
        """Return whether the set is that of the multipliers that are not zero."""
        return np.array_equal(np.sort(self.rows), np.flatnonzero(beta))

    def carried(self, problem: Problem, position: IntArray) -> EqualitySystem:
        """Return the system of the rows that are left, for a problem that numbers its rows otherwise.

        Parameters
        ----------
        problem : Problem
            With one column of targets.
        position : ndarray
            Where each row of the old problem stands in the new one; -1 for rows that left.
        """
        other = EqualitySystem(problem, self._reuse)
        if self._factor is None or self._operator is None or not self._factor.is_current:
            return other
        there = position[self.rows] >= 0
        left = int(there.sum())
        removal = _updating(there.size - left, there.size)
        factor, solution, operator = self._factor, self._solution, self._operator
        assert solution is not None
        if left == 0 or removal > factoring(left):
            return other  # A factor of those that are left costs less than taking the others out of this one.
        if left < there.size:
            try:
                factor, solution = factor.remove(np.flatnonzero(~there), solution)
            except np.linalg.LinAlgError:
                return other
            operator = operator.kept(there)
            other.work["factor"] += removal
        if not factor.can_wait:
            factor = factor.repaired()
        other._operator = operator.moved(problem.operator, position[operator.rows])
        other._factor, other._solution, other.is_updated = factor, solution, True
        return other

    def wipe(self) -> None:
        """Write zeros over what the store still holds of rows that are not in the set."""
        if self._operator is not None:
            self._operator.clear_empty()

    def flushed(self) -> Self:
        """Return the system itself, after what its factor derived from rows that left is overwritten."""
        if self._factor is not None:
            self._factor = self._factor.flushed()
        return self


class SetSystem(Protocol):
    """What solves (48) for one set after the other."""

    @property
    def work(self) -> dict[str, float]:
        """Operations spent on factors, and those that factoring each set anew would have taken."""
        ...

    def solve(self, active: BoolArray, bias: float) -> tuple[FloatArray, float]:
        """Return beta over all rows, and b, with the active rows as equalities and the others left out."""
        ...

    def improve(self, active: BoolArray) -> tuple[FloatArray, float]:
        """Return the same, computed more precisely."""
        ...


class Factored:
    """The equalities of a set by a factor of its own: exact, and improved where precision is missing.

    Parameters
    ----------
    problem : Problem
    system : SetSystem
    counted : ndarray of bool, optional
        The rows that count: all by default.
    allowance : float, default=inf
        Steps that the search may cost, each a factor of the first set and a product with its rows of K: it
        ends where it is when they are spent.
    """

    #: Sets of equalities cost so much more than a residual that the search goes on well below tol.
    enough = 1e-3

    def __init__(
        self,
        problem: Problem,
        system: SetSystem,
        counted: BoolArray | None = None,
        allowance: float = np.inf,
    ) -> None:
        self._problem, self._system, self._allowance = problem, system, allowance
        self._spent = self._step = 0.0
        self._counted = np.ones(problem.n_rows, dtype=bool) if counted is None else counted
        self._last: Target | None = None

    def solve(self, active: BoolArray, bias: float, tol: float, limit: int) -> Target:
        """Return the solution with the active rows as equalities and the others left out."""
        size = int(active.sum())
        self._step = self._step or factoring(size) + _multiplying(size, active.size)
        target, error = self._judged(*self._system.solve(active, bias))
        for _ in range(_IMPROVEMENTS):
            if error <= self.enough * tol:
                break
            target, error = self._judged(*self._system.improve(active))
        self._last = target
        return target

    @property
    def is_spent(self) -> bool:
        """Whether that much was spent."""
        return self._spent + self._system.work["factor"] > self._allowance * self._step > 0.0

    def exactly(self) -> Target:
        """Return the last target: every one is exact."""
        assert self._last is not None
        return self._last

    def goes_on(self, settled: bool, improved: bool) -> bool:
        """Return False where the set has come to rest: its equalities are as precise as they can be."""
        return not settled

    def _judged(self, beta: FloatArray, bias: float) -> tuple[Target, float]:
        """Return the target of multipliers, and the error of the equalities."""
        problem = self._problem
        solution = Solution(beta=beta[:, None], bias=np.array([bias]))
        point = Iterate.at(problem, solution)
        self._spent += _multiplying(int(np.count_nonzero(beta)), beta.size)
        residual = float(problem.residual_at(solution, point.decision[:, None], self._counted)[0])
        # On the active rows f = y - beta/C to the last digit, which K beta does not give at large C; and
        # |w|^2 = beta'(f - b) from there.
        active = beta != 0.0
        wanted = (problem.targets[:, 0] - problem.ridge * beta)[active]  # (53): e_S = theta / C.
        error = float(np.abs(point.decision[active] - wanted).max(initial=0.0))
        point.decision[active] = wanted
        point.norm = max(float(beta @ (point.decision - bias)), 0.0)
        return Target(beta, point, residual), error
