"""Models with random histories of requests, and forgeries of their files that must all be found.

A case is a file. What is forged gets a right checksum, and as far as a forger could have them, right hashes.
Who has kept the receipts finds all of it; the file alone cannot tell what is in `NEEDS_RECEIPTS`.
"""

from __future__ import annotations

import copy
import json
import warnings

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import squaresvm
from squaresvm import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    RLSSVC,
    RLSSVCCV,
    LagrangianSVC,
    LagrangianSVCCV,
    OneVsOne,
    ProximalSVC,
    Receipt,
    RelaxedLSSVC,
    Window,
)
from squaresvm.evidence.columns import Columns
from squaresvm.files import ModelFileError
from squaresvm.streaming import ArraySource
from support.forged import arrays_of, opened, with_arrays

_ESTIMATORS = (LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC)
_SEARCHES = {LSSVC: LSSVCCV, LSSVR: LSSVRCV, RLSSVC: RLSSVCCV, LagrangianSVC: LagrangianSVCCV}
_KERNELS = ("rbf", "linear", "poly", "laplacian", "sigmoid", "precomputed")
KINDS = (
    *("multiplier", "bias", "C", "row", "label", "weight", "ids", "not removed", "fewer", "more"),
    *("dropped", "edited", "rehashed", "swapped", "added", "anchored", "figures"),
)
#: The last receipt with another time or residual and a right hash, and an anchor in place of a whole chain.
NEEDS_RECEIPTS = ("rehashed", "anchored")


