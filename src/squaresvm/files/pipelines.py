"""Learning and forgetting through a pipeline of scikit-learn with a model of ours at its end."""

from __future__ import annotations

import copy
import time
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from squaresvm.estimators.requests import Updating
from squaresvm.evidence.receipt import Receipt
from squaresvm.features import Nystrom
from squaresvm.files.front import Front
from squaresvm.models.ownership import REQUESTS

__all__ = ["forget", "learn", "remember"]


def _forget_landmarks(
    front: Front, step: Nystrom, model: Any, ids: list[Hashable], rows: Any, verify: bool
) -> Receipt:
    """Drop landmarks of the step before a model, and have the model follow: fitted to the other features."""
    if not isinstance(model, Updating) or model._holding("landmarks").rows.ids.arrivals is None:
        raise ValueError(
            "landmarks can be forgotten only where the rows of one model have arrival numbers. Fit the "
            "pipeline anew without these rows"
        )
    with REQUESTS:
        start, held = time.perf_counter(), model._holding("landmarks").rows
        features = front.transform(rows)
        if features.shape != held.X.shape or not np.allclose(features, held.X):
            raise ValueError("rows are not those that the model holds, in the order of ids_")
        positions, other = held.ids.positions(ids), copy.copy(step)
        other.forget(np.intersect1d(step.landmark_indices_, held.ids.values[positions]).tolist())
        rest = _safe_indexing(rows, np.delete(np.arange(held.count), positions))
        for _, before in front.steps[:-1]:
            rest = before.transform(rest)
        proposal = model._propose_on(other.transform(rest), positions)
        step.__dict__.update(other.__dict__)
        return model._adopted(proposal, verify, start)


def learn(model: Any, X: Any, y: Any, *, sample_weight: Any = None, ids: Any = None) -> Any:
    """Add rows to a fitted model, or to the one at the end of a pipeline.

    The steps before it stay as they were fitted: they transform the rows and learn nothing from them.

    Parameters
    ----------
    model : estimator, Window or Pipeline that ends in one
        Fitted.
    X : array-like or data frame
        Rows as they go into the pipeline.
    y : array-like
    sample_weight : array-like, optional
    ids : array-like or 'index', optional
        As in `learn` of the estimators; 'index' takes the index of the data frame `X`.

    Returns
    -------
    model
        The same object.

    Raises
    ------
    ValueError
        If a step or the model refuses the rows. Nothing has changed then.

    Examples
    --------
    >>> import squaresvm
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), squaresvm.LSSVC()).fit(X[:140], y[:140])
    >>> _ = squaresvm.learn(pipeline, X[140:], y[140:])
    >>> squaresvm.forget(pipeline, [3, 17]).remaining
    148
    """
    front, last = _asked(model, "learn")
    if front is None:
        last.learn(X, y, sample_weight=sample_weight, ids=ids)
        return model
    if isinstance(ids, str) and ids == "index" and hasattr(X, "index"):
        ids = X.index.to_numpy()
    new = front.transform(X)
    remember(front, last)
    last.learn(new, y, sample_weight=sample_weight, ids=ids)
    return model


def forget(model: Any, ids: Iterable[Hashable], *, verify: bool = False, rows: Any = None) -> Receipt:
    """Remove rows from a fitted model, or from the one at the end of a pipeline, exactly.

    The steps before it keep what they took from all rows of their fit, such as means and levels: the
    receipts say what. The model then equals one that was fitted on what the same steps make of the others.

    Parameters
    ----------
    model : estimator, Window or Pipeline that ends in one
        Fitted.
    ids : iterable of hashable
    verify : bool, default=False
        Whether the residual on the receipt is of all rows.
    rows : array-like or data frame, optional
        All rows that the model holds, as they go into the pipeline, in the order of ``ids_``: needed where
        one that leaves is a landmark of a `Nystrom` before the model. The landmark is dropped, and the model
        is fitted to the features that the others make, with the numbers that it has.

    Returns
    -------
    Receipt
        Its ``kept`` names each step that keeps something.

    Raises
    ------
    KeyError
        If an id is unknown. Nothing has changed then.
    ValueError
        If a step holds rows themselves, such as `KNNImputer`, or such as `Nystrom` one of these rows.
        Nothing has changed then.

    Examples
    --------
    >>> import squaresvm
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> pipeline = make_pipeline(StandardScaler(), squaresvm.LSSVC()).fit(*load_iris(return_X_y=True))
    >>> squaresvm.forget(pipeline, [3, 17]).kept[0][:32]
    "step 'standardscaler' (StandardS"
    """
    front, last = _asked(model, "forget")
    names = list(ids)
    if front is not None:
        step = front.steps[-1][1] if front.steps and rows is not None else None
        front.check_forgets(last, names, but=step)
        remember(front, last)
        if isinstance(step, Nystrom) and not set(names).isdisjoint(step.landmark_indices_.tolist()):
            receipt = _forget_landmarks(front, step, last, names, rows, verify)
            return receipt if receipt.kept else receipt.but(kept=tuple(front.kept_of_rows()))
    receipt = last.forget(names, verify=True) if verify else last.forget(names)
    if front is None or receipt.kept:  # With `verify` it is sealed, and says so itself.
        return receipt
    return receipt.but(kept=tuple(front.kept_of_rows()))


def remember(front: Front | None, model: Any) -> None:
    """Have the receipts of a model say what the steps before it keep of rows."""
    getattr(model, "estimator_", model)._front = front


def _asked(model: Any, request: str) -> tuple[Front | None, Any]:
    """Return the steps before the model, and the model, of which something is asked."""
    front, last = Front.of(model)
    if not hasattr(last, request):
        where = "" if front is None else ", the last step of the pipeline,"
        raise TypeError(f"{type(last).__name__}{where} cannot {request}: give a fitted model of squaresvm")
    check_is_fitted(last)
    return front, last
