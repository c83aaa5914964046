"""One line and an exit code for whatever goes wrong, never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

from typer.core import TyperGroup

from squaresvm.files import ModelFileError
from squaresvm.readers import TableError

__all__ = ["BAD_INPUT", "NOT_CONVERGED", "BadInputError", "Commands"]

NOT_CONVERGED, BAD_INPUT = 1, 2
#: Characters of a message at most: input may be quoted in it, whatever its size.
_LONGEST = 1000


class BadInputError(Exception):
    """What is wrong with the input, in one line."""


class Commands(TyperGroup):
    """Commands whose failures are told in one line on stderr. Set SQUARESVM_TRACEBACK=1 to see tracebacks."""

    def main(self, args: Any = None, *others: Any, **options: Any) -> Any:
        """Run a command and leave with its exit code."""
        options["standalone_mode"] = False
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(given or ["--help"], *others, **options)
        except Exception as error:
            if os.environ.get("SQUARESVM_TRACEBACK"):
                raise
            code = _tell(error)
        sys.exit(code if isinstance(code, int) else 0)


def _tell(error: Exception) -> int:
    """Write one line and return the exit code."""
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        # Whoever read our output has gone; what is left in the buffer has no place to go to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return NOT_CONVERGED
    print(f"squaresvm: {_line(error)}", file=sys.stderr)
    return BAD_INPUT


def _line(error: Exception) -> str:
    if hasattr(error, "format_message"):  # Bad usage, in the words of whichever Click Typer brings along.
        return " ".join(str(error.format_message()).split())
    if isinstance(error, BadInputError | ModelFileError | TableError):
        return _first_line(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {_words(error)}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {_first_line(error)}"
    if isinstance(error, KeyError):
        return _first_line(error.args[0] if error.args else error)
    if isinstance(error, ValueError):
        return _first_line(error)
    return f"{type(error).__name__}: {_first_line(error)} (SQUARESVM_TRACEBACK=1 tells more)"


def _words(error: OSError) -> str:
    return {
        errno.ENOENT: "no such file or folder",
        errno.EISDIR: "is a folder",
        errno.EACCES: "permission denied",
        errno.ENOTDIR: "is in no folder",
    }.get(error.errno or 0, str(error.strerror).lower())


def _first_line(error: Any) -> str:
    line = " ".join(str(error).split()) or "no reason given"
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
