"""Which kinds of models a file may hold: nothing else is ever made from one."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.features import Nystrom
from squaresvm.files.arrays import Arrays, array_of, decode_matrix, encode_matrix, floats_of
from squaresvm.files.decoding import decode_estimator, decode_names, decode_settings_of, decode_state
from squaresvm.files.encoding import ESTIMATORS, encode_model, encode_names, encode_state
from squaresvm.files.pairs import decode_pairs, encode_pairs
from squaresvm.files.parameters import decode_kernel, decode_parameters, encode_kernel, encode_parameters
from squaresvm.files.searches import decode_search, encode_search
from squaresvm.files.streams import decode_stream, encode_stream
from squaresvm.meta.one_vs_one import OneVsOne
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.streamed import StreamedState

__all__ = ["check_kind", "decode", "encode", "rows_held"]

_KINDS: dict[str, type[Any]] = {**ESTIMATORS, "OneVsOne": OneVsOne, "Nystrom": Nystrom}


def check_kind(model: Any) -> None:
    """Raise a ValueError for what is no model of this package."""
    if _KINDS.get(type(model).__name__) is not type(model):
        raise ValueError(
            f"a {type(model).__name__} cannot be saved: {', '.join(_KINDS)} and Windows of models can"
        )


def encode(model: Any, *, factor: bool) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a fitted model, nothing of forgotten rows among them.

    Parameters
    ----------
    model : estimator, OneVsOne or Nystrom
    factor : bool
        Whether to store factors too.

    Returns
    -------
    header : dict
    arrays : dict of ndarray

    Raises
    ------
    ValueError
        For what a file cannot hold: callables, ids that are neither numbers nor strings.
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


def decode(header: dict[str, Any], arrays: Arrays) -> Any:
    """Return the model that header and arrays describe.

    Parameters
    ----------
    header : dict
    arrays : dict of ndarray

    Returns
    -------
    estimator, OneVsOne or Nystrom

    Raises
    ------
    ValueError, KeyError, TypeError
        Where they describe none.
    """
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
    model = Nystrom(**decode_parameters(header["parameters"]))
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
