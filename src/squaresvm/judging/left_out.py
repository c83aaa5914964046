"""The models without some of their rows, from the fit of all: at the rows that leave, and elsewhere.

Let F be a set of rows that leave together (a row, a group, a fold) and N the inverse of the bordered matrix
of the fit. For the squared loss

    y_F - f^(-F)(x_F) = inv(N_FF) beta_F                                                                 (1)
    f^(-F)(x) = f(x) - g_F(x)' inv(N_FF) beta_F,    g(x) = N (k(x, X), 1)                                (2)

exactly, so the diagonal blocks of N serve all folds of a partition. A linear model in w has its rest from
sums, or by (1) with N_FF = C_F - C_F Z_F inv(Hessian) Z_F' C_F where few rows leave. The squared hinge goes
on, fold by fold, from the active set of all rows, and so does either loss of wide sparse rows from w.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from squaresvm.factors import CholeskyFactor, Moments, MomentsFactor
from squaresvm.judging.by_products import InverseByProducts
from squaresvm.linalg.blas import times
from squaresvm.linalg.lapack import solve_definite
from squaresvm.operators import LinearOperator, ProximalOperator
from squaresvm.problem import Loss, Problem
from squaresvm.problem.products import is_large
from squaresvm.solution import Solution
from squaresvm.solvers.active_set import resolve_without
from squaresvm.solvers.base import Solver
from squaresvm.solvers.choose import single_updates, updates_win
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.solvers.newton import Newton
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["FOLDS", "LeftOut", "column_starts", "left_out", "reach", "values_by_folds"]

#: Folds that probabilities of wide sparse rows are calibrated on, and residual that is good enough for that.
FOLDS, _ROUGHLY = 10, 1e-4
#: Loss of precision by subtraction of sums from which on they are computed anew.
_LOST = 1e3

#: What the model without some rows says of the probes it was made for, of shape (probes, k).
At = Callable[[IntArray], FloatArray]


class LeftOut(Protocol):
    """What models say that lack some rows of one that is fitted."""

    def values(self, rows: IntArray) -> FloatArray:
        """Return f at the rows, of the model without them, of shape (rows, k)."""
        ...

    def at(self, probes: Matrix) -> At:
        """Return what takes rows to f at the probes, of the model without those rows.

        Parameters
        ----------
        probes : array of shape (p, m), or of shape (p, n) for a linear problem in w
            Kernel values of other rows with those of the problem; features for a linear problem.
        """
        ...


def left_out(problem: Problem, solution: Solution, tol: float, steps: list[int] | None = None) -> LeftOut:
    """Return the models of a problem without some of its rows.

    Parameters
    ----------
    problem : Problem
    solution : Solution
        Its optimum.
    tol : float
        Bound on the residual of the re-solves that the squared hinge needs.
    steps : list, optional
        Gets the steps of each re-solve.
    """
    linear = problem.operator.features is not None
    if problem.loss == Loss.SQUARED_HINGE:
        taken = [] if steps is None else steps
        make: type[_LinearResolved | _Hinge] = _LinearResolved if linear else _Hinge
        columns = [
            make(problem.column(index), start, tol, taken)
            for index, start in enumerate(column_starts(problem, solution))
        ]
        return _Columns(columns)
    if linear and is_large(problem.operator.features):
        return _LinearResolved(problem, solution, tol, [] if steps is None else steps)
    if linear:
        return _LinearSquares(problem, solution)
    if isinstance(problem.operator, ProximalOperator):
        return _ProximalSquares(problem, solution)
    return _Squares(problem, solution)


def values_by_folds(
    problem: Problem, solution: Solution, labels: np.ndarray[Any, Any], tol: float
) -> FloatArray:
    """Return f at each row, of a model without its fold, of shape (m, k): good enough for probabilities."""
    order, fold = np.argsort(labels, kind="stable"), np.empty(labels.size, dtype=np.intp)
    fold[order] = np.arange(labels.size) % FOLDS  # Each has its share of each class.
    without, values = left_out(problem, solution, max(tol, _ROUGHLY)), np.empty(problem.targets.shape)
    for number in range(FOLDS):
        rows = np.flatnonzero(fold == number)
        values[rows] = without.values(rows)
    return values


def column_starts(problem: Problem, solution: Solution) -> list[Solution]:
    """Return the solution of each column of targets, in multipliers and, where it has one, in w."""
    beta, w = problem.multipliers(solution), solution.primal
    return [
        Solution(
            beta=beta[:, [index]],
            primal=None if w is None else w[:, [index]],
            bias=solution.bias[[index]],
        )
        for index in range(problem.n_columns)
    ]


def _inverted(problem: Problem, solution: Solution) -> CholeskyFactor:
    """Return the factor as an inverse, whose blocks and columns are there to read."""
    return CholeskyFactor.current(solution.factor, problem).inverted()


def reach(problem: Problem, solution: Solution, probes: Matrix) -> FloatArray:
    """Return g(x) of equation (2) for some rows x, of shape (m, p): squared loss, through K or in w.

    Parameters
    ----------
    problem : Problem
    solution : Solution
    probes : array
        As in `LeftOut.at`.
    """
    Z, ones = problem.operator.features, np.ones(probes.shape[0])
    if Z is None:
        factor = CholeskyFactor.current(solution.factor, problem)
        return factor.bordered(np.asarray(probes, dtype=np.float64).T, ones)[0]
    if is_large(Z):
        return InverseByProducts(Z, problem.costs, problem.bias).reach(probes)[0]
    w, b = MomentsFactor.current(solution.factor, problem).step(_dense(probes).T, ones)
    return np.asarray(problem.costs[:, None] * (np.asarray(Z @ w) + b))


def _dense(Z: Matrix) -> FloatArray:
    return np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z, dtype=np.float64)


class _Squares:
    """Squared loss through K."""

    def __init__(self, problem: Problem, solution: Solution) -> None:
        self._problem, self._solution = problem, solution
        self._factor = _inverted(problem, solution)

    def _errors(self, rows: IntArray) -> FloatArray:
        """Return y - f of the model without the rows, by (1)."""
        assert self._solution.beta is not None
        return solve_definite(self._factor.corner(rows), self._solution.beta[rows])

    def values(self, rows: IntArray) -> FloatArray:
        """Return f at the rows, of the model without them."""
        return self._problem.targets[rows] - self._errors(rows)

    def at(self, probes: Matrix) -> At:
        """Return what takes rows to f at the probes, by (2)."""
        beta = self._solution.beta
        assert beta is not None
        kernel = _dense(probes)
        whole = times(kernel, beta) + self._solution.bias
        reached = self._factor.bordered(kernel.T, np.ones(kernel.shape[0]))[0]
        return lambda rows: whole - times(reached[rows].T, self._errors(rows))


class _ProximalSquares:
    """The nonlinear proximal SVM, where rows that leave are landmarks too.

    After (1), H of the others loses V W_F V' with V = K[rest, F]; by the Woodbury identity

        s'' = s' + N'V inv(inv(W_F) - V'N'V) V's',    N' = N - N_F inv(N_FF) N_F'                        (3)

    and f(x) = k(x, rest) W K[rest, rest] beta'' + b''.
    """

    def __init__(self, problem: Problem, solution: Solution) -> None:
        assert isinstance(problem.operator, ProximalOperator)
        self._operator, self._solution = problem.operator, solution
        self._factor = _inverted(problem, solution)

    def _expansion(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients of k(x_i, .) and b, of the model without the rows."""
        operator, factor, beta = self._operator, self._factor, self._solution.beta
        assert beta is not None
        everyone = np.arange(operator.n_rows)
        unit = np.zeros((everyone.size, rows.size))
        unit[rows, np.arange(rows.size)] = 1.0
        n, n_border = factor.bordered(unit)
        V = operator.inner.block(everyone, rows)
        V[rows] = 0.0
        nv, nv_border = factor.bordered(V)
        solved = solve_definite(n[rows], np.hstack([beta[rows], nv[rows]]))
        lead, turn = np.split(solved, [beta.shape[1]], axis=1)
        s, b = beta - n @ lead, self._solution.bias - n_border @ lead
        s[rows] = 0.0
        bent = nv - n @ turn
        room = np.diag(1.0 / operator.weights[rows]) - V.T @ bent
        pull = np.linalg.solve(room, V.T @ s)
        s += bent @ pull
        s[rows] = 0.0
        expansion = operator.expand(s)
        expansion[rows] = 0.0
        return expansion, b + (nv_border - n_border @ turn) @ pull

    def values(self, rows: IntArray) -> FloatArray:
        """Return f at the rows, of the model without them."""
        return self.at(self._operator.inner.block(rows, np.arange(self._operator.n_rows)))(rows)

    def at(self, probes: Matrix) -> At:
        """Return what takes rows to f at the probes."""
        kernel = _dense(probes)

        def values(rows: IntArray) -> FloatArray:
            expansion, bias = self._expansion(rows)
            return times(kernel, expansion) + bias

        return values


