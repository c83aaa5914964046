"""Pictures of the reports, as SVG inside the page: curves over a parameter, and regions in the plane."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from squaresvm.plots.canvas import line_style, make_figure, marker
from squaresvm.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["curves", "picture_of", "regions"]

_PAPER = "paper: "
#: What is drawn, and the page's own colour that takes its place: so light and dark pages suit all pictures.
_INK, _FRAME = "#5b6675", "#e3e0d8"
_PAGE_COLOURS = {
    "#2f5d9b": "var(--accent)",
    "#b4552d": "var(--warn)",
    "#1f7a5c": "var(--good)",
    _INK: "var(--soft)",
    _FRAME: "var(--line)",
}
_COLOURS = ("#2f5d9b", "#b4552d", "#1f7a5c", "#9467bd", "#8c7a3a", "#d0679d")
#: Far on the side of -1, on the boundary, far on the side of +1; readable in light and dark.
_SHADES = ("#e79a70", "#f5f3ee", "#7ea5da")
_POINT_COLOURS = {-1: "#a3441c", 1: "#1f4e8c"}
#: Points along each side of the grid of decision values.
_GRID_RESOLUTION = 120
#: So few points leave margins room beside them; so many are drawn small, and as an image.
_FEW_POINTS, _MANY_POINTS = 10, 250


def curves(
    lines: Mapping[str, Sequence[tuple[float, float]]], *, x_name: str, y_name: str, log_x: bool = True
) -> str:
    """Return curves, y on a logarithmic scale, as SVG with a legend below.

    Parameters
    ----------
    lines : mapping of str to sequence of (x, y)
        "paper: name" is drawn dashed, in the colour of "name".
    x_name, y_name : str
    log_x : bool, default=True

    Returns
    -------
    str
        Empty where there is nothing to draw. Its ``desc`` has the points as text.
    """
    lines = {name: sorted((x, y) for x, y in points if y > 0) for name, points in lines.items()}
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        return ""
    figure = make_figure((7.0, 4.0))
    ax = figure.add_subplot()
    owners = list(dict.fromkeys(name.removeprefix(_PAPER) for name in lines))
    for name, points in lines.items():
        index = owners.index(name.removeprefix(_PAPER))
        style = "dashed" if name.startswith(_PAPER) else line_style(0)
        shade = _COLOURS[index % len(_COLOURS)]
        ax.plot(
            *zip(*points, strict=True), color=shade, linestyle=style, marker=marker(index), ms=5, label=name
        )
    _scale(ax, "x", [x for points in lines.values() for x, _ in points], log=log_x)
    _scale(ax, "y", [y for points in lines.values() for _, y in points], log=True)
    ax.set_xlabel(x_name, color=_INK)
    ax.set_ylabel(y_name, color=_INK)
    ax.tick_params(color=_FRAME, labelcolor=_INK)
    ax.spines[:].set_color(_FRAME)
    ax.grid(axis="y", color=_FRAME, linewidth=0.8)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, labelcolor=_INK)
    points_told = (
        f"{name}: {', '.join(f'{x:g} {y:.4g}' for x, y in points)}" for name, points in lines.items()
    )
    return _svg(figure, f"{y_name} over {x_name}", "; ".join(points_told))


def _scale(ax: Axes, axis: str, values: Sequence[float], *, log: bool) -> None:
    """Set scale and ticks: powers of ten, over a decade or two with 2 and 5 times these; else round steps."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    if log:
        ax.set(**{f"{axis}scale": "log"})
    over_decades = log and max(values) >= 10.0 * min(values)
    side = getattr(ax, f"{axis}axis")
    few = max(values) < 100.0 * min(values)  # Powers of ten alone would leave one or two ticks.
    powers = LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=7)
    side.set_major_locator(powers if over_decades else MaxNLocator(6, steps=[1, 2, 5, 10]))
    side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    side.set_minor_locator(NullLocator())


