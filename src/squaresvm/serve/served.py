"""One model that is served: read by everybody at once, changed by one request after the other.

A change goes through three hands in this order: the model says what it would lead to (and may refuse), the
journal puts it on disk, and only then it takes its place and is answered. Where the disk is full nothing has
changed, and where the process is killed the journal has what was answered.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import squaresvm
from squaresvm.estimators.requests import Updating
from squaresvm.evidence.log import Log
from squaresvm.files import Record
from squaresvm.files.container import checksum
from squaresvm.models.ownership import REQUESTS
from squaresvm.pages.report import Report, examine
from squaresvm.readers.preparation import PreparedRows
from squaresvm.runtime.atomic import locked, remove_leftovers, replacing
from squaresvm.serve.change import proposed
from squaresvm.serve.journal import Entry, Journal
from squaresvm.serve.rows import Limits, RequestError, first_line
from squaresvm.serve.view import Answer, Batcher, View
from squaresvm.typing import FloatArray

__all__ = ["ServedModel"]

Result = TypeVar("Result")
_LOG = logging.getLogger("squaresvm.serve")
#: Characters of an idempotency key at most.
_LONGEST_KEY = 200


class ServedModel:
    """A model of the folder; `archive` is a folder for receipts that an anchor stands for."""

    def __init__(
        self, name: str, path: Path, journal: Journal, limits: Limits, archive: Path | None = None
    ) -> None:
        self.name, self.path, self._archive = name, path, archive
        self._journal, self._limits = journal, limits
        self._staging = path.with_name(f".{path.name}.next")
        self._model: Any = None
        self._seen: tuple[int, ...] | None = None
        #: Holds the file's lock as long as acknowledged requests are not in it: whoever asks for the lock
        #: waits until they are, and does not replace the file by one that lacks them.
        self._lock = ExitStack()
        #: What predictions are made from; replaced whole.
        self.view: View | None = None
        #: Why the model cannot be served; None where it can.
        self.fault: str | None = None
        #: Requests that are in the journal and not in the file, and since when the first of them is.
        self.unsaved, self.unsaved_since = 0, 0.0
        #: All changes of this model happen here, and those who wait for one are so many.
        self.writer = ThreadPoolExecutor(1, thread_name_prefix=f"squaresvm-{name}")
        self._waiting = 0
        #: Where predictions are made, which never wait for the writer.
        self.predictions = Batcher(limits.waiting)
        #: How often the file was written, and could not be.
        self.saves: Counter[str] = Counter(written=0, failed=0)
        self._report: tuple[View, Report] | None = None

    async def turn(self, work: Callable[..., Result], *values: Any) -> Result:
        """Do something in the writer, after what waits there, unless that is too much."""
        if self._waiting >= self._limits.waiting:
            raise RequestError(503, "too many requests wait for this model", 1)
        self._waiting += 1
        try:
            try:
                job = self.writer.submit(work, *values)
            except RuntimeError:
                raise RequestError(503, "the server is shutting down, or the model was removed", 5) from None
            future = asyncio.wrap_future(job)
            done, _ = await asyncio.wait({future}, timeout=self._limits.seconds)
            if not done and job.cancel():
                raise RequestError(503, "the request has waited too long: nothing has changed", 1)
            return await future  # What has begun is awaited: it is done, or refused.
        finally:
            self._waiting -= 1

    # Files and the journal -------------------------------------------------------------------------

    def open(self) -> None:
        """Read the file and apply what the journal has beyond it. Runs in the writer."""
        self._staging.unlink(missing_ok=True)
        self._lock.close()
        try:
            if self._journal.pending(self.name):
                self._lock.enter_context(locked(self.path))
            remove_leftovers(self.path)
            self._seen = _signature(self.path)
            model = squaresvm.load(self.path)
            if not hasattr(model, "predict"):
                raise ValueError(f"holds a {type(model).__name__}, which does not predict")
            self._follow_journal(model)
        except (ValueError, OSError, RequestError) as error:
            self._fail(first_line(error))
        except Exception as error:  # Whatever it is, the other models are served, and this one says why not.
            self._fail(f"it cannot be loaded: {type(error).__name__}")

    def _follow_journal(self, model: Any) -> None:
        found = checksum(self.path)
        assert found is not None
        known, coming = self._journal.checksums(self.name)
        if found == coming:
            self._journal.settle(self.name)  # The server ended after the file had taken its place.
        pending = self._journal.pending(self.name)
        if found not in (known, coming):
            if pending:
                raise ValueError(self._replaced(len(pending)))
            self._journal.adopt(self.name, found)
        self._model = model
        for entry in pending:
            self._repeat(entry)
        self.unsaved, self.unsaved_since = len(pending), time.monotonic()
        self._publish(pending[-1].number if pending else 0)
        self.fault = None
        if not pending:  # It was in the file.
            self._lock.close()

    def _repeat(self, entry: Entry) -> None:
        """Apply a request that was acknowledged before."""
        assert entry.payload is not None
        with REQUESTS:
            change = proposed(self._model, entry.kind, entry.payload, self._limits)
            change.put_in_place(entry.time)
            # The chain says of the request what was answered then.
            assert change.model._log is not None
            change.model._log = _as_answered(change.model._log, entry)
        self._model = change.model

    def _replaced(self, count: int) -> str:
        return (
            f"somebody has replaced the file, and {count} acknowledged requests are not in it: put the "
            f"former file back, or run squaresvm serve with --discard {self.name}"
        )

    def _fail(self, reason: str) -> None:
        self._lock.close()
        self.view, self._model, self._report, self.fault = None, None, None, reason

    def _publish(self, number: int) -> None:
        with REQUESTS:
            self.view = View.of(self._model, number)

    def look(self) -> None:
        """Notice that somebody has replaced the file, without asking for the lock. Runs in the writer."""
        if self._seen == _signature(self.path):
            return
        if self.unsaved and self._model is not None:
            self._fail(self._replaced(self.unsaved))
            self._seen = _signature(self.path)
            return
        self.open()

    def snapshot(self) -> bool:
        """Put all requests into the model file, then out of the journal; return whether there were any.

        Runs in the writer. After an OSError, of a full disk, file and journal are as they were.
        """
        if not self.unsaved or self._model is None or self.view is None:
            return False
        try:
            if not self._replace_file(self.view.number):
                return False
            self.unsaved = 0
            if isinstance(self._model, Updating) and len(self._model.receipts_) > self._limits.receipts:
                self._anchor(self.view.number)
            if self._has_unused_levels():
                self._model = squaresvm.load(self.path)  # The file has no columns for them any more.
            self._publish(self.view.number)
        finally:
            if not self.unsaved:
                self._lock.close()
        return True

    def _replace_file(self, number: int) -> bool:
        """Write the model, with all requests up to a number; return whether the file was still ours."""
        try:
            squaresvm.save(self._model, self._staging)
            content, digest = self._staging.read_bytes(), checksum(self._staging)
        finally:
            self._staging.unlink(missing_ok=True)  # A full disk may have room for one file more, not for two.
        assert digest is not None
        self._journal.announce(self.name, digest, number)
        with locked(self.path):
            if self._seen != _signature(self.path):
                self.look()
                return False
            with replacing(self.path) as file:
                file.write(content)
        self._seen = _signature(self.path)
        self._journal.settle(self.name)
        return True

    def _anchor(self, number: int) -> None:
        """Have one receipt stand for the chain, which is in the file and may be kept in the archive."""
        chain = self._model._log
        try:
            self._model.anchor_receipts(self._archive and self._archive / f"{self.name}.receipts.jsonl")
            self._replace_file(number)
        except BaseException:
            self._model._log = chain  # As in the file: numbers of receipts go on from there.
            raise

    def save(self) -> bool:
        """Take a snapshot and return whether all is in the file; what is not stays in the journal.

        Runs in the writer.
        """
        try:
            self.saves["written"] += self.snapshot()
        except (OSError, ValueError) as error:
            self.saves["failed"] += 1
            _LOG.warning("model %s cannot be saved for now: %s", self.name, type(error).__name__)
            return False
        return True

    def saved(self) -> View:
        """Save and return the model: what is said of it stays true, whatever happens. Runs in the writer."""
        if not self.save():
            raise RequestError(507, "the model cannot be saved for now", 30)
        return self.ready_view()

    def _has_unused_levels(self) -> bool:
        """Return whether columns stand for levels that only forgotten rows had."""
        preparation = Record.of(self._model).preparation
        if preparation is None:
            return False
        return preparation.without_unused_levels(self._model._state.rows.X)[1].size < preparation.n_columns

    # Requests that change the model ----------------------------------------------------------------

    def change(self, kind: str, request: dict[str, Any], key: str | None, body: bytes) -> tuple[Entry, bool]:
        """Learn or forget rows; when this returns, the request is on disk and in place. Runs in the writer.

        Returns the entry of the journal, and whether it is that of an earlier request with the same key: then
        nothing has changed now. `body` is the request as it came.
        """
        asked = kind.encode() + b" " + body
        if key is not None:
            if not key or len(key) > _LONGEST_KEY:
                raise RequestError(400, f"an Idempotency-Key has 1 to {_LONGEST_KEY} characters")
            before = self._journal.answered(self.name, key, asked)
            if before is not None:
                if not before[1]:
                    raise RequestError(422, "this Idempotency-Key was used for another request")
                return before[0], True
        if self.unsaved:
            entry = self._apply(kind, request, key, asked)
        else:
            with ExitStack() as lock:  # Until the file has the request, unless it is refused.
                lock.enter_context(locked(self.path))
                self.look()
                entry = self._apply(kind, request, key, asked)
                self.unsaved_since = time.monotonic()
                self._lock = lock.pop_all()
        self.unsaved += 1
        return entry, False

    def _apply(self, kind: str, request: dict[str, Any], key: str | None, asked: bytes) -> Entry:
        self.check_changeable()
        with REQUESTS:
            change = proposed(self._model, kind, request, self._limits)
            entry = self._journal.append(self.name, kind, request, change.receipt, key=key, body=asked)
            change.put_in_place(entry.time)
            self._model = change.model
            self.view = View.of(self._model, entry.number)
        return entry

    def check_changeable(self) -> None:
        """Raise a RequestError unless rows can be learned and forgotten."""
        if not self.ready_view().can_change:
            raise RequestError(
                409,
                "the server can only predict with this kind of model: it does not hold rows as they are sent",
            )

    # Questions that take longer than a prediction --------------------------------------------------

    def ready_view(self) -> View:
        """Return the model as it is now; a RequestError (503) where it cannot be served."""
        view = self.view
        if view is None:
            raise RequestError(503, f"the model cannot be served: {self.fault or 'it is being loaded'}", 5)
        return view

    def report(self, most: int = 25) -> tuple[View, Report]:
        """Return what leaving each row out says of the model as it is now. Runs in the writer."""
        self.check_changeable()
        view = self.ready_view()
        if self._report is None or self._report[0] is not view:
            try:
                self._report = view, examine(self._model, most)
            except ValueError as error:
                raise RequestError(409, first_line(error)) from None
        return self._report

    def judged(self, view: View, X: FloatArray) -> tuple[View, Answer, FloatArray]:
        """Return a model, and its labels and calibrated probabilities. Runs in the writer.

        The first after a change leaves each row out.
        """
        current = self.view
        if current is not None and current.preparation == view.preparation and current.width == view.width:
            view = current
        return view, view.answer(X), view.estimator.predict_proba(np.asarray(X).view(PreparedRows))

    def close(self) -> None:
        """Let its threads end."""
        self.writer.shutdown(wait=True, cancel_futures=True)
        self._lock.close()
        self.predictions.close()


def _as_answered(log: Log, entry: Entry) -> Log:
    """Return a log whose last receipt, not sealed yet, says what a request was answered with."""
    *before, last = log.entries[: log.count]
    said = {name: entry.receipt[name] for name in ("residual", "checked", "sampled", "seconds")}
    again = replace(last, receipt=last.receipt.but(time=entry.time, **said))
    return replace(log, entries=[*before, again])


def _signature(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
