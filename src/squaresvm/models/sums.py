"""Linear models with squared loss: the sums over the rows are all that learning and forgetting need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from squaresvm.factors import Moments, MomentsFactor
from squaresvm.linalg.products import times
from squaresvm.models.state import State, encode
from squaresvm.problem import Loss
from squaresvm.problem.products import is_wide
from squaresvm.rows import Rows
from squaresvm.solution import Solution
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["apply_to", "forget", "learn"]

#: Rows on which the residual is taken between full passes.
_SAMPLE = 64
#: Loss of relative accuracy by subtraction after which the sums are taken anew.
_DIGITS = 1e4
#: Requests between two passes over all rows.
_REQUESTS = 64


def apply_to(state: State) -> bool:
    """Return whether the model is linear, of squared loss, solved in w, and has sums or is narrow enough."""
    solution = state.solution
    if state.settings.loss is not Loss.SQUARED or solution.primal is None:
        return False
    return isinstance(solution.factor, MomentsFactor) or not is_wide(solution.primal.shape[0])


def forget(
    state: State, positions: IntArray, rest: Rows, classes: np.ndarray[Any, Any] | None
) -> tuple[State, float, bool, bool]:
    """Return the model without rows of positive weight, its residual, and how that came about."""
    rows, settings = state.rows, state.settings
    y = rows.y[positions]
    costs = settings.C * settings.row_weights(y, rows.weights[positions])
    block = Moments.of(rows.take(positions), costs, encode(y, state.classes))
    return _moved(state, rest, classes, block, -1.0)


def learn(
    state: State, added: Rows, weights: FloatArray, rows: Rows, classes: np.ndarray[Any, Any] | None
) -> tuple[State, float, bool, bool]:
    """Return the model with new rows, its residual, and how that came about."""
    counts = weights > 0
    y, X = added.y[counts], added.X[np.flatnonzero(counts)]
    block = Moments.of(X, state.settings.C * weights[counts], encode(y, classes))
    return _moved(state, rows, classes, block, 1.0)


def _moved(
    state: State, rows: Rows, classes: np.ndarray[Any, Any] | None, block: Moments, sign: float
) -> tuple[State, float, bool, bool]:
    after = replace(state, rows=rows, classes=classes, operator=None)
    requests = state.requests + 1
    factor = state.solution.factor
    if classes is not state.classes or not isinstance(factor, MomentsFactor) or requests >= _REQUESTS:
        solved, residual = _anew(after)
        return solved, residual, False, True
    moments = factor.moments.plus(block) if sign > 0 else factor.moments.minus(block)
    if moments.loss_of_digits() > _DIGITS:
        solved, residual = _anew(after)
        return solved, residual, False, True
    moved = MomentsFactor(moments, state.settings.bias)
    w, b = moved.minimum()
    gw, gb = moved.gradient(w, b)
    dw, db = moved.step(-gw, -gb)
    solution = Solution(primal=w + dw, bias=b + db, factor=moved)
    after = replace(after, solution=solution, requests=requests)
    residual = _sampled_residual(after, moved)
    if residual > state.settings.tol:
        solved, residual = _anew(after)
        return solved, residual, False, True
    return after, residual, True, False


def _anew(state: State) -> tuple[State, float]:
    """Return the model with sums taken anew over all rows, and its residual."""
    problem = replace(state, operator=None).problem
    factor = MomentsFactor(problem.linear.moments(), problem.bias)
    w, b = factor.minimum()
    dw, db = factor.step(*problem.descent(Solution(primal=w, bias=b)))
    solution = Solution(primal=w + dw, bias=b + db, factor=factor)
    after = replace(state, solution=solution, operator=problem.operator, requests=0)
    return after, after.certificate.residual


def _sampled_residual(state: State, factor: MomentsFactor) -> float:
    """Return max |z_i'g| over some rows, where g is the gradient by the sums: r = -Z g (theory)."""
    assert state.solution.primal is not None
    gw, gb = factor.gradient(state.solution.primal, state.solution.bias)
    rows = np.random.default_rng().integers(state.rows.count, size=_SAMPLE)
    Z: Matrix = state.rows.take(np.unique(rows))
    scale = 1.0 if state.classes is not None else float(np.abs(state.rows.y[rows]).max()) or 1.0
    size = state.settings.C * state.rows.count
    return float(max(np.abs(times(Z, gw)).max() / scale, np.abs(gb).max() / size))
