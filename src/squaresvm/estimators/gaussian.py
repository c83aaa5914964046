"""The squared loss seen as a Gaussian process: the variance of its values, and the evidence for its numbers.

With k as the covariance of f, 1/C_i as the variance of the noise of row i and a flat prior of the bias, f
given the rows is normal with the fitted f as its mean and

    var f(x) = k(x, x) - (k_x, 1)' inv(M) (k_x, 1),    M = [H, 1; 1', 0]                                  (1)

and the logarithm of the evidence, that of m - 1 contrasts between the rows, is

    -1/2 y'beta - 1/2 log |H| - 1/2 log 1'inv(H)1 - (m - 1)/2 log 2 pi                                    (2)

Without a bias the border is absent, and these are the formulas of Gaussian process regression.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from squaresvm.estimators.left_out import probes_of
from squaresvm.estimators.requests import Updating
from squaresvm.factors import CholeskyFactor, MomentsFactor
from squaresvm.judging.by_products import InverseByProducts
from squaresvm.judging.evidence import log_evidence
from squaresvm.kernels import Kernel
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.state import State
from squaresvm.models.streamed import StreamedState
from squaresvm.problem.products import is_large
from squaresvm.runtime.resources import row_blocks
from squaresvm.typing import FloatArray, Matrix

__all__ = ["Gaussian"]


class Gaussian(Updating):
    """Variance and evidence; see :class:`squaresvm.LSSVR`."""

    def log_marginal_likelihood(self) -> float:
        """Return the logarithm of the evidence for C and the kernel: equation (2), summed over targets.

        Equal to that of ``GaussianProcessRegressor(kernel, alpha=1/C)`` for ``fit_intercept=False``; with an
        intercept, which has a flat prior, that of the contrasts between rows (the restricted likelihood).
        Values are taken in the units of the kernel: standardise y, or scale the kernel.

        Returns
        -------
        float

        Examples
        --------
        >>> import numpy as np
        >>> from squaresvm import LSSVR
        >>> X = np.linspace(0, 6, 40)[:, None]
        >>> y = np.sin(X).ravel()
        >>> smooth, rough = LSSVR(C=100.0, gamma=0.5).fit(X, y), LSSVR(C=100.0, gamma=50.0).fit(X, y)
        >>> smooth.log_marginal_likelihood() > rough.log_marginal_likelihood()
        True
        """
        with REQUESTS:
            state = self._holding("log_marginal_likelihood")
            return float(log_evidence(*state.judged).sum())

    def _deviations(self, X: Any) -> FloatArray:
        """Return the standard deviation of f at each row, of shape (rows,)."""
        with REQUESTS:
            state = self._current()
            rows = self._checked_queries(X)
            if isinstance(state, StreamedState):
                if state.sums is None:
                    state.rows_for("return_std")
                assert state.sums is not None
                return np.sqrt(MomentsFactor(state.sums, state.settings.bias).leverage(rows))
            assert isinstance(state, State)
            return np.sqrt(np.maximum(_variances(state, rows), 0.0))


def _variances(state: State, X: Matrix) -> FloatArray:
    """Return (1) at each row."""
    problem, solution = state.judged
    Z = problem.operator.features
    if Z is not None and is_large(Z):
        g, bias = InverseByProducts(Z, problem.costs, problem.bias).reach(X)
        near = np.asarray((Z @ X.T).toarray(), dtype=np.float64)
        return Kernel("linear").diagonal(X) - np.einsum("ij,ij->j", near, g) - bias
    if Z is not None:
        return MomentsFactor.current(solution.factor, problem).leverage(X)
    kernel = state.settings.kernel
    if kernel is None:
        raise ValueError(
            "return_std needs k(x, x) of the rows, which a precomputed kernel matrix does not hold: give the "
            "kernel as a callable"
        )
    factor = CholeskyFactor.current(solution.factor, problem)
    found = np.asarray(kernel.diagonal(X), dtype=np.float64).copy()
    for part in row_blocks(X.shape[0], state.held.size):
        near = np.asarray(probes_of(state, X[part]), dtype=np.float64).T
        g, bias = factor.bordered(near, np.ones(near.shape[1]))
        found[part] -= np.einsum("ij,ij->j", near, g) + bias
    return found
