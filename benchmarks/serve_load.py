"""`squaresvm serve` under load: predictions beside changes, slow clients, a long run.

    python benchmarks/serve_load.py load --seconds 60
    python benchmarks/serve_load.py start --rounds 5
    python benchmarks/serve_load.py slow
    python benchmarks/serve_load.py soak --seconds 3600 --rate 20

Each starts a server of its own on a free port of 127.0.0.1, prints one JSON object, and fails where a promise
is broken. Thresholds, stated before anything was measured: 1,000 predictions a second from 32 clients on two
cores without an error; the first page 3 s after the start; slow clients are gone after 40 s. Of a long run
that fills the 10,000 receipts which the journal keeps before it is half over: memory of the last quarter at
most 1.1 times that of the second, files of the last quarter at most 1.05 times those of the third.
"""

from __future__ import annotations

import asyncio
import compileall
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
from serve_client import (
    Connection,
    Server,
    decision,
    infer_body,
    make_model,
    make_rows,
    ready,
    reference,
    run,
)

import squaresvm


async def load(options):
    """Have 32 clients predict single rows while one learns and forgets a row all the time."""
    with tempfile.TemporaryDirectory() as folder:
        make_model(folder, 2000)
        server = Server(folder)
        control = await ready(server.port)
        start_seconds = time.perf_counter() - server.began
        queries = make_rows(64, seed=1)[0]
        extra = {"records": [[0.3] * 10], "labels": [1], "ids": ["extra"]}
        expected = [decision((await control.post("/v2/models/m/infer", infer_body(queries)))[1])]
        await control.post("/models/m/learn", extra)
        expected.append(decision((await control.post("/v2/models/m/infer", infer_body(queries)))[1]))
        await control.post("/models/m/forget", {"ids": ["extra"]})
        end = time.perf_counter() + options.seconds
        times, changes, mixed = [], [], 0

        async def client(number):
            nonlocal mixed
            connection, at = await Connection(server.port).open(), number
            bodies = [infer_body(queries[i : i + 1]) for i in range(64)]
            while time.perf_counter() < end:
                at = (at + 7) % 64
                start = time.perf_counter()
                status, body = await connection.post("/v2/models/m/infer", bodies[at])
                times.append(time.perf_counter() - start)
                assert status == 200, (status, body)
                if len(times) % 16 == 0:
                    value = decision(body)[0]
                    mixed += int(min(abs(value - one[at]) for one in expected) > 1e-9)
            connection.close()

        async def changer():
            while time.perf_counter() < end:
                for path, body in (("learn", extra), ("forget", {"ids": ["extra"]})):
                    start = time.perf_counter()
                    status, answer = await control.post(f"/models/m/{path}", body)
                    changes.append(time.perf_counter() - start)
                    assert status == 200, answer

        await asyncio.gather(*[client(number) for number in range(32)], changer())
        certificate = json.loads((await control.ask("GET", "/models/m/certificate"))[1])
        control.close()
        server.end()
    found = {
        "predictions_per_second": len(times) / options.seconds,
        "p50_ms": 1e3 * float(np.percentile(times, 50)),
        "p99_ms": 1e3 * float(np.percentile(times, 99)),
        "changes_per_second": len(changes) / options.seconds,
        "change_p50_ms": 1e3 * float(np.percentile(changes, 50)),
        "change_p99_ms": 1e3 * float(np.percentile(changes, 99)),
        "answers_of_a_mixture": mixed,
        "residual": certificate["residual"],
        "start_to_ready_s": start_seconds,
    }
    assert mixed == 0
    assert certificate["residual"] < 1e-6
    return found


async def start(options):
    """Time the command until the first page and a prediction: warm, off the disk, with no loops compiled."""
    compileall.compile_dir(Path(squaresvm.__file__).parent, quiet=1)  # As an installation does.
    found = {}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as empty:
        make_model(folder, 2000)
        uncompiled = {"NUMBA_CACHE_DIR": f"{empty}/numba"}
        conditions = {"warm": (False, {}), "off_the_disk": (True, {}), "first_run": (True, uncompiled)}
        for name, (from_disk, environment) in conditions.items():
            times = []
            for _ in range(options.rounds):
                shutil.rmtree(f"{empty}/numba", ignore_errors=True)
                if from_disk:
                    os.sync()
                    Path("/proc/sys/vm/drop_caches").write_text("3")  # Needs root.
                times.append(await _first_page(folder, environment))
            found[name] = {key: [one[key] for one in times] for key in times[0]}
    print(json.dumps(found), file=sys.stderr)
    assert max(max(one["page_s"]) for one in found.values()) < 3
    return found


