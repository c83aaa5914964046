"""What a request to learn or to forget leads to, until it is in place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from squaresvm.estimators.receipts import Proposal
from squaresvm.estimators.requests import Updating
from squaresvm.files import History, Record, with_new_levels
from squaresvm.readers import Table
from squaresvm.serve.rows import (
    Limits,
    RequestError,
    columns_of,
    first_line,
    held_ids,
    labels_for,
    list_in,
    new_ids,
    rows_for,
    table_of,
)

__all__ = ["Change", "proposed"]


@dataclass(frozen=True)
class Change:
    """What a request leads to. The lock of requests is held until it is in place or given up."""

    model: Updating
    proposal: Proposal
    record: Record
    #: How many classes and levels of categories the model did not know before.
    new_classes: int = 0
    new_levels: int = 0

    @property
    def receipt(self) -> dict[str, Any]:
        """What the request is answered with, as JSON: counts, and neither rows nor ids."""
        receipt = self.proposal.receipt
        assert receipt is not None
        return {
            "rows": int(receipt.rows),
            "remaining": int(receipt.remaining),
            "new_classes": self.new_classes,
            "new_levels": self.new_levels,
            "residual": float(receipt.residual),
            "checked": int(receipt.checked),
            "sampled": bool(receipt.sampled),
            "refactored": bool(receipt.refactored),
            "seconds": float(receipt.seconds),
            "chain_number": int(receipt.number),
        }

    def put_in_place(self, at: str) -> None:
        """Make the model what the request asks for."""
        self.model._adopt_proposal(self.proposal)
        *before, last = self.record.history.events
        history = History((*before, replace(last, time=f"{at[:19]}+00:00")))
        replace(self.record, history=history.by_day()).attach(self.model)


def proposed(model: Updating, kind: str, payload: dict[str, Any], limits: Limits) -> Change:
    """Return what a request leads to; a RequestError where the model cannot do it, unchanged as it is.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> from squaresvm.files import History, Record
    >>> from squaresvm.serve.change import proposed
    >>> from squaresvm.serve.rows import Limits
    >>> model = LSSVC().fit(*load_iris(return_X_y=True))
    >>> Record(History().brought("train", 150)).attach(model)
    >>> change = proposed(model, "forget", {"ids": [3, "17"]}, Limits())
    >>> change.receipt["rows"], change.receipt["remaining"], model.ids_.size
    (2, 148, 150)
    """
    try:
        return _learning(model, payload, limits) if kind == "learn" else _forgetting(model, payload, limits)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise RequestError(422, first_line(error)) from None


def _learning(model: Updating, payload: dict[str, Any], limits: Limits) -> Change:
    records, labels = list_in(payload, "records", limits), list_in(payload, "labels", limits)
    ids = None if payload.get("ids") is None else list_in(payload, "ids", limits)
    if len(labels) != len(records) or (ids is not None and len(ids) != len(records)):
        raise RequestError(422, "'records', 'labels' and 'ids' must be of equal length")
    history = Record.of(model).history.brought("learn", len(records))
    table, width = table_of(records, limits), model.n_features_in_
    if isinstance(table, Table):
        model = with_new_levels(model, table)
    X = rows_for(table, columns_of(model), model.n_features_in_)
    y = labels_for(model, labels)
    names = None if ids is None else new_ids(model, ids)
    bare = model._copy()
    known = bare.__dict__.pop("feature_names_in_", None)  # The columns are in order by their names.
    proposal = bare._propose_learn(X, y, None, names)
    if known is not None:
        proposal.estimator.feature_names_in_ = known
    before, after = getattr(model, "classes_", ()), getattr(proposal.estimator, "classes_", ())
    record = replace(Record.of(model), history=history, origin=None)
    return Change(model, proposal, record, len(after) - len(before), model.n_features_in_ - width)


def _forgetting(model: Updating, payload: dict[str, Any], limits: Limits) -> Change:
    names = held_ids(model, list_in(payload, "ids", limits))
    positions = model._state.positions_of(names)
    proposal = model._propose_forget(names)
    record = Record.of(model)
    record = replace(record, history=record.history.forgot(positions), origin=None)
    return Change(model, proposal, record)