class Case:
    """A saved model after a random history, and the receipts that somebody has kept of it.

    `rows` are those that a model of a stream is of, which keeps none.
    """

    def __init__(self, path, model, requests, before, exported, rows=None):
        self.path, self.model, self.requests, self.before = path, model, requests, before
        self.rows = rows
        self.known = [*exported, *_last(model).receipts_]
        self.data = path.read_bytes()

    def describe(self):
        """Return what the history was."""
        inner = getattr(self.model, "estimator_", self.model)
        return f"{inner!r}, {self.requests}"

    def verdict(self, model=None, is_alone=False):
        """Return the verdict on the file, or on another model; `is_alone`: by nothing but the file."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known = None if is_alone else self.known
            return squaresvm.verify(self.path if model is None else model, self.rows, receipts=known)

    def forged(self, kind, rng, is_alone=False):
        """Return the faults that are found after a forgery; a refusal to load it is one."""
        header, body = opened(self.before if kind == "not removed" else self.data)
        arrays = {name: np.array(array) for name, array in arrays_of(header, body).items()}
        if kind == "not removed":  # The receipt says that a row has left, and the model is as it was.
            header["receipts"] = opened(self.data)[0]["receipts"]
        _forge(kind, rng, header, arrays)
        other = self.path.with_suffix(".forged")
        other.write_bytes(with_arrays(header, arrays))
        try:
            return self.verdict(other, is_alone).faults
        except ModelFileError as error:
            return (str(error),)


def _forge(kind, rng, header, arrays):
    receipts = header["receipts"]["receipts"]
    place = int(rng.integers(len(receipts)))
    solution = arrays["primal" if "primal" in arrays else "beta"]
    m = arrays["y"].shape[0]
    row = int(rng.integers(m))
    if kind == "multiplier":
        used = np.flatnonzero(solution)
        at = int(rng.choice(used)) if used.size else 0
        solution.flat[at] = solution.flat[at] * (1.0 + 1e-6) if used.size else 1e-6
    elif kind == "bias":
        arrays["bias"][0] += 1e-9
    elif kind == "C":
        own = header if "settings" in header else header["pairs"][int(rng.integers(len(header["pairs"])))]
        own["settings"]["C"] *= 1.0 + 1e-9
    elif kind == "weight":
        arrays["given" if "given" in arrays else "weights"][row] += 1e-9
    elif kind == "ids":
        names = arrays["ids"] if header["ids"] is None else header["ids"]
        names[row], names[row - 1] = names[row - 1], names[row]
    elif kind == "row" and "rows" in arrays and arrays["rows"].shape[1]:
        arrays["rows"][row, 0] += 1e-9
    elif kind in ("row", "label"):
        y = arrays["y"]
        others = np.unique(y[y != y[row]])
        y[row] = y[row] + 1e-9 if y.dtype.kind == "f" else others[0]
    elif kind == "fewer":
        receipts[-1]["remaining"] -= 1
        receipts[-1]["hash"] = Receipt.from_json(receipts[-1]).hashed()
    elif kind == "more":
        receipts[-1]["remaining"] += 1
    elif kind == "dropped":
        del receipts[place]
    elif kind in ("edited", "rehashed"):
        name = str(rng.choice(["residual", "time", "seconds", "checked", "id_hashes", "digest", "previous"]))
        change = {"residual": 0.25, "time": "2020-01-01T00:00:00+00:00", "seconds": 9.0, "checked": 1}
        receipts[place][name] = change.get(name, ["0" * 64] if name == "id_hashes" else "0" * 64)
        if kind == "rehashed":
            receipts[place]["hash"] = Receipt.from_json(receipts[place]).hashed()
    elif kind == "swapped":
        other = (place + 1) % len(receipts)
        if other == place:
            receipts[0]["number"] = 1
        receipts[place], receipts[other] = receipts[other], receipts[place]
    elif kind == "added":
        more = copy.deepcopy(receipts[place])
        more.pop("before", None)
        more |= {
            "number": receipts[-1]["number"] + 1,
            "previous": receipts[-1]["hash"],
            "kind": "forget",
            "rows": 1,
        }
        more |= {"rows_before": receipts[-1]["remaining"], "remaining": receipts[-1]["remaining"] - 1}
        more["hash"] = Receipt.from_json(json.loads(json.dumps(more))).hashed()
        receipts.append(more)
    elif kind == "figures":  # What is kept of the columns at fit; precomputed kernels and scalers have none.
        own = header["receipts"]
        own["columns"] = Columns.of(np.arange(6.0).reshape(2, 3)).to_json()
        if "figures" not in receipts[-1]["resolved"]:
            receipts[-1]["resolved"]["figures"] = "0" * 64
    elif kind == "anchored":  # What an honest anchor would say, of a last receipt that is not the true one.
        true = [Receipt.from_json(each) for each in receipts]
        last = true[-1].but(seconds=9.0).sealed(true[-1].previous)
        receipts[:] = [last.anchor([*true[:-1], last], last.time).to_json()]


def _last(model):
    """Return the model at the end of a pipeline."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def honest(seed, folder):
    """Return a case of a random model with a random history, saved, loaded and saved again on the way."""
    rng = np.random.default_rng(seed)
    cls = _ESTIMATORS[int(rng.integers(len(_ESTIMATORS)))]
    kernel = _KERNELS[int(rng.integers(len(_KERNELS)))]
    m, classes = int(rng.integers(17, 40)), int(rng.integers(2, 4))
    X = rng.normal(size=(2 * m, 3)) * 10.0 ** rng.uniform(-2, 2)
    y = X[:, 0] if cls is LSSVR else np.arange(2 * m) % classes
    weights = rng.uniform(0.1, 2.0, 2 * m) if rng.random() < 0.5 else np.ones(2 * m)
    if rng.random() < 0.2:
        weights[m - 1] = 0.0
    # tanh is not semidefinite: a small C keeps the problem convex.
    options = {"C": 10.0 ** rng.uniform(-2, -0.5 if kernel == "sigmoid" else 3), "kernel": kernel}
    if cls is not LSSVR and rng.random() < 0.3:
        options["class_weight"] = "balanced"
    named = rng.random() < 0.4
    ids = np.array([f"id {i}" for i in range(2 * m)]) if named else np.arange(2 * m)
    K = np.exp(-np.abs(X[:, None] - X).sum(axis=2) / np.abs(X).max()) if kernel == "precomputed" else None
    held, path = list(range(m)), folder / f"{seed}.model"
    requests = [f"{m} rows, {classes} classes"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = K[np.ix_(held, held)] if K is not None else X[:m]
        model = _varied(cls, options, X, rng)
        if rng.random() < 0.15 and K is None and cls is not LSSVR:
            model = OneVsOne(model)
        if rng.random() < 0.1 and K is None:
            model = Window(model, size=4 * m)
        if rng.random() < 0.1 and K is None:
            model = make_pipeline(StandardScaler(), model).fit(
                start, y[:m], **_named(model, weights[:m], ids[:m])
            )
            named = True
        else:
            model.fit(start, y[:m], weights[:m], ids=ids[:m] if named else None)
        exported = []
        for _ in range(int(rng.integers(0, 6))):
            action = str(rng.choice(["learn", "forget", "forget", "refit", "file", "ask", "anchor"]))
            try:
                model = _step(action, rng, model, (X, K, y, weights, ids), held, named, path, exported)
            except ValueError as error:  # Too few rows would be left.
                action += f" refused: {error}"
            requests.append(action)
        squaresvm.save(model, path, overwrite=True)
        before = path.read_bytes()
        _step("forget", rng, model, (X, K, y, weights, ids), held, named, path, exported)
        squaresvm.save(model, path, overwrite=True)
    return Case(path, model, requests, before, exported)


def _varied(cls, options, X, rng):
    """Return a model, of a random bias where it has a choice, and sometimes with its numbers searched."""
    known = cls().get_params()
    if rng.random() < 0.15:
        options["fit_intercept"] = False
    if "augment" in known and rng.random() < 0.15 and options["kernel"] != "precomputed":
        options = {name: value for name, value in options.items() if name != "fit_intercept"}
        options["augment"] = True
    elif "A" in known:
        options["A"] = 10.0 ** rng.uniform(-2, 2)
    if rng.random() > 0.12 or cls not in _SEARCHES or options["kernel"] == "sigmoid":
        return cls(**options)
    C, scale = options.pop("C"), 1.0 / (3.0 * X.var())
    has_gamma = options["kernel"] not in ("linear", "precomputed")
    return _SEARCHES[cls](Cs=[0.3 * C, C], gammas=[0.5 * scale, scale] if has_gamma else None, **options)


def streamed(seed, folder):
    """Return a case of a linear model fitted from a stream, after random requests and round trips."""
    rng = np.random.default_rng(seed)
    cls = _ESTIMATORS[int(rng.integers(len(_ESTIMATORS)))]
    m, classes = int(rng.integers(30, 60)), int(rng.integers(2, 4))
    X = rng.normal(size=(2 * m, 3)) * 10.0 ** rng.uniform(-2, 2)
    y = X[:, 0] + 0.1 * rng.normal(size=2 * m) if cls is LSSVR else np.arange(2 * m) % classes
    weights = rng.uniform(0.1, 2.0, 2 * m) if rng.random() < 0.5 else np.ones(2 * m)
    options = {"C": 10.0 ** rng.uniform(-2, 3), "kernel": "linear"}
    if cls is not LSSVR and rng.random() < 0.3:
        options["class_weight"] = "balanced"
    if rng.random() < 0.15:
        options["fit_intercept"] = False
    held, path, exported = list(range(m)), folder / f"{seed}.model", []

    def source():
        return ArraySource(X[held], y[held], weights[held], block_rows=int(rng.integers(7, 40)))

    requests = [f"a stream of {m} rows, {classes} classes"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cls(**options).fit(source())
        for _ in range(int(rng.integers(0, 5))):
            action = str(rng.choice(["learn", "forget", "file", "ask", "anchor"]))
            requests.append(action)
            by_sums = cls not in (RLSSVC, LagrangianSVC)
            places = sorted(rng.choice(len(held), 2, replace=False).tolist())
            gone = [held[place] for place in places]
            if action == "learn":
                new = [max(held) + 1] if by_sums and max(held) + 1 < len(y) else []
                if new:
                    model.learn(X[new], y[new], sample_weight=weights[new])
                held += new
            elif action == "forget":
                if by_sums:
                    model.forget_rows(X[gone], y[gone], sample_weight=weights[gone])
                else:
                    model.forget(places, source=source())
                held = [row for row in held if row not in gone]
            else:
                model = _step(action, rng, model, (None,) * 5, held, False, path, exported)
        squaresvm.save(model, path, overwrite=True)
    return Case(path, model, requests, b"", exported, (X[held], y[held], weights[held]))


def _named(model, weights, ids):
    """Return what a pipeline hands on to its last step."""
    name = type(model).__name__.lower()
    return {f"{name}__sample_weight": weights, f"{name}__ids": ids}


def _step(action, rng, model, data, held, named, path, exported):
    X, K, y, weights, ids = data
    inner = _last(model)
    if action == "learn" and max(held) + 1 < len(y):
        new = [max(held) + 1] if not named or rng.random() < 0.5 else list(range(max(held) + 1, len(y)))[:3]
        if held != sorted(held) or (not named and inner.ids_.size and max(held) + 1 != _arrivals(inner)):
            return model
        rows = K[np.ix_(new, held + new)] if K is not None else X[new]
        names = ids[new] if named else None
        squaresvm.learn(model, rows, y[new], sample_weight=weights[new], ids=names)
        held += new
    elif action == "forget" and len(held) > 4:
        gone = [int(i) for i in rng.choice(held, int(rng.integers(1, 3)), replace=False)]
        squaresvm.forget(model, [ids[i].item() for i in gone], verify=bool(rng.random() < 0.3))
        for i in gone:
            held.remove(i)
    elif action == "refit":
        inner.refit()
    elif action == "file":
        squaresvm.save(model, path, overwrite=True)
        model = squaresvm.load(path)
    elif action == "ask":
        assert inner.receipts_
    elif action == "anchor":
        exported += getattr(inner, "estimator_", inner).anchor_receipts()
    return model


def _arrivals(model):
    inner = getattr(model, "estimator_", model)
    return (inner._votes if hasattr(inner, "_votes") else inner._state).rows.ids.arrivals
