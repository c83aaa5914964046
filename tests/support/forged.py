"""Model files that say what they should not, with a checksum that is right all the same."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np
import pytest
import scipy.sparse as sp

import squaresvm
from squaresvm.files import ModelFileError
from support.histories import data

PREFIX = struct.Struct("<16sIQ")
START = PREFIX.size + 32


def model_bytes(folder, *, estimator=None, sparse=False, factor=False, m=12, **fit):
    """Return the bytes of a small model file."""
    X, y = data("binary", m, seed=0)
    model = (estimator or squaresvm.LSSVC()).fit(sp.csr_matrix(X) if sparse else X, y, **fit)
    model.predict_proba(sp.csr_matrix(X) if sparse else X)
    path = folder / "original"
    squaresvm.save(model, path, factor=factor)
    raw = path.read_bytes()
    path.unlink()
    return raw


def other_kinds(folder):
    """Return the bytes of small files of what is more, or less, than a model with its rows, by name."""
    from sklearn.base import clone

    from squaresvm.streaming import ArraySource

    def saved(model, **options):
        squaresvm.save(model, folder / "original", **options)
        raw = (folder / "original").read_bytes()
        (folder / "original").unlink()
        return raw

    X, y = data("multi", 15, seed=0)
    values = np.arange(15.0)
    linear = squaresvm.LSSVC(kernel="linear", C=2.0, class_weight={"low": 2.0})
    stream = clone(linear).fit(ArraySource(X, y)).learn(X[:2], y[:2])
    stream.forget_rows(X[:3], y[:3])
    pairs = squaresvm.OneVsOne(squaresvm.LSSVC(robust=1)).fit(X, y)
    pairs.predict_proba(X)
    searched = squaresvm.LSSVCCV(Cs=[0.5, 2.0], gammas=[0.1])
    twice = np.vstack([X, X])
    return {
        "stream": saved(clone(linear).fit(ArraySource(X, y))),
        "stream changed": saved(stream),
        "stream of values": saved(squaresvm.LSSVR(kernel="linear").fit(ArraySource(X, values))),
        "stream hinge": saved(squaresvm.RLSSVC(kernel="linear").fit(ArraySource(X, y))),
        "search": saved(clone(searched).fit(X, y)),
        "search of values": saved(squaresvm.LSSVRCV(kernel="linear", refine=1).fit(X, values)),
        "pairs": saved(pairs, factor=True),
        "pairs searched": saved(squaresvm.OneVsOne(searched).fit(X, y, ids=[f"row {i}" for i in range(15)])),
        "features": saved(squaresvm.Nystrom(20, random_state=0).fit(twice)),
        "features sparse": saved(squaresvm.Nystrom(5, kernel="poly", random_state=0).fit(sp.csr_matrix(X))),
    }


def opened(raw):
    """Return header and the bytes of the arrays."""
    _, _, length = PREFIX.unpack(raw[: PREFIX.size])
    return json.loads(raw[START : START + length]), raw[START + length :]


def places(header):
    """Return every place of a header, as (dict or list, key)."""
    found = []
    for key in list(header) if isinstance(header, dict) else range(len(header)):
        found.append((header, key))
        if isinstance(header[key], dict | list):
            found += places(header[key])
    return found


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


def refusal(folder, raw):
    """Return why a file is refused, without its name."""
    path = folder / "a.model"
    path.write_bytes(raw)
    with pytest.raises(ModelFileError) as caught:
        squaresvm.load(path)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")
