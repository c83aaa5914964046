"""What is asked of a model: ``squaresvm predict``, ``squaresvm learn`` and ``squaresvm forget``."""

from __future__ import annotations

import csv
import io
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from squaresvm.cli.console import (
    AsJson,
    BadInputError,
    Printer,
    certificate_facts,
    certificate_line,
    counted,
    printable,
)
from squaresvm.cli.inputs import ModelPath, as_integer, ids_of, new_rows, open_model, query_rows, save_model
from squaresvm.cli.options import Encoding, Force, SkipUnlabelled, check_result_place, is_standard_output
from squaresvm.cli.train import DATA_HELP
from squaresvm.files import Record, with_columns
from squaresvm.readers.preparation import Preparation
from squaresvm.runtime.atomic import locked, replacing
from squaresvm.runtime.progress import duration

__all__ = ["forget", "learn", "predict"]

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
    ids: Annotated[bool, typer.Option("--ids", help="Add the id of each row, or its line, as CSV.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.99,
            help="Add an interval of this coverage to each value, as CSV.",
            show_default="none",
        ),
    ] = None,
    sets: Annotated[
        bool, typer.Option("--sets", help="Add which labels each row may have, one column a class, as CSV.")
    ] = False,
    coverage: Annotated[
        float | None, typer.Option(min=0.01, max=0.99, help="Coverage of the sets.", show_default="0.9")
    ] = None,
    encoding: Encoding = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Predict the label or value of each row, one a line, in the order of DATA."""
    printer = Printer(as_json)
    if output is not None and is_standard_output(output):
        output = None
    if output is not None:
        check_result_place(output, force, model_path, data)
    model = open_model(model_path, needs_rows=False)
    if proba and not hasattr(model, "predict_proba"):
        raise BadInputError(f"{model_path}: holds a {type(model).__name__}, which has no probabilities")
    if interval is not None and not hasattr(model, "predict_interval"):
        raise BadInputError(f"{model_path}: holds a {type(model).__name__}, which has no intervals")
    if sets and not hasattr(model, "predict_set"):
        raise BadInputError(f"{model_path}: holds a {type(model).__name__}, which has no sets of labels")
    if coverage is not None and not sets:
        raise BadInputError("--coverage is for --sets; for intervals give --interval 0.9")
    with printer.working(f"Reading {data}"):
        asked = query_rows(data, model, encoding=encoding)
    model, X, notes = asked.model, asked.X, asked.notes
    for note in notes[:_NOTES]:
        printer.note(note)
    if len(notes) > _NOTES:
        printer.note(f"{data}: {len(notes) - _NOTES} more levels that the model does not know")
    try:
        with printer.working(f"Predicting {X.shape[0]} rows"):
            labels = model.predict(X)
            probabilities = model.predict_proba(X) if proba else None
            ends = None if interval is None else model.predict_interval(X, interval)
            possible = model.predict_set(X, 0.9 if coverage is None else coverage) if sets else None
    except ValueError as error:
        raise BadInputError(f"{data}: {error}") from None
    facts: dict[str, Any] = {"model": str(model_path), "rows": int(X.shape[0]), "predictions": labels}
    if probabilities is not None:
        facts |= {"classes": model.classes_, "probabilities": probabilities}
    if ends is not None:
        facts["intervals"] = ends
    if possible is not None:
        facts["classes"] = model.classes_
        facts["sets"] = [model.classes_[row].tolist() for row in possible]
    if ids:
        facts["ids"] = ids_of(asked.table, model)
    if output is not None:
        with printer.writing(output), replacing(output) as file:
            file.write(_text(facts).encode("utf-8"))
        facts["output"] = str(output)
        printer.say(f"{X.shape[0]} predictions: {output}")
    elif not as_json:
        text = _text(facts)
        printer.data(_for_terminals(text) if sys.stdout is not None and sys.stdout.isatty() else text)
    printer.result(facts)


def _text(facts: dict[str, Any]) -> str:
    """Return a label a line; with anything beside it, CSV with a line of names."""
    labels = facts["predictions"].tolist()
    columns: dict[str, list[Any]] = {"id": facts["ids"]} if "ids" in facts else {}
    columns["label" if "intervals" not in facts else "value"] = labels
    if "probabilities" in facts:
        parts = facts["probabilities"].T.tolist()
        names = [f"p({label})" for label in facts["classes"].tolist()]
        columns |= {name: [f"{p:.6g}" for p in part] for name, part in zip(names, parts, strict=True)}
    if "intervals" in facts:
        low, high = facts["intervals"].T.tolist()
        columns |= {"low": low, "high": high}
    if "sets" in facts:
        columns |= {
            f"in({label})": [int(label in labels) for labels in facts["sets"]]
            for label in facts["classes"].tolist()
        }
    if len(columns) == 1:
        return "".join(f"{label}\n" for label in labels)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()


def _for_terminals(text: str) -> str:
    """Return a text whose lines steer no terminal; files and pipes get labels as they are."""
    return "".join(f"{printable(line)}\n" for line in text.split("\n")[:-1])


def learn(
    model_path: ModelPath,
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)],
    factor: Annotated[
        bool, typer.Option("--factor", help="Store the factor: a larger file, whose first request is fast.")
    ] = False,
    encoding: Encoding = None,
    skip_unlabelled: SkipUnlabelled = False,
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
            model, rows = new_rows(data, model, encoding=encoding, skip_unlabelled=skip_unlabelled)
        for note in (*rows.notes, *_held_already(model, rows.ids)):
            printer.note(f"{data}: {note}")
        start = time.perf_counter()
        try:
            with printer.working(f"Learning {rows.y.size} rows"):
                model.learn(rows.X, rows.y, sample_weight=rows.weights, ids=rows.ids)
        except ValueError as error:
            raise BadInputError(f"{data}: {error}") from None
        seconds = time.perf_counter() - start
        history = record.history.brought("learn", int(rows.y.size))
        replace(record, history=history, preparation=rows.preparation).attach(model)
        with printer.writing(model_path):
            save_model(model, model_path, factor=factor)
    certificate = model.certificate_
    held = int(model.ids_.size)
    printer.say(f"Learned {counted(rows.y.size, 'row')} in {duration(seconds)}, {held} are held.")
    printer.say(f"Certificate: {certificate_line(model)}.")
    printer.result(
        {
            "model": str(model_path),
            "learned": int(rows.y.size),
            "held": held,
            "certificate": certificate_facts(model),
            "seconds": seconds,
        }
    )
    printer.end(certificate)


def _held_already(model: Any, ids: list[Any] | None) -> list[str]:
    """Return what to say of ids that name rows already: whoever learns a file twice has its rows twice."""
    known = set(model.ids_.tolist()) & set(ids or ())
    if not known:
        return []
    which = "1 id is" if len(known) == 1 else f"{len(known)} ids are"
    return [f"{which} held already: each now names the rows that were there and the new ones"]


def forget(
    model_path: ModelPath,
    ids: Annotated[
        str | None,
        typer.Option("--ids", help="Ids, with commas between them: --ids 3,17.", show_default=False),
    ] = None,
    ids_file: Annotated[
        Path | None,
        typer.Option("--ids-file", help="A file with one id a line, in place of --ids.", show_default=False),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compute the residual of all remaining rows for the receipt.")
    ] = False,
    factor: Annotated[
        bool, typer.Option("--factor", help="Store the factor: a larger file, whose first request is fast.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove rows from a model, exactly, and from its file: it then equals one that was never shown them.

    Row, label, weight and id are gone, and with them a class, a level of a category or a line of the history
    that no other row had. Scaling and the numbers that 'scale' and 'balanced' stood for stay those of the
    training: train anew to renew them. Stopping rule: the tol of the training.
    """
    printer = Printer(as_json)
    wanted = _wanted(ids, ids_file)
    with locked(model_path):
        model = open_model(model_path)
        record = Record.of(model)
        names = [_as_held(model, text, model_path) for text in wanted]
        try:
            positions = model._state.rows.ids.positions(names)
            with printer.working(f"Forgetting {positions.size} rows"):
                if model._front is not None:
                    model._front.check_forgets(model, names)
                receipt = model.forget(names, verify=verify)
        except KeyError as error:
            raise BadInputError(f"{model_path}: {error.args[0]}") from None
        except ValueError as error:
            raise BadInputError(f"{model_path}: {error}") from None
        replace(record, history=record.history.forgot(positions)).attach(model)
        for note in _stale(record.preparation, model):
            printer.note(note)
        if record.preparation is None and model._front is None:
            model = _without_empty_end(model)
        with printer.writing(model_path):
            save_model(model, model_path, factor=factor)
    certificate = model.certificate_
    kept = () if model._front is None else tuple(model._front.kept_of_rows())
    receipt = receipt if receipt.kept else receipt.but(kept=kept)
    printer.say(f"{str(receipt)[0].upper()}{str(receipt)[1:]}.")
    if receipt.classes_gone:
        printer.say(f"Classes that are gone with them: {', '.join(map(str, receipt.classes_gone))}.")
    for line in kept:
        printer.say(f"Kept: {line}.")
    printer.say(f"Certificate: {certificate_line(model)}.")
    printer.result({"model": str(model_path), **asdict(receipt), "certificate": certificate_facts(model)})
    printer.end(certificate)


