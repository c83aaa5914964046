"""Whether the receipts of a model are a whole chain, and the last one is of this model and these rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from squaresvm.evidence.chain import check_chain, check_known
from squaresvm.evidence.hashes import (
    AbsenceProof,
    Tree,
    check_absence,
    digest_of,
    id_hash,
    joined_digest,
    lanes_of,
    model_digest,
    row_hashes,
)
from squaresvm.evidence.log import Log
from squaresvm.evidence.receipt import Receipt, read_receipts
from squaresvm.streaming import Block, Source
from squaresvm.verifier.reading import Fitted, inner_model, rows_of

__all__ = ["absence_of", "kept_receipts", "other_rows", "receipt_faults"]


def kept_receipts(given: Any) -> list[Receipt]:
    """Return receipts that somebody has kept: as they are, as JSON, or from a file with one a line."""
    if isinstance(given, str | os.PathLike):
        return read_receipts(given)
    many = [given] if isinstance(given, Receipt | dict) else given
    return [each if isinstance(each, Receipt) else Receipt.from_json(each) for each in many]


def receipt_faults(
    model: Any, fitted: Sequence[Fitted], known: Sequence[Receipt]
) -> tuple[list[str], list[str]]:
    """Return what is false about the receipts of a model, and what is worth knowing."""
    log = _log_of(model)
    if log is None or not log.count:
        faults = ["the model has no receipts, and some were given"] if known else []
        return faults, ["the model has no receipts"]
    receipts = log.receipts()
    last = receipts[-1]
    faults = [
        *check_chain(receipts),
        *check_known(receipts, known),
        *_against_model(log.key, last, model, fitted),
        *_against_figures(log, last),
    ]
    if fitted[0].rows is not None:
        faults += _against_rows(log, last, model)
    notes = [
        f"receipt {receipt.number}, which was given, is not sealed: only what it states of its request is "
        "compared, as it does not identify the rows or the model"
        for receipt in known
        if not receipt.hash
    ]
    return faults, notes


def _log_of(model: Any) -> Log | None:
    inner = inner_model(model)
    if getattr(inner, "_log", None) is not None:
        _ = inner.receipts_  # Sealed, as far as they are not.
    log: Log | None = getattr(inner, "_log", None)
    return log


def _against_model(key: bytes, last: Receipt, model: Any, fitted: Sequence[Fitted]) -> Iterable[str]:
    names = ("is_hinge", "A", "C", "kernel", "gamma", "degree", "coef0", "proximal")
    named = rows_of(model)[3].tolist() if fitted[0].kernel == "precomputed" else []
    ids = [id_hash(key, name) for name in named]
    found = [
        model_digest({n: getattr(one, n) for n in names}, one.class_weight, [one.beta, one.w, one.bias], ids)
        for one in fitted
    ]
    if joined_digest(found) != last.model:
        yield f"receipt {last.number} is of another model: a number of the fit or of its solution was changed"


def _against_figures(log: Log, last: Receipt) -> Iterable[str]:
    told = last.resolved.get("figures")
    if told is not None and (log.columns is None or log.columns.hashed(log.key) != told):
        yield f"receipt {last.number} is of other means and deviations of the columns at fit"


def _against_rows(log: Log, last: Receipt, model: Any) -> Iterable[str]:
    ids = rows_of(model)[3].tolist()
    hashes = _row_hashes(log.key, model)
    if last.remaining != len(ids):
        yield f"receipt {last.number} is of {last.remaining} rows, and the model holds {len(ids)}"
    if digest_of(lanes_of(hashes)) != last.digest:
        yield f"receipt {last.number} is of other rows: one was kept, added or changed without a receipt"
    if log.lanes is not None and digest_of(log.lanes) != last.digest:
        yield f"the sum of hashes that is kept beside receipt {last.number} is not that of its digest"
    if _tree(log.key, ids, hashes).root != last.commitment:
        yield f"the commitment of receipt {last.number} is not to the rows held"
    for name in ids if last.kind == "forget" else ():
        if id_hash(log.key, name) in last.id_hashes:
            yield f"receipt {last.number} says that a row has left, and a row with its id {name!r} is held"


def _row_hashes(key: bytes, model: Any) -> list[bytes]:
    X, y, weights, ids = rows_of(model)
    preparation, tags = getattr(inner_model(model)._record, "preparation", None), None
    if preparation is not None and preparation.n_columns == X.shape[1]:
        tags = preparation.column_tags
    return list(row_hashes(key, X, y, weights, ids, tags))


def _tree(key: bytes, ids: list[Hashable], hashes: list[bytes]) -> Tree:
    return Tree(zip((bytes.fromhex(id_hash(key, name)) for name in ids), hashes, strict=True))


def absence_of(model: Any, name: Hashable) -> tuple[AbsenceProof | None, list[str]]:
    """Return a proof that an id is not held, checked against the last receipt, or what is false about it."""
    log = _log_of(model)
    if log is None:
        raise ValueError("absence is proved under the commitment of a receipt, and the model has none")
    ids = rows_of(model)[3].tolist()
    try:
        proof = _tree(log.key, ids, _row_hashes(log.key, model)).prove_absence(id_hash(log.key, name))
    except ValueError:
        return None, [f"a row with id {name!r} is held"]
    return proof, check_absence(proof, log.receipts()[-1].commitment)


# Whether a model holds exactly the rows that it is shown, whatever their order ---------------------------


def other_rows(model: Any, source: Source) -> list[str]:
    """Return, as faults, which rows a model holds that the source has not, and the other way round."""
    X, y, weights, ids = rows_of(model)
    if y.ndim == 2 and hasattr(inner_model(model), "classes_"):
        y = np.where(y > 0.0, 1.0, 0.0)  # An indicator of labels, as the data has it.
    if X.shape[1] == 0:
        raise ValueError("a model with a precomputed kernel holds no rows to compare with the data")
    held: dict[bytes, list[Any]] = {}
    for mark, name in zip(row_hashes(b"", X, y, weights), ids.tolist(), strict=True):
        held.setdefault(mark, []).append(name)
    given: Counter[bytes] = Counter()
    missing: list[int] = []
    for first, marks in source.map(_marked):
        for place, mark in enumerate(marks, start=first):
            given[mark] += 1
            if given[mark] > len(held.get(mark, ())):
                missing.append(place)
    surplus = [name for mark, names in held.items() for name in names[given[mark] :]]
    faults = []
    if surplus:
        faults.append(f"{_counted(surplus)} held that the data has not: ids {_some(surplus)}")
    if missing:
        faults.append(f"{_counted(missing)} in the data that the model does not hold: {_some(missing)}")
    return faults


def _marked(block: Block) -> tuple[int, list[bytes]]:
    return block.first, list(row_hashes(b"", block.X, block.y, block.weights))


def _counted(rows: list[Any]) -> str:
    return "1 row is" if len(rows) == 1 else f"{len(rows)} rows are"


def _some(names: list[Any]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
