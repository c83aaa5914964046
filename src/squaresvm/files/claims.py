"""What a file claims of its model beyond the solution: certificate, probabilities, results of a search."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from squaresvm.estimators.requests import Updating
from squaresvm.files.values import Arrays, floats_of, number
from squaresvm.judging.calibration import Calibration
from squaresvm.models.model import Settings
from squaresvm.search.grid import SearchResults
from squaresvm.search.searching import LooSearch
from squaresvm.solution import Certificate, Status

__all__ = [
    "decode_bound",
    "decode_calibration",
    "decode_certificate",
    "decode_maps",
    "decode_search",
    "encode_certificate",
    "encode_maps",
    "encode_search",
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


#: JSON has no numbers for these scores.
_NO_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode_search(model: Updating) -> dict[str, Any]:
    """Return what a search has found, for the header; nothing for estimators that do not search.

    After a row was forgotten there is nothing left: scores were taken from that row, too.
    """
    if not isinstance(model, LooSearch):
        return {}
    found, grouped = model._search, {"grouped": True} if model._had_groups else {}
    if found is None:
        return {"search": None, **grouped}
    return {
        **grouped,
        "search": {
            "cells": [list(cell) for cell in found.cells],
            "scores": _listed(found.scores),
            "seconds": list(found.seconds),
            "rounds": [int(number) for number in found.rounds],
            "exact": list(found.exact),
            "sampled": found.sampled,
            "targets": [_listed(row) for row in found.targets],
            "splits": [_listed(row) for row in found.splits],
        },
    }


def _listed(scores: Iterable[float]) -> list[float | str]:
    return [score if math.isfinite(score) else str(score) for score in scores]


def decode_search(model: Updating, header: dict[str, Any], settings: Settings) -> None:
    """Give an estimator that searches what its search has found."""
    described = header.get("search")
    if not isinstance(model, LooSearch):
        if described is not None:
            raise ValueError(f"it holds a search, and {type(model).__name__} makes none")
        return
    model._search = None if described is None else _results(described, model._has_gamma, settings)
    model._had_groups = bool(header.get("grouped", False))


def _results(described: Any, has_gamma: bool, settings: Settings) -> SearchResults:
    lists = [described[name] for name in ("cells", "scores", "seconds", "rounds")]
    # Files of the first versions name no inexact cells: there were none.
    lists.append(described.get("exact", [True] * len(described["cells"])))
    if not all(isinstance(some, list) and len(some) == len(lists[0]) for some in lists):
        raise ValueError("the results of its search do not fit together")
    cells, scores, seconds, rounds, exact = lists
    sampled = described.get("sampled", False)
    splits, targets = (described.get(name, [[] for _ in cells]) for name in ("splits", "targets"))
    for rows, what in ((splits, "folds"), (targets, "targets")):
        if len(rows) != len(cells) or len({len(row) for row in rows}) > 1:
            raise ValueError(f"the scores of the {what} of its search do not fit together")
    if not all(type(value) is int and value >= 0 for value in rounds):
        raise ValueError("the rounds of its search are impossible")
    if not all(type(value) is bool for value in (*exact, sampled)):
        raise ValueError("which cells of its search are exact is not said")
    found = SearchResults(
        [_cell(cell, has_gamma) for cell in cells],
        [_score(score) for score in scores],
        [number(value, "a time of its search") for value in seconds],
        rounds,
        exact,
        sampled,
        [tuple(_score(score) for score in row) for row in splits],
        [tuple(_score(score) for score in row) for row in targets],
    )
    if all(math.isnan(score) for score in found.scores):
        raise ValueError("its search has found nothing")
    gamma = settings.kernel.gamma if has_gamma and settings.kernel is not None else None
    best = found.cells[found.best_of_targets[0]] if any(found.targets) else found.best
    if any(found.targets):  # The settings are those of the smallest C.
        best = (min(found.cells[place][0] for place in found.best_of_targets), best[1])
    if best != (settings.C, gamma):
        raise ValueError("its C and gamma are not the best of its search")
    return found


def _cell(cell: Any, has_gamma: bool) -> tuple[float, float | None]:
    if not isinstance(cell, list) or len(cell) != 2 or (cell[1] is not None) is not has_gamma:
        raise ValueError("a cell of its search is incomplete")
    C = number(cell[0], "a C of its search")
    gamma = None if cell[1] is None else number(cell[1], "a gamma of its search")
    if C <= 0 or (gamma is not None and gamma <= 0):
        raise ValueError("a cell of its search is out of range")
    return C, gamma


def _score(score: Any) -> float:
    return _NO_NUMBERS[score] if isinstance(score, str) else number(score, "a score of its search")
