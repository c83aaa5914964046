"""From what a request holds to rows, labels and ids of a model: JSON records, lists of numbers, CSV."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from squaresvm.files import Record
from squaresvm.readers import Column, Table, TableError
from squaresvm.readers.preparation import Preparation
from squaresvm.readers.text import csv_blocks
from squaresvm.typing import FloatArray

__all__ = [
    "REQUEST",
    "Limits",
    "RequestError",
    "columns_of",
    "csv_request",
    "first_line",
    "held_ids",
    "json_object",
    "labels_for",
    "list_in",
    "new_ids",
    "rows_for",
    "table_of",
]

#: Characters of a message at most: a request may be quoted in it, whatever its size.
_LONGEST = 400
#: For messages: a request has no file.
REQUEST = Path("request")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


class RequestError(Exception):
    """A request that is answered with an error, in one line; later it may be worth another try."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line of bounded length; a KeyError without its quotes."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    line = " ".join(text.split()) or type(error).__name__
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


@dataclass(frozen=True)
class Limits:
    """How large requests may be, how many may wait, and for how long.

    Parameters
    ----------
    body : int
        Bytes of a request.
    rows, columns : int
        Of a request.
    waiting : int
        Requests that may wait for one model: predictions, and changes.
    in_flight : int
        Requests that the server works on at a time.
    seconds : float
        For which a request may be sent, and for which it may wait.
    receipts : int
        In the chain of a model; beyond it one receipt, an anchor, stands for them.
    """

    body: int = 8 * 2**20
    rows: int = 10_000
    columns: int = 10_000
    waiting: int = 256
    in_flight: int = 512
    seconds: float = 30.0
    receipts: int = 1000


