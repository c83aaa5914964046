"""Substitution of Joshi, Jayadeva, Ramakrishnan and Chandra: a free bias without a constraint.

It is Fletcher's exact penalty. Equation numbers are those of that paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.operators import RowCache
from squaresvm.problem import Problem
from squaresvm.runtime.arguments import check_between
from squaresvm.solution import Solution
from squaresvm.solvers.base import (
    FreeBiasSolver,
    Monitor,
    RowSolver,
    balanced,
    by_column,
    ended,
    first_multipliers,
    size_of_targets,
    tell,
)
from squaresvm.solvers.smo import MAX_SWEEPS
from squaresvm.solvers.two_smo import Descent
from squaresvm.typing import FloatArray

__all__ = ["Substitution"]

#: Times that the search goes on with a tenth of the tolerance, where the certificate asks for more.
_TIGHTENINGS = 6


@dataclass(frozen=True)
class Substitution(FreeBiasSolver, RowSolver):
    r"""Substitution of the relaxed paper: a dual without constraint, with 1'beta = 0 at its minimum.

    Parameters
    ----------
    penalty : float, optional
        beta of (58), greater than (1 - alpha m / 2)^2 1'H1 / m^2; by default twice that.
    alpha : float, default=0.0
        alpha of (55)-(58).
    memory : int, default=2**30
        Bytes for rows of K, where K is not held whole.
    callback, trace : optional
        See :class:`~squaresvm.solvers.Progress`.

    See Also
    --------
    Sumt, PenaltyFlow : The paper's other ways to a free bias.
    Direct : The same solution from one factor.

    Notes
    -----
    (51) puts the multiplier of the constraint into the Lagrangian. With s = H 1, in signed multipliers, and
    with :math:`\rho` for the penalty, updates of 2SMO's kind minimise

    .. math::
        \tfrac12 \beta^\top W \beta - d^\top \beta, \qquad
        W = H - (\mathbf 1 s^\top + s \mathbf 1^\top)/m + \rho\, \mathbf 1 \mathbf 1^\top, \quad
        d = y - \bar y

    that is (54) with (53), made symmetric by (60), and beta of (58). Then b = (1'y - s'beta) / m. On the
    split {1, its complement} W is block diagonal, so it is positive definite exactly for penalty > 1's / m^2.

    (57) has one more term in W, alpha (1 s' + s 1')/2. Corrections: the paper holds that it is positive
    semidefinite. It is not (eigenvalues of -31 at alpha = 1, -3596 at alpha = 100), but a penalty above
    (1 - alpha m / 2)^2 1's / m^2 makes W definite for any alpha. Then the minimum is not that of the LS-SVM
    any more, for the term has a slope where 1'beta = 0: d needs alpha / 2 (1'y - m b) more. b is affine in
    it, so that a second search, W x = 1, gives it in closed form:

    .. math::
        \beta = \beta_0 + t x, \qquad W \beta_0 = d, \quad
        t = \frac{\alpha\, s^\top \beta_0}{2 - \alpha\, s^\top x}

    An iteration is a sweep: as many updates as there are rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> from squaresvm.solvers import Substitution
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVC(solver=Substitution()).fit(X, y)
    >>> model.certificate_.residual <= model.tol
    True
    """

    penalty: float | None = None
    alpha: float = 0.0

    name = "substitution"

    def __post_init__(self) -> None:
        """Check the options; the lower bound of the penalty depends on the problem."""
        super().__post_init__()
        if self.penalty is not None:
            check_between("penalty", self.penalty, 0.0)
        check_between("alpha", self.alpha, -np.inf)

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets, one after the other."""
        limit = MAX_SWEEPS if max_iter is None else max_iter
        monitor = self._monitor()
        rows = RowCache(problem.operator, self.memory)
        sums = problem.operator.matmul(np.ones((problem.n_rows, 1)))[:, 0] + problem.ridge
        penalty = self._penalty(float(sums.mean()) / problem.n_rows, problem.n_rows)
        ones: Descent | None = None

        def solve(column: Problem, first: Solution | None) -> Solution:
            nonlocal ones
            beta = first_multipliers(column, first)
            search = _PenaltySearch(column, rows, beta, sums, penalty, self.alpha, ones)
            ones = search.ones
            return search.solve(tol, limit, monitor)

        return by_column(problem, start, monitor, solve)

    def _penalty(self, mean: float, m: int) -> float:
        bound = (1.0 - 0.5 * self.alpha * m) ** 2 * mean
        if self.penalty is None:
            return 2.0 * max(bound, mean, 0.0)
        if not self.penalty > bound:
            name = "1'H1 / m^2" if self.alpha == 0.0 else "(1 - alpha m / 2)^2 1'H1 / m^2"
            raise ValueError(
                f"penalty must be greater than {name} = {bound:g}, or the substituted problem may have no "
                f"minimum; got {self.penalty!r}"
            )
        return float(self.penalty)


