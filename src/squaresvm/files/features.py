"""Landmarks and what maps rows to their features."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.features.nystrom import Nystrom
from squaresvm.files.arrays import Arrays, array_of, decode_matrix, encode_matrix, floats_of
from squaresvm.files.decoding import decode_names
from squaresvm.files.encoding import encode_names
from squaresvm.files.parameters import (
    decode_kernel,
    decode_parameters,
    encode_kernel,
    encode_parameters,
)

__all__ = ["decode_features", "encode_features"]


def encode_features(model: Nystrom) -> tuple[dict[str, Any], Arrays]:
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


def decode_features(header: dict[str, Any], arrays: Arrays) -> Nystrom:
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
