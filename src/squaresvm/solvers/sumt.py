"""SUMT of Joshi, Jayadeva, Ramakrishnan and Chandra: a free bias as the limit of penalised ones, by 2SMO."""

from __future__ import annotations

from dataclasses import dataclass

from squaresvm.operators import RowCache
from squaresvm.problem import Problem
from squaresvm.runtime.arguments import check_between, check_choice
from squaresvm.solution import Solution
from squaresvm.solvers.base import (
    FreeBiasSolver,
    Monitor,
    RowSolver,
    balanced,
    by_column,
    ended,
    size_of_targets,
    tell,
)
from squaresvm.solvers.smo import MAX_SWEEPS
from squaresvm.solvers.two_smo import BiasApart, Descent

__all__ = ["Sumt"]

_MAX_ITER = 1000
#: A is not lowered below this: where 1'beta does not vanish by then, it is not A that keeps it.
_LEAST_A = 1e-100


@dataclass(frozen=True)
class Sumt(FreeBiasSolver, RowSolver):
    """SUMT of the relaxed paper: solve (42) for A, rho A, rho^2 A, ..., until 1'beta vanishes.

    Parameters
    ----------
    A0 : float, default=1e4
        The first A, greater than 0.
    rho : float, default=0.1
        Between 0 and 1, both excluded. The paper takes 0.9.
    bias : {'limit', 'rows'}, default='limit'
        How the bias is found at the end: by its closed form, or by (43) from all rows, averaged.
    memory : int, default=2**30
        Bytes for rows of K, where K is not held whole.
    callback, trace : optional
        See :class:`~squaresvm.solvers.Progress`.

    See Also
    --------
    PenaltyFlow, Substitution : The paper's other ways to a free bias.
    Direct : The same solution from one factor.

    Notes
    -----
    Each problem starts from the solution of the one before. 2SMO keeps the bias apart here, whatever A is: so
    a very small A, where the matrix H + 1 1'/A has lost all precision, costs none, and a change of A costs no
    more than its closed form b = 1'v / (A + 1'u). That has a limit as A goes to 0, where the search ends, and
    (43) is not needed. Correction: as printed, b = y_i - w'phi(x_i), it forgets the slack. For each row it is
    y_i - w'phi(x_i) - beta_i / C_i, and ``bias='rows'`` takes the mean of that.

    An iteration is one value of A. The trace has 1'beta, the paper's lambda'y, of each.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> from squaresvm.solvers import Sumt
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVC(solver=Sumt(A0=10.0, rho=0.5)).fit(X, y)
    >>> model.certificate_.residual <= model.tol
    True
    """

    A0: float = 1e4
    rho: float = 0.1
    bias: str = "limit"

    name = "sumt"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_between("A0", self.A0, 0.0)
        check_between("rho", self.rho, 0.0, 1.0)
        check_choice("bias", self.bias, ("limit", "rows"))

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets, one after the other."""
        limit = _MAX_ITER if max_iter is None else max_iter
        monitor = self._monitor()
        rows = RowCache(problem.operator, self.memory)
        ones: Descent | None = None

        def solve(column: Problem, first: Solution | None) -> Solution:
            nonlocal ones
            search = BiasApart(column, rows, first, ones)
            ones = search.ones
            return self._search(search, tol, limit, monitor)

        return by_column(problem, start, monitor, solve)

    def _search(self, search: BiasApart, tol: float, limit: int, monitor: Monitor) -> Solution:
        problem, A, reached, iteration = search.problem, float(self.A0), False, 0  # Step 1.
        solved, enough = True, tol * size_of_targets(problem)
        while iteration < limit and not reached and not monitor.stopped:
            A *= 1.0 if iteration == 0 else self.rho  # Step 4.
            iteration += 1
            solved = search.run(A, enough, MAX_SWEEPS, Monitor())  # Step 2: (42), alpha_p = 1/(2A).
            beta, b = search.at(A)
            tell(problem, beta, b, search.gradient(b), iteration, monitor)
            reached = solved and balanced(beta, tol)  # Step 3: (40) holds.
            if not solved or A < _LEAST_A:
                break
        # Where u and v are as precise as they can be, no other A helps: the limit is as good as they are.
        limit_is_near = reached or (not solved and not monitor.stopped)
        beta, b = search.at(0.0 if limit_is_near else A)
        if self.bias == "rows":
            b -= float(search.gradient(b).mean())  # (43), corrected: with - beta_i / C_i in it.
        return ended(beta, b, iteration, reached, monitor)
