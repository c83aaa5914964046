"""Whether a table's cells agree with the paper's, and what became worse between two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from squaresvm.bench.table import Tolerance

__all__ = ["Agreement", "Change", "agreement", "compare_results", "judge"]

#: Below this many seconds a time says nothing about the code.
_MIN_SECONDS = 1e-3


def judge(
    paper: Mapping[str, float], summary: Mapping[str, Mapping[str, float]], tolerance: Mapping[str, Tolerance]
) -> dict[str, dict[str, Any]]:
    """Return for each cell that has a tolerance how far ours is from the paper's, and whether it may be.

    A cell that the paper prints and that was not measured, for whatever reason, does not agree. Where the
    paper prints a limit, the largest of ours is judged.

    Examples
    --------
    >>> from squaresvm.bench.table import Tolerance
    >>> from squaresvm.bench.verdicts import judge
    >>> rules = {"test": Tolerance(points=0.5)}
    >>> judge({"test": 83.0}, {"test": {"mean": 83.4}}, rules)["test"]["agrees"]
    True
    >>> judge({"test": 83.0}, {}, rules)["test"]["agrees"]
    False
    """
    found = {}
    for name, rule in tolerance.items():
        if name in paper:
            allowed = rule.allowed(paper[name], paper.get(f"{name}_std"))
            ours = summary.get(name, {}).get("max" if rule.most else "mean")
            difference = None if ours is None else ours - paper[name]
            agrees = (
                difference is not None and (difference if rule.most else abs(difference)) <= allowed + 1e-9
            )
            found[name] = {"difference": difference, "allowed": allowed, "agrees": bool(agrees)}
    return found


class Agreement(NamedTuple):
    """Cells of a table that agree, and all that are judged: ours, and those of the paper's other methods.

    `one_class` of ours agree where every prediction is the same class: any model that says so would. Cells of
    rows that were matched, that is prepared with the paper's figures in sight, are counted apart.
    """

    good: int
    judged: int
    one_class: int
    peers_good: int
    peers_judged: int
    matched_good: int
    matched_judged: int


def agreement(entry: Mapping[str, Any]) -> Agreement | None:
    """Return how many cells of a table agree; None where nothing is judged."""
    matched = [line for line in entry["rows"] if line.get("matched", False)]
    ours = [line for line in entry["rows"] if not line["peer"] and not line.get("matched", False)]
    peers = [line for line in entry["rows"] if line["peer"] and not line.get("matched", False)]
    same = [line for line in ours if line["summary"].get("constant", {}).get("mean") == 100.0]
    one_class = sum(line["verdicts"].get("test", {}).get("agrees", False) for line in same)
    found = Agreement(*_cells(ours), one_class, *_cells(peers), *_cells(matched))
    return found if found.judged + found.peers_judged + found.matched_judged else None


def _cells(lines: list[Mapping[str, Any]]) -> tuple[int, int]:
    cells = [verdict["agrees"] for line in lines for verdict in line["verdicts"].values()]
    return sum(cells), len(cells)


class Change(NamedTuple):
    """One row that became worse."""

    table: str
    row: str
    kind: str
    text: str


def compare_results(
    old: Mapping[str, Any], new: Mapping[str, Any], *, slower: float = 1.25, points: float = 0.5
) -> tuple[list[Change], int]:
    """Return what became worse, and how many rows could be compared.

    Machines differ, so seconds count as a ratio to the peers of the same run that do the same work (the same
    table, data and work). Testing rates count by themselves: splits and seeds are the same.

    Parameters
    ----------
    old, new : dict
        Results of two runs in the same mode.
    slower : float, default=1.25
        A ratio that grew by this factor is reported.
    points : float, default=0.5
        A testing rate that fell by more percentage points is reported.

    Returns
    -------
    changes : list of Change
    compared : int
    """
    if old["mode"] != new["mode"]:
        raise ValueError(f"the old results are of {old['mode']} mode, the new ones of {new['mode']} mode")
    changes, compared = [], 0
    before = {key: (line, entry) for key, line, entry in _lines(old)}
    for key, line, entry in _lines(new):
        if key not in before:
            continue
        compared += 1
        earlier, earlier_entry = before[key]
        table, name = key[0], " ".join(part for part in key[1:] if part)
        if earlier["status"] == "done" and line["status"] != "done":
            changes.append(Change(table, name, "failed", f"{line['status']}: {line.get('reason', '')}"))
            continue
        fell = _mean(earlier, "test") - _mean(line, "test")
        if fell > points:
            changes.append(
                Change(
                    table,
                    name,
                    "less accurate",
                    f"testing rate {_mean(line, 'test'):.2f} % was {fell:.2f} more",
                )
            )
        ratios, were = _ratios(line, entry), _ratios(earlier, earlier_entry)
        grown = {peer: ratios[peer] / were[peer] for peer in ratios if peer in were}
        if grown and min(grown.values()) > slower:  # One peer that became faster is not our loss.
            peer = min(grown, key=lambda name: grown[name])
            changes.append(
                Change(
                    table,
                    name,
                    "slower",
                    f"{ratios[peer]:.3g} of the time of {peer}, was {were[peer]:.3g}",
                )
            )
    return changes, compared


def _lines(results: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield our own rows by what identifies them."""
    for name, entry in results["tables"].items():
        for line in entry["rows"]:
            if not line["peer"]:
                yield (name, line["data"], line["label"], line["work"]), line, entry


def _mean(line: Mapping[str, Any], measure: str) -> float:
    return line["summary"].get(measure, {}).get("mean", float("nan"))


def _ratios(line: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, float]:
    """Return our seconds by those of each peer, medians; for forgetting, by those of a refit."""
    ours = line["summary"].get("seconds", {}).get("median", 0.0)
    if line["status"] != "done" or ours < _MIN_SECONDS:
        return {}
    found = {
        other["label"]: other["summary"]["seconds"]["median"]
        for other in entry["rows"]
        if other["peer"]
        and other["status"] == "done"
        and (other["data"], other["work"]) == (line["data"], line["work"])
    }
    if "refit" in line["summary"]:
        found["a refit"] = line["summary"]["refit"]["median"]
    return {peer: ours / seconds for peer, seconds in found.items() if seconds >= _MIN_SECONDS}
