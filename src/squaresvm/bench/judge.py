"""What agrees with the paper, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squaresvm.bench.table import Tolerance

__all__ = ["agreement", "judge"]


def judge(
    paper: Mapping[str, float], summary: Mapping[str, Mapping[str, float]], tolerance: Mapping[str, Tolerance]
) -> dict[str, dict[str, Any]]:
    """Return for each measure that has a tolerance how far ours is from the paper's and whether it may be.

    Examples
    --------
    >>> from squaresvm.bench.judge import judge
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
