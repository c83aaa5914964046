"""Every source gives the same rows, in order, on any number of threads, and ends its threads."""

from __future__ import annotations

import gzip
import pickle
import threading

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from squaresvm.runtime import resources
from squaresvm.streaming import (
    ArraySource,
    BlockSource,
    DaskSource,
    LibsvmSource,
    MappedSource,
    ParquetSource,
    as_source,
)
from squaresvm.streaming.file_sources import SpareArrays

M, N = 103, 4


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = np.where(
        rng.random((M, N)) < 0.3, 0.0, rng.normal(size=(M, N)) * 10.0 ** rng.integers(-30, 30, (M, N))
    )
    X[0] = 1.0, -1.0 / 3.0, 1e300, 5e-324
    y = rng.choice([-1.0, 1.0, 2.5], M)
    weights = rng.integers(0, 3, M).astype(float)
    return X, y, weights


def write_parquet(path, X, y, weights=None, **options):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"label": y}
    if weights is not None:
        columns["weight"] = weights
    pq.write_table(pa.table(columns), path, **options)


def write_libsvm(path, X, y, opener=open):
    with opener(path, "wt") as file:
        for row, label in zip(X, y, strict=True):
            entries = " ".join(f"{j + 1}:{row[j]!r}" for j in np.flatnonzero(row).tolist())
            file.write(f"{label!r} {entries}\n".replace("np.float64(", "").replace(")", ""))


def block_list(X, y, weights, size):
    cuts = range(0, len(X), size)
    return [(X[a : a + size], y[a : a + size], weights[a : a + size]) for a in cuts]


class Blocks:
    """A function of the user's that can be pickled."""

    def __init__(self, blocks):
        self.blocks = blocks

    def __call__(self):
        yield from self.blocks


def make(kind, rows, folder, size):
    X, y, weights = rows
    if kind == "array":
        return ArraySource(X, y, weights, block_rows=size)
    if kind == "fortran":
        return ArraySource(np.asfortranarray(X), y, weights, block_rows=size)
    if kind == "csr":
        return ArraySource(sp.csr_array(X), y, weights, block_rows=size)
    if kind == "memmap":
        X.tofile(folder / "X.dat")
        mapped = np.memmap(folder / "X.dat", dtype=np.float64, mode="r", shape=X.shape)
        return ArraySource(mapped, y, weights, block_rows=size)
    if kind == "parquet":
        write_parquet(folder / "rows.parquet", X, y, weights, row_group_size=30)
        return ParquetSource(folder / "rows.parquet", label="label", weight="weight", block_rows=size)
    if kind == "folder":
        for number, start in enumerate(range(0, M, 40)):
            part = slice(start, start + 40)
            write_parquet(folder / f"part-{number}.parquet", X[part], y[part], weights[part])
        return ParquetSource(folder, label="label", weight="weight", block_rows=size)
    if kind == "libsvm":
        write_libsvm(folder / "rows.svm", X, y)
        return LibsvmSource(folder / "rows.svm", block_rows=size)
    if kind == "gzip":
        write_libsvm(folder / "rows.svm.gz", X, y, gzip.open)
        return LibsvmSource(folder / "rows.svm.gz", n_features=N, zero_based=False, block_rows=size)
    if kind == "blocks":
        return BlockSource(Blocks(block_list(X, y, weights, size or M)))
    if kind == "dask":
        chunks = size or M
        return DaskSource(da.from_array(X, chunks=(chunks, 2)), da.from_array(y, chunks=7), weights)
    if kind == "unknown":
        keep = np.ones(M, dtype=bool)
        lazy = [da.from_array(values, chunks=size or M) for values in (y, weights, keep)]
        keep = lazy.pop()
        X = da.from_array(X, chunks=(size or M, N))
        return DaskSource(X[keep], *(values[keep] for values in lazy))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(N)]).assign(label=y, weight=weights)
    partitions = -(-M // (size or M))
    return DaskSource.from_dataframe(
        dd.from_pandas(frame, npartitions=partitions), label="label", weight="weight"
    )


KINDS = [
    *("array", "fortran", "csr", "memmap", "parquet", "folder"),
    *("libsvm", "gzip", "blocks", "dask", "unknown", "dataframe"),
]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def joined(blocks):
    X = [block.X.toarray() if sp.issparse(block.X) else block.X for block in blocks]
    return np.concatenate(X), np.concatenate([block.y for block in blocks])


def same(block):
    return block


def shape(block):
    return block.X.shape


@pytest.mark.parametrize("size", [1, 10, None])
@pytest.mark.parametrize("count", [1, 3])
def test_every_source_gives_the_same_rows_in_order(kind, size, count, rows, tmp_path, monkeypatch):
    if size == 1 and kind in ("dask", "unknown", "dataframe"):
        size = 5  # A graph for every row says nothing more.
    monkeypatch.setattr(resources, "thread_count", lambda: count)
    source = make(kind, rows, tmp_path, size)
    X, y, weights = rows
    for _ in range(2):
        blocks = list(source.map(same))
        found, labels = joined(blocks)
        assert found.tobytes() == X.tobytes()
        np.testing.assert_array_equal(labels, y)
        if kind not in ("libsvm", "gzip"):
            np.testing.assert_array_equal(np.concatenate([block.weights for block in blocks]), weights)
        counts = [block.rows for block in blocks]
        assert [block.first for block in blocks] == [sum(counts[:i]) for i in range(len(counts))]
        assert all(count > 0 for count in counts)
        if size is not None and kind not in ("dataframe",):
            assert max(counts) <= size
        assert (source.n_rows, source.n_features) == (M, N)


def test_sources_can_be_pickled(kind, rows, tmp_path):
    source = make(kind, rows, tmp_path, 20)
    list(source.map(shape))
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(joined(list(again.map(same)))[0], rows[0])


def our_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("squaresvm")]


