"""``squaresvm verify`` and ``squaresvm receipts``."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

import squaresvm
from squaresvm.cli.console import FALSE, AsJson, BadInputError, Printer, naming
from squaresvm.cli.inputs import ModelPath, as_integer, rows_to_check
from squaresvm.evidence.receipt import read_receipts
from squaresvm.files.front import Front
from squaresvm.runtime.atomic import locked

__all__ = ["receipts", "verify"]


def verify(
    model_path: ModelPath,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="Rows, as in train: read again for a model of a stream, which holds none; compared with the "
            "rows held of any other.",
            show_default="none",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column of labels of FILE, for a model from Python.",
            show_default="that of the training, or 'label'",
        ),
    ] = None,
    kept: Annotated[
        Path | None,
        typer.Option(
            "--receipts",
            metavar="FILE",
            help="Receipts that somebody has kept, one a line, as `receipts` prints them: each must be in "
            "the chain of the model.",
            show_default="none",
        ),
    ] = None,
    absent: Annotated[
        str | None,
        typer.Option(metavar="ID", help="An id that must not be held; prints a proof.", show_default="none"),
    ] = None,
    memory: Annotated[float, typer.Option(min=1.0, metavar="MB", help="Memory to use.")] = 256.0,
    as_json: AsJson = False,
) -> None:
    """Say what a model claims, what is true, and how far it can be from the optimum of exactly its rows.

    Kernel values, objective, residual and gap are computed anew from their definitions, in twice the
    precision of float64, by code that shares nothing with what trained the model. Exit code 0: all is true;
    1: something that the file claims is false; 2: bad input. The receipts of the model must be a whole chain,
    and the last one must be of exactly this model and these rows.
    """
    printer = Printer(as_json)
    with naming(model_path):
        model = squaresvm.load(model_path)
    rows = None
    if data is not None:
        with printer.working(f"Reading {data}"):
            rows = rows_to_check(data, model, label)
    elif label is not None:
        raise BadInputError("--label is about the file of --data, which is not given")
    options = {"receipts": kept, "absent": None if absent is None else _id(model, absent)}
    try:
        with printer.working(f"Verifying {model_path}"):
            verdict = squaresvm.verify(model, rows, label=label, max_memory=memory * 2**20, **options)
    except ValueError as error:
        place = (model_path if data is None else data) if kept is None else kept
        words = str(error)
        raise BadInputError(words if words.startswith(str(place)) else f"{place}: {words}") from None
    for line in str(verdict).splitlines():
        printer.say(line)
    if verdict.absence is not None:
        printer.say(f"Proof of absence: {json.dumps(verdict.absence.to_json())}")
    printer.result(
        {"model": str(model_path), "data": None if data is None else str(data), "verdict": verdict.to_json()}
    )
    if not verdict.ok:
        raise typer.Exit(FALSE)


def _id(model: Any, text: str) -> Any:
    """Return the id that a text stands for, where ids are numbers."""
    number = as_integer(text)
    names = getattr(Front.of(model)[1], "ids_", None)
    return text if number is None or names is None or names.dtype.kind not in "iu" else number


def receipts(
    model_path: ModelPath,
    anchor: Annotated[
        Path | None,
        typer.Option(
            "--anchor",
            metavar="FILE",
            help="Move the receipts to FILE, and leave one in the model that commits to all: so the model "
            "file does not grow with every request. Keep FILE.",
            show_default="none",
        ),
    ] = None,
) -> None:
    """Print the receipts of a model, the oldest first, one JSON object a line.

    They state for each request: rows before and after, residual and from how many rows it was
    computed, a keyed hash of each removed id, digests of rows and model, and the hash of the receipt
    before. Keep them: `verify --receipts` compares.
    """
    printer = Printer(as_json=False)
    with nullcontext() if anchor is None else locked(model_path):
        with naming(model_path):
            whole = squaresvm.load(model_path)
            model = Front.of(whole)[1]
        if not hasattr(model, "receipts_"):
            raise BadInputError(f"{model_path}: a {type(model).__name__} has no receipts")
        if anchor is not None:
            _anchor(whole, model_path, anchor, printer)
        for receipt in model.receipts_:
            printer.data(json.dumps(receipt.to_json()) + "\n")


def _anchor(model: Any, model_path: Path, kept: Path, printer: Printer) -> None:
    try:
        if kept.exists():  # Lines are added to receipts, and to nothing else.
            read_receipts(kept)
    except (ValueError, IsADirectoryError) as error:
        raise BadInputError(str(error) if str(kept) in str(error) else f"{kept}: {error}") from None
    inner = Front.of(model)[1]
    with printer.writing(kept):
        getattr(inner, "estimator_", inner).anchor_receipts(kept)
    with printer.writing(model_path):
        squaresvm.save(model, model_path)
