"""How a row is measured: random splits, given files, folds, forgetting, SUMT, or the solution itself.

Results are set beside the paper's figures, and beside those of an earlier run: what agrees, what became
worse.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from squaresvm.bench.data import DataError, Examples, Loaded, Scaling, load_data
from squaresvm.bench.methods import is_peer, make_method
from squaresvm.bench.pictures import picture_of
from squaresvm.bench.table import DataSet, TableRow, Tolerance
from squaresvm.typing import FloatArray

__all__ = ["Change", "Measured", "agreement", "compare_results", "judge", "measure"]

#: Multipliers above it are the support vectors "with tolerance" of the LSVM paper.
_TOLERANCE = 1e-3
#: Rows of the untimed fit that compiles whatever a method compiles.
_WARM_ROWS = 200


class Measured(NamedTuple):
    """Values of every repeat by measure, facts about the last fit, and a picture where one is wanted."""

    values: dict[str, list[float]]
    facts: dict[str, Any]
    picture: dict[str, Any] | None


class _Split(NamedTuple):
    """Scaled rows to train on and to test on."""

    X: FloatArray
    y: FloatArray
    X_test: FloatArray | None
    y_test: FloatArray | None


def measure(row: TableRow, data: DataSet, protocol: Mapping[str, Any], folder: Path | None) -> Measured:
    """Run a row as often as its protocol says.

    Parameters
    ----------
    row : TableRow
    data : DataSet
    protocol : mapping
        ``kind`` and its numbers.
    folder : Path or None

    Returns
    -------
    Measured
    """
    loaded = _loaded(_Hashed(data), folder)
    if protocol["kind"] == "forget":
        return _forgetting(row, loaded.train, data, protocol)
    if protocol["kind"] == "sumt":
        return _towards_a_free_bias(row, loaded.train, data)
    values: dict[str, list[float]] = {}
    model, part = None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # What did not converge says so in its facts.
        for part in _parts(loaded, data, row, protocol):
            model, found = _fitted(row, part, protocol)
            for name, value in found.items():
                values.setdefault(name, []).append(float(value))
        assert model is not None
        assert part is not None
        picture = picture_of(model, part.X, part.y) if row.options.get("picture") else None
    return Measured(values, _facts(model, part), picture)


class _Hashed:
    """A data set that can be a key: equal names may stand for different sets, so it is by content."""

    def __init__(self, data: DataSet) -> None:
        self.data, self._key = data, repr(data)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self._key == other._key


@lru_cache(maxsize=2)
def _loaded(data: _Hashed, folder: Path | None) -> Loaded:
    return load_data(data.data, folder)


def _parts(loaded: Loaded, data: DataSet, row: TableRow, protocol: Mapping[str, Any]) -> Iterator[_Split]:
    kind, seed = protocol["kind"], protocol.get("seed", 0)
    repeats = min(protocol.get("repeats", 1), row.options.get("repeats", np.inf))
    train, test = loaded
    if kind == "splits":
        for repeat in range(repeats):
            order = np.random.default_rng([seed, repeat]).permutation(len(train.y))
            inside, outside = order[: protocol["train"]], order[protocol["train"] :]
            yield _scaled(data, _rows(train, inside), _rows(train, outside))
    elif kind == "folds":
        from sklearn.model_selection import StratifiedKFold

        for repeat in range(repeats):
            folds = StratifiedKFold(protocol.get("folds", 10), shuffle=True, random_state=seed + repeat)
            for inside, outside in folds.split(train.X, train.y):
                yield _scaled(data, _rows(train, inside), _rows(train, outside))
    else:
        limit = row.options.get("rows", protocol.get("rows"))
        if limit is not None:
            train = Examples(train.X[:limit], train.y[:limit])
        scaled = _scaled(data, train, test)
        for _ in range(repeats):
            yield scaled


def _rows(examples: Examples, chosen: Any) -> Examples:
    return Examples(examples.X[chosen], examples.y[chosen])


def _scaled(data: DataSet, train: Examples, test: Examples | None) -> _Split:
    X = train.X
    if np.isnan(X).any() and "impute" not in data.prepare:
        raise DataError(f"{data.name}: values are missing; prepare with 'impute'")
    scaling = Scaling(X, data.prepare)
    if test is None:
        return _Split(scaling(X), train.y, None, None)
    return _Split(scaling(X), train.y, scaling(test.X), test.y)


def _fitted(row: TableRow, part: _Split, protocol: Mapping[str, Any]) -> tuple[Any, dict[str, float]]:
    parameters = dict(row.parameters)
    if row.tune:
        parameters |= _tuned(row, part, protocol)
    _warm_up(row, part)
    model = make_method(row.method, parameters)
    start = time.perf_counter()
    model.fit(part.X, part.y)
    found = {"seconds": time.perf_counter() - start}
    if protocol["kind"] == "points":
        found |= _solution(model, part)
    else:
        found["train"] = 100.0 * np.mean(model.predict(part.X) == part.y)
    if part.X_test is not None:
        found["test"] = 100.0 * np.mean(model.predict(part.X_test) == part.y_test)
    return model, found | _counts(row, model)


def _tuned(row: TableRow, part: _Split, protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that cross-validation inside the training rows finds best."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    inner = StratifiedKFold(protocol.get("inner", 5), shuffle=True, random_state=0)
    search = GridSearchCV(make_method(row.method, row.parameters), dict(row.tune), cv=inner, refit=False)
    search.fit(part.X, part.y)
    return dict(search.best_params_)


_WARM: set[str] = set()


def _warm_up(row: TableRow, part: _Split) -> None:
    """Fit a few rows once, so that no time of compiling is taken for one of fitting."""
    key = f"{row.method} {row.parameters.get('kernel')} {row.parameters.get('solver')}"
    if key in _WARM:
        return
    few = np.concatenate([np.flatnonzero(part.y == label)[: _WARM_ROWS // 2] for label in (1.0, -1.0)])
    make_method(row.method, row.parameters).fit(part.X[few], part.y[few])
    _WARM.add(key)


def _counts(row: TableRow, model: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    if hasattr(model, "support_"):
        found["support"] = len(model.support_)
    if not is_peer(row.method):
        found["support_over"] = int(np.count_nonzero(np.abs(model.dual_coef_) > _TOLERANCE))
        found["iterations"] = float(np.max(model.n_iter_))
    return found


def _solution(model: Any, part: _Split) -> dict[str, float]:
    """Return what describes a linear solution; `coefficient` is that of the first support vector."""
    w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    slack = np.maximum(0.0, 1.0 - part.y * (part.X @ w + b))
    return {
        "coefficient": float(np.abs(model.dual_coef_).max()),
        "bias": b,
        "norm": float(w @ w),
        "loss": float(slack @ slack),
    }


def _facts(model: Any, part: _Split) -> dict[str, Any]:
    facts: dict[str, Any] = {"rows": len(part.y), "columns": int(part.X.shape[1])}
    if part.y_test is not None:
        facts["test rows"] = len(part.y_test)
    if hasattr(model, "certificate_"):
        facts["solver"] = model.solver_
        facts["certificate"] = str(model.certificate_)
    return facts


def _forgetting(row: TableRow, train: Examples, data: DataSet, protocol: Mapping[str, Any]) -> Measured:
    """Time `forget` of k rows against a refit of the others, the same fit before each."""
    limit = row.options.get("rows", len(train.y))
    part = _scaled(data, Examples(train.X[:limit], train.y[:limit]), None)
    k = int(row.options["forget"])
    values: dict[str, list[float]] = {"seconds": [], "refit": [], "gain": []}
    model = make_method(row.method, row.parameters)
    model.fit(part.X, part.y).forget(range(k))  # What is compiled is compiled now.
    for _ in range(protocol.get("repeats", 1)):
        start = time.perf_counter()
        model.fit(part.X[k:], part.y[k:])
        refit = time.perf_counter() - start
        model.fit(part.X, part.y)
        start = time.perf_counter()
        model.forget(range(k))
        seconds = time.perf_counter() - start
        for name, value in (("seconds", seconds), ("refit", refit), ("gain", refit / seconds)):
            values[name].append(value)
    return Measured(values, _facts(model, part), None)


def _towards_a_free_bias(row: TableRow, train: Examples, data: DataSet) -> Measured:
    """Solve one problem of the relaxed paper's sequence, and say how far it is from its limit."""
    part = _scaled(data, train, None)
    parameters = dict(row.parameters)
    parameters["A"] *= row.options["factor"] ** row.options["step"]
    start = time.perf_counter()
    model = make_method(row.method, parameters).fit(part.X, part.y)
    seconds = time.perf_counter() - start
    shared = {name: value for name, value in parameters.items() if name in ("C", "kernel", "gamma")}
    limit = make_method("LSSVC", {**shared, "tol": 1e-10}).fit(part.X, part.y)
    beta = _multipliers(model, len(part.y))
    values = {
        "seconds": seconds,
        "balance": abs(float(beta.sum())),
        "distance": float(np.linalg.norm(beta - _multipliers(limit, len(part.y)))),
    }
    return Measured({name: [value] for name, value in values.items()}, _facts(model, part), None)


def _multipliers(model: Any, n_rows: int) -> FloatArray:
    beta = np.zeros(n_rows)
    beta[model.support_] = model.dual_coef_[0]
    return beta


#: Below this many seconds a time says nothing about the code.
_MIN_SECONDS = 1e-3


def judge(
    paper: Mapping[str, float], summary: Mapping[str, Mapping[str, float]], tolerance: Mapping[str, Tolerance]
) -> dict[str, dict[str, Any]]:
    """Return for each measure that has a tolerance how far ours is from the paper's and whether it may be.

    Examples
    --------
    >>> from squaresvm.bench.protocols import judge
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
