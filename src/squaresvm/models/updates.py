"""Learning and forgetting rows: from one state to the next, which the estimator then swaps in whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from squaresvm.family import Loss
from squaresvm.models.factor_steps import FactorStep, ProximalStep
from squaresvm.models.model import Known, NewRows, Settings, Update
from squaresvm.models.ownership import Claim
from squaresvm.models.problems import all_positive, check_costs, encode, features, find_classes, positive
from squaresvm.models.steps import HingeStep, InverseStep, MultiplierStep, NewtonStep, Step
from squaresvm.models.sums_step import SumsStep
from squaresvm.operators import LinearOperator, StoredOperator
from squaresvm.rows import Rows
from squaresvm.rows.chunks import Features, dropped
from squaresvm.rows.labels import same_kind
from squaresvm.typing import BoolArray, FloatArray, IntArray, Matrix

if TYPE_CHECKING:
    from squaresvm.models.state import State

__all__ = ["Coming", "Leaving", "forget", "learn"]

#: Rows that are looked at for one of a class: first a few, then so many together.
_FIRST, _AT_ONCE = 64, 65536


@dataclass(frozen=True, eq=False)
class Change:
    """Rows that come or leave, some of them of positive weight.

    Parameters
    ----------
    state : State
        As it was.
    rows : Rows
        All rows afterwards.
    classes : ndarray or None
        Of these; the very same array as the state's where none is new and none is lost.
    settings : Settings
        Of these: with the weights of their classes.
    """

    state: State
    rows: Rows
    classes: np.ndarray[Any, Any] | None
    settings: Settings

    @property
    def same_classes(self) -> bool:
        """Whether no class is new, and none lost."""
        return self.classes is self.state.classes


@dataclass(frozen=True, eq=False)
class Leaving(Change):
    """Rows of positive weight that leave.

    Parameters
    ----------
    state, rows, classes, settings :
        As in `Change`.
    positions : ndarray
        Where those that leave stand among the rows held, sorted.
    weights : ndarray
        Sample weight times class weight of the rest.
    """

    positions: IntArray
    weights: FloatArray

    @cached_property
    def held(self) -> IntArray:
        """Where the rows of the new problem stand among the rest."""
        return positive(self.weights)

    @cached_property
    def gone(self) -> IntArray:
        """Where the rows that leave stand in the old problem."""
        state = self.state
        everyone = all_positive(state.weights)
        return self.positions if everyone else np.searchsorted(state.held, self.positions)

    @property
    def targets(self) -> FloatArray:
        """Targets of the new problem."""
        if self.same_classes:
            return np.asarray(dropped(self.state.problem.targets, self.gone))
        return encode(self.rows.y[self.held], self.classes)

    @property
    def X(self) -> Features:
        """Features of the new problem; in chunks for whoever holds K, and may never need them whole."""
        stored = isinstance(self.state.problem.operator, StoredOperator)
        in_chunks = stored and all_positive(self.weights)
        return self.rows.features if in_chunks else features(self.rows, self.held)


@dataclass(frozen=True, eq=False)
class Coming(Change):
    """Rows that come.

    Parameters
    ----------
    state, rows, classes, settings :
        As in `Change`.
    added : Rows
        The new ones alone.
    all_weights : ndarray
        Sample weight times class weight of the new rows.
    kernel_values : ndarray or None
        Of the new rows with all rows, where the kernel is precomputed.
    """

    added: Rows
    all_weights: FloatArray
    kernel_values: Matrix | None

    @cached_property
    def counted(self) -> IntArray:
        """Which of the new rows have positive weight."""
        return np.flatnonzero(self.all_weights > 0)

    @property
    def weights(self) -> FloatArray:
        """Weights of the new rows of positive weight."""
        return self.all_weights[self.counted]

    @cached_property
    def held(self) -> IntArray:
        """Where the rows of the new problem stand among all rows."""
        return np.concatenate([self.state.held, self.state.rows.count + self.counted])

    @property
    def targets(self) -> FloatArray:
        """Targets of the new problem."""
        return encode(self.rows.y[self.held], self.classes)

    @property
    def X(self) -> Matrix:
        """Features of the new problem; with a precomputed kernel, the new rows' kernel values with all."""
        if self.kernel_values is None:
            return features(self.rows, self.held)
        return self.kernel_values[self.counted][:, self.held]


def _step_for(state: State) -> Step:
    """Return the kind of step that fits a model."""
    if SumsStep.serves(state):
        return SumsStep(state)
    problem = state.problem
    if isinstance(problem.operator, LinearOperator):
        return (NewtonStep if state.solution.beta is None else MultiplierStep)(state, problem)
    if InverseStep.serves(state):
        return InverseStep(state, problem)
    if state.settings.loss == Loss.SQUARED_HINGE:
        return HingeStep(state, problem)
    return (ProximalStep if state.settings.proximal else FactorStep)(state, problem)


