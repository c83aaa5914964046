"""Products with rows, dense or sparse, by one BLAS.

NumPy brings a BLAS of its own beside SciPy's, each with its threads, and these go on spinning for a while
after each product. Where products and factorisations follow one another, the threads of the two stand in
each other's way: a linear fit of a few thousand rows took ten times as long on two processors. So whatever
is large enough for threads goes to the BLAS that the factorisations use.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from squaresvm.linalg.blas import gram_update, product
from squaresvm.typing import FloatArray, Matrix

__all__ = ["gram", "times"]

#: Multiplications up to which no BLAS wakes its threads, and NumPy's call is the shorter one.
_QUIET = 8192


def times(X: Matrix, b: FloatArray) -> FloatArray:
    """Return X b in float64.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, n)
    b : ndarray of shape (n,) or (n, k)

    Returns
    -------
    ndarray of shape (m,) or (m, k)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.products import times
    >>> times(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]))
    array([-1., -1.])
    """
    if sp.issparse(X):
        return np.asarray(X @ b, dtype=np.float64)
    if X.size * (b.shape[1] if b.ndim == 2 else 1) <= _QUIET:
        return np.asarray(np.asarray(X, dtype=np.float64) @ b, dtype=np.float64)
    if b.ndim == 1:
        return product(_regular(X), _regular(b[:, None]))[:, 0]
    return product(_regular(X), _regular(b))


def gram(X: FloatArray) -> FloatArray:
    """Return X'X for a dense X, by half of the products.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.products import gram
    >>> gram(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[10., 14.],
           [14., 20.]])
    """
    if X.size * X.shape[1] <= _QUIET:
        return np.asarray(X.T @ X)
    out = np.zeros((X.shape[1], X.shape[1]), order="F")
    gram_update(out, np.asfortranarray(X.T))
    out += np.tril(out, -1).T
    return out


def _regular(X: FloatArray) -> FloatArray:
    """Return a dense matrix in float64, row- or column-major: a slice of columns is neither."""
    dense = np.asarray(X, dtype=np.float64)
    return dense if 8 in dense.strides and min(dense.strides) > 0 else np.ascontiguousarray(dense)
