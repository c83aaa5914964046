"""Checks of constructor parameters: what is wrong, and what is allowed."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from squaresvm.kernels import KERNEL_NAMES
from squaresvm.runtime.arguments import check_integer, check_positive
from squaresvm.solvers.choose import SOLVERS

__all__ = [
    "check_kernel",
    "check_random_state_parameter",
    "check_solver",
    "check_stopping",
    "check_verbose",
]


def check_kernel(kernel: Any, gamma: Any, degree: Any, coef0: Any) -> None:
    """Raise a ValueError unless the kernel and its parameters are usable."""
    known = isinstance(kernel, str) and kernel in (*KERNEL_NAMES, "precomputed")
    if not known and not callable(kernel):
        names = ", ".join(repr(name) for name in (*KERNEL_NAMES, "precomputed"))
        raise ValueError(f"kernel must be one of {names}, or a callable; got {kernel!r}")
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise ValueError(f"gamma must be 'scale', 'auto' or a number; got {gamma!r}")
    else:
        check_positive("gamma", gamma)
    check_integer("degree", degree, 0)
    if not isinstance(coef0, Real) or not np.isfinite(float(coef0)):
        raise ValueError(f"coef0 must be a finite number; got {coef0!r}")


def check_solver(solver: Any) -> None:
    """Raise a ValueError unless `solver` is a known name or a solver."""
    if isinstance(solver, str):
        if solver != "auto" and solver not in SOLVERS:
            names = ", ".join(repr(name) for name in ("auto", *SOLVERS))
            raise ValueError(f"solver must be one of {names}; got {solver!r}")
    elif not hasattr(solver, "solve") or not hasattr(solver, "accepts"):
        raise ValueError(f"solver must be a name or a solver object; got {solver!r}")


def check_random_state_parameter(random_state: Any) -> None:
    """Raise a ValueError unless `random_state` is a seed, a RandomState or None."""
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
