"""The Lagrangian SVM of Mangasarian and Musicant: the squared hinge by a fixed point.

Equation numbers are those of the LSVM paper; u_i is y_i beta_i, and nu is C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from squaresvm.factors import CholeskyFactor, Moments, MomentsFactor
from squaresvm.linalg.blas import times
from squaresvm.problem import Loss, Problem
from squaresvm.runtime.arguments import check_between, check_choice
from squaresvm.runtime.resources import row_blocks
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.base import IterativeSolver, Monitor, by_column
from squaresvm.typing import FloatArray, Matrix

__all__ = ["Inverse", "Lagrangian", "implicit_lagrangian"]

_MAX_ITER = 10_000
#: Times that an iterate within tol, by its own count, may turn out to be above it.
_TIGHTENINGS = 8


@dataclass(frozen=True)
class Lagrangian(IterativeSolver):
    r"""The fixed point of the Lagrangian SVM paper: one system for all iterations.

    Parameters
    ----------
    alpha : float, optional
        Between 0 and 2 / max(C_i), both excluded. By default 1.9 / C_i for row i.
    stop : {'residual', 'step'}, default='residual'
        When to end: with the certificate's residual within tol, or, as the paper does by (25), with
        ``|beta_new - beta|`` within tol. The certificate is of the former either way.
    callback, trace : optional
        See :class:`~squaresvm.solvers.Progress`.

    See Also
    --------
    ActiveSet, Newton : The same solution, also where C is large.
    SesquiSmo : The same solution by updates of single multipliers.

    Notes
    -----
    Iteration (15) is, in signed multipliers beta = y u,

    .. math::
        \beta \leftarrow Q^{-1} \bigl(y + y\, (y\,(Q \beta - y) - \alpha\, y \beta)_+\bigr)

    with Q = K + diag(1/C), with 1 1'/A where the bias is penalised, and products of y taken row by row.
    Q beta need never be computed: the fixed point has it in hand, as what inv(Q) was just applied to.

    A linear kernel needs a system of n + 1 unknowns, by the Sherman-Morrison-Woodbury identity (1): inv(Q) z
    is C times the error of the least squares fit to z, so an iteration is one pass over the rows. Another
    kernel needs one Cholesky factor, where the paper has the inverse itself.

    It converges for 0 < alpha < 2/nu, condition (16), where nu is the largest C_i; the paper takes 1.9/nu,
    and so does this class, row by row where the C_i differ: (16) holds for diag(C)^1/2 Q diag(C)^1/2, whose
    eigenvalues are at least 1. Correction: the rate (20) tends to 1 as nu grows; at nu = 1e5 the paper needed
    100,000 iterations. Then the search ends at ``max_iter``, and the certificate says so; ``'active-set'``
    or ``'newton'`` solve the same problem.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LagrangianSVC
    >>> from squaresvm.solvers import Lagrangian
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LagrangianSVC(C=2.0, solver=Lagrangian(alpha=0.5)).fit(X, y)
    >>> model.certificate_.residual <= model.tol
    True
    """

    alpha: float | None = None
    stop: str = "residual"

    name = "lagrangian"
    solves = "the squared hinge with a penalised or no bias"

    def __post_init__(self) -> None:
        """Check the options; the upper bound of alpha depends on the problem."""
        super().__post_init__()
        if self.alpha is not None:
            check_between("alpha", self.alpha, 0.0)
        check_choice("stop", self.stop, ("residual", "step"))

    def accepts(self, problem: Problem) -> bool:
        """Return whether the loss is the squared hinge and the bias not free."""
        return problem.loss == Loss.SQUARED_HINGE and not problem.bias.is_free

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets, one after the other."""
        system = _Linear(problem) if problem.operator.features is not None else _Kernel(problem)
        return self._fixed_point(problem, system, tol, max_iter, start)

    def solve_with(
        self, problem: Problem, inverse: Inverse, *, tol: float, max_iter: int | None, start: Solution | None
    ) -> Solution:
        """Return the same with inv(Q) at hand, as the decremental paper's (10) does."""
        return self._fixed_point(problem, _Kernel(problem, inverse), tol, max_iter, start)

    def _fixed_point(
        self, problem: Problem, system: _System, tol: float, max_iter: int | None, start: Solution | None
    ) -> Solution:
        limit = _MAX_ITER if max_iter is None else max_iter
        alpha = self._alpha(problem)
        monitor = self._monitor()

        def solve(column: Problem, first: Solution | None) -> Solution:
            begin = None if first is None else system.image(column.multipliers(first)[:, 0])
            return _iterate(column, system, alpha, self.stop, tol, limit, monitor, begin)

        return by_column(problem, start, monitor, solve)

    def _alpha(self, problem: Problem) -> FloatArray:
        if self.alpha is None:
            return 1.9 / problem.costs  # (16), row by row.
        bound = 2.0 / float(problem.costs.max())  # (16)
        if not self.alpha < bound:
            raise ValueError(
                f"alpha must be between 0 and 2 / max(C_i) = {bound:g}, both excluded; got {self.alpha!r}"
            )
        return np.full(problem.n_rows, self.alpha)


