"""What commands work on: models in files, places for results, and rows that fit a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import squaresvm
from squaresvm.cli.console import BadInputError, counted, naming
from squaresvm.cli.options import TableOptions
from squaresvm.estimators.requests import Updating
from squaresvm.files import Record, with_columns, with_new_levels
from squaresvm.files.front import Front
from squaresvm.readers import Column, SparseRows, Table, TableError, read
from squaresvm.readers.notation import PLAIN, AmbiguousError, guess_number
from squaresvm.readers.plan import ColumnPlan, Wishes, label_question
from squaresvm.readers.preparation import Preparation
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = [
    "Data",
    "ModelPath",
    "Queries",
    "as_integer",
    "ids_of",
    "labelled_part",
    "labelled_rows",
    "new_rows",
    "open_model",
    "query_rows",
    "rows_to_check",
    "save_model",
    "training_rows",
]

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file that `train` wrote.")]

_CODE = re.compile(r"[+-]?0\d+")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def as_integer(text: str) -> int | None:
    """Return the whole number of 64 bits that a text is written as; None where it is none, or in another way.

    Examples
    --------
    >>> from squaresvm.cli.inputs import as_integer
    >>> [as_integer(text) for text in ("12", "-5", "--5", "1_0", "+3", "007", "9223372036854775808")]
    [12, -5, None, None, None, None, None]
    """
    value = int(text) if _INTEGER.fullmatch(text) else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def open_model(path: Path, *, needs_rows: bool = True) -> Any:
    """Return the model of a file; a BadInputError where it is of a kind that only Python can use."""
    with naming(path):
        model = Front.of(squaresvm.load(path))[1]
    if not isinstance(model, Updating):
        raise BadInputError(f"{path}: holds a {type(model).__name__}: use it from Python")
    if needs_rows and not model._state.holds_rows:
        raise BadInputError(
            f"{path}: holds a model fitted from a stream, which keeps no rows: it can predict, all else "
            "is done from Python"
        )
    return model


def save_model(model: Any, path: Path, *, factor: bool) -> None:
    """Save a model that `open_model` has opened, with the steps before it where it came from a pipeline."""
    squaresvm.save(model if model._front is None else model._front.around(model), path, factor=factor)


@dataclass(frozen=True)
class Data:
    """What a file gives to `fit` or `learn`."""

    X: Matrix
    y: np.ndarray[Any, Any]
    weights: FloatArray | None = None
    ids: list[Any] | None = None
    preparation: Preparation | None = None
    plan: Sequence[ColumnPlan] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Queries:
    """What a file gives to `predict`: rows, the model as wide as they are, and the table they come from."""

    model: Any
    X: Matrix
    table: Table | SparseRows
    notes: Sequence[str] = ()


def training_rows(path: Path, options: TableOptions, *, regression: bool) -> Data:
    """Return the rows of a file, and how they were made from it."""
    table = read(path, header=options.header, encoding=options.encoding)
    if isinstance(table, SparseRows):
        if options.named:
            raise TableError(f"{path}: is a LIBSVM file: it has no column {options.named[0]!r}")
        return Data(table.X, table.y.astype(np.float64) if regression else table.y)
    label = options.label or ("label" if "label" in table.columns else list(table.columns)[-1])
    notes: list[str] = []
    if options.skip_unlabelled:
        table = _without(table, table.column(label, "label column").missing, "without a label", notes)
    wishes = options.wishes(label)
    if options.missing == "drop":
        table = _without(table, _incomplete(table, wishes), "with a missing value", notes)
    preparation, plan = Preparation.planned(table, wishes)
    preparation = replace(preparation, header=options.header is not False)
    if regression:
        y = _values(table, label, options)
    else:
        question = label_question(table, table.column(label))
        if question is not None and label not in options.categories:
            raise TableError(f"{path}: {question}")
        y = _labels(table, label)
    weights, ids = _weights_and_ids(table, preparation)
    return Data(preparation.rows(table), y, weights, ids, preparation, plan, notes)


def _without(table: Table, gone: BoolArray, why: str, notes: list[str]) -> Table:
    """Return a table without some rows, and note how many."""
    count = int(gone.sum())
    if count == table.count:
        raise TableError(f"{table.path}: all rows are {why}")
    if count:
        notes.append(f"{counted(count, 'row')} {why} left out")
    return table.only(~gone) if count else table


def _incomplete(table: Table, wishes: Wishes) -> BoolArray:
    """Return which rows lack the value of a feature; columns without any value are no features."""
    used = [column.missing for name, column in table.columns.items() if name not in wishes.apart]
    gaps = [missing for missing in used if not missing.all()]
    return np.asarray(np.any(gaps, axis=0)) if gaps else np.zeros(table.count, dtype=bool)


def new_rows(
    path: Path, model: Any, *, encoding: str | None = None, skip_unlabelled: bool = False
) -> tuple[Any, Data]:
    """Return the rows of a file for a model to learn, and the model with the columns that they bring."""
    if model._front is not None:
        raise BadInputError(
            f"{path}: the model is a pipeline from Python, and learns there: squaresvm.learn(pipeline, X, y)"
        )
    table = _read_for(path, model, encoding)
    preparation = _preparation_for(table, model)
    if isinstance(table, SparseRows):
        X = table.widened(model.n_features_in_).X
        return _wide_enough(model, X.shape[1]), Data(X, _labels_for(table, None, model))
    assert preparation is not None
    if Record.of(model).preparation is None:
        raise BadInputError(
            f"{path}: the model was made in Python, without column names: call its learn there"
        )
    labels, notes = table.column(preparation.label, "label column"), list[str]()
    if skip_unlabelled:
        table = _without(table, labels.missing, "without a label", notes)
    if preparation.missing == "drop":
        table = _without(table, ~preparation.complete(table), "with a missing value", notes)
    model = with_new_levels(model, table)
    preparation = Record.of(model).preparation
    assert preparation is not None
    y = _labels_for(table, preparation.label, model)
    made = preparation.rows(table), y, *_weights_and_ids(table, preparation, model.ids_)
    return model, Data(*made, preparation, notes=notes)


def query_rows(path: Path, model: Any, *, encoding: str | None = None) -> Queries:
    """Return the rows of a file for a model to predict, the model as wide as they are, and notes."""
    table = _read_for(path, model, encoding, fewest=1)
    if model._front is not None:
        return Queries(model, _piped(table, model), table)
    preparation = _preparation_for(table, model)
    if isinstance(table, SparseRows):
        rows = table.without_gaps(model.n_features_in_)
        model = _wide_enough(model, rows.X.shape[1])
        return Queries(model, rows.widened(model.n_features_in_).X, table)
    assert preparation is not None
    notes = [
        f"{path}: column {name!r} has a level {level!r} that the model does not know: coded as zeros"
        for name, level in preparation.unknown_levels(table)
    ]
    # The columns have been put in order by their names: rows without names are right from here on.
    model.__dict__.pop("feature_names_in_", None)
    return Queries(model, preparation.rows(table), table, notes)


def labelled_rows(
    path: Path, model: Any, *, label: str | None = None, encoding: str | None = None
) -> tuple[Queries, np.ndarray[Any, Any]]:
    """Return the rows of a file with their labels, to judge a model by; rows left out are noted."""
    table = _read_for(path, model, encoding)
    if model._front is not None and isinstance(table, Table):
        name, notes = label or _last_column(table, model), list[str]()
        table = _without(table, table.column(name, "label column").missing, "without a label", notes)
        return Queries(model, _piped(table, model), table, notes), _labels_for(table, name, model)
    preparation = _preparation_for(table, model)
    if isinstance(table, SparseRows):
        return query_rows(path, model, encoding=encoding), _labels_for(table, None, model)
    assert preparation is not None
    name, notes = label or preparation.label or "label", list[str]()
    table = _without(table, table.column(name, "label column").missing, "without a label", notes)
    if preparation.missing == "drop":
        table = _without(table, ~preparation.complete(table), "with a missing value", notes)
    y = _labels_for(table, name, model)
    model.__dict__.pop("feature_names_in_", None)
    return Queries(model, preparation.rows(table), table, notes), y


def labelled_part(asked: Queries) -> tuple[Matrix, np.ndarray[Any, Any]] | None:
    """Return those rows of a file that have labels, and these; None where fewer than two have."""
    model, table = asked.model, asked.table
    if isinstance(table, SparseRows):
        return (asked.X, _labels_for(table, None, model)) if table.y.size > 1 else None
    preparation = Record.of(model).preparation
    if preparation is None or preparation.label not in table.columns:
        return None
    known = ~table.columns[preparation.label].missing
    few = np.count_nonzero(known) < 2
    return None if few else (asked.X[known], _labels_for(table.only(known), preparation.label, model))


def ids_of(table: Table | SparseRows, model: Any) -> list[str]:
    """Return a name for each row of a file: its id where it has the column, else its line."""
    if isinstance(table, SparseRows):
        return [str(row) for row in range(table.X.shape[0])]
    preparation = Record.of(model).preparation
    if preparation is not None and preparation.id in table.columns:
        return table.columns[str(preparation.id)].texts()
    return [str(line) for line in table.lines]


def _last_column(table: Table, model: Any) -> str:
    """Return the column that a pipeline does not read: that of the labels."""
    read = model._front.feature_names or ()
    rest = [name for name in table.columns if name not in read]
    if "label" in rest:
        return "label"
    if len(rest) != 1:
        raise BadInputError(f"{table.path}: --label must say which column has the labels")
    return rest[0]


def _piped(table: Table | SparseRows, model: Any) -> Matrix:
    """Return what the steps before a model make of the rows of a file."""
    front = model._front
    if isinstance(table, SparseRows):
        X: Any = table.X
    elif front.feature_names is None:
        raise BadInputError(f"{table.path}: is a table, and the pipeline was fitted on rows without names")
    else:
        X = table.frame(front.feature_names)
    try:
        return front.transform(X)
    except ValueError as error:
        raise BadInputError(f"{table.path}: the pipeline of the model refuses it: {error}") from None


def _labels_for(table: Table | SparseRows, name: str | None, model: Any) -> np.ndarray[Any, Any]:
    """Return labels or values as the model has them, those of a table out of the column of that name."""
    regression = not hasattr(model, "classes_")
    if isinstance(table, Table):
        assert name is not None
        return _values(table, name) if regression else _labels(table, name, model.classes_.dtype.kind)
    if regression:
        return table.y.astype(np.float64)
    if model.classes_.dtype.kind in "US":
        raise BadInputError(f"{table.path}: labels are numbers, and those of the model are text")
    return table.y.astype(model.classes_.dtype) if table.y.dtype.kind == "i" else table.y


def _read_for(path: Path, model: Any, encoding: str | None, fewest: int = 2) -> Table | SparseRows:
    """Return the rows of a file that is like the one the model was trained on."""
    preparation = Record.of(model).preparation
    header = None if preparation is None or preparation.header else False
    return read(path, header=header, encoding=encoding, fewest=fewest)


def rows_to_check(path: Path, model: Any, label: str | None) -> Any:
    """Return the rows of a file to verify a model by: prepared as for its training, or the file itself."""
    front, last = Front.of(model)
    if front is not None and last._state.holds_rows:
        raise BadInputError(f"{path}: the rows of a pipeline are compared from Python: squaresvm.verify")
    if not isinstance(model, Updating) or Record.of(model).preparation is None:
        return path
    if label is not None:
        raise BadInputError(f"{path}: the model knows its column of labels from the training")
    widened, rows = new_rows(path, model)
    if widened.n_features_in_ != model.n_features_in_:
        raise BadInputError(f"{path}: has levels that the model does not know, and so other rows")
    return rows.X, rows.y, rows.weights


def _preparation_for(table: Table | SparseRows, model: Any) -> Preparation | None:
    """Return how a table becomes rows of the model; a BadInputError where it does not."""
    preparation = Record.of(model).preparation
    if isinstance(table, SparseRows):
        if preparation is not None:
            raise BadInputError(f"{table.path}: is a LIBSVM file, and the model was trained on a table")
        if model._state.settings.kernel is None:
            raise BadInputError(f"{table.path}: the model has a precomputed kernel: use it from Python")
        return None
    if preparation is not None:
        return preparation
    names = getattr(model, "feature_names_in_", None)
    if names is None or model._state.settings.kernel is None:
        raise BadInputError(f"{table.path}: is a table, and the model was trained on rows without names")
    return Preparation.plain(names)


def _wide_enough(model: Any, width: int) -> Any:
    """Return the model with as many columns as the rows have: those that it lacks are zero in its rows."""
    missing = width - model.n_features_in_
    if missing <= 0:
        return model
    held: IntArray = np.arange(model.n_features_in_)
    return with_columns(model, np.concatenate([held, np.full(missing, -1)]))


# Labels, weights, ids ----------------------------------------------------------------------------------


def _complete(table: Table, name: str, purpose: str) -> Column:
    column = table.column(name, f"{purpose} column")
    if column.missing.any():
        row = int(np.flatnonzero(column.missing)[0])
        advice = "; --skip-unlabelled leaves such rows out" if purpose == "label" else ""
        raise table.error(row, f"the {purpose} column {name!r} holds no value{advice}")
    return column


def _values(table: Table, name: str, options: TableOptions | None = None) -> FloatArray:
    """Return the values of a regression, in whatever notation they are written."""
    column, given = _complete(table, name, "label"), options or TableOptions()
    notation = None
    if column.is_text and column.numbers() is None:
        try:
            notation = guess_number(column.cells.tolist(), given.decimal, given.thousands, any_unit=True)
        except AmbiguousError as error:
            what = f"the label column {name!r}: {error}; say which by --decimal"
            raise TableError(f"{table.path}: {what}") from None
    return table.finite_numbers(column, notation or PLAIN)


def _labels(table: Table, name: str, kind: str | None = None) -> np.ndarray[Any, Any]:
    """Return labels: integers where all are whole numbers, else strings; of one kind where that is given.

    Codes stay as they are written: 01 is not 1.
    """
    column = _complete(table, name, "label")
    is_code = column.is_text and any(_CODE.fullmatch(cell) for cell in column.cells.tolist())
    integers = None if is_code and kind not in ("i", "u") else column.integers()
    if kind in ("i", "u") and integers is None:
        row = column.first_text() or 0
        raise table.error(
            row, f"the label {column.quoted(row)} is no whole number, and those of the model are"
        )
    if integers is not None and kind != "U":
        return integers
    return np.array(column.texts(), dtype=np.str_)


def _weights_and_ids(
    table: Table, preparation: Preparation, held: np.ndarray[Any, Any] | None = None
) -> tuple[FloatArray | None, list[Any] | None]:
    weights, ids = None, None
    if preparation.weight is not None:
        weights = table.finite_numbers(_complete(table, preparation.weight, "weight"))
        if weights.min() < 0:
            row = int(np.flatnonzero(weights < 0)[0])
            raise table.error(row, f"the weight {weights[row]:g} is negative")
    if preparation.id is not None:
        ids = _ids(_complete(table, preparation.id, "id"), held)
    return weights, ids


def _ids(column: Column, held: np.ndarray[Any, Any] | None) -> list[Any]:
    """Return ids: integers where all are written as such, else strings.

    Beside rows that are held, one id is always of one kind: text where all ids held are, else an integer
    where it is written as such.
    """
    texts = list(column.texts())
    integers = [as_integer(text) for text in texts]
    if held is None:
        return texts if None in integers else integers
    if held.dtype.kind == "U":
        return texts
    return [text if number is None else number for text, number in zip(texts, integers, strict=True)]
