"""``squaresvm verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import squaresvm
from squaresvm.cli.console import FALSE, AsJson, BadInputError, Printer, naming
from squaresvm.cli.inputs import ModelPath, rows_to_check

__all__ = ["verify"]


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
    memory: Annotated[float, typer.Option(min=1.0, metavar="MB", help="Memory for computing.")] = 256.0,
    as_json: AsJson = False,
) -> None:
    """Say what a model claims, what is true, and how far it can be from the optimum of exactly its rows.

    Kernel values, objective, residual and gap are computed anew from their definitions, in twice the digits
    of float64, by code that shares nothing with what trained the model. Exit code 0: all is true; 1:
    something that the file claims is false; 2: bad input.
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
    try:
        with printer.working(f"Verifying {model_path}"):
            verdict = squaresvm.verify(model, rows, label=label, max_memory=memory * 2**20)
    except ValueError as error:
        place = model_path if data is None else data
        words = str(error)
        raise BadInputError(words if words.startswith(str(place)) else f"{place}: {words}") from None
    for line in str(verdict).splitlines():
        printer.say(line)
    printer.result(
        {"model": str(model_path), "data": None if data is None else str(data), "verdict": verdict.to_json()}
    )
    if not verdict.ok:
        raise typer.Exit(FALSE)
