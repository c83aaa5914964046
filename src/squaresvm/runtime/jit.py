"""Loops that Numba compiles where it can, and that are Python where it is not there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, ParamSpec, TypeVar, cast

__all__ = ["SlowLoopsWarning", "compiled", "is_compiled"]

P = ParamSpec("P")
R = TypeVar("R")


class SlowLoopsWarning(UserWarning):
    """Numba is not installed: loops run as Python, with the same results and hundreds of times slower."""


def compiled(
    *, fastmath: bool | set[str] = False, inline: str = "never"
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that has a loop compiled when it is first called, without the interpreter's lock.

    What was compiled is kept on disk for the next process. Where no folder for that can be written, neither
    that of the package nor one in the home of the user, each process compiles anew; the environment variable
    ``NUMBA_CACHE_DIR`` names another folder. Without Numba the loop is what it says in Python.

    Use it only in modules that are imported where a loop is about to run: Numba takes half a second.

    Parameters
    ----------
    fastmath : bool or set of str, default=False
        What the compiler may assume of floating-point numbers.
    inline : {'never', 'always'}, default='never'
    """
    numba = _numba()

    def decorate(loop: Callable[P, R]) -> Callable[P, R]:
        if numba is None:
            return loop
        options: dict[str, Any] = {"nogil": True, "fastmath": fastmath, "inline": inline}
        try:
            found = numba.njit(cache=True, **options)(loop)
        except RuntimeError:  # There is no folder to keep it in.
            found = numba.njit(**options)(loop)
        return cast(Callable[P, R], found)

    return decorate


@cache
def _numba() -> Any:
    """Return the module; None, and a warning the first time, where it is not installed."""
    try:
        import numba
    except ImportError:
        warnings.warn(
            "numba is not installed: some loops run as Python, with the same results but far slower "
            "(pip install numba)",
            SlowLoopsWarning,
            stacklevel=3,
        )
        return None
    return numba


@cache
def is_compiled() -> bool:
    """Return whether loops are compiled; where they are not, products of NumPy are the faster way."""
    try:
        from numba import config
    except ImportError:
        return False
    return not getattr(config, "DISABLE_JIT", False)
