"""Constructor parameters and resolved numbers as JSON, and back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from squaresvm.judging.robust import Robust
from squaresvm.kernels import KERNEL_NAMES, Kernel
from squaresvm.models.model import Settings
from squaresvm.problem import Bias, Loss
from squaresvm.solvers.base import Solver
from squaresvm.solvers.choose import SOLVERS

__all__ = [
    "decode_kernel",
    "decode_parameters",
    "decode_settings",
    "encode_kernel",
    "encode_parameters",
    "encode_settings",
    "number",
]

#: Parameters that are values to try, and so lists.
_GRIDS = ("Cs", "gammas")


def scalar(value: Any, what: str) -> Any:
    """Return a number, a string, a flag or None as JSON has it; a ValueError says what cannot be saved."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise ValueError(f"{what} is of type {type(value).__name__}, which a model file cannot hold")


# Parameters --------------------------------------------------------------------------------------------


def encode_parameters(
    parameters: dict[str, Any], known: Mapping[Hashable, float] | None = None
) -> dict[str, Any]:
    """Return constructor parameters as JSON.

    Weights of classes that are not `known` are left out: their last row was forgotten, and their labels have
    gone with it.
    """
    encoded: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == "kernel" and not isinstance(value, str):
            raise ValueError("a callable kernel cannot be saved, because no code runs when a file is loaded")
        if name == "solver":
            encoded[name] = _encode_solver(value)
        elif name == "class_weight" and isinstance(value, Mapping):
            encoded[name] = _pairs(value, known)
        elif isinstance(value, Robust):
            encoded[name] = {"rounds": int(value.rounds), "c1": float(value.c1), "c2": float(value.c2)}
        elif name in _GRIDS and value is not None:
            encoded[name] = [float(each) for each in value]
        elif name == "scoring" and callable(value):
            raise ValueError(
                "scoring is a callable, which a model file cannot hold: give the name of a scorer"
            )
        elif name == "random_state" and isinstance(value, np.random.RandomState):
            raise ValueError("random_state is a RandomState, which a model file cannot hold: give a seed")
        else:
            encoded[name] = scalar(value, f"the parameter {name}")
    return encoded


def decode_parameters(encoded: dict[str, Any]) -> dict[str, Any]:
    """Return constructor parameters from JSON."""
    parameters = dict(encoded)
    if not isinstance(parameters.get("kernel"), str):
        raise ValueError("its kernel has no name")
    if "solver" in parameters:
        parameters["solver"] = _decode_solver(parameters["solver"])
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = _mapping(parameters["class_weight"])
    if isinstance(parameters.get("robust"), dict):
        parameters["robust"] = Robust(**parameters["robust"])
    for name, value in parameters.items():
        if name in _GRIDS and isinstance(value, list):
            parameters[name] = [number(each, f"a value of {name}") for each in value]
        elif not (isinstance(value, Robust) or name == "solver") and not (
            name == "class_weight" and isinstance(encoded[name], list)
        ):
            scalar(value, name)
    return parameters


def _pairs(
    weights: Mapping[Hashable, float], known: Mapping[Hashable, float] | None = None
) -> list[list[Any]]:
    return [
        [scalar(label, "a label in class_weight"), float(weight)]
        for label, weight in weights.items()
        if known is None or label in known
    ]


def _mapping(pairs: Any) -> dict[Hashable, float]:
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("its class weights are no pairs")
    return {scalar(label, "a label"): number(weight, "a class weight") for label, weight in pairs}


