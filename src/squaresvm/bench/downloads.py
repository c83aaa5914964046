"""Downloads of the files that a data folder has not: only those are kept whose checksum is right.

``origins.toml`` says where each file comes from. Pages are fetched by pooch, sets of OpenML by scikit-learn.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import io
import json
import math
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import numpy as np
from sklearn.datasets import fetch_openml

from squaresvm.bench.data import DataError, listed_checksums
from squaresvm.bench.table import PaperTable
from squaresvm.runtime.atomic import locked, replacing

__all__ = ["FetchError", "Origin", "Origins", "fetch_missing", "load_origins"]

_FILE = Path(__file__).parent / "origins.toml"
#: Bytes that a file may have at most, packed or not: ten times the largest of them.
_MAX_BYTES = 40_000_000
#: Seconds without a byte.
_TIMEOUT = 30.0


class FetchError(DataError):
    """Why a file was not fetched."""


class _UnreachableError(FetchError):
    """No connection: other files of the same place need not be tried."""


@dataclass(frozen=True)
class Origin:
    """Where one file comes from: ``origins.toml`` says what each of these means."""

    page: str | None = None
    whole: str | None = None
    less: str | None = None
    sha256: str | None = None
    openml: int | None = None
    label: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    columns: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    unfetchable: str | None = None


@dataclass(frozen=True)
class Origins:
    """The LIBSVM pages' address, and the origin of each file by its name."""

    base: str
    files: Mapping[str, Origin]


@cache
def load_origins(path: Path = _FILE) -> Origins:
    """Return what ``origins.toml`` declares.

    Examples
    --------
    >>> from squaresvm.bench.downloads import load_origins
    >>> load_origins().files["colon-cancer.svm"].page
    'binary/colon-cancer.bz2'
    """
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return Origins(content["base"], {name: Origin(**given) for name, given in content["files"].items()})


