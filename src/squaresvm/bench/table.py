"""Tables of the papers, declared as data: what is read, how it is prepared, what is run, what was printed.

Their files are read here, and what is wrong with one is said, and where.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from squaresvm.bench.methods import METHODS

__all__ = [
    "AXES",
    "MEASURES",
    "DataSet",
    "PaperTable",
    "TableFileError",
    "TableRow",
    "Tolerance",
    "known_tables",
    "load_table",
]

#: What a row may measure, and how the reports call it.
MEASURES = {
    "test": "testing rate, %",
    "train": "training rate, %",
    "support": "support vectors",
    "support_over": "support vectors above 0.001",
    "iterations": "iterations",
    "seconds": "seconds",
    "flushed": "seconds with repair",
    "refit": "seconds of a refit",
    "gain": "refit / forget with repair",
    "coefficient": "coefficient",
    "bias": "bias",
    "norm": "w'w",
    "loss": "squared loss",
    "balance": "|λ'y|",
    "distance": "‖λ - λ of LS-SVM‖",
    "violation": "violation of (14)",
    "log_C": "log10 of the C found",
    "log_gamma": "log10 of the gamma found",
    "ties": "cells of the grid as good",
    "constant": "repeats that predict one class, %",
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
    tuned_on_test: bool
    remarks: tuple[str, ...]
    plot: Mapping[str, Any]


_FOLDER = Path(__file__).parent / "tables"
_PROTOCOLS: dict[str, set[str]] = {
    "splits": {"train", "repeats", "seed"},
    "files": {"repeats", "rows"},
    "folds": {"folds", "repeats", "seed", "inner"},
    "forget": {"repeats", "rows"},
    "points": {"repeats"},
    "sumt": {"repeats"},
    "grid": {"repeats"},
}
#: What a row may say or vary beside the parameters of its method; `repeats` for one that takes long.
_OPTIONS = {"forget", "rows", "picture", "step", "factor", "repeats"}
_STEPS = ("onehot", "impute", "standardise", "unit", "symmetric")


class TableFileError(ValueError):
    """What is wrong with a table's file, and where."""


def known_tables(folder: Path = _FOLDER) -> list[str]:
    """Return the names of the tables that come with the package.

    Examples
    --------
    >>> from squaresvm.bench import known_tables
    >>> "rlssvm-table-4" in known_tables()
    True
    """
    return sorted((path.stem for path in folder.glob("*.toml")), key=_in_order)


def _in_order(name: str) -> tuple[str, int]:
    """Return a key that puts Table 10 behind Table 9."""
    head, _, number = name.rpartition("-")
    return (head, int(number)) if number.isdecimal() else (name, 0)


def load_table(path: str | Path) -> PaperTable:
    """Return a table by its name, or from a TOML file of one's own.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    PaperTable

    Raises
    ------
    TableFileError
        Names the file, the key and what it should be.

    Examples
    --------
    >>> from squaresvm.bench import load_table
    >>> load_table("rlssvm-table-4").where
    'Table 4'
    """
    file = Path(path) if str(path).endswith(".toml") else _FOLDER / f"{path}.toml"
    if not file.is_file():
        raise TableFileError(f"no table {str(path)!r}; there are: {', '.join(known_tables())}")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableFileError(f"{file}: {error}") from None
    try:
        return _table(file.stem, content)
    except TableFileError as error:
        raise TableFileError(f"{file}: {error}") from None


def _table(name: str, content: dict[str, Any]) -> PaperTable:
    taken = _Taker(content, "the table")
    protocol = _protocol(taken.take("protocol", dict))
    quick = taken.take("quick", dict, {})
    _known(quick, _PROTOCOLS[protocol["kind"]], "quick")
    data = {key: _data_set(key, given) for key, given in taken.take("data", dict).items()}
    defaults = taken.take("defaults", dict, {})
    rows = tuple(
        row
        for number, given in enumerate(taken.take("rows", list), start=1)
        for row in _rows({**defaults, **given}, f"row {number}", data)
    )
    tolerance = taken.take("tolerance", dict, {})
    table = PaperTable(
        name=name,
        title=taken.take("title", str),
        paper=taken.take("paper", str),
        where=taken.take("where", str),
        protocol=protocol,
        quick=quick,
        data=data,
        rows=rows,
        tolerance={key: _tolerance(key, given) for key, given in tolerance.items()},
        tuned_on_test=taken.take("tuned_on_test", bool, False),
        remarks=tuple(taken.take("remarks", list, [])),
        plot=taken.take("plot", dict, {}),
    )
    taken.end()
    if not rows:
        raise TableFileError("rows: there must be one at least")
    return table


