"""Which kinds of models a file may hold: nothing else is ever made from one."""

from __future__ import annotations

from typing import Any

from squaresvm.features.nystrom import Nystrom
from squaresvm.files.arrays import Arrays
from squaresvm.files.decoding import decode_estimator, decode_names, decode_settings_of, decode_state
from squaresvm.files.encoding import ESTIMATORS, encode_model, encode_state
from squaresvm.files.features import decode_features, encode_features
from squaresvm.files.pairs import decode_pairs, encode_pairs
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
        return encode_features(model)
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
        return decode_features(header, arrays)
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
