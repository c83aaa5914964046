"""What each column of a table is taken for, and why, and what it becomes; a question where that is not plain.

Columns whose cells are all numbers are numbers, in whatever notation; dates are days; codes with leading
zeros and words are levels. A column with nearly as many levels as rows (names, comments) has other levels in
new rows, so it is not taken for levels without being asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from squaresvm.readers.notation import PLAIN, AmbiguousError, Notation, common_dates, guess_date, guess_number
from squaresvm.readers.origin import TableError
from squaresvm.readers.second_look import CONSTANT, look_at
from squaresvm.readers.table import Column, Table
from squaresvm.typing import FloatArray

__all__ = [
    "MISSING_RULES",
    "Category",
    "ColumnPlan",
    "Feature",
    "Number",
    "Wishes",
    "coded",
    "decode_feature",
    "encode_feature",
    "label_question",
    "plan_columns",
]


@dataclass(frozen=True)
class Number:
    """A column of numbers: x becomes (x - centre) / scale, and `fill` stands for a missing x."""

    name: str
    centre: float
    scale: float
    fill: float
    notation: Notation = PLAIN

    width = 1

    @property
    def coded_fill(self) -> float:
        """What a missing value is in the rows."""
        return (self.fill - self.centre) / self.scale


@dataclass(frozen=True)
class Category:
    """A column of categories: one column of 0 and 1 for each level."""

    name: str
    levels: tuple[str, ...]

    @property
    def width(self) -> int:
        """Number of columns that it becomes."""
        return len(self.levels)


Feature: TypeAlias = Number | Category


def number_of(table: Table, column: Column, notation: Notation, scale: bool) -> Number:
    """Return a column as numbers, with mean and standard deviation of those that are there."""
    numbers = table.finite_numbers(column, notation)
    present = numbers[~np.isnan(numbers)]
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(present.mean()), float(present.std())
    if not np.isfinite(mean) or not np.isfinite(deviation):
        raise TableError(f"{table.path}: column {column.name!r} holds numbers too large to be scaled")
    # Rounding leaves a deviation that is not quite zero of a column that is constant.
    if deviation <= 8.0 * np.finfo(np.float64).eps * abs(mean):
        mean, deviation = float(present[0]), 1.0
    if not scale:
        return Number(column.name, 0.0, 1.0, mean, notation)
    return Number(column.name, mean, deviation, mean, notation)


def category_of(column: Column) -> Category:
    """Return a column as levels."""
    return Category(column.name, tuple(sorted(set(column.texts()) - {""})))


def coded(table: Table, column: Column, feature: Feature) -> FloatArray:
    """Return the columns that a feature becomes; a level that is not known is coded as zeros."""
    if isinstance(feature, Number):
        numbers = table.finite_numbers(column, feature.notation)
        filled = np.where(np.isnan(numbers), feature.fill, numbers)
        return np.asarray((filled - feature.centre) / feature.scale)[:, None]
    out = np.zeros((table.count, feature.width))
    place = {level: position for position, level in enumerate(feature.levels)}
    codes = np.array([place.get(text, -1) for text in column.texts()])
    known = np.flatnonzero(codes >= 0)
    out[known, codes[known]] = 1.0
    return out


def encode_feature(feature: Feature) -> list[Any]:
    """Return a feature as JSON."""
    if isinstance(feature, Category):
        return ["category", feature.name, *feature.levels]
    numbers = [feature.centre, feature.scale, feature.fill]
    notation = [] if feature.notation == PLAIN else [feature.notation.to_json()]
    return ["number", feature.name, *numbers, *notation]


def decode_feature(entry: Any) -> Feature:
    """Return a feature from JSON; a ValueError where it is none."""
    if not isinstance(entry, list) or len(entry) < 2 or not isinstance(entry[1], str):
        raise ValueError("a column of its preparation is incomplete")
    kind, name, *rest = entry
    if kind == "category" and all(isinstance(level, str) for level in rest) and len(set(rest)) == len(rest):
        return Category(name, tuple(rest))
    numbers = len(rest) in (3, 4) and all(type(value) is float for value in rest[:3])
    if kind == "number" and numbers and rest[1] > 0:
        centre, scale, fill = rest[:3]
        notation = Notation.from_json(rest[3]) if len(rest) == 4 else PLAIN
        return Number(name, centre, scale, fill, notation)
    raise ValueError("a column of its preparation makes no sense")


#: What to do where a value is missing.
MISSING_RULES = ("refuse", "mean", "drop")
#: Levels, or values of a label, that are never too many.
_FEW = 10
_CODE = re.compile(r"0\d+")


@dataclass(frozen=True)
class Wishes:
    """What the user says of columns.

    Parameters
    ----------
    label : str
    id, weight : str, optional
    drop : collection of str
        Columns that are no features.
    categories : collection of str
        Columns whose cells are levels, even if they are numbers.
    numbers : collection of str
        Columns whose cells are numbers, with whatever unit.
    dates : mapping of str to str
        Columns of dates, and their formats; '' where that is to be found.
    decimal, thousands : str, optional
        Separators of all columns of text.
    scale : bool
        Whether to standardise numbers.
    missing : {'refuse', 'mean', 'drop'}
    """

    label: str
    id: str | None = None
    weight: str | None = None
    drop: Sequence[str] = ()
    categories: Sequence[str] = ()
    numbers: Sequence[str] = ()
    dates: Mapping[str, str] = field(default_factory=dict)
    decimal: str | None = None
    thousands: str | None = None
    scale: bool = True
    missing: str = "refuse"

    @property
    def apart(self) -> set[str]:
        """Columns that are no features."""
        return {name for name in (self.label, self.id, self.weight) if name is not None} | set(self.drop)


@dataclass(frozen=True)
class ColumnPlan:
    """What a column is taken for.

    Parameters
    ----------
    name : str
    kind : {'label', 'id', 'weight', 'number', 'date', 'category', 'left out'}
    detail : str
        Range, levels, or why it is left out.
    missing : int
        Cells without a value.
    note : str, default=''
        What is worth a second look.
    """

    name: str
    kind: str
    detail: str
    missing: int
    note: str = ""


def plan_columns(table: Table, wishes: Wishes) -> tuple[list[Feature], list[ColumnPlan]]:
    """Return the features of a table, and what each of its columns is taken for.

    Raises
    ------
    TableError
        Where a column is not there, or it is not plain what it is; the message names the options that say so.
    """
    _check_names(table, wishes)
    features: list[Feature] = []
    plans: list[ColumnPlan] = []
    for column in table.columns.values():
        role = _role(column.name, wishes)
        missing = int(column.missing.sum())
        if role is not None:
            plans.append(ColumnPlan(column.name, role, "" if role != "left out" else "as asked", missing))
        elif missing == table.count:
            plans.append(ColumnPlan(column.name, "left out", "it holds no value", missing))
        else:
            feature = _feature(table, column, wishes)
            features.append(feature)
            plans.append(_described(column, feature, missing))
    if not features:
        raise TableError(f"{table.path}: there is no column beside the label to learn from")
    return features, plans


def _check_names(table: Table, wishes: Wishes) -> None:
    purposes = ((wishes.label, "label column"), (wishes.id, "id column"), (wishes.weight, "weight column"))
    for name, purpose in purposes:
        if name is not None:
            table.column(name, purpose)
    for name in sorted({*wishes.drop, *wishes.categories, *wishes.numbers, *wishes.dates}):
        table.column(name)


def _role(name: str, wishes: Wishes) -> str | None:
    roles = {wishes.label: "label", wishes.id: "id", wishes.weight: "weight"}
    return roles.get(name, "left out" if name in wishes.drop else None)


def _feature(table: Table, column: Column, wishes: Wishes) -> Feature:
    name = column.name
    if name in wishes.categories:
        return category_of(column)
    if name in wishes.dates:
        return number_of(table, column, _date(table, column, wishes.dates[name]), wishes.scale)
    if not column.is_text:
        return number_of(table, column, PLAIN, wishes.scale)
    cells = [cell for cell in column.cells.tolist() if cell]
    if name in wishes.numbers:
        return number_of(table, column, _number(table, column, cells, wishes, True) or PLAIN, wishes.scale)
    if any(_CODE.fullmatch(cell) for cell in cells) and all(cell.isdigit() for cell in cells):
        return _levels(table, column, "codes with leading zeros")
    notation = _number(table, column, cells, wishes, False) or _found_date(table, column, cells)
    if notation is not None:
        return number_of(table, column, notation, wishes.scale)
    _check_mixed(table, column)
    return _levels(table, column, "words")


def _number(
    table: Table, column: Column, cells: Sequence[str], wishes: Wishes, forced: bool
) -> Notation | None:
    given = wishes.decimal, wishes.thousands
    if given in ((None, None), (".", None)) and column.numbers() is not None:
        return PLAIN
    try:
        return guess_number(cells, *given, any_unit=forced)
    except AmbiguousError as error:
        raise TableError(
            f"{table.path}: column {column.name!r}: {error}; say which by --decimal and --thousands"
        ) from None


def _found_date(table: Table, column: Column, cells: Sequence[str]) -> Notation | None:
    try:
        return guess_date(cells)
    except AmbiguousError as error:
        raise TableError(
            f"{table.path}: column {column.name!r}: {error}; say which by --date '{column.name}=%d/%m/%Y' or "
            "the like"
        ) from None


def _date(table: Table, column: Column, form: str) -> Notation:
    if form:
        return Notation(date=form)
    cells = [cell for cell in column.texts() if cell]
    found = _found_date(table, column, cells)
    if found is None:
        _check_dates(table, column)
        raise TableError(
            f"{table.path}: column {column.name!r} holds {cells[0]!r}, which is in no known date format; "
            f"give it by --date '{column.name}=%d/%m/%Y' or the like"
        )
    return found


def _check_mixed(table: Table, column: Column) -> None:
    row = column.odd_one_out()
    if row is None:
        return
    raise table.error(
        row,
        f"column {column.name!r} is mixed: {column.quoted(row)} is not a number, but others are; "
        f"--category {column.name} takes all of them for levels, --drop {column.name} leaves the column out",
    )


def _check_dates(table: Table, column: Column) -> None:
    """Raise a TableError where cells are dates in several formats: as words they would be levels."""
    cells = [cell for cell in column.texts() if cell]
    forms = common_dates(cells)
    if forms is None:
        return
    (_, first), (_, second) = forms
    raise TableError(
        f"{table.path}: column {column.name!r} has dates in several formats, such as {first!r} and "
        f"{second!r}: write them in one, such as 2020-12-31, or leave the column out by --drop {column.name}"
    )


def _levels(table: Table, column: Column, what: str) -> Category:
    found = category_of(column)
    if found.width > _FEW and 3 * found.width > table.count:
        _check_dates(table, column)
        row = int(np.flatnonzero(~column.missing)[0])
        raise TableError(
            f"{table.path}: column {column.name!r} holds {found.width} different {what} in {table.count} "
            f"rows, such as {column.quoted(row)}: few would occur again in new rows; --drop {column.name} "
            f"leaves it out, --id {column.name} takes it for ids, --category {column.name} for levels"
        )
    return found


def _described(column: Column, feature: Feature, missing: int) -> ColumnPlan:
    if isinstance(feature, Category):
        shown = ", ".join(feature.levels[:4]) + (", ..." if feature.width > 4 else "")
        note = "" if feature.width <= 50 else f"becomes {feature.width} columns"
        note = CONSTANT if feature.width == 1 and not missing else note
        levels = f"{feature.width} level{'s' * (feature.width > 1)}: {shown}"
        return ColumnPlan(column.name, "category", levels, missing, note)
    notation = feature.notation
    values = column.numbers() if notation == PLAIN else notation.numbers(column.cells.tolist())
    assert values is not None
    present = values[~np.isnan(values)]
    ends = float(present.min()), float(present.max())
    low, high = (_shown(value, notation) for value in ends)
    if low == high and ends[0] != ends[1] and not notation.date:
        low, high = (f"{value:.15g}" for value in ends)
    written = notation
    if notation.thousands and not any(notation.thousands in cell for cell in column.texts()):
        written = replace(notation, thousands="")  # Said of the file, and of no use here.
    words = "" if written == PLAIN else f" ({written})"
    kind = "date" if notation.date else "number"
    return ColumnPlan(column.name, kind, f"{low} to {high}{words}", missing, look_at(values))


def _shown(value: float, notation: Notation) -> str:
    if not notation.date:
        return f"{value:.6g}"
    return str(np.datetime64(int(value // 1), "D"))


def label_question(table: Table, column: Column) -> str | None:
    """Return what to ask where a column of labels looks like no classes; None where it does."""
    cells = [cell for cell in column.texts() if cell]
    values = set(cells)
    if len(values) <= _FEW:
        return None
    few_each = 5 * len(values) > len(cells)
    numbers = _label_numbers(cells)
    if numbers is not None and (few_each or any(value != round(value) for value in numbers)):
        return (
            f"the label column {column.name!r} holds {len(values)} different numbers in {len(cells)} rows, "
            "which look like values and not like classes: --estimator lssvr learns values, --category "
            f"{column.name} treats each as a class anyway"
        )
    if numbers is None and 2 * len(values) > len(cells):
        return (
            f"the label column {column.name!r} holds {len(values)} different labels in {len(cells)} rows: "
            f"--label names another column, --category {column.name} treats each as a class anyway"
        )
    return None


def _label_numbers(cells: Iterable[str]) -> list[float] | None:
    try:
        notation = guess_number(list(cells))
    except AmbiguousError:
        return [0.5]
    if notation is None:
        return None
    return [value for cell in cells if (value := notation.number(cell)) is not None]
