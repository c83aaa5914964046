"""Labels by the million, in few reads and little memory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from squaresvm.typing import FloatArray

__all__ = [
    "balanced",
    "check_among",
    "decided",
    "has_columns",
    "indicator",
    "indicator_signs",
    "same_kind",
    "sign_columns",
    "signs",
    "two_labels",
    "value_columns",
    "weigh",
]


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


def has_columns(y: Any) -> bool:
    """Return whether targets have several columns, without a look at what is in them.

    Examples
    --------
    >>> from squaresvm.rows.labels import has_columns
    >>> has_columns([[0, 1], [1, 1]]), has_columns([[0], [1]]), has_columns([0, 1])
    (True, False, False)
    """
    if hasattr(y, "shape"):
        return len(y.shape) == 2 and y.shape[1] > 1
    return isinstance(y, list | tuple) and len(y) > 0 and not isinstance(y[0], str) and np.size(y[0]) > 1


def indicator_signs(y: Any) -> FloatArray:
    """Return the targets of rows that may have several labels each: +1 where a label is there, else -1.

    Parameters
    ----------
    y : array or sparse matrix of shape (m, k)
        Of 0 and 1: scikit-learn's indicator of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.rows.labels import indicator_signs
    >>> indicator_signs(np.array([[0, 1], [1, 1]])).tolist()
    [[-1.0, 1.0], [1.0, 1.0]]
    """
    values = np.asarray(y.toarray() if sp.issparse(y) else y)
    strange = np.argwhere((values != 0) & (values != 1))
    if strange.size:
        row, label = strange[0].tolist()
        raise ValueError(
            "y with several columns must say by 0 and 1 which labels each row has; "
            f"y[{row}, {label}] is {values[row, label]}"
        )
    return np.where(values == 1, 1.0, -1.0)


def indicator(signs: FloatArray) -> np.ndarray[Any, Any]:
    """Return by 0 and 1 which labels each row has, from targets or decision values of each label.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.rows.labels import indicator
    >>> indicator(np.array([[-0.5, 2.0]])).tolist()
    [[0, 1]]
    """
    return (signs > 0).astype(np.int64)


def decided(classes: np.ndarray[Any, Any] | None, decision: FloatArray) -> np.ndarray[Any, Any]:
    """Return the label that decision values stand for; which labels, where there may be several.

    Parameters
    ----------
    classes : ndarray or None
        None where rows may have several labels each.
    decision : ndarray of shape (rows, k)
    """
    if classes is None:
        return indicator(decision)
    if decision.shape[1] == 1:
        return classes[(decision[:, 0] > 0).astype(np.intp)]
    return classes[decision.argmax(axis=1)]


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
                f"labels out of the range of the model's own, {classes.dtype}, cannot be learned"
            )
        return converted
    return y


def _kind(dtype: np.dtype[Any]) -> str:
    return {"U": "text", "S": "bytes", "b": "truth values"}.get(dtype.kind, "numbers")


def balanced(y: np.ndarray[Any, Any], weights: FloatArray) -> dict[Hashable, float]:
    """Return the weights that give every class the same share: a row of weight 2 counts as two rows."""
    held = weights > 0
    classes, codes = np.unique(y[held], return_inverse=True)
    counts = np.bincount(codes, weights=weights[held])
    return dict(zip(classes.tolist(), (counts.sum() / (classes.size * counts)).tolist(), strict=True))


def check_among(y: npt.ArrayLike, classes: npt.ArrayLike) -> None:
    """Raise a ValueError unless all labels are among the classes that a caller has named."""
    strange = np.setdiff1d(np.asarray(y), np.asarray(classes))
    if strange.size:
        raise ValueError(f"y holds {strange.tolist()[0]!r}, which is not among classes")


def weigh(
    y: np.ndarray[Any, Any], weights: FloatArray, class_weight: dict[Hashable, float] | None
) -> FloatArray:
    """Return sample weight times class weight of each row."""
    if not class_weight:
        return weights
    factors = np.ones(y.shape[0])
    for label, factor in class_weight.items():
        factors[y == label] = factor
    return weights * factors
