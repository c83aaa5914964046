"""Conjugate gradients for several right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from squaresvm.typing import FloatArray, IntArray

__all__ = ["NotDefiniteError", "conjugate_gradients", "largest_entry", "preconditioned_norm"]

#: Iterations without a new least residual after which products have no more digits to give.
_PATIENCE = 300


class NotDefiniteError(ValueError):
    """A direction of negative curvature was met.

    Parameters
    ----------
    reached : ndarray
        X as it was before.
    """

    def __init__(self, reached: FloatArray) -> None:
        super().__init__("conjugate gradients met a direction of negative curvature")
        self.reached = reached


Operation = Callable[[FloatArray, IntArray], FloatArray]
Measure = Callable[[FloatArray, FloatArray], FloatArray]


def largest_entry(R: FloatArray, descent: FloatArray) -> FloatArray:
    """Return the largest entry of each residual."""
    return np.asarray(np.abs(R).max(axis=0, initial=0.0))


def preconditioned_norm(R: FloatArray, descent: FloatArray) -> FloatArray:
    """Return the root of r' inv(M) r: the size of each residual as the preconditioner measures it."""
    return np.sqrt(np.maximum(descent, 0.0))


def conjugate_gradients(
    product: Operation,
    precondition: Operation,
    rhs: FloatArray,
    goal: FloatArray,
    limit: int,
    tell: Callable[[int, FloatArray, FloatArray], bool] = lambda *_: False,
    measure: Measure = largest_entry,
) -> tuple[FloatArray, int]:
    """Return X with H X close to `rhs`, and the iterations taken.

    One call of `product` serves all columns; those that have reached their goal drop out. Each column may
    have an H of its own. The steps are those of Polak and Ribiere, which bear a preconditioner and products
    with rounding of their own.

    Parameters
    ----------
    product, precondition : callable
        H V and inv(M) V for V of shape (m, q), given V and which columns of `rhs` its columns belong to.
    rhs : ndarray of shape (m, k)
    goal : ndarray of shape (k,)
        Size of the residual that is wanted of each column.
    limit : int
        Iterations at most.
    tell : callable, optional
        Given the iteration, X and the residual; True stops.
    measure : callable, optional
        The size of residuals R, given R and r' inv(M) r of each; their largest entry by default.

    Raises
    ------
    NotDefiniteError
        If H or M is seen not to be positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> H = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> X, count = conjugate_gradients(lambda V, columns: H @ V, lambda V, columns: V,
    ...                                np.array([[3.0], [4.0]]), np.array([1e-12]), 10)
    >>> X.round(9).ravel().tolist(), count
    ([1.0, 1.0], 2)
    """
    X, R = np.zeros_like(rhs), rhs.copy()
    todo = np.arange(rhs.shape[1])
    Z = precondition(R, todo)
    descent = _inner(R, Z)
    stay = measure(R, descent) > goal
    todo, P, descent = todo[stay], Z[:, stay], descent[stay]
    least, since = np.full(rhs.shape[1], np.inf), np.zeros(rhs.shape[1], dtype=np.intp)
    iteration = 0
    while todo.size and iteration < limit:
        iteration += 1
        HP = product(P, todo)
        curvature = _inner(P, HP)
        if not (np.isfinite(curvature).all() and (curvature > 0).all() and (descent > 0).all()):
            raise NotDefiniteError(X)
        step = descent / curvature
        X[:, todo] += step * P
        change = step * HP
        R[:, todo] -= change
        if tell(iteration, X, R):
            break
        Z = precondition(R[:, todo], todo)
        turn = np.maximum(-_inner(change, Z) / descent, 0.0)
        P, descent = Z + turn * P, _inner(R[:, todo], Z)
        size = measure(R[:, todo], descent)
        better = size < least[todo]
        least[todo] = np.minimum(size, least[todo])
        since[todo] = np.where(better, 0, since[todo] + 1)
        stay = (size > goal[todo]) & (since[todo] < _PATIENCE)
        todo, P, descent = todo[stay], P[:, stay], descent[stay]
    return X, iteration


def _inner(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->j", a, b))