class Inverse(Protocol):
    """Whatever applies inv(Q)."""

    def bordered(self, rhs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return beta = inv(Q) rhs, and the bias that belongs to it."""
        ...


class _System(Protocol):
    """inv(Q), applied to z = Q beta as often as need be."""

    def image(self, beta: FloatArray) -> FloatArray:
        """Return Q beta."""
        ...

    def begin(self, z: FloatArray) -> None:
        """Take z as Q beta."""
        ...

    def advance(self, move: Callable[[FloatArray, FloatArray, slice], FloatArray]) -> None:
        """Replace z by move(z, beta, rows), block by block, and solve for beta again."""
        ...

    def solution(self) -> Solution:
        """Return the model as it stands."""
        ...


class _Kernel:
    """Q of (27) through one Cholesky factor, or through its inverse where that is at hand."""

    def __init__(self, problem: Problem, inverse: Inverse | None = None) -> None:
        self._problem = problem
        self._factor: Inverse = CholeskyFactor.of(problem) if inverse is None else inverse
        self._z = self._beta = np.zeros(problem.n_rows)
        self._bias = np.zeros(1)

    def image(self, beta: FloatArray) -> FloatArray:
        problem = self._problem
        product = problem.operator.matmul(beta[:, None])[:, 0] + problem.ridge * beta
        return np.asarray(product + beta.sum() / problem.bias.penalty)  # Q of (27) times beta.

    def begin(self, z: FloatArray) -> None:
        self._z = z
        beta, self._bias = self._factor.bordered(z[:, None])
        self._beta = beta[:, 0]

    def advance(self, move: Callable[[FloatArray, FloatArray, slice], FloatArray]) -> None:
        self.begin(move(self._z, self._beta, slice(0, self._z.size)))

    def solution(self) -> Solution:
        return Solution(beta=self._beta[:, None], bias=self._bias)


class _Linear:
    """Q of (10) through a system of n + 1 unknowns, by (1).

    beta = C (z - Z w - b), where (w, b) fits z by least squares, and w = Z'beta, b = 1'beta / A as in (9).
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        features = problem.operator.features
        assert features is not None
        self._Z: Matrix = features
        self._costs = problem.costs
        nothing = np.zeros((problem.n_rows, 0))
        self._factor = MomentsFactor(Moments.of(self._Z, self._costs, nothing), problem.bias)
        self._z = np.zeros(problem.n_rows)
        self._w, self._b = np.zeros((self._Z.shape[1], 1)), np.zeros(1)

    def image(self, beta: FloatArray) -> FloatArray:
        problem, product = self._problem, times(self._Z, times(self._Z.T, beta))
        return product + (problem.ridge * beta + beta.sum() / problem.bias.penalty)  # Q of (10) times beta.

    def _blocks(self) -> list[slice]:
        return row_blocks(self._Z.shape[0], self._Z.shape[1])

    def begin(self, z: FloatArray) -> None:
        self._z = z
        total, sums = np.zeros(1), np.zeros((self._Z.shape[1], 1))
        for rows in self._blocks():
            self._count(rows, sums, total)
        self._w, self._b = self._factor.step(sums, total)  # The inverse of (1), of n + 1 unknowns.

    def _count(self, rows: slice, sums: FloatArray, total: FloatArray) -> None:
        weighted = (self._costs[rows] * self._z[rows])[:, None]
        sums += times(self._Z[rows].T, weighted)
        total += weighted.sum()

    def advance(self, move: Callable[[FloatArray, FloatArray, slice], FloatArray]) -> None:
        total, sums = np.zeros(1), np.zeros((self._Z.shape[1], 1))
        for rows in self._blocks():
            fitted = times(self._Z[rows], self._w)[:, 0] + self._b[0]
            beta = self._costs[rows] * (self._z[rows] - fitted)  # (1), applied to z.
            self._z[rows] = move(self._z[rows], beta, rows)
            self._count(rows, sums, total)
        self._w, self._b = self._factor.step(sums, total)

    def solution(self) -> Solution:
        return Solution(primal=self._w, bias=self._b)


class _Move:
    """One step of (15), and what it says of the point that it starts from."""

    def __init__(self, problem: Problem, alpha: FloatArray) -> None:
        self.y = problem.targets[:, 0]
        self.alpha = alpha
        self.h = problem.operator.diagonal() + problem.ridge + 1.0 / problem.bias.penalty
        self.residual = self.balance = 0.0

    def __call__(self, z: FloatArray, beta: FloatArray, rows: slice) -> FloatArray:
        y = self.y[rows]
        u, excess = y * beta, y * z - 1.0  # u and Q u - e.
        violation = np.abs(np.minimum(self.h[rows] * u, excess))  # Of (12), as the certificate measures it.
        self.residual = max(self.residual, float(violation.max()))
        self.balance += float(beta.sum())
        return np.asarray(y * (1.0 + np.maximum(excess - self.alpha[rows] * u, 0.0)))  # Q times (15).


def _iterate(
    problem: Problem,
    system: _System,
    alpha: FloatArray,
    stop: str,
    tol: float,
    limit: int,
    monitor: Monitor,
    first: FloatArray | None,
) -> Solution:
    """Return the solution of one column."""
    system.begin(problem.targets[:, 0].copy() if first is None else first)  # Codes 2, 3: from inv(Q) e.
    if monitor.stopped:
        return replace(system.solution(), n_iter=1, outcome=Outcome.STOPPED)
    move, enough, tightened = _Move(problem, alpha), tol, 0
    iteration, outcome = 0, Outcome.MAX_ITER
    previous = system.solution() if stop == "step" else None
    while iteration < limit:
        iteration += 1
        before = system.solution()
        move.residual = move.balance = 0.0
        system.advance(move)
        if stop == "step":
            assert previous is not None
            now = system.solution()
            step = problem.multipliers(now) - problem.multipliers(previous)
            previous = now
            if float(np.linalg.norm(step)) <= tol:  # (25)
                outcome = Outcome.FINISHED
                break
        elif move.residual <= enough:
            # Of the point before this step. Its multipliers may be negative by rounding: they are cut.
            kept = _cut(problem, before, tol)
            if float(problem.residual(kept).max()) <= tol or tightened == _TIGHTENINGS:
                return replace(kept, n_iter=iteration, outcome=Outcome.FINISHED)
            enough, tightened = 0.1 * enough, tightened + 1
        if monitor.listens and monitor.tell(
            iteration, problem.objective(before), move.residual, move.balance
        ):
            outcome = Outcome.STOPPED
            break
    return replace(_cut(problem, system.solution(), tol), n_iter=iteration, outcome=outcome)


def _cut(problem: Problem, solution: Solution, tol: float) -> Solution:
    """Return the solution with multipliers below zero, or beside zero, at zero, where that does no harm."""
    if solution.beta is None:
        return solution
    y, residual = problem.targets, problem.residual(solution).max()
    excess = problem.slack(problem.decision(solution))
    beta = np.where((y * solution.beta > 0) & (y * excess > 0), solution.beta, 0.0)
    bias = solution.bias if problem.bias.is_absent else beta.sum(axis=0) / problem.bias.penalty
    cut = Solution(beta=beta, bias=bias)
    return cut if problem.residual(cut).max() <= max(tol, float(residual)) else solution


def implicit_lagrangian(problem: Problem, beta: FloatArray, alpha: float) -> tuple[float, FloatArray]:
    """Return the LSVM paper's implicit Lagrangian (17) of one column, and its gradient (18).

    By (19) its gradient vanishes only where (14) holds, unless alpha is an eigenvalue of Q: at the solution
    of the dual problem (11). Correction: it is convex, and that point its minimum over all u, for alpha above
    the largest eigenvalue of Q, and not under condition (16), which the iteration (15) needs. Below the least
    eigenvalue the same point is a maximum.

    Parameters
    ----------
    problem : Problem
        The squared hinge, with a penalised or no bias.
    beta : ndarray of shape (m,)
        Signed multipliers, u_i = y_i beta_i, of any sign.
    alpha : float
        Greater than 0.

    Returns
    -------
    value : float
    gradient : ndarray of shape (m,)
        By u.
    """
    check_between("alpha", alpha, 0.0)
    y = problem.targets[:, 0]

    def Q(u: FloatArray) -> FloatArray:
        signed = (y * u)[:, None]
        product = problem.operator.matmul(signed)[:, 0] + problem.ridge * signed[:, 0]
        return np.asarray(y * (product + signed.sum() / problem.bias.penalty))  # (10), (27)

    u = y * beta
    excess = Q(u) - 1.0  # Q u - e.
    positive = np.maximum(excess - alpha * u, 0.0)
    value = 0.5 * float(u @ (excess - 1.0))
    value += 0.5 / alpha * float(positive @ positive - excess @ excess)  # (17)
    left = excess - positive  # What (14) asks to vanish.
    return value, np.asarray(left - Q(left) / alpha)  # (18), in the form of (19): (alpha I - Q) / alpha.
