"""Where results go: a file that may be put there, or the standard output; nothing is replaced unasked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from squaresvm.cli.console import BadInputError, OutputError

__all__ = [
    "Force",
    "check_model_place",
    "check_page_place",
    "check_place",
    "check_result_place",
    "is_standard_output",
    "writable_model",
]

Force = Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")]

#: Ways to write the standard output as a file.
_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_MODEL, _PAGE = b"squaresvm model\n", b"<!doctype html"


def is_standard_output(path: Path) -> bool:
    """Return whether a path stands for the standard output."""
    return str(path) in _STANDARD_OUTPUT


def check_place(path: Path, *inputs: Path) -> None:
    """Raise a BadInputError unless a file can be put there: better before long work than after it.

    Parameters
    ----------
    path : Path
    *inputs : Path
        Files that must not be replaced.
    """
    if is_standard_output(path):
        raise BadInputError(f"{path}: is the standard output, and this must be a file: name one")
    if any(path.exists() and other.exists() and path.samefile(other) for other in inputs):
        raise BadInputError(f"{path}: would be replaced by what is made from it: name another file")
    if path.is_dir():
        raise BadInputError(f"{path}: is a folder")
    if not path.parent.is_dir():
        raise BadInputError(f"{path.parent}: no such folder")
    if path.exists() and not path.is_file():
        raise BadInputError(f"{path}: is not a regular file")


def check_model_place(path: Path, force: bool, *inputs: Path) -> None:
    """Raise a BadInputError unless a model can be put there: on a model with `force`, on nothing else."""
    if is_standard_output(path):
        return
    check_place(path, *inputs)
    if not path.exists():
        return
    if not _starts_with(path, _MODEL):
        raise BadInputError(f"{path}: is there and is no model, so it is not replaced: name another file")
    if not force:
        raise BadInputError(f"{path}: is there already; --force replaces the model")


def check_result_place(path: Path, force: bool, *inputs: Path) -> None:
    """Raise a BadInputError unless a table can be put there: on another with `force`, never on a model."""
    check_place(path, *inputs)
    _refuse_model(path)
    if path.exists() and not force:
        raise BadInputError(f"{path}: is there already; --force replaces it")


def check_page_place(path: Path, *inputs: Path) -> None:
    """Raise a BadInputError unless a page can be put there: an earlier page is replaced, nothing else."""
    check_place(path, *inputs)
    _refuse_model(path)
    if path.exists() and path.stat().st_size and not _starts_with(path, _PAGE):
        raise BadInputError(f"{path}: is there and is no page, so it is not replaced: name another file")


def _refuse_model(path: Path) -> None:
    if path.exists() and _starts_with(path, _MODEL):
        raise BadInputError(f"{path}: is a model, and no result replaces one: name another file")


def _starts_with(path: Path, start: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(start)).lower() == start.lower()


@contextmanager
def writable_model(path: Path) -> Iterator[Path]:
    """Give the file to write a model to; what is written for the standard output goes there at the end."""
    if not is_standard_output(path):
        yield path
        return
    with TemporaryDirectory() as folder:
        place = Path(folder) / "model"
        yield place
        try:
            sys.stdout.buffer.write(place.read_bytes())
            sys.stdout.buffer.flush()
        except OSError as error:
            raise OutputError(error) from None
