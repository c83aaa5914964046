"""Pictures of pages, as HTML sections with SVG inside: each answers one question, in a sentence first."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from squaresvm.judging.figures import rounded
from squaresvm.judging.shares import wilson
from squaresvm.typing import FloatArray, IntArray

__all__ = ["before_after", "calibration", "class_shares", "confusion", "margins", "predictions"]

#: Classes up to which a confusion matrix is drawn.
_MOST_CLASSES = 12
#: Points up to which each is drawn; beyond, an even selection is.
_MOST_POINTS = 2000
#: Groups of rows below which nothing is said about calibration.
_FEW_GROUPS = 3
_WIDTH = 560


def _section(heading: str, text: str, body: str) -> str:
    lead = f"<p>{html.escape(text)}</p>" if text else ""
    return f"<section><h2>{html.escape(heading)}</h2>{lead}{body}</section>"


def _svg(label: str, height: int, body: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{html.escape(label)}">{body}</svg>'


class _Axes:
    """A frame with linear scales, its ticks and the names of its axes."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], height: int) -> None:
        # Room for ticks of six digits at the size of text that narrow windows get.
        self.left, self.right, self.top, self.bottom = 108, 38, 12, 52
        self.low, self.high, self.height = (x[0], y[0]), (x[1], y[1]), height

    def x(self, value: float) -> float:
        share = (value - self.low[0]) / (self.high[0] - self.low[0])
        return self.left + share * (_WIDTH - self.left - self.right)

    def y(self, value: float) -> float:
        share = (value - self.low[1]) / (self.high[1] - self.low[1])
        return self.height - self.bottom - share * (self.height - self.bottom - self.top)

    def frame(self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_name: str, y_name: str) -> str:
        ground = self.height - self.bottom
        parts = [
            f'<rect x="{self.left}" y="{self.top}" width="{_WIDTH - self.left - self.right}" '
            f'height="{ground - self.top}" fill="none" stroke="var(--line)"/>'
        ]
        parts += [
            f'<text x="{self.x(t):.0f}" y="{ground + 20}" text-anchor="middle">{_tick(t)}</text>'
            for t in x_ticks
        ]
        parts += [
            f'<text x="{self.left - 8}" y="{self.y(t) + 4:.0f}" text-anchor="end">{_tick(t)}</text>'
            for t in y_ticks
        ]
        middle = (self.top + ground) / 2
        parts.append(
            f'<text x="{(self.left + _WIDTH - self.right) / 2:.0f}" y="{self.height - 6}" '
            f'text-anchor="middle">{html.escape(x_name)}</text>'
            f'<text transform="rotate(-90)" x="{-middle:.0f}" y="20" text-anchor="middle">'
            f"{html.escape(y_name)}</text>"
        )
        return "".join(parts)

    def line(self, one: tuple[float, float], other: tuple[float, float]) -> str:
        return (
            f'<line x1="{self.x(one[0]):.1f}" y1="{self.y(one[1]):.1f}" x2="{self.x(other[0]):.1f}" '
            f'y2="{self.y(other[1]):.1f}" stroke="var(--soft)" stroke-dasharray="4 4"/>'
        )


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers inside an interval."""
    step = round_step((high - low) / 5)
    return (step * np.arange(np.ceil(low / step), np.floor(high / step) + 1) + 0.0).tolist()


def _tick(value: float) -> str:
    return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.3g}"


def round_step(step: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not below `step`."""
    power = 10.0 ** np.floor(np.log10(step))
    return float(power * next(factor for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= step))


def calibration(text: str, predicted: FloatArray, observed: FloatArray, counts: FloatArray) -> str:
    """Return predicted against observed shares of groups of rows, with 95 % intervals and the answer.

    Parameters
    ----------
    text : str
        Which rows those are.
    predicted, observed, counts : ndarray
        Mean probability, share and number of the rows of each group.
    """
    low, high = wilson(observed, counts)
    agree = int(np.sum((low <= predicted) & (predicted <= high)))
    verdict = "Yes" if agree >= 0.8 * counts.size else "Not everywhere"
    if counts.size < _FEW_GROUPS:
        verdict = "Too few rows to tell"
    answer = (
        f"{verdict}: in {agree} of {counts.size} groups the predicted probability lies within the 95 % "
        "interval of the observed share."
    )
    axes = _Axes((0.0, 1.0), (0.0, 1.0), 320)
    marks = "".join(
        f'<line x1="{axes.x(p):.1f}" x2="{axes.x(p):.1f}" y1="{axes.y(a):.1f}" y2="{axes.y(b):.1f}" '
        'stroke="var(--accent)" stroke-width="2"/>'
        f'<circle cx="{axes.x(p):.1f}" cy="{axes.y(o):.1f}" r="5" fill="var(--accent)"><title>{n:.0f} rows: '
        f"predicted {p:.2f}, observed {o:.2f} ({a:.2f} to {b:.2f})</title></circle>"
        for p, o, n, a, b in zip(predicted, observed, counts, low, high, strict=True)
    )
    quarters = (0.0, 0.25, 0.5, 0.75, 1.0)
    drawn = axes.frame(quarters, quarters, "predicted probability", "observed share")
    picture = _svg("Predicted against observed", 320, drawn + axes.line((0.0, 0.0), (1.0, 1.0)) + marks)
    return _section("Are the probabilities calibrated?", f"{answer} {text}", picture)