async def _first_page(folder, environment):
    server = Server(folder, environment=environment)
    connection = await Connection(server.port).open()
    times = {}
    for key, path in (("page_s", "/"), ("page_of_the_model_s", "/ui/m")):
        status, page = await connection.ask("GET", path)
        assert status == 200, page
        times[key] = round(time.perf_counter() - server.began, 2)
    connection.close()
    control = await ready(server.port)
    await control.post("/v2/models/m/infer", infer_body(make_rows(1)[0]))
    times["prediction_s"] = round(time.perf_counter() - server.began, 2)
    control.close()
    server.end()
    return times


async def slow(options):
    """Have 200 clients send one byte a second, in the head or in the body, beside one in a hurry."""
    with tempfile.TemporaryDirectory() as folder:
        make_model(folder, 500)
        server = Server(folder)
        control = await ready(server.port)
        head = b"POST /models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

        async def crawl(number):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            start = time.perf_counter()
            if number % 2:
                writer.write(head + b"Content-Length: 1000\r\n\r\n")
            try:
                for byte in head if number % 2 == 0 else b" " * 1000:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    if await _gone(reader):
                        break
                else:
                    raise AssertionError("the server has waited for all that a slow client sends")
            except ConnectionError:
                pass
            writer.close()
            return time.perf_counter() - start

        async def _gone(reader):
            try:
                async with asyncio.timeout(1.0):
                    return await reader.read(1000) is not None
            except TimeoutError:
                return False

        crawlers = [asyncio.create_task(crawl(number)) for number in range(200)]
        times, body = [], infer_body(make_rows(1, seed=3)[0])
        while not all(task.done() for task in crawlers):
            start = time.perf_counter()
            status, _ = await control.post("/v2/models/m/infer", body)
            assert status == 200
            times.append(time.perf_counter() - start)
            await asyncio.sleep(0.01)
        lasted = [task.result() for task in crawlers]
        server.end()
    assert max(lasted) < 40
    assert min(lasted) > 5, "the clients were not slow"
    return {
        "slow_clients": 200,
        "shortest_s": min(lasted),
        "longest_s": max(lasted),
        "predictions_meanwhile": len(times),
        "p99_ms": 1e3 * float(np.percentile(times, 99)),
    }


_READ = ("receipts", "certificate", "report")


class Patient:
    """A client that asks again where a connection ends or the server wants it to: keys make that safe."""

    def __init__(self, connection):
        self._connection, self.repeated = connection, 0

    async def ask(self, method, path, body=b"", headers=()):
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                status, answer = await self._connection.ask(method, path, body, headers)
                if status != 503:
                    return status, answer
            self.repeated += 1
            await asyncio.sleep(1.0)
            self._connection.close()
            self._connection = await Connection(self._connection.port).open()

    async def post(self, path, value, *headers):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return await self.ask("POST", path, body, ("Content-Type: application/json", *headers))


