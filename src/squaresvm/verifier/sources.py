"""The data that a model is verified by, whatever it comes as, as a source of the model's columns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm.readers import Table, kind_of, read
from squaresvm.streaming import ArraySource, LibsvmSource, ParquetSource, Source, as_source, is_source
from squaresvm.verifier.reading import Fitted

__all__ = ["source_of"]

_WHAT = "data must be a source, a path, (X, y) or (X, y, sample_weight)"


def source_of(fitted: Fitted, data: Any, label: str | None) -> Source:
    """Return the data as a source.

    Raises
    ------
    ValueError
        Where it has other columns than the model.
    """
    if isinstance(data, str | os.PathLike):
        source = _of_file(fitted, Path(data), label)
    elif label is not None:
        raise ValueError("label names a column of a file: data is none")
    elif isinstance(data, tuple) and len(data) in (2, 3):
        source = as_source(*data)
    elif is_source(data):
        source = data
    else:
        raise ValueError(f"{_WHAT}, got {type(data).__name__}")
    if source.n_features != fitted.n_features:
        raise ValueError(
            f"the data has {source.n_features} columns, and the model was fitted on {fitted.n_features}"
        )
    names, own = source.feature_names, fitted.feature_names
    if names is not None and own is not None and tuple(names) != own:
        place = next(i for i, name in enumerate(own) if names[i] != name)
        raise ValueError(
            f"column {place} of the data is {names[place]!r}, but the model has {own[place]!r} there"
        )
    return source


def _of_file(fitted: Fitted, path: Path, label: str | None) -> Source:
    kind = "parquet" if path.is_dir() else kind_of(path)
    if kind == "parquet":
        return ParquetSource(path, label=label or "label", columns=fitted.feature_names)
    if kind == "csv":
        return _of_table(fitted, path, label or "label")
    if label is not None:
        raise ValueError(f"{path}: is LIBSVM text, which has no column {label!r}")
    found = LibsvmSource(path)
    # The last columns may be zero in all rows.
    return LibsvmSource(path, n_features=max(found.n_features, fitted.n_features))


def _of_table(fitted: Fitted, path: Path, label: str) -> Source:
    table = read(path)
    assert isinstance(table, Table)
    names = fitted.feature_names
    if names is None:
        names = tuple(name for name in table.columns if name != label)
    X = np.column_stack([table.finite_numbers(table.column(name, "column")) for name in names])
    column = table.column(label, "label column")
    if column.missing.any():
        row = int(np.flatnonzero(column.missing)[0])
        raise table.error(row, f"the label column {label!r} holds no value")
    classes = fitted.classes
    if classes is None or classes.dtype.kind in "fiub":
        return ArraySource(X, table.finite_numbers(column))
    return ArraySource(X, np.array(column.texts(), dtype=np.str_))
