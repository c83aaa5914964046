"""Checks of single arguments: what is wrong, and what is allowed.

All raise a ValueError, as scikit-learn does for parameters, whether the kind or the size is wrong.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = [
    "check_between",
    "check_choice",
    "check_flag",
    "check_integer",
    "check_positive",
    "check_random_state_parameter",
    "check_stopping",
    "check_verbose",
]


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` if it is an integer of at least `low`, and at most `high` where that is given.

    Examples
    --------
    >>> from squaresvm.runtime.arguments import check_integer
    >>> check_integer("rank", 3, 1)
    3
    >>> check_integer("rank", 2.0, 1)
    Traceback (most recent call last):
    ValueError: rank must be an integer of at least 1; got 2.0
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not whole or value < low or (high is not None and value > high):
        bound = f"of at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be an integer {bound}; got {value!r}")
    return int(value)


def check_between(name: str, value: Any, low: float, high: float = np.inf) -> float:
    """Return `value` as a float if low < value < high."""
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not number or not low < value < high:
        bound = f"greater than {low:g}" if high == np.inf else f"between {low:g} and {high:g}, both excluded"
        raise ValueError(f"{name} must be a number {bound}; got {value!r}")
    return float(value)


def check_positive(name: str, value: Any, *, zero: bool = False) -> float:
    """Return `value` as a float if it is a finite number above 0 (or 0, with `zero`)."""
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not number or not np.isfinite(value) or value < 0 or (value == 0 and not zero):
        bound = "at least 0" if zero else "greater than 0"
        raise ValueError(f"{name} must be a finite number {bound}; got {value!r}")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise a ValueError unless `value` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")


def check_random_state_parameter(random_state: Any) -> None:
    """Raise a ValueError unless `random_state` is a seed, a RandomState or None."""
    from sklearn.utils import check_random_state  # Here: sources check arguments too, and need none of it.

    try:
        check_random_state(random_state)
    except ValueError:
        raise ValueError(
            f"random_state must be an integer, a RandomState or None; got {random_state!r}"
        ) from None


def check_verbose(verbose: Any) -> None:
    """Raise a ValueError unless `verbose` is a flag or a level of at least 0."""
    if not isinstance(verbose, bool | np.bool_):
        check_integer("verbose", verbose, 0)


def check_stopping(tol: Any, max_iter: Any) -> None:
    """Raise a ValueError unless tol and max_iter are usable."""
    check_positive("tol", tol)
    if max_iter is not None:
        check_integer("max_iter", max_iter, 1)
