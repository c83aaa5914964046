"""From data files to rows, labels, weights and ids that fit a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.cli.failures import BadInputError
from squaresvm.files import Record, with_columns
from squaresvm.readers import Column, SparseRows, Table, TableError, read
from squaresvm.readers.preparation import Preparation
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Data", "new_rows", "query_rows", "training_rows"]


@dataclass(frozen=True)
class Data:
    """What a file gives to `fit` or `learn`."""

    X: Matrix
    y: np.ndarray[Any, Any]
    weights: FloatArray | None = None
    ids: list[Any] | None = None
    preparation: Preparation | None = None


@dataclass(frozen=True)
class TableOptions:
    """Options of `train` that are about columns; they mean nothing for LIBSVM files."""

    label: str | None = None
    id: str | None = None
    weight: str | None = None
    ignore: Sequence[str] = field(default_factory=tuple)
    categories: Sequence[str] = field(default_factory=tuple)
    scale: bool = True
    missing: str = "refuse"


def training_rows(path: Path, options: TableOptions, *, regression: bool) -> Data:
    """Return the rows of a file, and how they were made from it."""
    table = read(path)
    if isinstance(table, SparseRows):
        named = (options.label, options.id, options.weight, *options.ignore, *options.categories)
        wanted = next((name for name in named if name is not None), None)
        if wanted is not None:
            raise TableError(f"{path}: is a LIBSVM file: it has no column {wanted!r}")
        return Data(table.X, table.y.astype(np.float64) if regression else table.y)
    label = options.label
    if label is None:
        label = "label" if "label" in table.columns else list(table.columns)[-1]
    preparation = Preparation.of(
        table,
        label=label,
        id=options.id,
        weight=options.weight,
        ignore=options.ignore,
        categories=options.categories,
        scale=options.scale,
        missing=options.missing,
    )
    y = _values(table, label) if regression else _labels(table, label)
    return Data(preparation.rows(table), y, *_weights_and_ids(table, preparation), preparation)


def new_rows(path: Path, model: Any) -> tuple[Any, Data]:
    """Return the rows of a file for a model to learn, and the model with the columns that they bring."""
    table = read(path)
    preparation = _preparation_for(table, model)
    regression = not hasattr(model, "classes_")
    if isinstance(table, SparseRows):
        y = table.y.astype(np.float64) if regression else _like_classes(table.y, model, path)
        return _wide_enough(model, table), Data(_padded(table.X, model.n_features_in_), y)
    assert preparation is not None
    if Record.of(model).preparation is None:
        raise BadInputError(f"{path}: the model comes from Python, and so must the rows that it learns")
    table.column(preparation.label, "label column")
    new = preparation.unknown_levels(table)
    if new:
        preparation, sources = preparation.with_levels(new)
        model = with_columns(model, sources)
    y = (
        _values(table, preparation.label)
        if regression
        else _labels(table, preparation.label, model.classes_.dtype.kind)
    )
    return model, Data(preparation.rows(table), y, *_weights_and_ids(table, preparation), preparation)


def query_rows(path: Path, model: Any) -> tuple[Any, Matrix, list[str]]:
    """Return the rows of a file for a model to predict, the model as wide as they are, and notes."""
    table = read(path)
    preparation = _preparation_for(table, model)
    if isinstance(table, SparseRows):
        model = _wide_enough(model, table)
        return model, _padded(table.X, model.n_features_in_), []
    assert preparation is not None
    notes = [
        f"{path}: column {name!r} has a level {level!r} that the model does not know: coded as zeros"
        for name, level in preparation.unknown_levels(table)
    ]
    # The columns have been put in order by their names: rows without names are right from here on.
    model.__dict__.pop("feature_names_in_", None)
    return model, preparation.rows(table), notes


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


def _wide_enough(model: Any, table: SparseRows) -> Any:
    """Return the model with as many columns as the rows have: those that it lacks are zero in its rows."""
    missing = table.X.shape[1] - model.n_features_in_
    if missing <= 0:
        return model
    held: IntArray = np.arange(model.n_features_in_)
    return with_columns(model, np.concatenate([held, np.full(missing, -1)]))


def _padded(X: Matrix, width: int) -> Matrix:
    if X.shape[1] >= width:
        return X
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


# Labels, weights, ids ----------------------------------------------------------------------------------


def _complete(table: Table, name: str, purpose: str) -> Column:
    column = table.column(name, f"{purpose} column")
    if column.missing.any():
        row = int(np.flatnonzero(column.missing)[0])
        raise table.error(row, f"the {purpose} column {name!r} holds no value")
    return column


def _values(table: Table, name: str) -> FloatArray:
    return table.finite_numbers(_complete(table, name, "label"))


def _labels(table: Table, name: str, kind: str | None = None) -> np.ndarray[Any, Any]:
    """Return labels: integers where all are whole numbers, else strings; of one kind where that is given."""
    column = _complete(table, name, "label")
    numbers = column.numbers()
    whole = numbers is not None and bool(
        np.all(numbers == np.round(numbers)) and np.abs(numbers).max() < 2**53
    )
    if kind in ("i", "u") and not whole:
        row = column.first_text() or 0
        raise table.error(
            row, f"the label {column.quoted(row)} is no whole number, and those of the model are"
        )
    if numbers is not None and whole and kind != "U":
        return numbers.astype(np.int64)
    return np.array(column.texts(), dtype=np.str_)


def _like_classes(y: np.ndarray[Any, Any], model: Any, path: Path) -> np.ndarray[Any, Any]:
    if model.classes_.dtype.kind in "US":
        raise BadInputError(f"{path}: labels are numbers, and those of the model are text")
    return y.astype(model.classes_.dtype) if y.dtype.kind == "i" else y


def _weights_and_ids(table: Table, preparation: Preparation) -> tuple[FloatArray | None, list[Any] | None]:
    weights, ids = None, None
    if preparation.weight is not None:
        weights = table.finite_numbers(_complete(table, preparation.weight, "weight"))
        if weights.min() < 0:
            row = int(np.flatnonzero(weights < 0)[0])
            raise table.error(row, f"the weight {weights[row]:g} is negative")
    if preparation.id is not None:
        ids = _ids(table, _complete(table, preparation.id, "id"))
    return weights, ids


def _ids(table: Table, column: Column) -> list[Any]:
    """Return ids: integers where all are written as such, else strings; no two alike."""
    texts = column.texts()
    seen: set[str] = set()
    for row, text in enumerate(texts):
        if text in seen:
            raise table.error(row, f"the id {column.quoted(row)} occurs twice")
        seen.add(text)
    if all(text.lstrip("-").isdigit() and len(text) < 19 and str(int(text)) == text for text in texts):
        return [int(text) for text in texts]
    return list(texts)
