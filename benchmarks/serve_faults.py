"""`squaresvm serve` when things go wrong: killed, on a full disk, asked by somebody hostile.

    python benchmarks/serve_faults.py kill --rounds 100
    python benchmarks/serve_faults.py disk
    python benchmarks/serve_faults.py hostile --count 10000

Each starts servers of its own on a free port of 127.0.0.1, prints one JSON object, and fails where a promise
is broken. Thresholds, stated before anything was measured: nothing acknowledged is lost, and answers are
those of a refit to 1e-8; no answer of 500; memory at the end at most 1.2 times that after a fifth.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
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


def next_change(rows, rng, number):
    """Return a request and the rows that it leads to."""
    if rng.random() < 0.5 and len(rows) > 150:
        name = rng.choice(sorted(rows))
        rest = {one: value for one, value in rows.items() if one != name}
        return "forget", {"ids": [name]}, rest
    row, label = [rng.gauss(0, 1) for _ in range(10)], rng.randrange(2)
    name = f"n{number}"
    added = {**rows, name: (np.array(row), label)}
    return "learn", {"records": [row], "labels": [label], "ids": [name]}, added


async def kill(options):
    """Kill the server under load, again and again; nothing that was answered may be lost."""
    rng, queries = random.Random(5), make_rows(20, seed=2)[0]
    with tempfile.TemporaryDirectory() as folder:
        rows, pending, ready_seconds = make_model(folder, 200), None, []
        serial = acknowledged = 0
        for round_number in range(options.rounds + 1):
            print(f"round {round_number}", file=sys.stderr)
            server = Server(folder, "--save-seconds", "0.2")
            connection = await ready(server.port)
            ready_seconds.append(time.perf_counter() - server.began)
            if pending is not None:
                kind, body, after, key = pending  # It was not answered: asking again applies it once.
                status, answer = await connection.post(f"/models/m/{kind}", body, f"Idempotency-Key: {key}")
                assert status == 200, answer
                rows, pending = after, None
            status, body = await connection.post("/v2/models/m/infer", infer_body(queries))
            error = float(np.abs(decision(body) - reference(rows, queries)).max())
            assert error < 1e-8, (round_number, error)
            if round_number == options.rounds:
                server.end()
                break
            deadline = time.perf_counter() + rng.uniform(0.02, 0.9)

            async def predict(port=server.port, deadline=deadline):
                other = await Connection(port).open()
                while time.perf_counter() < deadline:
                    await other.post("/v2/models/m/infer", infer_body(queries[:1]))

            others = [asyncio.create_task(predict()) for _ in range(4)]
            killer = asyncio.get_running_loop().call_at(
                asyncio.get_running_loop().time() + deadline - time.perf_counter(), server.process.kill
            )
            while True:
                serial, key = serial + 1, f"key-{serial}"
                kind, body, after = next_change(rows, rng, serial)
                try:
                    status, answer = await connection.post(
                        f"/models/m/{kind}", body, f"Idempotency-Key: {key}"
                    )
                except (OSError, asyncio.IncompleteReadError):
                    pending = kind, body, after, key
                    break
                assert status == 200, answer
                rows, acknowledged = after, acknowledged + 1
            killer.cancel()
            server.process.kill()  # Whatever else has ended the connection.
            server.process.wait(30)
            server.process.stdout.close()
            await asyncio.gather(*others, return_exceptions=True)
        size = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
    return {
        "kills": options.rounds,
        "acknowledged": acknowledged,
        "lost": 0,
        "largest_difference_to_a_refit": error,
        "start_to_ready_s": float(np.median(ready_seconds)),
        "files": size,
    }


@contextmanager
def small_disk(size):
    """Give a folder that is a disk of its own; needs the right to mount."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


async def disk(options):
    """Fill a disk of 8 MB, kill the server while it is full, then make room: nothing acknowledged is lost."""
    with small_disk("8m") as folder:
        rows = make_model(folder, 200)
        (folder / "filler").write_bytes(bytes(7 * 2**20))
        server = Server(folder, "--save-seconds", "0.3")
        connection, queries = await ready(server.port), make_rows(20, seed=2)[0]
        taken, refused, errors = 0, [], []

        async def learn(number):
            nonlocal taken
            X, y = make_rows(40, seed=number + 10)
            names = [f"d{number}-{i}" for i in range(40)]
            body = {"records": X.tolist(), "labels": y.tolist(), "ids": names}
            status, answer = await connection.post("/models/m/learn", body)
            assert status in (200, 507), answer
            if status == 507:
                refused.append(json.loads(answer)["error"])
                return
            taken += 1
            rows.update(zip(names, zip(X, map(int, y), strict=True), strict=True))

        async def check():
            status, answer = await connection.post("/v2/models/m/infer", infer_body(queries))
            assert status == 200, answer
            errors.append(float(np.abs(decision(answer) - reference(rows, queries)).max()))

        number = 0
        while len(refused) < 30:
            await learn(number)
            number += 1
        await check()
        free = shutil.disk_usage(folder).free
        server.end(signal.SIGKILL)
        server = Server(folder, "--save-seconds", "0.3")
        connection = await ready(server.port)
        await check()
        (folder / "filler").unlink()
        before = taken
        for more in range(10):
            await learn(number + more)
        assert taken == before + 10, "the server does not recover"
        await check()
        verdict = (await connection.ask("GET", "/models/m/verify"))[1]
        assert json.loads(verdict)["ok"], verdict
        server.end()
        held = squaresvm.load(folder / "m.model").ids_.tolist()
        assert sorted(held) == sorted(rows)
    assert max(errors) < 1e-8
    return {
        "taken_until_full": before,
        "refused_whole": len(refused),
        "free_bytes_then": free,
        "said": sorted(set(refused)),
        "largest_difference_to_a_refit": max(errors),
    }


