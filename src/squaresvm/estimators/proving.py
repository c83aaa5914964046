"""The methods that show others what became of a model: receipts, signatures, proofs of absence."""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import Self

from sklearn.utils.validation import check_is_fitted

from squaresvm.estimators.base import SquareSVM
from squaresvm.estimators.receipts import facts_of, hashes_of, log_of, moved_since_fit, tree_of
from squaresvm.evidence.absence import AbsenceProof
from squaresvm.evidence.hashes import id_hash
from squaresvm.evidence.receipt import Receipt
from squaresvm.models.ownership import REQUESTS
from squaresvm.runtime.arguments import check_positive

__all__ = ["Proving"]


class Proving(SquareSVM):
    """Evidence of requests; see :mod:`squaresvm.evidence`."""

    @property
    def receipts_(self) -> tuple[Receipt, ...]:
        """The receipts of all requests since `fit`, sealed: see :class:`squaresvm.Receipt`."""
        self._fitted("receipts_")
        with REQUESTS:
            self._log = log = log_of(self._log, self._state.n_rows)
            self._log = log.sealed(lambda: facts_of(self, log.key))
            return self._log.receipts()

    def sign_receipts(self, path: str | os.PathLike[str]) -> Self:
        """Sign all receipts that are not signed yet, with Ed25519; needs the extra ``sign``.

        Parameters
        ----------
        path : path-like
            File with a private key, which :func:`squaresvm.evidence.signatures.new_key` makes.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with REQUESTS:
            _ = self.receipts_
            assert self._log is not None
            self._log = self._log.signed(path)
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
            rows, _ = self._holding("a proof of absence").rows, self.receipts_
            assert self._log is not None
            key = self._log.key
            tree = tree_of(key, rows, hashes_of(key, rows, record=self._record))
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
            _, moved = moved_since_fit(self)
        columns = moved.pop("columns", {})
        found = {**moved, **{name: max(map(abs, values)) for name, values in columns.items()}}
        return tuple(name for name, value in found.items() if value is None or abs(value) > share)
