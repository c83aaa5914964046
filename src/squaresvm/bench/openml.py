"""Data sets of OpenML as CSV, in the coding of a data folder, with the levels of their nominal columns."""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import fetch_openml

from squaresvm.bench.data import DataError
from squaresvm.bench.sources import Source

__all__ = ["FromOpenML", "from_openml"]


class FromOpenML(NamedTuple):
    """A CSV file, and what SCHEMA.json says of it."""

    content: bytes
    schema: dict[str, Any]


def from_openml(source: Source) -> FromOpenML:
    """Return a data set of OpenML, whose checksum scikit-learn has verified.

    Arrays and not frames: only so do nominal columns keep levels that no row has, in the declared order, and
    pandas is not needed.

    Raises
    ------
    DataError
        It has not the rows, columns or classes that the source declares.
    Exception
        Whatever scikit-learn raises where there is no connection, or the data are not as OpenML says.
    """
    with warnings.catch_warnings():  # Of another try after a failure, and of several versions: no news here.
        warnings.simplefilter("ignore")
        found = fetch_openml(
            data_id=source.openml,
            target_column=source.label or "default-target",
            as_frame=False,
            parser="liac-arff",
            cache=False,
            n_retries=1,
        )
    labels = [_cell(value, None) for value in np.ravel(found.target)]
    names = [source.rename.get(name, name) for name in found.feature_names]
    levels = {source.rename.get(name, name): values for name, values in (found.categories or {}).items()}
    _check(source, found.data.shape, labels)
    rows = [
        [*(_cell(value, levels.get(name)) for name, value in zip(names, row, strict=True)), label]
        for row, label in zip(found.data, labels, strict=True)
    ]
    features = [_feature(name, levels) for name in names]
    return FromOpenML(
        _csv([[*names, "label"], *rows]), {"features": features, "label_values": sorted(set(labels))}
    )


def _check(source: Source, shape: tuple[int, ...], labels: Sequence[str]) -> None:
    if shape != (source.rows, source.columns):
        raise DataError(
            f"OpenML {source.openml} has {shape[0]} rows and {shape[1]} columns; "
            f"the papers' have {source.rows} and {source.columns}"
        )
    counts = dict(sorted(Counter(labels).items()))
    if counts != dict(source.classes):
        raise DataError(
            f"OpenML {source.openml} has classes {counts}; the papers' are {dict(source.classes)}"
        )


def _cell(value: Any, levels: Sequence[str] | None) -> str:
    """Return a value as text, the level that a code stands for, or nothing where it is missing."""
    if isinstance(value, str):
        return value
    number = float(value)
    if math.isnan(number):
        return ""
    if levels is not None:
        return str(levels[int(number)])
    return str(int(number)) if number.is_integer() else repr(number)


def _feature(name: str, levels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    if name not in levels:
        return {"name": name, "type": "numeric"}
    return {"name": name, "type": "nominal", "values": list(levels[name])}


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")
