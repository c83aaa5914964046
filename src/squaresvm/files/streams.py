"""Models fitted from a stream: no rows, but what was summed up over them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from squaresvm.factors import Moments
from squaresvm.files.claims import (
    decode_bound,
    decode_calibration,
    decode_certificate,
    encode_certificate,
)
from squaresvm.files.states import decode_solution, decode_solver, encode_solution, targets_of
from squaresvm.files.values import Arrays, decode_labels, encode_labels, floats_of, number
from squaresvm.models.model import Settings
from squaresvm.models.streamed import StreamedState
from squaresvm.operators.precomputed import check_symmetric
from squaresvm.problem import Loss
from squaresvm.solution import Status
from squaresvm.typing import FloatArray

__all__ = ["decode_stream", "encode_stream"]

#: Arrays of the sums, beside their total.
_SUMS = ("mean", "scatter", "target", "response", "spread")
#: Rows that a file may claim.
_MOST_ROWS = 2**62
#: Factor by which sums may have lost accuracy; requests that lose less are refused already.
_MOST_LOST = 1e12
#: How far the pulls on w may be from balance, of the largest.
_NEAR = 1e-4


def encode_stream(state: StreamedState) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a model without rows."""
    header, arrays = encode_solution(state)
    certificate, sums = state.certificate, state.sums
    header["stream"] = {
        "rows": int(state.n_rows),
        "certificate": encode_certificate(certificate),
        "total": None if sums is None else sums.total,
        "digits_lost": None if sums is None else sums.blurred().loss_of_digits(),
        "scale": _flat(state.scale),
        "bounds": None if sums is None else [sums.largest, sums.lightest],
        "widest": None if sums is None or sums.widest is None else sums.widest.tolist(),
    }
    if state.classes is not None:
        header["labels_are_objects"] = state.classes.dtype == object
        assert state.counts is not None
        arrays |= {"classes": encode_labels(state.classes), "counts": state.counts}
    if sums is not None:
        arrays |= {name: getattr(sums, name) for name in _SUMS}
    return header, arrays


def decode_stream(header: dict[str, Any], arrays: Arrays, settings: Settings) -> StreamedState:
    """Return a model without rows; a ValueError, KeyError or TypeError where none is described."""
    described, n = header["stream"], header["n_features"]
    if not settings.is_linear or type(n) is not int or n < 1:
        raise ValueError("it is of a stream, and has no linear kernel or no columns")
    if header["factor"] is not None:
        raise ValueError("it holds a factor that its kind of model has no use for")
    rows = described["rows"]
    if type(rows) is not int or not 0 < rows < _MOST_ROWS:
        raise ValueError("its number of rows is impossible")
    classes, counts = _classes(header, arrays, settings)
    k = targets_of(classes, int(arrays["bias"].size))
    has_labels = settings.class_weight is not None and classes is None
    if has_labels and (k < 2 or settings.class_weight):
        raise ValueError("it has a classifier's numbers and no classes")
    solver, reason = decode_solver(header)
    state = StreamedState(
        settings=settings,
        classes=classes,
        solution=decode_solution(header, arrays, settings, (0, n, k)),
        solver=solver,
        reason=reason,
        n_features=n,
        count=rows,
        counts=counts,
        judged=decode_certificate(described["certificate"], k),
        to_probabilities=decode_calibration(arrays, classes, k if has_labels else 0),
        sums=_sums(described, arrays, settings, (n, k)),
        scale=_scale(described["scale"], k if classes is None else 1),
    )
    if state.solution.primal is None:
        raise ValueError("it is of a stream, and has no vector w")
    _check_solution(state)
    return state


def _flat(scale: FloatArray | None) -> float | list[float] | None:
    """Return bounds as numbers: one alone is no list."""
    if scale is None:
        return None
    return float(scale[0]) if scale.size == 1 else scale.tolist()


def _scale(described: Any, k: int) -> FloatArray | None:
    listed = described if isinstance(described, list) else [described]
    bounds = [decode_bound(value, "the largest of its values") for value in listed]
    if bounds == [None]:
        return None
    if len(bounds) != k or None in bounds:
        raise ValueError("the largest of its values are not one a target")
    return np.array(bounds, dtype=np.float64)


def _check_solution(state: StreamedState) -> None:
    """Raise a ValueError where w is said to be found, and the sums over the rows say otherwise."""
    sums, w = state.sums, state.solution.primal
    if sums is None or w is None or state.certificate.status != Status.CONVERGED:
        return
    error = sums.target - sums.mean @ w - state.solution.bias  # Of the mean row.
    pulls = [w, sums.scatter @ w, -sums.response, -sums.total * np.outer(sums.mean, error)]
    if np.abs(sum(pulls)).max() > _NEAR * max(float(np.abs(pull).max()) for pull in pulls):
        raise ValueError("its vector w does not fit the sums over its rows")


def _classes(header: dict[str, Any], arrays: Arrays, settings: Settings) -> tuple[Any, Any]:
    if settings.class_weight is None or "classes" not in arrays:
        return None, np.empty(0)
    classes = decode_labels(header, arrays, "classes")
    if classes.size < 2 or np.unique(classes).tolist() != classes.tolist():
        raise ValueError("its classes are not sorted, or fewer than two")
    counts = floats_of(arrays, "counts", classes.size)
    if counts.min() < 1:
        raise ValueError("one of its classes has no rows")
    return classes, counts


def _sums(described: Any, arrays: Arrays, settings: Settings, extents: tuple[int, int]) -> Moments | None:
    if described["total"] is None:
        if "scatter" in arrays:
            raise ValueError("the sums over its rows have no total")
        return None
    if settings.loss != Loss.SQUARED:
        raise ValueError("sums over rows belong to the squared loss, and to no other")
    (n, k), total = extents, number(described["total"], "the total of its sums")
    lost = number(described["digits_lost"], "what its sums have lost")
    if total <= 0 or not 1 <= lost <= _MOST_LOST:
        raise ValueError("the total of its sums is out of range")
    shapes = ((n,), (n, n), (k,), (n, k), (k,))
    parts = [floats_of(arrays, name, *shape) for name, shape in zip(_SUMS, shapes, strict=True)]
    check_symmetric(parts[1])
    mean, scatter, target, response, spread = parts
    largest, lightest = (decode_bound(value, "a bound of its rows") for value in described["bounds"])
    widest = None
    if described["widest"] is not None:
        widest = np.array([number(value, "a bound of its targets") for value in described["widest"]])
    if lightest == 0.0 or (widest is not None and (widest.shape != (k,) or np.any(widest < spread))):
        raise ValueError("the bounds of its rows are not those of its sums")
    sums = Moments(total, mean, scatter, target, response, spread)
    return replace(sums, widest=widest, largest=largest, lightest=lightest).having_lost(lost)
