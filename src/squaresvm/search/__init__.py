"""Search over C and the kernel's parameter by exact leave-one-out."""

from __future__ import annotations

from squaresvm.search.estimators import LSSVCCV, LSSVRCV

__all__ = ["LSSVCCV", "LSSVRCV"]
