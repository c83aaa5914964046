"""Rows, labels, ids, parameters and resolved numbers as arrays and JSON, and back, never on trust."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from squaresvm.judging.robust import Robust
from squaresvm.kernels import KERNEL_NAMES, Kernel
from squaresvm.models.model import Settings
from squaresvm.problem import Bias, Loss
from squaresvm.rows import Ids
from squaresvm.solvers.base import Solver
from squaresvm.solvers.choose import SOLVERS
from squaresvm.typing import FloatArray, Matrix

__all__ = [
    "Arrays",
    "array_of",
    "decode_ids",
    "decode_kernel",
    "decode_labels",
    "decode_matrix",
    "decode_parameters",
    "decode_settings",
    "encode_ids",
    "encode_kernel",
    "encode_labels",
    "encode_matrix",
    "encode_parameters",
    "encode_settings",
    "floats_of",
    "number",
]

Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]

#: Columns of sparse rows take no bytes in the file, and do in products: no more than 32-bit indices can name.
_MOST_COLUMNS = 2**31


def array_of(arrays: Arrays, name: str, kinds: str, shape: tuple[int | None, ...]) -> np.ndarray[Any, Any]:
    """Return an array of the given kinds; None in `shape` is any extent."""
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(
        wanted is None or extent == wanted for extent, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype.kind not in kinds or not fits:
        raise ValueError(f"the array {name!r} is of the wrong kind or shape")
    return array


def floats_of(arrays: Arrays, name: str, *shape: int | None) -> FloatArray:
    """Return an array in double precision."""
    array = array_of(arrays, name, "f", shape)
    if array.dtype != np.float64:
        raise ValueError(f"the array {name!r} is not in double precision")
    return array


# Features ----------------------------------------------------------------------------------------------


def encode_matrix(base: Matrix) -> Arrays:
    """Return rows as arrays: ``rows``, or ``data, indices, indptr`` of sparse ones."""
    if not sp.issparse(base):
        return {"rows": base}
    if base.shape[1] >= _MOST_COLUMNS:
        raise ValueError("sparse rows of 2^31 columns or more cannot be saved")
    return {"data": base.data, "indices": base.indices, "indptr": base.indptr}


def decode_matrix(header: dict[str, Any], arrays: Arrays, count: int) -> Matrix:
    """Return `count` rows; a ValueError where they do not fit together."""
    if header["sparse"] is not True:
        return array_of(arrays, "rows", "f", (count, None))
    n, indptr = header["n_features"], array_of(arrays, "indptr", "i", (count + 1,))
    data, indices = array_of(arrays, "data", "f", (None,)), array_of(arrays, "indices", "i", (None,))
    if type(n) is not int or not 0 < n < _MOST_COLUMNS:
        raise ValueError("its number of columns is impossible")
    if indptr[0] != 0 or indptr[-1] != data.size or indices.size != data.size or np.any(np.diff(indptr) < 0):
        raise ValueError("its sparse rows do not fit together")
    if indices.size and (indices.min() < 0 or int(indices.max()) >= n):
        raise ValueError("an entry of its sparse rows is in a column that does not exist")
    # Sorted within rows, none twice: a fall is allowed only where the next row starts.
    falls = np.flatnonzero(np.diff(indices) <= 0) + 1
    if not np.isin(falls, indptr).all():
        raise ValueError("the entries of its sparse rows are not sorted")
    return sp.csr_matrix((data, indices, indptr), shape=(count, n))


# Labels and ids ----------------------------------------------------------------------------------------


def encode_labels(values: np.ndarray[Any, Any], what: str = "labels") -> np.ndarray[Any, Any]:
    """Return values as a file can hold them; strings no wider than the longest that is there."""
    if values.dtype == object:
        if not all(isinstance(value, str) for value in values.tolist()):
            raise ValueError(
                f"{what} of several kinds cannot be saved: a model file holds numbers or strings"
            )
        return np.array(values.tolist(), dtype=np.str_)
    if values.dtype.kind in "US":
        narrow = np.array(values.tolist())
        return narrow if narrow.dtype.itemsize else narrow.astype(f"{values.dtype.kind}1")
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8 or values.dtype == np.float16:
        raise ValueError(
            f"{what} of type {values.dtype} cannot be saved: a model file holds numbers or strings"
        )
    return values


def decode_labels(header: dict[str, Any], arrays: Arrays, name: str) -> np.ndarray[Any, Any]:
    """Return labels or values, as Python strings where they were."""
    values = array_of(arrays, name, "biufUS", (None,))
    return values.astype(object) if header["labels_are_objects"] is True else values


def encode_ids(ids: Ids) -> tuple[list[Any] | None, Arrays]:
    """Return ids as an array, or as a list where they are of several kinds."""
    values = ids.values
    if values.dtype != object:
        return None, {"ids": encode_labels(values, "ids")}
    names = values.tolist()
    strange = next((name for name in names if type(name) not in (int, str)), None)
    if strange is not None:
        raise ValueError(
            f"ids of type {type(strange).__name__} cannot be saved: a model file holds numbers and strings"
        )
    return names, {}


def decode_ids(header: dict[str, Any], arrays: Arrays, count: int) -> Ids:
    """Return the ids of `count` rows; a ValueError where they are none."""
    arrivals, listed = header["arrivals"], header["ids"]
    if listed is not None:
        if not isinstance(listed, list) or not all(type(name) in (int, str) for name in listed):
            raise ValueError("its ids are neither numbers nor strings")
        values = np.empty(len(listed), dtype=object)
        values[:] = listed
    else:
        values = array_of(arrays, "ids", "biufUS", (None,))
    if arrivals is None:
        return Ids.given(values, count)
    if type(arrivals) is not int or values.dtype.kind != "i" or values.shape != (count,):
        raise ValueError("its ids are no arrival numbers")
    if values[0] < 0 or values[-1] >= arrivals or np.any(np.diff(values) <= 0) or arrivals >= 2**62:
        raise ValueError("its arrival numbers are out of order")
    return Ids(values, arrivals)


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
        raise ValueError(f"{what} is not a number")
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
