"""What a column of a table becomes: numbers, or one column of 0 and 1 for each level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from squaresvm.readers.notation import PLAIN, Notation
from squaresvm.readers.origin import TableError
from squaresvm.readers.table import Column, Table
from squaresvm.typing import FloatArray

__all__ = [
    "Category",
    "Feature",
    "Number",
    "category_of",
    "coded",
    "decode_feature",
    "encode_feature",
    "number_of",
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
