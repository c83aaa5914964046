"""``squaresvm inspect``."""

from __future__ import annotations

import io
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from squaresvm.cli.console import (
    AsJson,
    BadInputError,
    Printer,
    certificate_facts,
    certificate_line,
    column_counts,
    counted,
    printable,
)
from squaresvm.cli.findings import REPEATED_IDS, ids_repeat
from squaresvm.cli.inputs import ModelPath, labelled_rows, open_model
from squaresvm.cli.options import check_page_place
from squaresvm.files import Record
from squaresvm.pages import charts
from squaresvm.pages.page import Facts, TableOfRows, render, write_atomically
from squaresvm.pages.report import Report, examine
from squaresvm.readers.plan import Feature, Number

__all__ = ["inspect"]

_ACTIONS = {
    "train": "trained on",
    "learn": "learned",
    "forget": "forgot",
    "save": "saved from Python with",
}


#: Rows that hurt at most.
_HURTING = 10
#: Columns that a page names at most.
_MOST_COLUMNS = 40
_LEFT_OUT = "Each row is predicted by the model without that row."
_WHICH_ROWS = (
    f"{_LEFT_OUT} Rows are in groups of about equal size by their predicted probability (of several classes: "
    "that of the predicted one); on the dashed line both are equal."
)


class Hurting(NamedTuple):
    """Training rows without which the score on the rows of a file would be larger, and that score now."""

    data: Path
    score: float
    rows: list[dict[str, Any]]


