"""How good a model is, in figures that stand beside what guessing would give."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from squaresvm.cli.console import Printer
from squaresvm.cli.inputs import Data
from squaresvm.judging.figures import Figure, accuracy_figures, against_guessing, value_figures
from squaresvm.models.model import labels_of
from squaresvm.problem import Loss
from squaresvm.readers.preparation import PreparedRows

__all__ = ["TrainingFigures", "figures_of", "training_figures"]

#: Rows up to which leave-one-out values are worth the wait, which is about that of the fit.
_FEW_ROWS = 4000


@dataclass(frozen=True)
class TrainingFigures:
    """Figures of the rows that a model was trained on.

    Parameters
    ----------
    seen : list of Figure
        By the model itself, which has seen the rows.
    left_out : list of Figure
        By the model without each row; empty where that was not computed.
    reason : str
        Why not.
    """

    seen: list[Figure]
    left_out: list[Figure]
    reason: str = ""

    def lines(self) -> list[str]:
        """Return the figures for people, and what to make of them."""
        if not self.left_out:
            return [f"Training: {self.seen[0]}, of rows that the model has seen. {self.reason}"]
        main, seen = self.left_out[0], self.seen[0]
        lines = [f"Exact leave-one-out {figure}." for figure in self.left_out[:2]]
        gap = seen.value - main.value
        words = "of rows that the model has seen"
        if gap > 2.0 * (main.error or 0.0):
            words += ": judge it by leave-one-out, for it fits rows that it has seen better than new ones"
        lines.append(f"Training {seen.name} {seen.value:.3f}, {words}.")
        words = against_guessing(self.left_out)
        return [*lines, words] if words else lines

    def facts(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return {
            "loo_score": self.left_out[0].value if self.left_out else None,
            "leave_one_out": [asdict(figure) for figure in self.left_out],
            "training": [asdict(figure) for figure in self.seen],
        }


def figures_of(y: Any, predicted: Any, weights: Any, is_classifier: bool) -> list[Figure]:
    """Return figures of labels, or of values."""
    return accuracy_figures(y, predicted, weights) if is_classifier else value_figures(y, predicted, weights)


def training_figures(model: Any, rows: Data, printer: Printer, wanted: bool | None) -> TrainingFigures:
    """Return the figures of a model that has just been trained.

    Parameters
    ----------
    model : estimator
    rows : Data
        That it was trained on.
    printer : Printer
    wanted : bool or None
        Whether to compute leave-one-out values; None: where they cost about as much as the fit.
    """
    is_classifier = hasattr(model, "classes_")
    weights = np.ones(rows.y.shape[0]) if rows.weights is None else rows.weights
    X = rows.X.view(PreparedRows) if rows.preparation is not None else rows.X
    seen = figures_of(rows.y, model.predict(X), weights, is_classifier)
    reason = _reason(model, wanted)
    if reason:
        return TrainingFigures(seen, [], reason)
    with printer.working("Leaving one row out"):
        state, values = model._loo_inside()
    found = labels_of(state, values) if is_classifier else values[:, 0]
    held = state.held
    return TrainingFigures(
        seen, figures_of(state.rows.y[held], found, state.given_weights[held], is_classifier)
    )


def _reason(model: Any, wanted: bool | None) -> str:
    """Return why leave-one-out values are not computed; nothing where they are."""
    if model._state.held.size < 2:
        return "Leaving one out needs two rows."
    if wanted is False:
        return "Leave-one-out figures were not asked for."
    if wanted is None and model._loss != Loss.SQUARED:
        return "Leave-one-out figures of this loss take a solve for each support row: --loo computes them."
    if wanted is None and model.ids_.size > _FEW_ROWS:
        return f"Leave-one-out figures of more than {_FEW_ROWS} rows take a while: --loo computes them."
    return ""
