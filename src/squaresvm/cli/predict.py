"""``squaresvm predict``."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from squaresvm.cli.console import AsJson, Printer
from squaresvm.cli.failures import BadInputError, printable
from squaresvm.cli.inputs import ModelPath, check_place, is_standard_output, open_model, query_rows
from squaresvm.runtime.atomic import replacing

__all__ = ["predict"]

#: Unknown levels that are told one by one.
_NOTES = 5


def predict(
    model_path: ModelPath,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="As in train; label and id columns are not read.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where predictions go; - is stdout.", show_default="stdout"),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add calibrated probabilities, one column a class, as CSV.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict the label or value of each row, one a line, in the order of DATA."""
    printer = Printer(as_json)
    if output is not None and is_standard_output(output):
        output = None
    if output is not None:
        check_place(output, model_path, data)
    model = open_model(model_path, needs_rows=False)
    if proba and not hasattr(model, "predict_proba"):
        raise BadInputError(f"{model_path}: holds a {type(model).__name__}, which has no probabilities")
    with printer.working(f"Reading {data}"):
        model, X, notes = query_rows(data, model)
    for note in notes[:_NOTES]:
        printer.note(note)
    if len(notes) > _NOTES:
        printer.note(f"{data}: {len(notes) - _NOTES} more levels that the model does not know")
    try:
        with printer.working(f"Predicting {X.shape[0]} rows"):
            labels = model.predict(X)
            probabilities = model.predict_proba(X) if proba else None
    except ValueError as error:
        raise BadInputError(f"{data}: {error}") from None
    facts: dict[str, Any] = {"model": str(model_path), "rows": int(X.shape[0]), "predictions": labels}
    if probabilities is not None:
        facts |= {"classes": model.classes_, "probabilities": probabilities}
    if output is not None:
        with printer.writing(output), replacing(output) as file:
            file.write(_text(labels, probabilities, model).encode("utf-8"))
        facts["output"] = str(output)
        printer.say(f"{X.shape[0]} predictions: {output}")
    elif not as_json:
        text = _text(labels, probabilities, model)
        printer.data(_for_terminals(text) if sys.stdout is not None and sys.stdout.isatty() else text)
    printer.result(facts)


def _text(labels: Any, probabilities: Any, model: Any) -> str:
    """Return a label a line; with probabilities, CSV with a line of names."""
    if probabilities is None:
        return "".join(f"{label}\n" for label in labels.tolist())
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["label", *(f"p({label})" for label in model.classes_.tolist())])
    for label, row in zip(labels.tolist(), probabilities.tolist(), strict=True):
        writer.writerow([label, *(f"{value:.6g}" for value in row)])
    return out.getvalue()


def _for_terminals(text: str) -> str:
    """Return a text whose lines steer no terminal; files and pipes get labels as they are."""
    return "".join(f"{printable(line)}\n" for line in text.split("\n")[:-1])
