"""`squaresvm serve` under load: predictions beside changes, slow clients, a long run.

    python benchmarks/serve_load.py load --seconds 60
    python benchmarks/serve_load.py slow
    python benchmarks/serve_load.py soak --seconds 600

Each starts a server of its own on a free port of 127.0.0.1, prints one JSON object, and fails where a promise
is broken. Thresholds, stated before anything was measured: 1,000 predictions a second from 32 clients on two
cores without an error; slow clients are gone after 40 s; memory and files of the last quarter of a long run
at most 1.2 times those of the second.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
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
                    if await asyncio.wait_for(_gone(reader), 1.0):
                        break
            except OSError:
                pass
            writer.close()
            return time.perf_counter() - start

        async def _gone(reader):
            try:
                async with asyncio.timeout(0.95):
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
    return {
        "slow_clients": 200,
        "longest_s": max(lasted),
        "predictions_meanwhile": len(times),
        "p99_ms": 1e3 * float(np.percentile(times, 99)),
    }


async def soak(options):
    """Mix all requests for long; memory and files level off."""
    rng, samples, count = random.Random(3), [], 0
    with tempfile.TemporaryDirectory() as folder:
        rows = make_model(folder, 500)
        server = Server(folder, "--save-seconds", "2")
        connection, queries = await ready(server.port), make_rows(20, seed=2)[0]
        start = time.perf_counter()
        following = 0.0
        while (elapsed := time.perf_counter() - start) < options.seconds:
            choice = rng.random()
            if choice < 0.6:
                status, _ = await connection.post(
                    "/v2/models/m/infer", infer_body(queries[: rng.randrange(1, 20)])
                )
            elif choice < 0.97:
                names = sorted(rows)
                if len(rows) > 500:
                    name = rng.choice(names)
                    del rows[name]
                    status, _ = await connection.post("/models/m/forget", {"ids": [name]})
                else:
                    row, label = [rng.gauss(0, 1) for _ in range(10)], rng.randrange(2)
                    rows[f"n{count}"] = np.array(row), label
                    body = {"records": [row], "labels": [label], "ids": [f"n{count}"]}
                    status, _ = await connection.post("/models/m/learn", body)
            else:
                path = rng.choice(["/models/m/receipts", "/models/m/certificate", "/models", "/metrics"])
                status, _ = await connection.ask("GET", path)
            assert status == 200
            count += 1
            if elapsed >= following:
                following += options.seconds / 40
                files = sum(path.stat().st_size for path in Path(folder).iterdir())
                samples.append((server.memory() / 2**20, files / 2**10))
        certificate = json.loads((await connection.ask("GET", "/models/m/certificate"))[1])
        status, body = await connection.post("/v2/models/m/infer", infer_body(queries))
        error = float(np.abs(decision(body) - reference(rows, queries)).max())
        server.end()
    memory, files = np.array(samples).T
    quarter = len(samples) // 4
    growth = [float(one[-quarter:].mean() / one[quarter : 2 * quarter].mean()) for one in (memory, files)]
    assert certificate["residual"] < 1e-6
    assert error < 1e-7
    assert max(growth) < 1.2, growth
    return {
        "seconds": options.seconds,
        "requests": count,
        "memory_mb": [round(float(one), 1) for one in memory[::8]],
        "files_kb": [round(float(one), 1) for one in files[::8]],
        "growth_of_memory_and_files": growth,
        "residual": certificate["residual"],
        "difference_to_a_refit": error,
    }


if __name__ == "__main__":
    run(__doc__.splitlines()[0], load, slow, soak)
