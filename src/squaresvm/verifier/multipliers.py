"""What is true of a model in multipliers, whose rows are in memory."""

from __future__ import annotations

import numpy as np

from squaresvm.typing import FloatArray
from squaresvm.verifier.conditions import (
    NEGLIGIBLE,
    OWN,
    UNIT,
    Reach,
    Truth,
    bias_residual,
    gap_rounding_of,
    is_penalised,
    scale_of,
    slack,
)
from squaresvm.verifier.kernel_values import KernelValues
from squaresvm.verifier.reading import Settings
from squaresvm.verifier.wide import Wide

__all__ = ["judge_multipliers"]


def judge_multipliers(
    kernel: KernelValues,
    settings: Settings,
    y: FloatArray,
    weights: FloatArray,
    beta: FloatArray,
    b: FloatArray,
) -> tuple[Truth, tuple[Wide, FloatArray] | None]:
    """Return what is true of multipliers, and of a proximal SVM its coefficients W K beta and their rounding.

    Parameters
    ----------
    kernel : KernelValues
    settings : Settings
    y, beta : ndarray of shape (m, k)
    weights : ndarray of shape (m,)
    b : ndarray of shape (k,)
    """
    costs, A, is_hinge = (settings.C * weights)[:, None], settings.A, settings.is_hinge
    k = beta.shape[1]
    step = _step(y, beta, is_hinge, A == 0.0)
    moves = bool(step.any())
    both = np.hstack([beta, step]) if moves else beta
    found, norms, expansion = kernel.times(both), np.maximum(kernel.diagonal.hi, 0.0), None
    if settings.proximal:
        inner, sizes = found.values * weights[:, None], weights[:, None] * found.sizes
        expansion = inner[:, :k], UNIT * sizes[:, :k]
        found = kernel.times(inner, sizes)
        norms = norms * float(weights @ norms)  # (K W K)_ii <= K_ii sum_l w_l K_ll, by Cauchy and Schwarz.
    product_, lost = found.values[:, :k], found.sizes[:, :k]
    f = product_ + b
    error = y - f
    xi = slack(y, error, is_hinge)
    share = Wide.of(beta) / costs
    r = share - error
    rounding = UNIT * (lost + np.abs(share.hi) + np.abs(b) + np.abs(y))
    size, total = np.abs(beta).sum(axis=0), Wide.total(beta)
    # The residual.
    scale = scale_of(np.abs(y).max(axis=0), is_hinge)
    if is_hinge:
        h = kernel.diagonal.hi[:, None] + 1.0 / costs + (1.0 / A if is_penalised(A) else 0.0)
        rows = np.abs(np.minimum(h * y * beta, y * r.hi)).max(axis=0)
        rows_lost = np.maximum(rounding, UNIT * np.abs(h * beta)).max(axis=0)
    else:
        rows, rows_lost = np.abs(r.hi).max(axis=0) / scale, rounding.max(axis=0) / scale
    _, of_bias = bias_residual(A, b, total, size)
    # The objective.
    penalty = A * b**2 if np.isfinite(A) else np.zeros_like(b)
    loss = (xi * xi * costs).sums()
    norm = (product_ * beta).sums()
    objective = 0.5 * (norm + loss + penalty)
    objective_lost = (np.abs(beta) * rounding + costs * rounding * (np.abs(xi.hi) + rounding)).sum(axis=0)
    objective_lost = 2.0 * objective_lost + UNIT * (np.abs(norm) + loss + penalty)
    # The gap, by (3).
    feasible = Wide.of(beta) - step
    mismatch = xi - feasible / costs
    terms = (mismatch * mismatch * costs).sums()
    if moves:
        terms = terms + np.maximum((found.values[:, k:] * step).sums(), 0.0)
    beyond = np.zeros_like(terms)
    if is_hinge:
        over = (-(error * y)).where(y * error.hi < 0.0)
        terms = terms + 2.0 * (over * feasible.size).sums()
        beyond = (np.abs(feasible.hi) * np.where(-y * error.hi > -rounding, rounding, 0.0)).sum(axis=0)
    of_step = UNIT * size * np.sqrt(norms.max())
    of_total = np.zeros_like(b)
    if is_penalised(A):
        terms = terms + bias_residual(A, b, Wide.total(feasible), size)[0] ** 2 / A
        of_total = UNIT * (A * np.abs(b) + size) / np.sqrt(A)
    noise = np.sqrt((costs * rounding**2).sum(axis=0)) + of_step + of_total
    gap = 0.5 * terms
    room = np.abs(xi.hi) if is_hinge else np.full_like(beta, np.inf)
    own = gap_rounding_of(terms, OWN * noise, OWN * beyond)
    reach = [Reach.of(costs[:, 0], norms, room[:, j], gap[j] + own[j]) for j in range(k)]
    truth = Truth(
        residual=np.maximum(rows, of_bias),
        gap=gap,
        objective=objective,
        residual_rounding=np.maximum(rows_lost, 0.0 if np.isinf(A) else UNIT),
        gap_rounding=gap_rounding_of(terms, noise, beyond) + NEGLIGIBLE,
        objective_rounding=objective_lost,
        decision_error=np.array([each.bound(A) for each in reach]) + rounding.max(axis=0),
        rows=int(y.shape[0]),
    )
    return truth, expansion


def _step(y: FloatArray, beta: FloatArray, is_hinge: bool, is_free: bool) -> FloatArray:
    """Return beta less the feasible point beside it; in float64, as it is next to nothing."""
    if not is_hinge:
        mean = Wide.total(beta) / float(beta.shape[0])
        return np.broadcast_to(mean.hi, beta.shape) if is_free else np.zeros_like(beta)
    right = np.where(y * beta > 0.0, beta, 0.0)
    if not is_free:
        return beta - right
    up, down = Wide.total(np.maximum(right, 0.0)), Wide.total(np.maximum(-right, 0.0))
    lighter = np.minimum(up.hi, down.hi)
    # 1 - lighter / heavier, from the difference of both: a quotient near one would lose its digits.
    surplus = np.abs((up - down).hi)
    share = np.divide(surplus, lighter + surplus, out=np.zeros_like(lighter), where=lighter + surplus > 0.0)
    heavy = np.where((up - down).hi > 0.0, right > 0.0, right < 0.0)
    return np.asarray((beta - right) + np.where(heavy, share * right, 0.0))
