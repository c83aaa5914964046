"""Which kinds of models a file may hold: nothing else is ever made from one.

Models of all pairs of classes have the rows once, and of each pair what it has of its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.estimators import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.estimators.requests import Updating
from squaresvm.features import Nystrom
from squaresvm.files.claims import decode_maps, decode_search, encode_maps, encode_search
from squaresvm.files.states import (
    decode_rows,
    decode_state,
    encode_held_solution,
    encode_rows,
    encode_state,
    solved,
)
from squaresvm.files.streams import decode_stream, encode_stream
from squaresvm.files.values import (
    Arrays,
    array_of,
    decode_kernel,
    decode_matrix,
    decode_parameters,
    decode_settings,
    encode_kernel,
    encode_matrix,
    encode_parameters,
    encode_settings,
    floats_of,
)
from squaresvm.meta.one_vs_one import OneVsOne, check_classes
from squaresvm.meta.pairs import Votes, features_of, for_pair, in_pair
from squaresvm.models.model import Settings
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.streamed import StreamedState
from squaresvm.rows import Ids, Rows
from squaresvm.search import LSSVCCV, LSSVRCV, RLSSVCCV, LagrangianSVCCV
from squaresvm.typing import IntArray, Matrix

__all__ = [
    "check_kind",
    "decode_kind",
    "decode_pairs",
    "encode_kind",
    "encode_pairs",
    "rows_held",
]

#: Estimators that a file may hold, by name.
ESTIMATORS: dict[str, type[Updating]] = {
    cls.__name__: cls
    for cls in (
        *(LSSVC, LSSVR, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC),
        *(LSSVCCV, LSSVRCV, RLSSVCCV, LagrangianSVCCV),
    )
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


_KINDS: dict[str, type[Any]] = {**ESTIMATORS, "OneVsOne": OneVsOne, "Nystrom": Nystrom}


def check_kind(model: Any) -> None:
    """Raise a ValueError for what is no model of this package."""
    if _KINDS.get(type(model).__name__) is not type(model):
        raise ValueError(
            f"a {type(model).__name__} cannot be saved: {', '.join(_KINDS)} and Windows of models can"
        )


def encode_kind(model: Any, *, factor: bool) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a fitted model, nothing of forgotten rows among them.

    A ValueError for what a file cannot hold: callables, ids that are neither numbers nor strings.
    """
    if isinstance(model, Nystrom):
        return _encode_features(model)
    with REQUESTS:
        if isinstance(model, OneVsOne):
            return encode_pairs(model, factor=factor)
        state = model.flush()._state
        header = encode_model(model) | encode_search(model)
        if isinstance(state, StreamedState):
            described, arrays = encode_stream(state)
        else:
            described, arrays = encode_state(state, factor=factor)
        return header | described, arrays


def decode_kind(header: dict[str, Any], arrays: Arrays) -> Any:
    """Return the model that header and arrays describe; a ValueError, KeyError or TypeError where none."""
    if header["estimator"] == "Nystrom":
        return _decode_features(header, arrays)
    if header["estimator"] == "OneVsOne":
        return decode_pairs(header, arrays)
    model = decode_estimator(header)
    settings = decode_settings_of(type(model), header)
    if header.get("stream") is None:
        model._state = state = decode_state(header, arrays, settings)
        rows = state.rows
        decode_names(model, header, rows.count if settings.kernel is None else rows.n_columns)
    else:
        model._state = stream = decode_stream(header, arrays, settings)
        decode_names(model, header, stream.n_features)
    decode_search(model, header, settings)
    return model


def rows_held(model: Any) -> int:
    """Return how many rows a model accounts for: none of a map to features."""
    if isinstance(model, Nystrom):
        return 0
    return int(model.ids_.size) if isinstance(model, OneVsOne) else int(model._state.n_rows)


def decode_estimator(header: dict[str, Any]) -> Updating:
    """Return the estimator that a header names, not fitted yet."""
    cls = ESTIMATORS.get(str(header["estimator"]))
    if cls is None:
        raise ValueError(f"it names an estimator {str(header['estimator'])[:40]!r}, which does not exist")
    model = cls(**decode_parameters(header["parameters"]))
    model._check_parameters()
    return model


def decode_settings_of(cls: type[Updating], header: dict[str, Any]) -> Settings:
    """Return the numbers of a fit; a ValueError where they are not those of such an estimator."""
    settings = decode_settings(header["settings"])
    wanted = cls._proximal and not settings.is_linear
    if settings.loss != cls._loss or settings.proximal is not wanted:
        raise ValueError(f"its numbers are not those of {cls.__name__}")
    if issubclass(cls, SquareSVMClassifier) is not (settings.class_weight is not None):
        raise ValueError(f"its class weights are not those of {cls.__name__}")
    return settings


