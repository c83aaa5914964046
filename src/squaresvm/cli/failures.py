"""One line and an exit code for whatever goes wrong, never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from typer.core import TyperGroup

from squaresvm.files import ModelFileError
from squaresvm.readers import TableError

__all__ = [
    "BAD_INPUT",
    "FALSE",
    "INTERRUPTED",
    "NOT_CONVERGED",
    "OUTPUT_LOST",
    "BadInputError",
    "Commands",
    "OutputError",
    "drop_standard_output",
    "naming",
    "printable",
    "words_of",
]

#: Exit codes; the last is the one that shells use for an interruption.
NOT_CONVERGED, BAD_INPUT, OUTPUT_LOST, INTERRUPTED = 1, 2, 3, 130
#: Of `verify`, where something that a model claims is not true.
FALSE = 1
#: Characters of a message at most: input may be quoted in it, whatever its size.
_LONGEST = 1000


class BadInputError(Exception):
    """What is wrong with the input, in one line."""


class OutputError(Exception):
    """The standard output cannot be written to."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"standard output: {words_of(cause)}")
        self.is_silent = cause.errno == errno.EPIPE  # Whoever read our output has gone, and knows.


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Have errors of the system that know no file, as where a disk is full, name this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def drop_standard_output() -> None:
    """Send to nowhere what could not be printed: else it fails again when the process ends."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)


def printable(text: str) -> str:
    r"""Return a text with its control characters as escapes: a label must not steer a terminal.

    Examples
    --------
    >>> from squaresvm.cli.failures import printable
    >>> print(printable("café \x1b[31m"))
    café \x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


class Commands(TyperGroup):
    """Commands whose failures are told in one line on stderr. Set SQUARESVM_TRACEBACK=1 to see tracebacks."""

    def main(self, args: Any = None, *others: Any, **options: Any) -> Any:
        """Run a command and leave with its exit code."""
        options["standalone_mode"] = False
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(given or ["--help"], *others, **options)
            with _to_standard_output():
                if sys.stdout is not None:
                    sys.stdout.flush()
        except KeyboardInterrupt:
            code = INTERRUPTED
        except Exception as error:
            if os.environ.get("SQUARESVM_TRACEBACK"):
                raise
            code = _tell(error)
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _to_standard_output() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(error) from None


def _tell(error: Exception) -> int:
    """Write one line and return the exit code."""
    if type(error).__name__ == "Abort":  # Ctrl-C, in the words of whichever Click Typer brings along.
        return INTERRUPTED
    if isinstance(error, OSError) and error.errno == errno.EPIPE:  # Help, which Click prints itself.
        error = OutputError(error)
    if isinstance(error, OutputError):
        drop_standard_output()
    if not (isinstance(error, OutputError) and error.is_silent):
        with suppress(OSError):
            print(f"squaresvm: {printable(_line(error))}", file=sys.stderr)
    return OUTPUT_LOST if isinstance(error, OutputError) else BAD_INPUT


def _line(error: Exception) -> str:
    if hasattr(error, "format_message"):  # Bad usage, in the words of whichever Click Typer brings along.
        return " ".join(str(error.format_message()).split())
    if isinstance(error, BadInputError | ModelFileError | OutputError | TableError):
        return _first_line(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {words_of(error)}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {_first_line(error)}"
    if isinstance(error, KeyError):
        return _first_line(error.args[0] if error.args else error)
    if isinstance(error, ValueError):
        return _first_line(error)
    return f"{type(error).__name__}: {_first_line(error)} (SQUARESVM_TRACEBACK=1 tells more)"


def words_of(error: OSError) -> str:
    """Return what an error of the system says, in our words where we have some."""
    return {
        errno.ENOENT: "no such file or folder",
        errno.EISDIR: "is a folder",
        errno.EACCES: "permission denied",
        errno.ENOTDIR: "is in no folder",
    }.get(error.errno or 0, str(error.strerror or error).lower())


def _first_line(error: Any) -> str:
    line = " ".join(str(error).split()) or "no reason given"
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