def forget(state: State, positions: IntArray, *, verify: bool = False) -> Update:
    """Return the model without the rows at `positions`.

    Parameters
    ----------
    state : State
    positions : ndarray
        Among the rows held, each once.
    verify : bool, default=False
        Whether to take the residual of all rows now.

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
        return _without_effect(state, rest, positions.size)
    as_held = state.weights is state.rows.weights
    weights = rest.weights if as_held else dropped(state.weights, positions)
    if not _any_row(lambda part: weights[part] > 0, rest.count):
        raise ValueError(
            "forgetting these rows would leave rows of weight zero only: there would be no model"
        )
    classes = _remaining_classes(state, rest, weights, inside)
    leaving = Leaving(state, rest, classes, _settings_without(state, classes), inside, weights)
    step = _step_for(state)
    step.forget(leaving)
    return _finished(step, leaving, verify, positions.size)


def learn(state: State, new: NewRows) -> Update:
    """Return the model with new rows."""
    precomputed = state.settings.kernel is None
    if not precomputed:
        assert state.settings.kernel is not None
        state.settings.kernel.check_range(new.X)
    labels = new.y if state.classes is None else same_kind(new.y, state.classes)
    base = np.empty((labels.shape[0], 0)) if precomputed else new.X
    added = Rows(base, labels, new.weights, state.rows.ids.extended(new.ids, labels.shape[0]))
    rows, settings = state.rows.joined(added), _settings_with(state, labels, new)
    weights = settings.row_weights(labels, new.weights)
    counts = np.flatnonzero(weights > 0)
    check_costs(settings.C, weights[counts], counts)
    if counts.size == 0:
        return _without_effect(state, rows, labels.shape[0])
    classes = state.classes
    if classes is not None and not np.isin(labels[counts], classes).all():
        classes = find_classes(np.concatenate([classes, labels[counts]]), settings)
    values = new.X if precomputed else None
    coming = Coming(state, rows, classes, settings, added, weights, values)
    step = _step_for(state)
    step.learn(coming)
    return _finished(step, coming, False, labels.shape[0])


def _settings_with(state: State, labels: np.ndarray[Any, Any], new: NewRows) -> Settings:
    """Return the settings with weights of classes that come, where the estimator's parameters name them."""
    known = state.settings.class_weight
    if known is None or not new.class_weight:
        return state.settings
    coming = {label: new.class_weight[label] for label in set(labels.tolist()) if label in new.class_weight}
    fresh = {label: weight for label, weight in coming.items() if label not in known}
    return replace(state.settings, class_weight={**known, **fresh}) if fresh else state.settings


def _settings_without(state: State, classes: np.ndarray[Any, Any] | None) -> Settings:
    """Return the settings without the weights of classes that are gone: their labels are gone with them."""
    weights = state.settings.class_weight
    if classes is state.classes or classes is None or not weights:
        return state.settings
    kept = {label: weight for label, weight in weights.items() if label in set(classes.tolist())}
    return replace(state.settings, class_weight=kept)


def _without_effect(state: State, rows: Rows, count: int) -> Update:
    """Return the same model with other rows of weight zero."""
    claim = Claim(state.claim)
    known = Known(certificate=state.certificate, expansion=state.known.expansion)
    after = replace(state, rows=rows, operator=state.problem.operator, claim=claim, known=known)
    held = int(state.held.size)

    def commit() -> None:
        claim.commit()
        state.rows.erase(rows)

    return Update(after, after.certificate.residual, held, False, False, count, commit)


def _finished(step: Step, change: Change, verify: bool, count: int) -> Update:
    """Return the update after a step."""
    state, rows = change.state, change.rows
    check = step.check(verify)
    claim = Claim(state.claim)
    certificate = step.certificate if not check.sampled else None
    # Every field has a new value: `replace` would look them all up, and cost as much as a pass over all rows.
    after = type(state)(
        rows=rows,
        settings=change.settings,
        classes=change.classes,
        solution=step.solution,
        solver=step.solver,
        reason=step.reason,
        operator=None if step.problem is None else step.problem.operator,
        requests=step.requests,
        watch=step.watch,
        is_verified=state.is_verified or not check.sampled,
        claim=claim,
        known=Known(problem=step.problem, certificate=certificate),
    )
    if change.settings.proximal:
        _ = after.expansion  # Needs the buffers as they are now: later requests change them.

    def commit() -> None:
        claim.commit()
        state.rows.erase(rows)
        step.wipe()

    return Update(after, check.residual, check.checked, check.sampled, step.refactored, count, commit)


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
