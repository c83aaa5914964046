"""What estimators write into their logs, and what sealing asks of them."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from squaresvm._version import __version__
from squaresvm.evidence.absence import root_of
from squaresvm.evidence.hashes import Lanes, id_hash, lanes_of, row_hashes
from squaresvm.evidence.log import Facts, Log, now
from squaresvm.evidence.receipt import Receipt
from squaresvm.models.model import Model, Update
from squaresvm.rows import Rows
from squaresvm.typing import IntArray

if TYPE_CHECKING:
    from squaresvm.estimators.base import SquareSVM

__all__ = ["begun", "facts_of", "model_digest", "moved", "rows_lanes", "with_request"]

_VERSIONS = {
    "squaresvm": __version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
}


def rows_lanes(key: bytes, rows: Rows, positions: IntArray | None = None) -> Lanes:
    """Return the sum of the hashes of rows: of all, or of those at some positions."""
    given = rows.weights if rows.given is None else rows.given
    if positions is None:
        return lanes_of(row_hashes(key, rows.X, rows.y, given, rows.ids.values))
    names = rows.ids.values[positions]
    return lanes_of(row_hashes(key, rows.take(positions), rows.y[positions], given[positions], names))


def begun(model: Model, seconds: float, log: Log | None = None) -> Log:
    """Return the log of a model that was fitted, or fitted anew on the rows that it holds."""
    certificate, count = model.certificate, model.n_rows
    receipt = Receipt(
        (),
        count,
        certificate.residual,
        False,
        False,
        seconds,
        rows=count,
        checked=count,
        kind="fit" if log is None else "refit",
        time=now(),
        rows_before=0 if log is None else count,
    )
    return (log or Log()).written(receipt)


def with_request(
    log: Log, before: Model, update: Update, seconds: float, names: tuple[Hashable, ...] | None = None
) -> tuple[Log, Receipt]:
    """Return the log with a request that leads to an update, and its receipt.

    `names` are the ids of rows that leave; None where rows came, or left without ids.
    """
    held, now_held = getattr(before, "rows", None), getattr(update.model, "rows", None)
    came = update.model.n_rows > before.n_rows
    change: Lanes | None = None
    if isinstance(held, Rows) and isinstance(now_held, Rows):
        if names is not None:
            change = -rows_lanes(log.key, held, held.ids.positions(names))
        else:
            change = rows_lanes(log.key, now_held, np.arange(held.count, now_held.count))
    receipt = Receipt(
        ids=names or (),
        remaining=update.model.n_rows,
        residual=update.residual,
        sampled=update.sampled,
        refactored=update.refactored,
        seconds=seconds,
        classes_gone=_lost(before, update.model),
        rows=update.rows,
        checked=update.checked,
        kind="learn" if came else "forget",
        time=now(),
        rows_before=before.n_rows,
        id_hashes=tuple(id_hash(log.key, name) for name in names or ()),
    )
    after = log.written(receipt, change)
    return after, receipt


def _lost(before: Model, after: Model) -> tuple[Hashable, ...]:
    if before.classes is None or after.classes is None or after.classes is before.classes:
        return ()
    return tuple(np.setdiff1d(before.classes, after.classes).tolist())
