"""How commands speak: lines for people, JSON for programs, notes and progress on stderr.

Whatever goes wrong is one line and an exit code, never a traceback.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning
from typer.core import TyperGroup

from squaresvm.files import ModelFileError
from squaresvm.readers import TableError
from squaresvm.readers.preparation import Category, Preparation
from squaresvm.runtime.progress import working
from squaresvm.solution import Certificate, Status

__all__ = [
    "BAD_INPUT",
    "FALSE",
    "INTERRUPTED",
    "NOT_CONVERGED",
    "OUTPUT_LOST",
    "AsJson",
    "BadInputError",
    "Commands",
    "OutputError",
    "Printer",
    "certificate_facts",
    "certificate_line",
    "column_counts",
    "counted",
    "drop_standard_output",
    "naming",
    "printable",
    "words_of",
]

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class Printer:
    """Prints lines or JSON to stdout; notes and, on a terminal, progress to stderr.

    Parameters
    ----------
    as_json : bool
        Whether lines are for nobody and `result` prints JSON.
    to_stderr : bool, default=False
        Whether lines go to stderr, because stdout has the result itself.
    """

    def __init__(self, as_json: bool, *, to_stderr: bool = False) -> None:
        self.as_json = as_json
        self._to_stderr = to_stderr
        self._written: Path | None = None

    def say(self, line: str) -> None:
        """Print a line for people, control characters as escapes."""
        if not self.as_json:
            self.data(f"{printable(line)}\n")

    def data(self, text: str) -> None:
        """Print a text as it is."""
        try:
            print(text, end="", flush=True, file=sys.stderr if self._to_stderr else None)
        except OSError as error:
            if self._written is None:
                raise OutputError(error) from None
            drop_standard_output()
            self.note(f"{self._written} is written, but the report is not printed: {words_of(error)}")

    def note(self, line: str) -> None:
        """Print what is worth knowing and is no error."""
        with suppress(OSError):
            print(f"squaresvm: note: {printable(line)}", file=sys.stderr, flush=True)

    def result(self, facts: dict[str, Any]) -> None:
        """Print the result as JSON, where that is wanted."""
        if self.as_json:
            self.data(json.dumps(facts, default=_plain, allow_nan=False) + "\n")

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show on a terminal that something takes its time; turn warnings into notes."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with working(printable(what), is_shown=not self.as_json):
                yield
        for warning in caught:
            if not issubclass(warning.category, ConvergenceWarning):  # The certificate tells of that.
                self.note(" ".join(str(warning.message).split()))

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Show that a file is written, which an error names; then the work is done, printed or not."""
        with self.working(f"Writing {path}"), naming(path):
            yield
        self._written = path

    def end(self, certificate: Certificate) -> None:
        """Leave with exit code 1 where the solver did not reach tol."""
        if certificate.status == Status.MAX_ITER:
            self.note(f"not converged: {certificate.status.advice}")
            raise typer.Exit(NOT_CONVERGED)


def counted(count: int, one: str, several: str | None = None) -> str:
    """Return a number of things in words: 1 row, 2 rows."""
    return f"{count} {one}" if count == 1 else f"{count} {several or one + 's'}"


def column_counts(preparation: Preparation) -> str:
    """Return in words what the columns of a table are."""
    categories = [feature for feature in preparation.features if isinstance(feature, Category)]
    levels = sum(feature.width for feature in categories)
    numbers = counted(len(preparation.features) - len(categories), "number")
    if not categories:
        return numbers
    return f"{numbers}, {counted(len(categories), 'category', 'categories')} of {counted(levels, 'level')}"


def certificate_line(model: Any) -> str:
    """Return the certificate of a model in words; of several classes, the one that the residual is of."""
    certificate = model.certificate_
    label = _worst_class(model)
    if label is None:
        return str(certificate)
    return f"{certificate} (sums over classes; residual of the worst, {label!r})"


def certificate_facts(model: Any) -> dict[str, Any]:
    """Return the certificate of a model as JSON, and the class that the residual is of."""
    return {**model.certificate_.to_json(), "class": _worst_class(model)}


def _worst_class(model: Any) -> Any:
    classes = getattr(model, "classes_", None)
    if classes is None or len(classes) < 3:
        return None
    return classes.tolist()[model.certificate_.column]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


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
    >>> from squaresvm.cli.console import printable
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
