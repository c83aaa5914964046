"""What all routes have in common: who may, how much, how long, what is counted and said when it fails."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from squaresvm.serve.access import Access
from squaresvm.serve.failures import RequestError
from squaresvm.serve.journal import JournalError
from squaresvm.serve.metrics import Metrics
from squaresvm.serve.rows import Limits, csv_request, json_object

__all__ = ["Endpoint", "Gate", "body_of", "error_response", "json_response", "read_body"]

_LOG = logging.getLogger("squaresvm.serve")
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
    """A route.

    Parameters
    ----------
    method, path : str
        The path with names in braces.
    answer : callable
        Takes a request, returns a response.
    roles : sequence of str
        One of which a token needs; none: open to everybody.
    summary : str
        For the documentation.
    body : str, optional
        Name of the schema of the body.
    headers : sequence of str
        Names of headers that it heeds.
    """

    method: str
    path: str
    answer: Callable[[Request], Awaitable[Response]]
    roles: Sequence[str] = ()
    summary: str = ""
    body: str | None = None
    headers: Sequence[str] = field(default_factory=tuple)


class Gate:
    """Lets requests through to the routes, and turns what goes wrong into answers.

    Parameters
    ----------
    access : Access
    limits : Limits
    metrics : Metrics
    hosts : frozenset of str or None
        Names under which the server may be asked for; None: any. Without tokens a page elsewhere could else
        have its own name point to this machine and ask in its reader's stead.
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
            return error_response(RequestError(500, "an error of the server, which its log names"))
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
    request: Request, body: bytes, label: str | None, id: str | None, limits: Limits
) -> dict[str, Any]:
    """Return what a body says, in JSON or in CSV."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return json_object(body)
    if kind == "text/csv":
        return csv_request(body, label, id, limits)
    # Other kinds a page from elsewhere could send in its reader's stead.
    raise RequestError(415, "the Content-Type must be application/json or text/csv")
