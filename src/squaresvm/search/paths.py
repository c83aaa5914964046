"""Exact values of rows left out: for every C from one decomposition, for every gamma from the same distances.

The squared hinge has no such decomposition, and goes from each C to the next.

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

from squaresvm.estimators.c_path import solved_at
from squaresvm.factors import Moments
from squaresvm.judging.scores import evidence_of
from squaresvm.kernels import Kernel, _for_distances, _integer_power, inner_products, squared_norms
from squaresvm.linalg.blas import product
from squaresvm.linalg.lapack import NotPositiveSemidefiniteError, solve_definite, tridiagonalise_in_place
from squaresvm.models.model import Settings
from squaresvm.models.state import State
from squaresvm.models.train import train
from squaresvm.operators import PrecomputedOperator
from squaresvm.rows import Rows
from squaresvm.runtime.resources import row_blocks
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["HAVE_GAMMA", "HingePath", "KernelFamily", "KernelPath", "LinearPath", "Path"]

#: Kernels with a parameter gamma.
HAVE_GAMMA = ("rbf", "laplacian", "poly", "sigmoid")


class Path(Protocol):
    """Values of rows by models without them, and evidence, over C."""

    def left_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C; None where the problem is not convex."""
        ...

    def evidence(self, Cs: Sequence[float]) -> Iterator[float | None]:
        """Yield the logarithm of the evidence for each C; None where the problem is not convex."""
        ...


class KernelPath:
    """Values of rows left out of a kernel model, over C.

    With folds F the blocks of N are those of (2): B'B of the columns of B = D^-1/2 L^-1 Q' at F.

    Parameters
    ----------
    K : ndarray of shape (m, m), Fortran-ordered
        Overwritten.
    targets : ndarray of shape (m, k)
    weights : ndarray of shape (m,)
        All positive.
    free_bias : bool
        Free bias (True) or none.
    folds : sequence of ndarrays, optional
        Rows that leave together; by default each row leaves alone.
    """

    def __init__(
        self,
        K: FloatArray,
        targets: FloatArray,
        weights: FloatArray,
        *,
        free_bias: bool,
        folds: Sequence[IntArray] | None = None,
    ) -> None:
        self._targets, self._folds = targets, folds
        self._root = np.sqrt(weights)
        self._free_bias = free_bias
        if not np.all(weights == 1.0):
            K *= self._root
            K *= self._root[:, None]
        self._diagonal, self._off_diagonal = tridiagonalise_in_place(K)
        self._Q = K
        columns = [np.ones((targets.shape[0], 1)), targets] if free_bias else [targets]
        self._right = product(K.T, np.asfortranarray(self._root[:, None] * np.hstack(columns)))

    def left_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C; None where K + diag(1/C) is not positive definite."""
        shifts = 1.0 / np.asarray(Cs, dtype=np.float64)
        pivots = self._pivots(shifts)
        if self._folds is not None:
            for shift, own in zip(shifts.tolist(), pivots, strict=True):
                yield self._fold_values(shift, own, self._folds) if (own > 0).all() else None
            return
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

    def evidence(self, Cs: Sequence[float]) -> Iterator[float | None]:
        """Yield the logarithm of the evidence for each C, of all targets together."""
        shifts = 1.0 / np.asarray(Cs, dtype=np.float64)
        for shift, pivots in zip(shifts.tolist(), self._pivots(shifts), strict=True):
            if not (pivots > 0).all():
                yield None
                continue
            beta, u, schur = self._solved(shift)
            volume = float(np.log(pivots).sum() - 2.0 * np.log(self._root).sum())
            volume += float(np.log(schur)) if self._free_bias else 0.0
            fit = (self._targets * beta).sum(axis=0)
            yield float(evidence_of(fit, volume, u.size - int(self._free_bias)).sum())

    def _solved(self, shift: float) -> tuple[FloatArray, FloatArray, float]:
        """Return beta, and u = N0 1 with its sum: zeros and 1 where there is no bias."""
        inner = scipy.linalg.solveh_banded(self._band(shift), self._right, lower=True, check_finite=False)
        solved = self._root[:, None] * product(self._Q, np.asfortranarray(inner))
        if not self._free_bias:
            return solved, np.zeros(solved.shape[0]), 1.0
        u, schur = solved[:, 0], float(solved[:, 0].sum())
        return solved[:, 1:] - np.outer(u, solved[:, 1:].sum(axis=0) / schur), u, schur

    def _values(self, shift: float, diagonal: FloatArray) -> FloatArray:
        beta, u, schur = self._solved(shift)
        pivot = self._root**2 * diagonal - u**2 / schur
        return np.asarray(self._targets - beta / pivot[:, None])

    def _fold_values(self, shift: float, pivots: FloatArray, folds: Sequence[IntArray]) -> FloatArray:
        """Return the values by y_F - f^(-F)(x_F) = inv(N_FF) beta_F."""
        beta, u, schur = self._solved(shift)
        half = self._half(pivots)
        values = np.empty_like(self._targets)
        for rows in folds:
            columns = np.asfortranarray(half[:, rows] * self._root[rows])
            block = product(columns.T, columns) - np.outer(u[rows], u[rows] / schur)
            values[rows] = self._targets[rows] - solve_definite(block, beta[rows])
        return values

    def _half(self, pivots: FloatArray) -> FloatArray:
        """Return B with B'B = inv(G + shift I)."""
        multipliers, B = self._off_diagonal / pivots[:-1], np.empty_like(self._Q, order="C")
        row = np.zeros(pivots.size)
        for k in range(pivots.size):
            if k:
                row *= -multipliers[k - 1]
            row += self._Q[:, k]
            B[k] = row / np.sqrt(pivots[k])
        return B

    def _band(self, shift: float) -> FloatArray:
        band = np.zeros((2, self._diagonal.size))
        band[0] = self._diagonal + shift
        band[1, :-1] = self._off_diagonal
        return band