def decode_names(model: Any, header: dict[str, Any], n_features: int) -> None:
    """Give a model the number of its columns and their names."""
    if header["n_features"] != n_features:
        raise ValueError("its number of columns is not that of its rows")
    model.n_features_in_ = n_features
    names = header["feature_names"]
    if names is not None:
        if len(names) != n_features or not all(isinstance(name, str) for name in names):
            raise ValueError("its columns have the wrong names")
        model.feature_names_in_ = np.array(names, dtype=object)


# Landmarks and what maps rows to their features ---------------------------------------------------------


def _encode_features(model: Nystrom) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a fitted map to features."""
    header = {
        "estimator": type(model).__name__,
        "parameters": encode_parameters(model.get_params(deep=False)),
        "kernel": encode_kernel(model._map.kernel),
        "n_features": int(model.n_features_in_),
        "feature_names": encode_names(model),
        "sparse": bool(sp.issparse(model.landmarks_)),
    }
    arrays: Arrays = {"landmark_indices": model.landmark_indices_, "root": model._map.root}
    return header, arrays | encode_matrix(model.landmarks_)


def _decode_features(header: dict[str, Any], arrays: Arrays) -> Nystrom:
    """Return a fitted map to features; a ValueError, KeyError or TypeError where none is described."""
    parameters = decode_parameters(header["parameters"])
    if "n_landmarks" in parameters:  # The name of n_components in older files.
        parameters["n_components"] = parameters.pop("n_landmarks")
    model = Nystrom(**parameters)
    model._check_parameters()
    chosen = array_of(arrays, "landmark_indices", "i", (None,))
    if chosen.size == 0 or chosen[0] < 0 or np.any(np.diff(chosen) <= 0):
        raise ValueError("its landmarks are none, or out of order")
    landmarks = decode_matrix(header, arrays, chosen.size)
    root = floats_of(arrays, "root", chosen.size, None)
    if not 0 < root.shape[1] <= chosen.size:
        raise ValueError("it has more features than landmarks, or none")
    kernel = decode_kernel(header["kernel"])
    if kernel is None:
        raise ValueError("its kernel has no name")
    kernel.check_range(landmarks)
    decode_names(model, header, int(landmarks.shape[1]))
    model._adopt(kernel, chosen, landmarks, root)
    return model


#: Arrays that pairs may have of their own; those of all pairs stand in one array, one behind the other.
_OWN = ("bias", "beta", "primal", "expansion", "above", "below", "offset", "factor", "robust_weights")


def encode_pairs(model: OneVsOne, *, factor: bool) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a model of all pairs."""
    model.flush()
    votes = model._votes
    rows, known = votes.rows, dict.fromkeys(model.classes_.tolist(), 1.0)
    header, arrays = encode_rows(rows)
    X = _like(features_of(rows, votes.pairs), model.estimators_[0]._holding("saving").rows.X)
    header |= {
        "estimator": type(model).__name__,
        "of": _encode_template(model.estimator, known),
        "fitted": _encode_template(votes.template, known),
        "n_features": int(model.n_features_in_),
        "feature_names": encode_names(model),
        "sparse": bool(sp.issparse(X)),
    }
    own: dict[str, list[np.ndarray[Any, Any]]] = defaultdict(list)
    header["pairs"] = []
    for pair, fitted in votes.pairs.items():
        described, parts = _encode_pair(rows, pair, fitted, factor)
        header["pairs"].append(described)
        for name, part in parts.items():
            own[name].append(part.reshape(-1))
    arrays |= encode_matrix(X) | {name: np.concatenate(parts) for name, parts in own.items()}
    calibration = votes.calibration
    if calibration is not None:
        arrays |= encode_maps(calibration, "votes_")
    return header, arrays


def _encode_template(estimator: Any, known: dict[Any, float]) -> dict[str, Any]:
    if ESTIMATORS.get(type(estimator).__name__) is not type(estimator):
        raise ValueError(f"a OneVsOne of {type(estimator).__name__} cannot be saved")
    return {
        "estimator": type(estimator).__name__,
        "parameters": encode_parameters(estimator.get_params(deep=False), known),
    }


