"""The exact penalty of Joshi, Jayadeva, Ramakrishnan and Chandra: a free bias by a gradient flow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.factors import CholeskyFactor
from squaresvm.problem import Bias, Problem
from squaresvm.runtime.arguments import check_between
from squaresvm.solution import Solution
from squaresvm.solvers.base import (
    FreeBiasSolver,
    IterativeSolver,
    Monitor,
    balanced,
    by_column,
    ended,
    origin,
    size_of_targets,
    tell,
)

__all__ = ["PenaltyFlow"]

_MAX_ITER = 1000
#: Length of an implicit step by default, times the largest C: each step leaves 1/101 of the error at most.
_LENGTH = 100.0


@dataclass(frozen=True)
class PenaltyFlow(FreeBiasSolver, IterativeSolver):
    r"""The exact penalty (44) of the relaxed paper: a differential equation, followed to its rest point.

    Parameters
    ----------
    penalty : float, optional
        beta of (44) to begin with, greater than 0; by default the largest ``|y|``.
    step : float, optional
        tau, greater than 0; by default 100 times the largest C.
    callback, trace : optional
        See :class:`~squaresvm.solvers.Progress`.

    See Also
    --------
    Sumt, Substitution : The paper's other ways to a free bias.
    Direct : The same solution from one factor.

    Notes
    -----
    Equations (45)-(46) are, in signed multipliers and with :math:`\rho` for the paper's penalty,

    .. math::
        \frac{d \beta}{d t} = y - H \beta - \rho\, \mathrm{sgn}(\mathbf 1^\top \beta)\, \mathbf 1

    The right-hand side jumps where 1'beta = 0, which is where the solution lies, so explicit steps go back
    and forth across it for ever. An implicit step of length tau is a small problem of its own,

    .. math::
        (H + I/\tau)\, \beta_{\mathrm{new}} = y + \beta/\tau - s\, \mathbf 1, \qquad
        s \in \rho\,[-1, 1],\quad
        s = \rho\, \mathrm{sgn}(\mathbf 1^\top \beta_{\mathrm{new}}) \text{ off } 0

    and has a closed form: s is what makes 1'beta vanish, cut at the penalty. One factor serves all steps.
    The flow then slides along 1'beta = 0, and s is the bias.

    Correction: the paper holds that any penalty will do. It does from ``|b|`` on; below, the flow rests at a
    point with 1'beta != 0. So wherever it comes to rest there, the penalty is doubled.

    An iteration is an implicit step.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> from squaresvm.solvers import PenaltyFlow
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVC(solver=PenaltyFlow(penalty=0.1)).fit(X, y)
    >>> model.certificate_.residual <= model.tol
    True
    """

    penalty: float | None = None
    step: float | None = None

    name = "penalty-flow"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        for name in ("penalty", "step"):
            if getattr(self, name) is not None:
                check_between(name, getattr(self, name), 0.0)

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets, one after the other."""
        limit = _MAX_ITER if max_iter is None else max_iter
        monitor = self._monitor()
        tau = _LENGTH * float(problem.costs.max()) if self.step is None else float(self.step)
        operator, ridge = problem.operator, problem.ridge + 1.0 / tau
        factor = CholeskyFactor.build(operator.store(), operator.slots, ridge, Bias.none())

        def solve(column: Problem, first: Solution | None) -> Solution:
            return self._flow(column, factor, tau, first or origin(column), tol, limit, monitor)

        return by_column(problem, start, monitor, solve)

    def _flow(
        self,
        problem: Problem,
        factor: CholeskyFactor,
        tau: float,
        start: Solution,
        tol: float,
        limit: int,
        monitor: Monitor,
    ) -> Solution:
        y, scale = problem.targets[:, 0], size_of_targets(problem)
        penalty = scale if self.penalty is None else float(self.penalty)
        assert start.beta is not None
        beta, s = start.beta[:, 0].copy(), float(start.bias[0])
        u = factor.bordered(np.ones((y.size, 1)))[0][:, 0]
        iteration, reached = 0, False
        while iteration < limit and not reached and not monitor.stopped:
            iteration += 1
            v = factor.bordered((y + beta / tau)[:, None])[0][:, 0]
            wanted = float(v.sum() / u.sum())
            s = min(max(wanted, -penalty), penalty)  # beta sgn(r) of (45), by (47) off r = 1'beta = 0, (46).
            new = v - s * u  # An implicit step of (45).
            new -= u * (new.sum() / u.sum()) if s == wanted else 0.0  # What rounding left of 1'beta.
            # H new + s - y = (beta - new) / tau, by the step's own equation.
            defect, beta = (beta - new) / tau, new
            tell(problem, beta, s, defect, iteration, monitor)
            if float(np.abs(defect).max()) <= tol * scale:
                if not balanced(beta, tol):
                    penalty *= 2.0  # At rest, and off (40): (44) was not exact.
                    continue
                # The step's equation holds to rounding only: the problem itself must agree.
                there = Solution(beta=beta[:, None], bias=np.array([s]))
                reached = bool(problem.residual(there).max() <= tol)
        return ended(beta, s, iteration, reached, monitor)
