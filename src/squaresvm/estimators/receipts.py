"""Requests and their receipts: what estimators write into their logs, and what they show of it to others."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from squaresvm.estimators.evidence import Evidence
from squaresvm.evidence.columns import Columns
from squaresvm.evidence.hashes import AbsenceProof, id_hash
from squaresvm.evidence.log import Log, now
from squaresvm.evidence.receipt import Receipt, append_receipts
from squaresvm.models.model import Update
from squaresvm.models.ownership import REQUESTS
from squaresvm.runtime.arguments import check_positive

__all__ = ["Proposal", "Proving", "Requests", "begun", "log_of", "written"]

#: Making a receipt of two dozen fields anew takes longer than all else that is written of a request.
_BLANK = Receipt((), 0, 0.0, False, False, 0.0)


# What requests write -------------------------------------------------------------------------------------


def begun(model: Any, seconds: float, log: Log | None = None, *, resolved: bool = True) -> Log:
    """Return the log of a model that was fitted, or fitted anew on the rows that it holds.

    `resolved` tells whether that took the numbers of the fit anew.
    """
    if log is not None and resolved and log.columns is not None:
        log = replace(log, columns=None)
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
        parts = (self._record, self._front)
        return [line for part in parts if part is not None for line in part.kept_of_rows()]

    def _noted_log(self) -> Log:
        """Return the log, with figures of the columns at fit where the rows held are those of the fit still.

        A preparation has figures of its own, and columns that come and go.
        """
        log = self._log
        if log is not None and (log.columns is not None or not log.is_at_fit):
            return log
        evidence = self._evidence()
        log, rows = log_of(log, evidence.count), evidence.rows
        if rows is None or not (log.is_at_fit and rows.n_columns) or evidence.preparation is not None:
            return log
        return replace(log, columns=Columns.of(rows.X))

    def _sealed_log(self) -> Log:
        """Return the log, sealed; the lock is held."""
        log = self._noted_log()
        self._log = log = log.sealed(lambda: self._evidence().facts(log))
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
                raise ValueError(
                    "a proof of absence needs a model that holds its rows, and this one keeps none"
                )
            key = self._sealed_log().key
            tree = evidence.tree(key)
        try:
            return tree.prove_absence(id_hash(key, name))
        except ValueError:
            raise ValueError(f"a row with id {name!r} is held") from None

    def refit_due(self, share: float = 0.1) -> tuple[str, ...]:
        """Return which numbers that were taken from all rows would move by more than a share.

        They are 'gamma' (``gamma='scale'``), 'class_weight' (``'balanced'``), and columns by name, by their
        mean and deviation in deviations: as they were scaled before the model, or as they came. Of more than
        32 columns it is those that have moved most. Forgetting is exact given these numbers; where one has
        moved far, rows that are gone still have a say through it, and `refit` ends that.

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
        (('gamma', 'x0', 'x1'), ())
        """
        check_is_fitted(self)
        check_positive("share", share)
        with REQUESTS:
            _, moved = self._evidence().since_fit(self._noted_log())
        columns = moved.pop("columns", {})
        found = {**{name: [value] for name, value in moved.items()}, **columns}
        return tuple(
            name
            for name, values in found.items()
            if any(value is None or abs(value) > share for value in values)
        )


@dataclass(frozen=True, eq=False)
class Proposal:
    """What a request leads to, for whoever puts it in place together with something else.

    Parameters
    ----------
    estimator : estimator
        One that nobody has yet, with the new model.
    commit : callable
        To be called once, when the estimator is about to be in place.
    receipt : Receipt or None
        Of a request to forget.
    """

    estimator: Any
    commit: Callable[[], None]
    receipt: Receipt | None = None


class Requests(Proving):
    """Learning and forgetting, for whatever says what a request would lead to."""

    def learn(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
    ) -> Self:
        """Add rows: the model equals a fit of all rows with the numbers resolved at `fit`.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (k, n)
            With a precomputed kernel, kernel values of shape (k, held + k).
        y : array-like of shape (k,)
        sample_weight : array-like of shape (k,), optional
        ids : iterable of hashables, or 'index', optional
            Required if the rows held have ids of their own, refused if they have arrival numbers. An id
            that is held names the new rows as well.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with REQUESTS:
            self._adopt_proposal(self._propose_learn(X, y, sample_weight, ids))
        return self

    def _propose_learn(self, X: Any, y: Any, sample_weight: Any = None, ids: Any = None) -> Proposal:
        """Return what `learn` leads to; the lock is held until it is in place or given up."""
        raise NotImplementedError

    def _propose_forget(self, ids: Iterable[Hashable], verify: bool = False) -> Proposal:
        """Return what `forget` leads to; the lock is held until it is in place or given up."""
        raise NotImplementedError

    def _adopt_proposal(self, proposal: Proposal) -> None:
        raise NotImplementedError

    def _forgotten(self, ids: Iterable[Hashable], verify: bool) -> Receipt:
        """Remove rows, and return the receipt; the lock is held."""
        start = time.perf_counter()
        return self._adopted(self._propose_forget(ids, bool(verify)), verify, start)

    def _adopted(self, proposal: Proposal, verify: bool, start: float) -> Receipt:
        """Put a request to forget in place, and return its receipt."""
        self._adopt_proposal(proposal)
        receipt = proposal.receipt
        assert receipt is not None
        if verify:
            sealed = self._sealed_log().receipts()[-1]
            return sealed.but(ids=receipt.ids, classes_gone=receipt.classes_gone)
        return receipt.but(seconds=time.perf_counter() - start)
