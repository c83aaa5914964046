"""The compiled loops, put to blocks: what :mod:`squaresvm.problem.passes` calls where rows are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from squaresvm.factors import Moments
from squaresvm.family import Loss
from squaresvm.problem._loops import compare_rows, evaluate_rows, scatter_rows, verify_rows
from squaresvm.problem.passes import RowBlock, Sums, Weighing
from squaresvm.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from squaresvm.problem.passes import Verify

__all__ = ["compare", "evaluate", "moments", "verify"]


def evaluate(block: RowBlock, loss: Loss, w: FloatArray, b: FloatArray) -> tuple[Sums, BoolArray]:
    """Return the sums over one block, and which rows are active, of shape (rows, 1)."""
    in_w, active = np.zeros(w.shape[0]), np.empty(block.costs.size, dtype=bool)
    found = evaluate_rows(
        block.Z,
        block.targets[:, 0],
        *_costs(block),
        np.ascontiguousarray(w[:, 0]),
        float(b[0]),
        loss == Loss.SQUARED_HINGE,
        in_w,
        active,
    )
    return Sums(np.array([found[0]]), in_w[:, None], np.array([found[1]])), active[:, None]


def compare(
    block: RowBlock, w: FloatArray, b: FloatArray, former_w: FloatArray, former_b: FloatArray
) -> tuple[Sums, BoolArray, BoolArray]:
    """Return the sums over one block, and which rows are active at either point, of shape (rows, 1)."""
    in_w = np.zeros(w.shape[0])
    active, was_active = np.empty((2, block.costs.size), dtype=bool)
    found = compare_rows(
        block.Z,
        block.targets[:, 0],
        *_costs(block),
        np.ascontiguousarray(w[:, 0]),
        float(b[0]),
        np.ascontiguousarray(former_w[:, 0]),
        float(former_b[0]),
        in_w,
        active,
        was_active,
    )
    sums = Sums(np.array([found[0]]), in_w[:, None], np.array([found[1]]))
    return sums, active[:, None], was_active[:, None]


def moments(block: RowBlock, rows: BoolArray) -> Moments:
    """Return the moments of some rows."""
    n = block.Z.shape[1]
    # Any origin among the rows keeps the digits that sums of squares of large means would lose.
    origin = np.asarray(block.Z[:64].mean(axis=0), dtype=np.float64)
    first, second, response = np.zeros(n), np.zeros((n, n)), np.zeros(n)
    total, target, squares = scatter_rows(
        block.Z,
        block.targets[:, 0],
        *_costs(block),
        np.ascontiguousarray(rows),
        origin,
        first,
        second,
        response,
    )
    if total == 0.0:
        return Moments(0.0, np.zeros(n), second, np.zeros(1), np.zeros((n, 1)), np.zeros(1))
    second = np.tril(second) + np.tril(second, -1).T
    mean, level = first / total, target / total
    return Moments(
        total,
        origin + mean,
        second - np.outer(first, mean),
        np.array([level]),
        (response - first * level)[:, None],
        np.array([squares - target * level]),
    )


def verify(block: RowBlock, task: Verify) -> tuple[FloatArray, Weighing]:
    """Return the worst row, of shape (1,), and sums."""
    at = task.at
    up = np.zeros(block.Z.shape[1] if task.needs_sides else 0)
    worst, size, sum_up, loss_up = verify_rows(
        block.Z,
        block.targets[:, 0],
        *_costs(block),
        np.ascontiguousarray(at.w[:, 0]),
        float(at.b[0]),
        np.ascontiguousarray((task.in_w - at.w)[:, 0]),
        at.loss == Loss.SQUARED_HINGE,
        1.0 / task.penalty if task.penalty > 0.0 else 0.0,
        up,
    )
    above = up[:, None] if task.needs_sides else np.zeros_like(at.w)
    ridge, column = task.centring(block)
    weighing = Weighing(
        np.array([size]),
        above,
        np.array([sum_up]),
        np.array([loss_up]),
        ridge,
        column,
        block.costs.size,
    )
    return np.array([worst]), weighing


def _costs(block: RowBlock) -> tuple[FloatArray, int]:
    """Return the costs, and how far each row's is from the one before: equal ones may be one number."""
    if block.costs.strides == (0,):
        return np.array([block.costs[0]]), 0
    return block.costs, 1
