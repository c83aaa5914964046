"""Throw damaged and forged files at the model loader and the readers of tables, and count how they end.

Each input must be refused in one line by the declared error, or be read. Anything else stops the script, and
the input is kept. Run as

    python benchmarks/fuzz_files.py [inputs for each of the two, 100000 by default] [seed]
"""

from __future__ import annotations

import copy
import gzip
import io
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np

import squaresvm
from squaresvm.files import History as Requests
from squaresvm.files import ModelFileError, Record
from squaresvm.readers import TableError, read
from squaresvm.readers.preparation import Category, Number, Preparation
from support import forged

ODD = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    2**40,
    2**63,
    2**70,
    0.0,
    0.5,
    -1.5,
    1e308,
    5e-324,
    "",
    "x",
    "rbf",
    [],
    {},
]
ODD += [
    [1],
    {"a": 1},
    "../x",
    "\x00",
    "9" * 30,
    [[["deep"]]],
    "linear",
    "poly",
    "precomputed",
    "squared_hinge",
]
TOKENS = [
    b",",
    b";",
    b"\t",
    b"\n",
    b"\r\n",
    b'"',
    b":",
    b" ",
    b"#",
    b"1",
    b"-2.5",
    b"1e400",
    b"nan",
    b"inf",
    b"a",
]
TOKENS += [
    b"label",
    b"x:1",
    b"3:4",
    b"0:1",
    b"99999999999:1",
    b"\x00",
    b"\xff",
    b"\xc3\xa9",
    b"NA",
    b"?",
    b"\xef\xbb\xbf",
]


def models(folder: Path) -> list[bytes]:
    """Return files of every kind."""
    raw = [
        forged.model_bytes(folder, m=6),
        forged.model_bytes(folder, m=6, factor=True, ids=["row 1", "b", "c", "d", "e", 17]),
        forged.model_bytes(folder, m=6, sparse=True),
    ]
    kinds = [squaresvm.ProximalSVC(), squaresvm.LSSVC(kernel="linear"), squaresvm.RLSSVC(kernel="poly")]
    kinds += [squaresvm.LagrangianSVC(augment=True), squaresvm.RelaxedLSSVC(class_weight="balanced")]
    raw += [forged.model_bytes(folder, m=6, estimator=kind) for kind in kinds]
    path = folder / "original"
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    squaresvm.save(squaresvm.LSSVR(kernel="precomputed").fit(X @ X.T, y), path)
    raw.append(path.read_bytes())
    squaresvm.save(squaresvm.Window(squaresvm.LSSVR(), 2.5).fit(X, y, times=y), path)
    raw.append(path.read_bytes())
    model = squaresvm.LSSVC().fit(np.eye(3)[[0, 1, 2, 0]], [0, 1, 1, 0])
    features = (Category("town", ("Bonn", "Ulm")), Number("age", 1.0, 2.0, 1.0))
    Record(Requests().brought("train", 4), Preparation(features, "label", "name", None, "mean")).attach(model)
    squaresvm.save(model, path)
    raw.append(path.read_bytes())
    path.unlink()
    return [*raw, *forged.other_kinds(folder).values()]


