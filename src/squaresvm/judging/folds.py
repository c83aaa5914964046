"""Sets of rows that leave a model together: single rows, groups, or the folds of a splitter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv

from squaresvm.typing import FloatArray, IntArray

__all__ = ["Folds"]


@dataclass(frozen=True, eq=False)
class Folds:
    """A partition of rows: every row leaves once, with its fold.

    Parameters
    ----------
    rows : tuple of ndarrays
        Positions of the rows of each fold, sorted.
    names : tuple of str
        What each fold is called in messages.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.judging.folds import Folds
    >>> folds = Folds.of(None, ["b", "a", "b"], np.zeros((3, 1)), np.zeros(3), is_classifier=False)
    >>> [rows.tolist() for rows in folds.rows]
    [[1], [0, 2]]
    """

    rows: tuple[IntArray, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, cv: Any, groups: Any, X: Any, y: np.ndarray[Any, Any], *, is_classifier: bool) -> Folds:
        """Return the folds that `cv` and `groups` ask for.

        Parameters
        ----------
        cv : None, int, splitter or iterable of (train, test)
            None: each row alone, or each group. An integer: that many folds, stratified for classes, of
            whole groups where groups are given.
        groups : array-like of shape (m,) or None
        X, y : arrays of m rows
            Handed on to the splitter.
        is_classifier : bool
        """
        count = y.shape[0]
        codes, labels = (None, ()) if groups is None else _group_codes(groups, count)
        if cv is None:
            if codes is None:
                names = tuple(f"row {row}" for row in range(count))
                return cls(tuple(np.arange(count)[:, None]), names)
            names = tuple(f"group {label!r}" for label in labels)
            order = np.argsort(codes, kind="stable")
            return cls(tuple(np.split(order, np.cumsum(np.bincount(codes))[:-1])), names)
        if isinstance(cv, Integral) and codes is not None:
            cv = StratifiedGroupKFold(int(cv)) if is_classifier else GroupKFold(int(cv))
        splitter = check_cv(cv, y, classifier=is_classifier)
        return cls._of_splits(splitter.split(X, y, codes), count)

    @classmethod
    def _of_splits(cls, splits: Iterable[tuple[Any, Any]], count: int) -> Folds:
        """Return the test sets of a splitter, after a check that each trains on all other rows."""
        found: list[IntArray] = []
        fold_of = np.full(count, -1)
        for number, (train, test) in enumerate(splits):
            rows, others = _positions(test, count, number), _positions(train, count, number)
            if rows.size == 0:
                raise ValueError(f"fold {number} of cv is empty: each fold must leave at least one row out")
            twice = rows[fold_of[rows] >= 0]
            if twice.size:
                row = int(twice[0])
                raise ValueError(
                    f"row {row} is in folds {fold_of[row]} and {number} of cv: each row must be in one fold"
                )
            fold_of[rows] = number
            if others.size != count - rows.size or np.intersect1d(rows, others).size:
                raise ValueError(
                    f"fold {number} of cv trains on {others.size} rows and not on the {count - rows.size} "
                    "others: exact cross-validation leaves each fold out of all rows; for other splits "
                    "refit, with scikit-learn's cross_validate"
                )
            found.append(rows)
        if np.any(fold_of < 0):
            row = int(np.flatnonzero(fold_of < 0)[0])
            raise ValueError(f"row {row} is in no fold of cv: each row must be in one fold")
        return cls(tuple(found), tuple(f"fold {number}" for number in range(len(found))))

    def check_rest(
        self, y: np.ndarray[Any, Any], weights: FloatArray, classes: np.ndarray[Any, Any] | None
    ) -> None:
        """Raise a ValueError where a fold takes all rows that count, or all of a class.

        Parameters
        ----------
        y : ndarray of shape (m,)
        weights : ndarray of shape (m,)
            Rows of weight zero do not count.
        classes : ndarray or None
            None for regression.
        """
        counted = weights > 0
        codes = np.zeros(y.shape[0], dtype=np.intp)
        labels: list[Any] = [None]
        if classes is not None:
            codes, labels = np.searchsorted(classes, y), classes.tolist()
        codes[~counted] = 0
        total = np.bincount(codes[counted], minlength=len(labels))
        for name, rows in zip(self.names, self.rows, strict=True):
            own = rows[counted[rows]]
            if own.size == total.sum():
                raise ValueError(
                    f"{name} contains all rows of positive weight: no rows would be left to train on"
                )
            taken = np.bincount(codes[own], minlength=len(labels))
            (whole,) = np.nonzero((taken == total) & (total > 0))
            if whole.size:
                raise ValueError(
                    f"{name} contains all rows of class {labels[whole[0]]!r}, so a model without them could "
                    "not predict that class: choose folds that leave rows of every class"
                )

    def within(self, held: IntArray, count: int) -> list[IntArray]:
        """Return the folds as positions among the rows in `held`; those of other rows are left out."""
        place = np.full(count, -1)
        place[held] = np.arange(held.size)
        return [place[rows][place[rows] >= 0] for rows in self.rows]


def _positions(rows: Any, count: int, number: int) -> IntArray:
    """Return positions, sorted, of rows that were given as positions or as a mask."""
    given = np.asarray(rows)
    if given.dtype == bool and given.shape == (count,):
        return np.flatnonzero(given)
    if given.size == 0:
        return np.empty(0, dtype=np.intp)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(f"fold {number} of cv must be positions of rows; got {rows!r}")
    if given.min() < 0 or given.max() >= count:
        strange = int(given[(given < 0) | (given >= count)][0])
        raise ValueError(f"fold {number} of cv names row {strange}, but rows 0 to {count - 1} are held")
    unique = np.unique(given)
    if unique.size < given.size:
        raise ValueError(f"fold {number} of cv names a row twice")
    return unique


def _group_codes(groups: Any, count: int) -> tuple[IntArray, tuple[Any, ...]]:
    """Return the group of each row by number, and the groups themselves."""
    given = np.asarray(groups)
    if given.shape != (count,):
        raise ValueError(
            f"groups must name the group of each of the {count} rows held, in the order of ids_; "
            f"got shape {given.shape}"
        )
    values = given.tolist()
    for row, value in enumerate(values):
        if value is None or value != value:
            raise ValueError(f"groups[{row}] is {value!r}: every row needs a group")
    try:
        known = sorted(set(values))
    except TypeError:  # Of several kinds, or not to be ordered: in the order in which they come.
        known = list(dict.fromkeys(values))
    if len(known) < 2:
        raise ValueError("groups puts all rows into one group: no rows would be left to train on")
    number = {value: code for code, value in enumerate(known)}
    return np.array([number[value] for value in values], dtype=np.intp), tuple(known)
