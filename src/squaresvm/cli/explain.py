"""``squaresvm explain``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import typer

from squaresvm.cli.console import AsJson, BadInputError, Printer, counted
from squaresvm.cli.inputs import ModelPath, Queries, ids_of, labelled_part, open_model, query_rows
from squaresvm.cli.options import Encoding
from squaresvm.files import Record
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["explain"]

#: Terms that are told one by one.
_MOST = 10
#: Columns beyond which permuting each of them takes too long.
_MANY_COLUMNS = 200
#: How often each column is permuted.
_REPEATS = 5


class _Terms(NamedTuple):
    """What a decision value is the sum of, besides the bias: all columns, or the rows that pull most."""

    kind: str
    lines: list[dict[str, Any]]
    rest: float


def explain(
    model_path: ModelPath,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="As in predict; labels are read if there.")],
    row: Annotated[int, typer.Option(min=0, help="Row of DATA to explain, the first is 0.")],
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Decompose the decision value of one row, exactly, and say which columns matter for all.

    A linear model: what each column adds. Other kernels: what each training row adds, its coefficient times
    its kernel value with the row. Where DATA has labels, also the permutation importance of each column: by
    how much accuracy, or R2, falls when its values are shuffled between the rows, the mean of five times.
    """
    printer = Printer(as_json)
    model = open_model(model_path, needs_rows=False)
    names = _column_names(model)
    with printer.working(f"Reading {data}"):
        asked = query_rows(data, model, encoding=encoding)
        labelled = labelled_part(asked)
    for note in asked.notes[:_MOST]:
        printer.note(note)
    if row >= asked.X.shape[0]:
        raise BadInputError(f"{data}: has no row {row}: it has {counted(asked.X.shape[0], 'row')}, from 0 on")
    try:
        facts = _explained(asked, row, names)
        with printer.working("Shuffling columns"):
            importance = [] if labelled is None else _importance(asked.model, *labelled)
    except ValueError as error:
        raise BadInputError(f"{data}: {error}") from None
    facts = {"model": str(model_path), "data": str(data), **facts, "importance": importance}
    _print(printer, facts)
    printer.result(facts)


def _column_names(model: Any) -> list[str]:
    """Return the names of the columns of prepared rows; none where they have numbers only."""
    preparation = Record.of(model).preparation
    if preparation is not None:
        return preparation.feature_names
    if model._front is not None:
        return model._front.output_names()
    return [str(name) for name in getattr(model, "feature_names_in_", [])]


def _name(names: Sequence[str], column: int) -> str:
    return names[column] if names else f"column {column + 1}"


def _explained(asked: Queries, row: int, names: Sequence[str]) -> dict[str, Any]:
    """Return prediction, decision value, bias and terms of one row."""
    model, x = asked.model, asked.X[row : row + 1]
    state = model._state
    bias: FloatArray = state.solution.bias
    predicted = model.predict(x).tolist()[0]
    classes = getattr(model, "classes_", None)
    if classes is None and bias.size > 1:
        raise BadInputError("the model has several targets: use it from Python")
    column = 0 if bias.size == 1 else int(np.flatnonzero(classes == predicted)[0])
    values = model.predict(x) if classes is None else model.decision_function(x)
    terms = _terms_of_columns(state, x, column, names)
    return {
        "row": row,
        "id": ids_of(asked.table, model)[row],
        "prediction": predicted,
        "class": None if classes is None else classes.tolist()[-1 if bias.size == 1 else column],
        "decision": float(np.ravel(values)[column]),
        "bias": float(bias[column]),
        **terms._asdict(),
    }


def _terms_of_columns(state: Any, x: Matrix, column: int, names: Sequence[str]) -> _Terms:
    """Return w_j x_j of the columns that are not zero in the row; of other kernels the terms of rows."""
    if state.settings.kernel.function != "linear" or getattr(state, "_is_wider_than_its_entries", False):
        return _terms_of_rows(state, x, column)
    entries = sp.coo_array(x)
    places, found = entries.coords[1], entries.data
    terms: FloatArray = state.primal[places, column] * found
    lines = [
        {"column": _name(names, int(places[i])), "value": float(found[i]), "term": float(terms[i])}
        for i in _by_size(terms)
    ]
    return _Terms("columns", lines, 0.0)


