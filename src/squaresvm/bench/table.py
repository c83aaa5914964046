"""Tables of the papers, declared as data: what is read, how it is prepared, what is run, what was printed.

Results are set beside the paper's figures and those of an earlier run: what agrees, what became worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "AXES",
    "MEASURES",
    "Change",
    "DataSet",
    "PaperTable",
    "TableRow",
    "Tolerance",
    "agreement",
    "compare_results",
    "judge",
]

#: What a row may measure, and how the reports call it.
MEASURES = {
    "test": "testing rate, %",
    "train": "training rate, %",
    "support": "support vectors",
    "support_over": "support vectors above 0.001",
    "iterations": "iterations",
    "seconds": "seconds",
    "refit": "seconds of a refit",
    "gain": "refit / forget",
    "coefficient": "coefficient",
    "bias": "bias",
    "norm": "w'w",
    "loss": "squared loss",
    "balance": "|λ'y|",
    "distance": "‖λ - λ of LS-SVM‖",
}
#: What a row may vary, and how a plot calls it; anything else is called by its own name.
AXES = {"rows": "training rows", "forget": "rows forgotten", "step": "SUMT iterations"}


@dataclass(frozen=True)
class DataSet:
    """A data set and how its columns become numbers.

    Parameters
    ----------
    files, test : tuple of str
        Files of the data folder, one below the other; `test` where the paper has rows apart for testing.
    features : int or None
        Columns of LIBSVM text.
    make, make_test : mapping or None
        In place of files: ``generator`` and its parameters.
    X, y : tuple or None
        In place of files: the rows themselves.
    prepare : tuple of str
        Steps, in order. Means, deviations and ranges are those of the training rows.
    options : mapping
        ``codes`` (level to number), ``columns`` (a choice), ``classes`` (the first is +1; others are left
        out), ``counts`` (rows kept of each class), ``share`` (of the rows, at random), ``shuffle`` (whether
        the rows are put in random order, so that the first few are a sample), ``seed``.
    """

    name: str
    files: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    features: int | None = None
    make: Mapping[str, Any] | None = None
    make_test: Mapping[str, Any] | None = None
    X: tuple[tuple[float, ...], ...] | None = None
    y: tuple[float, ...] | None = None
    prepare: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableRow:
    """One line of a table: a method with parameters on a data set, and what the paper prints for it.

    Rows of the same data and `work` do the same work: a peer's seconds are what ours are divided by.
    """

    data: str
    method: str
    work: str
    parameters: Mapping[str, Any]
    paper: Mapping[str, float]
    label: str
    options: Mapping[str, Any]
    tune: Mapping[str, Any]
    limit: float
    quick: bool
    differs: str
    at: Mapping[str, Any]


@dataclass(frozen=True)
class Tolerance:
    """How far a measure may be from the paper's: the largest of the three that are given."""

    points: float = 0.0
    percent: float = 0.0
    deviations: float = 0.0

    def allowed(self, published: float, deviation: float | None) -> float:
        """Return the largest difference that counts as agreement."""
        return max(self.points, self.percent / 100.0 * abs(published), self.deviations * (deviation or 0.0))


@dataclass(frozen=True)
class PaperTable:
    """One table or figure of a paper.

    Parameters
    ----------
    tuned_on_test : bool
        Whether the paper chose its parameters on the rows it reports on: then the table is a reproduction
        and no estimate of error.
    at_least : int or None
        Number of data sets that must agree; None: all.
    """

    name: str
    title: str
    paper: str
    where: str
    protocol: Mapping[str, Any]
    quick: Mapping[str, Any]
    data: Mapping[str, DataSet]
    rows: tuple[TableRow, ...]
    tolerance: Mapping[str, Tolerance]
    at_least: int | None
    tuned_on_test: bool
    remarks: tuple[str, ...]
    plot: Mapping[str, Any]


#: Below this many seconds a time says nothing about the code.
_MIN_SECONDS = 1e-3


def judge(
    paper: Mapping[str, float], summary: Mapping[str, Mapping[str, float]], tolerance: Mapping[str, Tolerance]
) -> dict[str, dict[str, Any]]:
    """Return for each measure that has a tolerance how far ours is from the paper's and whether it may be.

    Examples
    --------
    >>> from squaresvm.bench.table import judge
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
