"""One kernel at several gammas: what does not depend on gamma is computed once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.metrics.pairwise import manhattan_distances

from squaresvm.kernels import Kernel, _for_distances, _integer_power, inner_products, squared_norms
from squaresvm.typing import FloatArray, Matrix

__all__ = ["HAVE_GAMMA", "KernelFamily"]

#: Kernels with a parameter gamma.
HAVE_GAMMA = ("rbf", "laplacian", "poly", "sigmoid")


class KernelFamily:
    """The kernel matrices of some rows, by gamma.

    Distances or inner products are the same for all gammas, and are taken once.

    Parameters
    ----------
    kernel : Kernel
        Of which gamma is replaced.
    X : array or CSR matrix of shape (m, n)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.kernels import Kernel
    >>> from squaresvm.search.families import KernelFamily
    >>> family = KernelFamily(Kernel("rbf"), np.array([[0.0], [1.0]]))
    >>> np.round(family(2.0), 3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """

    def __init__(self, kernel: Kernel, X: Matrix) -> None:
        self.kernel = kernel
        self.X = X
        # Now, and not when first needed: several threads may need it first.
        self._pairs = self._make_pairs() if kernel.function in HAVE_GAMMA else np.empty((0, 0))

    def _make_pairs(self) -> FloatArray:
        """Return what gamma multiplies: minus a distance, or an inner product."""
        if self.kernel.function == "laplacian":
            rows = _for_distances(self.X)
            distances = manhattan_distances(rows, rows)
            return np.asarray(np.negative(distances, out=distances))
        inner = inner_products(self.X, self.X)
        if self.kernel.function != "rbf":
            return inner
        norms = squared_norms(self.X)
        inner *= 2.0
        inner -= norms[:, None]
        inner -= norms[None, :]
        # A squared distance is not negative, whatever rounding says.
        return np.minimum(inner, 0.0, out=inner)

    def __call__(self, gamma: float) -> FloatArray:
        """Return the kernel matrix, a new Fortran-ordered array."""
        kernel = replace(self.kernel, gamma=gamma)
        kernel.check_range(self.X)
        values = self._from_pairs(kernel) if kernel.function in HAVE_GAMMA else kernel(self.X, self.X)
        # The matrix is its own transpose, so no copy is needed to change its order.
        return values if values.flags.f_contiguous else values.T

    def _from_pairs(self, kernel: Kernel) -> FloatArray:
        values = self._pairs * kernel.gamma
        if kernel.function in ("rbf", "laplacian"):
            return np.exp(values, out=values)
        values += kernel.coef0
        if kernel.function == "poly":
            return _integer_power(values, kernel.degree)
        return np.asarray(np.tanh(values, out=values))
