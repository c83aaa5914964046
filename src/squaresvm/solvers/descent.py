"""Single-multiplier updates without bounds, sweep by sweep, with extrapolation between the sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from squaresvm.kernels import Kernel
from squaresvm.linalg.lapack import NotPositiveSemidefiniteError, cholesky_with_jitter
from squaresvm.operators import RowCache
from squaresvm.problem import Problem
from squaresvm.typing import FloatArray, IntArray

__all__ = [
    "MAX_SWEEPS",
    "MEMORY",
    "SHORT_PATIENCE",
    "Crawling",
    "Descent",
    "Extrapolation",
    "beside_diagonal",
    "conjugate_steps",
    "first_steps",
    "next_rows",
    "refuse_indefinite",
]

#: Sweeps, of as many updates as there are rows, that a search may take by default.
MAX_SWEEPS = 1000
#: Bytes for rows of K where K is not held.
MEMORY = 2**30
#: Points over which a quadratic is minimised between sweeps.
_POINTS = 10
#: Times that a gradient that was kept up to date may turn out to have lost digits.
_REFRESHES = 10


#: Steps of all multipliers at once, before single updates.
_FIRST_STEPS = 3
#: Single updates crawl where this many sweeps leave more than this share of the residual.
_PATIENCE, _LEFT = 30, 0.1
#: Conjugate steps, each of which costs what a sweep does, before single updates have their turn again.
_CONJUGATE_STEPS = 200
#: Sweeps that are given single updates once they have crawled.
SHORT_PATIENCE = 3
#: Rows by which K is told to be close to its diagonal.
_LOOKED_AT = 9
#: Rows at most by which a kernel is told not to be semidefinite.
_FACTORED_ROWS = 1000


class Extrapolation:
    """The minimum of a quadratic over the plane through the last points: O(m) and no product with K.

    At each point the gradient is known, so on the plane through several of them the quadratic is known too.
    This is Anderson's extrapolation with the objective in place of the residual, which makes it a safeguard
    of its own: the minimum over the plane is no higher than any of its points.

    Parameters
    ----------
    product : callable
        The matrix of the quadratic times a vector: to tell negative curvature from gradients without digits.
    largest : float
        Largest entry of its diagonal, and so of a semidefinite matrix.
    """

    def __init__(self, product: Callable[[FloatArray], FloatArray], largest: float) -> None:
        self._product = product
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
        if float(way @ self._product(way)) < -10.0 * rounding:
            raise NotPositiveSemidefiniteError

    def clear(self) -> None:
        """Forget all points: the quadratic or the gradient has changed."""
        self._points.clear()


def beside_diagonal(rows: RowCache, inverse_h: FloatArray) -> float:
    """Return how long rows of K are beside their diagonal, squared and in units of that of H.

    It is the median of a few rows; NaN where K is not at hand.
    """
    if np.any(rows.place < 0):
        return float("nan")
    looked_at = np.unique(np.linspace(0, inverse_h.size - 1, _LOOKED_AT).astype(np.intp))
    beside = [rows.row(i) @ rows.row(i) - rows.row(i)[i] ** 2 for i in looked_at.tolist()]
    return float(np.median(beside * np.square(inverse_h[looked_at])))


def first_steps(
    gradient: FloatArray, inverse_h: FloatArray, product: Callable[[FloatArray], FloatArray]
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield where conjugate steps from the origin, all multipliers at once, lead to, and the gradient there.

    Along the reciprocals of the diagonal. Where K is close to its diagonal, they are worth a sweep of single
    updates, and cost what a few of those do.
    """
    return conjugate_steps(gradient, inverse_h, product, _FIRST_STEPS)