class Mixed:
    """Requests of every kind, one after the other, and what the model then holds."""

    def __init__(self, connection, rows):
        self._connection, self.rows = connection, rows
        self._rng, self._count, self._board = random.Random(3), 0, None
        self._queries = make_rows(20, seed=2)[0]
        self._kinds = {
            self.infer: 50,
            self.probabilities: 8,
            self.change: 35,
            self.read: 4,
            self.play: 2.5,
            self.prove: 0.5,
        }

    async def one(self):
        """Ask something; every answer must be 200."""
        kind = self._rng.choices([*self._kinds], [*self._kinds.values()])[0]
        status, body = await kind()
        assert status == 200, (kind.__name__, status, body[:300])
        self._count += 1
        return kind.__name__

    async def infer(self):
        return await self._connection.post(
            "/v2/models/m/infer", infer_body(self._queries[: self._rng.randrange(1, 20)])
        )

    async def probabilities(self):
        body = {"records": self._queries[:3].tolist(), "probabilities": True}
        return await self._connection.post("/models/m/predict", body)

    async def change(self):
        count, key = self._rng.choice([1, 1, 1, 3]), f"Idempotency-Key: {self._count}"
        if len(self.rows) > 500:
            names = self._rng.sample(sorted(self.rows), count)
            for name in names:
                del self.rows[name]
            return await self._connection.post("/models/m/forget", {"ids": names}, key)
        X = [[self._rng.gauss(0, 1) for _ in range(10)] for _ in range(count)]
        y = [self._rng.randrange(2) for _ in range(count)]
        names = [f"n{self._count}-{at}" for at in range(count)]
        self.rows |= {name: (np.array(row), label) for name, row, label in zip(names, X, y, strict=True)}
        body = {"records": X, "labels": y, "ids": names}
        return await self._connection.post("/models/m/learn", body, key)

    async def read(self):
        paths = (
            "/models/m/receipts",
            "/models/m/certificate",
            "/models/m/report",
            "/models",
            "/metrics",
            "/",
        )
        return await self._connection.ask("GET", self._rng.choice(paths))

    async def play(self):
        place = {axis: self._rng.uniform(-1, 1) for axis in "xy"}
        body = {"board": self._board, "action": "sample", "name": "moons"}
        if self._board is not None and self._rng.random() < 0.9:
            body = {"board": self._board, "action": "add", "points": [{**place, "label": 1}]}
        status, answer = await self._connection.post("/play/board", body)
        self._board = json.loads(answer).get("board")
        return status, answer

    async def prove(self):
        if self._rng.random() < 0.5:
            return await self._connection.ask("GET", "/models/m/verify")
        return await self._connection.post("/models/m/absence", {"id": f"never-{self._count}"})


async def soak(options):
    """Mix all requests for long, at a bounded rate; memory and files level off, the residual stays small."""
    samples, counts = [], Counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = make_model(folder, 500)
        server = Server(folder, "--save-seconds", "2")
        connection = Patient(await ready(server.port))
        mixed, start = Mixed(connection, rows), time.perf_counter()
        while (elapsed := time.perf_counter() - start) < options.seconds:
            if elapsed >= len(samples) * options.seconds / 60:
                sizes = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
                certificate = json.loads((await connection.ask("GET", "/models/m/certificate"))[1])
                samples.append(
                    (server.memory() / 2**20, sum(sizes.values()) / 2**10, certificate["residual"])
                )
                print(round(elapsed), [float(f"{one:.4g}") for one in samples[-1]], sizes, file=sys.stderr)
            await asyncio.sleep(max(0.0, start + counts.total() / options.rate - time.perf_counter()))
            counts[await mixed.one()] += 1
        verdict = json.loads((await connection.ask("GET", "/models/m/verify"))[1])
        queries = make_rows(20, seed=2)[0]
        body = (await connection.post("/v2/models/m/infer", infer_body(queries)))[1]
        error = float(np.abs(decision(body) - reference(rows, queries)).max())
        server.end()
    memory, files, residual = np.array(samples).T
    quarter = len(samples) // 4
    growth = {
        "memory": float(memory[-quarter:].mean() / memory[quarter : 2 * quarter].mean()),
        "files": float(files[-quarter:].mean() / files[-2 * quarter : -quarter].mean()),
    }
    found = {
        "seconds": options.seconds,
        "requests": dict(counts),
        "asked_again": connection.repeated,
        "memory_mb": [round(float(one), 1) for one in memory[::6]],
        "files_kb": [round(float(one), 1) for one in files[::6]],
        "growth": growth,
        "largest_residual": float(residual.max()),
        "difference_to_a_refit": error,
    }
    print(json.dumps(found), file=sys.stderr)
    assert verdict["ok"], verdict
    assert residual.max() < 1e-6
    assert error < 1e-7
    assert growth["memory"] <= 1.1, growth
    assert growth["files"] <= 1.05, growth
    return found


if __name__ == "__main__":
    run(__doc__.splitlines()[0], load, start, slow, soak)
