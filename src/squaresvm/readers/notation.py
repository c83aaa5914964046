"""How numbers and dates are written in a column, and what they stand for.

A column is read in one notation: decimal and thousands separators, a currency sign or another unit, or a
format of dates, which become days since 1970. `guess` finds the notation in which every cell is a number;
where several are possible and would give other numbers, it says so and guesses none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np

from squaresvm.typing import FloatArray

__all__ = ["PLAIN", "AmbiguousError", "Notation", "common_dates", "guess_date", "guess_number"]

_CODES = re.compile(
    "AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|SEK|TRY|USD|ZAR|kr|zł|Kč|Fr|%"
)
#: Decimal and thousands separators, the likeliest first.
_SEPARATORS = ((".", ""), (",", ""), (".", ","), (",", "."), (".", "'"), (",", " "), (".", " "))
_DATES = (
    "iso",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d-%b-%Y",
)
_TIMES = ("", " %H:%M", " %H:%M:%S")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ].+)?")
_AMOUNT = re.compile(r"([+-]?)\s*([^\d\s.,'+-]*)\s*([+-]?[\d.,' ]*\d(?:[eE][+-]?\d+)?)\s*([^\d\s.,']*)")
#: Spaces that do not break, and the minus sign of typesetters.
_TYPOGRAPHIC = {0xA0: " ", 0x202F: " ", 0x2212: "-"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AmbiguousError(ValueError):
    """Cells can be read in several ways that give other numbers; the message says which."""


@dataclass(frozen=True)
class Notation:
    """How the cells of a column are read.

    Parameters
    ----------
    decimal : str, default='.'
        What stands before the fraction.
    thousands : str, default=''
        What may stand between groups of three digits.
    unit : str, default=''
        A currency sign, or another unit, that cells may have before or behind the number.
    date : str, default=''
        A format as in ``datetime.strptime``, or 'iso': cells are dates, their numbers are days since 1970.

    Examples
    --------
    >>> from squaresvm.readers.notation import Notation
    >>> Notation(decimal=",", thousands=".", unit="€").number("1.234,50 €")
    1234.5
    >>> Notation(date="%d.%m.%Y").number("03.01.1970")
    2.0
    >>> Notation().number("1,5") is None
    True
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""
    date: str = ""

    def number(self, text: str) -> float | None:
        """Return the number that a text stands for; None where it is none."""
        if self.date:
            return _days(text, self.date)
        if self == PLAIN:
            try:
                return None if "_" in text else float(text)
            except ValueError:
                return None
        unit, amount = _split(text)
        if unit not in ("", self.unit) or not _pattern(self.decimal, self.thousands).fullmatch(amount):
            return None
        if self.thousands:
            amount = amount.replace(self.thousands, "")
        return float(amount.replace(self.decimal, "."))

    def numbers(self, cells: Iterable[str]) -> FloatArray | None:
        """Return the numbers of all cells, NaN where one is empty; None where a cell is no number."""
        found = [self.number(cell) if cell else np.nan for cell in cells]
        return None if None in found else np.array(found, dtype=np.float64)

    def __str__(self) -> str:
        """Return the notation in words."""
        if self.date:
            return "dates" if self.date == "iso" else f"dates as {self.date}"
        words = [] if self.decimal == "." else [f"decimal {self.decimal!r}"]
        words += [f"thousands {self.thousands!r}"] if self.thousands else []
        words += [f"unit {self.unit}"] if self.unit else []
        return ", ".join(words)

    def to_json(self) -> dict[str, str]:
        """Return what differs from plain numbers, as JSON."""
        return {name: value for name, value in asdict(self).items() if value != getattr(PLAIN, name)}

    @classmethod
    def from_json(cls, encoded: Any) -> Notation:
        """Return the notation from JSON; a ValueError where it is none."""
        if not isinstance(encoded, dict) or not all(isinstance(value, str) for value in encoded.values()):
            raise ValueError("the notation of a column makes no sense")
        if set(encoded) - set(asdict(PLAIN)):
            raise ValueError("the notation of a column has parts that are not known")
        found = cls(**encoded)
        if found.decimal not in (".", ",") or len(found.thousands) > 1 or found.decimal == found.thousands:
            raise ValueError("the separators of a column make no sense")
        return found


#: Numbers as Python reads them.
PLAIN = Notation()


@lru_cache(maxsize=64)
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    groups = rf"\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+|" if thousands else ""
    return re.compile(rf"[+-]?(?:{groups}\d+)(?:{re.escape(decimal)}\d*)?(?:[eE][+-]?\d+)?")