def _wanted(ids: str | None, ids_file: Path | None) -> list[str]:
    if (ids is None) == (ids_file is None):
        raise BadInputError("give either --ids or --ids-file")
    if ids is not None:
        found = [text.strip() for text in ids.split(",")]
        if not all(found):
            raise BadInputError(f"--ids must be ids with commas between them; got {ids!r}")
        return found
    assert ids_file is not None
    try:
        lines = ids_file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise BadInputError(f"{ids_file}: is not text in UTF-8") from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise BadInputError(f"{ids_file}: holds no ids")
    return found


def _as_held(model: Any, text: str, path: Path) -> Any:
    """Return the id that a text stands for: ids may be numbers."""
    held = model._state.rows.ids
    if held.values.dtype.kind in "iu":
        name = as_integer(text)  # As it is written: Python would take 1_0 for 10.
        if name is None:
            raise BadInputError(f"{path}: no row with id {text!r} is held")
        return name
    if held.values.dtype.kind == "f" or held.values.dtype == object:
        return next((name for name in held.values.tolist() if str(name) == text), text)
    return text


def _stale(preparation: Preparation | None, model: Any) -> list[str]:
    """Return what to say of columns of numbers that no row fills any more."""
    if preparation is None:
        return []
    X = model._state.rows.X[model._state.held]
    unfilled = preparation.unfilled_numbers(X)
    kept = {feature.name for feature in preparation.without_unused_levels(X)[0].features}
    return [
        f"column {name!r}: every row has the imputed mean, which forgotten rows have determined; "
        + ("it is not scaled, so the mean stays: train anew" if name in kept else "it is gone from the model")
        for name in unfilled
    ]


def _without_empty_end(model: Any) -> Any:
    """Return a model of sparse rows without columns behind the last that a row uses."""
    base = model._state.rows.X
    if not hasattr(base, "indices") or model._state.settings.kernel is None:
        return model
    used = int(base.indices.max()) + 1 if base.indices.size else 1
    if used >= model.n_features_in_:
        return model
    record = Record.of(model)
    narrow = with_columns(model, np.arange(used))
    record.attach(narrow)
    return narrow