class LinearPath:
    """Values of rows left out of a linear model over C, by the eigenvectors of its scatter.

    With rows z_i around their mean, scatter sum_i w_i z_i z_i' = V diag(s) V' and p_i = V'z_i, the leverage
    of a row is h_i = w_i (1 / sum w + sum_j p_ij^2 / (s_j + 1/C)), and

        y_i - f^(-i)(x_i) = (y_i - f_i) / (1 - h_i)                                                      (3)

    With folds each has the eigenvectors of the rest, which serve every C.

    Parameters
    ----------
    Z : array or CSR matrix of shape (m, n)
    targets : ndarray of shape (m, k)
    weights : ndarray of shape (m,)
        All positive.
    free_bias : bool
        Free bias (True) or none.
    folds : sequence of ndarrays, optional
        Rows that leave together; by default each row leaves alone.
    """

    def __init__(
        self,
        Z: Matrix,
        targets: FloatArray,
        weights: FloatArray,
        *,
        free_bias: bool,
        folds: Sequence[IntArray] | None = None,
    ) -> None:
        self._folds, self._Z, self._free_bias = folds, Z, free_bias
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
        self._V, self._shift = V, centre @ V
        self._P = self._turned(Z)

    def _turned(self, Z: Matrix) -> FloatArray:
        """Return V'(z - mean) of rows."""
        turned = np.empty(Z.shape)
        for part in row_blocks(*Z.shape):
            block = Z[part]
            turned[part] = (block.toarray() if sp.issparse(block) else block - 0.0) @ self._V
        turned -= self._shift
        return turned

    def _fitted(self, turned: FloatArray, C: float) -> FloatArray:
        """Return f at rows that `_turned` was given."""
        shrink = 1.0 / (self._eigenvalues + 1.0 / C)
        return np.asarray(self._offset + turned @ (shrink[:, None] * self._response))

    def left_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C."""
        if self._folds is not None:
            yield from self._fold_values(Cs, self._folds)
            return
        for C in Cs:
            shrink = 1.0 / (self._eigenvalues + 1.0 / C)
            leverage = self._bias_leverage + self._weights * self._squares(shrink)
            fitted = self._fitted(self._P, C)
            yield self._targets - (self._targets - fitted) / (1.0 - leverage)[:, None]

    def _fold_values(self, Cs: Sequence[float], folds: Sequence[IntArray]) -> Iterator[FloatArray]:
        found = [np.empty_like(self._targets) for _ in Cs]
        for rows in folds:
            rest = np.ones(self._targets.shape[0], dtype=bool)
            rest[rows] = False
            others = LinearPath(
                self._Z[rest], self._targets[rest], self._weights[rest], free_bias=self._free_bias
            )
            turned = others._turned(self._Z[rows])
            for C, values in zip(Cs, found, strict=True):
                values[rows] = others._fitted(turned, C)
        yield from found

    def evidence(self, Cs: Sequence[float]) -> Iterator[float | None]:
        """Yield the logarithm of the evidence for each C, of all targets together."""
        weights, m = self._weights, self._targets.shape[0]
        for C in Cs:
            # |H| = |I + Z'CZ| / prod C_i, and the border of a free bias puts sum C_i to it.
            volume = float(np.log1p(C * self._eigenvalues).sum() - np.log(C * weights).sum())
            volume += float(np.log(C * weights.sum())) if self._free_bias else 0.0
            error = self._targets - self._fitted(self._P, C)
            fit = C * (weights @ (self._targets * error))
            yield float(evidence_of(fit, volume, m - int(self._free_bias)).sum())

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


class HingePath:
    """Values of rows left out of a model with the squared hinge, over C.

    Parameters
    ----------
    rows : Rows
    settings : Settings
        With the gamma of the path; C is not used.
    folds : list of ndarrays or None
        Positions among the rows of positive weight that leave together; None: each row alone.
    K : ndarray of shape (m, m), optional
        The kernel matrix of the rows of positive weight, where it was given.
    """

    def __init__(
        self, rows: Rows, settings: Settings, folds: list[IntArray] | None, K: Matrix | None = None
    ) -> None:
        self._rows, self._settings, self._folds, self._K = rows, settings, folds, K

    def left_out(self, Cs: Sequence[float]) -> Iterator[FloatArray | None]:
        """Yield the values of shape (m, k) for each C; None where the problem is not convex."""
        state: State | None = None
        for C in Cs:
            try:
                state = self._first(C) if state is None else solved_at(state, state.problem, C, state)
                yield state.leave_one_out() if self._folds is None else state.without_folds(self._folds)
            except NotPositiveSemidefiniteError:
                state = None  # Its buffers are left as the failure found them.
                yield None

    def _first(self, C: float) -> State:
        operator = None if self._K is None else PrecomputedOperator(np.array(self._K, np.float64))
        return train(self._rows, replace(self._settings, C=C), operator)