class _Taker:
    """Takes keys of the right type from a mapping, and objects to those that nobody takes."""

    def __init__(self, content: Mapping[str, Any], where: str) -> None:
        self._left = dict(content)
        self._where = where

    def take(self, key: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        if key not in self._left:
            if default is ...:
                raise TableFileError(f"{self._where}: {key!r} is missing")
            return default
        value = self._left.pop(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            names = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
            raise TableFileError(f"{self._where}: {key!r} must be of type {names}; got {value!r}")
        return value

    def end(self) -> None:
        if self._left:
            raise TableFileError(f"{self._where}: unknown key {next(iter(self._left))!r}")


def _known(given: Mapping[str, Any], allowed: set[str], where: str) -> None:
    for key in given:
        if key not in allowed:
            raise TableFileError(f"{where}: unknown key {key!r}; it may have {', '.join(sorted(allowed))}")


def _protocol(given: dict[str, Any]) -> dict[str, Any]:
    kind = given.get("kind")
    if kind not in _PROTOCOLS:
        raise TableFileError(f"protocol: 'kind' must be one of {', '.join(_PROTOCOLS)}; got {kind!r}")
    _known({key: value for key, value in given.items() if key != "kind"}, _PROTOCOLS[kind], "protocol")
    for key, value in given.items():
        if key != "kind" and (not isinstance(value, int) or value < (0 if key == "seed" else 1)):
            raise TableFileError(f"protocol: {key!r} must be a whole number above 0; got {value!r}")
    if kind == "splits" and "train" not in given:
        raise TableFileError("protocol: splits need 'train', the number of training rows")
    return given


def _data_set(name: str, given: Any) -> DataSet:
    where = f"data.{name}"
    if not isinstance(given, dict):
        raise TableFileError(f"{where}: must be a table; got {given!r}")
    taken = _Taker(given, where)
    files, test = taken.take("files", list, []), taken.take("test", list, [])
    make, X = taken.take("make", dict, None), taken.take("X", list, None)
    if (bool(files) + (make is not None) + (X is not None)) != 1:
        raise TableFileError(f"{where}: give one of 'files', 'make' and 'X'")
    steps = tuple(taken.take("prepare", list, []))
    for step in steps:
        if step not in _STEPS:
            raise TableFileError(
                f"{where}: unknown step {step!r} in 'prepare'; steps are {', '.join(_STEPS)}"
            )
    options = taken.take("options", dict, {})
    _known(options, {"codes", "columns", "classes", "counts", "share", "shuffle", "seed"}, f"{where}.options")
    y = taken.take("y", list, None)
    found = DataSet(
        name,
        tuple(files),
        tuple(test),
        taken.take("features", int, None),
        make,
        taken.take("make_test", dict, None),
        None if X is None else tuple(tuple(map(float, row)) for row in X),
        None if y is None else tuple(map(float, y)),
        steps,
        options,
    )
    taken.end()
    return found


def _rows(given: dict[str, Any], where: str, data: Mapping[str, DataSet]) -> list[TableRow]:
    """Return a row, or one for each value of what it varies."""
    taken = _Taker(given, where)
    name, method = taken.take("data", str), taken.take("method", str)
    if name not in data:
        raise TableFileError(f"{where}: no data set {name!r}; there are {', '.join(data)}")
    if method not in METHODS:
        raise TableFileError(f"{where}: no method {method!r}; there are {', '.join(METHODS)}")
    parameters, options = taken.take("parameters", dict, {}), taken.take("options", dict, {})
    _known(options, _OPTIONS, f"{where}.options")
    vary, paper = taken.take("vary", dict, {}), taken.take("paper", dict, {})
    tune = taken.take("tune", dict, {})
    work, label = taken.take("work", str, ""), taken.take("label", str, "")
    limit, quick = float(taken.take("limit", (int, float), 600)), taken.take("quick", bool, True)
    differs = taken.take("differs", str, "")
    taken.end()
    found = []
    for number, values in enumerate(product(*vary.values())):
        at = dict(zip(vary, values, strict=True))
        in_options = {key: value for key, value in at.items() if key in _OPTIONS}
        in_parameters = {key: value for key, value in at.items() if key not in in_options}
        row = TableRow(
            data=name,
            method=method,
            work=" ".join([work, *(f"{key}={value:g}" for key, value in at.items())]).strip(),
            parameters={**parameters, **in_parameters},
            paper=_printed(paper, number if vary else None, where),
            label=label or method,
            options={**options, **in_options},
            tune=tune,
            limit=limit,
            quick=quick,
            differs=differs,
            at=at,
        )
        found.append(row)
    return found


def _printed(paper: Mapping[str, Any], number: int | None, where: str) -> dict[str, float]:
    """Return the paper's figures, those of one value where a row varies something."""
    found = {}
    for key, value in paper.items():
        if key.removesuffix("_std") not in MEASURES:
            raise TableFileError(f"{where}: {key!r} of 'paper' is no measure; they are {', '.join(MEASURES)}")
        if isinstance(value, Sequence) and not isinstance(value, str) and number is not None:
            if number >= len(value):
                raise TableFileError(f"{where}: {key!r} of 'paper' has {len(value)} values, 'vary' has more")
            value = value[number]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TableFileError(f"{where}: {key!r} of 'paper' must be a number; got {value!r}")
        found[key] = float(value)
    return found


def _tolerance(key: str, given: Any) -> Tolerance:
    if key not in MEASURES:
        raise TableFileError(f"tolerance: {key!r} is no measure; they are {', '.join(MEASURES)}")
    if not isinstance(given, dict):
        raise TableFileError(f"tolerance.{key}: must be a table; got {given!r}")
    _known(given, {"points", "percent", "deviations"}, f"tolerance.{key}")
    return Tolerance(**{name: float(value) for name, value in given.items()})
