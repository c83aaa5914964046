"""Damaged and forged files of streams, searches, pairs and features are refused in one line."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import squaresvm
from support import forged
from support.forged import refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kinds")


@pytest.fixture(scope="module")
def kinds(folder):
    return forged.other_kinds(folder)


NAMES = ["stream", "stream changed", "stream of values", "stream hinge", "search", "search of values"]
NAMES += ["pairs", "pairs searched", "features", "features sparse"]


@pytest.mark.parametrize("name", NAMES)
class TestEveryKind:
    def test_is_read_as_it_is(self, folder, kinds, name):
        (folder / "a.model").write_bytes(kinds[name])
        squaresvm.load(folder / "a.model")

    def test_damage(self, folder, kinds, name):
        raw = kinds[name]
        for length in [*range(0, len(raw), 997), len(raw) - 1]:
            refusal(folder, raw[:length])
        for place in range(0, len(raw), 499):
            changed = bytearray(raw)
            changed[place] ^= 1 << place % 8
            refusal(folder, bytes(changed))

    def test_everything_in_the_header_is_needed(self, folder, kinds, name):
        header, body = forged.opened(kinds[name])
        # Files of earlier versions have no certificate and no receipts, and claim nothing.
        for key in header.keys() - {"arrays", "squaresvm", "search", "stream", "certificate", "receipts"}:
            less = {other: value for other, value in header.items() if other != key}
            assert refusal(folder, forged.sealed(less, body)) == (
                f"does not describe a model: '{key}' is missing"
            )

    def test_every_array_is_needed_and_of_its_shape(self, folder, kinds, name):
        header, body = forged.opened(kinds[name])
        arrays = forged.arrays_of(header, body)
        # Probabilities are there once asked for; without weights of their own pairs have those of the rows.
        for each in arrays.keys() - {"above", "offset", "votes_above", "votes_offset", "robust_weights"}:
            less = {other: array for other, array in arrays.items() if other != each}
            assert "does not describe a model" in refusal(folder, forged.with_arrays(header, less))
            cut = {**arrays, each: arrays[each][:-1]}
            assert "does not describe a model" in refusal(folder, forged.with_arrays(header, cut))

    def test_promises_cost_nothing(self, folder, kinds, name):
        header, body = forged.opened(kinds[name])
        for entry in header["arrays"].values():
            shape, entry["shape"] = entry["shape"], [2**40, *entry["shape"][1:]]
            tracemalloc.start()
            try:
                assert "is cut short" in refusal(folder, forged.sealed(header, body))
                assert tracemalloc.get_traced_memory()[1] < 2**22
            finally:
                tracemalloc.stop()
            entry["shape"] = shape


@pytest.mark.parametrize(
    ("name", "way", "value"),
    [
        ("stream", "stream", 3),
        ("stream", "stream", {}),
        ("stream", "stream.rows", 0),
        ("stream", "stream.rows", 2**70),
        ("stream", "stream.rows", 15.0),
        ("stream", "stream.total", None),
        ("stream", "stream.total", -1.0),
        ("stream", "stream.total", "1"),
        ("stream", "stream.digits_lost", 0.5),
        ("stream", "stream.digits_lost", 1e308),
        ("stream", "stream.digits_lost", None),
        ("stream", "stream.certificate", None),
        ("stream", "stream.certificate.residual", -1.0),
        ("stream", "stream.certificate.status", "perfect"),
        ("stream", "factor", {"form": "cholesky", "jitter": 0.0}),
        ("stream", "settings.kernel.name", "rbf"),
        ("stream", "settings.loss", "squared_hinge"),
        ("stream", "estimator", "RLSSVC"),
        ("stream", "estimator", "LSSVR"),
        ("stream", "n_features", 5),
        ("stream", "n_features", 0),
        ("stream", "n_features", 2**50),
        ("stream", "window", {"size": 3.0}),
        ("stream", "history", []),
        (
            "stream",
            "preparation",
            {
                "features": [],
                "label": "a",
                "id": None,
                "weight": None,
                "missing": "mean",
            },
        ),
        ("stream hinge", "stream.total", 3.0),
        ("stream of values", "stream.certificate.objective", None),
        ("search", "search", 3),
        ("search", "search", {}),
        ("search", "search.cells", []),
        ("search", "search.cells", None),
        ("search", "search.cells", [[0.5, 0.1], [2.0]]),
        ("search", "search.cells", [[0.5, None], [2.0, None]]),
        ("search", "search.cells", [[-0.5, 0.1], [2.0, 0.1]]),
        ("search", "search.cells", [[0.5, 0.0], [2.0, 0.1]]),
        ("search", "search.cells", [[7.0, 0.1], [8.0, 0.1]]),
        ("search", "search.scores", ["nan", "nan"]),
        ("search", "search.scores", ["high", 0.5]),
        ("search", "search.scores", [None, 0.5]),
        ("search", "search.scores", [0.5]),
        ("search", "search.seconds", ["a", "b"]),
        ("search", "search.rounds", [0, -1]),
        ("search", "estimator", "LSSVC"),
        ("search", "estimator", "LSSVRCV"),
        ("search", "parameters.Cs", "12"),
        ("search", "parameters.Cs", [1.0, -1.0]),
        ("search", "parameters.Cs", ["1"]),
        ("search", "parameters.Cs", {"a": 1}),
        ("search", "parameters.scoring", "os.system"),
        ("search", "parameters.scoring", ["accuracy"]),
        ("search", "settings.C", 0.25),
        ("search of values", "search.cells", [[1.0, 1.0]]),
        ("pairs", "of", None),
        ("pairs", "of.estimator", "LSSVR"),
        ("pairs", "of.estimator", "OneVsOne"),
        ("pairs", "of.parameters.kernel", "precomputed"),
        ("pairs", "fitted.estimator", "Nystrom"),
        ("pairs", "fitted.estimator", "LSSVRCV"),
        ("pairs", "fitted.estimator", "RLSSVC"),
        ("pairs", "fitted.parameters.kernel", "precomputed"),
        ("pairs", "fitted.parameters.C", "x"),
        ("pairs", "pairs", []),
        ("pairs", "pairs", {}),
        ("pairs", "pairs", [1, 2, 3]),
        ("pairs", "pairs.0.shapes", None),
        ("pairs", "pairs.0.shapes", {}),
        ("pairs", "pairs.0.shapes.beta", [2**60, 2**60]),
        ("pairs", "pairs.0.shapes.beta", [-1, 1]),
        ("pairs", "pairs.0.shapes.beta", [1, 1, 1]),
        ("pairs", "pairs.0.shapes.beta", 9),
        ("pairs", "pairs.0.shapes.beta", ["9", 1]),
        ("pairs", "pairs.0.shapes", {"rows": [15, 4]}),
        ("pairs", "pairs.1.settings", {}),
        ("pairs", "pairs.1.settings.loss", "squared_hinge"),
        ("pairs", "pairs.1.settings.kernel", None),
        ("pairs", "pairs.1.settings.class_weight", None),
        ("pairs", "pairs.1.settings.class_weight", [["low", 0.0], ["mid", 0.0], ["high", 0.0]]),
        ("pairs", "pairs.1.solver", 3),
        ("pairs", "pairs.1.factor.form", "nothing"),
        ("pairs", "pairs.1.search", {"cells": []}),
        ("pairs", "preparation", {"features": []}),
        ("pairs searched", "pairs.2.search.scores", ["nan", "nan"]),
        ("pairs", "estimator", "LSSVC"),
        ("pairs", "estimator", "Nystrom"),
        ("pairs", "n_features", 3),
        ("pairs", "feature_names", ["a"]),
        ("features", "kernel", None),
        ("features", "kernel", 3),
        ("features", "kernel.name", "precomputed"),
        ("features", "kernel.gamma", -1.0),
        ("features", "parameters", None),
        ("features", "parameters.kernel", "precomputed"),
        ("features", "parameters.landmarks", "exec"),
        ("features", "parameters.n_components", -1),
        ("features", "parameters.random_state", {"a": 1}),
        ("features", "n_features", 3),
        ("features", "sparse", True),
        ("features", "window", {"size": 3.0}),
        ("features", "history", [["save", "2026-01-01T00:00:00+00:00", 3, 3]]),
        ("features", "estimator", "OneVsOne"),
        ("features", "estimator", "LSSVC"),
    ],
)
def test_headers_that_make_no_sense(folder, kinds, name, way, value):
    header, body = forged.opened(kinds[name])
    *steps, last = way.split(".")
    place = header
    for step in steps:
        place = place[int(step) if isinstance(place, list) else step]
    place[last] = value
    assert "does not describe a model" in refusal(folder, forged.sealed(header, body))


@pytest.mark.parametrize(
    ("name", "array", "change"),
    [
        ("stream", "classes", lambda a: a[::-1].copy()),
        ("stream", "classes", lambda a: np.array(["same"] * a.size)),
        ("stream", "classes", lambda a: a[:1]),
        ("stream", "counts", lambda a: 0.0 * a),
        ("stream", "counts", lambda a: a.astype(np.int64)),
        ("stream", "scatter", np.triu),
        ("stream", "scatter", lambda a: a[:, :-1].copy()),
        ("stream", "mean", lambda a: a.astype(np.float32)),
        ("stream", "response", lambda a: a + np.inf),
        ("stream", "primal", lambda a: a.T.copy()),
        ("pairs", "y", lambda a: np.array(["one"] * a.size)),
        ("pairs", "weights", lambda a: 0.0 * a),
        ("pairs", "weights", lambda a: -a),
        ("pairs", "robust_weights", lambda a: -a),
        ("pairs", "beta", lambda a: np.append(a, 1.0)),
        ("pairs", "beta", lambda a: a.reshape(-1, 1)),
        ("pairs", "votes_above", lambda a: a[:2]),
        ("features", "landmark_indices", lambda a: a[::-1].copy()),
        ("features", "landmark_indices", lambda a: a - a[0] - 1),
        ("features", "landmark_indices", lambda a: a.astype(float)),
        ("features", "root", lambda a: a[:, :0].copy()),
        ("features", "root", lambda a: np.hstack([a, a, a])),
        ("features", "root", lambda a: a.astype(np.float32)),
        ("features", "rows", lambda a: a * 1e200),
    ],
)
def test_arrays_that_do_not_fit(folder, kinds, name, array, change):
    header, body = forged.opened(kinds[name])
    arrays = forged.arrays_of(header, body)
    arrays[array] = change(arrays[array])
    text = refusal(folder, forged.with_arrays(header, arrays))
    assert text.startswith(("does not describe a model", "holds NaN or infinity"))


def test_two_weights_for_the_rows_of_pairs(folder, kinds):
    header, body = forged.opened(kinds["pairs"])
    arrays = forged.arrays_of(header, body)
    arrays["given"] = arrays["weights"]
    assert "two weights" in refusal(folder, forged.with_arrays(header, arrays))
