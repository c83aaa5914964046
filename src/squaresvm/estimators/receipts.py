"""What estimators write into their logs, what sealing asks of them, and what they show of it to others."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from squaresvm._version import __version__
from squaresvm.evidence.hashes import (
    AbsenceProof,
    Lanes,
    Tree,
    id_hash,
    joined_digest,
    lanes_of,
    model_digest,
    row_hashes,
)
from squaresvm.evidence.log import Facts, Log, now
from squaresvm.evidence.receipt import Receipt, append_receipts
from squaresvm.models.model import Model, Update
from squaresvm.models.ownership import REQUESTS
from squaresvm.rows import Rows
from squaresvm.runtime.arguments import check_positive
from squaresvm.typing import IntArray, Matrix

if TYPE_CHECKING:
    from squaresvm.estimators.base import SquareSVM

__all__ = ["Evidence", "Proving", "begun", "hashes_of", "log_of", "moved_since_fit", "written"]

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
    came: tuple[bytes, ...] = (),
) -> tuple[Log, Receipt]:
    """Return the log with a request, and its receipt.

    `counts` are the rows held before and after it, `hashes` those of the rows that came or left, `came` those
    of rows that a request to forget has given other features.
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
    return (log.written(receipt, came, hashes) if kind == "forget" else log.written(receipt, hashes)), receipt


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
            "model": joined_digest(_numbers_digest(state, key) for state in self.states),
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
    named = state.rows_for("its receipts").ids.values.tolist() if kernel is None else ()
    arrays, ids = [beta, solution.primal, solution.bias], (id_hash(key, name) for name in named)
    return model_digest(numbers, settings.class_weight or {}, arrays, ids)


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


class Proving:
    """Evidence of requests, for whatever holds a model; see :mod:`squaresvm.evidence`."""

    #: The receipts of the model; None where it came from elsewhere without any.
    _log: Log | None = None
    #: What goes with the file of the model: a :class:`squaresvm.files.Record`, which owns it.
    _record: Any = None
    #: The steps before the model in a pipeline, of which receipts say what they keep of rows:
    #: a :class:`squaresvm.files.front.Front`.
    _front: Any = None

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model."""
        raise NotImplementedError

    def _evidence(self) -> Evidence:
        """Return the model as receipts see it."""
        raise NotImplementedError

    def _kept_of_rows(self) -> list[str]:
        """Return, in words, what the model has of rows that may have left, beside the numbers of its fit."""
        preparation = getattr(self._record, "preparation", None)
        return [
            line for part in (preparation, self._front) if part is not None for line in part.kept_of_rows()
        ]

    def _sealed_log(self) -> Log:
        """Return the log, sealed; the lock is held."""
        evidence = self._evidence()
        log = log_of(self._log, evidence.count)
        self._log = log = log.sealed(lambda: evidence.facts(log.key))
        return log

    @property
    def receipts_(self) -> tuple[Receipt, ...]:
        """The receipts of all requests since `fit` or an anchor, sealed: see :class:`squaresvm.Receipt`."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} has no 'receipts_' yet: call 'fit' first")
        with REQUESTS:
            return self._sealed_log().receipts()

    def anchor_receipts(self, path: str | os.PathLike[str] | None = None) -> tuple[Receipt, ...]:
        """Put one receipt in place of all, which commits to them by hash, so that their number levels off.

        Whoever has the receipts that it stands for can still hold them against it, and against the model:
        with them in front, the chain is whole. Receipts that are not kept by anybody are gone.

        Parameters
        ----------
        path : path-like, optional
            A file that they are added to before they go, one JSON object a line.

        Returns
        -------
        tuple of Receipt
            Those that were replaced; empty where there was nothing but an anchor.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from squaresvm import LSSVC, check_chain
        >>> model = LSSVC().fit(*load_iris(return_X_y=True))
        >>> _ = model.forget([3]), model.forget([17])
        >>> earlier = model.anchor_receipts()
        >>> [(each.number, each.kind, each.before["receipts"]) for each in model.receipts_]
        [(3, 'anchor', 3)]
        >>> check_chain(model.receipts_), check_chain([*earlier, *model.receipts_])
        ([], [])
        """
        check_is_fitted(self)
        with REQUESTS:
            log = self._sealed_log()
            anchored = log.anchored()
            if anchored is log:
                return ()
            if path is not None:
                append_receipts(path, log.receipts())
            self._log = anchored
            return log.receipts()

    def sign_receipts(self, path: str | os.PathLike[str]) -> Self:
        """Sign all receipts that are not signed yet, with Ed25519; needs the extra ``sign``.

        Parameters
        ----------
        path : path-like
            File with a private key, which :func:`squaresvm.evidence.log.new_key` makes.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with REQUESTS:
            self._log = self._sealed_log().signed(path)
        return self

    def prove_absence(self, name: Hashable) -> AbsenceProof:
        """Return a short proof that no row with an id is held, under the commitment of the last receipt.

        Parameters
        ----------
        name : hashable
            The id.

        Returns
        -------
        AbsenceProof
            For :func:`squaresvm.check_absence`.

        Raises
        ------
        ValueError
            If the id is held, or the model keeps no rows.
        """
        check_is_fitted(self)
        with REQUESTS:
            evidence = self._evidence()
            if evidence.rows is None:
                raise ValueError("absence is proved of the rows that a model holds, and this one keeps none")
            key = self._sealed_log().key
            tree = evidence.tree(key)
        try:
            return tree.prove_absence(id_hash(key, name))
        except ValueError:
            raise ValueError(f"a row with id {name!r} is held") from None

    def refit_due(self, share: float = 0.1) -> tuple[str, ...]:
        """Return which numbers that were taken from all rows would move by more than a share.

        They are 'gamma' (``gamma='scale'``), 'class_weight' (``'balanced'``), and columns that the command
        line has scaled, by their mean and deviation in deviations. Forgetting is exact given these numbers;
        where one has moved far, rows that are gone still have a say through it, and `refit` ends that.

        Parameters
        ----------
        share : float, default=0.1

        Returns
        -------
        tuple of str
            Empty, and so false, where none has moved so far.

        Examples
        --------
        >>> import numpy as np
        >>> from squaresvm import LSSVC
        >>> X, y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
        >>> model = LSSVC().fit(X, y)
        >>> _ = model.forget([6, 7, 8, 9])
        >>> model.refit_due(), model.refit().refit_due()
        (('gamma',), ())
        """
        check_is_fitted(self)
        check_positive("share", share)
        with REQUESTS:
            _, moved = self._evidence().moved()
        columns = moved.pop("columns", {})
        found = {**moved, **{name: max(map(abs, values)) for name, values in columns.items()}}
        return tuple(name for name, value in found.items() if value is None or abs(value) > share)
