"""How K is reached: one object's business, and no solver asks which one it is."""

from __future__ import annotations

from squaresvm.operators.computed import LinearOperator, OnDemandOperator, RowCache
from squaresvm.operators.distributed import DistributedOperator
from squaresvm.operators.precomputed import PrecomputedOperator
from squaresvm.operators.single import SingleKernel
from squaresvm.operators.store import KernelStore, Operator
from squaresvm.operators.stored import DenseOperator, ProximalOperator, StoredOperator, SubsetOperator

__all__ = [
    "DenseOperator",
    "DistributedOperator",
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