def _encode_pair(
    rows: Rows, pair: Any, model: SquareSVMClassifier, factor: bool
) -> tuple[dict[str, Any], Arrays]:
    state = model._holding("saving")
    mine = rows.ids.values[in_pair(rows.y, pair)]
    if mine.tolist() != state.rows.ids.values.tolist():
        raise ValueError(f"the model of the pair {pair} was changed by itself: fit anew")
    header, arrays = encode_held_solution(state, factor=factor)
    if state.rows.given is not None:
        arrays["robust_weights"] = state.rows.weights
    header |= {"settings": encode_settings(state.settings), **encode_search(model)}
    return {**header, "shapes": {name: list(array.shape) for name, array in arrays.items()}}, arrays


def _like(X: Matrix, other: Matrix) -> Matrix:
    """Return dense rows in the order of others in memory: products would end in other digits."""
    if sp.issparse(X) or other.flags.c_contiguous:
        return X
    return np.asfortranarray(X)


# And back ----------------------------------------------------------------------------------------------


def decode_pairs(header: dict[str, Any], arrays: Arrays) -> OneVsOne:
    """Return a model of all pairs; a ValueError, KeyError or TypeError where none is described."""
    model = OneVsOne(decode_estimator(header["of"]))
    model._check_estimator()
    template = decode_estimator(header["fitted"])
    if not isinstance(template, SquareSVMClassifier) or template._is_precomputed:
        raise ValueError("the models of its pairs are no classifiers of rows")
    described = decode_rows(header, arrays, lambda count: decode_matrix(header, arrays, count))
    if described.given is not None or described.y.ndim != 1:
        raise ValueError("it holds two weights or labels for each row")
    X = described.X
    rows = Rows(np.empty((described.count, 0)), described.y, described.weights, described.ids)
    classes = check_classes(rows)
    listed, count = header["pairs"], int(classes.size)
    if not isinstance(listed, list) or len(listed) != count * (count - 1) // 2:
        raise ValueError("it has too few or too many pairs of classes")
    pairs = combinations(classes.tolist(), 2)
    own = _Own(arrays)
    fitted = {
        pair: _decode_pair(each, own.next(each["shapes"]), template, X, rows, pair)
        for pair, each in zip(pairs, listed, strict=True)
    }
    own.check_end()
    decode_names(model, header, int(X.shape[1]))
    model._votes = Votes(rows, fitted, template)
    if "votes_above" in arrays:
        model._votes.calibration = decode_maps(arrays, "votes_", int(classes.size))
    return model


class _Own:
    """Takes the arrays of one pair after the other out of those of all."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = {name: floats_of(arrays, name, None) for name in _OWN if name in arrays}
        self._taken = dict.fromkeys(self._arrays, 0)

    def next(self, shapes: Any) -> Arrays:
        """Return the next pair's, which has these shapes."""
        return {name: self._take(name, shape) for name, shape in dict(shapes).items()}

    def _take(self, name: str, shape: Any) -> np.ndarray[Any, Any]:
        whole = isinstance(shape, list) and all(type(extent) is int and extent >= 0 for extent in shape)
        if name not in self._arrays or not whole or len(shape) > 2:
            raise ValueError("a pair has an array of an impossible shape")
        start, flat = self._taken[name], self._arrays[name]
        size = math.prod(shape)
        if size > flat.size - start:
            raise ValueError(f"its pairs need more numbers than the array {name!r} has")
        self._taken[name] = start + size
        return flat[start : start + size].reshape(shape).copy()

    def check_end(self) -> None:
        """Raise a ValueError where something is left that no pair has taken."""
        if any(self._taken[name] != flat.size for name, flat in self._arrays.items()):
            raise ValueError("it has numbers that belong to no pair")


def _decode_pair(
    header: dict[str, Any], arrays: Arrays, template: Any, X: Matrix, rows: Rows, pair: Any
) -> SquareSVMClassifier:
    model = for_pair(template, pair)
    settings = decode_settings_of(type(model), header)
    own: IntArray = np.flatnonzero(in_pair(rows.y, pair))
    weights, given = rows.weights[own], None
    if "robust_weights" in arrays:
        weights, given = floats_of(arrays, "robust_weights", own.size), weights
        if weights.min() < 0:
            raise ValueError("a weight is negative")
    ids = Ids.given(rows.ids.values[own], own.size)
    state = solved(header, arrays, settings, Rows(_like(X[own], X), rows.y[own], weights, ids, given=given))
    assert state.classes is not None
    if state.classes.tolist() != list(pair):
        raise ValueError("all rows of a class have weight zero in one of its pairs")
    decode_search(model, header, settings)
    model.n_features_in_ = int(X.shape[1])
    model._state = state
    return model
