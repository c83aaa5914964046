"""Suykens and Vandewalle's rule for the kernel's parameters: the smallest ball, bound of the VC dimension.

Equation numbers are those of their LS-SVM paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from squaresvm.estimators.base import SquareSVM
from squaresvm.kernels import Kernel
from squaresvm.models.state import State
from squaresvm.runtime.arguments import check_between, check_positive
from squaresvm.typing import FloatArray

__all__ = ["Ball", "Capacity", "Mercer", "least_capacity", "mercer", "smallest_ball", "vc_bound"]

#: Rounds that the search for a ball may take, each of as many updates as there are rows, and how many rows
#: may lose their weight at the beginning of each.
_ROUNDS, _FACES = 200, 30


class Ball(NamedTuple):
    """The smallest ball around the images of the rows: r^2, what it may still lack, and lambda of (14)."""

    squared_radius: float
    gap: float
    weights: FloatArray


class Capacity(NamedTuple):
    """r^2, a^2 = |w|^2, their product, and the bound (12) of the VC dimension."""

    squared_radius: float
    squared_norm: float
    product: float
    bound: float


class Mercer(NamedTuple):
    """Smallest eigenvalue of K, and the C below which K + I/C is positive definite all the same."""

    least_eigenvalue: float
    largest_cost: float


def smallest_ball(K: FloatArray, tol: float = 1e-8) -> Ball:
    """Return the smallest ball that contains the images of the rows.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Kernel values of the rows with each other, positive semidefinite.
    tol : float, default=1e-8
        Largest gap, as a share of r^2: no ball is smaller by more.

    Returns
    -------
    Ball

    Notes
    -----
    It maximises (14) over the rows that have weights, as equalities, and then by moving weight from the row
    that costs most to the one that gains most, as far as is best; and so on. The gap bounds how far r^2 is
    from its largest value.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.search.capacity import smallest_ball
    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]])
    >>> round(smallest_ball(X @ X.T).squared_radius, 6)
    1.0
    """
    check_between("tol", tol, 0.0)
    K = np.asarray(K, dtype=np.float64)
    squares, m = np.diagonal(K).copy(), K.shape[0]
    weights = np.full(m, 1.0 / m)
    rounding = 100.0 * np.finfo(np.float64).eps * float(np.abs(squares).max())
    radius = gap = 0.0
    for _ in range(_ROUNDS):
        weights = _over_faces(K, squares, weights)
        slope = squares - 2.0 * (K @ weights)  # The gradient of (14).
        for _ in range(m + 1):
            up = int(np.argmax(slope))
            held = np.flatnonzero(weights)
            down = int(held[np.argmin(slope[held])])
            gap = float(slope[up] - weights @ slope)
            radius = 0.5 * float(weights @ (squares + slope))  # (14), at its maximum r^2 of (13).
            bend = squares[up] + squares[down] - 2.0 * K[up, down]
            if gap <= tol * max(radius, 0.0) + rounding or up == down or not bend > 0.0:
                return Ball(max(radius, 0.0), max(gap, 0.0), weights)
            step = min(0.5 * float(slope[up] - slope[down]) / bend, float(weights[down]))
            weights[down] = 0.0 if step == weights[down] else weights[down] - step
            weights[up] += step
            slope -= 2.0 * step * (K[up] - K[down])
    return Ball(max(radius, 0.0), max(gap, 0.0), weights)


def _over_faces(K: FloatArray, squares: FloatArray, weights: FloatArray) -> FloatArray:
    """Return weights that are best among those of the same rows, as far as none of them turns negative."""
    weights = weights.copy()
    for _ in range(_FACES):
        held = np.flatnonzero(weights)
        system = K[np.ix_(held, held)] + np.diag(np.full(held.size, 1e-12 * float(squares.max()) + 1e-300))
        try:
            sides = np.column_stack([np.ones(held.size), 0.5 * squares[held]])
            ones, half = scipy.linalg.cho_solve(scipy.linalg.cho_factor(system), sides).T
        except np.linalg.LinAlgError:
            return weights
        target = half + (1.0 - half.sum()) / ones.sum() * ones  # (14) without lambda >= 0, on these rows.
        before = weights[held]
        if not np.isfinite(target).all():
            return weights
        falling = target < 0.0
        shares = before[falling] / (before[falling] - target[falling])
        share = float(shares.min(initial=1.0))
        now = before + share * (target - before)
        now[np.flatnonzero(falling)[shares <= share]] = 0.0
        weights[held] = np.maximum(now, 0.0)
        weights /= weights.sum()
        if not falling.any():
            break
    return weights


def vc_bound(model: SquareSVM) -> Capacity:
    """Return the bound (12) of the VC dimension of a fitted model of two classes.

    Parameters
    ----------
    model : estimator
        Fitted on rows that it holds.

    Returns
    -------
    Capacity

    Examples
    --------
    >>> from squaresvm import LSSVC
    >>> from squaresvm.datasets import make_two_spirals
    >>> from squaresvm.search.capacity import vc_bound
    >>> model = LSSVC(gamma=1.0).fit(*make_two_spirals())
    >>> vc_bound(model).squared_radius < 1.0
    True
    """
    check_is_fitted(model)
    state = model._state.holding("the smallest ball")
    if state.solution.bias.size != 1:
        raise ValueError(f"the bound is of two classes; this model has {state.solution.bias.size} functions")
    everyone = np.arange(state.problem.n_rows)
    K = state.problem.operator.block(everyone, everyone)
    beta = state.problem.multipliers(state.solution)[:, 0]
    norm = max(float(beta @ (K @ beta)), 0.0)  # |w|^2, by w of (18).
    radius = smallest_ball(K, tol=1e-6).squared_radius
    product = radius * norm
    bound = min(float(np.floor(product)), _dimension(state)) + 1.0  # (12)
    return Capacity(radius, norm, product, bound)


def _dimension(state: State) -> float:
    """Return n of (12), the dimension of the space that rows are mapped to."""
    kernel, n = state.settings.kernel, state.rows.n_columns
    if not isinstance(kernel, Kernel):
        return float("inf")
    if kernel.function == "linear":
        return float(n)
    if kernel.function == "poly":
        inner = n + 1 if kernel.coef0 != 0.0 else n
        return float(comb(inner + kernel.degree - 1, kernel.degree))
    return float("inf")


def least_capacity(
    model: SquareSVM, X: Any, y: Any, grid: Mapping[str, Sequence[Any]], *, errors: float = 0.0
) -> tuple[dict[str, Any], list[tuple[dict[str, Any], Capacity, float]]]:
    """Choose parameters by the bound (12), as the LS-SVM paper suggests, beside leave-one-out.

    Parameters
    ----------
    model : estimator
        Of two classes, not fitted.
    X, y : array-like
    grid : mapping
        Values by the name of a parameter: ``{"gamma": [...]}``, with sigma^2 = 1 / gamma.
    errors : float, default=0.0
        Share of the training rows that may be wrong, above the smallest share that any of the models has.
        (12) is of planes that meet their constraints (3): without this, models that learn nothing win.

    Returns
    -------
    best : dict
        The parameters of the least ``r^2 |w|^2``.
    tried : list
        Parameters, capacity and share of training errors of each model.

    Examples
    --------
    >>> from squaresvm import LSSVC
    >>> from squaresvm.datasets import make_two_spirals
    >>> from squaresvm.search.capacity import least_capacity
    >>> best, tried = least_capacity(LSSVC(), *make_two_spirals(), {"gamma": [1e-3, 1.0, 100.0]})
    >>> best, len(tried)
    ({'gamma': 1.0}, 3)
    """
    check_positive("errors", errors, zero=True)
    tried = []
    for parameters in ParameterGrid({name: list(values) for name, values in grid.items()}):
        fitted = clone(model).set_params(**parameters).fit(X, y)
        tried.append((dict(parameters), vc_bound(fitted), 1.0 - float(fitted.score(X, y))))
    allowed = min(share for _, _, share in tried) + errors  # Correction: (3) has to hold, or nearly.
    best = min((cell for cell in tried if cell[2] <= allowed), key=lambda cell: cell[1].product)
    return best[0], tried


def mercer(K: FloatArray) -> Mercer:
    """Return whether kernel values meet Mercer's condition on their rows, and what that allows for C.

    The two-layer kernel tanh(kappa x'z + theta), ``kernel='sigmoid'``, does so only for some kappa and theta.

    Parameters
    ----------
    K : ndarray of shape (m, m)

    Returns
    -------
    Mercer

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.search.capacity import mercer
    >>> mercer(np.array([[1.0, 2.0], [2.0, 1.0]]))
    Mercer(least_eigenvalue=-1.0, largest_cost=1.0)
    """
    K = np.asarray(K, dtype=np.float64)
    values = scipy.linalg.eigvalsh(0.5 * (K + K.T))
    rounding = K.shape[0] * np.finfo(np.float64).eps * float(np.abs(values).max())
    least = float(values[0])
    return Mercer(least, float("inf") if least >= -rounding else -1.0 / least)
