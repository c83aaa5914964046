"""2SMO of Joshi, Jayadeva, Ramakrishnan and Chandra: the squared loss, one multiplier at a time.

Update (31) itself stands in `_loops`, and the plain rule in `smo`; here are the four steps, with the ways to
fewer updates between the sweeps. Equation numbers are those of that paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from squaresvm.linalg.lapack import NotPositiveSemidefiniteError
from squaresvm.operators import RowCache
from squaresvm.problem import Loss, Problem
from squaresvm.solution import Solution
from squaresvm.solvers.base import Crawling, Monitor, ended, first_multipliers, size_of_targets, tell
from squaresvm.solvers.block_cg import conjugate_steps
from squaresvm.solvers.smo import REFRESHES, Quadratic, SmoSolver, beside_diagonal, next_rows
from squaresvm.typing import FloatArray

__all__ = ["FIRST_STEPS", "BiasApart", "Descent", "Extrapolation", "TwoSmo"]

#: Steps of all multipliers at once before single updates, and before those have their turn again: each costs
#: what a sweep does.
FIRST_STEPS, _CONJUGATE_STEPS = 3, 200
#: Sweeps that are given single updates once they have crawled.
_SHORT_PATIENCE = 3
#: Points over which a quadratic is minimised between sweeps.
_POINTS = 10
#: The bias is kept apart from the updates where A times the mean diagonal of H is less than this.
_SMALL_A = 0.3


@dataclass(frozen=True)
class TwoSmo(SmoSolver):
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

    name = "2smo"
    loss = Loss.SQUARED

    def _columns(
        self, problem: Problem, rows: RowCache, tol: float, limit: int, monitor: Monitor
    ) -> Callable[[Problem, Solution | None], Solution]:
        apart = _keeps_apart(problem)
        ones: Descent | None = None

        def solve(column: Problem, first: Solution | None) -> Solution:
            nonlocal ones
            scaled = tol * size_of_targets(column)
            if not apart:
                inside = Descent(column, rows, first_multipliers(column, first))
                reached = not monitor.stopped and inside.run(scaled, limit, lambda: inside.tell(monitor))
                return ended(inside.beta, inside.bias, inside.sweeps, reached, monitor)
            search = BiasApart(column, rows, first, ones)
            ones = search.ones
            return search.solve(column.bias.penalty, scaled, limit, monitor)

        return solve


def _keeps_apart(problem: Problem) -> bool:
    if problem.bias.is_absent:
        return False
    h = problem.operator.diagonal() + problem.ridge  # (41)
    return problem.bias.penalty * float(h.mean()) < _SMALL_A


class BiasApart:
    """H u = 1 and H v = y by updates, and the bias in closed form: one u for all columns and all A.

    Parameters
    ----------
    problem : Problem
        With one column of targets.
    rows : RowCache
    start : Solution, optional
    ones : Descent, optional
        The search for u, where another column has begun it.
    """

    def __init__(
        self, problem: Problem, rows: RowCache, start: Solution | None, ones: Descent | None = None
    ) -> None:
        self.problem, self._nothing = problem, np.zeros(problem.n_rows)
        if ones is None:
            ones = Descent(problem, rows, self._nothing.copy(), self._nothing + 1.0, self._nothing)
        self.ones = ones
        self._start = start
        self._rows = rows
        self._values: Descent | None = None

    @property
    def values(self) -> Descent:
        """The search for v, begun at beta + b u."""
        if self._values is None:
            first = first_multipliers(self.problem, self._start)
            if self._start is not None and first.any():
                first += float(self._start.bias[0]) * self.ones.beta
            self._values = Descent(self.problem, self._rows, first, shift=self._nothing)
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
        return ended(*self.at(A), self.sweeps, reached, monitor)


class Descent(Quadratic):
    """Single updates, sweep by sweep, with steps of all multipliers between the sweeps."""

    def __init__(
        self,
        problem: Problem,
        rows: RowCache,
        start: FloatArray,
        y: FloatArray | None = None,
        shift: FloatArray | None = None,
        drift: FloatArray | None = None,
    ) -> None:
        super().__init__(problem, rows, start, y, shift, drift)
        self._inverse_h = 1.0 / self.h
        self._plane = Extrapolation(self.product, float(self.h.max(initial=0.0)))
        self._crawling = Crawling()
        self._extrapolates = self._is_exact = True
        self._beside = beside_diagonal(rows, self._inverse_h)
        if not self.beta.any() and self._beside < 1.0:
            conjugate_steps(self.gradient, self._inverse_h, self.product, FIRST_STEPS, self._begun)
            self._is_exact = not self.beta.any()

    def _begun(self, beta: FloatArray, gradient: FloatArray) -> bool:
        """Take one of the first steps; return whether they must end."""
        self.beta, self.gradient = beta, gradient
        return False

    def run(self, tol: float, max_sweeps: int, watch: Callable[[], bool] | None = None) -> bool:
        """Update until nothing violates by more than `tol`; return whether that was reached.

        Parameters
        ----------
        tol : float
        max_sweeps : int
            Counted from the start of this object, not of this call.
        watch : callable, optional
            Called after each sweep; True stops.
        """
        refreshes = 0
        while self.sweeps < max_sweeps:
            if self.violation.max() <= tol:  # Step 2: (18) holds for all; of SesquiSMO, 1: (34) and (35) do.
                if self._is_exact:
                    return True
                if refreshes == REFRESHES:
                    return False
                refreshes += 1
                # Thousands of updates have left their rounding in the gradient.
                self.gradient, self._is_exact = self.exact_gradient(), True
                self._plane.clear()
                continue
            self._is_exact = False
            self._sweep(tol)  # Steps 1, 3 and 4, for as many updates as there are rows.
            if not np.all(np.isfinite(self.gradient)):
                raise NotPositiveSemidefiniteError
            if self._extrapolates and self.violation.max() > tol:
                self._extrapolate()
            if watch is not None and watch():
                return False
            violation = float(self.violation.max())
            crawls = violation > tol and self._crawling.after(violation)
            if crawls and self._conjugate(tol, max_sweeps, watch):
                return False
        return bool(self.violation.max() <= tol)

    def _sweep(self, tol: float, done: int = 0) -> None:
        """Do as many updates as there are rows, less those that are done."""
        while done < self.beta.size:
            count, missing = self.updates(self._lengths(), tol, self.beta.size - done)
            done += count
            if missing < 0:
                break
            self.rows.fetch(next_rows(self.violation, self.rows, missing), np.array([missing]))
        self.sweeps += 1

    def _lengths(self) -> FloatArray:
        """Return how far the step of a row goes in units of its gradient: to the minimum."""
        return self._inverse_h

    def _extrapolate(self) -> None:
        """Go to the minimum over the plane of the last points, if that is downhill."""
        step = self._plane.step(self.beta, self.gradient)
        if step is not None:
            self._moved(*step)

    def _moved(self, way: FloatArray, change: FloatArray) -> bool:
        """Move by `way`, along which the gradient changes by `change`; return whether that was right."""
        self.beta, self.gradient = self.beta + way, self.gradient + change
        return True

    def _conjugate(self, tol: float, max_sweeps: int, watch: Callable[[], bool] | None) -> bool:
        """Move all multipliers at once, along conjugate ways; return whether to stop."""
        if self._along_ways(tol, min(_CONJUGATE_STEPS, max_sweeps - self.sweeps), watch):
            return True
        # By now points of sweeps may be so close that no plane through them tells curvature from rounding.
        self._extrapolates, self._crawling = False, Crawling(_SHORT_PATIENCE)
        self.gradient, self._is_exact = self.exact_gradient(), True
        return False

    def _along_ways(self, tol: float, count: int, watch: Callable[[], bool] | None) -> bool:
        """Take conjugate steps as far as `tol`; return whether to stop."""
        begun, stopped = self.beta, False

        def arrived(way: FloatArray, gradient: FloatArray) -> bool:
            nonlocal stopped
            self.beta, self.gradient = begun + way, gradient
            self.sweeps += 1
            stopped = watch is not None and watch()
            return stopped or bool(self.violation.max() <= tol)

        conjugate_steps(self.gradient, 1.0 / self.ridge, self.product, count, arrived)
        return stopped


class Extrapolation:
    """The minimum of a quadratic over the plane through the last points: O(m) and no product with K.

    At each point the gradient is known, so on the plane through several of them the quadratic is known too.
    This is Anderson's extrapolation with the objective in place of the residual, which makes it a safeguard
    of its own: the minimum over the plane is no higher than any of its points.

    Parameters
    ----------
    product : callable
        The matrix of the quadratic times a vector: to tell negative curvature from rounding.
    largest : float
        Largest entry of its diagonal, and so of a semidefinite matrix.
    """

    def __init__(self, product: Callable[[FloatArray], FloatArray], largest: float) -> None:
        self.product = product
        self._largest = largest
        self._points: list[tuple[FloatArray, FloatArray]] = []

    def step(self, beta: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return the steps of beta and gradient to the minimum; None where there is nothing to gain."""
        self._points.append((beta.copy(), gradient.copy()))
        del self._points[:-_POINTS]
        if len(self._points) < 2:
            return None
        away = np.stack([point for point, _ in self._points[:-1]]) - beta
        change = np.stack([slope for _, slope in self._points[:-1]]) - gradient
        curvature = np.einsum("ij,ij->i", away, change)
        size = np.linalg.norm(change, axis=1)
        bent = curvature < -1e-6 * np.linalg.norm(away, axis=1) * size
        if np.any(bent):
            self._refuse_negative(away[int(np.argmin(curvature))])
            return None  # At C = 1e8 the gradient itself is known to 1e-6 only: that tells nothing.
        norms = np.sqrt(np.maximum(curvature, 0.0))
        use = norms > 0
        if not use.any():
            return None
        away, change = away[use] / norms[use, None], change[use] / norms[use, None]
        gram = away @ change.T
        values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        large = values > 1e-10 * values[-1]
        slope = vectors[:, large].T @ (away @ gradient)
        weights = -vectors[:, large] @ (slope / values[large])
        if not np.all(np.isfinite(weights)):
            return None
        return weights @ away, weights @ change

    def _refuse_negative(self, way: FloatArray) -> None:
        """Raise where the curvature along a way is negative by more than rounding can make of it."""
        rounding = way.size * np.finfo(np.float64).eps * self._largest * float(np.abs(way).sum()) ** 2
        if float(way @ self.product(way)) < -10.0 * rounding:
            raise NotPositiveSemidefiniteError

    def clear(self) -> None:
        """Forget all points: the quadratic or the gradient has changed."""
        self._points.clear()
