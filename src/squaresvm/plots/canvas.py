"""What all plots share: axes, colours, shapes, and whose model it is."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from squaresvm.estimators.base import SquareSVM
from squaresvm.estimators.classifier_base import SquareSVMClassifier
from squaresvm.models.model import Model
from squaresvm.runtime.extras import install_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "check_classifier",
    "check_model",
    "colour",
    "line_style",
    "make_axes",
    "make_figure",
    "marker",
    "panel_below",
    "tint",
]

#: Okabe and Ito's colours, the darker ones first, and shapes that stay apart in print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_STYLES = ("solid", "dashed", "dashdot", "dotted")


def colour(index: int) -> str:
    """Return the colour of the class at `index`."""
    return _COLOURS[index % len(_COLOURS)]


def marker(index: int) -> str:
    """Return the shape of the class at `index`."""
    return _MARKERS[index % len(_MARKERS)]


def line_style(index: int) -> str:
    """Return the line style of the class at `index`."""
    return _STYLES[index % len(_STYLES)]


def tint(index: int) -> tuple[float, float, float]:
    """Return the colour of the class at `index`, three quarters of it white."""
    code = colour(index)
    parts = (int(code[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
    red, green, blue = (0.75 + 0.25 * part for part in parts)
    return red, green, blue


def make_axes(ax: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    _check_matplotlib()
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def make_figure(size: tuple[float, float]) -> Figure:
    """Return a figure, of so many inches, that no window knows of: for files alone."""
    _check_matplotlib()
    from matplotlib.figure import Figure

    return Figure(size, layout="constrained")


def _check_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise ImportError(f"plots need matplotlib, which is not installed: {install_line('plot')}")


def panel_below(ax: Axes, share: float) -> Axes:
    """Return new axes that take this share, the lower one, of the room of `ax`, with the same x."""
    figure, place = ax.figure, ax.get_subplotspec()
    current = figure.gca()
    if place is None:
        left, bottom, width, height = ax.get_position().bounds
        gap = 0.04 * height
        ax.set_position((left, bottom + share * height + gap, width, (1.0 - share) * height - gap))
        below = figure.add_axes((left, bottom, width, share * height), sharex=ax)
    else:
        parts = place.subgridspec(2, 1, height_ratios=[1.0 - share, share], hspace=0.08)
        ax.set_subplotspec(parts[0])
        below = figure.add_subplot(parts[1], sharex=ax)
    figure.sca(current)  # Whoever goes on drawing expects the axes that were current before.
    ax.tick_params(labelbottom=False)
    return below


def check_model(estimator: Any, what: str) -> Model:
    """Return the state of a fitted estimator of the package."""
    if not isinstance(estimator, SquareSVM):
        raise TypeError(
            f"{what} takes a fitted estimator of squaresvm; got {type(estimator).__name__}. Of a Window give "
            "its estimator_, of a pipeline its last step"
        )
    check_is_fitted(estimator)
    return estimator._current()


def check_classifier(estimator: Any, what: str) -> Model:
    """Return the state of a fitted classifier of the package."""
    state = check_model(estimator, what)
    if not isinstance(estimator, SquareSVMClassifier):
        raise TypeError(f"{what} takes a classifier; got {type(estimator).__name__}")
    return state