def picture_of(model: Any, X: FloatArray, y: FloatArray) -> dict[str, Any]:
    """Return what `regions` needs, small enough for a file of results.

    Parameters
    ----------
    model : fitted classifier
    X : ndarray of shape (m, 2)
    y : ndarray of shape (m,)

    Returns
    -------
    dict
        ``box`` (x from, to, y from, to), ``decision`` (rows from top to bottom), ``points``, ``labels``,
        ``sizes`` (multipliers, the largest is 1), ``margins`` (whether the lines at 1 and -1 are of use).
    """
    if X.shape[1] != 2:
        raise ValueError(f"a picture needs 2 columns; got {X.shape[1]}")
    low, high = X.min(axis=0), X.max(axis=0)
    room = (0.3 if len(y) <= _FEW_POINTS else 0.08) * (high - low)
    low, high = low - room, high + room
    across, down = (np.linspace(*ends, _GRID_RESOLUTION) for ends in ((low[0], high[0]), (high[1], low[1])))
    grid = np.column_stack([np.tile(across, _GRID_RESOLUTION), np.repeat(down, _GRID_RESOLUTION)])
    values = model.decision_function(grid).reshape(_GRID_RESOLUTION, _GRID_RESOLUTION)
    sizes = np.zeros(len(y))
    sizes[model.support_] = np.abs(model.dual_coef_[0])
    return {
        "box": [float(low[0]), float(high[0]), float(low[1]), float(high[1])],
        "decision": np.round(np.clip(values, -9.0, 9.0), 4).tolist(),
        "points": np.round(X, 4).tolist(),
        "labels": y.astype(int).tolist(),
        "margins": getattr(model, "kernel", "") == "linear",
        "sizes": np.round(sizes / max(sizes.max(), 1e-300), 3).tolist(),
    }


def regions(picture: Mapping[str, Any], label: str) -> str:
    """Return decision regions with the points; a point grows with its multiplier, margins are dashed.

    Parameters
    ----------
    picture : mapping
        From `picture_of`.
    label : str
        For those who cannot see it.

    Returns
    -------
    str
    """
    figure = make_figure((4.8, 4.8))
    figure.set_layout_engine("none")
    from matplotlib.colors import LinearSegmentedColormap

    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set_axis_off()
    decision, box = np.array(picture["decision"]), picture["box"]
    shades = LinearSegmentedColormap.from_list("sides", _SHADES)
    ax.imshow(decision, cmap=shades, vmin=-1, vmax=1, extent=box, aspect="auto", interpolation="none")
    levels, styles = ([-1, 0, 1], ["dashed", "solid", "dashed"]) if picture.get("margins") else ([0], "solid")
    ax.contour(
        decision,
        levels=levels,
        colors="#3c4048",
        linestyles=styles,
        linewidths=1.4,
        extent=box,
        origin="upper",
    )
    points, labels = np.array(picture["points"]), np.array(picture["labels"])
    many = len(points) > _MANY_POINTS
    radius = (1.4, 3.0) if many else (2.2, 6.0)
    area = np.pi * (radius[0] + radius[1] * np.array(picture["sizes"])) ** 2 / 2.0
    for sign, shade in _POINT_COLOURS.items():
        own = labels == sign
        hollow = (np.array(picture["sizes"])[own] > 0.02) & (len(points) <= 500)
        ax.scatter(
            points[own, 0],
            points[own, 1],
            s=area[own],
            facecolors=np.where(hollow, "none", shade).tolist(),
            edgecolors=shade,
            rasterized=many,
        )
    ax.set(xlim=box[:2], ylim=box[2:])
    return _svg(figure, label).replace("<svg ", '<svg class="square" ', 1)


def _svg(figure: Figure, label: str, description: str = "") -> str:
    """Return a figure as part of a page: in the page's colours and type, without names that could clash."""
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(file, format="svg", transparent=True, dpi=120)
    text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r'(<text[^>]*style=")font: [^;"]*;? ?', r"\1", text)
    text = re.sub(r'^<svg [^>]*?(viewBox="[^"]*")[^>]*>', r"<svg \1>", text)
    # The browser shall smooth the image of decision values, which is coarse for the sake of the page's size.
    text = re.sub(r"image-rendering: ?[a-z-]+;?", "", text.replace("xlink:href", "href"))
    text = re.sub(r" +\n", "\n", text)
    for drawn, shown in _PAGE_COLOURS.items():
        text = text.replace(drawn, shown)
    told = f"<desc>{html.escape(description)}</desc>" if description else ""
    return text.replace("<svg ", f'<svg role="img" aria-label="{html.escape(label)}" ', 1).replace(
        ">", f">{told}", 1
    )
