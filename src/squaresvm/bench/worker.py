"""A process that measures rows: one that crashes or takes too long costs its own row and no other."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

from squaresvm.bench.data import MissingDataError
from squaresvm.bench.peers import MissingPeerError
from squaresvm.bench.protocols import measure
from squaresvm.bench.table import DataSet, Row

__all__ = ["InProcess", "Worker"]


class InProcess:
    """Measures rows in this process: without limits, and a crash is everybody's.

    Parameters
    ----------
    folder : Path or None
        Of data.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def run(self, row: Row, data: DataSet, protocol: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """Return what `Worker.run` returns."""
        return _outcome(row, data, protocol, self._folder)

    def close(self) -> None:
        """Do nothing."""


class Worker:
    """Measures rows in a child process, which is started anew after a crash or a row that was ended.

    Parameters
    ----------
    folder : Path or None
        Of data.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._process: Any = None
        self._pipe: Connection | None = None

    def run(self, row: Row, data: DataSet, protocol: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """Return ``status`` and either ``values``, ``facts`` and ``picture``, or the ``reason`` for none."""
        pipe = self._started()
        pipe.send((row, data, protocol))
        try:
            if not pipe.poll(limit):
                self.close()
                return {"status": "limit", "reason": f"ended after {limit:g} s"}
            return pipe.recv()
        except (EOFError, ConnectionError):
            code = self._process.exitcode
            self.close()
            return {"status": "failed", "reason": f"its process ended with code {code}"}
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None

    def _started(self) -> Connection:
        if self._pipe is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs, self._folder), daemon=True)
            self._process.start()
            theirs.close()
            self._pipe.recv()  # Until it has imported all it needs: that is no row's time.
        return self._pipe


def _end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, killed or not, in the middle of a row."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _serve(pipe: Connection, folder: Path | None) -> None:
    Thread(target=_end_with_parent, name="squaresvm-parent", daemon=True).start()
    pipe.send("ready")
    while True:
        try:
            row, data, protocol = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        pipe.send(_outcome(row, data, protocol, folder))


def _outcome(row: Row, data: DataSet, protocol: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    try:
        measured = measure(row, data, protocol, folder)
    except (MissingDataError, MissingPeerError) as error:
        return {"status": "missing", "reason": str(error)}
    except Exception as error:
        return {"status": "failed", "reason": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    return {"status": "done", **measured._asdict()}
