"""Squared-loss support vector machines that learn, forget and prove it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from squaresvm._version import __version__
from squaresvm.estimators import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.features.nystrom import Nystrom
from squaresvm.files import load, save
from squaresvm.judging.receipt import Receipt
from squaresvm.judging.robust import Robust
from squaresvm.meta.one_vs_one import OneVsOne
from squaresvm.meta.pruning import prune
from squaresvm.meta.window import Window
from squaresvm.search import LSSVCCV, LSSVRCV
from squaresvm.solution import Certificate, Status

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
