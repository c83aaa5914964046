"""A server in a thread of the tests, asked over real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from squaresvm.serve import Settings, make_app
from squaresvm.serve.endpoint import GuardedProtocol


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Asks one server; `token` goes with every request."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self.port, self.token = port, token

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None):
        sent = dict(headers or {})
        if self.token is not None:
            sent["authorization"] = f"Bearer {self.token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def post(self, path: str, value: Any, **headers: str) -> Reply:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return self.ask(
            "POST", path, json.dumps(value).encode(), {"content-type": "application/json", **named}
        )

    def wait_until_ready(self) -> None:
        end = time.monotonic() + 30
        while self.get("/v2/health/ready").status != 200:
            assert time.monotonic() < end, "the server did not get ready"
            time.sleep(0.02)


@contextmanager
def serving(folder, *, token: str | None = None, **settings):
    """Serve a folder until the end of the block; give a client."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    app = make_app(Settings(folder, **settings))
    config = uvicorn.Config(
        app, http=GuardedProtocol, ws="none", lifespan="on", log_level="critical", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    client = Client(listener.getsockname()[1], token)
    try:
        while not server.started:
            time.sleep(0.005)
        client.wait_until_ready()
        yield client
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
