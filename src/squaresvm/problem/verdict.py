"""From residual, gap and objective of every column to the certificate: the same rules for every model.

The bounds on |f - f*| follow from the gap G. With t_i = 1 - y_i f_i, the divergence of the squared hinge
between the model and the optimum is at least C_i/2 min(|f_i - f*_i|, t_i)^2 at a row with t_i > 0, so that

    |w - w*|^2 + A (b - b*)^2 + sum over S of C_i (f_i - f*_i)^2 <= 2 G                                  (6)

with S the rows with t_i > sqrt(2 G / C_i); for the squared loss (6) holds with all rows in S. So at a row
of S |f_i - f*_i|^2 is at most 2 G / C_i, and anywhere at most 2 G times (Cauchy and Schwarz)

    k(x, x) + 1/A                                  where the bias is penalised, or absent (1/A = 0)       (7)
    1/C_S + |phi(x) - mean of S|^2                 with C_S the sum of C_i over S, for any bias           (8)

Of some models with the squared loss only sums over the rows are left: those are judged by `SummedProblem`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from squaresvm.factors import MomentsFactor
from squaresvm.family import Bias
from squaresvm.solution import Certificate, Outcome, Status
from squaresvm.typing import BoolArray, FloatArray

__all__ = [
    "EPSILON",
    "ROUNDING",
    "SummedProblem",
    "Verdict",
    "certain_room",
    "row_spread",
    "status_of",
    "within_gap",
]

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


@dataclass(frozen=True, eq=False)
class SummedProblem:
    """Problem (P), squared loss, by the sums of its rows: the certificate after rows came or left.

    Gradient, objective and the distance to the optimum are those of the sums. What takes single rows is
    bounded: no residual that is given is smaller than the one that a pass over the rows would find.

    Parameters
    ----------
    factor : MomentsFactor
        Of the sums.
    scale : ndarray of shape (k,)
        At most the largest |y| of each column, which residuals are divided by.
    n_rows : int
    """

    factor: MomentsFactor
    scale: FloatArray
    n_rows: int

    @property
    def _lightest(self) -> float:
        """At most the smallest C_i. Sums that came without it, from a file, have their mean to go by."""
        moments = self.factor.moments
        return moments.total / self.n_rows if moments.lightest is None else moments.lightest

    @property
    def _largest(self) -> float:
        """At least the largest |z_i|: as it was kept, or by C_i |z_i - mean|^2 <= trace of the scatter."""
        moments = self.factor.moments
        away = np.sqrt(max(float(np.trace(moments.scatter)), 0.0) / self._lightest)
        by_trace = float(np.linalg.norm(moments.mean) + away)
        return by_trace if moments.largest is None else min(moments.largest, by_trace)

    def certify(self, w: FloatArray, b: FloatArray, tol: float) -> Certificate:
        """Return the certificate at (w, b), its residual an upper bound.

        With g the gradient in w, what the sums may have lost included, theory's r_i = -z_i'g is at most
        |z_i| |g|, and at most |mean'g| + sqrt(g'G g / C_i) with the scatter G. |beta|_1, which the bias is
        measured by, is at least |w - g| / max |z_i| and at least sum C_i xi_i^2 / max |xi_i|.
        """
        in_w, in_b = self.factor.gradient(w, b)
        lost_w, lost_b = self._lost(w, b)
        residual = self._residual(w, b, np.abs(in_w) + lost_w, np.abs(in_b) + lost_b, in_w, lost_w)
        dw, db = self.factor.step(-in_w, -in_b)
        # The objective is a quadratic, so half the decrement is the very distance to its minimum.
        gap = np.maximum(-0.5 * ((in_w * dw).sum(axis=0) + in_b * db), 0.0)
        verdict = Verdict(residual, gap, self.factor.objective(w, b))
        hundredfold = ROUNDING / EPSILON
        return verdict.certified(
            tol,
            Outcome.FINISHED,
            lambda: self._residual(
                w, b, hundredfold * lost_w, hundredfold * lost_b, 0.0 * lost_w, hundredfold * lost_w
            ),
            lambda found: self._decision_error(found, lost_w, lost_b),
        )

    def _lost(self, w: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rounding of the gradient, from that of sums that were once as large as their peak."""
        moments = self.factor.moments
        peak = moments.peak
        if peak is None:
            peak = np.append(np.diagonal(moments.scatter), moments.total)
        root, total = np.sqrt(np.maximum(peak[:-1], 0.0)), float(peak[-1])
        size = np.abs(moments.mean)
        widest = moments.spread * total / moments.total if moments.widest is None else moments.widest
        spread = np.sqrt(np.maximum(widest, 0.0))
        level = np.abs(moments.target) + spread / np.sqrt(moments.total)
        lost_b = EPSILON * total * (size @ np.abs(w) + level + np.abs(b))
        lost_w = EPSILON * (np.outer(root, root @ np.abs(w) + spread) + np.abs(w)) + np.outer(size, lost_b)
        return lost_w, np.zeros_like(b) if self.factor.bias.is_absent else lost_b

    def _residual(
        self,
        w: FloatArray,
        b: FloatArray,
        size_w: FloatArray,
        size_b: FloatArray,
        in_w: FloatArray,
        lost_w: FloatArray,
    ) -> FloatArray:
        """Return the bound of each column, given bounds on the gradient's parts, and how it is made up."""
        moments, largest = self.factor.moments, self._largest
        around = np.maximum((in_w * (moments.scatter @ in_w)).sum(axis=0), 0.0)
        known = np.abs(moments.mean @ in_w) + np.sqrt(around / self._lightest)
        by_scatter = known + largest * np.linalg.norm(lost_w, axis=0)
        rows = np.minimum(largest * np.linalg.norm(size_w, axis=0), by_scatter) / self.scale
        bias = self.factor.bias
        if bias.is_absent:
            return np.asarray(rows)
        scale = bias.penalty * np.abs(b) + self._least_multipliers(w, b, in_w)
        share = np.divide(size_b, scale, out=np.zeros_like(scale), where=scale > 0)
        return np.maximum(rows, share)

    def _least_multipliers(self, w: FloatArray, b: FloatArray, in_w: FloatArray) -> FloatArray:
        """Return at most |beta|_1 of each column."""
        moments = self.factor.moments
        pull = 0.0 if self.factor.bias.is_absent else self.factor.bias.penalty * b**2
        loss = np.maximum(2.0 * self.factor.objective(w, b) - np.square(w).sum(axis=0) - pull, 0.0)
        by_loss = np.sqrt(loss * self._lightest)
        largest = self._largest
        by_norm = np.linalg.norm(w - in_w, axis=0) / largest if largest > 0.0 else np.zeros_like(b)
        by_sum = np.abs(moments.total * (moments.target - moments.mean @ w - b))
        return np.asarray(np.maximum(np.maximum(by_loss, by_norm), by_sum))

    def _decision_error(self, verdict: Verdict, lost_w: FloatArray, lost_b: FloatArray) -> float:
        """Return a bound on |f - f*| at the rows, over the scale of the targets."""
        moments, bias = self.factor.moments, self.factor.bias
        # The Hessian is at least the identity in w, and A + S in b where w follows.
        lost = np.square(lost_w).sum(axis=0) + np.square(lost_b) / moments.total
        gap = within_gap(verdict.gap, 0.5 * lost)
        norm, cost = np.array([self._largest**2]), np.array([self._lightest])
        spread = row_spread(norm, cost, np.ones(1, dtype=bool), bias, moments.total, float(norm[0]))
        return float((np.sqrt(2.0 * gap * spread) / self.scale).max())
