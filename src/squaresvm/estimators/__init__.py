"""Estimators: scikit-learn's conventions on one side, the problem on the other."""

from __future__ import annotations

from squaresvm.estimators.classifiers import LSSVC, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.estimators.regressors import LSSVR

__all__ = ["LSSVC", "LSSVR", "RLSSVC", "LagrangianSVC", "ProximalSVC", "RelaxedLSSVC"]