def hostile_value(rng, depth=0):
    kind = rng.randrange(14 if depth < 4 else 9)
    simple = [
        None,
        True,
        rng.randrange(-(2**70), 2**70),
        rng.choice([1e308, -1e-320, 0.1, -0.0, 10.0**300]),
        rng.choice(["", "r1", "\0", "é" * 50, "../m", "1e999", "NaN", "<script>", "x" * 5000]),
        rng.choice([[], {}, [[]], [{}]]),
        f"r{rng.randrange(10**6)}",
        rng.gauss(0, 1),
        rng.randrange(-3, 300),
    ]
    if kind < 9:
        return simple[kind]
    items = [hostile_value(rng, depth + 1) for _ in range(rng.randrange(5))]
    if kind < 11:
        return items
    names = ["name", "shape", "datatype", "data", "parameters", "binary_data_size", "ids", "records", "a"]
    return {rng.choice(names): item for item in items}


#: What a good request to a route speaks of.
_NAMES = {
    "/v2/models/m/infer": ["inputs"],
    "/models/m/predict": ["records"],
    "/models/m/learn": ["records", "labels", "ids"],
    "/models/m/forget": ["ids"],
    "/play/board": ["action", "points"],
}


def hostile_body(rng):
    """Return a route, headers and a body that mean no good."""
    route = rng.choice([*_NAMES])
    good = {
        "inputs": [{"name": "rows", "shape": [1, 10], "datatype": "FP64", "data": [0.5] * 10}],
        "records": [[0.5] * 10],
        "labels": [1],
        "ids": [f"r{rng.randrange(300)}"],
        "action": rng.choice(["add", "move", "remove", "set", "sample", "check", "replace", "?"]),
        "points": [{"x": 0.1, "y": 0.2, "label": 1}],
    }
    if rng.random() < 0.9:  # Names that a route does not know are refused at once.
        good = {name: good[name] for name in _NAMES[route]}
    for _ in range(rng.randrange(1, 4)):
        name = rng.choice([*[*good] * 8, "outputs", "id", "board", "estimator", "kernel", "C", "x", "y"])
        value = good.get(name)
        if isinstance(value, list) and value and rng.random() < 0.6:
            inner = value[0] if isinstance(value[0], dict | list) and value[0] else value
            at = rng.choice([*inner, "parameters"]) if isinstance(inner, dict) else rng.randrange(len(inner))
            inner[at] = hostile_value(rng)
        else:
            good[name] = hostile_value(rng)
    text = json.dumps(good).encode()
    kind = rng.randrange(10)
    if kind == 0:  # Bytes changed, cut or doubled.
        at = rng.randrange(len(text))
        text = (
            text[:at]
            + bytes(rng.randrange(256) for _ in range(rng.randrange(4)))
            + text[at + rng.randrange(3) :]
        )
    elif kind == 1:
        text = text[: rng.randrange(len(text))]
    elif kind == 2:
        text = bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    elif kind == 3:
        text = rng.choice([b"[" * 5000, b'{"a":' * 5000, b"1" * 5000, b'"\\ud800"', b"NaN", b"-", b""])
    header = rng.choice(["application/json", "text/csv", "application/json; charset=utf-16", "text/plain"])
    headers = [f"Content-Type: {header if rng.random() < 0.3 else 'application/json'}"]
    if rng.random() < 0.1:
        headers.append(
            f"Inference-Header-Content-Length: {rng.choice(['-1', '9' * 30, '5', 'x', str(len(text))])}"
        )
    if rng.random() < 0.1:
        headers.append(f"Idempotency-Key: {rng.choice(['', 'k', 'k' * 1000])}")
    return route, tuple(headers), text


async def hostile(options):
    """Send hostile bodies: every answer is a clear one, and memory does not grow."""
    rng, statuses = random.Random(11), {}
    with tempfile.TemporaryDirectory() as folder:
        make_model(folder, 300)
        server = Server(folder)
        connection, memory = await ready(server.port), []
        for number in range(options.count):
            route, headers, body = hostile_body(rng)
            try:
                status, answer = await connection.ask("POST", route, body, headers)
            except (OSError, asyncio.IncompleteReadError):
                status, connection = 0, await Connection(server.port).open()
            else:
                if status in (408, 413):
                    connection = await Connection(server.port).open()
            statuses[status] = statuses.get(status, 0) + 1
            assert status < 500 or status == 503, (status, route, body[:200], answer)
            if status >= 400:
                assert "error" in json.loads(answer)
            if number % (options.count // 10) == 0:
                memory.append(server.memory() / 2**20)
        # What was taken of all that can be saved, and its file is true.
        status, answer = await connection.ask("GET", "/models/m/verify")
        assert status == 200, answer
        assert json.loads(answer)["ok"], answer
        server.end()
    assert memory[-1] < 1.2 * memory[2], memory
    return {"bodies": options.count, "statuses": statuses, "memory_mb": [round(one, 1) for one in memory]}


if __name__ == "__main__":
    run(__doc__.splitlines()[0], kill, disk, hostile)
