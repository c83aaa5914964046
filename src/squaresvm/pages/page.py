"""One self-contained page about a model: what it is, how good it is, and how we know."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from squaresvm._version import __version__
from squaresvm.runtime.atomic import replacing
from squaresvm.typing import FloatArray

__all__ = ["Facts", "TableOfRows", "page_of", "render", "write_atomically"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --paper: #fbfaf7; --card: #ffffff;
  --line: #e3e0d8; --good: #1f7a5c; --warn: #b4552d; --accent: #2f5d9b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e6e1; --soft: #a3abb6; --paper: #15181d;
  --card: #1d2228; --line: #333a43; --good: #5cc39b; --warn: #e79a70; --accent: #8db4ea; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 0 0 .75rem; }
p { margin: .25rem 0 .75rem; } .soft { color: var(--soft); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1.1rem 1.25rem; margin-top: 1.1rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; }
.figure b { display: block; font-size: 1.6rem; font-variant-numeric: tabular-nums; letter-spacing: -.01em; }
.figure span { color: var(--soft); font-size: .88rem; }
.good { color: var(--good); } .warn { color: var(--warn); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .94rem; }
th, td { text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 500; } tr:last-child td { border-bottom: 0; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 11px; }
@media (max-width: 30rem) { svg text { font-size: 19px; }
  th, td { white-space: normal; padding-right: .55rem; } }
code { font-size: .92em; }
.pairs td { white-space: normal; vertical-align: top; overflow-wrap: anywhere; }
.pairs td:first-child { color: var(--soft); white-space: nowrap; width: 1%; }
figure { margin: 0 0 1rem; } figcaption { color: var(--soft); font-size: .88rem; }
.square { max-width: 26rem; border-radius: 8px; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; font-size: .88rem; color: var(--soft); }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
"""


class TableOfRows(NamedTuple):
    """A table with a heading and a text above it; a table whose columns have no names has no head."""

    heading: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Facts:
    """What a page says. Sections without content are left out.

    Parameters
    ----------
    title, summary : str
    figures : sequence of (value, caption)
    about : TableOfRows, optional
        Comes before the pictures.
    tables : sequence of TableOfRows
    calibration : tuple of ndarray, optional
        Predicted probability, observed share and count of each group of rows.
    calibration_text : str
        Which rows those are.
    margins : ndarray, optional
        By how much each row is on the right side; below 0 on the wrong one.
    """

    title: str
    summary: str
    figures: Sequence[tuple[str, str]]
    about: TableOfRows | None = None
    tables: Sequence[tuple[str, str, Sequence[str], Sequence[Sequence[Any]]]] = ()
    calibration: tuple[FloatArray, FloatArray, FloatArray] | None = None
    calibration_text: str = (
        "Rows that the model had not seen, grouped by the probability it gave them. On the line, what was "
        "promised is what happened."
    )
    margins: FloatArray | None = None


def render(facts: Facts) -> str:
    """Return the page as HTML, without any external resource.

    Parameters
    ----------
    facts : Facts

    Returns
    -------
    str

    Examples
    --------
    >>> from squaresvm.pages.page import Facts, render
    >>> page = render(Facts("A model", "of <two> rows", [("2", "rows")]))
    >>> "of &lt;two&gt; rows" in page and "http" not in page
    True
    """
    parts = [
        f"<h1>{html.escape(facts.title)}</h1>",
        f'<p class="soft">{html.escape(facts.summary)}</p>',
        _figures(facts.figures),
    ]
    if facts.about is not None:
        parts.append(_table(*facts.about))
    if facts.calibration is not None:
        parts.append(_calibration(facts.calibration_text, *facts.calibration))
    if facts.margins is not None:
        parts.append(_margins(facts.margins))
    parts.extend(_table(*table) for table in facts.tables)
    return page_of(facts.title, parts)


def page_of(title: str, parts: Sequence[str]) -> str:
    """Return a page in the house style around parts that are HTML already.

    Parameters
    ----------
    title : str
    parts : sequence of str

    Returns
    -------
    str

    Examples
    --------
    >>> from squaresvm.pages.page import page_of
    >>> "<title>A &amp; B</title>" in page_of("A & B", ["<h1>A and B</h1>"])
    True
    """
    foot = f'<p class="soft" style="margin-top:1.5rem">squaresvm {__version__}</p>'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join([*parts, foot])
        + "\n</main>\n</body>\n</html>\n"
    )


def _figures(figures: Sequence[tuple[str, str]]) -> str:
    cells = "".join(
        f'<div class="figure"><b>{html.escape(value)}</b><span>{html.escape(caption)}</span></div>'
        for value, caption in figures
    )
    return f'<section class="figures">{cells}</section>'


