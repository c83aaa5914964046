"""How a row is measured: random splits, given files, folds, forgetting, SUMT, or the solution itself.

Results are set beside the paper's figures, and beside those of an earlier run: what agrees, what became
worse.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from squaresvm.bench.data import DataError, Examples, Loaded, Scaling, load_data
from squaresvm.bench.methods import is_peer, make_method
from squaresvm.bench.pictures import picture_of
from squaresvm.bench.table import DataSet, TableRow
from squaresvm.solvers import Sumt
from squaresvm.typing import FloatArray

__all__ = ["Measured", "measure"]

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
    if protocol["kind"] == "grid":
        return _over_a_grid(row, loaded, data, protocol)
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

        number = row.options.get("folds", protocol.get("folds", 10))
        for repeat in range(repeats):
            folds = StratifiedKFold(number, shuffle=True, random_state=seed + repeat)
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
    found = {"seconds": time.perf_counter() - start, "columns": float(part.X.shape[1])}
    if protocol.get("memory") and not is_peer(row.method):
        found["memory"] = _peak(make_method(row.method, parameters), part)
    if protocol["kind"] == "points":
        found |= _solution(model, part)
    else:
        found["train"] = 100.0 * np.mean(model.predict(part.X) == part.y)
    if part.X_test is not None:
        predicted = model.predict(part.X_test)
        found["test"] = 100.0 * np.mean(predicted == part.y_test)
        found["constant"] = 100.0 * bool(np.all(predicted == predicted[0]))
    return model, found | _counts(row, model)


def _tuned(row: TableRow, part: _Split, protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that cross-validation inside the training rows finds best."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    inner = StratifiedKFold(protocol.get("inner", 5), shuffle=True, random_state=0)
    search = GridSearchCV(make_method(row.method, row.parameters), dict(row.tune), cv=inner, refit=False)
    search.fit(part.X, part.y)
    return dict(search.best_params_)


def _peak(model: Any, part: _Split) -> float:
    """Return the kilobytes that another fit, untimed, has at most beside its rows, as Python and NumPy count.

    What compiled libraries allocate by themselves is not counted, so peers are not measured.
    """
    tracemalloc.start()
    try:
        model.fit(part.X, part.y)
        return tracemalloc.get_traced_memory()[1] / 1024.0
    finally:
        tracemalloc.stop()


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
    if hasattr(model, "violation_"):
        found["violation"] = model.violation_
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
    """Time `forget` of k rows, with and without the repair that it may leave for later, against a refit.

    Before each, the same fit, and one row more that is forgotten at once: what a first request makes for
    those that follow, as the inverse of the decremental paper, belongs to what is known before rows leave.
    """
    limit = row.options.get("rows", len(train.y))
    part = _scaled(data, Examples(train.X[:limit], train.y[:limit]), None)
    k = int(row.options["forget"])
    X, y = np.vstack([part.X, part.X[-1:]]), np.append(part.y, part.y[-1])
    values: dict[str, list[float]] = {"seconds": [], "flushed": [], "refit": [], "gain": []}
    model = make_method(row.method, row.parameters)
    model.fit(part.X, part.y).forget(range(k))  # What is compiled is compiled now.
    for _ in range(protocol.get("repeats", 1)):
        start = time.perf_counter()
        model.fit(part.X[k:], part.y[k:])
        refit = time.perf_counter() - start
        model.fit(X, y).forget([limit])
        start = time.perf_counter()
        model.forget(range(k))
        seconds = time.perf_counter() - start
        model.flush()
        flushed = time.perf_counter() - start
        found = {"seconds": seconds, "flushed": flushed, "refit": refit, "gain": refit / flushed}
        for name, value in found.items():
            values[name].append(value)
    return Measured(values, _facts(model, part), None)


def _towards_a_free_bias(row: TableRow, train: Examples, data: DataSet) -> Measured:
    """Stop SUMT after some values of A, each problem started from the last, and say how far it has come."""
    part, step = _scaled(data, train, None), row.options["step"]
    parameters = dict(row.parameters)
    solver = Sumt(
        A0=parameters.pop("A"), rho=row.options["factor"], callback=lambda now: now.iteration > step
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It ends where it is told to.
        model = make_method(row.method, {**parameters, "solver": solver}).fit(part.X, part.y)
    seconds = time.perf_counter() - start
    limit = make_method("LSSVC", {**parameters, "tol": 1e-10}).fit(part.X, part.y)
    beta = _multipliers(model, len(part.y))
    values = {
        "seconds": seconds,
        "balance": abs(float(beta.sum())),
        "distance": float(np.linalg.norm(beta - _multipliers(limit, len(part.y)))),
    }
    return Measured({name: [value] for name, value in values.items()}, _facts(model, part), None)


def _over_a_grid(row: TableRow, loaded: Loaded, data: DataSet, protocol: Mapping[str, Any]) -> Measured:
    """Choose parameters on the test rows, as the RLSSVM paper does; of equally good ones, the first."""
    train, test = loaded
    if test is None:
        limit = int(row.options["rows"])
        train, test = _rows(train, slice(limit)), _rows(train, slice(limit, None))
    part = _scaled(data, train, test)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Cells that do not converge are judged by their rate, as any other.
        columns = [_rates(row, part, gamma) for gamma in row.tune.get("gamma", [None])]
    seconds, rates = time.perf_counter() - start, np.column_stack(columns)
    logs = {f"log_{name}": np.log10(row.tune[name]) for name in ("C", "gamma") if name in row.tune}
    best = np.unravel_index(int(np.argmax(rates)), rates.shape)
    values = {"test": float(rates[best]), "seconds": seconds, "ties": float(np.sum(rates == rates[best]))}
    values |= {name: float(logs[name][index]) for name, index in zip(logs, best, strict=False)}
    near = [np.flatnonzero(abs(logs[name] - row.paper.get(name, np.inf)) < 1e-3) for name in logs]
    if protocol.get("printed") and all(index.size for index in near):
        values["printed"] = float(rates[tuple(index[0] for index in [*near, np.zeros(1, int)][:2])])
    facts = {"rows": len(part.y), "columns": int(part.X.shape[1]), "test rows": len(test.y)}
    return Measured({name: [value] for name, value in values.items()}, facts, None)


def _rates(row: TableRow, part: _Split, gamma: float | None) -> FloatArray:
    """Return the testing rate at each C; the kernel's values are those of all of them."""
    from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
    from sklearn.utils import gen_batches

    assert part.X_test is not None
    assert part.y_test is not None
    kernel = linear_kernel if gamma is None else partial(rbf_kernel, gamma=gamma)
    K, costs = kernel(part.X, part.X), row.tune["C"]
    beta, bias = np.zeros((len(part.y), len(costs))), np.zeros(len(costs))
    for column, C in enumerate(costs):
        model = make_method(row.method, {**row.parameters, "kernel": "precomputed", "C": C}).fit(K, part.y)
        beta[model.support_, column], bias[column] = model.dual_coef_[0], model.intercept_[0]
    right = np.zeros(len(costs))
    for block in gen_batches(len(part.y_test), 4096):
        values = kernel(part.X_test[block], part.X) @ beta + bias
        right += np.sum((values > 0) == (part.y_test[block, None] > 0), axis=0)
    return 100.0 * right / len(part.y_test)


def _multipliers(model: Any, n_rows: int) -> FloatArray:
    beta = np.zeros(n_rows)
    beta[model.support_] = model.dual_coef_[0]
    return beta
