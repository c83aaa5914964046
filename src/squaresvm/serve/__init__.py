"""A server for models in a folder: predictions, learning and forgetting with durable receipts, and pages.

Names are imported when they are first asked for: what reads rows needs no server.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Limits", "Settings", "make_app", "run"]

_HOMES = {"Limits": "rows", "Settings": "app", "make_app": "app", "run": "app"}


def __getattr__(name: str) -> Any:
    """Return a public name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
