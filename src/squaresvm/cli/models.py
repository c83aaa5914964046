"""Estimators by the names of the command line, and models in files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import squaresvm
from squaresvm.cli.failures import BadInputError
from squaresvm.estimators.requests import Updating
from squaresvm.models.streamed import StreamedState

__all__ = ["Estimator", "KernelName", "ModelPath", "check_place", "open_model"]

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file that `train` wrote.")]


class Estimator(StrEnum):
    """What ``--estimator`` takes."""

    LSSVC = "lssvc"
    LSSVR = "lssvr"
    RELAXED = "relaxed"
    PROXIMAL = "proximal"
    LAGRANGIAN = "lagrangian"
    RLSSVC = "rlssvc"

    @property
    def has_penalty(self) -> bool:
        """Whether the bias has a penalty A of the user's choice."""
        return self in (Estimator.RELAXED, Estimator.LAGRANGIAN)

    def make(self, **parameters: Any) -> Any:
        """Return an estimator that is not fitted yet."""
        classes = {
            Estimator.LSSVC: squaresvm.LSSVC,
            Estimator.LSSVR: squaresvm.LSSVR,
            Estimator.RELAXED: squaresvm.RelaxedLSSVC,
            Estimator.PROXIMAL: squaresvm.ProximalSVC,
            Estimator.LAGRANGIAN: squaresvm.LagrangianSVC,
            Estimator.RLSSVC: squaresvm.RLSSVC,
        }
        return classes[self](**parameters)


class KernelName(StrEnum):
    """What ``--kernel`` takes."""

    LINEAR = "linear"
    RBF = "rbf"
    POLY = "poly"
    SIGMOID = "sigmoid"
    LAPLACIAN = "laplacian"


def check_place(path: Path, *inputs: Path) -> None:
    """Raise a BadInputError unless a file can be put there: better before long work than after it.

    Parameters
    ----------
    path : Path
    *inputs : Path
        Files that must not be replaced.
    """
    if any(path.exists() and other.exists() and path.samefile(other) for other in inputs):
        raise BadInputError(f"{path}: would be replaced by what is made from it: name another file")
    if path.is_dir():
        raise BadInputError(f"{path}: is a folder")
    if not path.parent.is_dir():
        raise BadInputError(f"{path.parent}: no such folder")
    if path.exists() and not path.is_file():
        raise BadInputError(f"{path}: is not a regular file")


def open_model(path: Path, *, needs_rows: bool = True) -> Any:
    """Return the model of a file; a BadInputError where it is of a kind that only Python can use."""
    model = squaresvm.load(path)
    if not isinstance(model, Updating):
        raise BadInputError(f"{path}: holds a {type(model).__name__}: use it from Python")
    if needs_rows and isinstance(model._state, StreamedState):
        raise BadInputError(
            f"{path}: holds a model fitted from a stream, which keeps no rows: it can predict, and the rest "
            "is done from Python"
        )
    return model
