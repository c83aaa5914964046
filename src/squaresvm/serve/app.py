"""The application: routes and their description, pages, and the life of the server."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from squaresvm._version import __version__
from squaresvm.serve.access import Access
from squaresvm.serve.api import Api
from squaresvm.serve.endpoint import (
    Endpoint,
    Gate,
    GuardedProtocol,
    Metrics,
    error_response,
    json_response,
)
from squaresvm.serve.folder import Folder, model_files
from squaresvm.serve.play import Playground
from squaresvm.serve.rows import Limits, RequestError

__all__ = ["Settings", "make_app", "run"]

_LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}
_PAGES = {"/": "models.html", "/ui/{name}": "model.html", "/play": "play.html", "/docs": "docs.html"}
_RECORDS = {
    "type": "array",
    "minItems": 1,
    "description": "Objects of columns and values; lists of numbers where the columns have no names.",
    "items": {
        "anyOf": [
            {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean", "null"]}},
            {"type": "array", "items": {"type": "number"}},
        ]
    },
}
_NAMES = {"type": "array", "minItems": 1, "items": {"type": ["integer", "number", "string"]}}
_SCHEMAS: dict[str, Any] = {
    "Predict": {
        "type": "object",
        "additionalProperties": False,
        "required": ["records"],
        "properties": {"records": _RECORDS, "probabilities": {"type": "boolean", "default": False}},
    },
    "Learn": {
        "type": "object",
        "additionalProperties": False,
        "required": ["records", "labels"],
        "properties": {
            "records": _RECORDS,
            "labels": {"type": "array", "minItems": 1, "items": {"type": ["number", "string", "boolean"]}},
            "ids": _NAMES,
        },
    },
    "Absence": {
        "type": "object",
        "additionalProperties": False,
        "required": ["id"],
        "properties": {"id": {"type": ["integer", "number", "string"]}},
    },
    "Forget": {
        "type": "object",
        "additionalProperties": False,
        "required": ["ids"],
        "properties": {"ids": _NAMES},
    },
    "Infer": {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string"},
            "inputs": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["name", "shape", "datatype"],
                    "properties": {
                        "name": {"type": "string"},
                        "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                        "datatype": {"type": "string"},
                        "data": {"type": "array", "items": {}},
                    },
                },
            },
            "outputs": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        },
    },
    "Play": {"type": "object"},
    "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
}
_STATUSES = {
    "400": "The body cannot be read.",
    "401": "A token is needed.",
    "403": "The token has another role.",
    "404": "No such model.",
    "409": "This kind of model cannot do that.",
    "413": "Too large.",
    "415": "Another Content-Type is needed.",
    "422": "The body can be read, and the model cannot use it; nothing has changed.",
    "503": "Too much waits, or the model cannot be served; Retry-After says when to try again.",
    "507": "The disk is full; nothing has changed.",
}


@dataclass(frozen=True)
class Settings:
    """How a folder is served.

    Parameters
    ----------
    folder : Path
    host : str
    port : int
        0: any that is free.
    tokens : Path or None
        A file of tokens; needed for hosts that other machines reach.
    limits : Limits
    save_seconds : float
        After which an acknowledged request is in the model file.
    archive : Path or None
        Folder for receipts that an anchor stands for; None: they are not kept.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8000
    tokens: Path | None = None
    limits: Limits = field(default_factory=Limits)
    save_seconds: float = 10.0
    archive: Path | None = None

    def check(self) -> None:
        """Raise a ValueError where this cannot be served."""
        if not self.folder.is_dir():
            raise ValueError(f"{self.folder}: no such folder")
        if self.archive is not None and not self.archive.is_dir():
            raise ValueError(f"{self.archive}: no such folder")
        if not self.is_local and self.tokens is None:
            raise ValueError(
                f"--host {self.host} can be reached from other machines: name a file of tokens with --tokens "
                "(make one with --add-token)"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the host."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def make_app(settings: Settings) -> Starlette:
    """Return the application, which any ASGI server runs.

    Parameters
    ----------
    settings : Settings

    Raises
    ------
    ValueError
        If the folder is missing, or others could reach it without a token.
    JournalError
        If another server has the folder open.
    """
    settings.check()
    access = Access() if settings.tokens is None else Access.read(settings.tokens)
    folder = Folder(
        settings.folder, settings.limits, save_seconds=settings.save_seconds, archive=settings.archive
    )
    metrics = Metrics(folder)
    api = Api(folder, settings.limits, metrics)
    playground = Playground(settings.limits)
    hosts = _LOCAL_NAMES | {settings.host.lower()} if access.is_open else None
    gate = Gate(access, settings.limits, metrics, hosts)
    programs = [*api.endpoints, *playground.endpoints]
    description = _described(programs)

    async def openapi(request: Request) -> Response:
        return json_response(description)

    endpoints = [
        *programs,
        Endpoint("GET", "/openapi.json", openapi),
        *[Endpoint("GET", path, _static(name)) for path, name in _PAGES.items()],
        *[Endpoint("GET", f"/static/{name}", _static(name)) for name in _static_names()],
    ]
    routes = [Route(endpoint.path, gate.guard(endpoint), methods=[endpoint.method]) for endpoint in endpoints]

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        opening = asyncio.create_task(asyncio.to_thread(folder.open_all))
        try:
            yield
        finally:
            await opening
            await asyncio.to_thread(folder.close)
            playground.close()

    return Starlette(routes=routes, lifespan=life, exception_handlers={404: _not_found, 405: _wrong_method})


async def _not_found(request: Request, error: Exception) -> Response:
    return error_response(RequestError(404, "there is no such route"))


async def _wrong_method(request: Request, error: Exception) -> Response:
    response = error_response(RequestError(405, "this route does not have this method"))
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)  # Allow, which names those that it has.
    return response


