"""A server in a process of its own and clients that ask it, for the benchmarks of `squaresvm serve`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

import squaresvm

C, GAMMA = 10.0, 0.1


def make_rows(count, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 10))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=count) > 0).astype(int)


def make_model(folder, count):
    """Save a model of so many rows under the name m, with ids of its own; return rows and labels by id."""
    X, y = make_rows(count)
    names = [f"r{i}" for i in range(count)]
    squaresvm.save(squaresvm.LSSVC(C=C, gamma=GAMMA).fit(X, y, ids=names), Path(folder) / "m.model")
    return {name: (row, int(label)) for name, row, label in zip(names, X, y, strict=True)}


class Server:
    """A server in a process of its own."""

    def __init__(self, folder, *options, environment=None):
        command = [sys.executable, "-m", "squaresvm", "serve", str(folder), "--port", "0", *options]
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment and {**os.environ, **environment}
        )
        line = self.process.stdout.readline()
        self.port = int(line.split("127.0.0.1:")[1].split("/")[0])

    def memory(self):
        return psutil.Process(self.process.pid).memory_info().rss

    def end(self, kind=signal.SIGTERM):
        self.process.send_signal(kind)
        self.process.wait(60)
        self.process.stdout.close()


class Connection:
    """One HTTP/1.1 connection, kept alive; as little Python as possible: clients share the cores."""

    def __init__(self, port):
        self.port = port

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def ask(self, method, path, body=b"", headers=()):
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head[9:12]), await self.reader.readexactly(size)

    async def post(self, path, value, *headers):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return await self.ask("POST", path, body, ("Content-Type: application/json", *headers))

    def close(self):
        self.writer.close()


async def ready(port):
    """Return a connection to a server that answers; one that it has ended meanwhile is opened again."""
    while True:
        connection = await Connection(port).open()
        with suppress(OSError, asyncio.IncompleteReadError):
            while (await connection.ask("GET", "/v2/health/ready"))[0] != 200:
                await asyncio.sleep(0.02)
            return connection


def infer_body(X):
    tensor = {"name": "rows", "shape": list(X.shape), "datatype": "FP64", "data": X.reshape(-1).tolist()}
    return json.dumps({"inputs": [tensor]}).encode()


def decision(body):
    return np.array(json.loads(body)["outputs"][1]["data"])


def reference(rows, queries):
    X, y = np.array([row for row, _ in rows.values()]), np.array([label for _, label in rows.values()])
    return squaresvm.LSSVC(C=C, gamma=GAMMA).fit(X, y).decision_function(queries)


def run(description, *commands):
    """Run the command that the arguments name, and print what it found."""
    known = {one.__name__: one for one in commands}
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("command", choices=known)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=1e9, help="requests a second at most, of a soak")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(json.dumps({options.command: asyncio.run(known[options.command](options))}), flush=True)
