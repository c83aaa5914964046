"""Turns a full run of the papers' tables into what the documentation shows and the project keeps.

squaresvm bench --data FOLDER -o bench-results
python benchmarks/papers_results.py bench-results/results.json

writes docs/results: the results without pictures as JSON, all of them as Markdown, a table of each table as
CSV, why its rows differ as another, and its curves or regions as HTML. tests/bench/test_papers_results.py
checks that they belong together.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from squaresvm.bench import read_results
from squaresvm.bench.pictures import regions
from squaresvm.bench.report import (
    curves_of,
    is_shown,
    markdown_report,
    measured_text,
    published_text,
    verdict,
)
from squaresvm.bench.table import MEASURES

FOLDER = Path(__file__).parents[1] / "docs" / "results"
#: Times of ours, and the paper's, that a table without testing rates is about.
_TIMES = ("seconds", "flushed", "refit", "gain")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/results from a full run.")
    parser.add_argument("results", type=Path)
    results = read_results(parser.parse_args().results)
    if results["mode"] != "full":
        raise SystemExit("these are results of quick mode: run the tables in full")
    for name, text in {**texts(kept(results)), **pictures(results)}.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def kept(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is worth a place in the project: no pictures, no rows of other declarations, six digits."""
    found = {key: value for key, value in results.items() if key != "kept"}
    found["tables"] = {
        name: {**entry, "rows": [_without_picture(line) for line in entry["rows"]]}
        for name, entry in results["tables"].items()
    }
    return _short(found)


