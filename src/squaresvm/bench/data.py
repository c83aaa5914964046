"""Data sets of the tables: from a folder, checked against its checksums, or made; coded and scaled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from squaresvm import datasets
from squaresvm.bench.table import DataSet
from squaresvm.readers import SparseRows, Table, read
from squaresvm.typing import FloatArray

__all__ = ["DataError", "Examples", "Loaded", "MissingDataError", "Scaling", "listed_checksums", "load_data"]

#: What each step of scaling calls for.
_SCALERS: dict[str, Callable[[], Any]] = {
    "standardise": StandardScaler,
    "unit": MinMaxScaler,
    "symmetric": lambda: MinMaxScaler((-1.0, 1.0)),
}
_GENERATORS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "checkerboard": datasets.make_checkerboard,
    "two_spirals": datasets.make_two_spirals,
    "ndc": datasets.make_ndc,
}


class DataError(ValueError):
    """What is wrong with a data set."""


class MissingDataError(DataError):
    """Which file is not there."""


class Examples(NamedTuple):
    """Rows and labels +-1; NaN where a value is missing."""

    X: FloatArray
    y: FloatArray


class Loaded(NamedTuple):
    """Training rows, and test rows where the paper has them apart."""

    train: Examples
    test: Examples | None


def load_data(data: DataSet, folder: Path | None) -> Loaded:
    """Return a data set, coded but not scaled: scales belong to the training rows of each repeat.

    Parameters
    ----------
    data : DataSet
    folder : Path or None
        Where files are; it may have a SHA256SUMS, which they must agree with.

    Returns
    -------
    Loaded

    Raises
    ------
    MissingDataError
        A file is not there.
    DataError
        A file is not the one whose checksum is listed, or does not hold what the table says.
    """
    if data.X is not None and data.y is not None:
        return Loaded(Examples(np.array(data.X), np.array(data.y)), None)
    if data.make is not None:
        test = None if data.make_test is None else _made(data.make_test)
        return Loaded(_made(data.make), test)
    if folder is None:
        raise MissingDataError(f"{', '.join(data.files)}: no data folder was given (--data)")
    train = _chosen(data, _joined(data, data.files, folder))
    return Loaded(train, _chosen(data, _joined(data, data.test, folder)) if data.test else None)


def _made(given: Mapping[str, Any]) -> Examples:
    parameters = dict(given)
    name = parameters.pop("generator", None)
    if name not in _GENERATORS:
        raise DataError(f"no generator {name!r}; there are {', '.join(_GENERATORS)}")
    skip = parameters.pop("skip", 0)  # Test rows of the same clusters: the ones behind the training rows.
    X, y = _GENERATORS[name](**parameters)
    return Examples(np.ascontiguousarray(X[skip:], dtype=np.float64), y[skip:].astype(np.float64))


def _joined(data: DataSet, names: tuple[str, ...], folder: Path) -> tuple[FloatArray, Any]:
    parts = [_part(data, _checked(folder, name), folder) for name in names]
    return np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _checked(folder: Path, name: str) -> Path:
    """Return a file's path, once its checksum was found right."""
    path = folder / name
    if not path.is_file():
        raise MissingDataError(f"{name}: not in the data folder")
    listed = listed_checksums(folder).get(name)
    if listed is not None and _digest(path, path.stat().st_mtime_ns) != listed:
        raise DataError(f"{name}: its SHA-256 is not the one that SHA256SUMS lists")
    return path


def listed_checksums(folder: Path) -> dict[str, str]:
    """Return checksums by file name, as the folder's SHA256SUMS lists them."""
    listing = folder / "SHA256SUMS"
    if not listing.is_file():
        return {}
    pairs = (line.split(maxsplit=1) for line in listing.read_text().splitlines() if line.strip())
    return {name.lstrip("*"): digest for digest, name in pairs}


