"""Whether a model holds exactly the rows that it is shown, whatever their order."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.streaming import Block, Source
from squaresvm.typing import FloatArray, Matrix
from squaresvm.verifier.reading import rows_and_labels

__all__ = ["compare_rows"]

_ROWS = 4096


def compare_rows(model: Any, source: Source) -> list[str]:
    """Return, as faults, which rows a model holds that the source has not, and the other way round."""
    X, y, weights, ids = rows_and_labels(model)
    if X.shape[1] == 0:
        raise ValueError("a model with a precomputed kernel holds no rows to compare with the data")
    held: dict[bytes, list[Any]] = {}
    for mark, name in zip(_marks(X, y, weights), ids.tolist(), strict=True):
        held.setdefault(mark, []).append(name)
    given: Counter[bytes] = Counter()
    missing: list[int] = []
    for block, marks in source.map(_marked):
        for place, mark in enumerate(marks):
            given[mark] += 1
            if given[mark] > len(held.get(mark, ())):
                missing.append(block + place)
    surplus = [name for mark, names in held.items() for name in names[given[mark] :]]
    faults = []
    if surplus:
        faults.append(f"{_counted(len(surplus))} held that the data has not: ids {_some(surplus)}")
    if missing:
        faults.append(f"{_counted(len(missing))} in the data that the model does not hold: {_some(missing)}")
    return faults


def _counted(count: int) -> str:
    return "1 row is" if count == 1 else f"{count} rows are"


def _some(names: list[Any]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")


def _marked(block: Block) -> tuple[int, list[bytes]]:
    return block.first, list(_marks(block.X, block.y, block.weights))


def _marks(X: Matrix, y: np.ndarray[Any, Any], weights: FloatArray | None) -> Iterator[bytes]:
    """Return a digest of each row with its label and weight: equal numbers, equal digests."""
    own = np.ones(y.shape[0]) if weights is None else weights
    for start in range(0, y.shape[0], _ROWS):
        part = slice(start, start + _ROWS)
        for entries, label, weight in zip(_entries(X[part]), y[part].tolist(), own[part], strict=True):
            text = repr(float(label)) if isinstance(label, int | float) else repr(label)
            yield hashlib.blake2b(
                entries + text.encode() + float(weight).hex().encode(), digest_size=16
            ).digest()


def _entries(X: Matrix) -> Iterable[bytes]:
    """Return the entries of each row that are not zero, with their columns."""
    rows = sp.csr_matrix(X, dtype=np.float64)
    rows.eliminate_zeros()
    rows.sort_indices()
    for i in range(rows.shape[0]):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        yield rows.indices[part].astype(np.int64).tobytes() + rows.data[part].tobytes()
