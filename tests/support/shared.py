"""The one place that says where the oracle and the problems of the suite are."""

from __future__ import annotations

import oracle
import problems

__all__ = ["oracle", "problems"]