def inspect(
    model_path: ModelPath,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write one self-contained page there.", show_default="no page"),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Largest number of rows to name.")] = 8,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Rows with labels: name training rows that lower the score on them.",
            show_default="none",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a model: accuracy, certificate, calibration, influential and suspicious rows, history.

    Everything is computed from the rows in the file: the certificate, the exact leave-one-out score (for the
    squared hinge with more than 400 support vectors: of a fixed active set), and the calibration. With
    --data also the training rows without which the accuracy, or R2, on those rows would be larger, exactly.
    """
    printer = Printer(as_json)
    if html is not None:
        check_page_place(html, model_path, *([] if data is None else [data]))
    model = open_model(model_path)
    try:
        with printer.working("Leaving each row out"):
            report = examine(model, rows)
    except ValueError as error:
        raise BadInputError(f"{model_path}: {error}") from None
    hurting = None if data is None else _rows_that_hurt(model, data, printer)
    if html is not None:
        page = render(_page(model, report, model_path, hurting))
        with printer.writing(html):
            write_atomically(html, page)
    if as_json:
        printer.result(_facts(model, report, model_path, html, hurting))
        return
    _print(printer, model, report, hurting)
    if html is not None:
        printer.say(f"Page: {html}")


def _rows_that_hurt(model: Any, data: Path, printer: Printer) -> Hurting:
    """Return the training rows without which the score on the rows of a file would be larger."""
    with printer.working(f"Reading {data}"):
        asked, y = labelled_rows(data, model)
    for note in asked.notes:
        printer.note(f"{data}: {note}")
    try:
        with printer.working("Leaving each row out"):
            score, change = asked.model.score(asked.X, y), asked.model.influence(asked.X, y)
    except ValueError as error:
        raise BadInputError(f"{data}: {error}") from None
    if not np.isfinite(score):
        raise BadInputError(f"{data}: R2 needs two rows with different values")
    order = [i for i in np.argsort(-change, kind="stable")[:_HURTING] if change[i] > 0.0]
    ids, labels = model.ids_, model._state.rows.y
    found = [{"id": ids[i], "label": labels[i], "change": float(change[i])} for i in order]
    return Hurting(data, float(score), found)


def _what(model: Any) -> list[tuple[str, str]]:
    """Return what the model is, as names and values."""
    state = model._state
    kernel = state.settings.kernel
    numbers = f"C = {model.C_:g}"
    if kernel is not None and kernel.name != "linear":
        numbers += f", gamma = {kernel.gamma:.6g}"
    if kernel is not None and kernel.name == "poly":
        numbers += f", degree = {kernel.degree}"
    found = [
        ("model", f"{type(model).__name__}, {state.settings.loss}, {state.settings.bias}"),
        ("kernel", f"{model.kernel}, {numbers}"),
        ("rows", f"{model.ids_.size}, of which {model.support_.size} are support vectors"),
        ("columns", _columns(model)),
    ]
    if model._front is not None:
        steps = ", ".join(f"{path} ({type(step).__name__})" for path, step in model._front.leaves())
        found.append(("pipeline", steps or "no steps before the model"))
    if state.classes is not None:
        counts = [int(np.sum(state.rows.y == label)) for label in state.classes]
        shown = [f"{label} ({count})" for label, count in zip(state.classes.tolist(), counts, strict=True)]
        found.append(("classes", ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "")))
    return [*found, ("solver", f"{model.solver_}: {model.solver_reason_}")]


def _columns(model: Any) -> str:
    preparation = Record.of(model).preparation
    if preparation is None:
        return str(model.n_features_in_)
    return f"{model.n_features_in_}: {column_counts(preparation)}"


def _score_name(report: Report, model: Any) -> str:
    kind = "accuracy" if hasattr(model, "classes_") else "R2"
    return f"exact leave-one-out {kind}" if report.is_exact else f"leave-one-out {kind} of a fixed active set"


def _score_lines(report: Report) -> list[str]:
    """Return the main figures, as `train` words them."""
    if report.is_exact:
        return [f"exact leave-one-out {figure}" for figure in report.figures[:2]]
    return [f"leave-one-out {figure}, of a fixed active set" for figure in report.figures[:2]]


def _print(printer: Printer, model: Any, report: Report, hurting: Hurting | None) -> None:
    for name, value in _what(model):
        printer.say(f"{name + ':':<13} {value}")
    printer.say(f"{'certificate:':<13} {certificate_line(model)}")
    for line in _score_lines(report):
        printer.say(f"{'score:':<13} {line}")
    if report.figures and ids_repeat(model):
        printer.say(f"{'':<13} {REPEATED_IDS}")
    if report.brier is not None:
        printer.say(
            f"{'calibration:':<13} Brier score {report.brier:.4f} of the probabilities of rows left out"
        )
    # Into a text first: on a broken pipe Rich would end the process itself.
    console = Console(
        file=io.StringIO(), width=shutil.get_terminal_size().columns, highlight=False, markup=False
    )
    with console.capture() as grids:
        for table in _tables(model, report, hurting):
            console.print(_grid(table))
    printer.data(grids.get())


def _grid(table: TableOfRows) -> Grid:
    grid = Grid(title=table.heading, title_justify="left", box=None, pad_edge=False)
    for column in table.columns:
        grid.add_column(column, overflow="fold")
    for row in table.rows:
        grid.add_row(*(printable(str(cell)) for cell in row))
    return grid


def _hurting_table(model: Any, hurting: Hurting) -> TableOfRows:
    kind = "accuracy" if hasattr(model, "classes_") else "R2"
    heading = f"Rows that hurt on {hurting.data.name}" + ("" if hurting.rows else ": none")
    text = (
        f"Without the row, the {kind} on these rows would be larger by this much; it is {hurting.score:.4f}."
    )
    lines = [(row["id"], row["label"], f"{row['change']:+.4g}") for row in hurting.rows]
    return TableOfRows(heading, text, ("id", "label", f"change of {kind} without the row"), lines)


def _tables(model: Any, report: Report, hurting: Hurting | None) -> list[TableOfRows]:
    tables = []
    value, digits = ("margin", ".3f") if hasattr(model, "classes_") else ("residual", ".6g")
    if report.influential:
        tables.append(
            TableOfRows(
                "Rows with the largest influence",
                "Change in this row's output if the row is removed.",
                ("id", "label", "predicted without the row", "change"),
                [(row.id, row.label, row.expected, format(row.value, digits)) for row in report.influential],
            )
        )
    if report.suspects:
        tables.append(
            TableOfRows(
                "Rows that look mislabelled"
                if hasattr(model, "classes_")
                else "Rows with the largest residuals",
                "The model without the row predicts something else; the largest difference comes first.",
                ("id", "label", "predicted without the row", value),
                [
                    (row.id, row.label, row.expected, format(row.value, f"+{digits}"))
                    for row in report.suspects
                ],
            )
        )
    if hurting is not None:
        tables.append(_hurting_table(model, hurting))
    lines = [
        (
            event.time.replace("T", " ")[:19],
            f"{_ACTIONS[event.action]} {counted(event.rows, 'row')}",
            event.left or "",
        )
        for event in Record.of(model).history.events
    ]
    tables.append(
        TableOfRows(
            "History",
            "Requests with their number of rows and time (UTC). Ids of forgotten rows are not stored, and "
            "entries whose rows have all been forgotten are removed.",
            ("time", "request", "still held"),
            lines,
        )
    )
    return tables


def _page(model: Any, report: Report, path: Path, hurting: Hurting | None) -> Facts:
    certificate = report.certificate
    figures = [(f"{model.ids_.size:,}", "rows held")]
    if report.score is not None:
        score = f"{report.score:.1%}" if hasattr(model, "classes_") else f"{report.score:.3f}"
        figures.append((score, _score_name(report, model)))
        figures.append(_baseline(report))
    figures.append(
        (f"{certificate.residual:.0e}", f"residual of the certificate: {certificate.status.value}")
    )
    if report.brier is not None:
        figures.append((f"{report.brier:.3f}", "Brier score of the leave-one-out probabilities; 0 is best"))
    proof = [
        ("status", f"{certificate.status.value}: {certificate.status.advice}"),
        ("residual", f"{certificate.residual:.2e}, bounded by tol = {model.tol:g}"),
        ("duality gap", f"{certificate._shown_gap}: no model has an objective that is lower by more"),
        ("objective", f"{certificate.objective:.8g}"),
    ]
    what = TableOfRows("What the model is", "", ("", ""), _what(model))
    shown = TableOfRows(
        "Certificate", "Computed from the rows and the model, never by the solver.", ("", ""), proof
    )
    return Facts(
        title=path.name,
        summary=f"{type(model).__name__} with {model.kernel} kernel, {counted(model.ids_.size, 'row')}.",
        figures=figures,
        about=what,
        tables=[shown, *_column_table(model), *_tables(model, report, hurting)],
        calibration=report.shares,
        calibration_text=_WHICH_ROWS,
        margins=report.margins if hasattr(model, "classes_") else None,
        pictures=_pictures(model, report),
    )


def _column_table(model: Any) -> list[TableOfRows]:
    """Return what each column of the table was taken for, where the model was trained on one."""
    preparation = Record.of(model).preparation
    if preparation is None:
        return []
    lines = [_column_line(feature) for feature in preparation.features]
    heading, more = "Columns", f" {len(lines) - _MOST_COLUMNS} more are not shown."
    text = "How each column of the table enters the model." + (more if len(lines) > _MOST_COLUMNS else "")
    return [TableOfRows(heading, text, ("column", "taken for", "values"), lines[:_MOST_COLUMNS])]


def _column_line(feature: Feature) -> tuple[str, str, str]:
    if isinstance(feature, Number) and feature.notation.date:
        mean = np.datetime64(round(feature.centre), "D")
        return feature.name, "date", f"mean {mean}, standard deviation {feature.scale:.4g} days"
    if isinstance(feature, Number):
        centre = (
            feature.centre if abs(feature.centre) > 1e-12 * feature.scale else 0.0
        )  # Rounding is no mean.
        return feature.name, "number", f"mean {centre:.4g}, scale {feature.scale:.4g}"
    shown = ", ".join(feature.levels[:6]) + (", ..." if len(feature.levels) > 6 else "")
    return feature.name, "category", f"{counted(len(feature.levels), 'level')}: {shown}"


def _baseline(report: Report) -> tuple[str, str]:
    """Return what guessing would give, and where classes allow it, how certain the score is."""
    main = report.figures[0]
    if main.name == "R2":
        return f"{main.baseline:.0f}", "R2 of always predicting the mean"
    return (
        f"{main.baseline:.1%}",
        f"share of the largest class; standard error of the accuracy {main.error:.1%}",
    )


def _pictures(model: Any, report: Report) -> list[str]:
    """Return class shares and confusion matrix, or predicted against actual values."""
    if report.predictions is not None:
        return [charts.predictions(*report.predictions, _LEFT_OUT)]
    if report.counts is None:
        return []
    names = [str(label) for label in model.classes_.tolist()]
    shares = charts.class_shares(names, report.counts.sum(axis=1).tolist())
    return [shares, charts.confusion(names, report.counts, _LEFT_OUT)]


def _facts(
    model: Any, report: Report, path: Path, html: Path | None, hurting: Hurting | None
) -> dict[str, Any]:
    history = Record.of(model).history
    return {
        "model": str(path),
        "page": None if html is None else str(html),
        "estimator": type(model).__name__,
        "parameters": {name: str(value) for name, value in model.get_params(deep=False).items()},
        "rows": int(model.ids_.size),
        "support": int(model.support_.size),
        "columns": int(model.n_features_in_),
        "classes": model.classes_ if hasattr(model, "classes_") else None,
        "C": model.C_,
        "gamma": model.gamma_ if hasattr(model, "gamma_") else None,
        "solver": model.solver_,
        "solver_reason": model.solver_reason_,
        "certificate": certificate_facts(model),
        "loo_score": report.score,
        "loo_error": report.figures[0].error if report.figures else None,
        "baseline": report.figures[0].baseline if report.figures else None,
        "leave_one_out": [asdict(figure) for figure in report.figures],
        "loo_is_exact": report.is_exact,
        "brier": report.brier,
        "influential": [asdict(row) for row in report.influential],
        "suspects": [asdict(row) for row in report.suspects],
        "hurting": None if hurting is None else hurting._asdict(),
        "history": [asdict(event) for event in history.events],
    }
