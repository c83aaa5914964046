"""Runs tables row by row, keeps what is finished, and goes on from there.

Rows are measured in another process: one that crashes or takes too long costs its own row and no other.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from squaresvm._version import __version__
from squaresvm.bench.data import MissingDataError
from squaresvm.bench.methods import METHODS, MissingPeerError, is_peer
from squaresvm.bench.protocols import measure
from squaresvm.bench.table import DataSet, PaperTable, TableRow
from squaresvm.bench.verdicts import judge
from squaresvm.runtime.atomic import replacing

__all__ = ["InProcess", "ResultsError", "Worker", "key_of", "read_results", "run_tables"]

FORMAT = 1
#: Seconds that any row may take in quick mode.
_QUICK_LIMIT = 20.0


class ResultsError(ValueError):
    """What is wrong with a file of results."""


def run_tables(
    tables: Sequence[PaperTable],
    *,
    data: Path | None,
    output: Path,
    quick: bool = False,
    isolated: bool = True,
    absent: Mapping[str, str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Run tables and keep the results in ``results.json`` of the output folder.

    Each finished row is written at once, the file being replaced whole. Rows that an earlier run with the
    same environment and the same declaration has finished are taken from it, and those of tables that are not
    asked for this time stay in the file: so a long run can be done table by table.

    Parameters
    ----------
    tables : sequence of PaperTable
    data : Path or None
        Folder of data sets.
    output : Path
        Folder, made where it is not there.
    quick : bool, default=False
        Fewer repeats, 20 s a row at most, and without rows that are marked as long.
    isolated : bool, default=True
        Whether rows run in a process of their own, where a crash or a limit ends no more than a row.
    absent : mapping, optional
        Why files could not be fetched, by name: what `fetch_missing` returns. Rows that need them say so.
    progress : callable, optional
        Is told rows done, rows in all, and what comes next.

    Returns
    -------
    dict
        What ``results.json`` holds.
    """
    output.mkdir(parents=True, exist_ok=True)
    path = output / "results.json"
    environment = environment_now()
    kept = _finished(path, environment)
    results: dict[str, Any] = {
        "format": FORMAT,
        "mode": "quick" if quick else "full",
        "environment": environment,
        "tables": {},
    }
    total, done = sum(len(table.rows) for table in tables), 0
    worker = Worker(data) if isolated else InProcess(data)
    try:
        for table in tables:
            entry = results["tables"][table.name] = _heading(table)
            for row in table.rows:
                if progress is not None:
                    progress(done, total, f"{table.name}: {row.data} {row.label} {row.work}")
                protocol = {**table.protocol, **(table.quick if quick else {})}
                key = key_of(table, row, protocol, quick=quick)
                outcome = kept.get(key) or _outcome(worker, table, row, protocol, quick, absent or {})
                entry["rows"].append(_line(table, row, key, outcome, quick))
                done += 1
                _write(
                    path, results | {"kept": _others(kept, results)}
                )  # Another call may name other tables.
    finally:
        worker.close()
    if progress is not None:
        progress(done, total, "")
    return results


