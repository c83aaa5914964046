"""Squared-loss support vector machines that learn, forget and prove it."""

from __future__ import annotations

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
]