def _table(heading: str, text: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    names = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    head = f"<thead><tr>{names}</tr></thead>" if any(columns) else ""
    lead = f"<p>{html.escape(text)}</p>" if text else ""
    kind = "wide" if head else "wide pairs"
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<section><h2>{html.escape(heading)}</h2>{lead}"
        f'<div class="{kind}"><table>{head}<tbody>{body}</tbody></table></div>'
        "</section>"
    )


def _calibration(text: str, predicted: FloatArray, observed: FloatArray, counts: FloatArray) -> str:
    """Return a picture of predicted against observed shares; dots grow with the rows behind them."""
    width, height, left, bottom = 560, 300, 76, 50

    def x(p: float) -> float:
        return left + p * (width - left - 14)

    def y(p: float) -> float:
        return (height - bottom) - p * (height - bottom - 12)

    ticks = "".join(
        f'<text x="{x(t):.0f}" y="{height - bottom + 18}" text-anchor="middle">{t:g}</text>'
        f'<text x="{left - 8}" y="{y(t) + 4:.0f}" text-anchor="end">{t:g}</text>'
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    dots = "".join(
        f'<circle cx="{x(p):.1f}" cy="{y(o):.1f}" r="{3 + 9 * np.sqrt(n / counts.max()):.1f}" '
        f'fill="var(--accent)" fill-opacity=".65"><title>{n:.0f} rows: predicted {p:.2f}, '
        f"observed {o:.2f}</title></circle>"
        for p, o, n in zip(predicted, observed, counts, strict=True)
    )
    return (
        f"<section><h2>Do the probabilities hold?</h2><p>{html.escape(text)}</p>"
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Predicted against observed">'
        f'<rect x="{left}" y="12" width="{width - left - 14}" height="{height - bottom - 12}" fill="none" '
        'stroke="var(--line)"/>'
        f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke="var(--soft)" stroke-dasharray="4 4"/>'
        f'{ticks}{dots}<text x="{x(0.5):.0f}" y="{height - 6}" text-anchor="middle">predicted</text>'
        f'<text transform="rotate(-90)" x="{-y(0.5):.0f}" y="18" text-anchor="middle">observed</text>'
        "</svg></section>"
    )


def _margins(margins: FloatArray) -> str:
    """Return a histogram of margins, those on the wrong side in another colour."""
    width, height, left, bottom = 560, 200, 30, 36
    low, high = min(float(margins.min()), -0.5), max(float(margins.max()), 0.5)
    step = _round_step((high - low) / 24)
    first, last = int(np.floor(low / step)), int(np.ceil(high / step))
    counts, edges = np.histogram(margins, bins=step * np.arange(first, last + 1))

    def x(value: float) -> float:
        return left + (value / step - first) / (last - first) * (width - 2 * left)

    bar = x(step) - x(0.0) - 2
    bars = "".join(
        f'<rect x="{x(edge) + 1:.1f}" y="{height - bottom - size:.1f}" width="{bar:.1f}" height="{size:.1f}" '
        f'rx="1.5" fill="var(--{"warn" if edge < -1e-12 else "accent"})" fill-opacity=".75">'
        f"<title>{count} rows from {edge:.3g} to {edge + step:.3g}</title></rect>"
        for count, edge in zip(counts.tolist(), edges[:-1].tolist(), strict=True)
        for size in [(height - bottom - 12) * count / max(int(counts.max()), 1)]
        if count
    )
    ticks = "".join(
        f'<text x="{x(t):.0f}" y="{height - bottom + 16}" text-anchor="middle">{t:.3g}</text>'
        for t in np.unique([edges[0], 0.0, edges[-1]]).tolist()
    )
    return (
        "<section><h2>How clear are the decisions?</h2><p>Lead of each row's own label over the others when "
        "the row is left out. Left of zero, the model decides against the label.</p>"
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Histogram of margins">{bars}'
        f'<line x1="{left}" y1="{height - bottom}" x2="{width - left}" y2="{height - bottom}" '
        'stroke="var(--line)"/>'
        f'<line x1="{x(0):.1f}" y1="8" x2="{x(0):.1f}" y2="{height - bottom}" stroke="var(--soft)" '
        'stroke-dasharray="4 4"/>'
        f"{ticks}</svg></section>"
    )


def _round_step(step: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not below `step`."""
    power = 10.0 ** np.floor(np.log10(step))
    return float(power * next(factor for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= step))


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all.

    Parameters
    ----------
    path : Path
    text : str
    """
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
