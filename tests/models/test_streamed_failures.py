"""What goes wrong in a fit from a stream says where, and leaves model and files as they were."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC
from squaresvm.streaming import ArraySource, BlockSource, LibsvmSource, ParquetSource
from support.row_sources import SIZE, Blocks, M, N, rows, write_libsvm, write_parquet

X, Y, _ = rows("two")


MODELS = {"LSSVC": LSSVC(kernel="linear", C=0.1), "RLSSVC": RLSSVC(kernel="linear", C=3.0)}


@pytest.fixture(params=MODELS)
def model(request):
    """A model of either loss, not fitted."""
    return clone(MODELS[request.param])


# Bad data -----------------------------------------------------------------------------------------------


def truncated_parquet(folder):
    write_parquet(folder / "whole.parquet", X, Y)
    content = (folder / "whole.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(content[: len(content) // 2])
    return ParquetSource(folder / "cut.parquet", label="label")


def parquet_with_a_damaged_page(folder):
    write_parquet(folder / "damaged.parquet", X, Y)
    content = bytearray((folder / "damaged.parquet").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = b"\xff" * 2000
    (folder / "damaged.parquet").write_bytes(content)
    return ParquetSource(folder / "damaged.parquet", label="label", block_rows=SIZE)


def libsvm_with_a_bad_index(folder):
    path = folder / "rows.svm"
    write_libsvm(path, X, Y)
    lines = path.read_text().splitlines()
    lines[122] = "1.0 2:0.5 x:3.0"
    path.write_text("\n".join(lines))
    return LibsvmSource(path, n_features=N, block_rows=SIZE)


def libsvm_with_an_index_too_large(folder):
    path = folder / "rows.svm"
    write_libsvm(path, X, Y)
    lines = path.read_text().splitlines()
    lines[122] = f"1.0 2:0.5 {N + 3}:3.0"
    path.write_text("\n".join(lines))
    return LibsvmSource(path, n_features=N, block_rows=SIZE)


def changed_blocks(change):
    def make(folder):
        blocks = [[a[:10].copy(), b[:10].copy()] for a, b, _ in Blocks(X, Y, size=30).blocks]
        change(blocks)
        return BlockSource(lambda: blocks)

    return make


@changed_blocks
def nan_in_block_7(blocks):
    blocks[7][0][3, 1] = np.nan


@changed_blocks
def one_more_feature_in_block_4(blocks):
    blocks[4][0] = np.ones((10, N + 1))


@changed_blocks
def one_class(blocks):
    for block in blocks:
        block[1] = np.ones(10)


@changed_blocks
def values_in_block_5(blocks):
    blocks[5][1] = np.linspace(0.0, 1.0, 10)


@changed_blocks
def a_label_that_is_missing(blocks):
    blocks[2][1] = np.where(np.arange(10) == 4, np.nan, 1.0)


BAD = {
    truncated_parquet: r"cut\.parquet",
    parquet_with_a_damaged_page: r"damaged\.parquet",
    libsvm_with_a_bad_index: r"rows\.svm.*line 123",
    libsvm_with_an_index_too_large: r"rows\.svm.*line 123",
    nan_in_block_7: "block 7, row 3: feature 1 is nan",
    one_more_feature_in_block_4: "block 4.*5",
    one_class: "at least two classes.*one class",
    values_in_block_5: "block 5.*continuous",
    a_label_that_is_missing: "block 2, row 4",
}


@pytest.mark.parametrize("make", BAD, ids=lambda make: getattr(make, "__name__", "blocks"))
def test_bad_data(make, model, tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()

    def fit():
        model.fit(make(tmp_path), checkpoint=folder / "fit.ckpt")

    with pytest.raises(ValueError, match=BAD[make]):
        fit()
    assert not model.__sklearn_is_fitted__()
    model.fit(X, Y)
    held = dict(vars(model))
    with pytest.raises(ValueError, match=BAD[make]):
        fit()
    assert vars(model) == held
    assert list(folder.iterdir()) == []


class Changing:
    """Blocks whose labels, rows or values are others from some pass on."""

    def __init__(self, since, change):
        self.since, self.change, self.passes = since, change, 0

    def __call__(self):
        self.passes += 1
        blocks = [[a.copy(), b.copy()] for a, b, _ in Blocks(X, Y).blocks]
        if self.passes >= self.since:
            self.change(blocks)
        return blocks


def strange_label(blocks):
    blocks[3][1][7] = 5.0


def fewer_rows(blocks):
    blocks[3] = [part[:-1] for part in blocks[3]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (strange_label, r"block 3.*label .*5\.0.* was not there in the first pass"),
        (fewer_rows, "329 rows.*330"),
    ],
)
def test_data_that_changes_between_passes(model, change, message):
    source = BlockSource(Changing(2, change), n_features=N)
    with pytest.raises(ValueError, match=message):
        model.fit(source)
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        (RLSSVC(), {}, "kernel='linear'.*'rbf'"),
        (LSSVC(kernel=lambda a, b: a @ b.T), {}, "kernel='linear'"),
        (LSSVC(kernel="linear"), {"y": Y}, "its own labels and weights"),
        (LSSVC(kernel="linear"), {"sample_weight": np.ones(M)}, "its own labels and weights"),
        (LSSVC(kernel="linear"), {"ids": range(M)}, "and no ids"),
        (LagrangianSVC(kernel="linear", solver="lagrangian"), {}, "'newton' or 'auto'.*'lagrangian'"),
        (LSSVC(kernel="linear", C=-1.0), {}, "C must"),
        (LSSVC(kernel="linear", class_weight={7: 2.0}), {}, "names 7, which is not a label"),
        (LSSVC(kernel="linear", class_weight={1.0: 0.0}), {}, "weight zero"),
        (LSSVR(kernel="linear"), {"checkpoint": "/no/such/folder/fit.ckpt"}, "folder that exists"),
    ],
)
def test_requests_that_make_no_sense(given, more, message):
    model = clone(given)
    with pytest.raises(ValueError, match=message):
        model.fit(ArraySource(X, Y), **more)
    assert not model.__sklearn_is_fitted__()


def test_words_are_no_values():
    with pytest.raises(ValueError, match="values of a regression must be numbers"):
        LSSVR(kernel="linear").fit(ArraySource(X, np.where(Y == 1.0, "much", "little")))


def test_no_row_has_a_weight():
    with pytest.raises(ValueError, match="no rows of positive weight"):
        LSSVC(kernel="linear").fit(ArraySource(X, Y, np.zeros(M)))


def test_a_checkpoint_goes_with_a_source(tmp_path):
    with pytest.raises(ValueError, match="checkpoint can be given only with a source"):
        LSSVC(kernel="linear").fit(X, Y, checkpoint=tmp_path / "fit.ckpt")


def test_what_needs_rows_says_that_there_are_none(model):
    model.fit(ArraySource(X, Y))
    for name in ("ids_", "support_", "support_vectors_", "dual_coef_"):
        with pytest.raises(AttributeError, match="keeps no rows"):
            getattr(model, name)
        assert not hasattr(model, name)
    for use in (model.loo_score, model.loo_decision_function, model.refit, lambda: model.forget([0])):
        with pytest.raises(ValueError, match="stream"):
            use()
    with pytest.raises(ValueError, match="no ids"):
        model.learn(X[:2], Y[:2], ids=["a", "b"])
    for use in (model.predict, model.decision_function, model.score):
        with pytest.raises(ValueError, match=f"2 features.*fitted on {N}"):
            use(ArraySource(X[:, :2], Y))


def test_regressors_without_rows():
    model = LSSVR(kernel="linear").fit(ArraySource(X, Y))
    for use in (model.loo_score, model.loo_predict, model.refit):
        with pytest.raises(ValueError, match="stream"):
            use()


# Sums -----------------------------------------------------------------------------------------------------


def test_the_squared_hinge_has_no_sums():
    model = RLSSVC(kernel="linear").fit(ArraySource(X, Y))
    before = model._state
    for use in (model.learn, model.forget_rows):
        with pytest.raises(ValueError, match="by sums over the rows is for the squared loss"):
            use(X[:5], Y[:5])
    assert model._state is before


@pytest.mark.parametrize(
    ("rows_given", "labels", "message"),
    [
        (X, Y, "none would remain"),
        (np.vstack([X, X]), np.tile(Y, 2), "none would remain"),
        (X[Y == 1.0], Y[Y == 1.0], "none of class"),
        (X[:3], np.array([0.0, 1.0, 9.0]), "fitted without class"),
        (X[:3, :2], Y[:3], "features"),
        (np.full((2, N), np.nan), Y[:2], "NaN"),
    ],
)
def test_a_request_that_cannot_be_met_changes_nothing(rows_given, labels, message):
    model = LSSVC(kernel="linear").fit(ArraySource(X, Y))
    before = model._state
    with pytest.raises(ValueError, match=message):
        model.forget_rows(rows_given, labels)
    assert model._state is before
