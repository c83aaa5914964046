"""From residual, gap and objective of every column to the certificate: the same rules for every model.

The bounds on |f - f*| follow from the gap G. With t_i = 1 - y_i f_i, the divergence of the squared hinge
between the model and the optimum is at least C_i/2 min(|f_i - f*_i|, t_i)^2 at a row with t_i > 0, so that

    |w - w*|^2 + A (b - b*)^2 + sum over S of C_i (f_i - f*_i)^2 <= 2 G                                  (6)

with S the rows with t_i > sqrt(2 G / C_i); for the squared loss (6) holds with all rows in S. So at a row of
S |f_i - f*_i|^2 is at most 2 G / C_i, and anywhere at most 2 G times (Cauchy and Schwarz)

    k(x, x) + 1/A                                  where the bias is penalised, or absent (1/A = 0)       (7)
    1/C_S + |phi(x) - mean of S|^2                 with C_S the sum of C_i over S, for any bias           (8)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from squaresvm.family import Bias
from squaresvm.solution import Certificate, Outcome, Status
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["EPSILON", "ROUNDING", "Verdict", "certain_room", "row_spread", "status_of", "within_gap"]

EPSILON = float(np.finfo(np.float64).eps)
#: Rounding errors this many times the unit roundoff count as all that float64 gives.
ROUNDING = 100 * EPSILON


@dataclass(frozen=True, eq=False)
class Verdict:
    """Residual, gap and objective of every column, of shape (k,): what a certificate is made of."""

    residual: FloatArray
    gap: FloatArray
    objective: FloatArray

    def certificate(self, status: Status, decision_error: float | None = None) -> Certificate:
        """Return the certificate: the worst residual and its column, the sums of gap and objective."""
        worst = int(np.argmax(np.where(np.isnan(self.residual), np.inf, self.residual)))
        return Certificate(
            residual=float(self.residual[worst]),
            gap=float(self.gap.sum()),
            objective=float(self.objective.sum()),
            status=status,
            decision_error=decision_error,
            column=worst,
        )

    def certified(
        self,
        tol: float,
        outcome: Outcome,
        rounding: Callable[[], FloatArray],
        decision_error: Callable[[Verdict], float],
    ) -> Certificate:
        """Return the certificate with its status.

        Parameters
        ----------
        tol : float
        outcome : Outcome
            How the search ended.
        rounding : callable
            Returns the residual that float64 cannot be expected to beat; asked for where tol is not reached.
        decision_error : callable
            Returns the bound on |f - f*| at the rows; asked for where tol is not reached.
        """
        status = status_of(self.residual, tol, outcome, rounding)
        return self.certificate(status, None if status == Status.CONVERGED else decision_error(self))


def status_of(
    residual: FloatArray, tol: float, outcome: Outcome, rounding: Callable[[], FloatArray]
) -> Status:
    """Return the status of a residual; `rounding` is asked for what float64 gives where it is above tol."""
    if np.all(residual <= tol):
        return Status.CONVERGED
    if np.isfinite(residual).all() and np.all((residual <= tol) | (residual <= rounding())):
        return Status.PRECISION
    return Status.STOPPED if outcome == Outcome.STOPPED else Status.MAX_ITER


def within_gap(gap: FloatArray, rounding: FloatArray) -> FloatArray:
    """Return the most that the gap may be, where its root is known up to the root of its rounding."""
    return np.asarray((np.sqrt(np.maximum(gap, 0.0)) + np.sqrt(np.maximum(rounding, 0.0))) ** 2)


def certain_room(gap: float, costs: FloatArray) -> FloatArray:
    """Return the slack above which a row is in S of (6): sqrt(2 G / C_i)."""
    return np.asarray(np.sqrt(2.0 * gap / costs))


def row_spread(
    norms: FloatArray, costs: FloatArray, certain: BoolArray, bias: Bias, total: float, largest: float
) -> FloatArray:
    """Return what 2 G must be multiplied with to bound |f - f*|^2 at each row, by (7) and (8).

    Parameters
    ----------
    norms, costs : ndarray of shape (rows,)
        K_ii and C_i.
    certain : ndarray of bool of shape (rows,)
        Whether the row is in S.
    bias : Bias
    total, largest : float
        C_S, and the largest K_ii in S; both zero where S is empty.
    """
    anywhere = np.full(norms.shape, np.inf)
    if not bias.is_free:
        anywhere = norms + (0.0 if bias.is_absent else 1.0 / bias.penalty)
    if total > 0.0 and not bias.is_absent:
        anywhere = np.minimum(anywhere, 1.0 / total + (np.sqrt(norms) + np.sqrt(largest)) ** 2)
    return np.where(certain, np.minimum(anywhere, 1.0 / costs), anywhere)