def test_an_iterator_closed_early_ends_its_threads(kind, rows, tmp_path):
    source = make(kind, rows, tmp_path, 5)
    results = source.map(shape)
    next(results)
    results.close()
    assert not our_threads()
    assert sum(rows for rows, _ in source.map(shape)) == M


def fails_late(block):
    if block.first + block.rows > 60:
        raise ValueError("no such luck")
    return block.rows


def divides(block):
    return 1 // (block.first > 10**9)


def test_an_error_of_a_task_names_the_place_and_ends_the_threads(kind, rows, tmp_path):
    source = make(kind, rows, tmp_path, 10)
    with pytest.raises(ValueError, match=r"(rows?|lines?) \d+.*: no such luck"):
        list(source.map(fails_late))
    with pytest.raises(ZeroDivisionError, match=r"0|1: "):
        list(source.map(divides))
    assert not our_threads()


def test_threads_run_at_the_same_time_and_results_keep_their_order(rows, monkeypatch):
    monkeypatch.setattr(resources, "thread_count", lambda: 2)
    X, y, _ = rows
    meeting = threading.Barrier(2, timeout=10)

    def task(block):
        meeting.wait()  # Breaks unless two tasks are at work together.
        return block.first

    pair = slice(0, 100)
    assert list(ArraySource(X[pair], y[pair], block_rows=10).map(task)) == list(range(0, 100, 10))
    blocks = BlockSource(lambda: [(X[a : a + 10], y[a : a + 10]) for a in range(0, 100, 10)])
    assert list(blocks.map(task)) == list(range(0, 100, 10))


def test_a_slow_reader_of_results_holds_few_blocks(rows, monkeypatch):
    monkeypatch.setattr(resources, "thread_count", lambda: 2)
    X, y, _ = rows
    made = []

    def blocks():
        for number in range(50):
            made.append(number)
            yield X, y

    results = BlockSource(blocks, n_features=N).map(shape)
    next(results)
    for thread in our_threads():
        thread.join(timeout=0.05)
    assert len(made) <= 6
    results.close()


