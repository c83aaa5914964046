"""What a model says of a source, written block by block: whole or not at all."""

from __future__ import annotations

import os

import numpy as np
import pyarrow.parquet as pq
import pytest

from squaresvm import LSSVC, LSSVR, RLSSVC
from squaresvm.streaming import ArraySource, BlockSource
from squaresvm.streaming.output import write_blocks
from support.row_sources import SIZE, Blocks, rows

SUFFIXES = [".npy", ".parquet"]


def read(path, columns=1):
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r", allow_pickle=False)
    table = pq.read_table(path)
    found = [table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names]
    return found[0] if columns == 1 else np.column_stack(found)


def fitted(problem, labels=None):
    X, y, _ = rows(problem)
    if labels is not None:
        y = np.asarray(labels)[y.astype(int)]
    model = (LSSVR if problem == "regression" else RLSSVC)(kernel="linear").fit(X, y)
    # No number of rows is known before the pass.
    return model, X, BlockSource(Blocks(X, y))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("problem", "labels"),
    [
        ("two", None),
        ("three", None),
        ("three", ["a", "long", "b"]),
        ("two", [False, True]),
        ("regression", None),
    ],
)
def test_written_is_what_is_returned(problem, labels, suffix, tmp_path):
    model, X, source = fitted(problem, labels)
    path = tmp_path / f"said{suffix}"
    assert model.predict(source, out=str(path)) == path
    if problem == "regression":
        # Blocks of other sizes are summed in another order.
        np.testing.assert_allclose(read(path), model.predict(X), rtol=1e-13)
    else:
        assert read(path).tolist() == model.predict(X).tolist()
        decision = model.decision_function(X)
        assert model.decision_function(source, out=path) == path  # The former file is replaced.
        np.testing.assert_allclose(read(path, decision.ndim), decision, rtol=0, atol=1e-12)
    assert os.listdir(tmp_path) == [path.name]


def test_columns_of_parquet_have_names(tmp_path):
    model, _, source = fitted("three", ["a", "b", "c"])
    file = pq.ParquetFile(model.decision_function(source, out=tmp_path / "f.parquet"))
    assert file.schema.names == ["decision_a", "decision_b", "decision_c"]
    assert file.num_row_groups > 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_strings_that_are_objects(suffix, tmp_path):
    X, y, _ = rows("two")
    labels = np.array(["no", "certainly"], dtype=object)[y.astype(int)]
    model = LSSVC(kernel="linear").fit(X, labels)
    path = model.predict(ArraySource(X, labels, block_rows=SIZE), out=tmp_path / f"said{suffix}")
    assert read(path).tolist() == model.predict(X).tolist()


def test_other_objects_are_refused(tmp_path):
    with pytest.raises(ValueError, match="Python objects"):
        write_blocks(iter([np.array([1, None])]), tmp_path / "said.npy", ("prediction",))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("exists", [False, True])
def test_a_failure_leaves_what_was_there(suffix, exists, tmp_path):
    model, X, _ = fitted("two")
    path = tmp_path / f"said{suffix}"
    if exists:
        path.write_bytes(b"former")

    def fails():
        yield X[:SIZE], np.ones(SIZE)
        yield np.full((SIZE, X.shape[1]), np.nan), np.ones(SIZE)

    with pytest.raises(ValueError, match="feature 0 is nan"):
        model.predict(BlockSource(fails), out=path)
    assert os.listdir(tmp_path) == ([path.name] if exists else [])
    assert not exists or path.read_bytes() == b"former"


@pytest.mark.parametrize(
    ("name", "message"),
    [("said.csv", r"\.npy or \.parquet"), ("none/said.npy", "folder that exists"), ("d.npy", "folder")],
)
def test_bad_places_are_refused_before_any_pass(name, message, tmp_path):
    model, X, _ = fitted("two")
    blocks = Blocks(X, np.ones(len(X)))
    (tmp_path / "d.npy").mkdir()
    with pytest.raises(ValueError, match=message):
        model.predict(BlockSource(blocks), out=tmp_path / name)
    assert blocks.passes == 0


def test_rows_in_memory_are_not_written(tmp_path):
    for problem in ("two", "regression"):
        model, X, _ = fitted(problem)
        with pytest.raises(ValueError, match="only with a source"):
            model.predict(X, out=tmp_path / "said.npy")
    with pytest.raises(ValueError, match="only with a source"):
        fitted("two")[0].decision_function(X, out=tmp_path / "said.npy")
    assert os.listdir(tmp_path) == []
