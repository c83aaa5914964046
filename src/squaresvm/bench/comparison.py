"""Results beside the paper's figures, and beside those of an earlier run: what agrees, what became worse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from squaresvm.bench.table import Tolerance

__all__ = ["Change", "agreement", "compare_results", "judge"]

#: Below this many seconds a time says nothing about the code.
_MIN_SECONDS = 1e-3


def judge(
    paper: Mapping[str, float], summary: Mapping[str, Mapping[str, float]], tolerance: Mapping[str, Tolerance]
) -> dict[str, dict[str, Any]]:
    """Return for each measure that has a tolerance how far ours is from the paper's and whether it may be.

    Examples
    --------
    >>> from squaresvm.bench.comparison import judge
    >>> from squaresvm.bench.table import Tolerance
    >>> verdict = judge({"test": 83.0}, {"test": {"mean": 83.4}}, {"test": Tolerance(points=0.5)})
    >>> verdict["test"]["agrees"]
    True
    """
    found = {}
    for name, rule in tolerance.items():
        if name in paper and name in summary:
            difference = summary[name]["mean"] - paper[name]
            allowed = rule.allowed(paper[name], paper.get(f"{name}_std"))
            found[name] = {
                "difference": difference,
                "allowed": allowed,
                "agrees": bool(abs(difference) <= allowed + 1e-9),
            }
    return found


def agreement(entry: Mapping[str, Any]) -> tuple[int, int, bool] | None:
    """Return how many data sets of a table agree, of how many, and whether that is enough.

    A data set agrees where all its rows that are judged do. None where nothing is judged.
    """
    by_data: dict[str, bool] = {}
    for line in entry["rows"]:
        for verdict in line["verdicts"].values():
            by_data[line["data"]] = by_data.get(line["data"], True) and verdict["agrees"]
    if not by_data:
        return None
    good = sum(by_data.values())
    needed = entry["at_least"] if entry["at_least"] is not None else len(by_data)
    return good, len(by_data), good >= needed


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
