"""Squared-loss support vector machines that learn, forget and prove it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from squaresvm._version import __version__
from squaresvm.estimators import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.files import load, save
from squaresvm.nystrom import Nystrom
from squaresvm.one_vs_one import OneVsOne
from squaresvm.pruning import prune
from squaresvm.receipt import Receipt
from squaresvm.robust import Robust
from squaresvm.search import LSSVCCV, LSSVRCV
from squaresvm.solution import Certificate, Status
from squaresvm.window import Window

if TYPE_CHECKING:
    from squaresvm.onnx import to_onnx

__all__ = [
    "LSSVC",
    "LSSVCCV",
    "LSSVR",
    "LSSVRCV",
    "RLSSVC",
    "Certificate",
    "LagrangianSVC",
    "Nystrom",
    "OneVsOne",
    "ProximalSVC",
    "Receipt",
    "RelaxedLSSVC",
    "Robust",
    "Status",
    "Window",
    "__version__",
    "load",
    "prune",
    "save",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    """Return what few programs need, imported when it is first asked for."""
    if name == "to_onnx":
        from squaresvm.onnx import to_onnx

        return to_onnx
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
