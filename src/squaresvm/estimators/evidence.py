"""A fitted model as receipts, proofs and digests see it: what sealing asks of it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from squaresvm._version import __version__
from squaresvm.evidence.hashes import Lanes, Tree, id_hash, joined_digest, lanes_of, model_digest, row_hashes
from squaresvm.evidence.log import Facts, Log
from squaresvm.models.model import Model
from squaresvm.rows import Rows
from squaresvm.typing import IntArray, Matrix

if TYPE_CHECKING:
    from squaresvm.estimators.base import SquareSVM

__all__ = ["Evidence", "classes_lost", "hashes_between", "hashes_of", "moved_since_fit"]

_VERSIONS = {
    "squaresvm": __version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
}


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


def hashes_between(
    key: bytes, before: Model, after: Model, gone: IntArray | None, record: Any
) -> tuple[bytes, ...]:
    """Return the hashes of rows that leave, or else of those that came; none where rows are not held."""
    if not before.holds_rows:
        return ()
    held = before.holding("forget").rows
    if gone is not None:
        return hashes_of(key, held, gone, record=record)
    rows = after.holding("learn").rows
    return hashes_of(key, rows, np.arange(held.count, rows.count), record=record)


def classes_lost(before: Model, after: Model) -> tuple[Hashable, ...]:
    """Return the classes whose last row has left."""
    if before.classes is None or after.classes is None or after.classes is before.classes:
        return ()
    return tuple(np.setdiff1d(before.classes, after.classes).tolist())


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
        Returns what numbers were taken from all rows at fit, and how far they would move now.
    front : Front or None
        The steps before it in a pipeline.
    names : sequence of str, optional
        Of its columns.
    """

    count: int
    rows: Rows | None
    states: Iterable[Model]
    record: Any
    kept: tuple[str, ...]
    moved: Callable[[], tuple[dict[str, Any], dict[str, Any]]]
    front: Any = None
    names: Sequence[str] | None = None

    def facts(self, log: Log) -> Facts:
        """Return what sealing asks, for a log in which the columns are noted."""
        key, rows, (resolved, moved) = log.key, self.rows, self.since_fit(log)
        hashes = None if rows is None else hashes_of(key, rows, record=self.record)
        tip = {
            "resolved": resolved,
            "moved": moved,
            "kept": self.kept,
            "commitment": "" if rows is None or hashes is None else _tree(key, rows, hashes).root,
            "model": joined_digest(_numbers_digest(state, key) for state in self.states),
        }
        return Facts(_lanes(hashes), tip, _VERSIONS)

    def since_fit(self, log: Log) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what was taken from all rows at fit, and by what share it would move if taken now."""
        resolved, moved = self.moved()
        if self.rows is None or not self.rows.weights.any():
            return resolved, moved
        count, columns = self._scaled_columns(self.rows)
        if count is None and log.columns is not None:
            count, columns = log.columns.means.size, log.columns.moved(self.rows.X, self.names)
            resolved["figures"] = log.columns.hashed(log.key)
        if count is not None:
            resolved["columns"], moved["columns"] = count, columns
        return resolved, moved

    @property
    def preparation(self) -> Any:
        """How its rows were made from columns of a table; None where they came as they are."""
        return getattr(self.record, "preparation", None)

    def _scaled_columns(self, rows: Rows) -> tuple[int | None, dict[str, Any]]:
        """Return how many columns were scaled before the model, and their moves; None where none was."""
        if self.preparation is not None:
            preparation = self.preparation
            return preparation.moved(rows.X) if preparation.n_columns == rows.n_columns else (None, {})
        count, columns = (0, {}) if self.front is None else self.front.moved(rows.X)
        return count or None, columns

    def tree(self, key: bytes) -> Tree:
        """Return the tree over the rows held."""
        assert self.rows is not None
        return _tree(key, self.rows, hashes_of(key, self.rows, record=self.record))


def _lanes(hashes: tuple[bytes, ...] | None) -> Callable[[], Lanes | None]:
    return lambda: None if hashes is None else lanes_of(hashes)


def _tree(key: bytes, rows: Rows, hashes: tuple[bytes, ...]) -> Tree:
    marks = (bytes.fromhex(id_hash(key, name)) for name in rows.ids.values.tolist())
    return Tree(zip(marks, hashes, strict=True))


def _numbers_digest(state: Model, key: bytes) -> str:
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
    named = state.holding("its receipts").rows.ids.values.tolist() if kernel is None else ()
    arrays, ids = [beta, solution.primal, solution.bias], (id_hash(key, name) for name in named)
    return model_digest(numbers, settings.class_weight or {}, arrays, ids)


def moved_since_fit(model: SquareSVM) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what numbers were taken from all rows at fit, and by what share they would move now.

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
    return resolved, moved


def _is(model: Any, parameter: str, value: str) -> bool:
    given = getattr(model, parameter, None)
    return isinstance(given, str) and given == value


def _share(shares: list[float]) -> float | None:
    """Return the largest share in whole per cent; None where there is no number for it."""
    largest = max(shares, key=abs, default=0.0)
    return round(float(largest), 2) + 0.0 if np.isfinite(largest) else None
