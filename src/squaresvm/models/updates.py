"""Learning and forgetting rows: from one state to the next, which the estimator then swaps in whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from squaresvm.models import sums
from squaresvm.models.state import Settings, State, encode, features, find_classes
from squaresvm.models.steps import Step, step_for
from squaresvm.operators import StoredOperator
from squaresvm.rows import Rows
from squaresvm.rows.chunks import dropped
from squaresvm.solvers.equalities import EqualitySystem
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

__all__ = ["Update", "forget", "learn"]

#: Rows that are looked at for one of a class: first a few, then so many together.
_FIRST, _AT_ONCE = 64, 65536


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, eq=False)
class Update:
    """A new state and what is to be said of it.

    Parameters
    ----------
    state : State
    residual : float
        Scaled violation of the optimality conditions.
    sampled : bool
        Whether the residual is of some rows only.
    refactored : bool
        Whether the factor was made anew.
    wipe : callable
        To be called once the new state is in place: clears what the shared store holds of rows that left.
    """

    state: State
    residual: float
    sampled: bool = False
    refactored: bool = False
    wipe: Callable[[], None] = _nothing


def forget(state: State, positions: IntArray) -> Update:
    """Return the model without the rows at `positions`.

    Parameters
    ----------
    state : State
    positions : ndarray
        Among the rows held, each once.

    Returns
    -------
    Update

    Raises
    ------
    ValueError
        If no rows, or rows of one class only, would remain.
    """
    if positions.size >= state.rows.count:
        raise ValueError("forgetting all rows would leave no model: discard the estimator instead")
    rest = state.rows.without(positions, strike=state.solution.primal is not None)
    inside = positions[state.weights[positions] > 0]
    inside = inside if inside.size == 1 else np.sort(inside)
    if inside.size == 0:
        # Rows of weight zero are no part of the problem.
        return _without_effect(state, rest)
    weights = state.settings.row_weights(rest.y, rest.weights)
    if not _any_row(lambda part: weights[part] > 0, rest.count):
        raise ValueError(
            "forgetting these rows would leave rows of weight zero only: there would be no model"
        )
    classes = _remaining_classes(state, rest, weights, inside)
    settings = _settings_without(state, classes)
    if sums.apply_to(state):
        after, residual, sampled, refactored = sums.forget(state, inside, rest, classes)
        after = replace(after, settings=settings)
        return Update(after, residual, sampled, refactored, lambda: state.rows.erase(rest))
    held = _positive(weights)
    gone = inside if state.held.size == state.rows.count else np.searchsorted(state.held, inside)
    step, same = step_for(state), classes is state.classes
    targets = dropped(state.problem.targets, gone) if same else encode(rest.y[held], classes)
    operator = state.problem.operator
    # Whoever holds K needs the rows themselves later, and may never need them whole.
    in_pieces = isinstance(operator, StoredOperator) and held.size == rest.count
    step.forget(gone, rest.features if in_pieces else features(rest, held), targets, same)

    def wipe() -> None:
        state.rows.erase(rest)
        if isinstance(operator, StoredOperator):
            operator.clear(gone)
        system = step.solution.factor
        if isinstance(system, EqualitySystem):
            system.wipe()

    return _finished(state, step, wipe, held, rows=rest, classes=classes, settings=settings)


def learn(state: State, rows: Rows, added: Rows, kernel_values: Matrix | None) -> Update:
    """Return the model with new rows.

    Parameters
    ----------
    state : State
    rows : Rows
        Held and new ones.
    added : Rows
        The new ones alone.
    kernel_values : ndarray or None
        Of the new rows with all rows, held and new, where the kernel is precomputed.

    Returns
    -------
    Update
    """
    settings = state.settings
    weights = settings.row_weights(added.y, added.weights)
    counts = weights > 0
    if not counts.any():
        return _without_effect(state, rows)
    labels = added.y[counts]
    classes = state.classes
    if classes is not None and not np.isin(labels, classes).all():
        classes = find_classes(np.concatenate([classes, labels]), settings)
    if sums.apply_to(state):
        after, residual, sampled, refactored = sums.learn(state, added, weights, rows, classes)
        return Update(after, residual, sampled, refactored)
    held = np.concatenate([state.held, state.rows.count + np.flatnonzero(counts)])
    step, same = step_for(state), classes is state.classes
    X = features(rows, held) if kernel_values is None else kernel_values[counts][:, held]
    step.learn(X, weights[counts], encode(rows.y[held], classes), same)
    return _finished(state, step, _nothing, held, rows=rows, classes=classes)


def _settings_without(state: State, classes: np.ndarray[Any, Any] | None) -> Settings:
    """Return the settings without the weights of classes that are gone: their labels are gone with them."""
    weights = state.settings.class_weight
    if classes is state.classes or classes is None or not weights:
        return state.settings
    kept = {label: weight for label, weight in weights.items() if label in set(classes.tolist())}
    return replace(state.settings, class_weight=kept)


def _without_effect(state: State, rows: Rows) -> Update:
    after = replace(state, rows=rows, operator=state.problem.operator)
    return Update(after, after.certificate.residual)


def _finished(state: State, step: Step, wipe: Callable[[], None], held: IntArray, **changed: Any) -> Update:
    """Return the update after a step, with the parts of the state that have changed besides."""
    residual, sampled = step.check()
    operator = step.problem.operator
    after = replace(state, solution=step.solution, operator=operator, requests=step.requests, **changed)
    # The caches of properties that are at hand.
    after.__dict__.update(problem=step.problem, held=held)
    if not sampled and step.certificate is not None:
        after.__dict__["certificate"] = step.certificate
    if after.settings.proximal:
        _ = after.expansion  # Needs the store as it is now: later requests change it.
    return Update(after, residual, sampled, step.refactored, wipe)


def _positive(weights: FloatArray) -> IntArray:
    """Return where weights are positive; one and the same weight of all rows is looked at once."""
    if weights.strides == (0,) and weights[0] > 0:
        return np.arange(weights.size)
    return np.flatnonzero(weights > 0)


def _any_row(test: Callable[[slice], BoolArray], count: int) -> bool:
    """Return whether a row passes the test; of millions of rows, mostly the first tell."""
    if test(slice(_FIRST)).any():
        return True
    later = (slice(start, start + _AT_ONCE) for start in range(_FIRST, count, _AT_ONCE))
    return any(bool(test(part).any()) for part in later)


def _remaining_classes(
    state: State, rest: Rows, weights: FloatArray, inside: IntArray
) -> np.ndarray[Any, Any] | None:
    """Return the classes of the rows that stay: the very same array where none is lost."""
    if state.classes is None:
        return None
    gone, y = state.rows.y[inside], rest.y

    def occurs(label: Any) -> bool:
        return _any_row(lambda part: np.asarray((y[part] == label) & (weights[part] > 0)), rest.count)

    lost = [label for label in (gone if gone.size == 1 else np.unique(gone)) if not occurs(label)]
    if not lost:
        return state.classes
    left = state.classes[~np.isin(state.classes, lost)]
    if left.size < 2:
        which = f"one class only, {left.tolist()[0]!r}" if left.size else "weight zero only"
        raise ValueError(f"forgetting these rows would leave rows of {which}: a classifier needs two classes")
    return left
