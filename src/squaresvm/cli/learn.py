"""``squaresvm learn``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

import squaresvm
from squaresvm.cli.console import AsJson, Printer, counted, facts_of
from squaresvm.cli.failures import BadInputError
from squaresvm.cli.inputs import ModelPath, new_rows, open_model
from squaresvm.cli.train import DATA_HELP
from squaresvm.files import Record
from squaresvm.runtime.atomic import locked

__all__ = ["learn"]


def learn(
    model_path: ModelPath,
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)],
    factor: Annotated[
        bool, typer.Option("--factor", help="Store the factor: a larger file, whose first request is fast.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add the rows of DATA to a model: it then equals one that was trained on all of them.

    Scaling and the numbers that 'scale' and 'balanced' stood for stay those of the training. A level or a
    class that is new becomes part of the model. Stopping rule: the tol of the training.
    """
    printer = Printer(as_json)
    with locked(model_path):
        model = open_model(model_path)
        record = Record.of(model)
        with printer.working(f"Reading {data}"):
            model, rows = new_rows(data, model)
        start = time.perf_counter()
        try:
            with printer.working(f"Learning {rows.y.size} rows"):
                model.learn(rows.X, rows.y, sample_weight=rows.weights, ids=rows.ids)
        except ValueError as error:
            raise BadInputError(f"{data}: {error}") from None
        seconds = time.perf_counter() - start
        history = record.history.brought("learn", int(rows.y.size))
        Record(history, rows.preparation).attach(model)
        with printer.writing(model_path):
            squaresvm.save(model, model_path, factor=factor)
    certificate = model.certificate_
    held = int(model.ids_.size)
    printer.say(f"Learned {counted(rows.y.size, 'row')} in {1e3 * seconds:.3g} ms, {held} are held.")
    printer.say(f"Certificate: {certificate}.")
    printer.result(
        {
            "model": str(model_path),
            "learned": int(rows.y.size),
            "held": held,
            "certificate": facts_of(certificate),
            "seconds": seconds,
        }
    )
    printer.end(certificate)
