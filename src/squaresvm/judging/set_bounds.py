"""Sets of labels of a kernel model of the squared loss, where bounds decide most labels.

Sets ask for the leave-one-out value of every row, which costs as much as a fit, and for what each model
without a row says of each new one, two triangular solutions a new row. Most of both changes no set.

With H = K + D, D = diag(1/C), the weights g(x) of N (k(x, X), 1) are those of kriging: they minimise

    |phi(x) - sum_j g_j phi(x_j)|^2 + sum_j D_j g_j^2    (under a free bias among those that sum to one) (1)

so that sum_j D_j g_j^2 is at most v(x), the value of (1) for any other weights; here for the best weights on
a few of the rows. Without row i the lead of a label at x moves by at most r_i |g_i|, r_i the two largest
leave-one-out errors of the row together. To bring row i, d away from that lead, over to the other side takes
D_i (d / r_i)^2 of v(x): so few can come that most labels are in, or out, whatever g is.

Leave-one-out errors beta_i / N_ii are between bounds at first (`factors.inverse_diagonal`). Rows near
enough to the lead at which labels are decided get their N_ii exactly. What then is still open is decided by
(1) and (2) of :mod:`squaresvm.judging.sets`: sets are the same as without any bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from squaresvm.factors import CholeskyFactor
from squaresvm.judging.calibration import lead
from squaresvm.judging.sets import limits, tie
from squaresvm.kernels import Kernel
from squaresvm.linalg.blas import times
from squaresvm.problem import Loss, Problem
from squaresvm.runtime.resources import row_blocks
from squaresvm.solution import Solution
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["BoundedSets"]

#: Rows from which on bounds cost less than what they save.
_MANY_ROWS = 1000
#: Rows that the weights of (1) are spread over.
_SOME = 512
#: Bytes of kernel values that are looked at together: memory that is touched for the first time is dear.
_BYTES = 2**22
#: Shares of new rows whose v(x) is below a level: each has its own leads from which labels are decided.
_LEVELS = (0.5, 0.9, 1.0)
#: Halvings of the range in which such leads are looked for.
_HALVINGS = 11
#: What is left for rounding, relative.
_SLACK = 1e-9
#: Share of the upper bound on N_ii below which the lower one says nothing.
_CRUDE = 0.01
#: Least 1/C beside a rounding of K, for which K + D is known to exceed D.
_ABOVE_ROUNDING = 1e7


@dataclass(frozen=True)
class _Edges:
    """Leads of a label from which on it is in, and up to which it is out."""

    out: float
    inside: float

    @property
    def middle(self) -> float:
        """Lead between the edges."""
        return 0.5 * (self.out + self.inside)


class _Errors:
    """Leave-one-out errors beta_i / N_ii of all rows: between bounds, and exact where they were asked for.

    Parameters
    ----------
    factor : CholeskyFactor
    beta, targets : ndarray of shape (m, k)
    codes : ndarray of shape (m,)
    """

    def __init__(
        self, factor: CholeskyFactor, beta: FloatArray, targets: FloatArray, codes: IntArray
    ) -> None:
        self._factor, self._beta, self._targets, self._codes = factor, beta, targets, codes
        low, high = factor.diag_inverse_bounds()
        self._least, self._most = 1.0 / high, 1.0 / np.maximum(low, _CRUDE * high)
        self._settled: BoolArray = low == high
        # Two classes have one column: f and -f are as far apart as f/2 and -f/2 doubled.
        self._pair = np.array([[-0.5, 0.5]]) if beta.shape[1] == 1 else np.eye(beta.shape[1])
        self.settle(low <= _CRUDE * high)

    def settle(self, wanted: BoolArray) -> None:
        """Make the errors of some rows exact."""
        rows = np.flatnonzero(wanted & ~self._settled)
        if rows.size:
            self._least[rows] = self._most[rows] = 1.0 / self._factor.diag_inverse_at(rows)
            self._settled[rows] = True

    def middle(self) -> FloatArray:
        """Return errors within the bounds, of shape (m, k)."""
        return self._beta * (0.5 * (self._least + self._most))[:, None]

    def leads(self) -> tuple[FloatArray, FloatArray]:
        """Return bounds on the lead of each row's own label, by the model without it.

        The lead is the least of differences that are linear in 1/N_ii: concave, so that its least is at an
        end, and no larger than any of them.
        """
        rows, own = np.arange(self._codes.size), self._codes
        ends = []
        for inverse in (self._least, self._most):
            values = (self._targets - self._beta * inverse[:, None]) @ self._pair
            ends.append(values[rows, own][:, None] - values)
        low, high = np.minimum(*ends), np.maximum(*ends)
        low[rows, own] = high[rows, own] = np.inf
        return low.min(axis=1), high.min(axis=1)

    def unsure(self) -> FloatArray:
        """Return by how much the lead of each row's own label may be off with errors in the middle."""
        return self.reaches() * (0.5 * (1.0 - self._least / self._most))

    def reaches(self) -> FloatArray:
        """Return r_i: by how much a lead moves at most without the row, g_i being one."""
        sizes = np.abs(self._beta @ self._pair) * self._most[:, None]
        if sizes.shape[1] > 2:
            sizes = np.partition(sizes, -2, axis=1)[:, -2:]
        return np.asarray(sizes.sum(axis=1))


