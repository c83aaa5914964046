"""2SMO of Joshi, Jayadeva, Ramakrishnan and Chandra: the squared loss, one multiplier at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.operators import RowCache
from squaresvm.problem import Loss, Problem
from squaresvm.solution import Solution
from squaresvm.solvers.base import (
    Callback,
    Monitor,
    by_column,
    check_callback,
    check_memory,
    ended,
    origin,
    tell,
)
from squaresvm.solvers.descent import MAX_SWEEPS, MEMORY, Descent
from squaresvm.solvers.plain_smo import PlainRule, plain_rule
from squaresvm.solvers.row_descent import solve_by_rows
from squaresvm.typing import FloatArray

__all__ = ["BiasApart", "TwoSmo"]

#: The bias is kept apart from the updates where A times the mean diagonal of H is less than this.
_SMALL_A = 0.3


@dataclass(frozen=True)
class TwoSmo:
    r"""2SMO of the relaxed LS-SVM paper: exact steps in one multiplier, that of the largest violation first.

    Parameters
    ----------
    memory : int, default=2**30
        Bytes for rows of K, where K is not held whole.
    plain : {'cyclic', 'random', 'largest'}, optional
        The paper's rule and nothing else, the bias inside the matrix: multipliers one after the other, in an
        order drawn anew for each sweep, or that of the largest violation. By default what the notes describe.
    checks : bool, default=True
        With `plain`: whether multipliers that satisfy the optimality conditions are passed over. Without,
        all are updated in turn until none changes by more than tol.
    parallel : int, default=1
        With `plain`: how many multipliers are updated at once.
    seed : int, default=0
        Of the random order.
    callback, trace : optional
        See :class:`~squaresvm.solvers.Progress`.

    See Also
    --------
    SesquiSmo : The same for the squared hinge.
    Sumt, PenaltyFlow, Substitution : The paper's ways to a free bias.

    Notes
    -----
    It minimises the paper's dual (20). In signed multipliers beta_k = y_k lambda_k update (31) is

    .. math::
        \beta_k \leftarrow \beta_k - \frac{r_k}{K_{kk} + 1/C_k + 1/A},
        \qquad r = H \beta + \mathbf 1 \mathbf 1^\top \beta / A - y

    Corrections: the numerator of (28)-(31) is 1 - y_k f(x_k) - lambda_k / C, and (21) needs the labels in
    front of 1/A too; as printed the updates end elsewhere. Step 1 lacks y_k in front of f.

    Which multiplier decides everything. In cyclic order hundreds of sweeps are not enough at ordinary
    kernels; the largest violation, found in the loop that updates the gradient, takes a few. The number grows
    with C K_ii, which extrapolation over the last sweeps cures, and with 1/A: there

    .. math::
        \beta = v - b\, u, \qquad H u = \mathbf 1, \quad H v = y, \quad
        b = \mathbf 1^\top v \,/\, (A + \mathbf 1^\top u)

    keeps the bias apart, and A does not matter any more. Where K is held and close to its diagonal, three
    conjugate steps of all multipliers at once come first: they are worth a sweep. Where thirty sweeps leave
    more than a tenth of the residual, conjugate steps along C_i r_i follow: a K of rank r needs r + 1 of
    them, where single updates at C K_ii = 1e3 need sweeps by the hundred.

    With a linear kernel the updates carry w, see ``squaresvm.solvers.row_descent``: in shuffled order,
    each for the entries of one row, and with a free bias too.

    An iteration is a sweep, of as many updates as there are rows, or a conjugate step, which costs the same.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import RelaxedLSSVC
    >>> from squaresvm.solvers import TwoSmo
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RelaxedLSSVC(A=0.5, solver=TwoSmo()).fit(X, y)
    >>> model.certificate_.residual <= model.tol
    True
    """

    memory: int = MEMORY
    plain: str | None = None
    checks: bool = True
    parallel: int = 1
    seed: int = 0
    callback: Callback | None = None
    trace: bool = False

    name = "2smo"
    solves = "the squared loss with a penalised or no bias, linear models with any"
    by_rows = True

    def __post_init__(self) -> None:
        """Check the options."""
        check_memory(self.memory)
        check_callback(self.callback, self.trace)
        self._rule()

    def _rule(self) -> PlainRule | None:
        return plain_rule(self.plain, self.checks, self.parallel, self.seed)

    def accepts(self, problem: Problem) -> bool:
        """Return whether the loss is the squared one, and the bias not free unless the rows are at hand."""
        linear = problem.operator.features is not None and self._rule() is None
        return problem.loss == Loss.SQUARED and (linear or not problem.bias.is_free)

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Return the solution of all columns of targets, one after the other."""
        limit = MAX_SWEEPS if max_iter is None else max_iter
        monitor = Monitor(self.callback, self.trace)
        rule = self._rule()
        if rule is None and problem.operator.features is not None:
            return solve_by_rows(problem, tol, limit, monitor, start)
        rows = RowCache(problem.operator, self.memory)
        if rule is not None:
            return rule.solve(problem, rows, start, tol, limit, monitor)
        apart = _keeps_apart(problem)
        ones: Descent | None = None

        def solve(column: Problem, first: Solution | None) -> Solution:
            nonlocal ones
            first = first or origin(column)
            scaled = tol * max(float(np.abs(column.targets).max()), np.finfo(float).tiny)
            if not apart:
                return _together(column, rows, first, scaled, limit, monitor)
            search = BiasApart(column, rows, first, ones)
            ones = search.ones
            return search.solve(column.bias.penalty, scaled, limit, monitor)

        return by_column(problem, start, monitor, solve)


