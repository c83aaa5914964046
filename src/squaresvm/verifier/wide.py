"""Numbers of twice the digits, and products of matrices without rounding: the arithmetic of the verifier.

A `Wide` number is the exact sum of two float64, about 106 bits (Dekker 1971; Knuth, TAOCP 2, 4.2.2). Only
additions, subtractions and multiplications that IEEE 754 rounds to the nearest are used, and nothing that a
processor or a library may compute in its own way: no extended registers, no `exp` of the platform.

Products of matrices cut every entry into slices of a few bits (Ozaki, Ogita, Oishi and Rump 2012). A product
of two slices, and any sum of such products over a row, is a whole number of units below 2^53: whatever BLAS
adds it up, in whatever order, with fused operations or without, the result is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.typing import FloatArray, Matrix

__all__ = ["Wide", "exact_sum", "exponential", "product", "row_squares"]

#: Bits that a product of matrices keeps, below the largest entry of a row.
_KEPT_BITS = 104
#: Entries of the table of exp, and digits that it is computed with.
_TABLE, _DIGITS = 1024, 50


def _two_sum(a: FloatArray, b: Any) -> tuple[FloatArray, FloatArray]:
    """Return a + b rounded, and what the rounding has left out, exactly."""
    s = a + b
    back = s - a
    return s, (a - (s - back)) + (b - back)


def _quick_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same, where |a| >= |b|."""
    s = a + b
    return s, b - (s - a)


