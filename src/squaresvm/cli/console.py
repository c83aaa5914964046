"""How commands speak: lines for people, JSON for programs, notes and progress on stderr."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning

from squaresvm.cli.failures import (
    NOT_CONVERGED,
    OutputError,
    drop_standard_output,
    naming,
    printable,
    words_of,
)
from squaresvm.readers.preparation import Category, Preparation
from squaresvm.runtime.progress import working
from squaresvm.solution import Certificate, Status

__all__ = ["AsJson", "Printer", "columns_of", "counted", "facts_of"]

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class Printer:
    """Prints lines or JSON to stdout; notes and, on a terminal, progress to stderr.

    Parameters
    ----------
    as_json : bool
        Whether lines are for nobody and `result` prints JSON.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._written: Path | None = None

    def say(self, line: str) -> None:
        """Print a line for people, control characters as escapes."""
        if not self.as_json:
            self.data(f"{printable(line)}\n")

    def data(self, text: str) -> None:
        """Print a text as it is."""
        try:
            print(text, end="", flush=True)
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


def columns_of(preparation: Preparation) -> str:
    """Return in words what the columns of a table are."""
    categories = [feature for feature in preparation.features if isinstance(feature, Category)]
    levels = sum(feature.width for feature in categories)
    numbers = counted(len(preparation.features) - len(categories), "number")
    if not categories:
        return numbers
    return f"{numbers}, {counted(len(categories), 'category', 'categories')} of {counted(levels, 'level')}"


def facts_of(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as JSON."""
    return {
        "status": certificate.status.value,
        "residual": certificate.residual,
        "gap": certificate.gap,
        "objective": certificate.objective,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)
