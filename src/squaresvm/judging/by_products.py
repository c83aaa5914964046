"""N, the inverse of the bordered matrix of a linear model, by conjugate gradients: no m x m or n x n numbers.

With R = diag(C)^1/2 and B = I + R Z Z' R, the block of N that belongs to the rows is

    N = R (inv(B) - v v' / (A + r'v)) R,    r = diag(R),  B v = r                                        (1)

(without the second term where there is no bias). For any x and what it leaves, q = e_i - B x,

    inv(B)_ii - (x_i + x'q) = q' inv(B) q <= |q|^2                                                       (2)

since no eigenvalue of B is below one: half the digits of a solution give all of a diagonal entry, and it is
known how many they are (Golub and Meurant 2010).
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from squaresvm.family import Bias
from squaresvm.runtime.resources import in_order, is_compiled
from squaresvm.solvers.block_cg import conjugate_gradients
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["InverseByProducts"]

#: Columns that are solved for together, and bytes of n x columns numbers at most.
_TOGETHER, _BYTES = 32, 2**26
#: Products of a solve at most, and share of a right-hand side to which those are solved that are no diagonal.
_PRODUCTS, _FINE = 2000, 1e-12


class InverseByProducts:
    """N of the rows of a linear model, reached by products with sparse rows.

    Parameters
    ----------
    Z : CSR matrix of shape (m, n)
    costs : ndarray of shape (m,)
    bias : Bias

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from squaresvm.family import Bias
    >>> from squaresvm.judging.by_products import InverseByProducts
    >>> inverse = InverseByProducts(sp.csr_matrix([[1.0, 0.0], [0.0, 2.0]]), np.ones(2), Bias.none())
    >>> inverse.diagonal(1e-9).round(6).tolist()
    [0.5, 0.2]
    """

    def __init__(self, Z: Matrix, costs: FloatArray, bias: Bias) -> None:
        self._Z, self._root, self._bias = Z, np.sqrt(costs), bias
        names = np.unique(Z.indices)
        if names.size < Z.shape[1]:
            # Columns that no row has: there may be many more of these than of the others.
            entries = (Z.data, np.searchsorted(names, Z.indices), Z.indptr)
            Z = sp.csr_matrix(entries, shape=(Z.shape[0], max(names.size, 1)))
        self._rows = sp.diags_array(self._root).tocsr() @ Z.astype(np.float64)
        squares = self._rows.copy()
        squares.data **= 2
        self._diagonal: FloatArray = 1.0 + np.asarray(squares.sum(axis=1)).ravel()
        self._step = int(np.clip(_BYTES // (8 * self._rows.shape[1]), 1, _TOGETHER))
        self._border, self._total = np.zeros_like(self._root), np.inf
        if not bias.is_absent:
            self._border = self._solve(self._root[:, None], _FINE)[0][:, 0]
            self._total = bias.penalty + float(self._root @ self._border)

    def _product(self, V: FloatArray) -> FloatArray:
        """Return B V."""
        rows = self._rows
        if not is_compiled():
            return np.asarray(V + rows @ (rows.T @ V))
        from squaresvm.problem._loops import gather_columns, spread_columns

        given, V = (rows.data, rows.indices, rows.indptr), np.ascontiguousarray(V)
        W, out = np.zeros((rows.shape[1], V.shape[1])), V.copy()
        gather_columns(*given, V, W)
        spread_columns(*given, W, out)
        return out

    def _solve(self, rhs: FloatArray, left: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return X with B X close to `rhs`, and what is left."""
        diagonal = self._diagonal[:, None]
        norms = np.sqrt(np.square(rhs).sum(axis=0))
        X, _ = conjugate_gradients(
            lambda V, _: self._product(V),
            lambda V, _: V / diagonal,
            rhs,
            left * norms,
            _PRODUCTS,
            measure=lambda R, _: np.sqrt(np.einsum("ij,ij->j", R, R)),
        )
        return X, rhs - self._product(X)

    def diagonal(self, accuracy: float) -> FloatArray:
        """Return N_ii of all rows.

        Parameters
        ----------
        accuracy : float
            Of each, relative to itself.

        Warns
        -----
        ConvergenceWarning
            Where rounding, or the limit of products, leaves less than that.
        """
        m = self._root.size
        parts = [np.arange(start, min(start + self._step, m)) for start in range(0, m, self._step)]
        found = list(in_order(partial(self._part, rows, accuracy) for rows in parts))
        worst = max(uncertain for _, uncertain in found)
        if worst > 2.0 * accuracy:
            warnings.warn(
                f"leave-one-out values are only known to {worst:.1e} of y - f: conjugate gradients ended "
                f"after {_PRODUCTS} products, or at the limit of rounding; a smaller C needs fewer products",
                ConvergenceWarning,
                stacklevel=2,
            )
        return np.concatenate([values for values, _ in found])

    def _part(self, rows: IntArray, accuracy: float) -> tuple[FloatArray, float]:
        """Return N_ii of some rows, and how far the worst may be off, as a share of itself."""
        unit = np.zeros((self._root.size, rows.size))
        unit[rows, np.arange(rows.size)] = 1.0
        # inv(B)_ii is at least 1 / B_ii.
        left = np.sqrt(accuracy / self._diagonal[rows])
        taken = self._border[rows] ** 2 / self._total
        for _ in range(2):
            X, missing = self._solve(unit, left)
            error = np.square(missing).sum(axis=0)
            values = X[rows, np.arange(rows.size)] + np.einsum("ij,ij->j", X, missing) - taken
            values = np.maximum(values, np.finfo(np.float64).tiny)
            if np.all(error <= accuracy * values):
                break
            left = np.sqrt(accuracy * values)  # The bias has taken most of it.
        return self._root[rows] ** 2 * values, float((error / values).max())

    def bordered(self, rhs: FloatArray, ends: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the parts of N (rhs, ends) that belong to the rows, of shape (m, p), and to the bias, (p,).

        Parameters
        ----------
        rhs : ndarray of shape (m, p)
        ends : ndarray of shape (p,)
            Ignored where there is no bias.
        """
        rows, at_bias = np.empty(rhs.shape), np.zeros(rhs.shape[1])
        for start in range(0, rhs.shape[1], self._step):
            part = slice(start, start + self._step)
            X = self._solve(self._root[:, None] * rhs[:, part], _FINE)[0]
            if not self._bias.is_absent:
                at_bias[part] = (self._root @ X - ends[part]) / self._total
                X = X - np.outer(self._border, at_bias[part])
            rows[:, part] = self._root[:, None] * X
        return rows, at_bias

    def reach(self, probes: Matrix) -> tuple[FloatArray, FloatArray]:
        """Return N (k(X, x), 1) for some rows x, as `bordered` does."""
        near = self._Z @ probes.T
        near = np.asarray(near.toarray() if sp.issparse(near) else near, dtype=np.float64)
        return self.bordered(near, np.ones(near.shape[1]))
