"""What a report says of a model agrees with what the model says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm.judging.calibration import lead
from squaresvm.pages.report import examine, groups
from support import histories
from support.histories import History, data

M = 26
COMBINATIONS = [
    each
    for each in histories.combinations()
    if each[0] in histories.PLAIN and each[1] in ("rbf", "precomputed")
]


@pytest.mark.parametrize(("name", "kernel", "kind"), COMBINATIONS)
def test_agrees_with_the_model(name, kernel, kind):
    X, y = data(kind, M, seed=5)
    weights = histories.weights_with_zeros(M, seed=6)
    model = History(histories.estimator(name, kernel), kernel, X, y, weights, range(100, 100 + M)).model
    report = examine(model, most=5)
    assert report.certificate == model.certificate_
    assert report.is_exact
    assert report.score == pytest.approx(model.loo_score(), abs=1e-12)
    inside = np.flatnonzero(weights > 0)  # Rows of weight zero are no part of the problem.
    _, left_out = model._loo_inside()
    if kind == "regression":
        margins = y[inside] - left_out[:, 0]
        worst = np.argsort(-np.abs(margins))[:5]
        assert np.allclose(np.subtract(*report.predictions), margins, atol=1e-9)
    else:
        codes = np.searchsorted(model.classes_, y[inside])
        margins = lead(left_out)[np.arange(inside.size), codes]
        worst = [row for row in np.argsort(margins)[:5] if margins[row] < 0]
        assert 0.0 < report.brier < 1.0
        right = report.counts[np.diag_indices(model.classes_.size)].sum()
        assert right == np.sum(margins > 0)
        assert report.counts.sum(axis=1).tolist() == np.bincount(codes).tolist()
        assert 1 / model.classes_.size <= report.figures[0].baseline < 1.0
        assert report.shares[2].sum() == inside.size
    assert np.allclose(report.margins, margins, atol=1e-9)
    assert [row.id for row in report.suspects] == [100 + int(inside[row]) for row in worst]
    for row in report.suspects:
        assert row.label == (f"{y[row.id - 100]:.6g}" if kind == "regression" else y[row.id - 100])
        assert kind == "regression" or row.expected != row.label
    changes = [row.value for row in report.influential]
    assert changes == sorted(changes, reverse=True)
    assert len(changes) == 5


def test_what_left_is_not_named():
    X, y = data("binary", M, seed=5)
    model = histories.estimator("LSSVC", "rbf").fit(X, y)
    first = examine(model).suspects[0].id
    model.forget([first])
    after = examine(model)
    assert first not in [row.id for row in (*after.suspects, *after.influential)]


def test_groups_are_of_equal_size_and_keep_equal_probabilities_together():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=400)
    truth = rng.uniform(size=400) < p
    predicted, observed, counts = groups(p, truth)
    assert counts.tolist() == [40] * 10
    order = np.argsort(p).reshape(10, 40)
    assert np.allclose(predicted, p[order].mean(axis=1))
    assert np.allclose(observed, truth[order].mean(axis=1))
    assert [part.size for part in groups(np.full(300, 0.25), truth[:300])] == [1, 1, 1]
    assert groups(p[:3], truth[:3])[2].tolist() == [3]
