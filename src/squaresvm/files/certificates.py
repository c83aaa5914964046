"""Certificates as JSON, and back: what a file claims of its model."""

from __future__ import annotations

import math
from typing import Any

from squaresvm.files.parameters import number
from squaresvm.solution import Certificate, Status

__all__ = ["decode_bound", "decode_certificate", "encode_certificate"]


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