@cache
def _digest(path: Path, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _part(data: DataSet, path: Path, folder: Path) -> tuple[FloatArray, Any]:
    content = read(path)
    if isinstance(content, SparseRows):
        width = data.features or content.X.shape[1]
        if content.X.shape[1] > width:
            raise DataError(f"{path.name}: has {content.X.shape[1]} columns, the table says {width}")
        rows = np.zeros((content.X.shape[0], width))
        rows[:, : content.X.shape[1]] = content.X.toarray()
        return rows, content.y
    return _coded(data, content, _levels(folder, path)), np.array(content.column("label").texts())


def _levels(folder: Path, path: Path) -> dict[str, list[str] | None]:
    """Return the levels of nominal columns by SCHEMA.json, None for numbers."""
    schema = folder / "SCHEMA.json"
    sets = json.loads(schema.read_text()) if schema.is_file() else {}
    features = sets.get(path.name.split(".")[0], {}).get("features", [])
    return {feature["name"]: feature.get("values") for feature in features}


def _coded(data: DataSet, table: Table, levels: Mapping[str, list[str] | None]) -> FloatArray:
    """Return columns of numbers: nominal ones by their codes, or one of 0 and 1 for each level."""
    names = data.options.get("columns") or [name for name in table.columns if name != "label"]
    codes = data.options.get("codes")
    columns: list[FloatArray] = []
    for name in names:
        column = table.column(name)
        if codes is not None:
            try:
                columns.append(np.array([float(codes[cell]) for cell in column.texts()]))
            except KeyError as error:
                raise DataError(
                    f"{table.path.name}: column {name!r} has {error}, which has no code"
                ) from None
            continue
        values, numbers = levels.get(name), column.numbers()
        if values is None and numbers is not None and name not in data.options.get("nominal", ()):
            columns.append(numbers)
        elif "onehot" in data.prepare:
            texts = np.array(column.texts(), dtype=object)[:, None]
            known = values or sorted(set(texts.ravel()) - {""})
            # What is missing is no level: zero in all columns.
            coder = OneHotEncoder(categories=[known], handle_unknown="ignore", sparse_output=False)
            columns.append(coder.fit_transform(texts))
        else:
            raise DataError(f"{table.path.name}: column {name!r} is nominal; prepare with 'onehot' or codes")
    return np.column_stack(columns)


def _chosen(data: DataSet, given: tuple[FloatArray, Any]) -> Examples:
    """Return the rows that the paper used, with labels +-1."""
    X, labels = given
    wanted = data.options.get("classes") or np.unique(labels).tolist()[::-1]
    if len(wanted) != 2:
        raise DataError(f"{data.name}: has {len(wanted)} classes; name two in 'classes'")
    rng = np.random.default_rng(data.options.get("seed", 0))
    kept = np.flatnonzero(np.isin(labels, wanted))
    if data.options.get("distinct"):
        known = np.where(np.isnan(X[kept]), np.inf, X[kept])  # NaN is no double of NaN.
        _, first = np.unique(np.column_stack([known, labels[kept] == wanted[0]]), axis=0, return_index=True)
        kept = kept[np.sort(first)]
    counts = data.options.get("counts")
    if counts is not None:
        parts = [
            rng.permutation(np.flatnonzero(labels == label))[:count]
            for label, count in zip(wanted, counts, strict=True)
        ]
        kept = np.sort(np.concatenate(parts))
    if "share" in data.options:
        kept = np.sort(rng.permutation(kept)[: int(data.options["share"] * len(kept))])
    if data.options.get("shuffle"):
        kept = rng.permutation(kept)
    return Examples(X[kept], np.where(labels[kept] == wanted[0], 1.0, -1.0))


class Scaling:
    """Scales of columns, taken from training rows and applied to others.

    Means of the training rows take the place of missing values. Columns that are constant there are 0
    everywhere: what other rows have in them, no model has learnt anything about.

    Parameters
    ----------
    X : ndarray of shape (m, n)
        Training rows.
    steps : sequence of str
        'standardise', 'unit' and 'symmetric' scale; others are for whoever codes.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.bench.data import Scaling
    >>> train = np.array([[0.0, 5.0], [4.0, 5.0]])
    >>> Scaling(train, ["symmetric"])(np.array([[2.0, 7.0], [8.0, 5.0]]))
    array([[0., 0.],
           [3., 0.]])
    """

    def __init__(self, X: FloatArray, steps: Sequence[str]) -> None:
        scalers = [make() for name, make in _SCALERS.items() if name in steps]
        self._pipeline = make_pipeline(SimpleImputer(keep_empty_features=True), *scalers)
        self._pipeline.fit(X)
        filled = self._pipeline[0].transform(X)
        constant = np.ptp(filled, axis=0) <= 1e-12 * np.maximum(np.abs(filled[0]), 1.0)
        self._constant = constant & bool(scalers)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return rows in the scale of the training rows."""
        scaled = self._pipeline.transform(X)
        scaled[:, self._constant] = 0.0
        return np.ascontiguousarray(scaled)
