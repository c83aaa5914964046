"""From a fitted model to JSON and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.calibration import Calibration
from squaresvm.estimators import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.estimators.state import REQUESTS, State
from squaresvm.estimators.streamed import StreamedState
from squaresvm.estimators.updating import Updating
from squaresvm.factors import CholeskyFactor
from squaresvm.files.parameters import encode_parameters, encode_settings
from squaresvm.operators import OnDemandOperator, ProximalOperator, StoredOperator
from squaresvm.problem import Loss
from squaresvm.rows import Rows

__all__ = ["ESTIMATORS", "encode"]

#: What a file may hold, by name: nothing else is ever made from one.
ESTIMATORS: dict[str, type[Updating]] = {
    cls.__name__: cls for cls in (LSSVC, LSSVR, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC)
}

Arrays = dict[str, np.ndarray[Any, Any]]


def encode(model: Updating, *, factor: bool) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a fitted estimator, nothing of forgotten rows among them.

    Parameters
    ----------
    model : estimator
    factor : bool
        Whether to store the factor too.

    Returns
    -------
    header : dict
    arrays : dict of ndarray

    Raises
    ------
    ValueError
        For what a file cannot hold: callables, ids that are neither numbers nor strings.
    """
    with REQUESTS:
        model.flush()
        state: State = model._state
        if isinstance(state, StreamedState):
            raise ValueError("a model fitted from a stream keeps no rows, and cannot be saved yet")
        settings = encode_settings(state.settings)
        ids, arrays = _ids(state.rows)
        arrays |= _rows(state.rows)
        header = {
            "estimator": type(model).__name__,
            "parameters": encode_parameters(model.get_params(deep=False), state.settings),
            "settings": settings,
            "n_features": int(model.n_features_in_),
            "feature_names": _feature_names(model),
            "sparse": bool(sp.issparse(state.rows.base)),
            "labels_are_objects": state.rows.y.dtype == object,
            "ids": ids,
            "arrivals": state.rows.ids.arrivals,
            "solver": state.solver,
            "reason": state.reason,
            "n_iter": int(state.solution.n_iter),
            "outcome": state.solution.outcome.value,
            "factor": None,
        }
        arrays |= _solution(state)
        if state.settings.kernel is None:
            arrays["kernel_matrix"] = _kernel_matrix(state)
        if factor:
            header["factor"], stored = _factor(state)
            arrays |= stored
    return header, arrays


def _feature_names(model: Updating) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _ids(rows: Rows) -> tuple[list[Any] | None, Arrays]:
    """Return ids as an array, or as a list where they are of several kinds."""
    values = rows.ids.values
    if values.dtype != object:
        return None, {"ids": _packed(values, "ids")}
    names = values.tolist()
    strange = next((name for name in names if type(name) not in (int, str)), None)
    if strange is not None:
        raise ValueError(
            f"ids of type {type(strange).__name__} cannot be saved: a model file holds numbers and strings"
        )
    return names, {}


def _packed(values: np.ndarray[Any, Any], what: str) -> np.ndarray[Any, Any]:
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


def _rows(rows: Rows) -> Arrays:
    base = rows.base
    arrays: Arrays = {"y": _packed(rows.y, "labels"), "weights": rows.weights}
    if rows.given is not None:
        arrays["given"] = rows.given
    if sp.issparse(base):
        if base.shape[1] >= 2**31:
            raise ValueError("sparse rows of 2^31 columns or more cannot be saved")
        return arrays | {"data": base.data, "indices": base.indices, "indptr": base.indptr}
    return arrays | {"rows": base}


def _solution(state: State) -> Arrays:
    solution = state.solution
    arrays: Arrays = {"bias": solution.bias}
    if solution.beta is not None:
        arrays["beta"] = solution.beta
    if solution.primal is not None:
        arrays["primal"] = solution.primal
    if state.settings.proximal:
        # A product with K, which would come out in other last digits from another order of the rows.
        arrays["expansion"] = state.expansion
    calibration: Calibration | None = state.__dict__.get("calibration")
    if calibration is not None:
        arrays |= {"above": calibration.above, "below": calibration.below}
    return arrays


def _kernel_matrix(state: State) -> np.ndarray[Any, Any]:
    operator = state.problem.operator
    inner = operator.inner if isinstance(operator, ProximalOperator) else operator
    assert isinstance(inner, StoredOperator)
    everyone = np.arange(inner.n_rows)
    return inner.block(everyone, everyone)


def _factor(state: State) -> tuple[dict[str, Any] | None, Arrays]:
    """Return the factor of H, where the model keeps one that is worth its space."""
    squared = state.settings.loss is Loss.SQUARED and not state.settings.proximal
    if not squared or state.solution.beta is None:
        return None, {}
    factor = state.solution.factor
    if not isinstance(factor, CholeskyFactor) or not factor.is_in_order:
        problem = state.detached().problem
        if isinstance(problem.operator, OnDemandOperator):
            return None, {}  # K is not held, so that a factor has no place either.
        assert isinstance(problem.operator, StoredOperator)
        store, slots = problem.operator.store(), problem.operator.slots
        factor = CholeskyFactor.build(store, slots, problem.ridge, problem.bias)
    form, triangle = factor.packed()
    return {"form": form, "jitter": factor.jitter}, {"factor": triangle}
