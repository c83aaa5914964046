"""Tables of the papers, declared as data: what is read, how it is prepared, what is run, what was printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AXES", "MEASURES", "DataSet", "PaperTable", "TableRow", "Tolerance"]

#: What a row may measure, and how the reports call it.
MEASURES = {
    "test": "testing rate, %",
    "train": "training rate, %",
    "support": "support vectors",
    "support_over": "support vectors above 0.001",
    "iterations": "iterations",
    "seconds": "seconds",
    "refit": "seconds of a refit",
    "gain": "refit / forget",
    "coefficient": "coefficient",
    "bias": "bias",
    "norm": "w'w",
    "loss": "squared loss",
    "balance": "|λ'y|",
    "distance": "‖λ - λ of LS-SVM‖",
}
#: What a row may vary, and how a plot calls it; anything else is called by its own name.
AXES = {"rows": "training rows", "forget": "rows forgotten", "step": "SUMT iterations"}


@dataclass(frozen=True)
class DataSet:
    """A data set and how its columns become numbers.

    Parameters
    ----------
    files, test : tuple of str
        Files of the data folder, one below the other; `test` where the paper has rows apart for testing.
    features : int or None
        Columns of LIBSVM text.
    make, make_test : mapping or None
        In place of files: ``generator`` and its parameters.
    X, y : tuple or None
        In place of files: the rows themselves.
    prepare : tuple of str
        Steps, in order. Means, deviations and ranges are those of the training rows.
    options : mapping
        ``codes`` (level to number), ``columns`` (a choice), ``classes`` (the first is +1; others are left
        out), ``counts`` (rows kept of each class), ``share`` (of the rows, at random), ``shuffle`` (whether
        the rows are put in random order, so that the first few are a sample), ``seed``.
    """

    name: str
    files: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    features: int | None = None
    make: Mapping[str, Any] | None = None
    make_test: Mapping[str, Any] | None = None
    X: tuple[tuple[float, ...], ...] | None = None
    y: tuple[float, ...] | None = None
    prepare: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableRow:
    """One line of a table: a method with parameters on a data set, and what the paper prints for it.

    Rows of the same data and `work` do the same work: a peer's seconds are what ours are divided by.
    """

    data: str
    method: str
    work: str
    parameters: Mapping[str, Any]
    paper: Mapping[str, float]
    label: str
    options: Mapping[str, Any]
    tune: Mapping[str, Any]
    limit: float
    quick: bool
    differs: str
    at: Mapping[str, Any]


@dataclass(frozen=True)
class Tolerance:
    """How far a measure may be from the paper's: the largest of the three that are given."""

    points: float = 0.0
    percent: float = 0.0
    deviations: float = 0.0

    def allowed(self, published: float, deviation: float | None) -> float:
        """Return the largest difference that counts as agreement."""
        return max(self.points, self.percent / 100.0 * abs(published), self.deviations * (deviation or 0.0))


@dataclass(frozen=True)
class PaperTable:
    """One table or figure of a paper.

    Parameters
    ----------
    tuned_on_test : bool
        Whether the paper chose its parameters on the rows it reports on: then the table is a reproduction
        and no estimate of error.
    at_least : int or None
        Number of data sets that must agree; None: all.
    """

    name: str
    title: str
    paper: str
    where: str
    protocol: Mapping[str, Any]
    quick: Mapping[str, Any]
    data: Mapping[str, DataSet]
    rows: tuple[TableRow, ...]
    tolerance: Mapping[str, Tolerance]
    at_least: int | None
    tuned_on_test: bool
    remarks: tuple[str, ...]
    plot: Mapping[str, Any]
