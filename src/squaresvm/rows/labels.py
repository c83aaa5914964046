"""Labels by the million, in few reads and little memory."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from squaresvm.typing import FloatArray

__all__ = ["same_kind", "sign_columns", "signs", "two_labels", "value_columns"]


def two_labels(y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return the two numbers that y consists of, sorted; None where it does not.

    What `numpy.unique` would tell, without sorting or hashing them.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.rows.labels import two_labels
    >>> two_labels(np.array([3, -1, 3])).tolist()
    [-1, 3]
    """
    if y.dtype.kind not in "iuf" or y.size == 0:
        return None
    low, high = y.min(), y.max()
    if low == high or not np.all((y == low) | (y == high)):
        return None
    return np.array([low, high], dtype=y.dtype)


def signs(upper: np.ndarray[Any, Any]) -> FloatArray:
    """Return +1 where true and -1 where not, a byte each: products with them are float64 all the same.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.rows.labels import signs
    >>> signs(np.array([True, False])).tolist()
    [1, -1]
    """
    found = upper.astype(np.int8)
    found *= 2
    found -= 1
    return cast(FloatArray, found)


def sign_columns(y: np.ndarray[Any, Any], classes: np.ndarray[Any, Any]) -> FloatArray:
    """Return the targets of labels: a column a class, +1 for its rows and -1 for others; one for two classes.

    Parameters
    ----------
    y : ndarray of shape (m,)
    classes : ndarray of shape (k,)
        Of two, the second is +1.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.rows.labels import sign_columns
    >>> sign_columns(np.array(["a", "b"]), np.array(["a", "b"])).ravel().tolist()
    [-1, 1]
    >>> sign_columns(np.array([3, 1]), np.array([1, 2, 3])).tolist()
    [[-1, -1, 1], [1, -1, -1]]
    """
    return signs((y == classes[1])[:, None] if classes.size == 2 else y[:, None] == classes)


def value_columns(y: np.ndarray[Any, Any]) -> FloatArray:
    """Return the targets of values: a column each; those of a flat array are one.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.rows.labels import value_columns
    >>> value_columns(np.array([1, 2])).tolist()
    [[1.0], [2.0]]
    """
    values = np.asarray(y, dtype=np.float64)
    return values[:, None] if values.ndim == 1 else values


def same_kind(y: np.ndarray[Any, Any], classes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return new labels as the kind of label that a model has; a ValueError where they are of another.

    Numbers and text do not mix: joined in one array, the numbers would become text, and every class would
    have another name.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.rows.labels import same_kind
    >>> same_kind(np.array([1, 2], dtype=np.uint64), np.array([-1, 1])).dtype
    dtype('int64')
    >>> same_kind(np.array(["b"]), np.array([-1, 1]))
    Traceback (most recent call last):
    ...
    ValueError: labels must be of the kind that the model was fitted on, numbers such as -1; got 'b'
    """
    if y.dtype == classes.dtype or y.dtype == object or classes.dtype == object:
        return y
    kinds = [_kind(array.dtype) for array in (y, classes)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"labels must be of the kind that the model was fitted on, {kinds[1]} such as "
            f"{classes.tolist()[0]!r}; got {y.tolist()[0]!r}"
        )
    if {y.dtype.kind, classes.dtype.kind} == {"i", "u"}:
        # NumPy would join signed and unsigned integers as floats, which are not the same labels beyond 2^53.
        converted = y.astype(classes.dtype)
        if not np.array_equal(converted.astype(object), y.astype(object)):
            raise ValueError(
                f"labels beyond the range of the model's own, {classes.dtype}, cannot be learned"
            )
        return converted
    return y


def _kind(dtype: np.dtype[Any]) -> str:
    return {"U": "text", "S": "bytes", "b": "truth values"}.get(dtype.kind, "numbers")
