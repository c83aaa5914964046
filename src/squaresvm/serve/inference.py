"""The Open Inference Protocol, version 2, with its extension for binary tensors.

Rows are one tensor of shape (rows, columns) with numbers. A model that was trained on a table takes one
tensor a column instead, by the column's name, with texts (BYTES) or numbers: its own preparation makes rows
of them.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from squaresvm._version import __version__
from squaresvm.readers import Table
from squaresvm.readers.preparation import Number, Preparation
from squaresvm.serve.rows import Limits, RequestError, json_object, table_of
from squaresvm.serve.view import Answer, View
from squaresvm.typing import FloatArray

__all__ = ["InferRequest", "model_metadata", "parse_infer", "render_infer", "server_metadata"]

_DTYPES = {
    "BOOL": "|b1",
    "UINT8": "|u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "|i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
_OUTPUTS = ("predict", "decision", "probabilities")


def server_metadata() -> dict[str, Any]:
    """Return what `/v2` answers."""
    return {"name": "squaresvm", "version": __version__, "extensions": ["binary_tensor_data"]}


def model_metadata(name: str, view: View) -> dict[str, Any]:
    """Return what `/v2/models/{name}` answers.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> from squaresvm.serve.inference import model_metadata
    >>> from squaresvm.serve.view import View
    >>> view = View.of(LSSVC().fit(*load_iris(return_X_y=True)), 0)
    >>> model_metadata("iris", view)["inputs"]
    [{'name': 'rows', 'datatype': 'FP64', 'shape': [-1, 4]}]
    """
    seen = view.of_zeros
    labels = np.empty(1, _label_dtype(view)) if seen is None else seen.labels
    outputs = [_output("predict", labels)]
    if seen is not None and seen.decision is not None:
        outputs.append(_output("decision", seen.decision))
    elif seen is None and view.holds_rows and view.classes is not None:  # A kernel that was computed before.
        outputs.append(_output("decision", np.empty((1, view.classes.size)[: 1 + (view.classes.size > 2)])))
    if view.has_probabilities and view.classes is not None:
        outputs.append({"name": "probabilities", "datatype": "FP64", "shape": [-1, view.classes.size]})
    return {
        "name": name,
        "versions": [],
        "platform": "squaresvm",
        "inputs": _inputs(view),
        "outputs": outputs,
    }


def _output(name: str, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"name": name, "datatype": _datatype(values.dtype), "shape": [-1, *values.shape[1:]]}


def _inputs(view: View) -> list[dict[str, Any]]:
    if view.preparation is None or _is_plain(view.preparation):
        return [{"name": "rows", "datatype": "FP64", "shape": [-1, view.width]}]
    return [
        {"name": feature.name, "datatype": "FP64" if isinstance(feature, Number) else "BYTES", "shape": [-1]}
        for feature in view.preparation.features
    ]


def _is_plain(preparation: Preparation) -> bool:
    return Preparation.plain(preparation.feature_names) == preparation


def _label_dtype(view: View) -> np.dtype[Any]:
    return np.dtype(np.float64) if view.classes is None else view.classes.dtype


def _datatype(dtype: np.dtype[Any]) -> str:
    wanted = dtype.newbyteorder("<").str
    return next((name for name, code in _DTYPES.items() if code == wanted), "BYTES")


# Requests ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class InferRequest:
    """What is asked for."""

    X: FloatArray
    #: Names of outputs, and whether each is wanted as binary data.
    outputs: dict[str, bool]
    #: The caller's name for the request, which is given back.
    id: str | None


def parse_infer(body: bytes, header_length: str | None, view: View, limits: Limits) -> InferRequest:
    """Return what a body asks for; a RequestError where it is no inference request for this model.

    It is JSON, followed by binary tensors where the header ``Inference-Header-Content-Length`` says so.
    """
    binary = b""
    if header_length is not None:
        if not header_length.isascii() or not header_length.isdigit() or int(header_length) > len(body):
            raise RequestError(
                400, "Inference-Header-Content-Length must be a number of bytes within the body"
            )
        body, binary = body[: int(header_length)], body[int(header_length) :]
    request = json_object(body)
    inputs = request.get("inputs")
    if not isinstance(inputs, list) or not inputs or not all(isinstance(tensor, dict) for tensor in inputs):
        raise RequestError(400, "'inputs' must be a list of tensors")
    if len(inputs) > limits.columns:
        raise RequestError(413, f"there are {len(inputs)} tensors, and {limits.columns} are allowed")
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for tensor in inputs:
        name, values, binary = _tensor(tensor, binary)
        if name in tensors:
            raise RequestError(400, f"two tensors have the name {name[:40]!r}")
        tensors[name] = values
    if binary:
        raise RequestError(400, "the body is longer than its tensors")
    given = request.get("id")
    if given is not None and not isinstance(given, str):
        raise RequestError(400, "'id' must be a text")
    return InferRequest(_rows(tensors, view, limits), _wanted(request, view), given)


def _tensor(tensor: dict[str, Any], binary: bytes) -> tuple[str, np.ndarray[Any, Any], bytes]:
    """Return name and values of a tensor, and the binary data behind it."""
    name, datatype, shape = tensor.get("name"), tensor.get("datatype"), tensor.get("shape")
    if not isinstance(name, str) or not name:
        raise RequestError(400, "a tensor has no name")
    if datatype not in (*_DTYPES, "BYTES"):
        raise RequestError(
            400, f"tensor {name[:40]!r}: the datatype must be one of {', '.join(_DTYPES)}, BYTES"
        )
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= 2
        or not all(type(n) is int and n > 0 for n in shape)
    ):
        raise RequestError(400, f"tensor {name[:40]!r}: the shape must be one or two positive whole numbers")
    parameters = tensor.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None:
        return name, _from_json(name, tensor.get("data"), datatype, shape), binary
    if type(size) is not int or not 0 <= size <= len(binary):
        raise RequestError(400, f"tensor {name[:40]!r}: binary_data_size is beyond the body")
    return name, _from_bytes(name, binary[:size], datatype, shape), binary[size:]


def _from_json(name: str, data: Any, datatype: str, shape: list[int]) -> np.ndarray[Any, Any]:
    wrong = RequestError(
        422, f"tensor {name[:40]!r}: the data are not {math.prod(shape)} values of {datatype}"
    )
    if not isinstance(data, list):
        raise wrong
    try:
        values = np.array(data, dtype=object) if datatype == "BYTES" else np.array(data)
    except (ValueError, OverflowError):
        raise wrong from None
    if values.size != math.prod(shape):
        raise wrong
    if datatype == "BYTES":
        if not all(isinstance(value, str) for value in values.flat):
            raise wrong
        return values.reshape(shape)
    if values.dtype.kind != "b" if datatype == "BOOL" else values.dtype.kind not in "iuf":
        raise wrong
    return values.reshape(shape)


def _from_bytes(name: str, data: bytes, datatype: str, shape: list[int]) -> np.ndarray[Any, Any]:
    wrong = RequestError(
        422, f"tensor {name[:40]!r}: the data are not {math.prod(shape)} values of {datatype}"
    )
    if datatype != "BYTES":
        dtype = np.dtype(_DTYPES[datatype])
        if len(data) != dtype.itemsize * math.prod(shape):
            raise wrong
        return np.frombuffer(data, dtype=dtype).reshape(shape)
    texts, place = [], 0
    try:
        while place < len(data):
            (size,) = struct.unpack_from("<I", data, place)
            if place + 4 + size > len(data):
                raise wrong
            texts.append(data[place + 4 : place + 4 + size].decode("utf-8"))
            place += 4 + size
    except (struct.error, UnicodeDecodeError):
        raise wrong from None
    if len(texts) != math.prod(shape):
        raise wrong
    return np.array(texts, dtype=object).reshape(shape)


def _rows(tensors: dict[str, np.ndarray[Any, Any]], view: View, limits: Limits) -> FloatArray:
    count = next(iter(tensors.values())).shape[0]
    if count > limits.rows:
        raise RequestError(413, f"there are {count} rows, and {limits.rows} are allowed")
    if len(tensors) == 1 and (view.preparation is None or _is_plain(view.preparation)):
        values = next(iter(tensors.values()))
        if values.dtype == object:
            raise RequestError(422, "rows must be numbers")
        X = values.astype(np.float64).reshape(count, -1)
        if not np.isfinite(X).all():
            raise RequestError(422, "rows hold a value that is not a finite number")
        return view.prepared(X)
    for name, values in tensors.items():
        if values.size != count:
            raise RequestError(422, f"tensor {name[:40]!r} does not have {count} values, one a row")
    columns = {name: values.reshape(-1).tolist() for name, values in tensors.items()}
    table = table_of(
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], limits
    )
    assert isinstance(table, Table)
    return view.prepared(table)


def _wanted(request: dict[str, Any], view: View) -> dict[str, bool]:
    parameters = request.get("parameters")
    binary = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    outputs = request.get("outputs")
    known = [output["name"] for output in model_metadata("", view)["outputs"]]
    if outputs is None or outputs == []:
        return {name: binary for name in known if name != "probabilities"}
    if not isinstance(outputs, list):
        raise RequestError(400, "'outputs' must be a list")
    wanted = {}
    for output in outputs:
        if not isinstance(output, dict) or output.get("name") not in known:
            raise RequestError(422, f"an output is unknown; the model has: {', '.join(known)}")
        own = output.get("parameters")
        flag = own.get("binary_data") if isinstance(own, dict) else None
        wanted[output["name"]] = flag if isinstance(flag, bool) else binary
    return wanted


# Answers -------------------------------------------------------------------------------------------------


def render_infer(
    name: str, request: InferRequest, answer: Answer, probabilities: FloatArray | None
) -> tuple[bytes, int | None]:
    """Return the body of an answer, and how many bytes of it are JSON where binary tensors follow."""
    found = {"predict": answer.labels, "decision": answer.decision, "probabilities": probabilities}
    tensors, tail = [], b""
    for output, as_binary in request.outputs.items():
        values = found[output]
        assert values is not None
        tensor: dict[str, Any] = {
            "name": output,
            "datatype": _datatype(values.dtype),
            "shape": list(values.shape),
        }
        if as_binary:
            data = _to_bytes(values)
            tensor["parameters"] = {"binary_data_size": len(data)}
            tail += data
        else:
            flat = values.reshape(-1).tolist()
            tensor["data"] = [str(v) for v in flat] if tensor["datatype"] == "BYTES" else flat
        tensors.append(tensor)
    head: dict[str, Any] = {"model_name": name, "outputs": tensors}
    if request.id is not None:
        head["id"] = request.id
    text = json.dumps(head, allow_nan=False).encode("ascii")
    return text + tail, len(text) if tail else None


def _to_bytes(values: np.ndarray[Any, Any]) -> bytes:
    if _datatype(values.dtype) != "BYTES":
        return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    texts = [str(value).encode("utf-8") for value in values.reshape(-1).tolist()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)
