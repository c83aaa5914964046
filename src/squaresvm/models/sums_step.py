"""Linear models with squared loss: the sums over the rows are all that learning and forgetting need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.family import Loss
from squaresvm.linalg.blas import times
from squaresvm.models.problems import encode, make_problem
from squaresvm.models.steps import Check, Step
from squaresvm.problem.products import is_wide
from squaresvm.rows import Rows
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray, IntArray, Matrix

if TYPE_CHECKING:
    from squaresvm.models.state import State
    from squaresvm.models.updates import Change, Coming, Leaving

__all__ = ["SumsStep"]

#: Rows on which the residual is taken between full passes.
_SAMPLE = 64
#: Loss of relative accuracy by subtraction after which the sums are taken anew.
_DIGITS = 1e4
#: Requests between two passes over all rows.
_REQUESTS = 64
#: Numbers in the rows up to which the residual is taken on all of them.
_CHEAP = 2**17
_EPS = float(np.finfo(np.float64).eps)


class SumsStep(Step):
    """Rows are added to the sums or subtracted from them, and one small system is solved."""

    solver = "direct"
    _change: Change

    def __init__(self, state: State) -> None:
        super().__init__(state, None)
        self.requests += 1

    @staticmethod
    def serves(state: State) -> bool:
        """Return whether the model is linear, of squared loss, solved in w, with sums or narrow enough."""
        solution = state.solution
        if state.settings.loss != Loss.SQUARED or solution.primal is None:
            return False
        return solution.factor is not None or not is_wide(solution.primal.shape[0])

    def forget(self, leaving: Leaving) -> None:
        """Subtract the rows from the sums."""
        state, self._change = self.state, leaving
        rows, settings, positions = state.rows, state.settings, leaving.positions
        y = rows.y[positions]
        costs = settings.C * settings.row_weights(y, rows.weights[positions])
        sums = self._sums(leaving.same_classes)
        if sums is not None:
            self._solve(sums.minus(Moments.of(rows.take(positions), costs, encode(y, state.classes))))

    def learn(self, coming: Coming) -> None:
        """Add the rows to the sums."""
        self._change = coming
        y, X = coming.added.y[coming.counted], coming.added.X[coming.counted]
        sums = self._sums(coming.same_classes)
        if sums is not None:
            block = Moments.of(X, self.state.settings.C * coming.weights, encode(y, coming.classes))
            self._solve(sums.plus(block))

    def _sums(self, same_classes: bool) -> Moments | None:
        """Return the sums to go on from; None where they must be taken anew."""
        factor = MomentsFactor.among(self.solution.factor)
        self.reason = "squared loss, linear: sums over the rows were updated, and one small system solved"
        if same_classes and factor is not None:
            return factor.moments
        self.refactored = True
        return None

    def _solve(self, moments: Moments) -> None:
        if moments.loss_of_digits() > _DIGITS:
            self.refactored = True
            return
        factor = MomentsFactor(moments, self.state.settings.bias)
        w, b = factor.refined_minimum()
        self.solution = Solution(primal=w, bias=b, factor=factor)

    # The residual ----------------------------------------------------------------------------------

    def check(self, verify: bool) -> Check:
        """Return the residual: of some rows and what rounding may have added, or of all by one pass."""
        is_due = verify or self.refactored or self.requests >= _REQUESTS or not self.state.is_verified
        if is_due:
            return self._anew()
        if self._change.rows.count * self._change.rows.n_columns <= _CHEAP:
            return self._certified()
        residual, rows = self._sampled_residual()
        return Check(residual, rows, True) if residual <= self.state.settings.tol else self._anew()

    def _certified(self) -> Check:
        """Return the residual of all rows, which are so few that a pass costs nothing."""
        change = self._change
        problem = make_problem(self._change.rows, change.settings, change.classes, None, in_w=True)
        certificate = problem.certify(self.solution, change.settings.tol)
        if certificate.residual > change.settings.tol:
            return self._anew()
        self.problem, self.certificate = problem, certificate
        return Check(certificate.residual, problem.n_rows, False)

    def _anew(self) -> Check:
        """Take the sums anew over all rows, solve, and certify."""
        change = self._change
        settings = change.settings
        problem = make_problem(self._change.rows, settings, change.classes, None, in_w=True)
        factor = MomentsFactor(problem.linear.moments(), problem.bias)
        w, b = factor.minimum()
        dw, db = factor.step(*problem.descent(Solution(primal=w, bias=b)))
        self.solution = Solution(primal=w + dw, bias=b + db, factor=factor)
        self.problem, self.requests, self.refactored = problem, 0, True
        self.reason = "squared loss, linear: sums over all rows were taken anew, and one small system solved"
        self.certificate = problem.certify(self.solution, settings.tol)
        return Check(self.certificate.residual, problem.n_rows, False)

    def _sampled_residual(self) -> tuple[float, int]:
        """Return max |z_i'g| over some rows, and how many those are, with g the gradient by the sums.

        By the theory r = -Z g. The sums have their own rounding, which subtraction raises: what that may do
        to z_i'g is added, so that sums which have lost digits cannot vouch for themselves.
        """
        factor, settings = MomentsFactor.among(self.solution.factor), self.state.settings
        assert factor is not None
        w, b = self.solution.primal, self.solution.bias
        assert w is not None
        rows = self._change.rows
        chosen = np.unique(np.random.default_rng().integers(rows.count, size=_SAMPLE))
        Z: Matrix = rows.take(chosen)
        gw, gb = factor.gradient(w, b)
        away = np.abs(times(Z, gw)) + times(abs(Z), self._rounding(factor.moments, w, b))
        targets = encode(rows.y[chosen], self._change.classes)
        scale = 1.0 if self._change.classes is not None else float(np.abs(targets).max()) or 1.0
        balance = 0.0
        if not settings.bias.is_absent:
            balance = self._balance(Z, rows, chosen, targets, gb)
        return max(float(away.max()) / scale, balance), int(chosen.size)

    def _rounding(self, moments: Moments, w: FloatArray, b: FloatArray) -> FloatArray:
        """Return how far rounding may have moved the gradient in w, of shape (n, k).

        Both the rounding of the sums, raised by what subtraction has lost, and that of multipliers C_i times
        a slack: sum C_i |z_i| (|y_i| + |f_i|), bounded by the inequality of Cauchy and Schwarz.
        """
        centre = moments.mean @ w + b
        slack = moments.total * (np.abs(moments.target) + np.abs(moments.mean) @ np.abs(w) + np.abs(b))
        size = np.abs(moments.scatter) @ np.abs(w) + np.abs(moments.response)
        size += np.outer(np.abs(moments.mean), slack)
        of_rows = np.diagonal(moments.scatter) + moments.total * moments.mean**2
        of_targets = moments.spread + moments.total * moments.target**2
        of_values = ((moments.scatter @ w) * w).sum(axis=0) + moments.total * centre**2
        sizes = np.sqrt(np.maximum(of_targets, 0.0)) + np.sqrt(np.maximum(of_values, 0.0))
        size = moments.loss_of_digits() * size + np.outer(np.sqrt(np.maximum(of_rows, 0.0)), sizes)
        return np.asarray(_EPS * size)

    def _balance(self, Z: Matrix, rows: Rows, chosen: IntArray, targets: FloatArray, gb: FloatArray) -> float:
        """Return |A b - 1'beta| / (A |b| + |beta|_1), the last from the rows that were chosen."""
        settings, w, b = self._change.settings, self.solution.primal, self.solution.bias
        assert w is not None
        costs = settings.C * settings.row_weights(rows.y[chosen], rows.weights[chosen])
        beta = costs[:, None] * (targets - times(Z, w) - b)
        scale = settings.bias.penalty * np.abs(b) + np.abs(beta).mean(axis=0) * rows.count
        # The sum of multipliers cannot be told from the rounding of their slacks.
        sizes = costs[:, None] * (np.abs(targets) + np.abs(times(Z, w) + b))
        away = np.abs(gb) + _EPS * sizes.mean(axis=0) * rows.count
        return float(np.divide(away, scale, out=np.zeros_like(gb), where=scale > 0).max())
