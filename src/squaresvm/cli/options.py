"""Options that several commands share: about columns and files of tables, and about where results go."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from squaresvm.cli.console import BadInputError, OutputError
from squaresvm.readers.plan import MISSING_RULES, Wishes

__all__ = [
    "Category",
    "Date",
    "Decimal",
    "Drop",
    "Encoding",
    "Force",
    "Header",
    "Missing",
    "NumberColumn",
    "SkipUnlabelled",
    "TableOptions",
    "Thousands",
    "check_model_place",
    "check_page_place",
    "check_place",
    "check_result_place",
    "check_table_options",
    "is_standard_output",
    "parsed_dates",
    "writable_model",
]

Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", "--ignore", help="Column to leave out; repeatable.", show_default="none"),
]
Category = Annotated[
    list[str] | None,
    typer.Option("--category", help="Column to treat as a category; repeatable.", show_default="none"),
]
NumberColumn = Annotated[
    list[str] | None,
    typer.Option(
        "--number", help="Column of numbers, with or without a unit; repeatable.", show_default="as they look"
    ),
]
Date = Annotated[
    list[str] | None,
    typer.Option(
        "--date",
        metavar="COLUMN[=FORMAT]",
        help="Column of dates, taken as days; a format is like %d/%m/%Y; repeatable.",
        show_default="as they look",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option("--decimal", help="Decimal separator: . or a comma.", show_default="as numbers look"),
]
Thousands = Annotated[
    str | None,
    typer.Option("--thousands", help="Thousands separator: one character.", show_default="as numbers look"),
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", help="Encoding of a CSV, such as cp1252.", show_default="UTF-8")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether a CSV begins with names; without, they are column_1, column_2, ...",
        show_default="it does, or an error says that it looks otherwise",
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        "--missing",
        help="Missing values: 'refuse'; 'mean' imputes it, or no level of a category; 'drop' such rows.",
    ),
]
SkipUnlabelled = Annotated[bool, typer.Option("--skip-unlabelled", help="Leave rows without a label out.")]


@dataclass(frozen=True)
class TableOptions:
    """What a user says of a table; it means nothing for LIBSVM files, except for the encoding."""

    label: str | None = None
    id: str | None = None
    weight: str | None = None
    drop: Sequence[str] = ()
    categories: Sequence[str] = ()
    numbers: Sequence[str] = ()
    dates: dict[str, str] = field(default_factory=dict)
    decimal: str | None = None
    thousands: str | None = None
    scale: bool = True
    missing: str = "refuse"
    header: bool | None = None
    encoding: str | None = None
    skip_unlabelled: bool = False

    @property
    def named(self) -> list[str]:
        """Columns that are named."""
        single = [name for name in (self.label, self.id, self.weight) if name is not None]
        return [*single, *self.drop, *self.categories, *self.numbers, *self.dates]

    def wishes(self, label: str) -> Wishes:
        """Return what is said of columns, the label among them."""
        return Wishes(
            label=label,
            id=self.id,
            weight=self.weight,
            drop=self.drop,
            categories=self.categories,
            numbers=self.numbers,
            dates=self.dates,
            decimal=self.decimal,
            thousands=self.thousands,
            scale=self.scale,
            missing=self.missing,
        )


def check_table_options(options: TableOptions) -> None:
    """Raise a BadInputError for what no table could have."""
    if options.missing not in MISSING_RULES:
        raise BadInputError(f"--missing must be one of {', '.join(MISSING_RULES)}; got {options.missing!r}")
    if options.decimal not in (None, ".", ","):
        raise BadInputError(f"--decimal must be . or a comma; got {options.decimal!r}")
    mark = options.thousands
    if mark is not None and (len(mark) != 1 or mark not in ",.' "):
        raise BadInputError(f"--thousands must be a comma, a point, a blank or an apostrophe; got {mark!r}")
    if mark is not None and mark == options.decimal:
        raise BadInputError(f"--decimal and --thousands must differ; got {mark!r} for both")
    kinds = {"--drop": options.drop, "--category": options.categories, "--number": options.numbers}
    kinds["--date"] = list(options.dates)
    seen: dict[str, str] = {}
    for option, names in kinds.items():
        for name in names:
            if seen.setdefault(name, option) != option:
                raise BadInputError(f"{seen[name]} and {option} both name {name!r}: a column is one of them")


def parsed_dates(texts: Sequence[str]) -> dict[str, str]:
    """Return columns of dates and their formats, from COLUMN or COLUMN=FORMAT."""
    found = {}
    for text in texts:
        name, _, form = text.partition("=")
        if not name or ("=" in text and "%" not in form and form != "iso"):
            raise BadInputError(f"--date must be COLUMN or COLUMN=FORMAT, such as day=%d/%m/%Y; got {text!r}")
        found[name] = form
    return found


# Places for results --------------------------------------------------------------------------------------

Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]

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
        raise BadInputError(f"{path}: is the standard output, but this must be a file: name one")
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
        raise BadInputError(f"{path}: exists and is not a model, so it is not replaced: name another file")
    if not force:
        raise BadInputError(f"{path}: exists already; --force replaces the model")


def check_result_place(path: Path, force: bool, *inputs: Path) -> None:
    """Raise a BadInputError unless a table can be put there: on another with `force`, never on a model."""
    check_place(path, *inputs)
    _refuse_model(path)
    if path.exists() and not force:
        raise BadInputError(f"{path}: exists already; --force replaces it")


def check_page_place(path: Path, *inputs: Path) -> None:
    """Raise a BadInputError unless a page can be put there: an earlier page is replaced, nothing else."""
    check_place(path, *inputs)
    _refuse_model(path)
    if path.exists() and path.stat().st_size and not _starts_with(path, _PAGE):
        raise BadInputError(f"{path}: exists and is not a page, so it is not replaced: name another file")


def _refuse_model(path: Path) -> None:
    if path.exists() and _starts_with(path, _MODEL):
        raise BadInputError(f"{path}: is a model, which a result never replaces: name another file")


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
