"""Who wants something of a model's writer takes a turn: one after the other, and only so many wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from squaresvm.serve.failures import RequestError
from squaresvm.serve.rows import Limits
from squaresvm.serve.served import ServedModel

__all__ = ["Turns"]

Result = TypeVar("Result")


class Turns:
    """Has work done where a model is changed. Belongs to one event loop.

    Parameters
    ----------
    limits : Limits
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: dict[str, int] = {}

    async def take(self, model: ServedModel, work: Callable[..., Result], *values: Any) -> Result:
        """Do something where the model is changed, after what waits there, unless that is too much."""
        waiting = self._waiting.get(model.name, 0)
        if waiting >= self._limits.waiting:
            raise RequestError(503, "too many requests wait for this model", 1)
        self._waiting[model.name] = waiting + 1
        try:
            try:
                job = model.writer.submit(work, *values)
            except RuntimeError:
                raise RequestError(503, "the server ends, or the model is gone", 5) from None
            future = asyncio.wrap_future(job)
            done, _ = await asyncio.wait({future}, timeout=self._limits.seconds)
            if not done and job.cancel():
                raise RequestError(503, "the request has waited too long: nothing has changed", 1)
            return await future  # What has begun is awaited: it is done, or refused.
        finally:
            self._waiting[model.name] -= 1
