"""Model files that say what they should not, with a checksum that is right all the same."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np

import squaresvm
from histories import data

PREFIX = struct.Struct("<16sIQ")
START = PREFIX.size + 32


def model_bytes(folder, *, estimator=None, sparse=False, factor=False, m=12, **fit):
    """Return the bytes of a small model file."""
    import scipy.sparse as sp

    X, y = data("binary", m, seed=0)
    model = (estimator or squaresvm.LSSVC()).fit(sp.csr_matrix(X) if sparse else X, y, **fit)
    model.predict_proba(sp.csr_matrix(X) if sparse else X)
    path = folder / "original"
    squaresvm.save(model, path, factor=factor)
    raw = path.read_bytes()
    path.unlink()
    return raw


def opened(raw):
    """Return header and the bytes of the arrays."""
    _, _, length = PREFIX.unpack(raw[: PREFIX.size])
    return json.loads(raw[START : START + length]), raw[START + length :]


def sealed(header, body, *, version=1):
    """Return a file of a header, given as text or JSON, and the bytes of arrays, with the right checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-(START + len(text)) % 64)
    prefix = PREFIX.pack(b"squaresvm model\n", version, len(text))
    return prefix + hashlib.sha256(prefix + text + body).digest() + text + body


def arrays_of(header, body):
    """Return the arrays of a body by name."""
    found, start = {}, 0
    for name, entry in header["arrays"].items():
        dtype = np.dtype(entry["dtype"])
        size = int(np.prod(entry["shape"])) * dtype.itemsize
        array = np.frombuffer(body[start : start + size], dtype)
        found[name] = array.reshape(entry["shape"], order=entry["order"]).copy()
        start += size + -size % 64
    return found


def with_arrays(header, arrays):
    """Return a sealed file with other arrays."""
    table, body = {}, b""
    for name, array in arrays.items():
        table[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "order": "C"}
        raw = array.tobytes()
        body += raw + bytes(-len(raw) % 64)
    return sealed({**header, "arrays": table}, body)
