"""How far work has come: one line on a terminal, written over; nothing in a pipe or a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["CountProgress", "Pace", "PassProgress", "TerminalLine", "duration", "print_line", "working"]

#: Seconds between two updates of the line.
_EVERY = 0.2
_BAR_WIDTH = 24


def print_line(line: str, stream: TextIO | None = None) -> None:
    """Print a line that was asked for, on a terminal or not; to standard error by default."""
    print(line, file=sys.stderr if stream is None else stream, flush=True)


def duration(seconds: float) -> str:
    """Return how long something took, in words.

    Examples
    --------
    >>> from squaresvm.runtime.progress import duration
    >>> [duration(value) for value in (0.00004, 0.0042, 0.81, 1.5, 130.0)]
    ['0.04 ms', '4.2 ms', '810 ms', '1.5 s', '2 min 10 s']
    """
    if seconds < 0.9995:
        value = 1e3 * seconds
        return f"{value:.0f} ms" if value >= 99.5 else f"{value:.2g} ms"
    if seconds < 100.0:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


class Pace:
    """Says when it is time to tell again.

    Parameters
    ----------
    every : float
        Seconds between two times at least.
    starts_now : bool, default=True
        Whether the first time is at once.
    """

    def __init__(self, every: float = _EVERY, *, starts_now: bool = True) -> None:
        self._every = every
        self._last = None if starts_now else time.monotonic()

    def is_due(self) -> bool:
        """Return whether enough time has passed; if so, count anew."""
        now = time.monotonic()
        if self._last is not None and now - self._last < self._every:
            return False
        self._last = now
        return True


class TerminalLine:
    """One line on a terminal that is written over, and nothing anywhere else.

    Parameters
    ----------
    stream : file, optional
        Where to write; standard error by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.shows = self._stream is not None and self._stream.isatty()
        self._width = 0

    def write(self, text: str) -> None:
        """Put a text in place of the one before."""
        if self.shows:
            self._stream.write("\r" + text.ljust(self._width))
            self._stream.flush()
            self._width = len(text)

    def clear(self) -> None:
        """Leave an empty line, and the next who writes at its start."""
        if self.shows:
            self.write("")
            self._stream.write("\r")
            self._stream.flush()


class PassProgress:
    """Tells rows and passes over a source.

    Parameters
    ----------
    n_rows : int or None
        Rows of a pass, where they are known.
    stream : file, optional
        Where to write; standard error by default.
    begins : callable, optional
        Called when a pass begins.
    """

    def __init__(
        self, n_rows: int | None, stream: TextIO | None = None, begins: Callable[[], object] | None = None
    ) -> None:
        self.n_rows = n_rows
        self._begins = begins
        self.passes = 0
        self._line, self._pace = TerminalLine(stream), Pace()

    def __call__(self, rows: int) -> None:
        """Note that the pass has come to so many rows; 0 begins the next."""
        if rows == 0:
            self.passes += 1
            if self._begins is not None:
                self._begins()
        if not self._line.shows or not self._pace.is_due():
            return
        share = "" if not self.n_rows else f" of {self.n_rows:,} ({rows / self.n_rows:.0%})"
        self._line.write(f"squaresvm: pass {self.passes}, {rows:,}{share} rows")

    def close(self) -> None:
        """Clear the line."""
        self._line.clear()


class CountProgress:
    """Tells how many of so many things are done, with a bar, and what comes next; clears the line at the end.

    Parameters
    ----------
    is_shown : bool, default=True
        Whether anything is to be told at all.
    stream : file, optional
        Where to write; standard error by default.

    Examples
    --------
    >>> from squaresvm.runtime.progress import CountProgress
    >>> with CountProgress() as progress:
    ...     progress(1, 4, "the second table")
    """

    def __init__(self, is_shown: bool = True, stream: TextIO | None = None) -> None:
        self._line = TerminalLine(stream) if is_shown else None
        self._started = time.monotonic()

    def __enter__(self) -> CountProgress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._line is not None:
            self._line.clear()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Note that `done` of `total` are done, and what comes next."""
        if self._line is None:
            return
        full = _BAR_WIDTH * done // max(total, 1)
        bar = "#" * full + "." * (_BAR_WIDTH - full)
        seconds = int(time.monotonic() - self._started)
        clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        self._line.write(f"{bar} {done}/{total} {clock} {what}"[:100])


@contextmanager
def working(what: str, *, is_shown: bool = True, stream: TextIO | None = None) -> Iterator[None]:
    """Show what takes its time until it is done."""
    line = TerminalLine(stream) if is_shown else None
    try:
        if line is not None:
            line.write(f"{what} ...")
        yield
    finally:
        if line is not None:
            line.clear()
