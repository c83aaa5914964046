"""SesquiSMO of Joshi, Jayadeva, Ramakrishnan and Chandra: the squared hinge, one multiplier at a time.

Its updates are those of `two_smo`, (31), cut where lambda would be negative: they stand in `_loops`, and the
plain rule in `smo`. Equation numbers are those of that paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from squaresvm.kernels import Kernel
from squaresvm.linalg.lapack import NotPositiveSemidefiniteError, cholesky_with_jitter
from squaresvm.operators import RowCache
from squaresvm.problem import Loss, Problem
from squaresvm.solution import Solution
from squaresvm.solvers.base import Monitor, ended, first_multipliers
from squaresvm.solvers.block_cg import conjugate_steps
from squaresvm.solvers.smo import SmoSolver, next_rows
from squaresvm.solvers.two_smo import Descent
from squaresvm.typing import FloatArray

__all__ = ["BoundedDescent", "SesquiSmo"]

#: Pairs are moved where A times the mean diagonal of H is less than this.
_SMALL_A = 0.3
#: An extrapolation is given up where it would push more than this share of the rows across their bound.
_CLIPPED = 0.1
#: Single updates have their turn again once the violation of the support vectors is this share of that of
#: the rows at their bound.
_SETTLED = 0.1
#: Rows at most by which a kernel is told not to be semidefinite.
_FACTORED_ROWS = 1000
#: Length of a step that is meant to go beyond the minimum, where rows depend on each other by K alone, and
#: where 1/A is more than this share of the diagonal; and sweeps with such steps. Whoever has not come to an
#: end by then depends on extrapolation, for which sweeps should be alike.
_BEYOND, _BEYOND_BY_BIAS, _BIAS_SHARE, _BEYOND_SWEEPS = 1.25, 1.4, 0.1, 3


@dataclass(frozen=True)
class SesquiSmo(SmoSolver):
    r"""SesquiSMO of the relaxed LS-SVM paper: 2SMO's steps, cut at the bounds of the squared hinge.

    Parameters
    ----------
    memory : int, default=2**30
        Bytes for rows of K, where K is not held whole.
    plain, checks, parallel, seed : optional
        The paper's rule and nothing else: see :class:`TwoSmo`.
    callback, trace : optional
        See :class:`~squaresvm.solvers.Progress`.

    See Also
    --------
    TwoSmo : The same for the squared loss.
    Lagrangian, ActiveSet : Other ways to the same solution.

    Notes
    -----
    It minimises the dual of (32)-(33). The update is (31), with its numerator corrected as in 2SMO.
    Correction: it is cut at zero, or the bound lambda >= 0 that (34) and (35) rest on is not kept. In signed
    multipliers

    .. math::
        y_k \beta_k \leftarrow
        \max\bigl(0,\; y_k (\beta_k - r_k / h_k)\bigr), \qquad h_k = K_{kk} + 1/C_k + 1/A

    The violation of (34) or (35) is measured as the certificate does, by ``|min(h_k y_k beta_k, y_k r_k)|``.

    Where A is small, steps in one multiplier are held back by 1/A in the denominator. There two multipliers
    move against each other, which leaves 1'beta and so the bias alone, unless one alone gains more. Large
    C is met by extrapolation over the last sweeps, kept where the objective falls. Where K is held and close
    to its diagonal, three steps of all multipliers at once come first, as long as they keep within the
    bounds. Where it is far from it, steps of the first sweeps go beyond the minimum, by a quarter or, where A
    is small too, by two fifths: where rows depend on each other, that saves a quarter to a third of them.
    Where single updates crawl, as 2SMO's do at a K of low rank and a large C, conjugate steps of the support
    vectors take turns with them.

    With a linear kernel the updates carry w, as those of 2SMO do, and rows at their bound are put aside.

    An iteration is a sweep, of as many updates as there are rows, or a conjugate step, which costs the same.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LagrangianSVC
    >>> from squaresvm.solvers import SesquiSmo
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LagrangianSVC(solver=SesquiSmo()).fit(X, y)
    >>> model.certificate_.residual <= model.tol
    True
    """

    name = "sesquismo"
    loss = Loss.SQUARED_HINGE

    def _check_problem(self, problem: Problem) -> None:
        _refuse_indefinite(problem)

    def _columns(
        self, problem: Problem, rows: RowCache, tol: float, limit: int, monitor: Monitor
    ) -> Callable[[Problem, Solution | None], Solution]:
        def solve(column: Problem, first: Solution | None) -> Solution:
            search = BoundedDescent(column, rows, first_multipliers(column, first))
            reached = not monitor.stopped and search.run(tol, limit, lambda: search.tell(monitor))
            return ended(search.beta, search.bias, search.sweeps, reached, monitor)

        return solve


class BoundedDescent(Descent):
    """The same under bounds: updates are cut, pairs move where A is small, and steps end at the bounds."""

    def __init__(self, problem: Problem, rows: RowCache, start: FloatArray) -> None:
        self._bare = problem.operator.diagonal() + problem.ridge  # P_kk of (41).
        if not np.all(self._bare > 0):
            raise NotPositiveSemidefiniteError
        self._pairs = problem.bias.penalty * float(self._bare.mean()) < _SMALL_A
        super().__init__(problem, rows, start)

    def _begun(self, beta: FloatArray, gradient: FloatArray) -> bool:
        """Take one of the first steps, as long as all keep within their bounds."""
        return bool(np.any(self.y * beta < 0.0)) or super()._begun(beta, gradient)

    def _sweep(self, tol: float, done: int = 0) -> None:
        """Do as many updates as there are rows; a pair counts as two, and half are left to single ones."""
        pairs = self._pair_updates(0.5 * tol, self.beta.size // 4) if self._pairs else 0
        super()._sweep(tol, 2 * pairs)

    def _lengths(self) -> FloatArray:
        """Return how far the step of a row goes in units of its gradient: to the minimum, or a little beyond.

        Below twice as far the objective falls all the same.
        """
        if not self._beside >= 1.0 or self.sweeps >= _BEYOND_SWEEPS:
            return self._inverse_h
        by_bias = self.inverse_A > _BIAS_SHARE * float(self.h.mean())
        return (_BEYOND_BY_BIAS if by_bias else _BEYOND) * self._inverse_h

    def _pair_updates(self, tol: float, count: int) -> int:
        from squaresvm.solvers._loops import pairwise_updates

        rows, left = self.rows, count
        while left > 0:
            done, up, down = pairwise_updates(
                *rows.arrays,
                self._bare,
                self.ridge,
                self.inverse_A,
                self.y,
                self.beta,
                self.gradient,
                tol,
                left,
            )
            left -= done
            if up < 0:
                break
            pair = np.array([up, down])
            for row in pair:
                if rows.place[row] < 0:
                    rows.fetch(next_rows(self.violation, rows, int(row)), pair)
        return count - left

    def _moved(self, way: FloatArray, change: FloatArray) -> bool:
        """Move by `way`, clipped at the bounds, if few rows are clipped and the objective falls.

        `change` is that of the gradient along the whole way.
        """
        beta, gradient = self.beta + way, self.gradient + change
        clipped = np.where(self.y * beta > 0, beta, 0.0)
        back = clipped - beta
        moved = np.flatnonzero(back)
        if moved.size > _CLIPPED * beta.size:
            return False
        if moved.size:
            gradient += self.problem.operator.block(np.arange(beta.size), moved) @ back[moved]
            gradient += self.ridge * back + self.inverse_A * back.sum()
        if not clipped @ (gradient - self.y) < self.beta @ (self.gradient - self.y):
            return False
        self.beta, self.gradient = clipped, gradient
        return True

    def _along_ways(self, tol: float, count: int, watch: Callable[[], bool] | None) -> bool:
        """Move the support vectors along conjugate ways, as many steps as that; return whether to stop.

        Where one meets its bound, it stays there, and the others begin anew; where rows at their bound
        violate more than the support vectors do, it is the turn of single updates, which set them free.
        """
        last, moved = self.sweeps + count, True
        while moved and self.sweeps < last and not self._is_settled(tol):
            moved = self._along_face(last - self.sweeps, tol)
            if watch is not None and watch():
                return True
        return False

    def _is_settled(self, tol: float) -> bool:
        """Return whether the support vectors violate little, compared with the rows at their bound."""
        free = self.y * self.beta > 0
        inside = np.abs(self.gradient[free]).max(initial=0.0)  # (35)
        outside = np.maximum(0.0, -self.y * self.gradient)[~free].max(initial=0.0)  # (34)
        return bool(inside <= max(0.5 * tol, _SETTLED * outside))

    def _along_face(self, count: int, tol: float) -> bool:
        """Take conjugate steps of the support vectors until one meets its bound; return whether any moved."""
        free, begun, before = self.y * self.beta > 0, self.beta, self.sweeps

        def arrived(way: FloatArray, gradient: FloatArray) -> bool:
            self.sweeps += 1
            step, change = begun + way - self.beta, gradient - self.gradient
            if np.any(self.y * (begun + way) < 0.0):
                if not self._moved(step, change):
                    self._to_the_bound(step, change)
                return True
            self.beta, self.gradient = begun + way, gradient
            return self._is_settled(tol)

        conjugate_steps(self.gradient, np.where(free, 1.0 / self.ridge, 0.0), self.product, count, arrived)
        return self.sweeps > before

    def _to_the_bound(self, step: FloatArray, change: FloatArray) -> None:
        """Go along a step as far as the first row that meets its bound."""
        inwards = np.flatnonzero(self.y * step < 0.0)
        shares = -self.beta[inwards] / step[inwards]
        share = float(shares.min())
        beta = self.beta + share * step
        beta[inwards[shares == share]] = 0.0
        self.beta = np.where(self.y * beta > 0, beta, 0.0)
        self.gradient = self.gradient + share * change


def _refuse_indefinite(problem: Problem) -> None:
    """Raise where a kernel that need not be semidefinite is seen not to be, on some of the rows or on all.

    Updates stay within their bounds, and so may end at a point beside which none is lower although the
    problem is not convex. A principal block with a negative eigenvalue proves that H has one.
    """
    operator = problem.operator
    if _is_semidefinite(getattr(operator, "kernel", None)):
        return
    m = problem.n_rows
    chosen = np.unique(np.linspace(0, m - 1, min(m, _FACTORED_ROWS)).astype(np.intp))
    block = np.asfortranarray(operator.block(chosen, chosen))
    factor, diagonal = block.copy(order="F"), np.diagonal(block) + problem.ridge[chosen]
    cholesky_with_jitter(factor, diagonal, lambda: np.copyto(factor, block))


def _is_semidefinite(kernel: object) -> bool:
    if not isinstance(kernel, Kernel):
        return False
    return kernel.function in ("linear", "rbf", "laplacian") or (
        kernel.function == "poly" and kernel.coef0 >= 0.0
    )
