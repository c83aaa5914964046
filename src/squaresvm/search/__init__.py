"""Search over C and the kernel's parameter by exact leave-one-out, or by folds."""

from __future__ import annotations

from squaresvm.search.estimators import LSSVCCV, LSSVRCV, RLSSVCCV, LagrangianSVCCV

__all__ = ["LSSVCCV", "LSSVRCV", "RLSSVCCV", "LagrangianSVCCV"]
