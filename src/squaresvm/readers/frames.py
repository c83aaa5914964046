"""Data frames as tables, so that a preparation taken from a file serves them as well."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm.readers.origin import MISSING
from squaresvm.readers.preparation import Preparation, PreparedRows
from squaresvm.readers.table import Column, Table

__all__ = ["prepared_rows", "table_of"]


def prepared_rows(X: Any, preparation: Preparation, *, new_levels: bool = True) -> Any:
    """Return a data frame as rows of numbers, and rows that have been prepared as they are.

    Parameters
    ----------
    X : data frame, or what `Preparation.rows` returned
    preparation : Preparation
    new_levels : bool, default=True
        Whether levels that are not known may be coded as zeros.

    Raises
    ------
    ValueError
        For a bare array, unless columns are taken as they are: it would have to be scaled and coded.
    """
    is_frame = hasattr(X, "columns") and hasattr(X, "__getitem__")
    is_plain = preparation.features == Preparation.plain(preparation.feature_names).features
    if isinstance(X, PreparedRows) or (is_plain and not is_frame):
        return X
    if not is_frame:
        names = ", ".join(feature.name for feature in preparation.features[:6])
        names += ", ..." if len(preparation.features) > 6 else ""
        raise ValueError(
            "the model was trained on columns of a table, which it scales and codes itself: give a data "
            f"frame with the columns {names}, not a bare array"
        )
    table = table_of(X)
    strange = [] if new_levels else preparation.unknown_levels(table)
    if strange:
        name, level = strange[0]
        raise ValueError(
            f"column {name!r} holds the level {level!r}, which the model does not know: `squaresvm learn` "
            "can add levels"
        )
    return preparation.rows(table)


def table_of(frame: Any) -> Table:
    """Return the columns of a data frame, of Pandas or Polars, as a table.

    Examples
    --------
    >>> import pandas as pd
    >>> from squaresvm.readers.frames import table_of
    >>> table_of(pd.DataFrame({"age": [41, None], "town": ["Ulm", None]})).column("town").texts()
    ['Ulm', '']
    """
    names = [str(name) for name in frame.columns]
    columns = {name: Column(name, _cells(frame[key])) for name, key in zip(names, frame.columns, strict=True)}
    return Table(Path("data frame"), columns, range(len(frame)), unit="row")


def _cells(series: Any) -> np.ndarray[Any, Any]:
    values = np.asarray(series)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    texts = [_text(value) for value in series.to_list()]
    cells = np.empty(len(texts), dtype=object)
    cells[:] = ["" if text in MISSING else text for text in texts]
    return cells


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, date):  # And times, which are dates too.
        return value.isoformat()
    if isinstance(value, bool):
        return str(int(value))
    return str(value).strip()
