"""What training has found: what columns are taken for, the best C and gamma, and figures beside guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm.cli.console import Printer, counted
from squaresvm.cli.inputs import Data
from squaresvm.judging.figures import Figure, accuracy_figures, against_guessing, value_figures
from squaresvm.models.model import labels_of
from squaresvm.problem import Loss
from squaresvm.readers.plan import ColumnPlan
from squaresvm.readers.preparation import PreparedRows

__all__ = [
    "REPEATED_IDS",
    "TrainingFigures",
    "Tuning",
    "figures_of",
    "ids_repeat",
    "say_plan",
    "say_unusual",
    "training_figures",
    "tuned",
]

#: Rows up to which leave-one-out values are worth the wait, which is about that of the fit.
_FEW_ROWS = 4000


#: What to say of leave-one-out figures where ids are those of customers or patients.
REPEATED_IDS = (
    "Some ids name several rows: leaving one row out keeps the others of its id, so that for new ids these "
    "figures may be too good."
)


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
    ids_repeat : bool, default=False
        Whether some rows share an id.
    """

    seen: list[Figure]
    left_out: list[Figure]
    reason: str = ""
    ids_repeat: bool = False

    def lines(self) -> list[str]:
        """Return the figures for people, and what to make of them."""
        if not self.left_out:
            return [f"Training: {self.seen[0]}, of rows that the model has seen. {self.reason}"]
        main, seen = self.left_out[0], self.seen[0]
        lines = [f"Exact leave-one-out {figure}." for figure in self.left_out[:2]]
        if self.ids_repeat:
            lines.append(REPEATED_IDS)
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
        seen,
        figures_of(state.rows.y[held], found, state.given_weights[held], is_classifier),
        ids_repeat=ids_repeat(model),
    )


def ids_repeat(model: Any) -> bool:
    """Return whether an id of a model names several rows."""
    ids = model.ids_.tolist()
    return len(set(ids)) < len(ids)


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


# What columns are taken for ------------------------------------------------------------------------------


def say_plan(printer: Printer, plans: Sequence[ColumnPlan], data: Path, shape: tuple[int, ...]) -> None:
    """Print what every column is taken for, and that nothing was trained."""
    rows, columns = shape
    width = max((len(plan.name) for plan in plans), default=0)
    for plan in plans:
        gaps = f"; {counted(plan.missing, 'cell')} without a value" if plan.missing else ""
        note = f"; {plan.note}" if plan.note else ""
        printer.say(f"{plan.name:<{width}}  {plan.kind:<9} {plan.detail}{gaps}{note}".rstrip())
    made = f"{counted(int(rows), 'row')} of {counted(int(columns), 'column')} of numbers"
    printer.say(f"{data}: {made} would be trained on; no model was fitted.")
    printer.result({"rows": rows, "columns": columns, "plan": [asdict(plan) for plan in plans]})


def say_unusual(printer: Printer, plans: Sequence[ColumnPlan]) -> None:
    """Note what was read otherwise than as plain numbers and words, and what was left out."""
    for plan in plans:
        if plan.kind == "left out" and plan.detail != "as asked":
            printer.note(f"column {plan.name!r} is left out: {plan.detail}")
        elif plan.kind == "date" or (plan.kind == "number" and "(" in plan.detail):
            printer.note(f"column {plan.name!r} is taken for {plan.kind}s: {plan.detail}")
        if plan.note:
            printer.note(f"column {plan.name!r} {plan.note}")


# What tuning chose ---------------------------------------------------------------------------------------

#: Parameters that a search takes from the command line as the fit does.
_SHARED = ("kernel", "degree", "coef0", "tol", "class_weight")
#: Times that the grid is made wider, and the range of C and gamma (by 'scale') in which it stays.
_WIDENED = 3
_RANGE = (1e-8, 1e8)


@dataclass(frozen=True)
class Tuning:
    """What a search chose.

    Parameters
    ----------
    best : dict
        C, and gamma where the kernel has one.
    score : float
        The largest score on the grid: of many, and so too good.
    cells : int
        Pairs of C and gamma that were tried.
    score_name : str
    ranges : dict
        Smallest and largest value that was tried of each.
    widened : int
        How often the grid was made wider because the best was at its edge.
    """

    best: dict[str, float]
    score: float
    cells: int
    score_name: str
    ranges: dict[str, tuple[float, float]]
    widened: int

    @property
    def at_edge(self) -> list[str]:
        """What is best at an edge of the grid still."""
        return [name for name, value in self.best.items() if value in self.ranges[name]]

    def lines(self) -> list[str]:
        """Return what was chosen for people."""
        chosen = ", ".join(f"{name} = {value:.6g}" for name, value in self.best.items())
        lines = [
            f"Tuned: {chosen}, with the largest leave-one-out {self.score_name} of {self.cells} tried, "
            f"{self.score:.4f}; as the best of many it is optimistic."
        ]
        if self.widened:
            lines.append("The best was at the edge of the grid, which was made wider.")
        for name in self.at_edge:
            low, high = self.ranges[name]
            lines.append(f"{name} is still best at the edge of what was tried, {low:.3g} to {high:.3g}.")
        return lines

    def facts(self) -> dict[str, Any]:
        """Return what was chosen as JSON."""
        return {**asdict(self), "at_edge": self.at_edge}


def tuned(model: Any, rows: Data) -> Tuning:
    """Return the best C and gamma by exact leave-one-out; a grid with the best at its edge is widened.

    Parameters
    ----------
    model : LSSVC or LSSVR
        With the parameters that are not searched.
    rows : Data
    """
    from squaresvm import search

    searches: dict[str, Any] = {"LSSVC": search.LSSVCCV, "LSSVR": search.LSSVRCV}
    shared = {name: getattr(model, name) for name in _SHARED if hasattr(model, name)}
    make = searches[type(model).__name__]
    grid: dict[str, Any] = {}
    for widened in range(_WIDENED + 1):
        found = make(**shared, **grid).fit(rows.X, rows.y, sample_weight=rows.weights)
        tried_cells = found.cv_results_["params"]
        values = {name: sorted({cell[name] for cell in tried_cells}) for name in found.best_params_}
        wider = {f"{name}s": _wider(tried, found.best_params_[name]) for name, tried in values.items()}
        if widened == _WIDENED or all(len(wider[f"{name}s"]) == len(values[name]) for name in values):
            break
        grid = wider
    kind = "R2" if not hasattr(model, "class_weight") else "accuracy"
    name = f"balanced {kind}" if getattr(model, "class_weight", None) == "balanced" else kind
    ranges = {each: (tried[0], tried[-1]) for each, tried in values.items()}
    cells = len(tried_cells)
    best = {each: float(value) for each, value in found.best_params_.items()}
    return Tuning(best, float(found.best_score_), cells, name, ranges, widened)


def _wider(tried: list[float], best: float) -> list[float]:
    """Return the values with four more beyond the edge at which the best is; the same where it is at none."""
    if len(tried) < 2 or best not in (tried[0], tried[-1]):
        return tried
    step = tried[1] / tried[0]
    if best == tried[0]:
        more = [tried[0] / step**power for power in range(4, 0, -1)]
    else:
        more = [tried[-1] * step**power for power in range(1, 5)]
    return sorted({*tried, *(value for value in more if _RANGE[0] <= value <= _RANGE[1])})
