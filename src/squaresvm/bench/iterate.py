"""The LSVM paper's linear iteration stopped where the paper stops it: its tables count what that leaves.

The package's own solver of that name goes on to a certificate: its support vectors are the optimum's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from squaresvm.typing import FloatArray

__all__ = ["LagrangianIterate"]


class LagrangianIterate:
    """u <- Q^-1 (1 + ((Q - alpha) u - 1)_+), Q = I/C + GG', until a step is shorter than `tol`; eq. (15).

    Parameters
    ----------
    C : float
        The paper's nu.
    tol : float, default=1e-3
        Of |u - previous u|, the paper's.
    max_iter : int, default=10000

    Attributes
    ----------
    dual_coef_ : ndarray of shape (1, m)
        Multipliers, signed, those of the last iterate that are below 0 included.
    support_ : ndarray
        Rows whose multiplier is above 0, as the paper counts them.
    coef_, intercept_, n_iter_ : ndarray, ndarray, int

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.bench.iterate import LagrangianIterate
    >>> model = LagrangianIterate(C=1.0).fit(np.array([[2.0], [-2.0]]), np.array([1.0, -1.0]))
    >>> model.predict(np.array([[0.5], [-3.0]]))
    array([ 1., -1.])
    """

    def __init__(self, C: float = 1.0, tol: float = 1e-3, max_iter: int = 10_000) -> None:
        self.C, self.tol, self.max_iter = C, tol, max_iter

    def fit(self, X: FloatArray, y: FloatArray) -> LagrangianIterate:
        """Iterate on rows with labels +-1."""
        G = y[:, None] * np.column_stack([X, np.ones(len(y))])
        small = np.linalg.inv(np.eye(G.shape[1]) / self.C + G.T @ G)
        alpha = 1.9 / self.C

        def solved(z: FloatArray) -> FloatArray:
            """Return Q^-1 z, by Sherman, Morrison and Woodbury."""
            return self.C * (z - G @ (small @ (G.T @ z)))

        u, step, self.n_iter_ = solved(np.ones(len(y))), np.inf, 0
        while step > self.tol and self.n_iter_ < self.max_iter:
            before, u = u, solved(1.0 + np.maximum(u / self.C + G @ (G.T @ u) - alpha * u - 1.0, 0.0))
            step = float(np.linalg.norm(u - before))
            self.n_iter_ += 1
        w = G.T @ u
        self.coef_, self.intercept_ = w[None, :-1], w[-1:]
        self.dual_coef_, self.support_ = (y * u)[None], np.flatnonzero(u > 0)
        return self

    def predict(self, X: FloatArray) -> Any:
        """Return signs."""
        return np.where(X @ self.coef_[0] + self.intercept_[0] > 0, 1.0, -1.0)
