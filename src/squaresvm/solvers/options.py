"""Checks of the options of solvers: what is wrong, and the range that is right."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = ["check_between", "check_callback", "check_choice", "check_count", "check_memory"]


def check_between(name: str, value: Any, low: float, high: float = np.inf) -> float:
    """Return `value` as a float if low < value < high."""
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not number or not low < value < high:
        bound = f"greater than {low:g}" if high == np.inf else f"between {low:g} and {high:g}, both excluded"
        raise ValueError(f"{name} must be a number {bound}; got {value!r}")
    return float(value)


def check_count(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` if it is an integer of at least `low`, and at most `high` where that is given."""
    whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not whole or value < low or (high is not None and value > high):
        bound = f"of at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be an integer {bound}; got {value!r}")
    return int(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise a ValueError unless `value` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")


def check_callback(callback: Any, trace: Any) -> None:
    """Raise a ValueError unless both are usable."""
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a callable or None; got {callback!r}")
    if not isinstance(trace, bool | np.bool_):
        raise ValueError(f"trace must be True or False; got {trace!r}")


def check_memory(memory: Any) -> int:
    """Return the bytes that kernel rows may take."""
    return check_count("memory", memory, 1)
