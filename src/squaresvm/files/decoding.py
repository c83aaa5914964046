"""From JSON and arrays back to a fitted model, nothing of which is taken on trust."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.calibration import Calibration
from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.estimators.state import Settings, State, check_costs, find_classes
from squaresvm.estimators.updating import Updating
from squaresvm.factors import CholeskyFactor
from squaresvm.files.encoding import ESTIMATORS, Arrays
from squaresvm.files.parameters import decode_parameters, decode_settings
from squaresvm.operators import Operator, PrecomputedOperator, ProximalOperator, StoredOperator
from squaresvm.operators.precomputed import check_symmetric
from squaresvm.rows import Ids, Rows
from squaresvm.solution import Outcome, Solution
from squaresvm.typing import FloatArray, Matrix

__all__ = ["decode"]

#: Columns of sparse rows take no bytes in the file, and do in products: no more than 32-bit indices can name.
_MOST_COLUMNS = 2**31


def decode(header: dict[str, Any], arrays: Arrays) -> Updating:
    """Return the estimator that header and arrays describe.

    Parameters
    ----------
    header : dict
    arrays : dict of ndarray

    Returns
    -------
    estimator

    Raises
    ------
    ValueError, KeyError, TypeError
        Where they describe none.
    """
    cls = ESTIMATORS.get(str(header["estimator"]))
    if cls is None:
        raise ValueError(f"it names an estimator {str(header['estimator'])[:40]!r}, which does not exist")
    model = cls(**decode_parameters(header["parameters"]))
    model._check_parameters()
    settings = decode_settings(header["settings"])
    _check_kind(cls, settings)
    rows = _rows(header, arrays, settings)
    _check_labels(rows, settings)
    state = _state(header, arrays, settings, rows)
    model.n_features_in_ = rows.count if settings.kernel is None else rows.n_columns
    if header["n_features"] != model.n_features_in_:
        raise ValueError("its number of columns is not that of its rows")
    names = header["feature_names"]
    if names is not None:
        if len(names) != model.n_features_in_ or not all(isinstance(name, str) for name in names):
            raise ValueError("its columns have the wrong names")
        model.feature_names_in_ = np.array(names, dtype=object)
    model._state = state
    return model


def _check_kind(cls: type[Updating], settings: Settings) -> None:
    is_classifier = issubclass(cls, SquareSVMClassifier)
    wanted = cls._proximal and not settings.is_linear
    if settings.loss is not cls._loss or settings.proximal is not wanted:
        raise ValueError(f"its numbers are not those of {cls.__name__}")
    if is_classifier is not (settings.class_weight is not None):
        raise ValueError(f"its class weights are not those of {cls.__name__}")


def _array(arrays: Arrays, name: str, kinds: str, shape: tuple[int | None, ...]) -> np.ndarray[Any, Any]:
    """Return an array of the given kinds; None in `shape` is any extent."""
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(
        wanted is None or extent == wanted for extent, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype.kind not in kinds or not fits:
        raise ValueError(f"the array {name!r} is of the wrong kind or shape")
    return array


def _floats(arrays: Arrays, name: str, *shape: int | None) -> FloatArray:
    array = _array(arrays, name, "f", shape)
    if array.dtype != np.float64:
        raise ValueError(f"the array {name!r} is not in double precision")
    return array


# Rows --------------------------------------------------------------------------------------------------


def _rows(header: dict[str, Any], arrays: Arrays, settings: Settings) -> Rows:
    y = _array(arrays, "y", "biufUS", (None,))
    if y.size == 0:
        raise ValueError("it holds no rows")
    weights = _floats(arrays, "weights", y.size)
    given = _floats(arrays, "given", y.size) if "given" in arrays else None
    if weights.min() < 0 or (given is not None and given.min() < 0):
        raise ValueError("a weight is negative")
    if header["labels_are_objects"] is True:
        y = y.astype(object)
    base = _sparse(header, arrays, y.size) if header["sparse"] is True else _dense(arrays, y.size)
    if settings.kernel is None and base.shape[1] != 0:
        raise ValueError("it has rows and a precomputed kernel")
    return Rows(base, y, weights, _ids(header, arrays, y.size), given=given)


def _check_labels(rows: Rows, settings: Settings) -> None:
    if settings.class_weight is None and rows.y.dtype != np.float64:
        raise ValueError("its values are not in double precision")


def _dense(arrays: Arrays, count: int) -> Matrix:
    return _array(arrays, "rows", "f", (count, None))


def _sparse(header: dict[str, Any], arrays: Arrays, count: int) -> Matrix:
    n, indptr = header["n_features"], _array(arrays, "indptr", "i", (count + 1,))
    data, indices = _array(arrays, "data", "f", (None,)), _array(arrays, "indices", "i", (None,))
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


def _ids(header: dict[str, Any], arrays: Arrays, count: int) -> Ids:
    arrivals, listed = header["arrivals"], header["ids"]
    if listed is not None:
        if not isinstance(listed, list) or not all(type(name) in (int, str) for name in listed):
            raise ValueError("its ids are neither numbers nor strings")
        values = np.empty(len(listed), dtype=object)
        values[:] = listed
    else:
        values = _array(arrays, "ids", "biufUS", (None,))
    if arrivals is None:
        return Ids.given(values, count)
    if type(arrivals) is not int or values.dtype.kind != "i" or values.shape != (count,):
        raise ValueError("its ids are no arrival numbers")
    if values[0] < 0 or values[-1] >= arrivals or np.any(np.diff(values) <= 0) or arrivals >= 2**62:
        raise ValueError("its arrival numbers are out of order")
    return Ids(values, arrivals)


# Solution ----------------------------------------------------------------------------------------------


def _state(header: dict[str, Any], arrays: Arrays, settings: Settings, rows: Rows) -> State:
    weights = settings.row_weights(rows.y, rows.weights)
    held = np.flatnonzero(weights > 0)
    if held.size == 0:
        raise ValueError("all of its rows have weight zero")
    check_costs(settings.C, weights[held], held)
    if settings.kernel is not None:
        settings.kernel.check_range(rows.X)
    classes = find_classes(rows.y[held], settings)
    columns = 1 if classes is None or classes.size == 2 else int(classes.size)
    solution = _solution(header, arrays, settings, (held.size, rows.n_columns, columns))
    solver, reason = header["solver"], header["reason"]
    if not isinstance(solver, str) or not isinstance(reason, str):
        raise ValueError("its solver has no name")
    operator = _precomputed(arrays, settings, weights[held])
    state = State(rows, settings, classes, solution, solver, reason, operator)
    if settings.proximal:
        state.__dict__["expansion"] = _floats(arrays, "expansion", held.size, columns)
    if "above" in arrays:
        if classes is None:
            raise ValueError("it holds probabilities of values that have none")
        slopes = (_floats(arrays, name, classes.size) for name in ("above", "below"))
        state.__dict__["calibration"] = Calibration(*slopes)
    return _with_factor(header, arrays, state)


def _solution(
    header: dict[str, Any], arrays: Arrays, settings: Settings, extents: tuple[int, int, int]
) -> Solution:
    m, n, k = extents
    bias, n_iter = _floats(arrays, "bias", k), header["n_iter"]
    if type(n_iter) is not int or n_iter < 0:
        raise ValueError("its number of iterations is impossible")
    if "primal" in arrays and not settings.is_linear:
        raise ValueError("it has a vector w, and its kernel is not linear")
    beta = _floats(arrays, "beta", m, k) if "beta" in arrays else None
    primal = _floats(arrays, "primal", n, k) if "primal" in arrays else None
    if beta is None and primal is None:
        raise ValueError("it has neither multipliers nor a vector w")
    return Solution(bias=bias, beta=beta, primal=primal, n_iter=n_iter, outcome=Outcome(header["outcome"]))


def _precomputed(arrays: Arrays, settings: Settings, weights: FloatArray) -> Operator | None:
    if settings.kernel is not None:
        return None
    K = _floats(arrays, "kernel_matrix", weights.size, weights.size)
    check_symmetric(K)
    operator = PrecomputedOperator(K)
    return ProximalOperator(operator, weights) if settings.proximal else operator


def _with_factor(header: dict[str, Any], arrays: Arrays, state: State) -> State:
    """Return the state with the factor of the file, where it holds one, in the room of a store of K.

    A factor that does not belong to K is found out by the residual of the first request, and made anew.
    """
    described = header["factor"]
    if described is None:
        return state
    problem = state.problem
    operator, solution = problem.operator, state.solution
    if solution.beta is None or not isinstance(operator, StoredOperator) or state.settings.proximal:
        raise ValueError("it holds a factor that its kind of model has no use for")
    jitter = described["jitter"]
    if type(jitter) is not float or jitter < 0:
        raise ValueError("the jitter of its factor is impossible")
    m = problem.n_rows
    triangle = _floats(arrays, "factor", m * (m + 1) // 2)
    factor = CholeskyFactor.unpacked(
        str(described["form"]), triangle, jitter, operator.store(), problem.ridge, problem.bias
    )
    kept = Solution(solution.bias, solution.beta, None, solution.n_iter, solution.outcome, factor)
    after = State(state.rows, state.settings, state.classes, kept, state.solver, state.reason, operator)
    after.__dict__.update({name: state.__dict__[name] for name in ("calibration",) if name in state.__dict__})
    return after
