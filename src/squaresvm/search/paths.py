"""Exact leave-one-out values: for every C from one decomposition, for every gamma from the same distances.

With weights w_i and C_i = C w_i, let G = W^1/2 K W^1/2. Then

    inv(K + diag(1/C_i)) = W^1/2 inv(G + I/C) W^1/2                                                      (1)

and G = Q T Q' with T tridiagonal turns each C into O(m^2) work: T + I/C = L D L' with L bidiagonal, so

    diag inv(G + I/C) = column sums of the squares of D^-1/2 L^-1 Q'                                     (2)

is one sweep over the columns of Q, for all C at once. Of an eigendecomposition, which would serve as well,
this is the first third. The border of a free bias is added as in
:class:`~squaresvm.factors.CholeskyFactor`, and y_i - f^(-i)(x_i) = beta_i / N_ii gives the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.metrics.pairwise import manhattan_distances

from squaresvm.factors import Moments
from squaresvm.kernels import Kernel, _for_distances, _integer_power, inner_products, squared_norms
from squaresvm.linalg.blas import product
from squaresvm.linalg.lapack import tridiagonalise_in_place
from squaresvm.runtime.resources import row_blocks
from squaresvm.typing import FloatArray, Matrix

__all__ = ["HAVE_GAMMA", "KernelFamily", "KernelPath", "LinearPath", "Path"]

#: Kernels with a parameter gamma.
HAVE_GAMMA = ("rbf", "laplacian", "poly", "sigmoid")


class Path(Protocol):
    """Leave-one-out values over C."""

    def leave_one_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C; None where the problem is not convex."""
        ...


class KernelPath:
    """Leave-one-out values of a kernel model over C.

    Parameters
    ----------
    K : ndarray of shape (m, m), Fortran-ordered
        Overwritten.
    targets : ndarray of shape (m, k)
    weights : ndarray of shape (m,)
        All positive.
    free_bias : bool
        Free bias (True) or none.
    """

    def __init__(self, K: FloatArray, targets: FloatArray, weights: FloatArray, *, free_bias: bool) -> None:
        self._targets = targets
        self._root = np.sqrt(weights)
        self._free_bias = free_bias
        if not np.all(weights == 1.0):
            K *= self._root
            K *= self._root[:, None]
        self._diagonal, self._off_diagonal = tridiagonalise_in_place(K)
        self._Q = K
        columns = [np.ones((targets.shape[0], 1)), targets] if free_bias else [targets]
        self._right = product(K.T, np.asfortranarray(self._root[:, None] * np.hstack(columns)))

    def leave_one_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C; None where K + diag(1/C) is not positive definite."""
        shifts = 1.0 / np.asarray(Cs, dtype=np.float64)
        pivots = self._pivots(shifts)
        usable = np.flatnonzero((pivots > 0).all(axis=1))
        diagonals = self._diag_inverse(pivots[usable])
        places = dict(zip(usable.tolist(), range(usable.size), strict=True))
        for index, shift in enumerate(shifts.tolist()):
            place = places.get(index)
            yield None if place is None else self._values(shift, diagonals[place])

    def _pivots(self, shifts: FloatArray) -> FloatArray:
        """Return D of T + shift I = L D L', a row for each shift."""
        m = self._diagonal.size
        pivots = np.empty((shifts.size, m))
        off_diagonal_squares = self._off_diagonal**2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            pivots[:, 0] = self._diagonal[0] + shifts
            for k in range(1, m):
                pivots[:, k] = self._diagonal[k] + shifts - off_diagonal_squares[k - 1] / pivots[:, k - 1]
        return np.nan_to_num(pivots, nan=-1.0)

    def _diag_inverse(self, pivots: FloatArray) -> FloatArray:
        """Return the diagonal of inv(G + shift I), a row for each row of pivots: equation (2)."""
        m = self._diagonal.size
        total = np.zeros((pivots.shape[0], m))
        if total.size == 0:
            return total
        multipliers = self._off_diagonal / pivots[:, :-1]
        inverse = 1.0 / pivots
        row, square = np.zeros_like(total), np.empty_like(total)
        for k in range(m):
            if k:
                row *= -multipliers[:, [k - 1]]
            row += self._Q[:, k]
            np.multiply(row, row, out=square)
            square *= inverse[:, [k]]
            total += square
        return total

    def _values(self, shift: float, diagonal: FloatArray) -> FloatArray:
        inner = scipy.linalg.solveh_banded(self._band(shift), self._right, lower=True, check_finite=False)
        solved = self._root[:, None] * product(self._Q, np.asfortranarray(inner))
        pivot = self._root**2 * diagonal
        if not self._free_bias:
            return np.asarray(self._targets - solved / pivot[:, None])
        u = solved[:, [0]]
        schur = u.sum()
        bias = solved[:, 1:].sum(axis=0) / schur
        pivot -= u[:, 0] ** 2 / schur
        return np.asarray(self._targets - (solved[:, 1:] - u * bias) / pivot[:, None])

    def _band(self, shift: float) -> FloatArray:
        band = np.zeros((2, self._diagonal.size))
        band[0] = self._diagonal + shift
        band[1, :-1] = self._off_diagonal
        return band


class LinearPath:
    """Leave-one-out values of a linear model over C, by the eigenvectors of its scatter.

    With rows z_i around their mean, scatter sum_i w_i z_i z_i' = V diag(s) V' and p_i = V'z_i, the leverage
    of a row is h_i = w_i (1 / sum w + sum_j p_ij^2 / (s_j + 1/C)), and

        y_i - f^(-i)(x_i) = (y_i - f_i) / (1 - h_i)                                                      (3)

    Parameters
    ----------
    Z : array or CSR matrix of shape (m, n)
    targets : ndarray of shape (m, k)
    weights : ndarray of shape (m,)
        All positive.
    free_bias : bool
        Free bias (True) or none.
    """

    def __init__(self, Z: Matrix, targets: FloatArray, weights: FloatArray, *, free_bias: bool) -> None:
        moments = Moments.of(Z, weights, targets)
        centre = moments.mean if free_bias else np.zeros_like(moments.mean)
        self._offset = moments.target if free_bias else np.zeros_like(moments.target)
        self._bias_leverage = weights / moments.total if free_bias else np.zeros_like(weights)
        scatter, response = moments.scatter, moments.response
        if not free_bias:
            scatter = scatter + moments.total * np.outer(moments.mean, moments.mean)
            response = response + moments.total * np.outer(moments.mean, moments.target)
        eigenvalues, V = np.linalg.eigh(scatter)
        self._eigenvalues = np.maximum(eigenvalues, 0.0)
        self._response = V.T @ response
        self._targets, self._weights = targets, weights
        self._P = np.empty(Z.shape)
        for part in row_blocks(*Z.shape):
            block = Z[part]
            self._P[part] = (block.toarray() if sp.issparse(block) else block - 0.0) @ V
        self._P -= centre @ V

    def leave_one_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C."""
        for C in Cs:
            shrink = 1.0 / (self._eigenvalues + 1.0 / C)
            leverage = self._bias_leverage + self._weights * self._squares(shrink)
            fitted = self._offset + self._P @ (shrink[:, None] * self._response)
            yield self._targets - (self._targets - fitted) / (1.0 - leverage)[:, None]

    def _squares(self, shrink: FloatArray) -> FloatArray:
        out = np.empty(self._P.shape[0])
        for part in row_blocks(*self._P.shape):
            out[part] = self._P[part] ** 2 @ shrink
        return out


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
    >>> from squaresvm.search.paths import KernelFamily
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
