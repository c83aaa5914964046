"""A header in JSON and plain arrays in one file, with a checksum: written whole, read with suspicion."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from squaresvm.runtime.atomic import replacing

__all__ = ["VERSION", "ModelFileError", "checksum", "read", "write"]


class ModelFileError(ValueError):
    """A file that is no model file, or not one that can be trusted; the message is one line.

    Examples
    --------
    >>> import squaresvm
    >>> from squaresvm.files import ModelFileError
    >>> try:
    ...     squaresvm.load("pyproject.toml")
    ... except (ModelFileError, FileNotFoundError) as error:
    ...     print(len(str(error).splitlines()))
    1
    """


#: Version of the format that is written, and the newest that is read.
VERSION = 1

_MAGIC = b"squaresvm model\n"
#: Magic, version, bytes of the header.
_PREFIX = struct.Struct("<16sIQ")
_START = _PREFIX.size + hashlib.sha256().digest_size
#: Arrays start at multiples of this.
_ALIGN = 64
#: Numbers, flags and strings of fixed width; nothing that holds references.
_DTYPE = re.compile(r"[<|](?:b1|[iu][1248]|f[48]|[US][1-9][0-9]{0,8})")
_NAME = re.compile(r"[a-z][a-z_]{0,31}")
_MOST_ARRAYS = 32
_LARGEST_EXTENT = 2**48


@dataclass(frozen=True)
class _Entry:
    """One array as the header promises it."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]
) -> str:
    """Write header, which is JSON without NaN, and arrays to a file, all at once; return its checksum."""
    flat = {name: _plain(array) for name, array in arrays.items()}
    table = {name: _described(array) for name, array in flat.items()}
    text = json.dumps({**header, "arrays": table}, allow_nan=False, ensure_ascii=True).encode("ascii")
    text += b" " * (-(_START + len(text)) % _ALIGN)
    prefix = _PREFIX.pack(_MAGIC, VERSION, len(text))
    pieces: list[bytes | memoryview] = [text]
    for array in flat.values():
        pieces += [_bytes(array), bytes(-array.nbytes % _ALIGN)]
    digest = hashlib.sha256(prefix)
    for piece in pieces:
        digest.update(piece)
    with replacing(path) as file:
        for piece in (prefix, digest.digest(), *pieces):
            file.write(piece)
    return digest.hexdigest()


def checksum(path: str | os.PathLike[str]) -> str | None:
    """Return the checksum that a file says it has; None where there is no file."""
    try:
        with open(path, "rb") as file:
            return file.read(_START)[_PREFIX.size :].hex()
    except FileNotFoundError:
        return None


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array little-endian and without gaps."""
    dtype = array.dtype.newbyteorder("<") if array.dtype.byteorder != "|" else array.dtype
    plain = array.astype(dtype, copy=False)
    return plain if plain.flags.f_contiguous or plain.flags.c_contiguous else np.ascontiguousarray(plain)


def _order(array: np.ndarray[Any, Any]) -> str:
    return "C" if array.flags.c_contiguous else "F"


def _described(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape), "order": _order(array)}


def _bytes(array: np.ndarray[Any, Any]) -> memoryview:
    flat = array.reshape(-1, order=_order(array))  # type: ignore[call-overload]
    return memoryview(flat.view(np.uint8)) if array.nbytes else memoryview(b"")


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]], str]:
    """Return header, arrays and checksum of a file after all checks that need no knowledge of models.

    Sizes that the header promises are held against the bytes that are there before anything is allocated. A
    ModelFileError where it is not a whole, undamaged model file of a known version, an OSError where it
    cannot be read.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # To open a pipe would wait for a writer.
        raise ModelFileError(f"{path}: is not a regular file")
    with open(path, "rb") as file:
        return _Reader(Path(path), file, os.fstat(file.fileno()).st_size).read()


