"""The one convex problem behind every model: objective, residual, gap and certificate."""

from __future__ import annotations

from squaresvm.family import Bias, Loss
from squaresvm.problem.problem import Problem, columns_of

__all__ = ["Bias", "Loss", "Problem", "columns_of"]