def test_blocks_of_arrays_are_views(rows):
    X, y, weights = rows
    for block in ArraySource(X, y, weights, block_rows=10).map(same):
        assert np.shares_memory(block.X, X)
        assert np.shares_memory(block.y, y)
    sparse = sp.csr_matrix(X)
    for block in ArraySource(sparse, y, block_rows=10).map(same):
        assert np.shares_memory(block.X.data, sparse.data)
        assert block.X.has_canonical_format


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float32, np.float32),
        (np.float16, np.float32),
        (">f8", np.float64),
        (np.int64, np.float64),
        (bool, np.float64),
        (object, np.float64),
    ],
)
def test_types_of_features(given, kept, tmp_path):
    X = np.array([[1, 0], [1, 1], [0, 1]]).astype(given)
    y = np.array(["b", "a", "b"])
    for source in (ArraySource(X, y, block_rows=2), BlockSource(lambda: [(X, y)])):
        for block in source.map(same):
            assert block.X.dtype == kept
            assert block.X.flags.c_contiguous
            np.testing.assert_array_equal(block.X, X[block.first : block.first + block.rows].astype(float))
    if given in (np.float32, np.float16, np.int64, bool):
        write_parquet(tmp_path / "typed.parquet", X, y)
        (block,) = ParquetSource(tmp_path / "typed.parquet", label="label").map(same)
        assert block.X.dtype == kept
        np.testing.assert_array_equal(block.X, X.astype(float))
        np.testing.assert_array_equal(block.y, y)


def test_mapped_source_transforms_each_block(rows, tmp_path):
    from sklearn.preprocessing import PolynomialFeatures

    X, y, weights = rows
    X = np.clip(X, -10.0, 10.0)
    map_ = PolynomialFeatures(2).fit(X)
    source = MappedSource(ArraySource(X, y, weights, block_rows=10), map_)
    assert source.n_features == map_.n_output_features_
    assert source.n_rows == M
    blocks = list(source.map(same))
    np.testing.assert_array_equal(joined(blocks)[0], map_.transform(X))
    np.testing.assert_array_equal(np.concatenate([block.weights for block in blocks]), weights)
    assert blocks[1].place == "array, rows 10 to 19"


def test_a_transform_that_loses_rows_or_makes_nan_is_named(rows):
    X, y, _ = rows
    source = ArraySource(np.clip(X, -10, 10), y, block_rows=10)
    with pytest.raises(ValueError, match=r"array, rows 0 to 9: .*9 rows of X but 10 of y"):
        list(MappedSource(source, lambda X: X[:9]).map(same))
    with pytest.raises(ValueError, match=r"transformed, row 0: feature 0 is nan"):
        list(MappedSource(source, lambda X: X * np.nan).map(same))
    with pytest.raises(TypeError, match="transform must be a function"):
        MappedSource(source, 3)


def test_as_source_takes_what_it_is_given(rows):
    X, y, weights = rows
    source = ArraySource(X, y)
    assert as_source(source) is source
    assert isinstance(as_source(X, y, weights), ArraySource)
    assert isinstance(as_source(da.from_array(X), y), DaskSource)
    with pytest.raises(ValueError, match="has its own y"):
        as_source(source, y)
    with pytest.raises(ValueError, match="y is missing"):
        as_source(X)


def test_one_row_and_one_feature():
    (block,) = ArraySource([[2.0]], ["yes"]).map(same)
    assert (block.X.tolist(), block.y.tolist(), block.place) == ([[2.0]], ["yes"], "array, row 0")


def test_arrays_are_used_again_only_when_nobody_has_a_part_of_them():
    spare = SpareArrays(3)
    kept = [spare.take(6, 2, np.float64) for _ in range(3)]
    kept[0][:] = 1.0
    part, where = kept[0][2:4, 1], [array.ctypes.data for array in kept]
    del kept
    fresh = [spare.take(6, 2, np.float64) for _ in range(3)]
    assert [array.ctypes.data for array in fresh[:2]] == where[1:]
    fresh[2][:] = 2.0
    assert np.all(part == 1.0)
    assert spare.take(6, 2, np.float32).dtype == np.float32
    assert spare.take(7, 2, np.float64).shape == (7, 2)


def test_blocks_that_are_kept_stay_as_they_are(tmp_path):
    X = np.arange(4000.0).reshape(1000, 4)
    write_parquet(tmp_path / "rows.parquet", X, np.arange(1000) % 2)
    source = ParquetSource(tmp_path / "rows.parquet", label="label", block_rows=10)
    kept = [block.X for block in source.map(lambda block: block)]
    np.testing.assert_array_equal(np.vstack(kept), X)
