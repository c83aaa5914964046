"""How far a pass has come, in one line on a terminal."""

from __future__ import annotations

import sys
import time
from typing import TextIO

__all__ = ["Progress"]

#: Seconds between two updates of the line.
_EVERY = 0.2


class Progress:
    """Tell rows and passes on a terminal, and nothing anywhere else.

    Parameters
    ----------
    n_rows : int or None
        Rows of a pass, where they are known.
    stream : file, optional
        Where to write; standard error by default.
    """

    def __init__(self, n_rows: int | None, stream: TextIO | None = None) -> None:
        self.n_rows = n_rows
        self.passes = 0
        self._stream = sys.stderr if stream is None else stream
        self._shows = self._stream is not None and self._stream.isatty()
        self._last = -_EVERY
        self._width = 0

    def __call__(self, rows: int) -> None:
        """Note that the pass has come to so many rows; 0 begins the next."""
        if rows == 0:
            self.passes += 1
        now = time.monotonic()
        if not self._shows or now - self._last < _EVERY:
            return
        self._last = now
        share = "" if not self.n_rows else f" of {self.n_rows:,} ({rows / self.n_rows:.0%})"
        self._write(f"squaresvm: pass {self.passes}, {rows:,}{share} rows")

    def close(self) -> None:
        """Clear the line."""
        if self._shows:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)
