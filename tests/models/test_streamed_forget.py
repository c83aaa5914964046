"""Models fitted from a stream forget rows of their source: as a fit of the rows that remain."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC
from squaresvm.streaming import ArraySource, BlockSource, LibsvmSource, RemainingSource

M = 240
GONE = [3, 17, 90, 91, 92, 239]


def table(kind="two", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, 5))
    score = X[:, 0] - 0.6 * X[:, 1] + 0.7 * rng.normal(size=M)
    if kind == "three":
        return X, np.digitize(score, [-0.6, 0.5])
    return X, score if kind == "values" else np.where(score > 0.1, "yes", "no")


def rest(*arrays):
    keep = np.setdiff1d(np.arange(M), GONE)
    return [None if a is None else a[keep] for a in arrays]


def named_weights(model):
    return dict(zip(model.classes_.tolist(), model.class_weight_.tolist(), strict=True))


def assert_same(model, fresh, X):
    f, g = (
        (m.decision_function(X) if hasattr(m, "decision_function") else m.predict(X)) for m in (model, fresh)
    )
    np.testing.assert_allclose(f, g, rtol=0, atol=1e-6)
    assert model.certificate_.objective == pytest.approx(fresh.certificate_.objective, rel=1e-9)
    assert model.certificate_.status == "converged"


@pytest.mark.parametrize("kind", ["two", "three"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "estimator",
    [
        RLSSVC(C=7.0),
        LagrangianSVC(C=0.3, A=0.5),
        LagrangianSVC(C=50.0, fit_intercept=False),
        RLSSVC(C=2.0, class_weight="balanced"),
    ],
)
def test_the_squared_hinge_forgets_rows_of_its_source(estimator, weighted, kind):
    X, y = table(kind)
    weights = None
    if weighted:
        weights = np.random.default_rng(1).uniform(0.2, 3.0, size=M)
        weights[[5, 17]] = 0.0  # One of them leaves.
    model = estimator.set_params(kernel="linear").fit(ArraySource(X, y, weights, block_rows=31))
    counted = M if weights is None else int((weights > 0).sum())
    receipt = model.forget(GONE, source=ArraySource(X, y, weights, block_rows=50))
    fresh = type(estimator)(**{**estimator.get_params(), "class_weight": named_weights(model)})
    fresh.fit(*rest(X, y), sample_weight=rest(weights)[0])
    assert_same(model, fresh, X)
    left = counted - len(GONE) + (1 if weighted else 0)
    assert (receipt.kind, receipt.ids, receipt.rows) == ("forget", tuple(GONE), len(GONE))
    assert (receipt.remaining, receipt.checked, receipt.sampled) == (left, left, False)
    assert receipt.residual <= model.tol
    assert model.solver_ == "newton"
    assert "went on from the model" in model.solver_reason_


@pytest.mark.parametrize("make", [lambda: LSSVC(C=3.0), lambda: LSSVR(C=0.2, fit_intercept=False)])
def test_the_squared_loss_forgets_rows_of_its_source_too(make):
    X, y = table("values") if isinstance(make(), LSSVR) else table()
    model = make().set_params(kernel="linear").fit(ArraySource(X, y))
    model.forget(GONE, source=ArraySource(X, y, block_rows=7))
    assert_same(model, make().set_params(kernel="linear").fit(*rest(X, y)), X)
    # Its sums are of the rows that remain, so that rows can leave by themselves afterwards.
    model.forget_rows(X[:1], y[:1])
    assert model.certificate_.status == "converged"


def test_whole_blocks_and_sparse_rows_leave(tmp_path):
    X, y = table()
    X[np.abs(X) < 0.5] = 0.0
    lines = [
        f"{'+1' if label == 'yes' else '-1'} "
        + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row.tolist()) if v)
        for row, label in zip(X, y, strict=True)
    ]
    path = tmp_path / "rows.svm"
    path.write_text("\n".join(lines) + "\n")
    source = LibsvmSource(path, n_features=5)
    model = RLSSVC(kernel="linear", C=4.0).fit(source)
    gone = list(range(60, 120))
    model.forget(gone, source=source)
    keep = np.setdiff1d(np.arange(M), gone)
    signs = np.where(y == "yes", 1, -1)
    assert_same(model, RLSSVC(kernel="linear", C=4.0).fit(sp.csr_matrix(X[keep]), signs[keep]), X)


def test_requests_follow_each_other_on_what_remains():
    X, y = table()
    source = ArraySource(X, y, block_rows=13)
    model = RLSSVC(kernel="linear", C=4.0).fit(source)
    model.forget(GONE[:3], source=source)
    before = model.coef_.copy()
    with pytest.raises(
        ValueError, match="the source has 240 rows of positive weight and the model is of 237"
    ):
        model.forget([0], source=source)
    assert np.array_equal(model.coef_, before)
    remaining = RemainingSource(source, GONE[:3])
    numbers = [row - np.searchsorted(GONE[:3], row) for row in GONE[3:]]
    model.forget(numbers, source=remaining)
    assert_same(model, RLSSVC(kernel="linear", C=4.0).fit(*rest(X, y)), X)


def test_a_class_may_go_and_the_last_but_one_may_not():
    X, y = table("three")
    weight = {0: 1.0, 1: 2.0, 2: 0.5}
    source = ArraySource(X, y)
    model = RLSSVC(kernel="linear", class_weight=weight).fit(source)
    model.forget(np.flatnonzero(y == 2).tolist(), source=source)
    assert model.classes_.tolist() == [0, 1]
    assert named_weights(model) == {0: 1.0, 1: 2.0}
    fresh = RLSSVC(kernel="linear", class_weight={0: 1.0, 1: 2.0}).fit(X[y < 2], y[y < 2])
    assert_same(model, fresh, X)
    left = ArraySource(X[y < 2], y[y < 2])
    with pytest.raises(ValueError, match="class"):
        model.forget(np.flatnonzero(y[y < 2] == 1).tolist(), source=left)
    assert_same(model, fresh, X)


def hands_out(X, y):
    return lambda: iter([(X[:100], y[:100]), (X[100:], y[100:])])


BAD = {
    "unknown row": (lambda X, y: ([5, M], ArraySource(X, y)), KeyError, "no row 240"),
    "unknown row, length not known": (
        lambda X, y: ([5, M + 9], BlockSource(hands_out(X, y))),
        KeyError,
        "no row 249",
    ),
    "twice": (lambda X, y: ([5, 5], ArraySource(X, y)), ValueError, "row 5 is named twice"),
    "no row": (lambda X, y: ([], ArraySource(X, y)), ValueError, "nothing to forget"),
    "a name": (lambda X, y: (["anna"], ArraySource(X, y)), ValueError, "number of each row"),
    "negative": (lambda X, y: ([-1], ArraySource(X, y)), ValueError, "number of each row"),
    "no source": (lambda X, y: ([5], X), ValueError, "source must be a source"),
    "other columns": (lambda X, y: ([5], ArraySource(X[:, :4], y)), ValueError, "4 features and the model 5"),
    "other rows": (
        lambda X, y: ([5], ArraySource(X[::-1], y)),
        ValueError,
        "the model's residual on the source",
    ),
    "one row changed": (
        lambda X, y: ([5], ArraySource(np.vstack([X[:1] + 3.0, X[1:]]), y)),
        ValueError,
        "the model's residual on the source",
    ),
    "other labels": (
        lambda X, y: ([5], ArraySource(X, np.where(y == "yes", "maybe", y))),
        ValueError,
        "other classes",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_changes_nothing(name):
    X, y = table()
    request, error, words = BAD[name]
    model = RLSSVC(kernel="linear", C=4.0).fit(ArraySource(X, y))
    before, receipts = model.coef_.copy(), len(model.receipts_)
    ids, source = request(X, y)
    with pytest.raises(error, match=words):
        model.forget(ids, source=source)
    assert np.array_equal(model.coef_, before)
    assert len(model.receipts_) == receipts


def test_a_model_that_holds_its_rows_needs_no_source():
    X, y = table()
    model = RLSSVC(kernel="linear").fit(X, y)
    with pytest.raises(ValueError, match="give no source"):
        model.forget([3], source=ArraySource(X, y))
    assert model.ids_.size == M


def test_rows_that_remain_are_counted_from_zero():
    source = RemainingSource(
        ArraySource(np.arange(10.0)[:, None], np.arange(10), block_rows=3), [9, 0, 3, 4, 5]
    )
    blocks = list(source.map(lambda block: (block.first, block.y.tolist())))
    assert blocks == [(0, [1, 2]), (2, [6, 7, 8])]
    assert (source.n_rows, source.n_found, source.n_features) == (5, 5, 1)
