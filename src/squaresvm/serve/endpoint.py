"""What all routes have in common: who may, how much, how long, what is counted and said when it fails."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from squaresvm.serve.access import Access
from squaresvm.serve.folder import Folder
from squaresvm.serve.journal import JournalError
from squaresvm.serve.rows import Limits, RequestError, csv_request, json_object

__all__ = [
    "Endpoint",
    "Gate",
    "GuardedProtocol",
    "Metrics",
    "body_of",
    "error_response",
    "json_response",
    "read_body",
]

_LOG = logging.getLogger("squaresvm.serve")
#: Bytes and seconds that the head of a request may take.
_HEAD_BYTES = 64 * 2**10
_HEAD_SECONDS = 10.0
#: Limits of the histogram of times.
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
#: On every answer. Pages load nothing from elsewhere, run no inline code, and are in nobody's frame.
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


@dataclass(frozen=True)
class Endpoint:
    """A route. The docstring of what answers it is its documentation for programs."""

    method: str
    path: str
    answer: Callable[[Request], Awaitable[Response]]
    #: One of which a token needs; none: open to everybody.
    roles: Sequence[str] = ()
    #: Name of the schema of the body.
    body: str | None = None
    #: Names of headers that it heeds.
    headers: Sequence[str] = ()


class Metrics:
    """Counters of one server."""

    def __init__(self, folder: Folder) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "squaresvm_requests",
            "Requests by route and status.",
            ["route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "squaresvm_request_seconds",
            "Time from the head of a request to its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._changed = Counter(
            "squaresvm_rows_changed", "Rows learned and forgotten.", ["kind"], registry=self._registry
        )
        self._predicted = Counter("squaresvm_rows_predicted", "Rows predicted.", registry=self._registry)
        self._registry.register(_OfModels(folder))

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_rows(self, kind: str, rows: int) -> None:
        """Count rows that were learned, forgotten or predicted."""
        if kind == "predict":
            self._predicted.inc(rows)
        else:
            self._changed.labels(kind).inc(rows)

    def text(self) -> bytes:
        """Return all of them."""
        return bytes(generate_latest(self._registry))


class _OfModels(Collector):
    """What is read from the models when somebody asks."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        """Return what the models say now."""
        held = GaugeMetricFamily("squaresvm_rows_held", "Rows that a model holds.", labels=["model"])
        unsaved = GaugeMetricFamily(
            "squaresvm_unsaved_requests", "Requests in the journal, not yet in the file.", labels=["model"]
        )
        ready = GaugeMetricFamily("squaresvm_model_ready", "Whether a model can be asked.", labels=["model"])
        saves = CounterMetricFamily(
            "squaresvm_snapshots", "Model files written, or not.", labels=["model", "outcome"]
        )
        for name, model in sorted(self._folder.models.items()):
            view = model.view
            ready.add_metric([name], float(view is not None))
            unsaved.add_metric([name], float(model.unsaved))
            for outcome, count in model.saves.items():
                saves.add_metric([name, outcome], float(count))
            if view is not None and view.rows is not None:
                held.add_metric([name], float(view.rows))
        yield from (held, unsaved, ready, saves)


class Gate:
    """Lets requests through to the routes, and turns what goes wrong into answers.

    `hosts` are the names under which the server may be asked for; None: any. Without tokens a page elsewhere
    could else have its own name point to this machine and ask in its reader's stead.
    """

    def __init__(
        self, access: Access, limits: Limits, metrics: Metrics, hosts: frozenset[str] | None
    ) -> None:
        self._access, self._limits, self._metrics, self._hosts = access, limits, metrics, hosts
        self._in_flight = 0

    def guard(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        """Return the function of a route, guarded."""

        async def guarded(request: Request) -> Response:
            start = time.perf_counter()
            self._in_flight += 1
            try:
                response = await self._answered(endpoint, request)
            finally:
                self._in_flight -= 1
            seconds = time.perf_counter() - start
            self._metrics.count_request(endpoint.path, response.status_code, seconds)
            _LOG.debug(
                "%s %s %d %.1f ms", endpoint.method, endpoint.path, response.status_code, 1e3 * seconds
            )
            return response

        return guarded

    async def _answered(self, endpoint: Endpoint, request: Request) -> Response:
        try:
            self._check(endpoint, request)
            response = await endpoint.answer(request)
        except RequestError as error:
            return error_response(error)
        except JournalError:
            _LOG.error("the journal cannot be written: nothing was acknowledged")
            return error_response(RequestError(507, "the request cannot be stored: nothing has changed", 30))
        except ClientDisconnect:
            return error_response(RequestError(400, "the body did not arrive"))
        except MemoryError:
            return error_response(RequestError(503, "there is not enough memory for this request", 5))
        except Exception as error:
            # Where and what, and not the message: it may quote a row.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            _LOG.error("%s in %s, line %s", type(error).__name__, frame.filename, frame.lineno)
            return error_response(RequestError(500, "internal error: see the log of the server"))
        response.headers.update(_HEADERS)
        return response

    def _check(self, endpoint: Endpoint, request: Request) -> None:
        if self._in_flight > self._limits.in_flight:
            raise RequestError(503, "too many requests at a time", 1)
        if self._hosts is not None and _host(request.headers.get("host", "")) not in self._hosts:
            raise RequestError(421, "this server does not answer to this name")
        if endpoint.roles:
            self._access.check(request.headers.get("authorization"), endpoint.roles)


def _host(header: str) -> str:
    """Return the name in a Host header, without its port."""
    if header.startswith("["):
        return header.partition("]")[0].lstrip("[").lower()
    return header.partition(":")[0].lower()


def error_response(error: RequestError) -> Response:
    """Return the answer that tells of an error."""
    response = json_response({"error": error.message}, error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = str(error.retry_after)
    if error.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if error.status in (408, 413):
        response.headers["connection"] = "close"  # The rest of the body is not waited for.
    response.headers.update(_HEADERS)
    return response


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer in JSON; numbers that JSON does not have are null."""
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), allow_nan=False)
    return Response(text.encode("ascii"), status, headers, "application/json")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the body of a request, which has a limited size and a limited time."""
    if "content-encoding" in request.headers:
        raise RequestError(415, "compressed bodies are not taken")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limits.body:
        raise RequestError(413, f"the body has {length} bytes, and {limits.body} are allowed")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                size += len(part)
                if size > limits.body:
                    raise RequestError(
                        413, f"the body is longer than the {limits.body} bytes that are allowed"
                    )
                parts.append(part)
    except TimeoutError:
        raise RequestError(408, f"the body did not arrive within {limits.seconds:g} s") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def body_of(
    request: Request,
    body: bytes,
    names: Sequence[str],
    limits: Limits,
    *,
    label: str | None = None,
    id: str | None = None,
) -> dict[str, Any]:
    """Return what a body says, in JSON or in CSV: `names` are what it may speak of.

    A name that is not heeded, such as ``id`` for ``ids``, is refused: rows would be learned without.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        sent = json_object(body)
        unknown, known = [name for name in sent if name not in names], ", ".join(names)
        if unknown:
            raise RequestError(400, f"{unknown[0][:40]!r} is not a name that this route takes: {known}")
        return sent
    if kind == "text/csv":
        found = csv_request(body, label, id, limits)
        return {name: value for name, value in found.items() if name in names}
    # Other kinds a page from elsewhere could send in its reader's stead.
    raise RequestError(415, "the Content-Type must be application/json or text/csv")


# Connections ------------------------------------------------------------------------------------------


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 of uvicorn, which closes connections that do not send the head of a request in time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._got_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, unless a head grows too large."""
        if self._deadline is not None:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES and not self._may_be_body(data):
                self.transport.close()
                return
        super().data_received(data)

    def _may_be_body(self, data: bytes) -> bool:
        """Return whether a head ends in what came: then the rest is a body, which has limits of its own."""
        return b"\r\n\r\n" in data or b"\n\n" in data

    def on_message_begin(self) -> None:
        """Begin to wait for the end of the head."""
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        """Wait no longer."""
        self._got_head()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._got_head()
        self._deadline = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _got_head(self) -> None:
        self._head_bytes = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
