"""Factors: solve, update, and the diagonal of the inverse."""

from __future__ import annotations

from squaresvm.factors.cholesky import CholeskyFactor
from squaresvm.factors.moments import ColumnFactors, Moments, MomentsFactor

__all__ = ["CholeskyFactor", "ColumnFactors", "Moments", "MomentsFactor"]
