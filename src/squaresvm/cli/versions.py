"""Versions of what the results depend on."""

from __future__ import annotations

import platform
from importlib.metadata import version

from threadpoolctl import threadpool_info

__all__ = ["versions"]


def versions() -> list[tuple[str, str]]:
    """Return names and versions of Python, the core dependencies and the BLAS in use."""
    import scipy.linalg  # noqa: F401 - loads the BLAS that is to be named

    found = [("Python", platform.python_version())]
    found += [(name, version(name)) for name in ("numpy", "scipy", "scikit-learn", "numba")]
    for pool in threadpool_info():
        if pool["user_api"] == "blas":
            found.append(("BLAS", f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads"))
    return found