def damaged(rng: random.Random, originals: list[bytes]) -> bytes:
    """Return bytes flipped, cut, inserted or taken from two files."""
    raw = bytearray(rng.choice(originals))
    for _ in range(rng.randint(1, 3)):
        kind, place = rng.randrange(5), rng.randrange(len(raw) + 1)
        if kind == 0 and raw:
            raw[min(place, len(raw) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del raw[place:]
        elif kind == 2:
            other = rng.choice(originals)
            raw[place:] = other[rng.randrange(len(other)) :]
        elif kind == 3:
            raw[place:place] = rng.randbytes(rng.randint(1, 9))
        elif raw:
            del raw[place : place + rng.randint(1, 70)]
    return bytes(raw)


def reheaded(rng: random.Random, originals: list[bytes]) -> bytes:
    """Return a file with something odd in its header, and the right checksum."""
    header, body = forged.opened(rng.choice(originals))
    header = copy.deepcopy(header)
    for _ in range(rng.randint(1, 2)):
        place = header
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = rng.choice(keys)
            inner = place[key]
            if isinstance(inner, dict | list) and inner and rng.random() < 0.75:
                place = inner
                continue
            if rng.random() < 0.15:
                del place[key]
            else:
                place[key] = copy.deepcopy(rng.choice(ODD))
            break
    return forged.sealed(header, body)


def refilled(rng: random.Random, originals: list[bytes]) -> bytes:
    """Return a file with something odd in its arrays, and the right checksum."""
    header, body = forged.opened(rng.choice(originals))
    arrays = forged.arrays_of(header, body)
    name = rng.choice(list(arrays))
    array, kind = arrays[name], rng.randrange(6)
    if kind == 0:
        arrays[name] = array[: rng.randint(0, array.shape[0])]
    elif kind == 1:
        arrays[name] = rng.choice(list(arrays.values()))
    elif kind == 2:
        arrays[name] = array.reshape(-1)
    elif kind == 3:
        del arrays[name]
    elif array.size:
        raw = bytearray(array.tobytes())
        for _ in range(rng.randint(1, 4)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        arrays[name] = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
    return forged.with_arrays(header, arrays)


def use(model: object) -> None:
    """Ask a model for what depends on everything that the file said."""
    inner = getattr(model, "estimator_", model)
    if isinstance(inner, squaresvm.Nystrom):
        if inner._map.kernel.degree <= 100:
            inner._map(inner.landmarks_[:1])
        return
    for each in getattr(inner, "estimators_", [inner]):
        kernel = each._state.settings.kernel
        if kernel is not None and kernel.degree <= 100:
            rows = getattr(each._state, "rows", None)  # A model of a stream has none.
            each._state.decision(np.zeros((1, each.n_features_in_)) if rows is None else rows.take([0]))
    if hasattr(inner, "cv_results_"):
        assert inner.best_index_ >= 0


def refusal(error: ValueError) -> str:
    if len(str(error).splitlines()) != 1:
        raise RuntimeError("refused in more than one line") from error
    return "refused"


def check_loader(path: Path, raw: bytes) -> str:
    path.write_bytes(raw)
    try:
        model = squaresvm.load(path)
    except ModelFileError as error:
        return refusal(error)
    with np.errstate(all="ignore"):
        use(model)
    return "read"


def tables() -> list[bytes]:
    csv = b'age,town,label\n20,Ulm,a\n40,Bonn,b\n30,"U,\nlm",a\n'
    svm = b"+1 1:0.5 3:2\n-1 2:1 # c\n1\n"
    found = [csv, csv.replace(b",", b";"), svm, gzip.compress(csv), gzip.compress(svm)]
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        return found
    buffer = io.BytesIO()
    columns = {"a": [1, 2, None], "t": ["x", None, "y"], "label": ["p", "q", "p"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return [*found, buffer.getvalue()]


def odd_table(rng: random.Random, originals: list[bytes]) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return b"".join(rng.choice(TOKENS) for _ in range(rng.randint(0, 40)))
    if kind == 1:
        text = b"".join(rng.choice(TOKENS) for _ in range(rng.randint(0, 20)))
        return rng.choice(originals)[: rng.randrange(60)] + text
    if kind == 2:
        return gzip.compress(damaged(rng, originals), 1)
    return damaged(rng, originals)


def check_reader(path: Path, raw: bytes) -> str:
    path.write_bytes(raw)
    try:
        table = read(path)
        if hasattr(table, "columns"):
            label = list(table.columns)[-1]
            preparation = Preparation.of(table, label=label, missing="mean")
            assert np.isfinite(preparation.rows(table)).all()
    except TableError as error:
        return refusal(error)
    return "read"


def run(name: str, count: int, make, check, path: Path) -> None:
    found, start = Counter(), time.perf_counter()
    for number in range(count):
        raw = make()
        try:
            found[check(path, raw)] += 1
        except BaseException:
            kept = Path(tempfile.gettempdir()) / f"fuzz-{name}-{number}"
            kept.write_bytes(raw)
            print(f"{name}: input {number} is kept in {kept}")
            raise
    seconds = time.perf_counter() - start
    print(f"{name}: {count} inputs, {dict(found)}, no other end, {seconds:.0f} s")


def main(count: int = 100_000, seed: int = 0) -> None:
    warnings.simplefilter("error")
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        originals, path = models(folder), folder / "input"
        makers = (damaged, reheaded, refilled)
        run("loader", count, lambda: rng.choice(makers)(rng, originals), check_loader, path)
        plain = tables()
        run("readers", count, lambda: odd_table(rng, plain), check_reader, path)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
