"""Connections that must get to the point: the head of a request has a limited size and a limited time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["GuardedProtocol"]

#: Bytes and seconds that the head of a request may take.
_HEAD_BYTES = 64 * 2**10
_HEAD_SECONDS = 10.0


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