def _halves(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two numbers of 26 bits whose sum is a."""
    big = a * 134217729.0  # 2^27 + 1
    high = big - (big - a)
    return high, a - high


def _two_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a b rounded, and what the rounding has left out, exactly."""
    p = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@dataclass(frozen=True, eq=False)
class Wide:
    """An array of numbers hi + lo, with |lo| at most half a unit in the last place of hi."""

    hi: FloatArray
    lo: FloatArray

    # NumPy must leave `array * wide` to this class.
    __array_ufunc__ = None

    @classmethod
    def of(cls, value: Any) -> Wide:
        """Return float64 numbers, or what is wide already, as wide ones."""
        if isinstance(value, Wide):
            return value
        hi = np.asarray(value, dtype=np.float64)
        return cls(hi, np.zeros_like(hi))

    @classmethod
    def total(cls, parts: FloatArray | Wide) -> Wide:
        """Return the sum over the rows of an array, wide."""
        wide = cls.of(parts)
        while wide.hi.shape[0] > 1:  # Halves on each other, as in a tournament: few operations, small errors.
            middle = (wide.hi.shape[0] + 1) // 2
            upper, rest = wide[:middle], wide[middle:]
            both = upper[: rest.hi.shape[0]] + rest
            left = upper[rest.hi.shape[0] :]
            wide = cls(np.concatenate([both.hi, left.hi]), np.concatenate([both.lo, left.lo]))
        return wide[0] if wide.hi.shape[0] else cls.of(np.zeros(wide.hi.shape[1:]))

    def __getitem__(self, key: Any) -> Wide:
        """Return some of the numbers."""
        return Wide(np.asarray(self.hi[key]), np.asarray(self.lo[key]))

    def __neg__(self) -> Wide:
        """Return -x."""
        return Wide(-self.hi, -self.lo)

    def __add__(self, other: Any) -> Wide:
        """Return x + y."""
        if not isinstance(other, Wide):
            s, e = _two_sum(self.hi, other)
            return Wide(*_quick_sum(s, e + self.lo))
        y = other
        s, e = _two_sum(self.hi, y.hi)
        t, f = _two_sum(self.lo, y.lo)
        s, e = _quick_sum(s, e + t)
        return Wide(*_quick_sum(s, e + f))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Wide:
        """Return x - y."""
        return self + (-other)

    def __rsub__(self, other: Any) -> Wide:
        """Return y - x."""
        return (-self) + other

    def __mul__(self, other: Any) -> Wide:
        """Return x y."""
        if not isinstance(other, Wide):
            p, e = _two_product(self.hi, np.asarray(other))
            return Wide(*_quick_sum(p, e + self.lo * other))
        y = other
        p, e = _two_product(self.hi, y.hi)
        return Wide(*_quick_sum(p, e + (self.hi * y.lo + self.lo * y.hi)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Wide:
        """Return x / y: a quotient, and that of what it leaves."""
        y = Wide.of(other)
        first = self.hi / y.hi
        return Wide(*_quick_sum(first, (self - y * first).hi / y.hi))

    @property
    def size(self) -> Wide:
        """|x|."""
        sign = np.where(self.hi < 0.0, -1.0, 1.0)
        return Wide(sign * self.hi, sign * self.lo)

    def where(self, chosen: Any) -> Wide:
        """Return x where it is chosen, and zero elsewhere."""
        return Wide(np.where(chosen, self.hi, 0.0), np.where(chosen, self.lo, 0.0))

    def sums(self) -> FloatArray:
        """Return the sum of every column, in float64, rounded once."""
        return np.array([exact_sum([hi, lo]) for hi, lo in zip(self.hi.T, self.lo.T, strict=True)])


def exact_sum(parts: Iterable[FloatArray]) -> float:
    """Return the sum of all numbers of some arrays, rounded once."""
    return math.fsum(value for part in parts for value in np.ravel(part).tolist())


# exp --------------------------------------------------------------------------------------------------


@cache
def _exp_table() -> tuple[Wide, Wide, Wide]:
    """Return ln 2 / 1024, 2^(j / 1024) for j below 1024, and 1/6."""
    with localcontext() as context:
        context.prec = _DIGITS
        step = Decimal(2).ln() / _TABLE
        values = [(step * j).exp() for j in range(_TABLE)]
        return _rounded([step])[0], _rounded(values), _rounded([Decimal(1) / 6])[0]


def _rounded(values: list[Decimal]) -> Wide:
    hi = [float(value) for value in values]
    lo = [float(value - Decimal(first)) for value, first in zip(values, hi, strict=True)]
    return Wide(np.array(hi), np.array(lo))


def exponential(x: Wide) -> Wide:
    """Return exp(x), to about 100 bits; zero below -745.

    With k the nearest whole number to 1024 x / ln 2 and r what it leaves, at most ln 2 / 2048, exp(x) is
    2^(k / 1024) exp(r). Of the series of exp(r), terms from r^4 / 24 on are below 1e-15 of the whole.
    """
    step, table, sixth = _exp_table()
    inside = Wide(np.clip(x.hi, -750.0, 709.0), np.where(np.abs(x.hi) < 700.0, x.lo, 0.0))
    k = np.rint(inside.hi / step.hi)
    r = inside - step * k
    square, f = r * r, r.hi
    small = square.hi * square.hi / 24.0 * (1.0 + f / 5.0 * (1.0 + f / 6.0 * (1.0 + f / 7.0)))
    half = Wide(0.5 * square.hi, 0.5 * square.lo)
    series = (square * r) * sixth + half + small + r + 1.0
    whole = k.astype(np.int64)
    found = series * table[whole % _TABLE]
    power = (whole // _TABLE).astype(np.int32)
    return Wide(np.ldexp(found.hi, power), np.ldexp(found.lo, power))


# Products of matrices -------------------------------------------------------------------------------


def _cut(length: int) -> tuple[int, int]:
    """Return how many bits a slice has, and how many slices there are, for sums of so many products."""
    count = 4
    while True:
        bits = (53 - math.ceil(math.log2(max(2, length * count)))) // 2
        if bits * count >= _KEPT_BITS:
            return bits, count
        count += 1


def _slices(A: Matrix, bits: int, count: int) -> list[Matrix]:
    """Return matrices that sum up to A, each of so many bits below the largest entry of a row."""
    sparse = sp.issparse(A)
    entries = np.asarray(A.data if sparse else A, dtype=np.float64)
    if sparse:
        largest = np.zeros(A.shape[0])
        rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        np.maximum.at(largest, rows, np.abs(entries))
        exponent = np.frexp(largest)[1][rows]
    else:
        exponent = np.frexp(np.abs(entries).max(axis=1, initial=0.0))[1][:, None]
    found, rest = [], entries
    for k in range(1, count + 1):
        anchor = np.ldexp(1.5, exponent - bits * k + 52)  # Its last bit is the unit of the slice.
        part = (rest + anchor) - anchor
        rest = rest - part
        found.append(sp.csr_matrix((part, A.indices, A.indptr), shape=A.shape) if sparse else part)
    return found


def product(A: Matrix, B: Matrix | Wide) -> Wide:
    """Return A B' for rows A and rows B, dense or sparse, exact but for what is below 2^-104 of the largest.

    The low parts of wide B are so small that a product in float64 has all of their digits that count.
    """
    if isinstance(B, Wide):
        low = np.asarray(A @ B.lo.T, dtype=np.float64)
        return product(A, B.hi) + low
    bits, count = _cut(A.shape[1])
    left, right = _slices(A, bits, count), _slices(B, bits, count)
    found = Wide.of(np.zeros((A.shape[0], B.shape[0])))
    for order in reversed(range(count)):  # The smallest first.
        same = [left[k] @ right[order - k].T for k in range(order + 1)]
        exact = sum(same[1:], start=same[0])
        found = found + np.asarray(exact.toarray() if sp.issparse(exact) else exact)
    return found


def row_squares(A: Matrix) -> Wide:
    """Return |a|^2 of every row."""
    bits, count = _cut(A.shape[1])
    parts = _slices(A, bits, count)
    found = Wide.of(np.zeros(A.shape[0]))
    for order in reversed(range(count)):
        exact = np.zeros(A.shape[0])
        for k in range(order + 1):
            both = parts[k].multiply(parts[order - k]) if sp.issparse(A) else parts[k] * parts[order - k]
            exact = exact + np.asarray(both.sum(axis=1)).ravel()
        found = found + exact
    return found
