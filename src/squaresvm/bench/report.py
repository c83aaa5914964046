"""The results as Markdown and as one self-contained page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from squaresvm.bench.pictures import curves, regions
from squaresvm.bench.table import AXES, MEASURES
from squaresvm.bench.verdicts import agreement
from squaresvm.pages.page import page_of, write_atomically

__all__ = [
    "curves_of",
    "grid_of",
    "html_report",
    "is_shown",
    "markdown_report",
    "measured_text",
    "published_text",
    "reasons_of",
    "verdict",
    "write_reports",
]

#: Cells with more characters may break.
_LONG = 40
_QUICKLY = " So few repeats miss what a full run meets: only that one judges."
_REPRODUCTION = (
    "The paper chose parameters on the rows that it reports on. This is a reproduction of its table and no "
    "estimate of error."
)
#: More room than a page about a model needs, and words that may break.
_STYLE = """<style>main { max-width: 78rem; } .words { white-space: normal; min-width: 15rem; }
section > ul { max-width: 52rem; padding-left: 1.2rem; } .plot { max-width: 44rem; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem; }
.pictures figure:only-child { max-width: 26rem; } .glance td { white-space: normal; min-width: 0; }</style>"""
_STEPS = {
    "onehot": "one column of 0 and 1 for each level of a category",
    "impute": "means in place of missing values",
    "standardise": "mean 0 and variance 1",
    "unit": "scaled to 0 to 1",
    "symmetric": "scaled to -1 to 1",
}


def write_reports(results: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write ``report.html`` and ``report.md``.

    Parameters
    ----------
    results : mapping
        From `run_tables` or `read_results`.
    folder : Path

    Returns
    -------
    list of Path
    """
    pages = {"report.html": html_report(results), "report.md": markdown_report(results)}
    for name, text in pages.items():
        write_atomically(folder / name, text)
    return [folder / name for name in pages]


def markdown_report(results: Mapping[str, Any]) -> str:
    """Return the results as Markdown."""
    parts = ["# The papers' tables", _about(results), "", *_overview_markdown(results)]
    for name, entry in results["tables"].items():
        parts += [
            f"## {entry['title']}",
            "",
            f"`{name}`: {entry['paper']}, {entry['where']}. {verdict(entry)}",
        ]
        parts += ["", *(f"- {remark}" for remark in _remarks(entry)), ""]
        columns, rows = grid_of(entry)
        parts += [_markdown_line(columns), _markdown_line(["---"] * len(columns))]
        parts += [_markdown_line(row) for row in rows]
        parts += [""]
    parts += ["## Environment", "", *(f"- {key}: {value}" for key, value in _environment(results)), ""]
    return "\n".join(parts)


def html_report(results: Mapping[str, Any]) -> str:
    """Return the results as one page without any external resource."""
    overview = [(entry["title"], verdict(entry)) for entry in results["tables"].values()]
    glance = _html_table(("table", "verdict"), overview)
    parts = [
        _STYLE,
        "<h1>The papers' tables</h1>",
        f'<p class="soft">{html.escape(_about(results))}</p>',
        f'<section class="glance"><h2>At a glance</h2>{glance}</section>',
    ]
    for name, entry in results["tables"].items():
        notes = "".join(f"<li>{html.escape(remark)}</li>" for remark in _remarks(entry))
        parts.append(
            f'<section id="{html.escape(name)}"><h2>{html.escape(entry["title"])}</h2>'
            f'<p class="soft">{html.escape(entry["paper"])}, {html.escape(entry["where"])}. '
            f"{html.escape(verdict(entry))}</p>{'<ul>' + notes + '</ul>' if notes else ''}"
            f"{_pictures(entry)}{_html_table(*grid_of(entry))}</section>"
        )
    parts.append(f"<section><h2>Environment</h2>{_html_table(('', ''), _environment(results))}</section>")
    return page_of("The papers' tables", parts)


def _about(results: Mapping[str, Any]) -> str:
    version = results["environment"]["packages"]["squaresvm"]
    return (
        f"squaresvm {version}, {results['mode']} mode: the papers' figures, ours, and what a user would "
        "pick instead, measured in one run. Means over repeats, ± standard deviations; seconds are "
        f"those of one fit, medians.{_QUICKLY if results['mode'] == 'quick' else ''}"
    )


def _overview_markdown(results: Mapping[str, Any]) -> Iterator[str]:
    yield _markdown_line(("table", "verdict"))
    yield _markdown_line(("---",) * 2)
    for entry in results["tables"].values():
        yield _markdown_line((entry["title"], verdict(entry)))
    yield ""


