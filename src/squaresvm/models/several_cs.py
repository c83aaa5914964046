"""Values of several targets whose C differ: a model for each C, of the targets that have it, side by side.

H = K + diag(1/C_i) is another matrix for another C, so targets share a factor only with those of the same C:
with g different values of C, memory and time are those of g models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from squaresvm.judging.leave_one_out import Cost
from squaresvm.judging.left_out import At, LeftOut
from squaresvm.models.model import NewRows, Settings, Update
from squaresvm.models.ownership import Claim
from squaresvm.models.state import State
from squaresvm.models.train import FitListener, train
from squaresvm.operators import StoredOperator
from squaresvm.problem import Problem
from squaresvm.rows import Rows
from squaresvm.solution import Certificate, Solution, Status
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["SeveralCs", "train_each"]

#: Which of two statuses is said of both together: the later one.
_STATUSES = (Status.CONVERGED, Status.PRECISION, Status.STOPPED, Status.MAX_ITER)


def train_each(
    rows: Rows,
    settings: Settings,
    Cs: FloatArray,
    operator: StoredOperator | None = None,
    log: FitListener | None = None,
) -> SeveralCs:
    """Return the model of rows whose targets have C of their own.

    Parameters
    ----------
    rows : Rows
        With y of shape (m, k).
    settings : Settings
        But for C.
    Cs : ndarray of shape (k,)
    operator : StoredOperator, optional
        Where K is at hand already; each C works on a copy.
    log : FitListener, optional
    """
    parts: list[State] = []
    columns = [np.flatnonzero(Cs == C) for C in np.unique(Cs)]
    for own in columns:
        if parts and isinstance(settings.solver, str):
            settings = replace(settings, solver=parts[0].solver)  # One for all: `solver_` is one name.
        part = replace(settings, C=float(Cs[own[0]]))
        alone = replace(rows.private(), y=rows.y[:, own])
        parts.append(train(alone, part, None if operator is None else operator.private(), log))
    return SeveralCs.of(parts, columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class SeveralCs(State):
    """A model of several targets, of which not all have the same C.

    Parameters
    ----------
    parts : tuple of State
        One for each C, in rising order, each with all rows and its own targets.
    columns : tuple of ndarrays
        Which targets these are.
    """

    parts: tuple[State, ...]
    columns: tuple[IntArray, ...]

    @classmethod
    def of(cls, parts: Sequence[State], columns: Sequence[IntArray]) -> SeveralCs:
        """Return the models of some targets each as one model of all."""
        first, order = parts[0], np.argsort(np.concatenate(columns))

        def together(arrays: Sequence[Any]) -> Any:
            missing = any(array is None for array in arrays)
            return None if missing else np.concatenate(arrays, axis=-1)[..., order]

        solutions = [part.solution for part in parts]
        solution = Solution(
            beta=together([each.beta for each in solutions]),
            primal=together([each.primal for each in solutions]),
            bias=together([each.bias for each in solutions]),
            n_iter=max(each.n_iter for each in solutions),
        )
        return cls(
            settings=first.settings,
            classes=None,
            solution=solution,
            solver=first.solver,
            reason=f"{len(parts)} values of C, a model for each: {first.reason}",
            rows=replace(first.rows, y=together([part.rows.y for part in parts])),
            operator=None,
            parts=tuple(parts),
            columns=tuple(columns),
        )

    @property
    def by_cost(self) -> tuple[tuple[Any, Any], ...]:
        """The targets of each C, and the model of them."""
        return tuple(zip(self.columns, self.parts, strict=True))

    @property
    def C(self) -> FloatArray:
        """C of each target."""
        return self._together([np.full(own.size, part.settings.C) for own, part in self.by_cost])

    def _together(self, values: Sequence[FloatArray]) -> FloatArray:
        """Return what the models say of their targets, in the order of the targets."""
        return np.concatenate(values, axis=-1)[..., np.argsort(np.concatenate(self.columns))]

    # What is asked of each model -------------------------------------------------------------------

    @property
    def problem(self) -> Problem:
        """There is none: a ValueError says so."""
        raise ValueError(
            "targets with different C are separate problems, and this is defined for one only: fit with "
            "C_per_target=False, or a model for each target"
        )

    @property
    def certificate(self) -> Certificate:
        """The worst residual, and sums, over all values of C."""
        each = [part.certificate for part in self.parts]
        worst = max(range(len(each)), key=lambda place: each[place].residual)
        errors = [one.decision_error for one in each if one.decision_error is not None]
        return Certificate(
            residual=each[worst].residual,
            gap=sum(one.gap for one in each),
            objective=sum(one.objective for one in each),
            status=max((one.status for one in each), key=_STATUSES.index),
            decision_error=max(errors, default=None),
            column=int(self.columns[worst][each[worst].column]),
        )

    @property
    def primal(self) -> FloatArray | None:
        """The vector w, of shape (n, k), of a linear model; None for other kernels."""
        each = [part.primal for part in self.parts]
        return self._together([w for w in each if w is not None]) if self.settings.is_linear else None

    @property
    def expansion(self) -> FloatArray:
        """Coefficients of k(x_i, .) in f, of shape (m, k), over the problem's rows."""
        return self._together([part.expansion for part in self.parts])

    def decision(self, X: Matrix) -> FloatArray:
        """Return f at new rows, of shape (rows, k)."""
        return self._together([part.decision(X) for part in self.parts])

    def variances(self, X: Matrix) -> FloatArray:
        """Return the variance of f at new rows, of shape (rows, k), of the Gaussian processes that it is."""
        return self._together([part.variances(X) for part in self.parts])

    def leave_one_out(self, fixed: bool = False) -> FloatArray:
        """Return f at each row of positive weight, of the model without that row, of shape (m, k)."""
        return self._at_cost(lambda part: part.leave_one_out(fixed))

    def without_folds(self, folds: Sequence[IntArray]) -> FloatArray:
        """Return f at each row of positive weight, of the model without its fold, of shape (m, k)."""
        return self._at_cost(lambda part: part.without_folds(folds))

    def _at_cost(self, asked: Callable[[State], FloatArray]) -> FloatArray:
        values = self._together([asked(part) for part in self.parts])
        costs = [cost for part in self.parts if (cost := part.known.loo_cost) is not None]
        self.known.loo_cost = Cost(0, 0, sum(cost.seconds for cost in costs))
        return values

    def left_out(self, steps: list[int] | None = None) -> LeftOut:
        """Return the models without some of the rows of positive weight."""
        return _LeftOut(self, [part.left_out(steps) for part in self.parts])

    # From one state to the next --------------------------------------------------------------------

    def learn(self, new: NewRows) -> Update:
        """Return the model with new rows."""
        return self._updated([part.learn(replace(new, y=new.y[:, own])) for own, part in self.by_cost])

    def forget(self, positions: IntArray, *, verify: bool = False) -> Update:
        """Return the model without the rows at some positions."""
        return self._updated([part.forget(positions, verify=verify) for part in self.parts])

    def _updated(self, updates: list[Update]) -> Update:
        states = [update.model.holding("targets with C of their own") for update in updates]

        def commit() -> None:
            for update in updates:
                update.commit()

        return Update(
            SeveralCs.of(states, self.columns),
            max(update.residual for update in updates),
            min(update.checked for update in updates),
            any(update.sampled for update in updates),
            any(update.refactored for update in updates),
            updates[0].rows,
            commit,
        )

    def flushed(self) -> SeveralCs:
        """Return the model with nothing left in its factors that stems from forgotten rows."""
        parts = [part.flushed() for part in self.parts]
        same = all(now is then for now, then in zip(parts, self.parts, strict=True))
        return self if same else self._kept(SeveralCs.of(parts, self.columns))

    def detached(self) -> SeveralCs:
        """Return the same model with stores, factors and rows of its own."""
        return self._kept(SeveralCs.of([part.detached() for part in self.parts], self.columns))

    def _kept(self, other: SeveralCs) -> SeveralCs:
        return replace(other, known=self.known.without_buffers())

    def __getstate__(self) -> dict[str, Any]:
        """Return what the parts are."""
        return {"parts": self.parts, "columns": self.columns}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Restore a model from its parts, the owner of a line of its own."""
        self.__dict__.update(SeveralCs.of(kept["parts"], kept["columns"]).__dict__, claim=Claim())


class _LeftOut:
    """The models without some rows, of all values of C side by side."""

    def __init__(self, model: SeveralCs, each: list[LeftOut]) -> None:
        self._model, self._each = model, each

    def values(self, rows: IntArray) -> FloatArray:
        """Return f at the rows, of the model without them."""
        return self._model._together([without.values(rows) for without in self._each])

    def at(self, probes: Matrix) -> At:
        """Return what takes rows to f at the probes."""
        each = [without.at(probes) for without in self._each]
        return lambda rows: self._model._together([values(rows) for values in each])
