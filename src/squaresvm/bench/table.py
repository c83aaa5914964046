"""Tables of the papers, declared as data: what is read, how it is prepared, what is run, what was printed.

Their files are read here, and what is wrong with one is said, and where.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    "printed": "testing rate at the paper's C and gamma, %",
    "columns": "columns",
    "memory": "kilobytes",
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
        ``codes`` (level to number), ``columns`` (a choice), ``nominal`` (columns of numbers that are levels),
        ``classes`` (the first is +1; others are left out), ``distinct`` (whether doubled rows are left out),
        ``counts`` (rows kept of each class), ``share`` (of the rows, at random), ``shuffle`` (whether the
        rows are put in random order, so that the first few are a sample), ``seed``.
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

    Rows of the same data and `work` do the same work: a peer's seconds are what ours are divided by. One that
    is `matched` was prepared with the paper's figures in sight: it shows what they may rest on, and its cells
    are counted apart. Of `differs`, the reason for what differs, `tested` says where it is, if anywhere.
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
    tested: str
    matched: bool
    at: Mapping[str, Any]


@dataclass(frozen=True)
class Tolerance:
    """How far a measure may be from the paper's: the largest of those given; `most`: nowhere above it."""

    points: float = 0.0
    percent: float = 0.0
    deviations: float = 0.0
    most: bool = False

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
    "files": {"repeats", "rows", "memory"},
    "folds": {"folds", "repeats", "seed", "inner", "memory"},
    "forget": {"repeats", "rows"},
    "points": {"repeats"},
    "sumt": {"repeats"},
    "grid": {"repeats", "printed"},
}
#: What a row may say or vary beside its method's parameters; `repeats` and `folds` instead of the table's.
_OPTIONS = {"forget", "rows", "picture", "step", "factor", "repeats", "folds"}
#: What a data set may say beside its steps.
_CHOICES = {"codes", "columns", "nominal", "classes", "distinct", "counts", "share", "shuffle", "seed"}
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
    found = _read(content, _TABLE, "the table")
    found["protocol"] = _protocol(found["protocol"])
    _known(found["quick"], _PROTOCOLS[found["protocol"]["kind"]], "quick")
    found["data"] = {key: _data_set(key, given) for key, given in found["data"].items()}
    defaults = found.pop("defaults")
    found["rows"] = tuple(
        row
        for number, given in enumerate(found["rows"], start=1)
        for row in _rows({**defaults, **given}, f"row {number}", found["data"])
    )
    found["tolerance"] = {key: _tolerance(key, given) for key, given in found["tolerance"].items()}
    if not found["rows"]:
        raise TableFileError("rows: there must be one at least")
    return PaperTable(name=name, **found)


#: Keys of a file, what they hold, and what stands for one that is missing; ... where it must not be.
_Kinds = Mapping[str, tuple[type | tuple[type, ...], Any]]
_TABLE: _Kinds = {
    "title": (str, ...),
    "paper": (str, ...),
    "where": (str, ...),
    "protocol": (dict, ...),
    "quick": (dict, {}),
    "data": (dict, ...),
    "defaults": (dict, {}),
    "rows": (list, ...),
    "tolerance": (dict, {}),
    "tuned_on_test": (bool, False),
    "remarks": (list, ()),
    "plot": (dict, {}),
}
_DATA: _Kinds = {
    "files": (list, ()),
    "test": (list, ()),
    "features": (int, None),
    "make": (dict, None),
    "make_test": (dict, None),
    "X": (list, None),
    "y": (list, None),
    "prepare": (list, ()),
    "options": (dict, {}),
}
_ROW: _Kinds = {
    "data": (str, ...),
    "method": (str, ...),
    "work": (str, ""),
    "label": (str, ""),
    "parameters": (dict, {}),
    "options": (dict, {}),
    "vary": (dict, {}),
    "paper": (dict, {}),
    "tune": (dict, {}),
    "limit": ((int, float), 600.0),
    "quick": (bool, True),
    "differs": (str, ""),
    "tested": (str, ""),
    "matched": (bool, False),
}


