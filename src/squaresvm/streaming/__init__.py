"""Sources of blocks: rows in memory, on disk or on a cluster, reached by one interface."""

from __future__ import annotations

from squaresvm.streaming.source import Block, Source

__all__ = ["Block", "Source"]
