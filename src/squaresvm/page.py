"""One self-contained page about a classifier: what it is, how good it is, and how we know."""

from __future__ import annotations

import html
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from squaresvm._version import __version__
from squaresvm.typing import FloatArray

__all__ = ["Facts", "render", "write_atomically"]

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
code { font-size: .92em; }
"""


@dataclass(frozen=True)
class Facts:
    """What a page says. Sections without content are left out.

    Parameters
    ----------
    title, summary : str
    figures : sequence of (value, caption)
    tables : sequence of (heading, text, columns, rows)
    calibration : tuple of ndarray, optional
        Predicted probability, observed share and count of each group of rows.
    """

    title: str
    summary: str
    figures: Sequence[tuple[str, str]]
    tables: Sequence[tuple[str, str, Sequence[str], Sequence[Sequence[Any]]]] = ()
    calibration: tuple[FloatArray, FloatArray, FloatArray] | None = field(default=None)


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
    >>> from squaresvm.page import Facts, render
    >>> page = render(Facts("A model", "of <two> rows", [("2", "rows")]))
    >>> "of &lt;two&gt; rows" in page and "http" not in page
    True
    """
    parts = [
        f"<h1>{html.escape(facts.title)}</h1>",
        f'<p class="soft">{html.escape(facts.summary)}</p>',
        _figures(facts.figures),
    ]
    if facts.calibration is not None:
        parts.append(_calibration(*facts.calibration))
    parts.extend(_table(*table) for table in facts.tables)
    parts.append(f'<p class="soft" style="margin-top:1.5rem">squaresvm {__version__}</p>')
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(facts.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _figures(figures: Sequence[tuple[str, str]]) -> str:
    cells = "".join(
        f'<div class="figure"><b>{html.escape(value)}</b><span>{html.escape(caption)}</span></div>'
        for value, caption in figures
    )
    return f'<section class="figures">{cells}</section>'


def _table(heading: str, text: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<section><h2>{html.escape(heading)}</h2><p>{html.escape(text)}</p>"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        "</section>"
    )


def _calibration(predicted: FloatArray, observed: FloatArray, counts: FloatArray) -> str:
    """Return a picture of predicted against observed shares; dots grow with the rows behind them."""
    width, height, left, bottom = 560, 300, 46, 36

    def x(p: float) -> float:
        return left + p * (width - left - 14)

    def y(p: float) -> float:
        return (height - bottom) - p * (height - bottom - 12)

    ticks = "".join(
        f'<text x="{x(t):.0f}" y="{height - bottom + 16}" text-anchor="middle">{t:g}</text>'
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
        "<section><h2>Do the probabilities hold?</h2><p>Rows that the model had not seen, grouped by the "
        "probability it gave them. On the line, what was promised is what happened.</p>"
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Predicted against observed">'
        f'<rect x="{left}" y="12" width="{width - left - 14}" height="{height - bottom - 12}" fill="none" '
        'stroke="var(--line)"/>'
        f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke="var(--soft)" stroke-dasharray="4 4"/>'
        f'{ticks}{dots}<text x="{x(0.5):.0f}" y="{height - 4}" text-anchor="middle">predicted</text>'
        f'<text transform="rotate(-90)" x="{-y(0.5):.0f}" y="12" text-anchor="middle">observed</text>'
        "</svg></section>"
    )


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all.

    Parameters
    ----------
    path : Path
    text : str
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
