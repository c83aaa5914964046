"""What a file claims of its model beyond the solution, certificate and probabilities, as JSON and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squaresvm.files.values import Arrays, floats_of, number
from squaresvm.judging.calibration import Calibration
from squaresvm.solution import Certificate, Status

__all__ = [
    "decode_bound",
    "decode_calibration",
    "decode_certificate",
    "decode_maps",
    "encode_certificate",
    "encode_maps",
]


def encode_certificate(certificate: Certificate) -> dict[str, Any] | None:
    """Return a certificate for a header; None where a number of it is none that JSON has."""
    numbers = (certificate.residual, certificate.gap, certificate.objective)
    error = certificate.decision_error
    if not all(math.isfinite(value) for value in numbers):
        return None
    return {
        "residual": certificate.residual,
        "gap": certificate.gap,
        "objective": certificate.objective,
        "status": certificate.status.value,
        "decision_error": error if error is None or math.isfinite(error) else None,
        "column": int(certificate.column),
    }


def decode_certificate(described: Any, k: int) -> Certificate:
    """Return the certificate of a model of k columns; a file has only its word for it."""
    residual, gap, objective = (number(described[name], name) for name in ("residual", "gap", "objective"))
    if residual < 0:
        raise ValueError("its residual is negative")
    column = described["column"]
    error = decode_bound(described["decision_error"], "the error of its decisions")
    if type(column) is not int or not 0 <= column < k:
        raise ValueError("the column of its certificate does not exist")
    return Certificate(residual, gap, objective, Status(described["status"]), error, column)


def decode_bound(value: Any, what: str) -> float | None:
    """Return what is at least, or at most, as large as some number; None where nobody took it."""
    found = None if value is None else number(value, what)
    if found is not None and found < 0.0:
        raise ValueError(f"{what} is negative")
    return found


def decode_calibration(
    arrays: Arrays, classes: np.ndarray[Any, Any] | None, n_labels: int
) -> Calibration | None:
    """Return the map to probabilities, where the file holds one; `n_labels` that rows may have together."""
    if "above" not in arrays:
        return None
    if classes is not None:
        return decode_maps(arrays, "", int(classes.size))
    if n_labels == 0:
        raise ValueError("it holds probabilities of values that have none")
    return decode_maps(arrays, "", n_labels, independent=True)


def encode_maps(calibration: Calibration, prefix: str = "") -> Arrays:
    """Return the arrays of a map to probabilities."""
    arrays: Arrays = {f"{prefix}above": calibration.above, f"{prefix}below": calibration.below}
    return arrays if calibration.offset is None else {**arrays, f"{prefix}offset": calibration.offset}


def decode_maps(arrays: Arrays, prefix: str, n_classes: int, independent: bool = False) -> Calibration:
    """Return the map to probabilities of two arrays of slopes, and one of offsets where there is one."""
    above, below = (floats_of(arrays, f"{prefix}{name}", n_classes) for name in ("above", "below"))
    if min(above.min(), below.min()) <= 0.0:
        raise ValueError("a slope of its probabilities is not positive")
    pair = n_classes == 2 and not independent
    if pair and (above.tolist(), below.tolist()) != (below[::-1].tolist(), above[::-1].tolist()):
        raise ValueError("its slopes give two classes probabilities that do not sum to one")
    if f"{prefix}offset" not in arrays:
        return Calibration(above, below, independent=independent)
    if independent:
        raise ValueError("it holds offsets of labels that have none")
    offset = floats_of(arrays, f"{prefix}offset", n_classes)
    if n_classes == 2 and offset[0] != -offset[1]:
        raise ValueError("its offsets give two classes probabilities that do not sum to one")
    return Calibration(above, below, offset)
