"""A rough solution of the squared hinge, from which the search over active sets takes its first set.

A factor of a set costs as much as some hundred products with K. The sets at the beginning of a search are
therefore found by approximate solutions of a few products each, until they change little: usually the first
set that is factored is then also the last.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.blas import ssymv

from squaresvm.operators import RowCache
from squaresvm.problem import Problem
from squaresvm.runtime.resources import is_compiled
from squaresvm.solution import Solution
from squaresvm.solvers.block_cg import NotDefiniteError
from squaresvm.solvers.sesqui_smo import BoundedDescent
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["rough_start"]

#: From this many rows on a rough solution pays.
_ROUGH_ROWS = 500
#: Products for the squared loss on all rows, products for each later set, and sets at most.
_FIRST_STEPS, _STEPS, _SETS = 3, 8, 12
#: Share of the residual that is small enough for a set.
_REDUCTION = 0.02
#: Largest copy of K in single precision (float32), in bytes, that is made without asking.
_LARGEST_COPY = 2**26
#: Largest row sum of K that is safely within the range of single precision.
_LARGEST_SUM = 1e36
#: The sets come to rest if their changes fall to this share within two sets; the second at once.
_SHRINKING = 0.6
#: Share of the rows in which a set may differ from the last one, for a factor to follow by updates.
_NEAR = 0.05
#: From this many rows on, compiled coordinate updates find a first set: below, compiling would cost more.
_COORDINATE_ROWS = 2001
#: Violation at which the coordinate updates hand over, and updates a row they may take.
_COORDINATE_TOL, _COORDINATE_UPDATES = 1e-2, 20


def rough_start(problem: Problem) -> Solution | None:
    """Return a rough solution to take the first set from; None where that may as well be all rows.

    From so many rows on that compiling pays, by coordinate updates; below, by sets whose equalities are
    solved roughly.

    Parameters
    ----------
    problem : Problem
        Of the squared hinge, with one column of targets.
    """
    if problem.n_rows < _ROUGH_ROWS or problem.operator.full() is None:
        return None
    if problem.n_rows >= _COORDINATE_ROWS and is_compiled():
        return _by_coordinates(problem)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # What overflows is refused as not definite.
            return _by_sets(problem)
    except NotDefiniteError:
        return None


def _by_sets(problem: Problem) -> Solution:
    """Return where S -> S(e(S)), (57), comes to rest; else the solution of the squared loss on all rows.

    Without a line search the sets may go round, as they do at large costs. Whether they do is seen after a
    few of them.
    """
    equalities = _RoughEqualities(problem)
    active = np.ones(problem.n_rows, dtype=bool)
    first = solution = equalities.solve(active, _FIRST_STEPS)
    y, changed = problem.targets[:, 0], list[int]()
    for _ in range(_SETS):
        following = y * equalities.decision < 1.0  # (10)
        changed.append(int(np.count_nonzero(following != active)))
        if changed[-1] == 0:
            return solution
        # The first change is from all rows: what it amounts to says nothing.
        if len(changed) > 2 and changed[-1] > _SHRINKING * changed[max(1, len(changed) - 3)]:
            return first if changed[-1] > _NEAR * y.size else solution
        active = following
        solution = equalities.solve(active, _STEPS)
    return solution


class _RoughEqualities:
    """(48) for one set after the other by a few conjugate gradient steps, each from where the last one ended.

    A free bias is the constraint that the multipliers sum to zero: steps are projected onto it. Products with
    K are in single precision where such a copy is small: they only decide which rows have an error.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._penalised = not (problem.bias.is_absent or problem.bias.is_free)
        self._beta: FloatArray = np.zeros(problem.n_rows)
        #: f at the rows.
        self.decision: FloatArray = np.zeros(problem.n_rows)
        K = problem.operator.full()
        assert K is not None
        largest = float(problem.operator.diagonal().max())
        is_small = 4 * K.size <= _LARGEST_COPY and largest * problem.n_rows < _LARGEST_SUM
        self._single = K.astype(np.float32, order="F") if is_small else None

    def solve(self, active: BoolArray, steps: int) -> Solution:
        """Return a solution with the active rows nearly as equalities and the others left out."""
        problem = self._problem
        y, ridge, scales = problem.targets[:, 0], problem.ridge, np.where(active, problem.costs, 0.0)
        total = float(scales.sum())
        is_free = problem.bias.is_free and total > 0.0

        def precondition(left: FloatArray) -> FloatArray:
            way = scales * left
            return way - scales * (float(way.sum()) / total) if is_free else way

        beta = np.where(active, self._beta, 0.0)
        if is_free:
            beta -= scales * (float(beta.sum()) / total)
        left = y - self._product(beta) - ridge * beta
        way, left = _stepped(lambda v: self._product(v) + ridge * v, precondition, left, steps)
        self._beta = beta + way
        self.decision = y - left - ridge * self._beta
        bias = (
            float(self._beta.sum()) / problem.bias.penalty if self._penalised else 0.0
        )  # (50), in f already.
        if is_free:
            bias = float(scales @ left) / total
            self.decision += bias
        return Solution(beta=self._beta[:, None], bias=np.array([bias]))

    def _product(self, v: FloatArray) -> FloatArray:
        """Return K v, and where the bias is penalised what it adds: 1 1'v / A."""
        if not v.any():
            return np.zeros_like(v)
        if self._single is None:
            product = self._problem.operator.matmul(v[:, None])[:, 0]
        else:
            size = float(np.abs(v).max())
            product = ssymv(1.0, self._single, (v / size).astype(np.float32)).astype(np.float64) * size
        if self._penalised:
            product += float(v.sum()) / self._problem.bias.penalty
        return product


def _stepped(
    product: Callable[[FloatArray], FloatArray],
    precondition: Callable[[FloatArray], FloatArray],
    left: FloatArray,
    steps: int,
) -> tuple[FloatArray, FloatArray]:
    """Return how far so many conjugate gradient steps come, and the residual that they leave.

    What `conjugate_gradients` does for columns with goals of their own takes longer than such a product.
    """
    x, ahead = np.zeros_like(left), precondition(left)
    p, descent = ahead, float(left @ ahead)
    enough = _REDUCTION**2 * descent
    for _ in range(steps):
        if descent <= enough:
            break
        change = product(p)
        curvature = float(p @ change)
        if not 0.0 < curvature < np.inf:
            raise NotDefiniteError(x[:, None])
        x = x + descent / curvature * p
        left = left - descent / curvature * change
        ahead = precondition(left)
        descent, before = float(left @ ahead), descent
        p = ahead + descent / before * p
    return x, left


def _by_coordinates(problem: Problem) -> Solution:
    """Return a rough solution by single updates, of pairs where the bias is free."""
    from squaresvm.solvers._loops import pairwise_updates

    rows = RowCache(problem.operator, 0)
    y = np.ascontiguousarray(problem.targets[:, 0])
    limit = _COORDINATE_UPDATES * y.size
    if not problem.bias.is_free:
        search = BoundedDescent(problem, rows, np.zeros(y.size))
        search.run(_COORDINATE_TOL, _COORDINATE_UPDATES, lambda: False)
        return Solution(beta=search.beta[:, None], bias=np.array([search.bias]))
    beta, gradient, ridge = np.zeros(y.size), -y, problem.ridge
    h = problem.operator.diagonal() + ridge
    pairwise_updates(*rows.arrays, h, ridge, 0.0, y, beta, gradient, _COORDINATE_TOL, limit)
    used = beta != 0
    bias = -float(gradient[used].mean()) if used.any() else 0.0
    return Solution(beta=beta[:, None], bias=np.array([bias]))
