"""Features of a kernel matrix that has few: Z with K = Z Z'."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from squaresvm.typing import FloatArray

__all__ = ["pivoted_features"]


def pivoted_features(K: FloatArray) -> FloatArray:
    """Return Z of as many columns as K has rank in floating point, by a Cholesky factor with pivoting.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Positive semidefinite.

    Returns
    -------
    ndarray of shape (m, rank)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.operators.low_rank import pivoted_features
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> Z = pivoted_features(X @ X.T)
    >>> Z.shape, bool(np.allclose(Z @ Z.T, X @ X.T))
    ((6, 2), True)
    """
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(K, lower=1)
    Z = np.empty((K.shape[0], rank))
    Z[pivots - 1] = np.tril(factor)[:, :rank]
    return Z
