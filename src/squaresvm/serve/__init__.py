"""A server for models in a folder: predictions, learning and forgetting with durable receipts, and pages."""

from __future__ import annotations

from squaresvm.serve.app import Settings, make_app, run
from squaresvm.serve.rows import Limits

__all__ = ["Limits", "Settings", "make_app", "run"]
