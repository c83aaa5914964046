"""``squaresvm evaluate``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from squaresvm.cli.console import AsJson, BadInputError, Printer, counted
from squaresvm.cli.findings import figures_of
from squaresvm.cli.inputs import ModelPath, Queries, ids_of, labelled_rows, open_model
from squaresvm.cli.options import Encoding, check_page_place
from squaresvm.files import Record
from squaresvm.judging.figures import Figure, against_guessing, confusion, probability_figures, rounded
from squaresvm.judging.shares import share_of
from squaresvm.pages import charts
from squaresvm.pages.page import Facts, TableOfRows, render, write_atomically
from squaresvm.pages.report import groups
from squaresvm.typing import FloatArray

__all__ = ["evaluate"]

#: Classes up to which the confusion matrix is printed.
_FEW_CLASSES = 20
#: Which rows the pictures are of.
_THESE = "Rows of the file, each by the model as it is."


def evaluate(
    model_path: ModelPath,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Rows with labels, as in train.")],
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write one self-contained page there.", show_default="no page"),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of labels.", show_default="that of the training")
    ] = None,
    coverage: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Coverage of the intervals of a regression.")
    ] = 0.9,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Judge a model by rows with labels, each figure with the value that guessing would give.

    The rows should be new to the model: figures of rows that it was trained on are too optimistic.
    """
    printer = Printer(as_json)
    if html is not None:
        check_page_place(html, model_path, data)
    model = open_model(model_path, needs_rows=False)
    with printer.working(f"Reading {data}"):
        asked, y = labelled_rows(data, model, label=label, encoding=encoding)
    for note in asked.notes:
        printer.note(f"{data}: {note}")
    if held := _held(asked):
        printer.note(
            f"{data}: {held} of {counted(y.shape[0], 'row')} have ids that the model holds; figures of rows "
            "that it was trained on are too optimistic"
        )
    try:
        with printer.working(f"Predicting {counted(y.shape[0], 'row')}"):
            facts = _judged(asked, y, coverage)
    except ValueError as error:
        raise BadInputError(f"{data}: {error}") from None
    facts = {"model": str(model_path), "data": str(data), "rows": int(y.shape[0]), **facts}
    figures: list[Figure] = facts["figures"]
    printer.say(f"{counted(y.shape[0], 'row')} of {data}:")
    for figure in figures:
        printer.say(f"  {figure}")
    for line in _confusion_lines(facts):
        printer.say(line)
    if words := against_guessing(figures):
        printer.say(words)
    if html is not None:
        with printer.writing(html):
            write_atomically(html, render(_page(facts, model_path, data)))
        printer.say(f"Page: {html}")
    calibration, _ = facts.pop("calibration"), facts.pop("pictures")
    printer.result(
        {
            **facts,
            "figures": [asdict(figure) for figure in figures],
            "calibration": None if calibration is None else [part.tolist() for part in calibration],
            "page": None if html is None else str(html),
        }
    )


def _held(asked: Queries) -> int:
    """Return how many rows have an id that names a training row."""
    preparation = Record.of(asked.model).preparation
    if preparation is None or preparation.id is None or not hasattr(asked.model, "ids_"):
        return 0
    held = {str(name) for name in asked.model.ids_.tolist()}
    return sum(name in held for name in ids_of(asked.table, asked.model))


def _judged(asked: Queries, y: np.ndarray[Any, Any], coverage: float) -> dict[str, Any]:
    """Return figures, confusion matrix and calibration."""
    model, X = asked.model, asked.X
    predicted = model.predict(X)
    if not hasattr(model, "classes_"):
        figures = figures_of(y, predicted, None, False)
        if hasattr(model._state, "rows") and y.shape[0]:
            figures.append(_covered(model.predict_interval(X, coverage), y, coverage))
        pictures = [charts.predictions(y, predicted, _THESE)] if y.size > 1 else []
        apart = {"confusion": None, "classes": None, "calibration": None}
        return {"figures": figures, **apart, "pictures": pictures}
    figures = figures_of(y, predicted, None, True)
    p = model.predict_proba(X)
    figures += probability_figures(y, p, model.classes_)
    classes = np.unique(np.concatenate([model.classes_, y])).tolist()
    right = y == model.classes_[1] if model.classes_.size == 2 else predicted == y
    shares = groups(p[:, 1] if model.classes_.size == 2 else p.max(axis=1), np.asarray(right))
    counts = confusion(y, predicted, classes)
    names, table = [str(label) for label in classes], np.array(counts)
    return {
        "figures": figures,
        "confusion": counts,
        "classes": classes,
        "calibration": shares,
        "pictures": [
            charts.class_shares(names, table.sum(axis=1).tolist()),
            charts.confusion(names, table, _THESE),
        ],
    }


def _covered(ends: FloatArray, y: FloatArray, coverage: float) -> Figure:
    found = share_of((ends[:, 0] <= y) & (y <= ends[:, 1]))
    name = f"share within {coverage:.0%} intervals"
    return Figure(name, found.value, found.error, coverage, "asked for", found.middle)


def _confusion_lines(facts: dict[str, Any]) -> list[str]:
    if facts["confusion"] is None or len(facts["classes"]) > _FEW_CLASSES:
        return []
    names = [str(label) for label in facts["classes"]]
    cells = [[str(count) for count in row] for row in facts["confusion"]]
    width = max(len(text) for text in [*names, *(cell for row in cells for cell in row)])
    margin = max(len(name) for name in names)
    lines = ["Labels (lines) and predictions (columns):"]
    lines.append("  " + " " * margin + "".join(f"  {name:>{width}}" for name in names))
    for name, row in zip(names, cells, strict=True):
        lines.append(f"  {name:<{margin}}" + "".join(f"  {cell:>{width}}" for cell in row))
    return lines


def _page(facts: dict[str, Any], model_path: Path, data: Path) -> Facts:
    figures: list[Figure] = facts["figures"]
    lines = [(figure.name, _with_error(figure), _guess(figure)) for figure in figures]
    text = "Each with its standard error and the value that guessing would give."
    main = figures[0]
    words = against_guessing(figures) or f"The {main.name} is better than {main.guess}."
    return Facts(
        title=f"{model_path.name} on {data.name}",
        summary=f"{counted(facts['rows'], 'row')}. {words}",
        figures=[(rounded(figure.value), f"{figure.name}; {_guess(figure)}") for figure in figures[:4]],
        pictures=facts["pictures"],
        calibration=facts["calibration"],
        calibration_text="Rows grouped by predicted probability. On the line, probabilities are right.",
        tables=[TableOfRows("Figures", text, ("figure", "value", "guess"), lines)],
    )


def _with_error(figure: Figure) -> str:
    return rounded(figure.value) + ("" if figure.error is None else f" ± {rounded(figure.error, 2)}")


def _guess(figure: Figure) -> str:
    return figure.guess if figure.baseline is None else f"{figure.guess}: {rounded(figure.baseline)}"
