"""What is worth a second look in a column before a model learns from it."""

from __future__ import annotations

import numpy as np

from squaresvm.typing import FloatArray

__all__ = ["CONSTANT", "look_at"]

CONSTANT = "is the same in all rows, so that nothing can be learned from it"
#: Numbers that instruments and forms write where they have no value.
_CODES = tuple(sign * code for code in (99.0, 999.0, 9999.0, 99999.0) for sign in (-1.0, 1.0))
#: Rows from which a column that counts them is no chance.
_FEW = 10


def look_at(values: FloatArray) -> str:
    """Return what to say of a column of numbers; nothing where nothing is unusual.

    Parameters
    ----------
    values : ndarray of shape (m,)
        NaN where there is no value.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.readers.second_look import look_at
    >>> look_at(np.array([20.1, -999.0, 19.5, -999.0, 21.0]))
    'holds -999 in 2 rows, far from all other values: if that stands for a missing value, empty these cells'
    """
    present = values[~np.isnan(values)]
    if present.size == values.size and present.min() == present.max():
        return CONSTANT
    if values.size > _FEW and bool(np.all(np.diff(values) == 1.0)) and values[0] in (0.0, 1.0):
        return "counts the rows: if that is a name and no measurement, drop it or take it for ids"
    for code in _CODES:
        others = present[present != code]
        times = present.size - others.size
        if times < 2 or others.size < 2:
            continue
        low, high = float(others.min()), float(others.max())
        if max(low - code, code - high) > high - low:
            return (
                f"holds {code:g} in {times} rows, far from all other values: if that stands for a missing "
                "value, empty these cells"
            )
    return ""
