"""The equalities of an active set by the RLSSVM paper's own factor: switches (64) and appended rows (61)."""

from __future__ import annotations

import numpy as np

from squaresvm.factors.ldl import LDLFactor
from squaresvm.problem import Problem
from squaresvm.solvers.equalities import bias_of_no_rows
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = ["SwitchedSystem"]


class SwitchedSystem:
    """(H_SS, bordered) (beta_S, b) = (y_S, 0) for one column of targets, whatever rows come and go.

    The factor of the last set is always reused, as the paper has it.

    Parameters
    ----------
    problem : Problem
        With one column of targets.

    Attributes
    ----------
    is_updated : bool
        Whether the factor was updated since it was made, and so may have lost digits.
    anew : float
        Operations that it would have taken to factor each set anew.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.is_updated = False
        self.anew = 0.0
        self._factor = LDLFactor()
        self._rows: IntArray = np.empty(0, dtype=np.intp)
        self._last = np.zeros(problem.n_rows), 0.0

    @property
    def work(self) -> dict[str, float]:
        """Operations spent on factors, and those that factoring each set anew would have taken."""
        return {"factor": self._factor.work, "refactoring": self.anew}

    def solve(self, active: BoolArray, bias: float) -> tuple[FloatArray, float]:
        """Return beta over all rows, and b, with the active rows as equalities and the others left out."""
        if not active.any():
            return np.zeros(self.problem.n_rows), bias_of_no_rows(self.problem, bias)
        if self._rows.size == 0:
            return self.rebuild(active)
        leave = np.flatnonzero(~active[self._rows])
        come = active.copy()
        come[self._rows] = False
        if leave.size:
            self._rows = self._rows[self._factor.remove(leave)]
        self._append(np.flatnonzero(come))
        self.is_updated = True
        return self._solved()

    def rebuild(self, active: BoolArray) -> tuple[FloatArray, float]:
        """Factor anew; return beta over all rows, and b."""
        self._rows = np.empty(0, dtype=np.intp)
        self._factor.size = 0
        self._append(np.flatnonzero(active))
        self.is_updated = False
        return self._solved()

    def _append(self, rows: IntArray) -> None:
        if rows.size:
            operator = self.problem.operator
            corner = operator.block(rows, rows) + np.diag(self.problem.ridge[rows])
            self._factor.append(operator.block(self._rows, rows), corner)
            self._rows = np.concatenate([self._rows, rows])
        self.anew += self._rows.size**3 / 3.0

    def improve(self, active: BoolArray) -> tuple[FloatArray, float]:
        """Return beta and b with more digits: by a new factor after updates, else by refinement."""
        if self.is_updated:
            return self.rebuild(active)
        problem, rows = self.problem, self._rows
        beta, b = self._last
        product = problem.operator.matmul(beta[:, None])[rows, 0] + problem.ridge[rows] * beta[rows]
        pull = 0.0 if problem.bias.is_absent else problem.bias.penalty * b
        step, shift = self._bordered(problem.targets[rows, 0] - product - b, pull - float(beta.sum()))
        return self._kept(beta[rows] + step, b + shift)

    def _solved(self) -> tuple[FloatArray, float]:
        return self._kept(*self._bordered(self.problem.targets[self._rows, 0], 0.0))

    def _kept(self, beta: FloatArray, b: float) -> tuple[FloatArray, float]:
        everywhere = np.zeros(self.problem.n_rows)
        everywhere[self._rows] = beta
        self._last = everywhere, b
        return self._last

    def _bordered(self, rhs: FloatArray, border: float) -> tuple[FloatArray, float]:
        """Return (59): theta = v - b u, with b = 1'v / 1'u where the bias is free and there is no border."""
        bias = self.problem.bias
        u, v = self._factor.solve(np.column_stack([np.ones(rhs.size), rhs])).T  # (58)
        b = 0.0 if bias.is_absent else float((v.sum() - border) / (bias.penalty + u.sum()))
        return v - b * u, b
