"""A model as it stands at one moment, for everybody who only asks, and predictions that are made together."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from squaresvm.estimators.requests import Updating
from squaresvm.files.front import Front
from squaresvm.models.model import as_flat, labels_of
from squaresvm.readers import Column, Table, TableError
from squaresvm.readers.preparation import Preparation, PreparedRows
from squaresvm.serve.rows import REQUEST, RequestError, columns_of, first_line, rows_for
from squaresvm.typing import FloatArray

__all__ = ["Answer", "Batcher", "View"]

#: Rows that are predicted at a time, unless one request has more.
_BATCH_ROWS = 2048


@dataclass(frozen=True, eq=False)
class Answer:
    """What a model says of rows: labels and decision values, or the values of a regression."""

    labels: np.ndarray[Any, Any]
    decision: FloatArray | None

    def part(self, start: int, stop: int) -> Answer:
        """Return what is said of some of the rows."""
        decision = None if self.decision is None else self.decision[start:stop]
        return Answer(self.labels[start:stop], decision)


@dataclass(frozen=True, eq=False)
class View:
    """A model that no request changes any more: whoever has it sees all of a request or nothing.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> from squaresvm.serve.view import View
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LSSVC().fit(X, y)
    >>> view = View.of(model, 0)
    >>> receipt = model.forget(range(50))
    >>> view.classes.tolist(), model.classes_.tolist(), int(view.answer(X[:1]).labels[0])
    ([0, 1, 2], [1, 2], 0)
    """

    #: A copy that shares the frozen state of the model.
    estimator: Any
    #: How records become rows.
    preparation: Preparation | None
    #: Of the last request that is in it; 0 where that is none since the file was put there.
    number: int
    #: The steps of a pipeline before the model.
    front: Front | None = None
    #: What it says of a row of zeros, whose types and shapes are those of all answers; None where such a row
    #: means nothing to it.
    of_zeros: Answer | None = None

    @classmethod
    def of(cls, model: Any, number: int) -> View:
        """Return the model as it is now. Nobody may change it meanwhile."""
        front, model = Front.of(model)
        if not isinstance(model, Updating):
            return cls(model, None, number, front)
        preparation = columns_of(model) if front is None else None
        frozen = model._copy()
        # Columns are put in order by their names here: rows without names are right from then on.
        frozen.__dict__.pop("feature_names_in_", None)
        view = cls(frozen, preparation, number, front)
        if not view.holds_rows or frozen._state.settings.kernel is None:
            return view
        # What predictions need is computed now, while the buffers are still those of this state.
        return replace(view, of_zeros=view.answer(np.zeros((1, frozen.n_features_in_))))

    @property
    def holds_rows(self) -> bool:
        """Whether the model has its rows, so that it learns, forgets and judges itself."""
        return isinstance(self.estimator, Updating) and self.estimator._state.holds_rows

    @property
    def can_change(self) -> bool:
        """Whether rows can be learned and forgotten through requests."""
        has_kernel = self.holds_rows and self.estimator._state.settings.kernel is not None
        return has_kernel and self.front is None

    @property
    def width(self) -> int:
        """Columns that rows must have, as they are sent."""
        first = self.estimator if self.front is None or not self.front.steps else self.front.steps[0][1]
        return int(getattr(first, "n_features_in_", self.estimator.n_features_in_))

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns of records; None where they have none."""
        if self.front is not None:
            return self.front.feature_names
        return None if self.preparation is None else [one.name for one in self.preparation.features]

    def prepared(self, found: Table | FloatArray) -> FloatArray:
        """Return rows as they reach the model, of those that a request brings."""
        if self.front is None:
            return rows_for(found, self.preparation, self.width)
        if not isinstance(found, Table) or self.columns is None:
            found = rows_for(found, None, self.width)
        if self.columns is not None and not isinstance(found, Table):
            columns = {name: Column(name, found[:, at]) for at, name in enumerate(self.columns)}
            found = Table(REQUEST, columns, range(found.shape[0]), unit="record")
        if not isinstance(found, Table):
            return self.transformed(found)
        try:
            frame = found.frame(self.columns or ())
        except TableError as error:
            raise RequestError(422, first_line(error)) from None
        return self.transformed(frame)

    def transformed(self, X: Any) -> FloatArray:
        """Return what the steps before the model make of rows; a RequestError where one refuses them."""
        assert self.front is not None
        try:
            found = self.front.transform(X)
            found = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise RequestError(422, f"the pipeline refuses the rows: {first_line(error)}") from None
        if not np.isfinite(found).all():
            raise RequestError(422, "the pipeline turns the rows into values that are not finite")
        return found

    @property
    def rows(self) -> int | None:
        """Rows held; None where the model keeps none."""
        return int(self.estimator._state.rows.count) if self.holds_rows else None

    @property
    def classes(self) -> np.ndarray[Any, Any] | None:
        """Labels that it knows; None for regression."""
        found = getattr(self.estimator, "classes_", None)
        return found if isinstance(found, np.ndarray) else None  # Of rows with several labels it is a list.

    @property
    def has_probabilities(self) -> bool:
        """Whether it gives probabilities."""
        return hasattr(self.estimator, "predict_proba")

    def answer(self, X: FloatArray) -> Answer:
        """Return what the model says of rows, which have been prepared."""
        X = np.asarray(X).view(PreparedRows)
        if not isinstance(self.estimator, Updating):
            return Answer(np.asarray(self.estimator.predict(X)), None)
        state = self.estimator._state
        if state.classes is None:
            return Answer(np.asarray(self.estimator.predict(X)), None)
        decision = self.estimator._decision(state, X)
        return Answer(labels_of(state, decision), as_flat(decision))


class Batcher:
    """Answers predictions that wait together: one product for all rows in place of one for each request.

    Belongs to one event loop. So many requests may wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="squaresvm-predict")
        self._waiting: deque[tuple[View, FloatArray, asyncio.Future[Answer]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def answer(self, view: View, X: FloatArray) -> Answer:
        """Return what a model says of rows; a RequestError (503) where too many wait already."""
        if len(self._waiting) >= self._most:
            raise RequestError(503, "too many predictions wait", 1)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((view, X, future))
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch = self._next_batch()
            rows = [X for _, X, _ in batch]
            try:
                X = rows[0] if len(rows) == 1 else np.concatenate(rows)
                job = self._pool.submit(batch[0][0].answer, X)
            except RuntimeError:
                _hand_out(
                    batch, RequestError(503, "the server is shutting down, or the model was removed", 5)
                )
                continue
            try:
                answer = await asyncio.wrap_future(job)
            except Exception as error:
                _hand_out(batch, error)
            else:
                _hand_out(batch, answer)

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

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _hand_out(
    batch: list[tuple[View, FloatArray, asyncio.Future[Answer]]], found: Answer | Exception
) -> None:
    """Give each request of a batch its part; who has gone needs none."""
    start = 0
    for _, X, future in batch:
        stop = start + X.shape[0]
        if not future.done():
            if isinstance(found, Answer):
                future.set_result(found.part(start, stop))
            else:
                future.set_exception(found)
        start = stop
