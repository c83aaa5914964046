"""How K is reached: one object's business, and no solver asks which one it is."""

from __future__ import annotations

from squaresvm.operators.base import Operator
from squaresvm.operators.dense import DenseOperator
from squaresvm.operators.linear import LinearOperator
from squaresvm.operators.on_demand import OnDemandOperator, RowCache
from squaresvm.operators.precomputed import PrecomputedOperator
from squaresvm.operators.proximal import ProximalOperator
from squaresvm.operators.single import SingleKernel
from squaresvm.operators.store import KernelStore
from squaresvm.operators.stored import StoredOperator
from squaresvm.operators.subset import SubsetOperator

__all__ = [
    "DenseOperator",
    "KernelStore",
    "LinearOperator",
    "OnDemandOperator",
    "Operator",
    "PrecomputedOperator",
    "ProximalOperator",
    "RowCache",
    "SingleKernel",
    "StoredOperator",
    "SubsetOperator",
]
