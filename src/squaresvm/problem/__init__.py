"""The one convex problem behind every model, and the certificate of a solution.

With m rows, targets y, costs C_i and f(x) = w'phi(x) + b, the primal problem is

    min  1/2 |w|^2 + A/2 b^2 + 1/2 sum_i C_i xi_i^2                                        (P)

    squared loss    xi_i = y_i - f(x_i)
    squared hinge   xi_i = max(0, 1 - y_i f(x_i))

and its dual, in signed multipliers beta with w = sum_i beta_i phi(x_i),

    max  y'beta - 1/2 beta'(K + diag(1/C)) beta - 1/(2A) (1'beta)^2                        (D)

    1'beta = 0 where the bias is free (A = 0);  y_i beta_i >= 0 for the squared hinge.

At the optimum beta_i = C_i xi_i (signed), and A b = 1'beta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from squaresvm.family import Bias, Loss
from squaresvm.linalg.blas import times
from squaresvm.operators import Operator
from squaresvm.problem.linear import LinearProblem
from squaresvm.problem.runners import MemoryRunner
from squaresvm.problem.verdict import EPSILON, ROUNDING, Verdict, certain_room, row_spread, within_gap
from squaresvm.solution import Certificate, Outcome, Solution
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["Bias", "Loss", "Problem", "columns_of"]

#: A squared distance that need not be known better than by a bound.
_NEGLIGIBLE = 1e-24


@dataclass(frozen=True, eq=False)
class Problem:
    """Problem (P) for every column of targets at once.

    Parameters
    ----------
    operator : Operator
        Reaches K.
    targets : ndarray of shape (m, k)
        +1 and -1 for classes, real values for regression.
    costs : ndarray of shape (m,)
        C_i > 0.
    loss : Loss
    bias : Bias

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.operators import PrecomputedOperator
    >>> from squaresvm.problem import Bias, Loss, Problem
    >>> from squaresvm.solution import Solution
    >>> problem = Problem(PrecomputedOperator(np.eye(2)), np.array([[1.0], [-1.0]]), np.ones(2),
    ...                   Loss.SQUARED, Bias.free())
    >>> problem.certify(Solution(beta=problem.targets / 2, bias=np.zeros(1)), tol=1e-6).residual
    0.0
    """

    operator: Operator
    targets: FloatArray
    costs: FloatArray
    loss: Loss
    bias: Bias

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return int(self.targets.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns of targets, k."""
        return int(self.targets.shape[1])

    @property
    def ridge(self) -> FloatArray:
        """1 / C_i, what the loss adds to the diagonal of K."""
        return 1.0 / self.costs

    @property
    def _features(self) -> Matrix:
        features = self.operator.features
        if features is None:
            raise TypeError("a solution in w belongs to a linear problem")
        return features

    def __str__(self) -> str:
        """Return the kind of problem in words."""
        return f"{self.loss.value} with {self.bias}"

    def column(self, index: int) -> Problem:
        """Return the problem of one column of targets."""
        targets = self.targets[:, [index]]
        return Problem(self.operator, targets, self.costs, self.loss, self.bias)

    def slack(self, decision: FloatArray) -> FloatArray:
        """Return the signed slack of each row: y - f, or y max(0, 1 - y f)."""
        error = self.targets - decision
        if self.loss == Loss.SQUARED_HINGE:
            error[self.targets * error < 0.0] = 0.0
        return error

    def decision(self, solution: Solution) -> FloatArray:
        """Return f at the rows, of shape (m, k)."""
        if solution.primal is not None:
            return times(self._features, solution.primal) + solution.bias
        assert solution.beta is not None
        return self.operator.matmul(solution.beta) + solution.bias

    def multipliers(self, solution: Solution) -> FloatArray:
        """Return beta; C_i times the signed slack where the solution is in w."""
        if solution.beta is not None:
            return solution.beta
        return self.costs[:, None] * self.slack(self.decision(solution))

    def residual(self, solution: Solution) -> FloatArray:
        """Return the scaled violation of the optimality conditions of each column, of shape (k,)."""
        if solution.primal is not None:
            return self.linear.verdict(solution.primal, solution.bias).residual
        beta, _, defect = self._defect(solution)
        return np.maximum(self._row_residual(beta, defect), self._bias_residual(beta, solution.bias))

    @cached_property
    def linear(self) -> LinearProblem:
        """The same problem in w, by passes over the features."""
        runner = MemoryRunner(self._features, self.targets, self.costs)
        return LinearProblem(runner, self.loss, self.bias, self._scale())

    def residual_at(
        self, solution: Solution, decision: FloatArray, rows: BoolArray | IntArray | slice = slice(None)
    ) -> FloatArray:
        """Return the residual of each column over some rows, given f at all rows."""
        beta = solution.beta
        assert beta is not None
        defect = decision[rows] + self.ridge[rows, None] * beta[rows] - self.targets[rows]
        worst = self._row_residual(beta[rows], defect, rows)
        return np.maximum(worst, self._bias_residual(beta, solution.bias))

    def scaled_residual(self, defect: FloatArray, solution: Solution) -> float:
        """Return the residual that the largest |r_i| of each column amounts to, for the squared loss."""
        assert solution.beta is not None
        worst = np.maximum(defect / self._scale(), self._bias_residual(solution.beta, solution.bias))
        return float(worst.max())

    def _defect(self, solution: Solution) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return beta, f and r = K beta + beta / C + b - y of a solution in multipliers."""
        beta, decision = solution.beta, self.decision(solution)
        assert beta is not None
        return beta, decision, decision + self.ridge[:, None] * beta - self.targets

    def descent(self, solution: Solution) -> tuple[FloatArray, FloatArray]:
        """Return minus the gradient of (P) in w and b at a solution in w: Z'beta - w and 1'beta - A b."""
        assert solution.primal is not None
        point = self.linear.at(solution.primal, solution.bias)
        return point.down_w, point.down_b

    def _row_residual(
        self, beta: FloatArray, defect: FloatArray, rows: BoolArray | IntArray | slice = slice(None)
    ) -> FloatArray:
        if self.loss == Loss.SQUARED:
            return np.asarray(np.abs(defect).max(axis=0) / self._scale())
        targets = self.targets[rows]
        # Without h the multipliers would be measured in units of C: ten times the right beta passes
        # any tolerance at C = 1e-8.
        h = self.operator.diagonal()[rows] + self.ridge[rows]
        if not self.bias.is_absent and not self.bias.is_free:
            h = h + 1.0 / self.bias.penalty
        complementarity = np.minimum(h[:, None] * targets * beta, targets * defect)
        return np.asarray(np.abs(complementarity).max(axis=0))

    def _bias_residual(self, beta: FloatArray, bias: FloatArray) -> FloatArray:
        if self.bias.is_absent:
            return np.zeros(self.n_columns)
        pull = self.bias.penalty * bias
        scale = np.abs(pull) + np.add.reduce(np.abs(beta))
        violation = np.abs(pull - np.add.reduce(beta))
        return np.asarray(violation / (scale + (scale == 0.0)))  # Both are zero, or neither.

    def _scale(self) -> FloatArray:
        if self.targets.dtype == np.int8:
            return np.ones(self.n_columns)  # Signs come a byte each, see `rows.labels`.
        largest = np.maximum(np.maximum.reduce(self.targets), -np.minimum.reduce(self.targets))
        return np.asarray(np.where(largest > 0.0, largest, 1.0))

    def objective(self, solution: Solution) -> FloatArray:
        """Return the primal objective of each column, of shape (k,)."""
        return self.objective_at(solution, self.decision(solution))

    def objective_at(self, solution: Solution, decision: FloatArray) -> FloatArray:
        """Return the primal objective of each column, given f at all rows."""
        if solution.primal is not None:
            norm = np.square(solution.primal).sum(axis=0)
        else:
            assert solution.beta is not None
            norm = (solution.beta * (decision - solution.bias)).sum(axis=0)
        loss = (self.costs[:, None] * np.square(self.slack(decision))).sum(axis=0)
        return np.asarray(0.5 * (norm + loss + self._bias_penalty(solution.bias)))

    def _bias_penalty(self, bias: FloatArray) -> FloatArray:
        return np.zeros_like(bias) if self.bias.is_absent else self.bias.penalty * bias**2

    def feasible(self, beta: FloatArray) -> FloatArray:
        """Return a point of the dual's feasible set near beta.

        Clipped at zero for the squared hinge; where the bias is free, centred (squared loss) or with its
        heavier side scaled down (squared hinge), so that 1'beta = 0.
        """
        if self.loss == Loss.SQUARED:
            return beta - beta.mean(axis=0) if self.bias.is_free else beta
        size = np.maximum(self.targets * beta, 0.0)
        if self.bias.is_free:
            positive = self.targets > 0
            up = np.where(positive, size, 0.0).sum(axis=0)
            down = np.where(positive, 0.0, size).sum(axis=0)
            lighter = np.minimum(up, down)
            shrink_up = np.divide(lighter, up, out=np.zeros_like(up), where=up > 0)
            shrink_down = np.divide(lighter, down, out=np.zeros_like(down), where=down > 0)
            size = size * np.where(positive, shrink_up, shrink_down)
        return np.asarray(self.targets * size)

    def gap(self, solution: Solution) -> FloatArray:
        """Return (P) of the solution less (D) of a feasible point beside it, of shape (k,).

        With w of the model and w_beta of the feasible multipliers the difference is a sum of terms that
        are not negative, so no digits are lost:

            1/2 |w - w_beta|^2 + 1/2 sum C_i (xi_i - beta_i/C_i)^2
            + sum |beta_i| max(0, y_i f_i - 1)  [squared hinge]  + (A b - 1'beta)^2 / (2 A)
        """
        return self.verdict(solution).gap

    def _gap(self, solution: Solution, beta: FloatArray, decision: FloatArray) -> FloatArray:
        feasible = self.feasible(beta)
        distance = self._distance(beta - feasible)
        mismatch = self.slack(decision) - feasible / self.costs[:, None]
        total = distance + (self.costs[:, None] * mismatch**2).sum(axis=0)
        if self.loss == Loss.SQUARED_HINGE:
            beyond = np.maximum(self.targets * decision - 1.0, 0.0)
            total = total + 2.0 * (np.abs(feasible) * beyond).sum(axis=0)
        if not self.bias.is_absent and not self.bias.is_free:
            A = self.bias.penalty
            total = total + (A * solution.bias - feasible.sum(axis=0)) ** 2 / A
        return np.asarray(0.5 * total)

    def _distance(self, step: FloatArray) -> FloatArray:
        """Return |sum_i step_i phi(x_i)|^2; where it is next to nothing, an upper bound without a product."""
        bound = np.abs(step).sum(axis=0) ** 2 * float(np.abs(self.operator.diagonal()).max())
        if np.all(bound <= _NEGLIGIBLE):
            return np.asarray(bound)
        return np.maximum((step * self.operator.matmul(step)).sum(axis=0), 0.0)

    def rounding(self, solution: Solution) -> FloatArray:
        """Return the residual that float64 cannot be expected to beat, of shape (k,)."""
        if solution.primal is not None:
            return self.linear.rounding(solution.primal, solution.bias)
        size = self._size(solution)
        scale = self._scale() if self.loss == Loss.SQUARED else 1.0
        return np.asarray(ROUNDING * size.max(axis=0) / scale)

    def _size(self, solution: Solution) -> FloatArray:
        """Return the size of what r is the sum of: sum_j |K_ij beta_j| + |beta_i| / C_i + |b| + |y_i|."""
        assert solution.beta is not None
        size = self.operator.magnitude(solution.beta) + np.abs(self.ridge[:, None] * solution.beta)
        return np.asarray(size + np.abs(solution.bias) + np.abs(self.targets))

    def decision_error(self, solution: Solution, verdict: Verdict) -> float:
        """Return a bound on |f - f*| at the rows over the scale of the targets, f* that of the optimum.

        By (7) and (8) of :mod:`squaresvm.problem.verdict`; what rounding may have added to the gap, and to f,
        is added to the bound.
        """
        if solution.primal is not None:
            return self.linear.decision_error(solution.primal, solution.bias, verdict)
        assert solution.beta is not None
        rounding = EPSILON * self._size(solution)
        lost = 0.5 * (self.costs[:, None] * rounding**2).sum(axis=0)
        if self.loss == Loss.SQUARED_HINGE:
            lost = lost + (np.abs(solution.beta) * rounding).sum(axis=0)
        gap = within_gap(verdict.gap, lost)
        room = np.abs(self.slack(self.decision(solution)))
        norms = np.maximum(self.operator.diagonal(), 0.0)
        worst = np.empty(self.n_columns)
        for j in range(self.n_columns):
            certain = np.ones(self.n_rows, dtype=bool)
            if self.loss == Loss.SQUARED_HINGE:
                certain = room[:, j] > certain_room(float(gap[j]), self.costs)
            total = float(self.costs[certain].sum())
            largest = float(norms[certain].max(initial=0.0))
            spread = row_spread(norms, self.costs, certain, self.bias, total, largest)
            worst[j] = (np.sqrt(2.0 * gap[j] * spread) + rounding[:, j]).max()
        return float((worst / self._scale()).max())

    def certify(self, solution: Solution, tol: float) -> Certificate:
        """Return the certificate: residual of the worst column, objective and gap of all together.

        Parameters
        ----------
        solution : Solution
        tol : float
            Bound on the residual.

        Returns
        -------
        Certificate
        """
        if solution.primal is not None:
            return self.linear.certify(solution, tol)
        return self.verdict(solution).certified(
            tol,
            solution.outcome,
            lambda: self.rounding(solution),
            lambda verdict: self.decision_error(solution, verdict),
        )

    def verdict(self, solution: Solution) -> Verdict:
        """Return residual, gap and objective of every column."""
        if solution.primal is not None:
            return self.linear.verdict(solution.primal, solution.bias)
        beta, decision, defect = self._defect(solution)
        residual = np.maximum(self._row_residual(beta, defect), self._bias_residual(beta, solution.bias))
        gap = self._gap(solution, beta, decision)
        return Verdict(residual, gap, self.objective_at(solution, decision))


def columns_of(solutions: Sequence[Solution], trace: tuple[Any, ...] | None = None) -> Solution:
    """Return one solution from those of single columns of targets, with the trace of them all."""
    primal = [s.primal for s in solutions if s.primal is not None]
    beta = [s.beta for s in solutions if s.beta is not None]
    outcomes = [s.outcome for s in solutions]
    ended = [o for o in (Outcome.STOPPED, Outcome.MAX_ITER) if o in outcomes]
    return Solution(
        bias=np.concatenate([s.bias for s in solutions]),
        beta=np.hstack(beta) if beta else None,
        primal=np.hstack(primal) if primal else None,
        n_iter=max(s.n_iter for s in solutions),
        outcome=ended[0] if ended else Outcome.FINISHED,
        trace=trace,
        work=_total([s.work for s in solutions if s.work is not None]),
        note="; ".join(dict.fromkeys(s.note for s in solutions if s.note)),
    )


def _total(works: Sequence[dict[str, float]]) -> dict[str, float] | None:
    return {name: sum(work[name] for work in works) for name in works[0]} if works else None