class _PenaltySearch:
    """The substituted problem of one column.

    Parameters
    ----------
    problem : Problem
    rows : RowCache
    start : ndarray of shape (m,)
    sums : ndarray of shape (m,)
        s = H 1.
    penalty, alpha : float
    ones : Descent, optional
        The search for W x = 1, where another column has begun it.
    """

    def __init__(
        self,
        problem: Problem,
        rows: RowCache,
        start: FloatArray,
        sums: FloatArray,
        penalty: float,
        alpha: float,
        ones: Descent | None,
    ) -> None:
        m, y = problem.n_rows, problem.targets[:, 0]
        self._problem = problem
        self._sums = sums
        self._alpha = alpha
        # (58) by its symmetric part (60): W_ij = P_ij + slope_i - share_j, with P of (41).
        share = (1.0 / m - 0.5 * alpha) * sums  # (57): alpha - 2/M, halved, times yy'DPD.
        self._slope = penalty - share  # (58): beta yy'.
        d = y - y.mean()  # (53)
        self._descent = Descent(problem, rows, start, d, self._slope, share)
        if ones is None and alpha != 0.0:
            ones = Descent(problem, rows, np.zeros(m), np.ones(m), self._slope, share)
        self.ones = ones

    @property
    def _shift(self) -> float:
        """What d of (53) lacks where alpha is not 0: alpha / 2 (1'y - m b), in closed form."""
        if self.ones is None:
            return 0.0
        return float(
            self._alpha
            * (self._sums @ self._descent.beta)
            / (2.0 - self._alpha * (self._sums @ self.ones.beta))
        )

    def _at(self, t: float) -> tuple[FloatArray, float, FloatArray]:
        """Return beta, b and H beta + b - y, as far as the searches have come."""
        beta, gradient = self._descent.beta, self._descent.gradient
        if self.ones is not None:
            beta, gradient = beta + t * self.ones.beta, gradient + t * self.ones.gradient
        # (51), with its sign turned: gamma there is minus b.
        b = float((self._problem.targets[:, 0].sum() - self._sums @ beta) / self._sums.size)
        # What the gradient is when 1'beta has vanished.
        return beta, b, np.asarray(gradient - beta.sum() * self._slope)

    def solve(self, tol: float, limit: int, monitor: Monitor) -> Solution:
        """Return the solution of the column."""
        problem, descent = self._problem, self._descent
        scale = size_of_targets(problem)

        def watch() -> bool:
            beta, b, defect = self._at(self._shift)
            return tell(problem, beta, b, defect, descent.sweeps, monitor)

        reached, enough = False, 0.5 * tol * scale
        for _ in range(_TIGHTENINGS):
            if monitor.stopped or not descent.run(enough, limit, watch):
                break
            if self.ones is not None and not self.ones.run(0.5 * enough / max(1.0, abs(self._shift)), limit):
                break
            beta, _, defect = self._at(self._shift)
            reached = balanced(beta, tol) and float(np.abs(defect).max()) <= tol * scale
            if reached:
                break
            enough *= 0.1
        beta, b, _ = self._at(self._shift)
        return ended(beta, b, descent.sweeps, reached, monitor)
