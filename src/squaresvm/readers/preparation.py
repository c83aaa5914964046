"""From columns of a table to rows of numbers, in the same way at every time.

Numbers are standardised by mean and standard deviation of the training rows, categories become one column
of 0 and 1 for each level. The preparation is taken once, from the training rows, and stays: forgetting a row
removes the levels that only it had, but mean and deviation remain those of the training until it is repeated.

Where missing values are the mean, a column of numbers in which no row differs from that mean says nothing of
any row, but the mean would say what a row was that is not there any more: such a column is left out at the
training, and again when rows have been forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm.evidence.hashes import column_tags
from squaresvm.readers.origin import MISSING, TableError
from squaresvm.readers.plan import (
    MISSING_RULES,
    Category,
    ColumnPlan,
    Feature,
    Number,
    Wishes,
    coded,
    decode_feature,
    encode_feature,
    plan_columns,
)
from squaresvm.readers.table import Column, Table
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["Category", "Number", "Preparation", "PreparedRows", "prepared_rows", "table_of"]


class PreparedRows(np.ndarray[Any, np.dtype[np.float64]]):
    """Rows that a preparation has made: a model that has one takes no other arrays."""


@dataclass(frozen=True)
class Preparation:
    """How rows are made from a table.

    Parameters
    ----------
    features : tuple of Number or Category
    label : str
        Column of labels or values.
    id : str or None
        Column of ids.
    weight : str or None
        Column of weights.
    missing : {'refuse', 'mean', 'drop'}
        Missing values are refused; or they are the mean of numbers, and no level of categories; or rows
        with one are left out.
    header : bool, default=True
        Whether files begin with a line of names.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from squaresvm.readers.preparation import Preparation
    >>> from squaresvm.readers import Column, Table
    >>> cells = {"age": ["20", "40"], "town": ["Ulm", "Bonn"], "label": ["a", "b"]}
    >>> columns = {name: Column(name, np.array(values, dtype=object)) for name, values in cells.items()}
    >>> table = Table(Path("people.csv"), columns, [2, 3])
    >>> preparation = Preparation.of(table, label="label")
    >>> preparation.feature_names
    ['age', 'town=Bonn', 'town=Ulm']
    >>> preparation.rows(table).tolist()
    [[-1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """

    features: tuple[Feature, ...]
    label: str
    id: str | None = None
    weight: str | None = None
    missing: str = "refuse"
    header: bool = True

    # Taking a preparation from a table -------------------------------------------------------------

    @classmethod
    def of(cls, table: Table, **wishes: Any) -> Preparation:
        """Return the preparation that the rows of a table call for.

        Parameters
        ----------
        table : Table
        **wishes :
            As in :class:`squaresvm.readers.plan.Wishes`.

        Returns
        -------
        Preparation
        """
        return cls.planned(table, Wishes(**wishes))[0]

    @classmethod
    def planned(cls, table: Table, wishes: Wishes) -> tuple[Preparation, list[ColumnPlan]]:
        """Return the preparation, and what each column was taken for."""
        features, plans = plan_columns(table, wishes)
        prepared = cls(tuple(features), wishes.label, wishes.id, wishes.weight, wishes.missing)
        for feature in features:
            prepared._check_missing(table, table.column(feature.name), is_training=True)
        varied = prepared._with_varied_numbers(table)
        used = {feature.name for feature in varied.features}
        gone = {feature.name for feature in features} - used
        why = "no row differs from its mean"
        return varied, [
            replace(plan, kind="left out", detail=why) if plan.name in gone else plan for plan in plans
        ]

    def _with_varied_numbers(self, table: Table) -> Preparation:
        """Return the preparation without numbers that the mean stands for in every row."""
        unfilled = self.unfilled_numbers(self.rows(table))
        rest = tuple(feature for feature in self.features if feature.name not in unfilled)
        if not rest:
            raise TableError(f"{table.path}: no column beside the label holds more than one value")
        return replace(self, features=rest)

    @classmethod
    def plain(cls, names: Iterable[str]) -> Preparation:
        """Return a preparation that takes numbers as they are, from columns of the given names."""
        return cls(tuple(Number(str(name), 0.0, 1.0, 0.0) for name in names), label="")

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns that rows have: levels stand behind an equals sign."""
        names: list[str] = []
        for feature in self.features:
            if isinstance(feature, Number):
                names.append(feature.name)
            else:
                names += [f"{feature.name}={level}" for level in feature.levels]
        return names

    @property
    def n_columns(self) -> int:
        """Number of columns that rows have."""
        return sum(feature.width for feature in self.features)

    # Making rows -----------------------------------------------------------------------------------

    def rows(self, table: Table) -> PreparedRows:
        """Return the rows of a table; a level that is not known is coded as zeros."""
        out = np.zeros((table.count, self.n_columns))
        start = 0
        for feature in self.features:
            column = table.column(feature.name)
            self._check_missing(table, column)
            out[:, start : start + feature.width] = coded(table, column, feature)
            start += feature.width
        if not np.isfinite(out).all():
            row = int(np.flatnonzero(~np.isfinite(out).all(axis=1))[0])
            raise table.error(row, "holds a number too large to be scaled")
        return out.view(PreparedRows)

    def unknown_levels(self, table: Table) -> list[tuple[str, str]]:
        """Return (column, level) of the levels that a table has and the preparation does not."""
        found: list[tuple[str, str]] = []
        for feature in self.features:
            if isinstance(feature, Category):
                new = set(table.column(feature.name).texts()) - set(feature.levels) - {""}
                found += [(feature.name, level) for level in sorted(new)]
        return found

    def _check_missing(self, table: Table, column: Column, is_training: bool = False) -> None:
        if self.missing == "mean" or not column.missing.any():
            return
        row = int(np.flatnonzero(column.missing)[0])
        what = f"column {column.name!r} holds no value"
        if is_training:
            what += (
                "; --missing mean takes the mean for numbers and no level for categories, --missing drop "
                "leaves such rows out"
            )
        else:
            what += ", and the model was trained without missing values: fill it in, or train it otherwise"
        raise table.error(row, what)

    def complete(self, table: Table) -> BoolArray:
        """Return which rows of a table have a value for every feature."""
        gaps = [table.column(feature.name).missing for feature in self.features]
        return np.asarray(~np.any(gaps, axis=0))

    # Levels that come and go -----------------------------------------------------------------------

    def with_levels(self, new: Sequence[tuple[str, str]]) -> tuple[Preparation, IntArray]:
        """Return the preparation with new levels, and for each column where it stood before, or -1."""
        features: list[Feature] = []
        sources: list[int] = []
        start = 0
        for feature in self.features:
            before = list(range(start, start + feature.width))
            start += feature.width
            if isinstance(feature, Category):
                more = [level for name, level in new if name == feature.name]
                feature = replace(feature, levels=(*feature.levels, *more))
                before += [-1] * len(more)
            features.append(feature)
            sources += before
        return replace(self, features=tuple(features)), np.array(sources, dtype=np.intp)

    def without_unused_levels(self, X: Matrix) -> tuple[Preparation, IntArray]:
        """Return the preparation without what no row of X has, and which columns stay.

        That is: levels that no row has; and, where missing values are the mean, scaled numbers that no row
        has but the mean. One column stays in any case, and forgets its numbers.
        """
        # A number that is not scaled stays: the rows themselves hold its mean.
        unfilled = self.unfilled_numbers(X)
        features: list[Feature] = []
        sources: list[int] = []
        start = 0
        for feature in self.features:
            block = range(start, start + feature.width)
            start += feature.width
            if isinstance(feature, Category):
                used = [bool(np.any(X[:, column])) for column in block]
                sources += [column for column, has in zip(block, used, strict=True) if has]
                levels = [level for level, has in zip(feature.levels, used, strict=True) if has]
                feature = replace(feature, levels=tuple(levels))
            elif feature.name in unfilled and feature.coded_fill == 0.0:
                continue
            else:
                sources += block
            features.append(feature)
        if not sources:
            return self._with_one_void()
        return replace(self, features=tuple(features)), np.array(sources, dtype=np.intp)

    def _with_one_void(self) -> tuple[Preparation, IntArray]:
        """Return the preparation with one column, which rows need, without its numbers; and its place."""
        start = 0
        for feature in self.features:
            if isinstance(feature, Number):
                void = Number(feature.name, 0.0, 1.0, 0.0)
                return replace(self, features=(void,)), np.array([start], dtype=np.intp)
            start += feature.width
        return self, np.arange(self.n_columns)

    def unfilled_numbers(self, X: Matrix) -> list[str]:
        """Return the numbers whose mean stands in every row of X, where missing values are the mean."""
        if self.missing != "mean":
            return []
        start, found = 0, []
        for feature in self.features:
            if isinstance(feature, Number) and np.all(_dense(X[:, start]) == feature.coded_fill):
                found.append(feature.name)
            start += feature.width
        return found

    # What the training has left in it ----------------------------------------------------------------

    def moved(self, X: Matrix) -> tuple[int, dict[str, list[float]]]:
        """Return how many numbers are scaled, and how far mean and deviation of each would move by X now.

        In deviations of the training and in whole per cent.
        """
        start, found = 0, {}
        for feature in self.features:
            if isinstance(feature, Number) and (feature.centre, feature.scale) != (0.0, 1.0):
                values = _dense(X[:, start]).astype(np.float64)
                found[feature.name] = [round(float(v), 2) + 0.0 for v in (values.mean(), values.std() - 1.0)]
            start += feature.width
        return len(found), found

    @cached_property
    def column_tags(self) -> IntArray:
        """What stands for each column in hashes of rows: levels may come and go beside it."""
        return column_tags(self.feature_names)

    def kept_of_rows(self) -> list[str]:
        """Return, in words, what is kept of rows of the training, also of those that have left."""
        numbers = sum(isinstance(feature, Number) for feature in self.features)
        if not numbers:
            return []
        which = "the column" if numbers == 1 else f"{numbers} columns"
        return [
            f"mean and deviation of {which} of numbers, of all rows of the training, until it is repeated"
        ]

    # Files -----------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the preparation as JSON."""
        features = [encode_feature(feature) for feature in self.features]
        apart = {"label": self.label, "id": self.id, "weight": self.weight, "missing": self.missing}
        return {"features": features, **apart, **({} if self.header else {"header": False})}

    @classmethod
    def from_json(cls, encoded: Any) -> Preparation:
        """Return the preparation from JSON; a ValueError where it is none."""
        if not isinstance(encoded, dict) or not isinstance(encoded.get("features"), list):
            raise ValueError("its preparation is incomplete")
        features = tuple(decode_feature(entry) for entry in encoded["features"])
        names = [feature.name for feature in features]
        label: Any = encoded.get("label")
        id, weight, missing = encoded.get("id"), encoded.get("weight"), encoded.get("missing")
        texts = isinstance(label, str) and all(name is None or isinstance(name, str) for name in (id, weight))
        if not texts or missing not in MISSING_RULES or len(set(names)) != len(names) or not names:
            raise ValueError("its preparation makes no sense")
        header = encoded.get("header", True)
        if type(header) is not bool:
            raise ValueError("its preparation makes no sense")
        return cls(features, label, id, weight, str(missing), header)


def _dense(column: Any) -> FloatArray:
    values: FloatArray = column.toarray() if hasattr(column, "toarray") else column
    return values


# Data frames ---------------------------------------------------------------------------------------------


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
            "the model was trained on columns of a table, which it scales and encodes itself: give a data "
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
    >>> from squaresvm.readers.preparation import table_of
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
