"""Predictions that wait are made together: one product for all rows in place of one for each request."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from squaresvm.serve.failures import RequestError
from squaresvm.serve.view import Answer, View
from squaresvm.typing import FloatArray

__all__ = ["Batcher"]

#: Rows that are predicted at a time, unless one request has more.
_BATCH_ROWS = 2048


class Batcher:
    """Takes rows of many requests and answers each with its own part. Belongs to one event loop.

    Parameters
    ----------
    pool : ThreadPoolExecutor
        Where predictions are made.
    most : int
        Requests that may wait.
    """

    def __init__(self, pool: ThreadPoolExecutor, most: int) -> None:
        self._pool, self._most = pool, most
        self._waiting: deque[tuple[View, FloatArray, asyncio.Future[Answer]]] = deque()
        self._is_running = False
        #: Batches and rows so far.
        self.batches, self.rows = 0, 0

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    async def answer(self, view: View, X: FloatArray) -> Answer:
        """Return what a model says of rows.

        Raises
        ------
        RequestError
            (503) if too many wait already; (422) if the model refuses the rows.
        """
        if len(self._waiting) >= self._most:
            raise RequestError(503, "too many predictions wait", 1)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((view, X, future))
        if not self._is_running:
            self._is_running = True
            asyncio.get_running_loop().create_task(self._run())
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch = self._next_batch()
                view, rows = batch[0][0], [X for _, X, _ in batch]
                try:
                    X = rows[0] if len(rows) == 1 else np.concatenate(rows)
                    answer = await loop.run_in_executor(self._pool, view.answer, X)
                except Exception as error:
                    self._refuse(batch, error)
                    continue
                self.batches, self.rows = self.batches + 1, self.rows + X.shape[0]
                self._hand_out(batch, answer)
        finally:
            self._is_running = False

    def _next_batch(self) -> list[tuple[View, FloatArray, asyncio.Future[Answer]]]:
        """Take the requests at the head that are for the same view of the model."""
        batch = [self._waiting.popleft()]
        count = batch[0][1].shape[0]
        while self._waiting and self._waiting[0][0] is batch[0][0]:
            count += self._waiting[0][1].shape[0]
            if count > _BATCH_ROWS:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _hand_out(self, batch: list[tuple[View, FloatArray, asyncio.Future[Answer]]], answer: Answer) -> None:
        start = 0
        for _, X, future in batch:
            stop = start + X.shape[0]
            if not future.done():  # Who has gone needs no answer.
                future.set_result(answer.part(start, stop))
            start = stop

    def _refuse(self, batch: list[tuple[View, FloatArray, asyncio.Future[Answer]]], error: Exception) -> None:
        for _, _, future in batch:
            if not future.done():
                future.set_exception(error)