def _keeps_apart(problem: Problem) -> bool:
    if problem.bias.is_absent:
        return False
    h = problem.operator.diagonal() + problem.ridge  # (41)
    return problem.bias.penalty * float(h.mean()) < _SMALL_A


def _first(start: Solution) -> FloatArray:
    assert start.beta is not None
    return start.beta[:, 0].copy()


def _together(
    problem: Problem, rows: RowCache, start: Solution, tol: float, limit: int, monitor: Monitor
) -> Solution:
    """Return the solution of one column, with 1 1'/A in the matrix."""
    m, inverse_A = problem.n_rows, 1.0 / problem.bias.penalty
    search = Descent(problem, rows, problem.targets[:, 0], _first(start), np.full(m, inverse_A), np.zeros(m))

    def bias() -> float:
        return inverse_A * float(search.beta.sum())  # (16)

    def watch() -> bool:
        return tell(problem, search.beta, bias(), search.gradient, search.sweeps, monitor)

    reached = not monitor.stopped and search.run(tol, limit, watch)
    return ended(search.beta, bias(), max(search.sweeps, 1), reached, monitor)


class BiasApart:
    """H u = 1 and H v = y by updates, and the bias in closed form: one u for all columns and all A.

    Parameters
    ----------
    problem : Problem
        With one column of targets.
    rows : RowCache
    start : Solution
    ones : Descent, optional
        The search for u, where another column has begun it.
    """

    def __init__(
        self, problem: Problem, rows: RowCache, start: Solution, ones: Descent | None = None
    ) -> None:
        m = problem.n_rows
        nothing = np.zeros(m)
        self.problem = problem
        if ones is None:
            ones = Descent(problem, rows, np.ones(m), np.zeros(m), nothing, nothing)
        self.ones = ones
        self._start = start
        self._rows = rows
        self._values: Descent | None = None

    @property
    def values(self) -> Descent:
        """The search for v, begun at beta + b u."""
        if self._values is None:
            first = _first(self._start)
            if first.any():
                first += float(self._start.bias[0]) * self.ones.beta
            nothing = np.zeros(first.size)
            target = self.problem.targets[:, 0]
            self._values = Descent(self.problem, self._rows, target, first, nothing, nothing)
        return self._values

    def at(self, A: float) -> tuple[FloatArray, float]:
        """Return beta and b for a penalty A, as far as u and v are known."""
        u, v = self.ones.beta, self.values.beta
        size = A + float(u.sum())
        b = float(v.sum()) / size if size > 0 else 0.0
        return v - b * u, b

    def gradient(self, b: float) -> FloatArray:
        """Return H beta + b - y."""
        return np.asarray(self.values.gradient - b * self.ones.gradient)

    @property
    def sweeps(self) -> int:
        """Sweeps so far: one of u and one of v count as one."""
        return max(self.ones.sweeps, 0 if self._values is None else self._values.sweeps)

    def run(self, A: float, tol: float, limit: int, monitor: Monitor) -> bool:
        """Improve u and v until beta at A violates nothing by more than `tol`; return whether it does not."""

        def watch() -> bool:
            beta, b = self.at(A)
            return tell(self.problem, beta, b, self.gradient(b), self.sweeps, monitor)

        if monitor.stopped:
            return False
        listener = watch if monitor.listens else None
        for search in (self.ones, self.values):
            search.run(0.5 * tol, limit, listener)
            if monitor.stopped:
                return False
        b = self.at(A)[1]
        if abs(b) > 1.0:
            # r = (H v - y) - b (H u - 1), which (18) asks to vanish.
            self.ones.run(0.5 * tol / abs(b), limit, listener)
            b = self.at(A)[1]
        return float(np.abs(self.gradient(b)).max()) <= tol

    def solve(self, A: float, tol: float, limit: int, monitor: Monitor) -> Solution:
        """Return the solution of one column."""
        reached = self.run(A, tol, limit, monitor)
        return ended(*self.at(A), max(self.sweeps, 1), reached, monitor)
