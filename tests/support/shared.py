"""The one place that says where the oracle, the problems and the forger of the suite are."""

from __future__ import annotations

from support import forged, oracle, problems

__all__ = ["forged", "oracle", "problems"]
