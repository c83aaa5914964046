"""Support vector machines with a squared loss: exact learning, forgetting and verification."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from squaresvm._version import __version__

if TYPE_CHECKING:
    from squaresvm.estimators import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
    from squaresvm.evidence.chain import check_chain
    from squaresvm.evidence.hashes import AbsenceProof, check_absence
    from squaresvm.evidence.receipt import Receipt
    from squaresvm.features import Nystrom
    from squaresvm.files import forget, learn, load, save
    from squaresvm.judging.robust import Robust
    from squaresvm.meta.one_vs_one import OneVsOne
    from squaresvm.meta.pruning import prune
    from squaresvm.meta.window import Window
    from squaresvm.onnx import to_onnx
    from squaresvm.runtime.atomic import locked
    from squaresvm.search import LSSVCCV, LSSVRCV, RLSSVCCV, LagrangianSVCCV
    from squaresvm.solution import Certificate, Status
    from squaresvm.verifier import Verdict, verify

__all__ = [
    "LSSVC",
    "LSSVCCV",
    "LSSVR",
    "LSSVRCV",
    "RLSSVC",
    "RLSSVCCV",
    "AbsenceProof",
    "Certificate",
    "LagrangianSVC",
    "LagrangianSVCCV",
    "Nystrom",
    "OneVsOne",
    "ProximalSVC",
    "Receipt",
    "RelaxedLSSVC",
    "Robust",
    "Status",
    "Verdict",
    "Window",
    "__version__",
    "check_absence",
    "check_chain",
    "forget",
    "learn",
    "load",
    "locked",
    "prune",
    "save",
    "to_onnx",
    "verify",
]

#: Where each name comes from. Modules are imported when a name is first asked for: the command line must be
#: able to catch an interruption while they are, which takes a second or two.
_MODULES = {
    "estimators": ("LSSVC", "LSSVR", "RLSSVC", "LagrangianSVC", "ProximalSVC", "RelaxedLSSVC"),
    "features": ("Nystrom",),
    "files": ("forget", "learn", "load", "save"),
    "evidence.chain": ("check_chain",),
    "evidence.hashes": ("AbsenceProof", "check_absence"),
    "evidence.receipt": ("Receipt",),
    "judging.robust": ("Robust",),
    "meta.one_vs_one": ("OneVsOne",),
    "meta.pruning": ("prune",),
    "meta.window": ("Window",),
    "onnx": ("to_onnx",),
    "runtime.atomic": ("locked",),
    "search": ("LSSVCCV", "LSSVRCV", "LagrangianSVCCV", "RLSSVCCV"),
    "solution": ("Certificate", "Status"),
    "verifier": ("Verdict", "verify"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Return a public name, or a package of ours, imported when it is first asked for."""
    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