def conjugate_steps(
    gradient: FloatArray,
    scales: FloatArray,
    product: Callable[[FloatArray], FloatArray],
    count: int = _CONJUGATE_STEPS,
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield how far conjugate steps of exact length have come, and the gradient there.

    Parameters
    ----------
    gradient : ndarray of shape (m,)
        Where they begin.
    scales : ndarray of shape (m,)
        Of each multiplier: the steps go along the gradient times these, so that a 0 keeps a multiplier where
        it is. With C_i, the reciprocals of the ridge, all of H but K becomes the identity: a K of rank r then
        needs r + 1 steps, whatever the costs are, where single updates need sweeps by the hundred.
    product : callable
        Of the matrix with a vector.
    count : int
        Most steps.
    """
    beta = way = np.zeros(gradient.size)
    before = 0.0
    for _ in range(count):
        scaled = -scales * gradient
        slope = float(-gradient @ scaled)
        way = scaled + (slope / before) * way if before else scaled
        moved = product(way)
        curvature = float(way @ moved)
        if not (slope > 0.0 and curvature > 0.0):
            return  # At the minimum, or not convex: the updates will tell.
        beta, gradient = beta + (slope / curvature) * way, gradient + (slope / curvature) * moved
        yield beta, gradient
        before = slope


class Crawling:
    """Tells, sweep by sweep, whether single updates get anywhere.

    Parameters
    ----------
    patience : int, default=30
        Sweeps over which the residual has to fall to a tenth.
    """

    def __init__(self, patience: int = _PATIENCE) -> None:
        self._patience = patience
        self._residuals: list[float] = []

    def after(self, residual: float) -> bool:
        """Note the residual after a sweep; return whether the last ones crawled, and begin anew if so."""
        self._residuals.append(residual)
        if len(self._residuals) <= self._patience:
            return False
        crawls = residual > _LEFT * self._residuals.pop(0)
        if crawls:
            self._residuals.clear()
        return crawls


class Descent:
    """Minimise 1/2 beta'M beta - t'beta for M = K + diag(ridge) + shift 1' - 1 drift', symmetric.

    Parameters
    ----------
    problem : Problem
        For K and the costs.
    rows : RowCache
    target : ndarray of shape (m,)
        t.
    beta : ndarray of shape (m,)
        Where to start; changed in place.
    shift, drift : ndarray of shape (m,)
        With shift_i - drift_j = shift_j - drift_i, so that M is symmetric.
    """

    def __init__(
        self,
        problem: Problem,
        rows: RowCache,
        target: FloatArray,
        beta: FloatArray,
        shift: FloatArray,
        drift: FloatArray,
    ) -> None:
        self.problem = problem
        self.rows = rows
        self.target = target
        self.beta = beta
        self.shift = shift
        self.drift = drift
        self.sweeps = 0
        self.updates = 0
        self.ridge = problem.ridge
        h = problem.operator.diagonal() + self.ridge + shift - drift
        if not np.all(h > 0):
            raise NotPositiveSemidefiniteError
        # The denominators of (31), as reciprocals: with shift = 1/A they are those of Q_kk in (21).
        self._inverse_h = 1.0 / h
        self._plane = Extrapolation(self._product, float(h.max(initial=0.0)))
        self._crawling = Crawling()
        self._extrapolates = True
        self._is_exact = True
        self.gradient = self._exact_gradient() if beta.any() else -target
        if not beta.any() and beside_diagonal(rows, self._inverse_h) < 1.0:
            self._begin()

    def _product(self, beta: FloatArray) -> FloatArray:
        """Return M beta."""
        product = self.problem.operator.matmul(beta[:, None])[:, 0] + self.ridge * beta
        # sum_i beta_i (shift_i - drift_j) in row j.
        return product + self.shift @ beta - self.drift * beta.sum()

    def _exact_gradient(self) -> FloatArray:
        # What (18) asks to vanish, times y.
        return self._product(self.beta) - self.target

    def _begin(self) -> None:
        for beta, gradient in first_steps(self.gradient, self._inverse_h, self._product):
            self.beta[:], self.gradient, self._is_exact = beta, gradient, False

    @property
    def residual(self) -> float:
        """Largest violation, by the gradient that was kept up to date."""
        return float(np.abs(self.gradient).max())

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
            if self.residual <= tol:  # Step 2 of 2SMO: (18) holds for all.
                if self._is_exact:
                    return True
                if refreshes == _REFRESHES:
                    return False
                refreshes += 1
                # Thousands of updates have left their rounding in the gradient.
                self.gradient, self._is_exact = self._exact_gradient(), True
                self._plane.clear()
                continue
            self._is_exact = False
            self._sweep(tol)  # Steps 1 and 3.
            if not np.all(np.isfinite(self.gradient)):
                raise NotPositiveSemidefiniteError
            if self._extrapolates and self.residual > tol:
                self._extrapolate()
            if watch is not None and watch():
                return False
            crawls = self._crawling.after(self.residual)
            if crawls and self._conjugate(tol, max_sweeps, watch):
                return False
        return self.residual <= tol

    def _sweep(self, tol: float) -> None:
        from squaresvm.solvers import _smo_loops

        rows, m, left = self.rows, self.beta.size, self.beta.size
        while left > 0:
            done, missing = _smo_loops.two_updates(
                rows.values,
                rows.stride,
                rows.place,
                self._inverse_h,
                self.ridge,
                self.shift,
                self.drift,
                self.beta,
                self.gradient,
                tol,
                left,
            )
            left -= done
            self.updates += done
            if missing < 0:
                break
            rows.fetch(next_rows(np.abs(self.gradient), rows, missing), np.array([missing]))
        self.sweeps += 1 if left < m else 0

    def _conjugate(self, tol: float, max_sweeps: int, watch: Callable[[], bool] | None) -> bool:
        """Move all multipliers at once, along conjugate ways, as far as `tol`; return whether to stop."""
        begun, count = self.beta.copy(), min(_CONJUGATE_STEPS, max_sweeps - self.sweeps)
        for way, gradient in conjugate_steps(self.gradient, 1.0 / self.ridge, self._product, count):
            self.beta[:], self.gradient = begun + way, gradient
            self.sweeps += 1
            if watch is not None and watch():
                return True
            if self.residual <= tol:
                break
        # By now points of sweeps may be so close that no plane through them tells curvature from rounding.
        self._extrapolates, self._crawling = False, Crawling(SHORT_PATIENCE)
        self.gradient, self._is_exact = self._exact_gradient(), True
        return False

    def _extrapolate(self) -> None:
        step = self._plane.step(self.beta, self.gradient)
        if step is not None:
            self.beta += step[0]
            self.gradient += step[1]


def next_rows(violation: FloatArray, rows: RowCache, missing: int) -> IntArray:
    """Return the missing row, and those that will be missed next: of large violation and not at hand."""
    others = np.where(rows.place < 0, violation, -np.inf)
    others[missing] = np.inf
    count = min(rows.batch, int((rows.place < 0).sum()))
    return np.argpartition(others, -count)[-count:]


def refuse_indefinite(problem: Problem) -> None:
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