def _static_names() -> list[str]:
    files = resources.files("squaresvm.serve").joinpath("static")
    return sorted(file.name for file in files.iterdir() if Path(file.name).suffix in (".css", ".js"))


def _static(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = resources.files("squaresvm.serve").joinpath("static", name).read_bytes()
    kind = _KINDS[Path(name).suffix]

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return answer


def _described(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the description of some routes in OpenAPI 3.1, made from the routes themselves."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "squaresvm",
            "version": __version__,
            "description": "Models that predict, learn and forget exactly.",
        },
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", endpoint.path)
    parameters = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
    parameters += [
        {"name": header, "in": "header", "required": False, "schema": {"type": "string"}}
        for header in endpoint.headers
        if header != "content-type"
    ]
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    statuses = _STATUSES if endpoint.body is not None else {"404": _STATUSES["404"], "503": _STATUSES["503"]}
    operation: dict[str, Any] = {
        "summary": (endpoint.answer.__doc__ or "").partition("\n")[0],
        "parameters": parameters,
        "responses": {"200": {"description": "Done."}}
        | {status: {"description": text, "content": error} for status, text in statuses.items()},
    }
    if endpoint.roles:
        operation["security"] = [{"token": []}]
        operation["description"] = f"Role: {' or '.join(endpoint.roles)}."
    if endpoint.body is not None:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{endpoint.body}"}}}
        if "content-type" in endpoint.headers:
            content["text/csv"] = {"schema": {"type": "string"}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def run(settings: Settings, say: Callable[[str], object]) -> None:
    """Serve until the process is asked to end; then finish what has begun, and save.

    Parameters
    ----------
    settings : Settings
    say : callable
        Takes a line for people when the server listens.

    Raises
    ------
    ValueError, OSError
        If it cannot be served: no folder, no tokens, the port is taken.
    """
    # A prediction that waits for a thread which changes a model gets its turn after half a millisecond.
    sys.setswitchinterval(0.0005)
    app = make_app(settings)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}") from None
    config = uvicorn.Config(
        app,
        http=GuardedProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=30,
        limit_concurrency=4 * settings.limits.in_flight,
    )
    name = f"[{settings.host}]" if family == socket.AF_INET6 else settings.host
    say(f"Serving {settings.folder} at http://{name}:{listener.getsockname()[1]}/ (Ctrl-C ends)")
    if not model_files(settings.folder):
        say("There is no file *.model in it yet: a new one is served within a second.")
    uvicorn.Server(config).run(sockets=[listener])