class _Reader:
    """Reads a file from front to back, each array into memory of its own, and sums up what it reads."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self.path = path
        self.file = file
        self.size = size
        self.digest = hashlib.sha256()

    def fail(self, what: str) -> NoReturn:
        raise ModelFileError(f"{self.path}: {what}")

    def _take(self, count: int) -> bytes:
        piece = self.file.read(count)
        if len(piece) != count:
            self.fail("is cut short: it is not a whole model file")
        return piece

    def read(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]], str]:
        length, promised = self._prefix()
        raw = self._take(length)
        self.digest.update(raw)
        header = self._parsed(raw)
        entries = list(self._entries(header))
        end = _START + length + sum(entry.size + -entry.size % _ALIGN for entry in entries)
        if end != self.size:
            how = "is cut short" if end > self.size else "is damaged"
            self.fail(f"{how}: its header promises {end} bytes, there are {self.size}")
        arrays = {entry.name: self._array(entry) for entry in entries}
        if self.digest.digest() != promised:
            self.fail("is damaged: its checksum does not match its contents")
        for name, array in arrays.items():
            self._check_values(name, array)
        return header, arrays, promised.hex()

    def _prefix(self) -> tuple[int, bytes]:
        start = self.file.read(_PREFIX.size)
        if start[: len(_MAGIC)] != _MAGIC:
            if start and _MAGIC.startswith(start):
                self.fail("is cut short: it is not a whole model file")
            self.fail("is not a squaresvm model file")
        if len(start) < _PREFIX.size:
            self.fail("is cut short: it is not a whole model file")
        _, version, length = _PREFIX.unpack(start)
        if version > VERSION:
            self.fail(
                f"was written by a newer squaresvm (format {version}; this one reads up to {VERSION}): "
                "update squaresvm"
            )
        if version < 1:
            self.fail("is damaged: there is no format 0")
        if length > self.size - _START:
            self.fail("is cut short: it is not a whole model file")
        self.digest.update(start)
        return length, self._take(hashlib.sha256().digest_size)

    def _parsed(self, raw: bytes) -> dict[str, Any]:
        try:
            header = json.loads(
                raw.decode("utf-8"),
                object_pairs_hook=_unique,
                parse_constant=_no_constant,
                parse_float=_finite,
            )
        except (ValueError, RecursionError):
            self.fail("is damaged: its header is not valid JSON")
        if not isinstance(header, dict):
            self.fail("is damaged: its header is not a JSON object")
        return header

    def _entries(self, header: dict[str, Any]) -> Iterator[_Entry]:
        table = header.pop("arrays", None)
        if not isinstance(table, dict) or len(table) > _MOST_ARRAYS:
            self.fail("is damaged: its header does not list its arrays")
        for name, entry in table.items():
            if not _NAME.fullmatch(name):
                self.fail(f"holds an array of the name {name[:40]!r}, which no model has")
            if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "order"}:
                self.fail(f"is damaged: its header does not describe the array {name!r}")
            yield _Entry(name, self._dtype(name, entry["dtype"]), *self._extent(name, entry))

    def _dtype(self, name: str, code: Any) -> np.dtype[Any]:
        if not isinstance(code, str) or not _DTYPE.fullmatch(code):
            self.fail(f"holds an array {name!r} of type {str(code)[:20]!r}, which no model has")
        try:
            return np.dtype(code)
        except (TypeError, ValueError):
            self.fail(f"holds an array {name!r} of type {code!r}, which no model has")

    def _extent(self, name: str, entry: dict[str, Any]) -> tuple[tuple[int, ...], str]:
        shape, order = entry["shape"], entry["order"]
        whole = isinstance(shape, list) and len(shape) <= 2 and all(type(extent) is int for extent in shape)
        if not whole or not all(0 <= extent < _LARGEST_EXTENT for extent in shape) or order not in ("C", "F"):
            self.fail(f"is damaged: the array {name!r} has an impossible shape")
        return tuple(shape), order

    def _array(self, entry: _Entry) -> np.ndarray[Any, Any]:
        flat = np.empty(math.prod(entry.shape), dtype=entry.dtype)
        if entry.size:
            view = _bytes(flat)
            if self.file.readinto(view) != entry.size:  # type: ignore[attr-defined]
                self.fail("is cut short: it is not a whole model file")
            self.digest.update(view)
        padding = self._take(-entry.size % _ALIGN)
        self.digest.update(padding)
        return flat.reshape(entry.shape, order=entry.order)  # type: ignore[call-overload]

    def _check_values(self, name: str, array: np.ndarray[Any, Any]) -> None:
        flat = array.reshape(-1, order="A")
        if flat.dtype.kind == "f" and not np.isfinite(flat).all():
            self.fail(f"holds NaN or infinity in the array {name!r}")
        if flat.dtype.kind == "b" and flat.size and flat.view(np.uint8).max() > 1:
            self.fail(f"is damaged: the array {name!r} holds more than true and false")
        if flat.dtype.kind == "U" and flat.size and flat.view(np.uint32).max() > 0x10FFFF:
            self.fail(f"is damaged: the array {name!r} holds what is no text")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not allowed")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number