def number(value: Any, what: str) -> float:
    """Return a finite number as a float; a ValueError where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} is no number")
    found = float(value)
    if not np.isfinite(found):
        raise ValueError(f"{what} is out of range")
    return found


# Solvers -----------------------------------------------------------------------------------------------


def _encode_solver(solver: str | Solver) -> Any:
    if isinstance(solver, str):
        return solver
    known = SOLVERS.get(solver.name)
    if known is None or type(solver) is not type(known) or not is_dataclass(solver):
        raise ValueError(
            f"a solver of type {type(solver).__name__} cannot be saved: only those of this package can"
        )
    options = {option.name: getattr(solver, option.name) for option in fields(solver)}
    if options.pop("callback", None) is not None:
        raise ValueError(f"the solver {solver.name!r} has a callback, which a model file cannot hold")
    return {
        "name": solver.name,
        "options": {name: scalar(value, f"the option {name}") for name, value in options.items()},
    }


def _decode_solver(encoded: Any) -> str | Solver:
    if isinstance(encoded, str):
        return encoded
    if not isinstance(encoded, dict) or not isinstance(encoded.get("options"), dict):
        raise ValueError("its solver has no name")
    known = SOLVERS.get(str(encoded.get("name")))
    options = encoded["options"]
    if known is None or not is_dataclass(known):
        raise ValueError(f"it names a solver {str(encoded.get('name'))[:40]!r}, which does not exist")
    allowed = {option.name for option in fields(known)} - {"callback"}
    if not set(options) <= allowed:
        raise ValueError(f"the solver {known.name!r} has no option {min(set(options) - allowed)[:40]!r}")
    for name, value in options.items():
        scalar(value, name)
    solver: Solver = type(known)(**options)
    return solver


# Settings ----------------------------------------------------------------------------------------------


def encode_settings(settings: Settings) -> dict[str, Any]:
    """Return the numbers of the fit as JSON; an absent bias has no penalty."""
    return {
        "loss": settings.loss.name.lower(),
        "bias_penalty": None if settings.bias.is_absent else settings.bias.penalty,
        "kernel": encode_kernel(settings.kernel),
        "C": settings.C,
        "class_weight": None if settings.class_weight is None else _pairs(settings.class_weight),
        "proximal": bool(settings.proximal),
        "solver": _encode_solver(settings.solver),
        "tol": settings.tol,
        "max_iter": scalar(settings.max_iter, "max_iter"),
    }


def decode_settings(encoded: dict[str, Any]) -> Settings:
    """Return the numbers of the fit from JSON; a ValueError or KeyError where they make no sense."""
    penalty = encoded["bias_penalty"]
    bias = Bias.none() if penalty is None else Bias(number(penalty, "the penalty of the bias"))
    if bias.penalty < 0:
        raise ValueError("the penalty of the bias is negative")
    weights = encoded["class_weight"]
    C, tol, max_iter = number(encoded["C"], "C"), number(encoded["tol"], "tol"), encoded["max_iter"]
    if C <= 0 or tol <= 0 or (max_iter is not None and (type(max_iter) is not int or max_iter < 1)):
        raise ValueError("C, tol or max_iter is out of range")
    if type(encoded["proximal"]) is not bool:
        raise ValueError("proximal must be true or false")
    solver = _decode_solver(encoded["solver"])
    if isinstance(solver, str) and solver != "auto" and solver not in SOLVERS:
        raise ValueError(f"it names a solver {solver[:40]!r}, which does not exist")
    class_weight = None if weights is None else _mapping(weights)
    if class_weight and min(class_weight.values()) < 0:
        raise ValueError("a class weight is negative")
    return Settings(
        loss=Loss[str(encoded["loss"]).upper()],
        bias=bias,
        kernel=decode_kernel(encoded["kernel"]),
        C=C,
        class_weight=class_weight,
        proximal=encoded["proximal"],
        solver=solver,
        tol=tol,
        max_iter=max_iter,
    )


def encode_kernel(kernel: Kernel | None) -> dict[str, Any] | None:
    """Return a kernel as JSON; null for a precomputed one."""
    if kernel is None:
        return None
    return {"name": kernel.name, "gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0}


def decode_kernel(encoded: Any) -> Kernel | None:
    """Return a kernel from JSON; a ValueError where there is no such one."""
    if encoded is None:
        return None
    name, degree = encoded["name"], encoded["degree"]
    if name not in KERNEL_NAMES or type(degree) is not int or not degree >= 0:
        raise ValueError("its kernel does not exist")
    gamma = number(encoded["gamma"], "gamma")
    if gamma <= 0:
        raise ValueError("gamma is not positive")
    return Kernel(name, gamma, degree, number(encoded["coef0"], "coef0"))
