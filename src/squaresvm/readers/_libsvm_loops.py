"""LIBSVM text into numbers, compiled when first needed and kept on disk.

Import this module only where text is about to be read: importing Numba takes half a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from squaresvm.runtime.resources import compiled
from squaresvm.typing import FloatArray

__all__ = [
    "ABOVE",
    "BAD_INDEX",
    "BAD_LABEL",
    "BAD_VALUE",
    "BELOW",
    "FINE",
    "NOT_INCREASING",
    "NO_LABEL",
    "cut_rows",
    "parse_rows",
]

Text = npt.NDArray[np.uint8]

# What may be wrong with a line.
FINE, NO_LABEL, BAD_LABEL, BAD_INDEX, BAD_VALUE, NOT_INCREASING, BELOW, ABOVE = range(8)

_NEWLINE, _HASH, _COLON, _PLUS, _MINUS, _DOT = (ord(char) for char in "\n#:+-.")
_ZERO, _LOWER_E, _UPPER_E = (ord(char) for char in "0eE")
_Q, _I, _D = (ord(char) for char in "qid")

# These powers are exact in float64.
_POWERS = 10.0 ** np.arange(23)
_MOST_DIGITS = 10**17
_SPLITTER = 2.0**27 + 1.0
_MARGIN = 2.0**-48

_BAD, _READ, _HARD = range(3)


@compiled()
def _is_space(char: int) -> bool:
    return char == 32 or (9 <= char <= 13 and char != _NEWLINE)


@compiled()
def cut_rows(text: Text, most: int) -> tuple[int, int, int]:
    """Return how many rows, lines and bytes the first `most` rows take; blank lines and comments are none."""
    rows, lines, start = 0, 0, 0
    size = text.size
    while start < size and rows < most:
        at = start
        while at < size and _is_space(text[at]):
            at += 1
        if at < size and text[at] != _NEWLINE and text[at] != _HASH:
            rows += 1
        while at < size and text[at] != _NEWLINE:
            at += 1
        lines += 1
        start = at + 1
    return rows, lines, min(start, size)


@compiled()
def parse_rows(
    text: Text,
    low: int,
    high: int,
    labels: FloatArray,
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    values: FloatArray,
    hard: npt.NDArray[np.int64],
) -> tuple[int, int, int, int, int]:
    """Fill the arrays with the rows of a text whose indices lie from `low` to `high`.

    Numbers that one rounding cannot make are left to the caller: `hard` gets their place (entry, or
    -1 - row for a label) and the bytes they take.

    Returns
    -------
    error, line, start, stop, n_hard : int
        What is wrong (FINE: nothing), on which line, counted from 0, and in which bytes; hard numbers.
    """
    size, at, line = text.size, 0, 0
    row, entry, n_hard = 0, 0, 0
    indptr[0] = 0
    while at < size:
        at = _skip_space(text, at)
        if at >= size or text[at] == _NEWLINE or text[at] == _HASH:
            at = _end_of_line(text, at) + 1
            line += 1
            continue
        stop = _end_of_token(text, at)
        if _find_colon(text, at, stop) < stop:
            return NO_LABEL, line, at, stop, n_hard
        kind, number = _number(text, at, stop)
        if kind == _BAD:
            return BAD_LABEL, line, at, stop, n_hard
        if kind == _HARD:
            hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = -1 - row, at, stop
            n_hard += 1
        labels[row] = number
        at = _skip_space(text, stop)
        if at + 3 < size and text[at] == _Q and text[at + 1] == _I and text[at + 2] == _D:
            if text[at + 3] != _COLON:
                return BAD_INDEX, line, at, _end_of_token(text, at), n_hard
            at = _skip_space(text, _end_of_token(text, at))
        last = -1
        while at < size and text[at] != _NEWLINE and text[at] != _HASH:
            stop = _end_of_token(text, at)
            colon = _find_colon(text, at, stop)
            index = _index(text, at, colon)
            if colon == stop or index < 0:
                return BAD_INDEX, line, at, stop, n_hard
            if index < low:
                return BELOW, line, at, stop, n_hard
            if index > high:
                return ABOVE, line, at, stop, n_hard
            if index <= last:
                return NOT_INCREASING, line, at, stop, n_hard
            kind, number = _number(text, colon + 1, stop)
            if kind == _BAD:
                return BAD_VALUE, line, at, stop, n_hard
            if kind == _HARD:
                hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = entry, colon + 1, stop
                n_hard += 1
            indices[entry], values[entry] = index, number
            last = index
            entry += 1
            at = _skip_space(text, stop)
        row += 1
        indptr[row] = entry
        at = _end_of_line(text, at) + 1
        line += 1
    return FINE, line, 0, 0, n_hard


@compiled()
def _skip_space(text: Text, at: int) -> int:
    while at < text.size and _is_space(text[at]):
        at += 1
    return at


@compiled()
def _end_of_line(text: Text, at: int) -> int:
    while at < text.size and text[at] != _NEWLINE:
        at += 1
    return at


@compiled()
def _end_of_token(text: Text, at: int) -> int:
    while at < text.size:
        if text[at] == _NEWLINE or text[at] == _HASH or _is_space(text[at]):
            break
        at += 1
    return at


@compiled()
def _find_colon(text: Text, start: int, stop: int) -> int:
    for at in range(start, stop):
        if text[at] == _COLON:
            return at
    return stop


@compiled()
def _index(text: Text, start: int, stop: int) -> int:
    """Return a whole number, at most a little above 2^40, or -1 where there is none."""
    if start == stop:
        return -1
    index = 0
    for at in range(start, stop):
        digit = int(text[at]) - _ZERO
        if digit < 0 or digit > 9:
            return -1
        if index < 2**40:
            index = 10 * index + digit
    return index


@compiled()
def _number(text: Text, start: int, stop: int) -> tuple[int, float]:
    """Return whether a decimal number was read, is bad, or too hard to round here; and its value."""
    at, negative = start, False
    if at < stop and (text[at] == _PLUS or text[at] == _MINUS):
        negative = text[at] == _MINUS
        at += 1
    mantissa, digits, power, is_hard = 0, 0, 0, False
    seen_dot = False
    while at < stop:
        digit = int(text[at]) - _ZERO
        if 0 <= digit <= 9:
            digits += 1
            if mantissa < _MOST_DIGITS:
                mantissa = 10 * mantissa + digit
                power -= seen_dot
            else:
                is_hard = True
        elif text[at] == _DOT and not seen_dot:
            seen_dot = True
        else:
            break
        at += 1
    if digits == 0:
        return _BAD, 0.0
    if at < stop:
        if text[at] != _LOWER_E and text[at] != _UPPER_E:
            return _BAD, 0.0
        at += 1
        sign = 1
        if at < stop and (text[at] == _PLUS or text[at] == _MINUS):
            sign = -1 if text[at] == _MINUS else 1
            at += 1
        exponent = _index(text, at, stop)
        if exponent < 0:
            return _BAD, 0.0
        power += sign * exponent
    if is_hard or power < -22 or power > 22:
        return _HARD, 0.0
    is_rounded, value = _scaled(mantissa, power)
    if not is_rounded:
        return _HARD, 0.0
    return _READ, -value if negative else value


@compiled()
def _scaled(mantissa: int, power: int) -> tuple[bool, float]:
    """Return mantissa * 10^power rounded once, and whether that is certain.

    The mantissa is a sum of two floats, the power is one; the product or quotient is found as a float and
    a correction with a bound on its error. Where both ends of the bound round alike, so does the truth.
    """
    high = float(mantissa)
    low = float(mantissa - np.int64(high))
    scale = _POWERS[abs(power)]
    if power >= 0:
        value = high * scale
        rest = _product_error(high, scale, value)
        correction, size = rest + low * scale, abs(rest) + abs(low * scale)
    else:
        value = high / scale
        product = value * scale
        # The remainder of a rounded quotient is a float, and so are both of its parts.
        rest = (high - product) - _product_error(value, scale, product)
        correction, size = (rest + low) / scale, (abs(rest) + abs(low)) / scale
    margin = _MARGIN * size
    value_below, value_above = value + (correction - margin), value + (correction + margin)
    return value_below == value_above, value_below


@compiled()
def _product_error(a: float, b: float, product: float) -> float:
    """Return a b - product exactly, by halves of 26 bits."""
    a_high = _SPLITTER * a
    a_high -= a_high - a
    b_high = _SPLITTER * b
    b_high -= b_high - b
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
