"""Results of a search over C and gamma as JSON, and back."""

from __future__ import annotations

import math
from typing import Any

from squaresvm.estimators.requests import Updating
from squaresvm.files.parameters import number
from squaresvm.models.model import Settings
from squaresvm.search.estimators import LooSearch
from squaresvm.search.grid import SearchResults

__all__ = ["decode_search", "encode_search"]

#: JSON has no numbers for these scores.
_NO_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode_search(model: Updating) -> dict[str, Any]:
    """Return what a search has found, for the header; nothing for estimators that do not search.

    After a row was forgotten there is nothing left: scores were taken from that row, too.
    """
    if not isinstance(model, LooSearch):
        return {}
    found = model._search
    if found is None:
        return {"search": None}
    return {
        "search": {
            "cells": [list(cell) for cell in found.cells],
            "scores": [score if math.isfinite(score) else str(score) for score in found.scores],
            "seconds": list(found.seconds),
            "rounds": [int(number) for number in found.rounds],
        }
    }


def decode_search(model: Updating, header: dict[str, Any], settings: Settings) -> None:
    """Give an estimator that searches what its search has found."""
    described = header.get("search")
    if not isinstance(model, LooSearch):
        if described is not None:
            raise ValueError(f"it holds a search, and {type(model).__name__} makes none")
        return
    model._search = None if described is None else _results(described, model._has_gamma, settings)


def _results(described: Any, has_gamma: bool, settings: Settings) -> SearchResults:
    lists = [described[name] for name in ("cells", "scores", "seconds", "rounds")]
    if not all(isinstance(some, list) and len(some) == len(lists[0]) for some in lists):
        raise ValueError("the results of its search do not fit together")
    cells, scores, seconds, rounds = lists
    if not all(type(value) is int and value >= 0 for value in rounds):
        raise ValueError("the rounds of its search are impossible")
    found = SearchResults(
        [_cell(cell, has_gamma) for cell in cells],
        [_score(score) for score in scores],
        [number(value, "a time of its search") for value in seconds],
        rounds,
    )
    if all(math.isnan(score) for score in found.scores):
        raise ValueError("its search has found nothing")
    gamma = settings.kernel.gamma if has_gamma and settings.kernel is not None else None
    if found.best != (settings.C, gamma):
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
