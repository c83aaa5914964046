"""Problem (P) of a linear model with the squared loss of which only sums over its rows are left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squaresvm.factors import MomentsFactor
from squaresvm.problem.verdict import EPSILON, ROUNDING, Verdict, row_spread, within_gap
from squaresvm.solution import Certificate, Outcome
from squaresvm.typing import FloatArray

__all__ = ["SummedProblem"]


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

    def solution(self) -> tuple[FloatArray, FloatArray]:
        """Return (w, b) of the optimum, refined once."""
        w, b = self.factor.minimum()
        in_w, in_b = self.factor.gradient(w, b)
        dw, db = self.factor.step(-in_w, -in_b)
        return w + dw, b + db

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
