"""The squared hinge over several values of C, each solved from the answer of the one before."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.models.model import Known, warn_unless_converged
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.problems import check_costs
from squaresvm.models.state import State
from squaresvm.problem import Problem
from squaresvm.runtime.arguments import check_positive
from squaresvm.solution import Certificate, Solution
from squaresvm.solvers.choose import choose
from squaresvm.typing import FloatArray, IntArray

__all__ = ["CPath", "WithCPath", "solved_at"]


@dataclass(frozen=True, eq=False)
class CPath:
    """Models of the same rows at several C.

    Parameters
    ----------
    Cs : ndarray of shape (n_Cs,)
        In rising order.
    models : tuple of estimators
        Fitted at each C, each on its own: requests to one leave the others as they are.
    seconds : ndarray of shape (n_Cs,)
        What each took after the one before.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import RLSSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> path = RLSSVC(gamma=0.5).fit(X, y).C_path([0.1, 1.0, 10.0])
    >>> path.n_support.tolist()
    [150, 102, 43]
    >>> round(path.model(10.0).score(X, y), 3)
    0.993
    """

    Cs: FloatArray
    models: tuple[Any, ...]
    seconds: FloatArray

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """How far each model is from its optimum."""
        return tuple(model.certificate_ for model in self.models)

    @property
    def n_support(self) -> IntArray:
        """Support rows of each model."""
        return np.array([model.support_.size for model in self.models])

    @property
    def n_iter(self) -> IntArray:
        """Iterations that each took after the one before."""
        return np.array([model.n_iter_ for model in self.models])

    @property
    def intercepts(self) -> FloatArray:
        """Bias of each model, of shape (n_Cs, 1 or n_classes)."""
        return np.array([model.intercept_ for model in self.models])

    @property
    def coefs(self) -> FloatArray:
        """The vector w of each model, of shape (n_Cs, 1 or n_classes, n_features); linear kernels only."""
        return np.array([model.coef_ for model in self.models])

    def model(self, C: float) -> Any:
        """Return the fitted model at one of the Cs."""
        (place,) = np.nonzero(np.isclose(self.Cs, C, rtol=1e-9, atol=0.0))
        if place.size == 0:
            raise KeyError(f"C = {C!r} is not on the path; these are: {self.Cs.tolist()}")
        return self.models[int(place[0])]

    def decision_function(self, X: Any) -> FloatArray:
        """Return the decision values of each model, of shape (n_Cs, rows) or (n_Cs, rows, n_classes).

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)
        """
        return np.array([model.decision_function(X) for model in self.models])

    def score(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> FloatArray:
        """Return the accuracy of each model, of shape (n_Cs,).

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)
        y : array-like of shape (rows,)
        sample_weight : array-like of shape (rows,), optional
        """
        return np.array([model.score(X, y, sample_weight) for model in self.models])


class WithCPath(SquareSVMClassifier):
    """A classifier whose squared hinge can be followed over C."""

    def C_path(self, Cs: Iterable[float]) -> CPath:
        """Return models of the rows held at several C, each solved from the answer of the one before.

        The kernel is computed once, and the active set of one C is most of that of the next. Gamma and the
        class weights are those of this model, which stays as it is.

        Parameters
        ----------
        Cs : iterable of floats
            In any order; they are solved from the smallest up.

        Returns
        -------
        CPath
        """
        check_is_fitted(self)
        values = _check_Cs(Cs)
        with REQUESTS:
            # An operator of its own: later requests to this model change the one it has.
            alone = self._holding("C_path").detached()
        for C in (values[0], values[-1]):
            check_costs(C, alone.weights[alone.held], alone.held)
        problem, last = alone.problem, None
        models, seconds = [], []
        for C in values:
            start = time.perf_counter()
            last = solved_at(alone, problem, C, last)
            seconds.append(time.perf_counter() - start)
            models.append(self._at(last))
        return CPath(np.array(values), tuple(models), np.array(seconds))

    def _at(self, state: State) -> Any:
        model = self._copy()
        model.C, model._state = state.settings.C, state.detached()
        return model


def _check_Cs(Cs: Iterable[float]) -> list[float]:
    if isinstance(Cs, str) or not isinstance(Cs, Iterable):
        raise ValueError(f"Cs must be a sequence of numbers, such as [0.1, 1.0, 10.0]; got {Cs!r}")
    values = sorted({check_positive(f"Cs[{i}]", C) for i, C in enumerate(Cs)})
    if not values:
        raise ValueError("Cs is empty: give at least one value")
    return values


def solved_at(alone: State, at_hand: Problem, C: float, last: State | None) -> State:
    """Return the model at C, from the answer at the C before."""
    settings = replace(alone.settings, C=C)
    costs = C * alone.weights[alone.held]
    problem = replace(at_hand, costs=costs)
    # The factor belongs to the C before; multipliers and w do not.
    start = None if last is None else replace(last.solution, factor=None)
    solver, reason = choose(problem, settings.solver)
    solution: Solution = solver.solve(problem, tol=settings.tol, max_iter=settings.max_iter, start=start)
    state = replace(
        alone,
        settings=settings,
        solution=solution,
        solver=solver.name,
        reason=reason,
        operator=at_hand.operator,
        known=Known(problem=problem),
    )
    warn_unless_converged(state)
    return state
