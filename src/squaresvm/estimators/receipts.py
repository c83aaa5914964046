"""What estimators write into their logs, and what sealing asks of them."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from squaresvm._version import __version__
from squaresvm.evidence.absence import Tree
from squaresvm.evidence.hashes import Lanes, id_hash, joined_digest, lanes_of, model_digest, row_hashes
from squaresvm.evidence.log import Facts, Log, now
from squaresvm.evidence.receipt import Receipt
from squaresvm.models.model import Model, Update
from squaresvm.rows import Rows
from squaresvm.typing import IntArray, Matrix

if TYPE_CHECKING:
    from squaresvm.estimators.base import SquareSVM

__all__ = ["Evidence", "begun", "hashes_of", "log_of", "moved_since_fit", "written"]

_VERSIONS = {
    "squaresvm": __version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
}


#: Making a receipt of two dozen fields anew takes longer than all else that is written of a request.
_BLANK = Receipt((), 0, 0.0, False, False, 0.0)


# What requests write -------------------------------------------------------------------------------------


def begun(model: Any, seconds: float, log: Log | None = None) -> Log:
    """Return the log of a model that was fitted, or fitted anew on the rows that it holds."""
    return _started("fit" if log is None else "refit", model.n_rows, model.certificate.residual, seconds, log)


def log_of(log: Log | None, count: int) -> Log:
    """Return the log of a model; one that begins now where it came from elsewhere without receipts."""
    return _started("save", count, math.nan, 0.0, None) if log is None else log


def _started(kind: str, count: int, residual: float, seconds: float, log: Log | None) -> Log:
    log = Log() if log is None else log
    receipt = Receipt(
        (),
        count,
        residual,
        False,
        False,
        seconds,
        rows=count,
        checked=0 if math.isnan(residual) else count,
        number=log.next_number,
        kind=kind,
        time=now(),
        rows_before=count if kind == "refit" else 0,
    )
    return log.written(receipt)


def written(
    log: Log,
    kind: str,
    update: Update | Receipt,
    counts: tuple[int, int],
    hashes: tuple[bytes, ...],
    seconds: float,
    names: tuple[Hashable, ...] = (),
    classes_gone: tuple[Hashable, ...] = (),
) -> tuple[Log, Receipt]:
    """Return the log with a request, and its receipt.

    `counts` are the rows held before and after it, `hashes` those of the rows that came or left.
    """
    key = log.key
    receipt = _BLANK.but(
        ids=names,
        remaining=counts[1],
        residual=update.residual,
        sampled=update.sampled,
        refactored=update.refactored,
        seconds=seconds,
        classes_gone=classes_gone,
        rows=abs(counts[1] - counts[0]),
        checked=update.checked,
        number=log.next_number,
        kind=kind,
        time=now(),
        rows_before=counts[0],
        id_hashes=tuple([id_hash(key, name) for name in names]),
    )
    return (log.written(receipt, (), hashes) if kind == "forget" else log.written(receipt, hashes)), receipt


def hashes_of(
    key: bytes,
    rows: Rows,
    positions: IntArray | slice = slice(None),
    X: Matrix | None = None,
    record: Any = None,
) -> tuple[bytes, ...]:
    """Return the keyed hashes of some of the rows, whose features may be held elsewhere.

    `record` may have a preparation, by whose names columns keep their place in the hashes.
    """
    preparation, tags = getattr(record, "preparation", None), None
    if preparation is not None and preparation.n_columns == rows.n_columns:
        tags = preparation.column_tags
    given = rows.weights if rows.given is None else rows.given
    if X is None:
        X = rows.X[positions] if isinstance(positions, slice) else rows.take(positions)
    return tuple(row_hashes(key, X, rows.y[positions], given[positions], rows.ids.values[positions], tags))


# What sealing asks -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Evidence:
    """A fitted model as receipts, proofs and digests see it.

    Parameters
    ----------
    count : int
        Rows held.
    rows : Rows or None
        With their features; None where it keeps none.
    states : iterable of State
        The models that it decides by: one, or one for each pair of classes.
    record : Record or None
        What goes with its file: columns keep their place in the hashes by the names of its preparation.
    kept : tuple of str
        What it still has of rows that left, in words.
    moved : callable
        Returns what was taken from all rows at fit, and how far it would move now.
    """

    count: int
    rows: Rows | None
    states: Iterable[Model]
    record: Any
    kept: tuple[str, ...]
    moved: Callable[[], tuple[dict[str, Any], dict[str, Any]]]

    def facts(self, key: bytes) -> Facts:
        """Return what sealing asks."""
        rows, (resolved, moved) = self.rows, self.moved()
        hashes = None if rows is None else hashes_of(key, rows, record=self.record)
        tip = {
            "resolved": resolved,
            "moved": moved,
            "kept": self.kept,
            "commitment": "" if rows is None or hashes is None else _tree(key, rows, hashes).root,
            "model": joined_digest(map(_numbers_digest, self.states)),
        }
        return Facts(_lanes(hashes), tip, _VERSIONS)

    def tree(self, key: bytes) -> Tree:
        """Return the tree over the rows held."""
        assert self.rows is not None
        return _tree(key, self.rows, hashes_of(key, self.rows, record=self.record))


def _lanes(hashes: tuple[bytes, ...] | None) -> Callable[[], Lanes | None]:
    return lambda: None if hashes is None else lanes_of(hashes)


def _tree(key: bytes, rows: Rows, hashes: tuple[bytes, ...]) -> Tree:
    marks = (bytes.fromhex(id_hash(key, name)) for name in rows.ids.values.tolist())
    return Tree(zip(marks, hashes, strict=True))


def _numbers_digest(state: Model) -> str:
    """Return the digest of the numbers of a fit and of its solution."""
    settings, solution, kernel = state.settings, state.solution, state.settings.kernel
    numbers = {
        "is_hinge": settings.loss.value == "squared hinge",
        "A": float(settings.bias.penalty),
        "C": float(settings.C),
        "kernel": "precomputed" if kernel is None else kernel.name,
        "gamma": 1.0 if kernel is None else float(kernel.gamma),
        "degree": 1 if kernel is None else int(kernel.degree),
        "coef0": 0.0 if kernel is None else float(kernel.coef0),
        "proximal": bool(settings.proximal),
    }
    beta = None if solution.primal is not None else solution.beta
    return model_digest(numbers, settings.class_weight or {}, [beta, solution.primal, solution.bias])


def moved_since_fit(model: SquareSVM) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what was taken from all rows at fit, and by what share it would move if it were taken now.

    In whole per cent: finer numbers, before and after a request, would say what a row was that has left.
    """
    resolved: dict[str, Any] = {}
    moved: dict[str, Any] = {}
    state = model._state
    rows: Rows | None = getattr(state, "rows", None)
    kernel = state.settings.kernel
    if rows is None or not rows.weights.any():
        return {}, {}
    weights_now = model._class_weights(rows, True)
    if _is(model, "class_weight", "balanced") and weights_now is not None:
        then = state.settings.class_weight or {}
        shares = [weights_now[label] / then[label] - 1.0 for label in weights_now if label in then]
        resolved["class_weight"], moved["class_weight"] = len(then), _share(shares)
    searched = hasattr(model, "gammas")  # Then gamma was chosen by scores, which nobody takes again.
    if (
        _is(model, "gamma", "scale")
        and not searched
        and kernel is not None
        and kernel.name not in ("linear", "callable")
    ):
        try:
            share = model._scale(rows, weights_now) / kernel.gamma - 1.0
        except ValueError:  # The variance of what is held now is beyond all numbers.
            share = np.inf
        resolved["gamma"], moved["gamma"] = kernel.gamma, _share([share])
    preparation = getattr(model._record, "preparation", None)
    if preparation is not None and preparation.n_columns == rows.n_columns:
        resolved["columns"], moved["columns"] = preparation.moved(rows.X)
    if model._front is not None:
        count, columns = model._front.moved(rows.X)
        if count:
            resolved["columns"], moved["columns"] = count, columns
    return resolved, moved


def _is(model: Any, parameter: str, value: str) -> bool:
    given = getattr(model, parameter, None)
    return isinstance(given, str) and given == value


def _share(shares: list[float]) -> float | None:
    """Return the largest share in whole per cent; None where there is no number for it."""
    largest = max(shares, key=abs, default=0.0)
    return round(float(largest), 2) if np.isfinite(largest) else None