def verdict(entry: Mapping[str, Any]) -> str:
    """Return in words how much of a table agrees with the paper."""
    words = []
    counted = agreement(entry)
    if counted is not None:
        words.append(
            f"{'Reproduces' if counted.good == counted.judged else 'Does not reproduce in full'}: "
            f"{counted.good} of {counted.judged} cells agree."
        )
        if counted.one_class:
            words.append(f"{counted.one_class} of them by predicting the larger class for every row.")
        if counted.matched_judged:
            words.append(
                f"Of rows prepared with the paper's figures in sight: {counted.matched_good} of "
                f"{counted.matched_judged}, matches and no estimates."
            )
        if counted.peers_judged:
            words.append(
                f"Of the paper's other methods, by the peers that stand for them: {counted.peers_good} of "
                f"{counted.peers_judged}."
            )
    elif entry["tolerance"]:
        words.append("Not judged: only a full run judges.")
    else:
        words.append("Nothing to judge: times, or a picture.")
    states = [line["status"] for line in entry["rows"]]
    for state, text in (
        ("failed", "failed"),
        ("limit", "ended at the time limit"),
        ("missing", "without data or package"),
        ("left out", "left out in quick mode"),
    ):
        if state in states:
            words.append(f"{states.count(state)} of {len(states)} rows {text}.")
    return " ".join(words)


def _remarks(entry: Mapping[str, Any]) -> list[str]:
    remarks = [_REPRODUCTION] if entry["tuned_on_test"] else []
    remarks += [*entry["remarks"], *_rules(entry)]
    by_steps: dict[str, list[str]] = {}
    for name, steps in entry["prepared"].items():
        words = "; ".join(_STEPS[step] for step in steps) or "as they are"
        by_steps.setdefault(words, []).append(name)
    remarks += [f"Columns {words}: {', '.join(names)}." for words, names in by_steps.items()]
    return remarks