class BoundedSets:
    """Sets of labels of one model, for any new rows; what is found out about its own rows is kept.

    Parameters
    ----------
    problem : Problem
        Squared loss, through a kernel matrix that is positive semidefinite; see `serves`.
    solution : Solution
    kernel : Kernel
    X : array or CSR matrix of shape (m, n)
        The rows.
    codes : ndarray of shape (m,)
        Position of each row's label among the classes.
    weights : ndarray of shape (m,)
        How much each row counts.
    n_classes : int
    """

    def __init__(
        self,
        problem: Problem,
        solution: Solution,
        kernel: Kernel,
        X: Matrix,
        codes: IntArray,
        weights: FloatArray,
        n_classes: int,
    ) -> None:
        assert solution.beta is not None
        self._factor = CholeskyFactor.current(solution.factor, problem)
        self._beta, self._bias, self._targets = solution.beta, solution.bias, problem.targets
        self._kernel, self._X, self._ridge = kernel, X, problem.ridge
        self._codes, self._weights, self._n_classes = codes, weights, n_classes
        self._errors = _Errors(self._factor, self._beta, self._targets, codes)
        self._some = np.unique(np.linspace(0, codes.size - 1, _SOME).astype(np.intp))
        near = kernel(X[self._some], X[self._some])
        near[np.diag_indices_from(near)] += self._ridge[self._some]
        self._root = scipy.linalg.cholesky(near, lower=True, overwrite_a=True)
        self._penalty = None if problem.bias.is_absent else problem.bias.penalty

    @property
    def is_current(self) -> bool:
        """Whether the factor still is what it was."""
        return self._factor.is_current

    @staticmethod
    def serves(problem: Problem, solution: Solution, kernel: Kernel) -> bool:
        """Return whether bounds hold for a problem, and pay.

        K must be semidefinite, and D larger than what rounding makes of that.
        """
        if problem.loss != Loss.SQUARED or problem.n_rows < _MANY_ROWS:
            return False
        factor = CholeskyFactor.among(solution.factor)
        if problem.operator.features is not None or factor is None:
            return False
        semidefinite = kernel.function in ("rbf", "laplacian", "linear")
        if kernel.function == "poly":
            semidefinite = kernel.gamma >= 0.0 and kernel.coef0 >= 0.0
        rounding = np.finfo(np.float64).eps * float(problem.operator.diagonal().sum())
        is_exact = factor.is_current and factor.jitter == 0.0
        above = float(problem.ridge.min()) > _ABOVE_ROUNDING * rounding
        return bool(is_exact and semidefinite and above)

    def __call__(self, probes: Matrix, coverage: float, by_class: bool) -> BoolArray:
        """Return which labels are in the set of each new row, of shape (rows, n_classes).

        Parameters
        ----------
        probes : array or CSR matrix of shape (rows, n)
        coverage : float
        by_class : bool
            Whether a label is compared with rows of its own class alone.
        """
        decision, spread = self._values(probes)
        leads = lead(decision)
        bars = limits(self._codes, self._weights, self._n_classes, coverage, by_class)
        levels = np.quantile(spread, _LEVELS, method="higher")
        level = np.searchsorted(levels, spread)
        sets, is_open = np.zeros(leads.shape, dtype=bool), np.zeros(leads.shape, dtype=bool)
        for k in range(self._n_classes):
            if by_class or k == 0:
                judges = np.flatnonzero(self._codes == k) if by_class else np.arange(self._codes.size)
                edges = self._edges(judges, float(bars[k]), levels)
            inside, out = np.array([edge.inside for edge in edges]), np.array([edge.out for edge in edges])
            sets[:, k] = leads[:, k] >= inside[level]
            is_open[:, k] = ~sets[:, k] & (leads[:, k] > out[level])
        asked = np.flatnonzero(is_open.any(axis=1))
        for part in row_blocks(asked.size, self._codes.size, _BYTES):
            rows = asked[part]
            sets[rows] |= self._exactly(probes[rows], decision[rows], is_open[rows], bars, by_class)
        return sets

    def _values(self, probes: Matrix) -> tuple[FloatArray, FloatArray]:
        """Return f at new rows, and v(x)."""
        decision, spread = np.empty((probes.shape[0], self._beta.shape[1])), np.empty(probes.shape[0])
        ones = np.ones(self._some.size)
        border = scipy.linalg.solve_triangular(self._root, ones, lower=True)
        for part in row_blocks(probes.shape[0], self._codes.size, _BYTES):
            near = self._kernel(probes[part], self._X)
            decision[part] = times(near, self._beta) + self._bias
            half = scipy.linalg.solve_triangular(self._root, near[:, self._some].T, lower=True)
            spread[part] = self._kernel.diagonal(probes[part]) - np.einsum("ij,ij->j", half, half)
            if self._penalty is not None:
                spread[part] += (1.0 - border @ half) ** 2 / (self._penalty + border @ border)
        slack = _SLACK * (1.0 + self._kernel.diagonal(probes))
        return decision, np.maximum(spread, 0.0) + slack

    def _edges(self, judges: IntArray, limit: float, levels: FloatArray) -> list[_Edges]:
        """Return the edges for each level of v(x), after rows near to them got their exact errors."""
        middle = self._errors.middle()
        own = lead(self._targets - middle)[np.arange(self._codes.size), self._codes]
        guess = self._edges_at(judges, limit, float(levels[-1]), own, own)
        low, high = self._errors.leads()
        near = np.zeros(self._codes.size, dtype=bool)
        near[judges] = True
        self._errors.settle(near & (low <= guess.middle) & (high >= guess.middle))
        low, high = self._errors.leads()
        return [self._edges_at(judges, limit, float(level), low, high) for level in levels]

    def _edges_at(
        self, judges: IntArray, limit: float, spread: float, low: FloatArray, high: FloatArray
    ) -> _Edges:
        """Return the edges for one v(x), given bounds on the leads of all rows."""
        low, high, weights = low[judges], high[judges], self._weights[judges]
        pull = np.sqrt(self._ridge[judges]) / np.maximum(self._errors.reaches()[judges], 1e-100)
        slack = _SLACK * (1.0 + np.abs(low).max(initial=0.0) + np.abs(high).max(initial=0.0))

        def most(at: float) -> float:
            return _sum_above(high, at, weights) + _sum_reached(at - high, slack, pull, weights, spread)

        def least(at: float) -> float:
            return _sum_above(low, at, weights) - _sum_reached(low - at, slack, pull, weights, spread)

        # Rows no nearer than this cannot come over alone.
        reach = float((np.sqrt(spread) / pull).max(initial=0.0)) + 2.0 * slack
        ends = float(low.min(initial=0.0)) - reach, float(high.max(initial=0.0)) + reach
        inside = _least_true(lambda at: most(at) < limit * (1.0 - _SLACK), *ends)
        out = -_least_true(lambda at: least(-at) >= limit * (1.0 + _SLACK), -ends[1], -ends[0])
        return _Edges(out, inside)

    def _exactly(
        self, probes: Matrix, decision: FloatArray, is_open: BoolArray, bars: FloatArray, by_class: bool
    ) -> BoolArray:
        """Return which open labels are in, by what the models without each row say."""
        near = self._kernel(probes, self._X)
        reached = self._factor.bordered(near.T, np.ones(near.shape[0]))[0]
        low, high = self._errors.leads()
        moved = self._errors.reaches() * np.maximum(reached.max(axis=1), -reached.min(axis=1))
        moved += _SLACK * (1.0 + np.maximum(np.abs(low), np.abs(high)))
        asked = lead(decision)[is_open]
        ahead, beside = low - moved > asked.max(), high + moved >= asked.min()
        is_in, is_open = np.zeros_like(is_open), is_open.copy()
        while is_open.any():
            wanted = np.zeros(self._codes.size, dtype=bool)
            for k in np.flatnonzero(is_open.any(axis=0)).tolist():
                judges = self._codes == k if by_class else np.ones(self._codes.size, dtype=bool)
                rows, columns = np.flatnonzero(judges & beside & ~ahead), np.flatnonzero(is_open[:, k])
                room = bars[k] - float(self._weights @ (judges & ahead))
                margin, doubt = self._margins(rows, k, reached[np.ix_(rows, columns)], decision[columns])
                least, most = (self._weights[rows] @ (margin > limit) for limit in (doubt, -doubt))
                is_in[columns, k] = most < room
                is_still = (least < room) & (most >= room)
                is_open[columns, k] = is_still
                wanted[rows] |= (np.abs(margin[:, is_still]) <= doubt[:, is_still]).any(axis=1)
            self._errors.settle(wanted)
        return is_in

    def _margins(
        self, rows: IntArray, k: int, reached: FloatArray, decision: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the leads of rows less that of label k at new ones, and by how much each may be off."""
        errors = self._errors.middle()[rows]
        own = np.take_along_axis(lead(self._targets[rows] - errors), self._codes[rows, None], axis=1)
        there = lead(decision - reached[:, :, None] * errors[:, None, :])[:, :, k]
        return own - there - tie(own), self._errors.unsure()[rows, None] * (1.0 + np.abs(reached))


def _sum_above(leads: FloatArray, at: float, weights: FloatArray) -> float:
    return float(weights @ (leads > at))


def _sum_reached(
    distance: FloatArray, slack: float, pull: FloatArray, weights: FloatArray, spread: float
) -> float:
    """Return the largest weight of rows that can come over: those with the least to pay for theirs first."""
    prices = np.square(pull * np.maximum(distance - slack, 0.0))
    near = np.flatnonzero((distance >= 0.0) & (prices <= spread))
    prices, gained = prices[near], weights[near]
    order = np.argsort(prices / gained)
    paid = np.cumsum(prices[order])
    count = int(np.searchsorted(paid, spread, side="right"))
    # The next one in part: a bound for all choices, as of a knapsack whose things can be cut.
    return float(gained[order[: count + 1]].sum())


def _least_true(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return about the least value between two from which on a condition holds, a bit above it."""
    if not holds(high):
        return np.inf
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