def read_results(path: Path) -> dict[str, Any]:
    """Return a file of results.

    Raises
    ------
    ResultsError
        It is none.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: is not JSON ({error})") from None
    is_ours = isinstance(found, dict) and found.get("format") == FORMAT and "mode" in found
    if not is_ours or not isinstance(found.get("tables"), dict):
        raise ResultsError(f"{path}: holds no results of `squaresvm bench` in format {FORMAT}")
    return found


def environment_now() -> dict[str, Any]:
    """Return what results depend on beside the code."""
    packages = {
        "squaresvm",
        "numpy",
        "scipy",
        "scikit-learn",
        "numba",
        *(name for name, _ in METHODS.values()),
    }
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "packages": {name: _version_of(name) for name in sorted(packages)},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _version_of(package: str) -> str:
    if package == "squaresvm":
        return __version__
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _heading(table: PaperTable) -> dict[str, Any]:
    return {
        "title": table.title,
        "paper": table.paper,
        "where": table.where,
        "tuned_on_test": table.tuned_on_test,
        "tolerance": {name: asdict(rule) for name, rule in table.tolerance.items()},
        "remarks": list(table.remarks),
        "plot": dict(table.plot),
        "prepared": {name: list(data.prepare) for name, data in table.data.items()},
        "rows": [],
    }


def key_of(table: PaperTable, row: TableRow, protocol: Mapping[str, Any], *, quick: bool) -> str:
    """Return what names a row's work: change any of it, and the row is run again."""
    work = {
        "row": {
            name: value
            for name, value in asdict(row).items()
            if name not in ("paper", "differs", "tested", "label", "matched")
        },
        "data": asdict(table.data[row.data]),
        "protocol": dict(protocol),
        "quick": quick,
        "table": table.name,
    }
    return hashlib.sha256(json.dumps(work, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _outcome(
    worker: Worker | InProcess,
    table: PaperTable,
    row: TableRow,
    protocol: Mapping[str, Any],
    quick: bool,
    absent: Mapping[str, str],
) -> dict[str, Any]:
    if quick and not row.quick:
        return {"status": "left out", "reason": "takes too long for quick mode"}
    data = table.data[row.data]
    reasons = [f"{name}: {absent[name]}" for name in (*data.files, *data.test) if name in absent]
    if reasons:
        return {"status": "missing", "reason": "; ".join(reasons)}
    limit = min(row.limit, _QUICK_LIMIT) if quick else row.limit
    # What else runs on the machine: times are worth little where it is above 1 a core.
    load = {"load": round(os.getloadavg()[0], 2)} if hasattr(os, "getloadavg") else {}
    return {**load, **worker.run(row, data, protocol, limit)}


def _line(
    table: PaperTable, row: TableRow, key: str, outcome: Mapping[str, Any], quick: bool
) -> dict[str, Any]:
    values: Mapping[str, list[float]] = outcome.get("values", {})
    summary = {
        name: {
            "mean": float(np.mean(numbers)),
            "std": float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0,
            "median": float(np.median(numbers)),
        }
        for name, numbers in values.items()
    }
    for name, rule in table.tolerance.items():
        if rule.most and name in values:
            summary[name]["max"] = float(np.max(values[name]))
    return {
        "key": key,
        "data": row.data,
        "method": row.method,
        "label": row.label,
        "work": row.work,
        "peer": is_peer(row.method),
        "parameters": dict(row.parameters),
        "tuned": sorted(row.tune),
        "at": dict(row.at),
        "paper": dict(row.paper),
        "differs": row.differs,
        "tested": row.tested,
        "matched": row.matched,
        "summary": summary,
        "verdicts": {} if quick else judge(row.paper, summary, table.tolerance),
        **outcome,
    }


def _finished(path: Path, environment: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return outcomes by key of an earlier run on the same machine with the same versions."""
    if not path.is_file():
        return {}
    found = read_results(path)
    if found["environment"] != environment:
        return {}
    lines = [line for entry in found["tables"].values() for line in entry["rows"]] + found.get("kept", [])
    names = ("status", "values", "facts", "picture", "reason", "load")
    return {
        line["key"]: {name: line[name] for name in names if name in line}
        for line in lines
        if line["status"] in ("done", "limit")  # What failed or was missing is tried again.
    }


def _others(kept: Mapping[str, dict[str, Any]], results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return finished rows that this run has not come to or is not asked for: they must not be lost."""
    used = {line["key"] for entry in results["tables"].values() for line in entry["rows"]}
    return [{"key": key, **outcome} for key, outcome in kept.items() if key not in used]


def _write(path: Path, results: Mapping[str, Any]) -> None:
    with replacing(path) as file:
        file.write(json.dumps(results, allow_nan=False).encode("utf-8"))


class InProcess:
    """Measures rows in this process: without limits, and a crash is everybody's.

    Parameters
    ----------
    folder : Path or None
        Of data.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def run(self, row: TableRow, data: DataSet, protocol: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """Return what `Worker.run` returns."""
        return _attempt(row, data, protocol, self._folder)

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

    def run(self, row: TableRow, data: DataSet, protocol: Mapping[str, Any], limit: float) -> dict[str, Any]:
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
        pipe.send(_attempt(row, data, protocol, folder))


def _attempt(
    row: TableRow, data: DataSet, protocol: Mapping[str, Any], folder: Path | None
) -> dict[str, Any]:
    try:
        measured = measure(row, data, protocol, folder)
    except (MissingDataError, MissingPeerError) as error:
        return {"status": "missing", "reason": str(error)}
    except Exception as error:
        return {"status": "failed", "reason": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    return {"status": "done", **measured._asdict()}