def fetch_missing(
    tables: Sequence[PaperTable],
    folder: Path,
    *,
    quick: bool = False,
    origins: Origins | None = None,
    base: str | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[str, str]:
    """Fetch the files that tables need and a folder has not; files that are there are left alone.

    A file is written whole, once its checksum was found right, and then listed in the folder's SHA256SUMS.
    Data sets of OpenML are written as CSV, their levels into SCHEMA.json.

    Parameters
    ----------
    tables : sequence of PaperTable
    folder : Path
        Is there.
    quick : bool, default=False
        Whether rows that quick mode leaves out need no files.
    origins : Origins, optional
        Where files come from; default: ``origins.toml`` of the package.
    base : str, optional
        Another address in place of the LIBSVM pages', such as a mirror's.
    progress : callable, optional
        Is told files done, files in all, and what comes next.

    Returns
    -------
    dict
        Why a file is still not there, by its name.

    Examples
    --------
    A table whose data are made needs nothing:

    >>> from pathlib import Path
    >>> from squaresvm.bench import fetch_missing, load_table
    >>> fetch_missing([load_table("lsvm-fig-2")], Path("."))
    {}
    """
    known = origins or load_origins()
    reasons: dict[str, str] = {}
    unreachable: dict[str, str] = {}
    with locked(folder):
        missing = [name for name in _needed(tables, known, quick=quick) if not (folder / name).is_file()]
        for done, name in enumerate(missing):
            if progress is not None:
                progress(done, len(missing), f"fetch {name}")
            origin = known.files.get(name, Origin(unfetchable="no origin is declared for it"))
            place = "OpenML" if origin.openml is not None else base or known.base
            try:
                if place in unreachable and origin.whole is None and origin.unfetchable is None:
                    raise FetchError(unreachable[place])
                _fetch(name, origin, folder, base or known.base)
            except FetchError as error:
                reasons[name] = str(error)
                if isinstance(error, _UnreachableError):
                    unreachable[place] = str(error)
        if progress is not None and missing:
            progress(len(missing), len(missing), "")
    return reasons


def _needed(tables: Iterable[PaperTable], origins: Origins, *, quick: bool) -> list[str]:
    """Return names of files, each once, and those made from others behind these."""
    sets = [table.data[row.data] for table in tables for row in table.rows if row.quick or not quick]
    names = dict.fromkeys(name for data in sets for name in (*data.files, *data.test))
    made = {name: origin for name, origin in origins.files.items() if name in names and origin.whole}
    parts = [part for origin in made.values() for part in (origin.whole, origin.less) if part]
    return [*dict.fromkeys([*parts, *(name for name in names if name not in made)]), *made]


def _fetch(name: str, origin: Origin, folder: Path, base: str) -> None:
    """Write a file, once it was found right, and have it listed: whoever reads it later checks it again."""
    schema = None
    if origin.unfetchable is not None:
        raise FetchError(f"cannot be fetched: {origin.unfetchable}")
    if origin.openml is not None:
        content, schema = _openml(origin)
    else:
        content = _page(f"{base}/{origin.page}") if origin.page is not None else _rest(origin, folder)
        if hashlib.sha256(content).hexdigest() != origin.sha256:
            raise FetchError(
                f"its SHA-256 is not the declared one: {origin.page or 'made of others'}, refused"
            )
        if name.endswith(".gz"):
            content = gzip.compress(content, 6, mtime=0)
    digest = hashlib.sha256(content).hexdigest()
    listed = listed_checksums(folder)
    if listed.setdefault(name, digest) != digest:
        raise FetchError("its SHA-256 is not the one that the folder's SHA256SUMS lists, refused")
    if schema is not None:  # First: without it, the file would be read as numbers where it can.
        _add_schema(folder, name, schema)
    lines = "".join(f"{digest}  {name}\n" for name, digest in listed.items())
    for path, whole in ((folder / name, content), (folder / "SHA256SUMS", lines.encode())):
        with replacing(path) as file:
            file.write(whole)


def _page(address: str) -> bytes:
    """Return a page's file as the text that is kept."""
    body = _download(address)
    if address.endswith(".bz2"):
        body = _unpacked(body, address)
    try:
        lines = [line.split() for line in body.decode("ascii").splitlines()]
        kept = [" ".join([f"{float(label):+g}", *cells]) for label, *cells in lines]
    except ValueError:
        raise FetchError(f"{address}: is not LIBSVM text") from None
    return "".join(f"{line}\n" for line in kept).encode("ascii")


class _BoundedBuffer(io.BytesIO):
    """Takes a download, up to a size."""

    def write(self, chunk: Any) -> int:
        if self.tell() + len(chunk) > _MAX_BYTES:
            raise FetchError(f"has more than {_MAX_BYTES} bytes")
        return super().write(chunk)


def _download(address: str) -> bytes:
    try:
        import pooch
        import requests
    except ImportError:
        raise FetchError("fetching needs pooch, which is not installed: pip install pooch") from None
    body = _BoundedBuffer()
    get = pooch.HTTPDownloader(timeout=_TIMEOUT, headers={"User-Agent": "squaresvm"})
    try:
        get(address, body, None)
    except FetchError as error:
        raise FetchError(f"{address}: {error}") from None
    except requests.HTTPError as error:
        response: Any = error.response
        raise FetchError(f"{address}: HTTP {response.status_code} {response.reason}") from None
    except requests.exceptions.ChunkedEncodingError as error:
        raise FetchError(f"{address}: the download was interrupted ({_words(error)})") from None
    except requests.RequestException as error:
        raise _UnreachableError(f"no connection to {address.rpartition('/')[0]} ({_words(error)})") from None
    return body.getvalue()


def _unpacked(body: bytes, address: str) -> bytes:
    try:
        with bz2.open(io.BytesIO(body)) as file:
            text = file.read(_MAX_BYTES + 1)
    except EOFError:
        raise FetchError(f"{address}: the compressed file is incomplete") from None
    except OSError:
        raise FetchError(f"{address}: is not compressed with bzip2") from None
    if len(text) > _MAX_BYTES:
        raise FetchError(f"{address}: has more than {_MAX_BYTES} bytes")
    return text


def _rest(origin: Origin, folder: Path) -> bytes:
    """Return the lines of one file, in its order, less those of another."""
    parts = [folder / str(origin.whole), folder / str(origin.less)]
    for part in parts:
        if not part.is_file():
            raise FetchError(f"is made from {part.name}, which is not there")
    whole, less = (part.read_bytes().splitlines(keepends=True) for part in parts)
    left = Counter(less)
    kept = []
    for line in whole:
        if left[line]:
            left[line] -= 1
        else:
            kept.append(line)
    return b"".join(kept)


def _add_schema(folder: Path, name: str, schema: dict[str, Any]) -> None:
    path = folder / "SCHEMA.json"
    try:
        sets = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError:
        raise FetchError("the folder's SCHEMA.json is not JSON") from None
    sets[name.split(".")[0]] = schema
    with replacing(path) as file:
        file.write(json.dumps(sets, indent=1).encode("utf-8"))


def _words(error: Exception) -> str:
    """Return what a connection died of, in one line: the innermost reason, without who says so."""
    reason = getattr(error.args[0] if error.args else None, "reason", getattr(error, "reason", error))
    return " ".join(str(reason).split()).rpartition(": ")[2] or type(error).__name__


def _openml(origin: Origin) -> tuple[bytes, dict[str, Any]]:
    """Return a data set of OpenML as CSV, and what SCHEMA.json says of it."""
    try:
        found = _found(origin)
    except HTTPError as error:
        error.close()
        raise FetchError(f"OpenML {origin.openml}: HTTP {error.code} {error.reason}") from None
    except (URLError, TimeoutError, ConnectionError) as error:
        raise _UnreachableError(f"no connection to OpenML ({_words(error)})") from None
    except Exception as error:  # The parser's errors have no class in common.
        line = " ".join(str(error).split())
        raise FetchError(f"OpenML {origin.openml}: {type(error).__name__}: {line}") from None
    labels = [_cell(value, None) for value in np.ravel(found.target)]
    names = [origin.rename.get(name, name) for name in found.feature_names]
    levels = {origin.rename.get(name, name): values for name, values in (found.categories or {}).items()}
    _check_counts(origin, found.data.shape, labels)
    rows = [
        [*(_cell(value, levels.get(name)) for name, value in zip(names, row, strict=True)), label]
        for row, label in zip(found.data, labels, strict=True)
    ]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[*names, "label"], *rows])
    features = [_feature(name, levels) for name in names]
    return text.getvalue().encode("utf-8"), {"features": features, "label_values": sorted(set(labels))}