def _split(text: str) -> tuple[str, str]:
    """Return the unit of a text, before or behind the number, and the number; all as unit where none is."""
    found = _AMOUNT.fullmatch(text.translate(_TYPOGRAPHIC).strip())
    if found is None:
        return text, ""
    sign, before, amount, behind = found.groups()
    if (before and behind) or (sign and amount[0] in "+-"):
        return text, ""
    return before or behind, sign + amount.strip()


def _days(text: str, form: str) -> float | None:
    try:
        if form == "iso":
            if not _ISO.fullmatch(text):
                return None
            moment = datetime.fromisoformat(text)
        else:
            moment = datetime.strptime(text, form)
    except ValueError:
        return None
    moment = moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH).total_seconds() / 86400.0


def guess_number(
    cells: Sequence[str], decimal: str | None = None, thousands: str | None = None, any_unit: bool = False
) -> Notation | None:
    """Return the notation in which all cells are numbers; None where there is none.

    Parameters
    ----------
    cells : sequence of str
        None of them empty.
    decimal, thousands : str, optional
        Where they are known.
    any_unit : bool, default=False
        Whether a unit may be any word, and not only a currency or a percent sign.

    Raises
    ------
    AmbiguousError
        Where several are possible that give other numbers.

    Examples
    --------
    >>> from squaresvm.readers.notation import guess_number
    >>> guess_number(["$1,200.50", "$80"])
    Notation(decimal='.', thousands=',', unit='$', date='')
    >>> guess_number(["red", "5"]) is None
    True
    """
    parts = [_split(cell) for cell in cells]
    units = {unit for unit, _ in parts} - {""}
    if len(units) > 1 or not all(amount for _, amount in parts):
        return None
    unit = next(iter(units), "")
    if unit and not any_unit and not _is_known(unit):
        return None
    possible = [
        Notation(point, mark, unit)
        for point, mark in _separators(decimal, thousands)
        if all(_pattern(point, mark).fullmatch(amount) for _, amount in parts)
    ]
    return _only(possible, cells)


def guess_date(cells: Sequence[str]) -> Notation | None:
    """Return the format in which all cells are dates; None where there is none.

    Raises
    ------
    AmbiguousError
        Where several are possible that give other dates.
    """
    if not all(any(char.isdigit() for char in cell) for cell in cells[:20]):
        return None
    forms = ["iso", *(form + time for form in _DATES[1:] for time in _TIMES)]
    possible = [Notation(date=form) for form in forms if all(_days(cell, form) is not None for cell in cells)]
    return _only(possible, cells)


def common_dates(cells: Sequence[str]) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """Return a format that a third of the cells or more are dates in and such a cell, and the same of others.

    None where the cells are no dates in several formats.

    Examples
    --------
    >>> from squaresvm.readers.notation import common_dates
    >>> common_dates(["2020-05-26", "27/02/2021", "2020-11-03"])
    (('iso', '2020-05-26'), ('%d/%m/%Y', '27/02/2021'))
    """
    rest = list(cells)
    found: list[tuple[str, str]] = []
    for _ in range(2):
        counts = {form: sum(_days(cell, form) is not None for cell in rest) for form in _DATES}
        form = max(counts, key=lambda each: counts[each])
        if not counts[form] or (not found and 3 * counts[form] < len(cells)):
            return None
        found.append((form, next(cell for cell in rest if _days(cell, form) is not None)))
        rest = [cell for cell in rest if _days(cell, form) is None]
    return found[0], found[1]


def _separators(decimal: str | None, thousands: str | None) -> Iterable[tuple[str, str]]:
    if decimal is not None and thousands is not None:
        return [(decimal, thousands)]
    if decimal is not None:
        return [pair for pair in _SEPARATORS if pair[0] == decimal]
    if thousands is not None:
        return [pair for pair in ((".", thousands), (",", thousands)) if pair[0] != pair[1]]
    return _SEPARATORS


def _is_known(unit: str) -> bool:
    return bool(_CODES.fullmatch(unit)) or (len(unit) <= 3 and unicodedata.category(unit[-1]) == "Sc")


def _only(possible: Sequence[Notation], cells: Sequence[str]) -> Notation | None:
    """Return the first of several notations, if all give the same numbers."""
    if not possible:
        return None
    first = possible[0]
    for other in possible[1:]:
        for cell in cells:
            one, two = first.number(cell), other.number(cell)
            if one != two:
                raise AmbiguousError(
                    f"{cell!r} can be read as {_shown(first, one)} or as {_shown(other, two)}"
                )
    return first


def _shown(notation: Notation, value: float | None) -> str:
    if value is not None and notation.date:
        day = datetime.fromtimestamp(86400.0 * value, tz=UTC)
        return f"{day:%Y-%m-%d} ({notation.date})"
    return f"{value:.10g}"