def _rules(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield how far cells may be from the paper's: fixed before the run, as part of the declaration."""
    rules = []
    for name, rule in entry["tolerance"].items():
        parts = [f"{rule['points']:g}"] * bool(rule["points"])
        parts += [f"{rule['percent']:g} % of it"] * bool(rule["percent"])
        parts += [f"{rule['deviations']:g} of the paper's standard deviations"] * bool(rule["deviations"])
        parts += ["no more in any repeat"] * bool(rule["most"])
        rules.append(f"{MEASURES[name]}: {', or '.join(parts) or 'nothing'}")
    if rules:
        yield f"How far a cell may be from the paper's, stated before the run: {'; '.join(rules)}."


def grid_of(entry: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return names of columns and cells: ours beside the paper's, the difference where it is judged."""
    lines = entry["rows"]
    more = entry["plot"].get("show", [])
    shown = [name for name in MEASURES if name in more or any(is_shown(line, name) for line in lines)]
    columns = ["data", "method", "work"]
    printed = {name for name in shown if any(name in line["paper"] for line in lines)}
    for name in shown:
        columns += [MEASURES[name], "paper"] if name in printed else [MEASURES[name]]
    remarks = [_remark(line, reason) for line, reason in zip(lines, reasons_of(lines), strict=True)]
    columns += ["remark"] * any(remarks)
    rows = []
    for line, remark in zip(lines, remarks, strict=True):
        cells = [line["data"], line["label"], line["work"]]
        for name in shown:
            cells.append(measured_text(line, name))
            if name in printed:
                cells.append(published_text(line, name))
        rows.append([*cells, *[remark] * any(remarks)])
    return columns, rows


def is_shown(line: Mapping[str, Any], name: str) -> bool:
    """Return whether a measure of a row is worth a column: some only where the paper prints it."""
    if name in ("support_over", "iterations", "columns"):
        return name in line["paper"]
    if name == "constant":
        return line["summary"].get(name, {}).get("mean", 0.0) > 0.0
    return name in line["summary"] or name in line["paper"]


def measured_text(line: Mapping[str, Any], name: str) -> str:
    """Return what a row has measured, as the tables show it; empty where it has not."""
    if name not in line["summary"]:
        return ""
    found, timed = line["summary"][name], name in ("seconds", "flushed", "refit", "gain")
    spread = f" ± {found['std']:.2g}" if found["std"] > 1e-9 and not timed and name != "memory" else ""
    return f"{_short(name, found['median' if timed else 'mean'])}{spread}"


def published_text(line: Mapping[str, Any], name: str) -> str:
    """Return what the paper prints for a row; empty where it prints nothing."""
    if name not in line["paper"]:
        return ""
    spread = line["paper"].get(f"{name}_std")
    return _short(name, line["paper"][name]) + (f" ± {spread:g}" if spread is not None else "")


def _short(name: str, value: float) -> str:
    if name in ("test", "train"):
        return f"{value:.2f}"
    if name in ("support", "support_over", "iterations"):
        return f"{value:.1f}".removesuffix(".0")
    if name == "memory" or value >= 1000.0:
        return f"{value:.0f}"
    return f"{value:.4g}" if name not in ("seconds", "flushed", "refit", "gain") else f"{value:.3g}"


def reasons_of(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why each row differs from the paper, and where that is tested; no reason is told twice."""
    told = set()
    for line in lines:
        reason = f"{line['differs']} ({'tested: ' + line['tested'] if line['tested'] else 'untested'})"
        agrees = all(verdict["agrees"] for verdict in line["verdicts"].values())
        if agrees or line["status"] != "done":  # What did not finish says that instead.
            yield ""
        elif reason in told:
            yield "for the same reason"
        else:
            yield f"because {reason}" if line["differs"] else "for a reason not known"
            told.add(reason)


def _remark(line: Mapping[str, Any], reason: str) -> str:
    if line["status"] != "done":
        counted = f"; {len(line['verdicts'])} cells count against" if line["verdicts"] else ""
        return f"{line['status']}: {line.get('reason', '')}{counted}"
    words = ["matched to the paper's figures"] * line.get("matched", False)
    for name, verdict in line["verdicts"].items():
        sign = "agrees" if verdict["agrees"] else "differs"
        found = verdict["difference"]
        by = "not measured" if found is None else f"{found:+.2g}"
        words.append(f"{name} {sign} ({by}, {verdict['allowed']:.2g} allowed)")
    if line["summary"].get("constant", {}).get("mean") == 100.0:
        words.append("every prediction is the larger class")
    if reason and words:
        words[-1] += f", {reason}"
    if "not converged" in str(line.get("facts", {}).get("certificate", "")):
        words.append("not converged")
    return "; ".join(words)


def _pictures(entry: Mapping[str, Any]) -> str:
    drawn = [line for line in entry["rows"] if line.get("picture")]
    if not drawn and not entry["plot"]:
        return ""
    try:
        figures = "".join(
            f"<figure>{regions(line['picture'], line['label'])}<figcaption>{html.escape(line['label'])} "
            f"{html.escape(line['work'])}</figcaption></figure>"
            for line in drawn
        )
        pictures = f'<div class="pictures">{figures}</div>' * bool(drawn)
        return pictures + f'<div class="plot">{curves_of(entry)}</div>' * bool(entry["plot"])
    except ImportError as error:  # The figures are worth a page without pictures, too.
        return f'<p class="soft">{html.escape(str(error))}</p>'


def curves_of(entry: Mapping[str, Any]) -> str:
    """Return the curves that a table's `plot` asks for, as SVG; empty where it asks for none."""
    plot = entry["plot"]
    if not plot:
        return ""
    x, y, log_x = plot["x"], plot.get("y", "seconds"), plot.get("log", True)
    ours: dict[str, list[tuple[float, float]]] = {}
    for line in entry["rows"]:
        if x not in line["at"]:
            continue
        if y in line["summary"]:
            ours.setdefault(line["label"], []).append((line["at"][x], line["summary"][y]["median"]))
        if y in line["paper"]:
            ours.setdefault(f"paper: {line['label']}", []).append((line["at"][x], line["paper"][y]))
    return curves(ours, x_name=AXES.get(x, x), y_name=MEASURES[y], log_x=log_x)


def _environment(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = results["environment"]
    plain = [(key, str(value)) for key, value in found.items() if key != "packages"]
    loads = [line["load"] for entry in results["tables"].values() for line in entry["rows"] if "load" in line]
    if loads:
        spread = f"{min(loads):g} to {max(loads):g}, median {median(loads):g}"
        plain.append(("load average of a minute, at the start of each row", spread))
    return plain + list(found["packages"].items())


def _html_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td{_class(cell)}>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    head = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def _class(cell: str) -> str:
    words = " words" if len(cell) > _LONG else ""
    if "differs (" in cell or cell.startswith(("failed:", "limit:", "Does not")):
        return f' class="warn{words}"'
    if "agrees (" in cell or cell.startswith("Reproduces"):
        return f' class="good{words}"'
    return ' class="words"' if words else ""


def _markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
