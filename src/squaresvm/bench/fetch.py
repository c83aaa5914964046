"""Fetches the files of a data folder that are not there, and keeps those alone whose checksum is right."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from squaresvm.bench.data import DataError, listed_checksums
from squaresvm.bench.openml import from_openml
from squaresvm.bench.sources import Source, Sources, load_sources
from squaresvm.bench.table import PaperTable
from squaresvm.runtime.atomic import locked, replacing

__all__ = ["FetchError", "fetch_missing"]

#: Bytes that a file may have at most, packed or not: ten times the largest of them.
_LARGEST = 40_000_000
_PATIENCE = 30.0  # Seconds without a byte.


class FetchError(DataError):
    """Why a file was not fetched."""


class _UnreachableError(FetchError):
    """No connection: other files of the same place need not be tried."""


def fetch_missing(
    tables: Sequence[PaperTable],
    folder: Path,
    *,
    quick: bool = False,
    sources: Sources | None = None,
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
    sources : Sources, optional
        Where files come from; default: ``sources.toml`` of the package.
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
    known = sources or load_sources()
    reasons: dict[str, str] = {}
    unreachable: dict[str, str] = {}
    with locked(folder):
        missing = [name for name in _needed(tables, known, quick=quick) if not (folder / name).is_file()]
        for done, name in enumerate(missing):
            if progress is not None:
                progress(done, len(missing), f"fetch {name}")
            source = known.files.get(name, Source(unfetchable="no source is declared for it"))
            place = "OpenML" if source.openml is not None else base or known.base
            try:
                if place in unreachable and source.whole is None and source.unfetchable is None:
                    raise FetchError(unreachable[place])
                _fetch(name, source, folder, base or known.base)
            except FetchError as error:
                reasons[name] = str(error)
                if isinstance(error, _UnreachableError):
                    unreachable[place] = str(error)
        if progress is not None and missing:
            progress(len(missing), len(missing), "")
    return reasons


def _needed(tables: Iterable[PaperTable], sources: Sources, *, quick: bool) -> list[str]:
    """Return names of files, each once, and those made from others behind these."""
    sets = [table.data[row.data] for table in tables for row in table.rows if row.quick or not quick]
    names = dict.fromkeys(name for data in sets for name in (*data.files, *data.test))
    made = {name: source for name, source in sources.files.items() if name in names and source.whole}
    parts = [part for source in made.values() for part in (source.whole, source.less) if part]
    return [*dict.fromkeys([*parts, *(name for name in names if name not in made)]), *made]


def _fetch(name: str, source: Source, folder: Path, base: str) -> None:
    if source.unfetchable is not None:
        raise FetchError(f"not to be fetched: {source.unfetchable}")
    if source.openml is not None:
        content, schema = _openml(source)
        _check_listed(folder, name, content)
        _add_schema(
            folder, name, schema
        )  # First: without it, the file would be read as numbers where it can.
    else:
        text = _page(f"{base}/{source.page}") if source.page is not None else _rest(source, folder)
        if hashlib.sha256(text).hexdigest() != source.sha256:
            raise FetchError(
                f"its SHA-256 is not the declared one: {source.page or 'made of others'}, refused"
            )
        content = gzip.compress(text, 6, mtime=0) if name.endswith(".gz") else text
        _check_listed(folder, name, content)
    with replacing(folder / name) as file:
        file.write(content)
    _list(folder, name, content)


def _openml(source: Source) -> tuple[bytes, dict[str, Any]]:
    try:
        return from_openml(source)
    except DataError as error:
        raise FetchError(str(error)) from None
    except HTTPError as error:
        error.close()
        raise FetchError(f"OpenML {source.openml}: HTTP {error.code} {error.reason}") from None
    except (URLError, TimeoutError, ConnectionError) as error:
        raise _UnreachableError(f"no connection to OpenML ({_words(error)})") from None
    except Exception as error:  # The parser's errors have no class in common.
        line = " ".join(str(error).split())
        raise FetchError(f"OpenML {source.openml}: {type(error).__name__}: {line}") from None


def _page(address: str) -> bytes:
    """Return a page's file as the text that is kept."""
    body = _download(address)
    if address.endswith(".bz2"):
        body = _unpacked(body, address)
    try:
        lines = [line.split() for line in body.decode("ascii").splitlines()]
        kept = [" ".join([f"{float(label):+g}", *cells]) for label, *cells in lines]
    except ValueError:
        raise FetchError(f"{address}: is no LIBSVM text") from None
    return "".join(f"{line}\n" for line in kept).encode("ascii")


def _download(address: str) -> bytes:
    try:
        response = urlopen(Request(address, headers={"User-Agent": "squaresvm"}), timeout=_PATIENCE)
    except HTTPError as error:
        error.close()
        raise FetchError(f"{address}: HTTP {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        raise _UnreachableError(f"no connection to {address.rpartition('/')[0]} ({_words(error)})") from None
    with response:
        length: int | None = response.length
        try:
            body: bytes = response.read(_LARGEST + 1)
        except (OSError, HTTPException) as error:
            raise FetchError(f"{address}: the download was cut ({_words(error)})") from None
    if len(body) > _LARGEST:
        raise FetchError(f"{address}: has more than {_LARGEST} bytes")
    if length is not None and len(body) != length:
        raise FetchError(f"{address}: the download was cut, {len(body)} of {length} bytes came")
    return body


def _unpacked(body: bytes, address: str) -> bytes:
    unpacker = bz2.BZ2Decompressor()
    try:
        text = unpacker.decompress(body, max_length=_LARGEST)
    except OSError:
        raise FetchError(f"{address}: is not packed with bzip2") from None
    if not unpacker.eof:
        raise FetchError(f"{address}: the packed file was cut, or has more than {_LARGEST} bytes")
    return text


def _rest(source: Source, folder: Path) -> bytes:
    """Return the lines of one file, in its order, less those of another."""
    parts = [folder / str(source.whole), folder / str(source.less)]
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


def _check_listed(folder: Path, name: str, content: bytes) -> None:
    listed = listed_checksums(folder).get(name)
    if listed is not None and listed != hashlib.sha256(content).hexdigest():
        raise FetchError("its SHA-256 is not the one that the folder's SHA256SUMS lists, refused")


def _list(folder: Path, name: str, content: bytes) -> None:
    """Have a file listed in SHA256SUMS: whoever reads it later checks it again."""
    listed = listed_checksums(folder)
    if name not in listed:
        listed[name] = hashlib.sha256(content).hexdigest()
        with replacing(folder / "SHA256SUMS") as file:
            file.write("".join(f"{digest}  {name}\n" for name, digest in listed.items()).encode())


def _add_schema(folder: Path, name: str, schema: dict[str, Any]) -> None:
    path = folder / "SCHEMA.json"
    try:
        sets = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError:
        raise FetchError("the folder's SCHEMA.json is no JSON") from None
    sets[name.split(".")[0]] = schema
    with replacing(path) as file:
        file.write(json.dumps(sets, indent=1).encode("utf-8"))


def _words(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    return " ".join(str(reason).split()) or type(error).__name__