def _without_picture(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without its picture, and without what `facts` has too or what is nowhere so."""
    found = {key: value for key, value in line.items() if key != "picture"}
    for kind in ("summary", "values"):
        if kind in found:
            found[kind] = {key: value for key, value in line[kind].items() if _is_kept(line, key)}
    return found


def _is_kept(line: Mapping[str, Any], name: str) -> bool:
    if name in ("columns", "constant"):
        return is_shown(line, name)
    return True


def _short(value: Any) -> Any:
    if isinstance(value, float):
        short = float(f"{value:.6g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list) else value


def texts(results: Mapping[str, Any]) -> dict[str, str]:
    """Return by name the files that follow from the JSON alone, and the JSON itself."""
    found = {
        "papers.json": _numbers_in_line(json.dumps(results, indent=1, ensure_ascii=False)) + "\n",
        "papers.md": markdown_report(results),
        "overview.csv": _csv([("table", "verdict"), *_overview(results)]),
    }
    for name, entry in results["tables"].items():
        found[f"{name}.csv"] = _csv(_table(entry))
        if reasons := _reasons(entry):
            lines = [
                (number, why, tested or "untested") for number, (why, tested) in enumerate(reasons, start=1)
            ]
            found[f"{name}-reasons.csv"] = _csv([("", "why a row differs", "tested"), *lines])
        if entry["plot"]:
            found[f"{name}.html"] = f'<div class="papers-plot">{curves_of(entry)}</div>\n'
    return found


def _numbers_in_line(text: str) -> str:
    """Return JSON with numbers that belong together on one line: smaller, and changes are easier to see."""
    text = re.sub(r"\[[-+.,\deE\s]+\]", lambda found: " ".join(found[0].split()), text)
    numbers = r"\{\s+(?:\"\w+\": [-+.\deE]+,?\s+)+\}"
    return re.sub(numbers, lambda found: " ".join(found[0].split()), text)


def pictures(results: Mapping[str, Any]) -> dict[str, str]:
    """Return regions in the plane by the name of their file."""
    found = {}
    for name, entry in results["tables"].items():
        figures = [
            f"<figure>{regions(line['picture'], line['label'])}"
            f"<figcaption>{line['label']}, {line['work']}</figcaption></figure>"
            for line in entry["rows"]
            if line.get("picture")
        ]
        if figures:
            found[f"{name}.html"] = f'<div class="papers-pictures">{"".join(figures)}</div>\n'
    return found


def _overview(results: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for entry in results["tables"].values():
        yield entry["title"], verdict(entry)


def _table(entry: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield ours beside the paper's, and the fastest peer that did the same work."""
    ours = [line for line in entry["rows"] if not line["peer"]]
    judged = [name for name in MEASURES if any(name in line["verdicts"] for line in ours)]
    timed = [name for name in _TIMES if name in ours[0]["summary"] and (name == "seconds" or not judged)]
    counted = any({"support_over", "iterations"} <= set(line["paper"]) for line in ours)  # LSVM, Table 2.
    counts = [name for name in ("support", "support_over") if counted and name not in judged]
    if any("printed" in line["summary"] for line in ours):  # RLSSVM, Table 3.
        counts += ["test", "printed", "ties"]
    counts += [name for name in ("columns", "memory") if any(name in line["paper"] for line in ours)]
    peers = any(_fastest(line, entry) for line in ours)
    rated, timed = _Columns([*judged, *counts], ours), _Columns(timed, ours)
    verdicts, fastest = ["verdict"] * bool(judged), ["fastest peer"] * peers
    yield ["data", "model", *verdicts, *rated.heads(), *timed.heads(), *fastest]
    reasons = _reasons(entry)
    for line in ours:
        name = f"{line['label']}, {line['work']}".removesuffix(", ")
        cells = [line["data"], name, *[_word(line, reasons)] * bool(judged), *rated.cells(line)]
        yield [*cells, *timed.cells(line), *[_fastest(line, entry)] * peers]


def _reasons(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return why rows of ours differ from the paper, and where each reason is tested; each once."""
    apart = [line for line in entry["rows"] if not line["peer"] and line["status"] == "done" and _apart(line)]
    return list(dict.fromkeys((line["differs"], line["tested"]) for line in apart))


def _apart(line: Mapping[str, Any]) -> list[str]:
    return [MEASURES[name].split(",")[0] for name, cell in line["verdicts"].items() if not cell["agrees"]]


class _Columns:
    """Measures of ours, each with the paper's beside it where there is one."""

    def __init__(self, measures: list[str], lines: list[Mapping[str, Any]]) -> None:
        self._printed = {name: any(name in line["paper"] for line in lines) for name in measures}

    def heads(self) -> Iterator[str]:
        for name, printed in self._printed.items():
            yield from (MEASURES[name], "paper") if printed else (MEASURES[name],)

    def cells(self, line: Mapping[str, Any]) -> Iterator[str]:
        for name, printed in self._printed.items():
            yield _unbroken(measured_text(line, name))
            if printed:
                yield _unbroken(published_text(line, name))


def _unbroken(number: str) -> str:
    return number.replace(" ", "\N{NO-BREAK SPACE}")


def _fastest(line: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    same = [
        other
        for other in entry["rows"]
        if other["peer"]
        and other["status"] == "done"
        and (other["data"], other["work"]) == (line["data"], line["work"])
    ]
    if not same:
        return ""
    best = min(same, key=lambda other: other["summary"]["seconds"]["median"])
    rate = f", {measured_text(best, 'test').split()[0]} %" if "test" in best["summary"] else ""
    return f"{best['label']}: {_unbroken(measured_text(best, 'seconds') + ' s')}{rate}"


def _word(line: Mapping[str, Any], reasons: list[tuple[str, str]]) -> str:
    """Return what is judged of a row, with the number of the reason where it differs."""
    if line["status"] != "done":
        return f"{line['status']}, which counts against: {line['reason']}"
    if not line["verdicts"]:
        return ""
    apart, matched = _apart(line), "matched: " * line["matched"]
    one_class = line["summary"].get("constant", {}).get("mean") == 100.0
    guess = ", every prediction the larger class" * one_class
    if apart:
        number = reasons.index((line["differs"], line["tested"])) + 1
        return f"{matched}differs ({number}) in {', '.join(apart)}{guess}"
    return f"{matched}agrees{guess}"


def _csv(rows: Any) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


if __name__ == "__main__":
    main()