class _LinearSquares:
    """Squared loss, linear, by the sums of all rows."""

    def __init__(self, problem: Problem, solution: Solution) -> None:
        Z = problem.operator.features
        assert Z is not None
        self._problem, self._Z = problem, Z
        self._sums = Moments.of(Z, problem.costs, problem.targets)
        self._factor = MomentsFactor(self._sums, problem.bias)
        self._w, self._b = self._factor.minimum()

    def _rest(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return w and b of the model without the rows."""
        problem, costs, Z = self._problem, self._problem.costs[rows], self._Z[rows]
        if rows.size < Z.shape[1]:
            # (1), scaled so that the system is symmetric: (I - R G R) R e' = R e, with R = C_F^1/2.
            root = np.sqrt(costs)[:, None]
            error = problem.targets[rows] - times(Z, self._w) - self._b
            system = np.eye(rows.size) - root * self._factor.between(Z) * root.T
            pull = root * solve_definite(system, root * error)
            step, shift = self._factor.step(times(Z.T, pull), pull.sum(axis=0))
            return self._w - step, self._b - shift
        sums = self._sums.minus(Moments.of(Z, costs, problem.targets[rows]))
        if not sums.loss_of_digits(ridge=1.0) < _LOST:
            rest = np.ones(problem.n_rows, dtype=bool)
            rest[rows] = False
            sums = Moments.of(self._Z[rest], problem.costs[rest], problem.targets[rest])
        return MomentsFactor(sums, problem.bias).minimum()

    def values(self, rows: IntArray) -> FloatArray:
        """Return f at the rows, of the model without them."""
        return self.at(self._Z[rows])(rows)

    def at(self, probes: Matrix) -> At:
        """Return what takes rows to f at the probes."""

        def values(rows: IntArray) -> FloatArray:
            w, b = self._rest(rows)
            return times(probes, w) + b

        return values


class _Hinge:
    """One column of the squared hinge through K: rows without a multiplier change nothing when they leave."""

    def __init__(self, problem: Problem, start: Solution, tol: float, steps: list[int]) -> None:
        assert start.beta is not None
        self._problem, self._start, self._tol, self._steps = problem, start, tol, steps
        self._active = start.beta[:, 0] != 0.0
        self._last: tuple[IntArray, Solution] | None = None
        self._system = EqualitySystem(problem)
        if self._active.any():
            self._system.solve(self._active, 0.0)
            self._system.prepare_for_many()

    def _without(self, rows: IntArray) -> Solution:
        if not self._active[rows].any():
            return self._start
        # Whoever asks for values here and elsewhere asks twice.
        if self._last is None or not np.array_equal(self._last[0], rows):
            solved = resolve_without(self._problem, rows, self._system, self._start, self._tol)
            self._steps.append(solved.n_iter)
            self._last = rows, solved
        return self._last[1]

    def values(self, rows: IntArray) -> FloatArray:
        """Return f at the rows, of the model without them."""
        return self._problem.decision(self._without(rows))[rows]

    def at(self, probes: Matrix) -> At:
        """Return what takes rows to f at the probes."""
        kernel = _dense(probes)

        def values_by(found: Solution) -> FloatArray:
            assert found.beta is not None
            return times(kernel, found.beta) + found.bias

        # Most rows have no multiplier, and the model without them is the same.
        whole = values_by(self._start)

        def values(rows: IntArray) -> FloatArray:
            found = self._without(rows)
            return whole if found is self._start else values_by(found)

        return values


class _LinearResolved:
    """A linear model in w that goes on, without the rows, from the model of all: each time a warm re-solve.

    Of the squared hinge, one column of targets: rows without a multiplier change nothing when they leave.
    """

    def __init__(self, problem: Problem, start: Solution, tol: float, steps: list[int]) -> None:
        assert problem.operator.features is not None
        self._problem, self._tol, self._steps = problem, tol, steps
        self._Z, self._beta = problem.operator.features, problem.multipliers(start)
        self._active: BoolArray = np.any(self._beta != 0.0, axis=1)
        self._last: tuple[IntArray, Solution] | None = None
        w = times(self._Z.T, self._beta) if start.primal is None else start.primal
        self._start = Solution(primal=w, bias=start.bias)

    def _without(self, rows: IntArray) -> Solution:
        if not self._active[rows].any():
            return self._start
        # Whoever asks for values here and elsewhere asks twice.
        if self._last is None or not np.array_equal(self._last[0], rows):
            self._last = rows, self._solved(rows)
        return self._last[1]

    def _solved(self, rows: IntArray) -> Solution:
        problem, rest = self._problem, np.ones(self._problem.n_rows, dtype=bool)
        rest[rows] = False
        Z, costs = self._Z[rest], problem.costs[rest]
        others = Problem(LinearOperator(Z), problem.targets[rest], costs, problem.loss, problem.bias)
        solver: Solver = Newton()
        start = self._start
        if updates_win(others, Z):
            solver, start = single_updates(others), Solution(beta=self._beta[rest], bias=self._start.bias)
        solved = solver.solve(others, tol=self._tol, max_iter=None, start=start)
        self._steps.append(solved.n_iter)
        if solved.primal is not None:
            return solved
        assert solved.beta is not None
        return Solution(primal=times(Z.T, solved.beta), bias=solved.bias)

    def values(self, rows: IntArray) -> FloatArray:
        """Return f at the rows, of the model without them."""
        return self.at(self._Z[rows])(rows)

    def at(self, probes: Matrix) -> At:
        """Return what takes rows to f at the probes."""

        def values(rows: IntArray) -> FloatArray:
            found = self._without(rows)
            assert found.primal is not None
            return times(probes, found.primal) + found.bias

        return values


class _Columns:
    """Columns of targets that are solved one by one, side by side."""

    def __init__(self, columns: Sequence[LeftOut]) -> None:
        self._columns = columns

    def values(self, rows: IntArray) -> FloatArray:
        """Return f at the rows, of the models without them."""
        return np.hstack([column.values(rows) for column in self._columns])

    def at(self, probes: Matrix) -> At:
        """Return what takes rows to f at the probes."""
        each = [column.at(probes) for column in self._columns]
        return lambda rows: np.hstack([values(rows) for values in each])
