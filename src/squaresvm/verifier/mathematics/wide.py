"""Numbers of twice the precision, and products of matrices without rounding: the arithmetic of the verifier.

A `Wide` number is the exact sum of two float64, about 106 bits (Dekker 1971; Knuth, TAOCP 2, 4.2.2). Only
additions, subtractions and multiplications that IEEE 754 rounds to the nearest are used, and nothing that a
processor or a library may compute in its own way: no extended registers, no `exp` of the platform.

Products of matrices cut every entry into slices of a few bits (Ozaki, Ogita, Oishi and Rump 2012). A product
of two slices, and any sum of such products over a row, is a whole number of units below 2^53: whatever BLAS
adds it up, in whatever order, with fused operations or without, the result is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.typing import FloatArray, Matrix

__all__ = ["Wide", "exponential", "product", "row_squares"]

#: Bits that a product of matrices keeps, below the largest entry of a row.
_KEPT_BITS = 104
#: Entries of the table of exp, and digits that it is computed with.
_TABLE, _DIGITS = 1024, 50


def _two_sum(a: FloatArray, b: Any) -> tuple[FloatArray, FloatArray]:
    """Return a + b rounded, and what the rounding has left out, exactly."""
    s = a + b
    back = s - a
    return s, (a - (s - back)) + (b - back)


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
    def _settled(cls, large: FloatArray, small: FloatArray) -> Wide:
        """Return the sum of two arrays of which the first is the larger in size."""
        s = large + small
        return cls(s, small - (s - large))

    def __getitem__(self, key: Any) -> Wide:
        return Wide(np.asarray(self.hi[key]), np.asarray(self.lo[key]))

    def __neg__(self) -> Wide:
        return Wide(-self.hi, -self.lo)

    def __add__(self, other: Any) -> Wide:
        s, e = _two_sum(self.hi, other.hi if isinstance(other, Wide) else other)
        if not isinstance(other, Wide):
            return Wide._settled(s, e + self.lo)
        t, f = _two_sum(self.lo, other.lo)
        part = Wide._settled(s, e + t)
        return Wide._settled(part.hi, part.lo + f)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Wide:
        return self + (-other)

    def __rsub__(self, other: Any) -> Wide:
        return (-self) + other

    def __mul__(self, other: Any) -> Wide:
        y, low = (other.hi, other.lo) if isinstance(other, Wide) else (np.asarray(other), 0.0)
        p, e = _two_product(self.hi, y)
        return Wide._settled(p, e + (self.hi * low + self.lo * y))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Wide:
        y = Wide.of(other)
        first = self.hi / y.hi  # A quotient, and that of what it leaves.
        return Wide._settled(first, (self - y * first).hi / y.hi)

    @property
    def size(self) -> Wide:
        """|x|."""
        sign = np.where(self.hi < 0.0, -1.0, 1.0)
        return Wide(sign * self.hi, sign * self.lo)

    @property
    def T(self) -> Wide:
        """The transpose."""
        return Wide(self.hi.T, self.lo.T)

    def where(self, chosen: Any) -> Wide:
        """Return x where it is chosen, and zero elsewhere."""
        return Wide(np.where(chosen, self.hi, 0.0), np.where(chosen, self.lo, 0.0))

    def total(self) -> Wide:
        """Return the sum over the rows."""
        rest = self
        while rest.hi.shape[0] > 1:  # Halves on each other, as in a tournament: few operations, small errors.
            middle = (rest.hi.shape[0] + 1) // 2
            upper, lower = rest[:middle], rest[middle:]
            both, left = upper[: lower.hi.shape[0]] + lower, upper[lower.hi.shape[0] :]
            rest = Wide(np.concatenate([both.hi, left.hi]), np.concatenate([both.lo, left.lo]))
        return rest[0] if rest.hi.shape[0] else Wide.of(np.zeros(rest.hi.shape[1:]))


# exp --------------------------------------------------------------------------------------------------


@cache
def _exp_table() -> tuple[Wide, Wide, Wide]:
    """Return ln 2 / 1024, 2^(j / 1024) for j below 1024, and 1/6."""

    def rounded(values: list[Decimal]) -> Wide:
        hi = [float(value) for value in values]
        lo = [float(value - Decimal(first)) for value, first in zip(values, hi, strict=True)]
        return Wide(np.array(hi), np.array(lo))

    with localcontext() as context:
        context.prec = _DIGITS
        step = Decimal(2).ln() / _TABLE
        table = rounded([(step * j).exp() for j in range(_TABLE)])
        return rounded([step])[0], table, rounded([Decimal(1) / 6])[0]


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
    series = (square * r) * sixth + Wide(0.5 * square.hi, 0.5 * square.lo) + small + r + 1.0
    whole = k.astype(np.int64)
    found, power = series * table[whole % _TABLE], (whole // _TABLE).astype(np.int32)
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


def _slices(A: Matrix) -> list[Matrix]:
    """Return matrices that sum up to A, each of a few bits below the largest entry of a row."""
    bits, count = _cut(A.shape[1])
    sparse = sp.issparse(A)
    rest = np.asarray(A.data if sparse else A, dtype=np.float64)
    if sparse:
        rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        largest = np.zeros(A.shape[0])
        np.maximum.at(largest, rows, np.abs(rest))
        exponent = np.frexp(largest)[1][rows]
    else:
        exponent = np.frexp(np.abs(rest).max(axis=1, initial=0.0))[1][:, None]
    found = []
    for k in range(1, count + 1):
        anchor = np.ldexp(1.5, exponent - bits * k + 52)  # Its last bit is the unit of the slice.
        part = (rest + anchor) - anchor
        rest = rest - part
        found.append(sp.csr_matrix((part, A.indices, A.indptr), shape=A.shape) if sparse else part)
    return found


def _added_up(left: list[Matrix], right: list[Matrix], times: Callable[[Matrix, Matrix], Any]) -> Wide:
    """Return the sum of all products of slices that count, of which every sum of one order is exact."""
    found: Wide | float = 0.0
    for order in reversed(range(len(left))):  # The smallest first.
        parts = [times(left[k], right[order - k]) for k in range(order + 1)]
        exact = sum(parts[1:], start=parts[0])
        found = Wide.of(exact.toarray() if sp.issparse(exact) else exact) + found
    return Wide.of(found)


def product(A: Matrix, B: Matrix | Wide) -> Wide:
    """Return A B' for rows A and rows B, dense or sparse, exact but for what is below 2^-104 of the largest.

    The low parts of wide B are so small that a product in float64 has all of their digits that count.
    """
    if isinstance(B, Wide):
        return product(A, B.hi) + np.asarray(A @ B.lo.T, dtype=np.float64)
    return _added_up(_slices(A), _slices(B), lambda one, other: one @ other.T)


def row_squares(A: Matrix) -> Wide:
    """Return |a|^2 of every row."""

    def times(one: Matrix, other: Matrix) -> FloatArray:
        both = one.multiply(other) if sp.issparse(one) else one * other
        return np.asarray(both.sum(axis=1)).ravel()

    parts = _slices(A)
    return _added_up(parts, parts, times)