def _terms_of_rows(state: Any, x: Matrix, column: int) -> _Terms:
    """Return beta_i k(x_i, x) of the training rows, those that pull most."""
    held = state.held
    kernel_values = state.settings.kernel(state.like_held(x), state.rows.take(held)).ravel()
    coefficients = state.expansion[:, column]
    terms = coefficients * kernel_values
    order = _by_size(terms)[:_MOST]
    ids, labels = state.rows.ids.values[held[order]], state.rows.y[held[order]]
    lines = [
        {"id": name, "label": label, "kernel": float(kernel_values[i]), "term": float(terms[i])}
        for i, name, label in zip(order, ids.tolist(), labels.tolist(), strict=True)
    ]
    return _Terms("rows", lines, float(np.delete(terms, order).sum()))


def _by_size(terms: FloatArray) -> IntArray:
    order: IntArray = np.argsort(-np.abs(terms), kind="stable")
    return order


def _importance(model: Any, X: Matrix, y: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    """Return the permutation importance of each column of the table, the largest first.

    The levels of a category move together. What is permuted are the numbers of the rows that each column is
    taken from, one line of them a column.
    """
    from sklearn.inspection import permutation_importance

    preparation = Record.of(model).preparation
    if preparation is None:
        names = [_name([], j) for j in range(X.shape[1])]
        widths = [1] * X.shape[1]
    else:
        names = [feature.name for feature in preparation.features]
        widths = [feature.width for feature in preparation.features]
    if len(names) > _MANY_COLUMNS:
        return []
    ends = np.cumsum(widths)
    dense = np.asarray(X.toarray() if sp.issparse(X) else X)

    def score(model: Any, sources: IntArray, y: np.ndarray[Any, Any]) -> float:
        mixed = np.hstack(
            [
                dense[sources[:, k], end - width : end]
                for k, (end, width) in enumerate(zip(ends, widths, strict=True))
            ]
        )
        return float(model.score(mixed.view(type(X)) if isinstance(X, np.ndarray) else mixed, y))

    sources = np.tile(np.arange(dense.shape[0])[:, None], len(names))
    found = permutation_importance(model, sources, y, scoring=score, n_repeats=_REPEATS, random_state=0)
    order = np.argsort(-found.importances_mean, kind="stable")
    return [
        {
            "column": names[k],
            "mean": float(found.importances_mean[k]),
            "deviation": float(found.importances_std[k]),
        }
        for k in order
    ]


def _shown(answer: Any, facts: dict[str, Any], as_text: Callable[[Any], str] = repr) -> str:
    """Return a label as it is, a value to the digits of the terms that it is the sum of."""
    return f"{answer:.6g}" if facts["class"] is None else as_text(answer)


def _print(printer: Printer, facts: dict[str, Any]) -> None:
    of = "" if facts["class"] is None else f" of class {facts['class']!r}"
    printer.say(f"Row {facts['row']} ({facts['id']}): predicted {_shown(facts['prediction'], facts)}.")
    printer.say(f"{'Value' if not of else 'Decision value'} {facts['decision']:+.6g}{of} is the sum of:")
    for line in facts["lines"][:_MOST]:
        what = (
            f"{line['column']} = {line['value']:.4g}, prepared"
            if facts["kind"] == "columns"
            else f"training row {line['id']}, label {_shown(line['label'], facts, str)}, "
            f"kernel value {line['kernel']:.4g}"
        )
        printer.say(f"  {line['term']:+12.6g}  {what}")
    rest = facts["rest"] + sum(line["term"] for line in facts["lines"][_MOST:])
    printer.say(f"  {rest:+12.6g}  all other {facts['kind']}")
    printer.say(f"  {facts['bias']:+12.6g}  bias")
    if facts["importance"]:
        figure = "R2" if facts["class"] is None else "accuracy"
        printer.say(
            f"Permutation importance: the loss of {figure} on this file when a column is shuffled, mean and "
            f"standard deviation of {_REPEATS} times:"
        )
    for line in facts["importance"][:_MOST]:
        printer.say(f"  {line['mean']:+9.4f} +- {line['deviation']:.4f}  {line['column']}")