def _read(given: Any, kinds: _Kinds, where: str) -> dict[str, Any]:
    """Return what a mapping holds, lists as tuples, with a default for each key that it has not."""
    if not isinstance(given, dict):
        raise TableFileError(f"{where}: must be a table; got {given!r}")
    _known(given, kinds, where)
    found = {}
    for key, (kind, default) in kinds.items():
        value = given.get(key, default)
        if value is ...:
            raise TableFileError(f"{where}: {key!r} is missing")
        if key in given and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            names = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
            raise TableFileError(f"{where}: {key!r} must be of type {names}; got {value!r}")
        found[key] = tuple(value) if isinstance(value, list) else value
    return found


def _known(given: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    for key in given:
        if key not in allowed:
            raise TableFileError(f"{where}: unknown key {key!r}; it may have {', '.join(sorted(allowed))}")


def _protocol(given: dict[str, Any]) -> dict[str, Any]:
    kind = given.get("kind")
    if kind not in _PROTOCOLS:
        raise TableFileError(f"protocol: 'kind' must be one of {', '.join(_PROTOCOLS)}; got {kind!r}")
    _known(given, {"kind", *_PROTOCOLS[kind]}, "protocol")
    for key, value in given.items():
        if key != "kind" and (not isinstance(value, int) or value < (0 if key == "seed" else 1)):
            raise TableFileError(f"protocol: {key!r} must be a whole number above 0; got {value!r}")
    if kind == "splits" and "train" not in given:
        raise TableFileError("protocol: splits need 'train', the number of training rows")
    return given


def _data_set(name: str, given: Any) -> DataSet:
    where = f"data.{name}"
    found = _read(given, _DATA, where)
    if sum((bool(found["files"]), found["make"] is not None, found["X"] is not None)) != 1:
        raise TableFileError(f"{where}: give one of 'files', 'make' and 'X'")
    for step in found["prepare"]:
        if step not in _STEPS:
            raise TableFileError(
                f"{where}: unknown step {step!r} in 'prepare'; steps are {', '.join(_STEPS)}"
            )
    _known(found["options"], _CHOICES, f"{where}.options")
    if found["X"] is not None and found["y"] is not None:
        found["X"] = tuple(tuple(map(float, row)) for row in found["X"])
        found["y"] = tuple(map(float, found["y"]))
    return DataSet(name, **found)


def _rows(given: dict[str, Any], where: str, data: Mapping[str, DataSet]) -> Iterator[TableRow]:
    """Yield a row, or one for each value of what it varies."""
    found = _read(given, _ROW, where)
    name, method = found["data"], found["method"]
    if name not in data:
        raise TableFileError(f"{where}: no data set {name!r}; there are {', '.join(data)}")
    if method not in METHODS:
        raise TableFileError(f"{where}: no method {method!r}; there are {', '.join(METHODS)}")
    _known(found["options"], _OPTIONS, f"{where}.options")
    vary = found.pop("vary")
    found["limit"], found["label"] = float(found["limit"]), found["label"] or method
    for number, values in enumerate(product(*vary.values())):
        at = dict(zip(vary, values, strict=True))
        options = {key: value for key, value in at.items() if key in _OPTIONS}
        parameters = {key: value for key, value in at.items() if key not in _OPTIONS}
        here = {
            "work": " ".join([found["work"], *(f"{key}={value:g}" for key, value in at.items())]).strip(),
            "parameters": {**found["parameters"], **parameters},
            "options": {**found["options"], **options},
            "paper": _printed(found["paper"], number if vary else None, where),
            "at": at,
        }
        yield TableRow(**{**found, **here})


def _printed(paper: Mapping[str, Any], number: int | None, where: str) -> dict[str, float]:
    """Return the paper's figures, those of one value where a row varies something."""
    found = {}
    for key, value in paper.items():
        if key.removesuffix("_std") not in MEASURES:
            raise TableFileError(
                f"{where}: {key!r} of 'paper' is not a measure; they are {', '.join(MEASURES)}"
            )
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
        raise TableFileError(f"tolerance: {key!r} is not a measure; they are {', '.join(MEASURES)}")
    if not isinstance(given, dict):
        raise TableFileError(f"tolerance.{key}: must be a table; got {given!r}")
    _known(given, {"points", "percent", "deviations", "most"}, f"tolerance.{key}")
    numbers = {name: float(value) for name, value in given.items() if name != "most"}
    return Tolerance(**numbers, most=bool(given.get("most", False)))
