"""Conjugate gradients for several right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from squaresvm.typing import FloatArray

__all__ = ["NotDefiniteError", "conjugate_gradients"]

#: Iterations without a new least residual after which products have no more digits to give.
_PATIENCE = 300


class NotDefiniteError(ValueError):
    """A direction of negative curvature was met."""


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    precondition: Callable[[FloatArray], FloatArray],
    rhs: FloatArray,
    goal: FloatArray,
    limit: int,
    tell: Callable[[int, FloatArray, FloatArray], bool],
) -> tuple[FloatArray, int]:
    """Return X with H X close to `rhs`, and the iterations taken.

    One product with H serves all columns; those that have reached their goal drop out. The steps are those
    of Polak and Ribiere, which bear a preconditioner and products with rounding of their own.

    Parameters
    ----------
    product, precondition : callable
        H V and inv(M) V for V of shape (m, k).
    rhs : ndarray of shape (m, k)
    goal : ndarray of shape (k,)
        Largest entry of the residual that is wanted of each column.
    limit : int
        Iterations at most.
    tell : callable
        Given the iteration, X and the residual; True stops.

    Raises
    ------
    NotDefiniteError
        If H or M is seen not to be positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> H = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> X, count = conjugate_gradients(lambda V: H @ V, lambda V: V, np.array([[3.0], [4.0]]),
    ...                                np.array([1e-12]), 10, lambda *_: False)
    >>> X.round(9).ravel().tolist(), count
    ([1.0, 1.0], 2)
    """
    X, R = np.zeros_like(rhs), rhs.copy()
    todo = np.flatnonzero(np.abs(R).max(axis=0, initial=0.0) > goal)
    Z = precondition(R[:, todo])
    P, descent = Z, _inner(R[:, todo], Z)
    least, since = np.full(rhs.shape[1], np.inf), np.zeros(rhs.shape[1], dtype=np.intp)
    iteration = 0
    while todo.size and iteration < limit:
        iteration += 1
        HP = product(P)
        curvature = _inner(P, HP)
        if not (np.isfinite(curvature).all() and (curvature > 0).all() and (descent > 0).all()):
            raise NotDefiniteError("conjugate gradients met a direction of negative curvature")
        step = descent / curvature
        X[:, todo] += step * P
        change = step * HP
        R[:, todo] -= change
        if tell(iteration, X, R):
            break
        size = np.abs(R[:, todo]).max(axis=0)
        better = size < least[todo]
        least[todo] = np.minimum(size, least[todo])
        since[todo] = np.where(better, 0, since[todo] + 1)
        stay = (size > goal[todo]) & (since[todo] < _PATIENCE)
        todo, P, descent, change = todo[stay], P[:, stay], descent[stay], change[:, stay]
        if todo.size == 0:
            break
        Z = precondition(R[:, todo])
        turn = np.maximum(-_inner(change, Z) / descent, 0.0)
        P = Z + turn * P
        descent = _inner(R[:, todo], Z)
    return X, iteration


def _inner(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->j", a, b))