# JSON ----------------------------------------------------------------------------------------------------


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object that a body is; a RequestError (400) where it is none.

    Examples
    --------
    >>> from squaresvm.serve.rows import json_object
    >>> json_object(b'{"ids": [3]}')
    {'ids': [3]}
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
        if _SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise RequestError(400, "the body is not text in UTF-8") from None
    except RecursionError:
        raise RequestError(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON: {first_line(error)}") from None
    if not isinstance(value, dict):
        raise RequestError(400, "the body must be a JSON object")
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def list_in(request: dict[str, Any], name: str, limits: Limits) -> list[Any]:
    """Return a list that a request must hold, neither empty nor too long."""
    value = request.get(name)
    if not isinstance(value, list) or not value:
        raise RequestError(400, f"{name!r} must be a list that is not empty, or columns of CSV")
    if len(value) > limits.rows:
        raise RequestError(413, f"{name!r} holds {len(value)} entries, and {limits.rows} are allowed")
    return value


# Tables --------------------------------------------------------------------------------------------------


def table_of(records: Sequence[Any], limits: Limits) -> Table | FloatArray:
    """Return records as a table, or lists of numbers as an array.

    Records all have the same names, with numbers, texts, flags or null.

    Examples
    --------
    >>> from squaresvm.serve.rows import Limits, table_of
    >>> table = table_of([{"age": 41, "town": "Ulm"}, {"age": None, "town": "Bonn"}], Limits())
    >>> table.columns["age"].cells
    array([41., nan])
    >>> table_of([[1, 2.5]], Limits())
    array([[1. , 2.5]])
    """
    first = records[0]
    if isinstance(first, list):
        return _array(records, len(first), limits)
    if not isinstance(first, dict) or not first:
        raise RequestError(400, "'records' must hold objects of columns and values, or lists of numbers")
    names = list(first)
    if len(names) > limits.columns:
        raise RequestError(413, f"a record has {len(names)} columns, and {limits.columns} are allowed")
    known = set(names)
    for number, record in enumerate(records):
        if not isinstance(record, dict) or set(record) != known:
            raise RequestError(422, f"record {number} does not have the same columns as record 0")
    columns = {name: _column(name, [record[name] for record in records]) for name in names}
    return Table(REQUEST, columns, range(len(records)), unit="record")


def _array(records: Sequence[Any], width: int, limits: Limits) -> FloatArray:
    if width == 0 or width > limits.columns:
        raise RequestError(422, f"a record must have 1 to {limits.columns} numbers")
    for number, record in enumerate(records):
        if not isinstance(record, list) or len(record) != width:
            raise RequestError(422, f"record {number} is not a list of {width} numbers, as record 0 is")
        for value in record:
            if not _is_number(value):
                raise RequestError(422, f"record {number} holds a value that is not a finite number")
    return np.array(records, dtype=np.float64)


def _is_number(value: Any) -> bool:
    if type(value) is int:
        return abs(value) < 2**1023
    return type(value) is float and math.isfinite(value)


def _column(name: str, values: list[Any]) -> Column:
    if all(value is None or (_is_number(value) and abs(value) < 2**53) for value in values):
        return Column(name, np.array([math.nan if v is None else v for v in values], dtype=np.float64))
    cells = np.empty(len(values), dtype=object)
    cells[:] = [_cell(name, number, value) for number, value in enumerate(values)]
    return Column(name, cells)


def _cell(name: str, number: int, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, str):
        return value.strip()
    if _is_number(value):
        return repr(int(value)) if value == int(value) else repr(value)
    raise RequestError(
        422, f"record {number}: column {name[:40]!r} is neither a finite number, nor text, nor null"
    )


def csv_request(body: bytes, label: str | None, id: str | None, limits: Limits) -> dict[str, Any]:
    """Return a CSV body as the request that it stands for, in JSON; label and id are no part of records."""
    try:
        blocks = list(csv_blocks(REQUEST, io.BytesIO(body), fewest=1))
    except TableError as error:
        raise RequestError(422, first_line(error)) from None
    count = sum(len(block.lines) for block in blocks)
    if not 0 < count <= limits.rows:
        raise RequestError(
            413 if count else 422, f"the table has {count} rows, and 1 to {limits.rows} are allowed"
        )
    columns = {name: [cell for block in blocks for cell in block.columns[name]] for name in blocks[0].columns}
    request: dict[str, Any] = {}
    for name, purpose in ((label, "labels"), (id, "ids")):
        if name in columns:
            request[purpose] = columns.pop(name)
    if columns:
        cells = zip(*columns.values(), strict=True)
        request["records"] = [dict(zip(columns, row, strict=True)) for row in cells]
    return request


# Rows, labels, ids ---------------------------------------------------------------------------------------


def columns_of(model: Any) -> Preparation | None:
    """Return how records become rows of a model; None where its columns have no names."""
    preparation = Record.of(model).preparation
    if preparation is not None:
        return preparation
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else Preparation.plain(names)


def rows_for(found: Table | FloatArray, preparation: Preparation | None, width: int) -> FloatArray:
    """Return rows of numbers, as wide as a model is, by its preparation: see `columns_of`."""
    if isinstance(found, Table):
        if preparation is None:
            raise RequestError(422, f"the columns of this model have no names: send lists of {width} numbers")
        try:
            return preparation.rows(found)
        except TableError as error:
            raise RequestError(422, _without_options(first_line(error))) from None
    if preparation is not None and Preparation.plain(preparation.feature_names) != preparation:
        raise RequestError(
            422, "this model prepares its columns: send records with names, not lists of numbers"
        )
    if found.shape[1] != width:
        raise RequestError(422, f"rows have {found.shape[1]} columns, and the model has {width}")
    return found


def _without_options(line: str) -> str:
    """Return a message of the readers without advice about the command line."""
    return line.split("; --")[0]


def labels_for(model: Any, values: list[Any]) -> np.ndarray[Any, Any]:
    """Return labels, or values, of the kind that the model has."""
    held = model._state.rows.y
    if held.ndim == 2:
        return _several(values, held.shape[1], hasattr(model, "classes_"))
    if not hasattr(model, "classes_"):
        numbers = [_number(value) for value in values]
        if any(number is None for number in numbers):
            raise RequestError(422, f"label {numbers.index(None)} is not a finite number")
        return np.array(numbers, dtype=np.float64)
    kind = model.classes_.dtype.kind
    labels = [_label(value, kind) for value in values]
    if any(label is None for label in labels):
        wanted = {"i": "whole number", "u": "whole number", "f": "number", "b": "flag"}.get(kind, "text")
        raise RequestError(422, f"label {labels.index(None)} is not a {wanted}, and those of the model are")
    return np.array(labels, dtype=object if kind == "O" else np.str_ if kind == "U" else model.classes_.dtype)


def _several(values: list[Any], width: int, are_flags: bool) -> np.ndarray[Any, Any]:
    """Return several values for each row: numbers, or whether it has each label."""
    for number, row in enumerate(values):
        if not isinstance(row, list) or len(row) != width:
            raise RequestError(422, f"label {number} is not a list of {width} values, one for each target")
        if not all((value in (0, 1)) if are_flags else _is_number(value) for value in row):
            wanted = "0 and 1" if are_flags else "finite numbers"
            raise RequestError(422, f"label {number} does not consist of {wanted}")
    return np.array(values, dtype=np.int64 if are_flags else np.float64)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if _is_number(value) else None


def _label(value: Any, kind: str) -> Any:
    if kind in "iu":
        whole = _whole(value)
        return whole if whole is not None and (kind == "i" or whole >= 0) else None
    if kind == "f":
        return _number(value)
    if kind == "b":
        return value if isinstance(value, bool) else None
    if isinstance(value, str):
        return None if not value or "\0" in value else value
    return str(value) if type(value) is int else None


def _whole(value: Any) -> int | None:
    """Return the whole number of 64 bits that a value is, or is written as."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def held_ids(model: Any, values: list[Any]) -> list[Any]:
    """Return ids as the model has them: a number may have been sent as text."""
    for value in values:
        if not isinstance(value, str) and type(value) not in (int, float):
            raise RequestError(400, "ids must be numbers or texts")
        if isinstance(value, str) and "\0" in value:
            raise RequestError(422, "an id holds a zero byte")
    held = model._state.rows.ids.values
    if held.dtype.kind in "iu":
        return [value if _whole(value) is None else _whole(value) for value in values]
    if held.dtype.kind in "US":
        return [str(value) if type(value) is int else value for value in values]
    known = set(held.tolist())
    return [value if value in known else _twin(value, known) for value in values]


def _twin(value: Any, known: set[Any]) -> Any:
    """Return the id that is held as a number and was sent as text, or the other way round; else as it is."""
    other = _whole(value) if isinstance(value, str) else str(value)
    return other if other in known else value


def new_ids(model: Any, values: list[Any]) -> list[Any]:
    """Return ids of rows to learn: of a kind that a model file can hold beside those that it has."""
    ids = held_ids(model, values)
    if model._state.rows.ids.values.dtype.kind == "f":
        return ids
    for value in ids:
        if not isinstance(value, str) and _whole(value) is None:
            raise RequestError(422, "an id is neither text nor a whole number of 64 bits")
    return ids
