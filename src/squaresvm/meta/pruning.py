"""Sparse least squares SVM: forget the rows of the smallest multipliers until a budget is met.

With squared loss every row has a multiplier, beta_i = C_i (y_i - f(x_i)), and the model is as large as its
data. Rows with small ones matter least (Suykens, Lukas and Vandewalle 2000). They are dropped in rounds,
each an exact `forget`: after it the model equals a fit of the rows that are left, and what it says of rows
that have left is as honest as a leave-one-out value. So each round has a score over all rows, none judged by
a model that has seen it.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from squaresvm.estimators.requests import Updating
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.state import State
from squaresvm.problem import Loss
from squaresvm.runtime.arguments import check_integer
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = ["Pruned", "PruningRound", "prune"]

#: Rows of each class that are never dropped, so that one can still be left out.
_PER_CLASS = 2


@dataclass(frozen=True)
class PruningRound:
    """How good the model is with some rows left.

    Parameters
    ----------
    rows : int
        Rows held.
    score : float
        Accuracy or coefficient of determination over all rows, by weight: leave-one-out values of the rows
        held, predictions of those that have been dropped.
    seconds : float
        What the round took, the score included.
    """

    rows: int
    score: float
    seconds: float


@dataclass(frozen=True)
class Pruned:
    """A model within a budget, and what each round cost in score.

    Parameters
    ----------
    model : estimator
        A copy that holds the rows that are left. The one given is as it was.
    rounds : tuple of PruningRound
        The first is before anything was dropped.
    """

    model: Any
    rounds: tuple[PruningRound, ...]

    @property
    def loss(self) -> float:
        """By how much the score has fallen."""
        return self.rounds[0].score - self.rounds[-1].score

    def __str__(self) -> str:
        """Return a line a round: rows, score, and how much less that is than with all rows."""
        first = self.rounds[0].score
        lines = [f"{r.rows:8d} rows  score {r.score:.4f}  ({r.score - first:+.4f})" for r in self.rounds]
        return "\n".join(lines)


def prune(model: Updating, budget: int, share: float = 0.05) -> Pruned:
    """Return a copy of a fitted squared-loss model that holds at most `budget` rows.

    Parameters
    ----------
    model : estimator
        Fitted :class:`LSSVC`, :class:`LSSVR`, their searches, or :class:`RelaxedLSSVC`. It stays as it is.
    budget : int
        Rows that may be left, at least two a class. Those of each class with the largest multipliers stay.
    share : float, default=0.05
        Share of the rows held that is dropped in a round: the smaller, the better the choice, and the more
        rounds.

    Returns
    -------
    Pruned
        The model, and the score of each round.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC, prune
    >>> X, y = load_iris(return_X_y=True)
    >>> pruned = prune(LSSVC(C=10.0, gamma=0.1).fit(X, y), budget=60, share=0.3)
    >>> [r.rows for r in pruned.rounds]
    [150, 105, 74, 60]
    >>> pruned.model.ids_.size
    60
    """
    check_is_fitted(model)
    # What the model is now, with buffers of its own: it may go on learning and forgetting meanwhile.
    with REQUESTS:
        origin = model._holding("pruning").detached()
    _check(origin, budget, share)
    start = time.perf_counter()
    small = copy.copy(model)
    small._take(origin.detached())
    left = np.arange(origin.rows.count)  # Where the rows that are left stood; ids may repeat.
    rounds = [_judged(small, origin, left, start)]
    while small.ids_.size > budget:
        start = time.perf_counter()
        count = min(max(int(share * small.ids_.size), 1), small.ids_.size - budget)
        least = _least(small._holding("pruning"), count)
        with REQUESTS:
            small._adopt_proposal(small._propose_forget_at(least))
        left = np.delete(left, least)
        rounds.append(_judged(small, origin, left, start))
    return Pruned(small, tuple(rounds))


def _check(state: State, budget: int, share: float) -> None:
    if state.settings.loss != Loss.SQUARED or state.settings.proximal:
        raise ValueError(
            "pruning is for models with squared loss whose multipliers are their coefficients, as of LSSVC: "
            "the squared hinge is sparse already, and in ProximalSVC every row is part of the kernel"
        )
    check_integer("budget", budget, 1)
    if not isinstance(share, float) or not 0.0 < share < 1.0:
        raise ValueError(f"share must be a float between 0 and 1, exclusive; got {share!r}")
    needed = _PER_CLASS * (1 if state.classes is None else state.classes.size)
    if budget < needed:
        raise ValueError(f"budget must be at least {needed}, two rows a class; got {budget}")


def _least(state: State, count: int) -> IntArray:
    """Return where the rows with the smallest multipliers stand, and of weight zero before all others."""
    size = np.full(state.rows.count, -1.0)
    with REQUESTS:
        size[state.held] = np.abs(state.problem.multipliers(state.solution)).max(axis=1)
    order = np.argsort(size, kind="stable")
    order = order[~_kept(state, order)[order]]
    return order[:count]


def _kept(state: State, order: IntArray) -> BoolArray:
    """Return which rows stay whatever happens: the largest of each class."""
    keep = np.zeros(state.rows.count, dtype=bool)
    inside = order[np.isin(order, state.held)]
    if state.classes is None:
        keep[inside[-_PER_CLASS:]] = True
        return keep
    for label in state.classes:
        keep[inside[state.rows.y[inside] == label][-_PER_CLASS:]] = True
    return keep


def _judged(small: Updating, origin: State, rows: IntArray, start: float) -> PruningRound:
    state, left_out = small._loo_inside()
    values = _values(left_out, state, origin, rows)
    y, weights = origin.rows.y[origin.held], origin.weights[origin.held]
    if state.classes is None:
        score = r2_score(y, values, sample_weight=weights)
    else:
        classes = state.classes
        best = values[:, 0] > 0 if values.shape[1] == 1 else values.argmax(axis=1)
        score = accuracy_score(y, classes[best.astype(np.intp)], sample_weight=weights)
    return PruningRound(state.rows.count, float(score), time.perf_counter() - start)


def _values(left_out: FloatArray, state: State, origin: State, rows: IntArray) -> FloatArray:
    """Return f at each row of the first problem, of a model that does not hold it; `rows` are left."""
    left = np.isin(origin.held, rows[state.held])
    values = np.empty((left.size, state.solution.bias.size))
    values[left] = left_out
    if not left.all():
        gone: IntArray = np.flatnonzero(~left)
        if state.settings.kernel is None:
            block = origin.problem.operator.block(gone, np.flatnonzero(left))
            values[gone] = block @ state.expansion + state.solution.bias
        else:
            values[gone] = state.decision(origin.rows.take(origin.held[gone]))
    return values
