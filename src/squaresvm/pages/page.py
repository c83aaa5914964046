"""One self-contained page about a model: what it is, how good it is, and how we know."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from squaresvm._version import __version__
from squaresvm.pages import charts
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
.confusion { width: auto; } .confusion th { white-space: normal; overflow-wrap: break-word; max-width: 9rem; }
.confusion td, .confusion tbody th { text-align: right; }
.confusion td { padding: .45rem .7rem; border: 2px solid var(--card); border-radius: 6px; min-width: 4.5rem; }
.confusion small { display: block; opacity: .8; } .confusion tbody th { border: 0; }
.confusion .hit { background: color-mix(in srgb, var(--good) calc(var(--share) * 45%), transparent); }
.confusion .miss { background: color-mix(in srgb, var(--warn) calc(var(--share) * 90%), transparent); }
.bars { display: grid; gap: .35rem; } .bar { display: grid; align-items: center; gap: .7rem;
  grid-template-columns: minmax(4rem, 10rem) 1fr 8.5rem; }
.bar span { overflow-wrap: anywhere; } .bar b { font-weight: 500; font-variant-numeric: tabular-nums; }
.bar i { height: 1rem; width: calc(var(--share) * 100%); background: var(--accent); border-radius: 3px; }
@media (max-width: 30rem) { svg text { font-size: 18px; } .confusion td { min-width: 3.4rem; padding: .4rem; }
  .bar { grid-template-columns: 1fr auto; } .bar i { grid-row: 2; grid-column: 1 / 3; }
  th, td { white-space: normal; padding-right: .5rem; font-size: .82rem; vertical-align: top; }
  td:first-child { overflow-wrap: anywhere; min-width: 4.5em; }
  .pairs td:first-child, .confusion td:first-child { min-width: 0; } }
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
    pictures : sequence of str
        Sections of `pages.charts`, already HTML; they come before calibration and margins.
    """

    title: str
    summary: str
    figures: Sequence[tuple[str, str]]
    about: TableOfRows | None = None
    tables: Sequence[tuple[str, str, Sequence[str], Sequence[Sequence[Any]]]] = ()
    calibration: tuple[FloatArray, FloatArray, FloatArray] | None = None
    calibration_text: str = (
        "Test rows in groups of equal size by their predicted probability; on the dashed line both are equal."
    )
    margins: FloatArray | None = None
    pictures: Sequence[str] = ()


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
    parts.extend(facts.pictures)
    if facts.calibration is not None:
        parts.append(charts.calibration(facts.calibration_text, *facts.calibration))
    if facts.margins is not None:
        parts.append(charts.margins(facts.margins))
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


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all.

    Parameters
    ----------
    path : Path
    text : str
    """
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