def confusion(classes: Sequence[str], counts: IntArray, text: str) -> str:
    """Return a confusion matrix, shaded by share of the actual class; of many classes, the worst pairs.

    Parameters
    ----------
    classes : sequence of str
    counts : ndarray of shape (k, k)
        Rows of actual class i that were predicted as class j.
    text : str
        Which rows those are.
    """
    totals = np.maximum(counts.sum(axis=1), 1)
    wrong = int(counts.sum() - np.trace(counts))
    answer = f"{wrong} of {counts.sum()} rows are classified wrongly."
    off = counts - np.diag(np.diag(counts))
    if wrong:
        i, j = divmod(int(off.argmax()), len(classes))
        times = "once" if off[i, j] == 1 else f"{off[i, j]} times"
        answer += f" The most frequent error: {classes[i]!r} predicted as {classes[j]!r}, {times}."
    if len(classes) > _MOST_CLASSES:
        pairs = np.argsort(-off, axis=None, kind="stable")[:_MOST_CLASSES]
        places = [divmod(pair, len(classes)) for pair in pairs.tolist()]
        lines = [[classes[i], classes[j], str(off[i, j])] for i, j in places if off[i, j]]
        return _section(
            "Confusion matrix", f"{answer} {text}", _plain(["actual", "predicted", "rows"], lines)
        )
    head = "".join(f"<th>{html.escape(name)}</th>" for name in classes)
    body = "".join(
        f"<tr><th>{html.escape(name)}</th>"
        + "".join(
            f'<td class="{"hit" if i == j else "miss"}" style="--share:{counts[i, j] / totals[i]:.3f}">'
            f"{counts[i, j]}<small>{counts[i, j] / totals[i]:.0%}</small></td>"
            for j in range(len(classes))
        )
        + "</tr>"
        for i, name in enumerate(classes)
    )
    table = (
        '<div class="wide"><table class="confusion"><thead><tr><th>actual \\ predicted</th>'
        f"{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
    return _section("Confusion matrix", f"{answer} {text} Percentages are of the actual class.", table)


def _plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def class_shares(classes: Sequence[str], counts: Sequence[int]) -> str:
    """Return how many rows each class has, as bars."""
    total = max(sum(counts), 1)
    largest = int(np.argmax(counts))
    answer = (
        f"The largest class is {classes[largest]!r} with {counts[largest] / total:.1%} of the rows: the "
        "accuracy of always predicting it."
    )
    lines = "".join(
        f'<div class="bar"><span>{html.escape(name)}</span><i style="--share:{count / max(counts):.3f}"></i>'
        f"<b>{count:,} ({count / total:.1%})</b></div>"
        for name, count in zip(classes, counts, strict=True)
    )
    return _section("Class shares", answer, f'<div class="bars">{lines}</div>')


def margins(values: FloatArray) -> str:
    """Return a histogram of margins of rows left out, those on the wrong side in another colour."""
    wrong = int(np.sum(values < 0.0))
    answer = (
        f"{wrong} of {values.size} rows are on the wrong side of zero. The margin is the decision value of "
        "the row's own class less the highest of the others, from the model without the row."
    )
    return _section(
        "How clear are the decisions?", answer, _histogram(values, "margin", "Histogram of margins")
    )


def _histogram(values: FloatArray, name: str, label: str, *, marks_negative: bool = True) -> str:
    height = 230
    spread = max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    low, high = min(float(values.min()), -0.02 * spread), max(float(values.max()), 0.02 * spread)
    step = round_step((high - low) / 24)
    first, last = int(np.floor(low / step)), int(np.ceil(high / step))
    counts, edges = np.histogram(values, bins=step * np.arange(first, last + 1))
    top = max(int(counts.max()), 1)
    axes = _Axes((float(edges[0]), float(edges[-1])), (0.0, 1.05 * top), height)
    bar = axes.x(edges[1]) - axes.x(edges[0]) - 2
    bars = "".join(
        f'<rect x="{axes.x(edge) + 1:.1f}" y="{axes.y(count):.1f}" width="{bar:.1f}" '
        f'height="{axes.y(0.0) - axes.y(count):.1f}" rx="1.5" '
        f'fill="var(--{"warn" if marks_negative and edge < -1e-9 * step else "accent"})">'
        f"<title>{count} rows from {_tick(edge)} to {_tick(edge + step)}</title></rect>"
        for count, edge in zip(counts.tolist(), edges[:-1].tolist(), strict=True)
        if count
    )
    zero = axes.line((0.0, 0.0), (0.0, 1.05 * top))
    x_ticks = _ticks(float(edges[0]), float(edges[-1]))
    return _svg(label, height, axes.frame(x_ticks, _whole(top), name, "rows") + bars + zero)


def _whole(top: int) -> list[float]:
    return [tick for tick in _ticks(0.0, float(top)) if tick == int(tick)]


def predictions(actual: FloatArray, predicted: FloatArray, text: str) -> str:
    """Return predicted against actual values, and a histogram of the residuals.

    Parameters
    ----------
    actual, predicted : ndarray of shape (m,)
    text : str
        Which rows those are.
    """
    residual = actual - predicted
    spread, error = float(actual.std()), float(np.sqrt(np.mean(residual**2)))
    answer = (
        f"The root mean squared error is {rounded(error)}; always predicting the mean would give "
        f"{rounded(spread)}, the standard deviation of the values. {text}"
    )
    low = float(min(actual.min(), predicted.min()))
    high = float(max(actual.max(), predicted.max()))
    pad = 0.03 * (high - low) or 1.0
    low, high = low - pad, high + pad
    axes = _Axes((low, high), (low, high), 360)
    some = np.unique(np.linspace(0, actual.size - 1, min(actual.size, _MOST_POINTS)).astype(int))
    dots = "".join(
        f'<circle cx="{axes.x(a):.1f}" cy="{axes.y(p):.1f}" r="3" fill="var(--accent)" fill-opacity=".6"/>'
        for a, p in zip(actual[some].tolist(), predicted[some].tolist(), strict=True)
    )
    ticks = _ticks(low, high)
    drawn = axes.frame(ticks, ticks, "actual value", "predicted value") + axes.line((low, low), (high, high))
    shown = _section(
        "Predicted against actual values", answer, _svg("Predicted against actual", 360, drawn + dots)
    )
    note = "Actual less predicted value. Look at residuals far from zero, or mostly on one side."
    histogram = _histogram(residual, "residual", "Histogram of residuals", marks_negative=False)
    return shown + _section("Residuals", note, histogram)


def before_after(rows: Sequence[tuple[Any, float, float]], text: str) -> str:
    """Return decision values before and after a forgetting request, an arrow for each row.

    Parameters
    ----------
    rows : sequence of (name, before, after)
    text : str
    """
    values = [value for _, before, after in rows for value in (before, after)]
    low, high = min(*values, 0.0), max(*values, 0.0)
    pad = 0.08 * (high - low) or 1.0
    height = 70 + 34 * len(rows)
    axes = _Axes((low - pad, high + pad), (-0.5, len(rows) - 0.5), height)
    lines = "".join(
        f'<line x1="{axes.x(before):.1f}" x2="{axes.x(after):.1f}" y1="{axes.y(place):.1f}" '
        f'y2="{axes.y(place):.1f}" stroke="var(--soft)" stroke-width="2"/>'
        f'<circle cx="{axes.x(before):.1f}" cy="{axes.y(place):.1f}" r="6" fill="var(--accent)"/>'
        f'<circle cx="{axes.x(after):.1f}" cy="{axes.y(place):.1f}" r="6" fill="var(--card)" '
        'stroke="var(--warn)" stroke-width="3"/>'
        f'<text x="{axes.left - 8}" y="{axes.y(place) + 4:.0f}" text-anchor="end">{html.escape(str(name))}'
        "</text>"
        for place, (name, before, after) in enumerate(reversed(list(rows)))
    )
    frame = axes.frame(_ticks(*(low - pad, high + pad)), [], "decision value", "row")
    drawn = frame + axes.line((0.0, -0.5), (0.0, len(rows) - 0.5)) + lines
    legend = (
        '<p class="legend"><span><i style="background:var(--accent)"></i>before</span>'
        '<span><i style="border:3px solid var(--warn)"></i>after the rows were forgotten</span></p>'
    )
    return _section("Before and after", text, _svg("Before and after", height, drawn) + legend)
