"""From a fitted model that holds its rows to JSON and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.estimators import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.estimators.requests import Updating
from squaresvm.factors import CholeskyFactor
from squaresvm.factors.packing import is_in_order, packed
from squaresvm.files.arrays import Arrays, encode_ids, encode_labels, encode_matrix
from squaresvm.files.certificates import encode_certificate
from squaresvm.files.parameters import encode_parameters, encode_settings
from squaresvm.models.model import Model
from squaresvm.models.state import State
from squaresvm.operators import OnDemandOperator, ProximalOperator, StoredOperator
from squaresvm.problem import Loss
from squaresvm.rows import Rows
from squaresvm.search import LSSVCCV, LSSVRCV

__all__ = ["ESTIMATORS", "encode_model", "encode_names", "encode_rows", "encode_solution", "encode_state"]

#: Estimators that a file may hold, by name.
ESTIMATORS: dict[str, type[Updating]] = {
    cls.__name__: cls
    for cls in (LSSVC, LSSVR, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC, LSSVCCV, LSSVRCV)
}


def encode_model(model: Updating) -> dict[str, Any]:
    """Return the header of an estimator, whatever its state consists of."""
    settings = model._state.settings
    return {
        "estimator": type(model).__name__,
        "parameters": encode_parameters(model.get_params(deep=False), settings.class_weight),
        "settings": encode_settings(settings),
        "n_features": int(model.n_features_in_),
        "feature_names": encode_names(model),
    }


def encode_names(model: Any) -> list[str] | None:
    """Return the names of the columns, where the rows of the fit had some."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def encode_state(state: State, *, factor: bool) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a state that holds its rows, nothing of forgotten rows among them.

    Parameters
    ----------
    state : State
    factor : bool
        Whether to store the factor too.

    Returns
    -------
    header : dict
    arrays : dict of ndarray

    Raises
    ------
    ValueError
        For what a file cannot hold: ids that are neither numbers nor strings.
    """
    header, arrays = encode_rows(state.rows)
    arrays |= encode_matrix(state.rows.X)
    header |= {"sparse": bool(sp.issparse(state.rows.X))}
    solved, found = encode_solution(state, factor=factor)
    if state.settings.kernel is None:
        found["kernel_matrix"] = _kernel_matrix(state)
    return header | solved, arrays | found


def encode_rows(rows: Rows) -> tuple[dict[str, Any], Arrays]:
    """Return labels, ids and weights of rows, without their features."""
    ids, arrays = encode_ids(rows.ids)
    arrays |= {"y": encode_labels(rows.y), "weights": rows.weights}
    if rows.given is not None:
        arrays["given"] = rows.given
    header = {"labels_are_objects": rows.y.dtype == object, "ids": ids, "arrivals": rows.ids.arrivals}
    return header, arrays


def encode_solution(state: Model, *, factor: bool = False) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a solution, with all that predictions need beside the rows."""
    solution = state.solution
    header = {
        "solver": state.solver,
        "reason": state.reason,
        "n_iter": int(solution.n_iter),
        "outcome": solution.outcome.value,
        "factor": None,
    }
    arrays: Arrays = {"bias": solution.bias}
    if solution.beta is not None:
        arrays["beta"] = solution.beta
    if solution.primal is not None:
        arrays["primal"] = solution.primal
    if state.settings.proximal:
        # A product with K, which would come out in other last digits from another order of the rows.
        arrays["expansion"] = state.attribute("expansion")
    calibration = state.calibration
    if calibration is not None:
        arrays |= {"above": calibration.above, "below": calibration.below}
    if isinstance(state, State):
        header["certificate"] = encode_certificate(state.claimed)
    if factor and isinstance(state, State):
        header["factor"], stored = _factor(state)
        arrays |= stored
    return header, arrays


def _kernel_matrix(state: State) -> np.ndarray[Any, Any]:
    operator = state.problem.operator
    inner = operator.inner if isinstance(operator, ProximalOperator) else operator
    assert isinstance(inner, StoredOperator)
    everyone = np.arange(inner.n_rows)
    return inner.block(everyone, everyone)


def _factor(state: State) -> tuple[dict[str, Any] | None, Arrays]:
    """Return the factor of H, where the model keeps one that is worth its space."""
    squared = state.settings.loss == Loss.SQUARED and not state.settings.proximal
    if not squared or state.solution.beta is None:
        return None, {}
    factor = state.solution.factor
    if not isinstance(factor, CholeskyFactor) or not is_in_order(factor):
        problem = state.detached().problem
        if isinstance(problem.operator, OnDemandOperator):
            return None, {}  # K is not held, so that a factor has no place either.
        assert isinstance(problem.operator, StoredOperator)
        store, slots = problem.operator.store(), problem.operator.slots
        factor = CholeskyFactor.build(store, slots, problem.ridge, problem.bias)
    form, triangle = packed(factor)
    return {"form": form, "jitter": factor.jitter}, {"factor": triangle}
