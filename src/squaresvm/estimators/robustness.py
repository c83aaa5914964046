"""Estimators that can weigh rows by their residuals."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from squaresvm.estimators.base import SquareSVM
from squaresvm.judging.robust import Robust, robust_weights
from squaresvm.models.model import Settings
from squaresvm.models.ownership import Claim
from squaresvm.models.state import State
from squaresvm.models.train import train
from squaresvm.operators import Operator
from squaresvm.rows import Rows
from squaresvm.streaming import Source
from squaresvm.typing import FloatArray

__all__ = ["Reweighting"]


class Reweighting(SquareSVM):
    """A squared loss that may bound the influence of outliers; see :mod:`squaresvm.judging.robust`."""

    robust: int | Robust

    def _check_parameters(self) -> None:
        super()._check_parameters()
        Robust.of(self.robust)

    def _fit_source(self, source: Source, y: Any, sample_weight: Any, ids: Any, checkpoint: Any) -> Self:
        if Robust.of(self.robust).rounds:
            raise ValueError("robust weights need the rows, and a source keeps none: set robust=0")
        return super()._fit_source(source, y, sample_weight, ids, checkpoint)

    def _trained(
        self, rows: Rows, settings: Settings, operator: Operator | None, claim: Claim | None = None
    ) -> State:
        state = super()._trained(rows, settings, operator, claim)
        robust = Robust.of(self.robust)
        weights, last = rows.weights[state.held], np.ones(state.held.size)
        for _ in range(robust.rounds):
            residuals = state.problem.targets - state.problem.decision(state.solution)
            factors = robust_weights(residuals, weights, robust.c1, robust.c2)
            if np.array_equal(factors, last):
                break
            every = np.ones(rows.count)
            every[state.held] = last = factors
            # The same rows are in the problem, so K is at hand.
            state = train(
                rows.reweighted(every), settings, state.problem.operator, self._fit_log(), state.claim
            )
        return state

    @property
    def robust_weights_(self) -> FloatArray:
        """What the weight of each row held was multiplied by at fit, in the order of ``ids_``."""
        rows: Rows = self._fitted("robust_weights_").attribute("rows")
        if rows.given is None:
            return np.ones(rows.count)
        return np.divide(rows.weights, rows.given, out=np.ones(rows.count), where=rows.given > 0)