def _found(origin: Origin) -> Any:
    """Return what scikit-learn fetches and has verified the checksum of.

    Arrays and not frames: only so do nominal columns keep levels that no row has, in the declared order, and
    pandas is not needed.
    """
    with warnings.catch_warnings():  # Of another try after a failure, and of several versions: no news here.
        warnings.simplefilter("ignore")
        return fetch_openml(
            data_id=origin.openml,
            target_column=origin.label or "default-target",
            as_frame=False,
            parser="liac-arff",
            cache=False,
            n_retries=1,
        )


def _check_counts(origin: Origin, shape: tuple[int, ...], labels: Sequence[str]) -> None:
    if shape != (origin.rows, origin.columns):
        raise FetchError(
            f"OpenML {origin.openml} has {shape[0]} rows and {shape[1]} columns; "
            f"the papers' have {origin.rows} and {origin.columns}"
        )
    counts = dict(sorted(Counter(labels).items()))
    if counts != dict(origin.classes):
        raise FetchError(
            f"OpenML {origin.openml} has classes {counts}; the papers' are {dict(origin.classes)}"
        )


def _cell(value: Any, levels: Sequence[str] | None) -> str:
    """Return a value as text, the level that a code stands for, or nothing where it is missing."""
    if isinstance(value, str):
        return value
    number = float(value)
    if math.isnan(number):
        return ""
    if levels is not None:
        return str(levels[int(number)])
    return str(int(number)) if number.is_integer() else repr(number)


def _feature(name: str, levels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    if name not in levels:
        return {"name": name, "type": "numeric"}
    return {"name": name, "type": "nominal", "values": list(levels[name])}
