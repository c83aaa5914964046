"""Bad data ends a pass with an error that says where it stands."""

from __future__ import annotations

import threading

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from squaresvm.streaming import ArraySource, BlockSource, DaskSource, ParquetSource

X = np.random.default_rng(0).normal(size=(1000, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")


def read(source):
    list(source.map(lambda block: block.rows))


@pytest.fixture(autouse=True)
def no_threads_left():
    before = set(threading.enumerate())
    yield
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name.startswith("squaresvm")]


def blocks(change=None, count=10):
    made = [[X[a : a + 100].copy(), Y[a : a + 100]] for a in range(0, 100 * count, 100)]
    if change is not None:
        change(made)
    return BlockSource(lambda: made)


def spoil(value):
    def change(made):
        made[7][0][12, 1] = value

    return change


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_in_block_7(value):
    with pytest.raises(ValueError, match=rf"block 7, row 12: feature 1 is {value}"):
        read(blocks(spoil(value)))


def test_values_so_large_that_their_sum_overflows_are_fine():
    read(ArraySource(np.full((50, 2), 1e308), np.ones(50)))
    read(ArraySource(np.full((50, 2), 3e38, dtype=np.float32), np.ones(50)))


@pytest.mark.parametrize("form", [np.array, np.asfortranarray, sp.csr_matrix])
def test_nan_in_an_array(form):
    bad = X.copy()
    bad[612, 2] = np.nan
    with pytest.raises(ValueError, match="array, row 612: feature 2 is nan"):
        read(ArraySource(form(bad), Y, block_rows=100))


def test_a_block_with_another_number_of_features():
    def change(made):
        made[3][0] = made[3][0][:, :2]

    with pytest.raises(ValueError, match="block 3, rows 0 to 99: 2 features where 3 were expected"):
        read(blocks(change))
    with pytest.raises(ValueError, match=r"block 0.*3 features where 5 were expected"):
        read(BlockSource(lambda: [(X, Y)], n_features=5))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((X, Y[:-1]), "1000 rows of X but 999 of y"),
        ((X, Y[:, None]), "y must have one dimension"),
        ((X[0], Y), "X must have two dimensions"),
        ((X,), r"block 0 is tuple; it must be \(X, y\)"),
        ((X, Y, -np.ones(1000)), "block 0, row 0: the weight is -1.0"),
        ((X, Y, np.full(1000, np.nan)), "the weight is nan"),
        ((X, Y, np.ones(3)), r"weights of shape \(3,\)"),
        ((X, np.where(X[:, 0] > 0, np.nan, 1.0)), r"block 0, row \d+: y is nan"),
        ((X, np.array([None] * 1000)), "block 0, row 0: y is None"),
        ((X.astype(complex), Y), "must hold real numbers"),
        ((np.array([["a", 1.0]], dtype=object), ["no"]), "not numbers"),
    ],
)
def test_bad_blocks(given, message):
    with pytest.raises(ValueError, match=message):
        read(BlockSource(lambda: [given]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y[:-1]), "one value for each of the 1000 rows"),
        ((X[:0], Y[:0]), "no rows"),
        ((X[0], Y), "two dimensions"),
        ((X, Y, np.ones(3)), "sample_weight must have shape"),
    ],
)
def test_bad_arrays(arguments, message):
    with pytest.raises(ValueError, match=message):
        ArraySource(*arguments)


def test_bad_weights_of_an_array_are_named():
    weights = np.ones(1000)
    weights[423] = -0.5
    with pytest.raises(ValueError, match=r"array, row 423: the weight is -0\.5"):
        read(ArraySource(X, Y, weights, block_rows=64))


@pytest.mark.parametrize("count", [0, -1, True, 2.0])
def test_block_rows_must_be_a_count(count):
    with pytest.raises(ValueError, match="block_rows must be an integer of at least 1"):
        ArraySource(X, Y, block_rows=count)


def test_what_can_be_read_only_once_is_refused_with_advice():
    once = ((X, Y) for _ in range(3))
    with pytest.raises(TypeError, match="only once: give a function"):
        BlockSource(once)
    with pytest.raises(TypeError, match="must be a function, not list"):
        BlockSource([(X, Y)])
    source = BlockSource(lambda: once)
    read(source)
    with pytest.raises(ValueError, match="iterator of an earlier pass again"):
        read(source)


def test_iterables_that_share_a_state_do_not_lose_blocks_in_silence():
    once = iter([(X[a : a + 100], Y[a : a + 100]) for a in range(0, 500, 100)])
    source = BlockSource(lambda: map(tuple, once))
    assert source.n_features == 3
    with pytest.raises(ValueError, match="block 0 is not the block 0 of an earlier pass"):
        read(source)


def test_rows_that_vanish_between_passes():
    given = [(X[:500], Y[:500]), (X[500:], Y[500:])]
    source = BlockSource(lambda: given)
    read(source)
    given.pop()
    with pytest.raises(ValueError, match="gave 500 rows in this pass and 1000 before"):
        read(source)


def test_no_rows_at_all():
    with pytest.raises(ValueError, match="no rows"):
        read(BlockSource(lambda: [], n_features=3))
    with pytest.raises(ValueError, match="gave no blocks"):
        _ = BlockSource(lambda: []).n_features
    with pytest.raises(ValueError, match="no rows"):
        read(BlockSource(lambda: [(X[:0], Y[:0])]))


def test_an_error_of_the_users_function_comes_through():
    def broken():
        yield X, Y
        raise KeyError("the database is away")

    with pytest.raises(KeyError, match="the database is away"):
        read(BlockSource(broken))


# Parquet ----------------------------------------------------------------------------------------------


def write(path, **columns):
    table = {"a": X[:, 0], "b": X[:, 1], "label": Y} | columns
    pq.write_table(pa.table({name: values for name, values in table.items() if values is not None}), path)
    return path


def test_a_truncated_parquet_file(tmp_path):
    path = write(tmp_path / "cut.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"cut\.parquet: is not a Parquet file that can be read"):
        read(ParquetSource(path, label="label"))


def test_a_parquet_file_damaged_inside(tmp_path):
    path = tmp_path / "damaged.parquet"
    pq.write_table(pa.table({"a": X[:, 0], "label": Y}), path, row_group_size=100)
    content = bytearray(path.read_bytes())
    content[2000:9000] = b"\xff" * 7000
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged\.parquet, at or after row \d+: the file is damaged"):
        read(ParquetSource(path, label="label", block_rows=50))


def test_missing_values_of_parquet_are_named(tmp_path):
    for name, value in (("null", None), ("nan", np.nan)):
        column = X[:, 1].tolist()
        column[777] = value
        path = write(tmp_path / f"{name}.parquet", b=pa.array(column, pa.float64()))
        with pytest.raises(ValueError, match=rf"{name}\.parquet, row 777: .*'b' is (missing|nan)"):
            read(ParquetSource(path, label="label", block_rows=100))
    labels = [*Y[:5], None, *Y[6:]]
    path = write(tmp_path / "label.parquet", label=pa.array(labels))
    with pytest.raises(ValueError, match=r"label\.parquet, row 5: 'label' is missing"):
        read(ParquetSource(path, label="label"))


def test_rows_are_counted_within_each_file(tmp_path):
    write(tmp_path / "1.parquet")
    write(tmp_path / "2.parquet", a=np.where(np.arange(1000) == 3, np.nan, X[:, 0]))
    with pytest.raises(ValueError, match=r"2\.parquet, row 3: feature 'a' is nan"):
        read(ParquetSource(tmp_path, label="label"))


@pytest.mark.parametrize(
    ("extra", "options", "message"),
    [
        ({"town": Y}, {}, "column 'town' is of type string"),
        ({"town": pa.array(Y).dictionary_encode()}, {}, "column 'town' is of type dictionary"),
        ({"when": pa.array(range(1000), pa.date32())}, {}, "column 'when' is of type date32"),
        ({}, {"label": "class"}, "no column 'class'"),
        ({}, {"columns": ["a", "z"]}, "no column 'z'"),
        ({}, {"columns": ["a", "label"]}, "and only once"),
        ({}, {"columns": ["a", "a"]}, "and only once"),
        ({}, {"columns": []}, "sequence of names"),
        ({}, {"columns": "a"}, "sequence of names"),
        ({}, {"weight": "label"}, "only once"),
        ({"weight": -np.ones(1000)}, {"weight": "weight"}, "row 0: the weight is -1.0"),
    ],
)
def test_columns_that_cannot_be_used(extra, options, message, tmp_path):
    path = write(tmp_path / "x.parquet", **extra)
    with pytest.raises(ValueError, match=message):
        read(ParquetSource(path, **({"label": "label"} | options)))


def test_files_with_other_columns(tmp_path):
    write(tmp_path / "1.parquet")
    write(tmp_path / "2.parquet", b=None, c=X[:, 2])
    with pytest.raises(ValueError, match=r"2\.parquet has no column 'b'"):
        read(ParquetSource(tmp_path, label="label"))


def test_parquet_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        ParquetSource(tmp_path / "none.parquet", label="label")
    with pytest.raises(FileNotFoundError, match=r"no \*\.parquet files"):
        ParquetSource(tmp_path, label="label")
    (tmp_path / "empty.parquet").touch()
    with pytest.raises(ValueError, match=r"empty\.parquet: is empty"):
        read(ParquetSource(tmp_path, label="label"))
    path = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"a": X[:0, 0], "label": Y[:0]}), path)
    with pytest.raises(ValueError, match="has no rows"):
        read(ParquetSource(path, label="label"))


def test_a_parquet_file_that_changes_between_passes(tmp_path):
    path = write(tmp_path / "x.parquet")
    source = ParquetSource(path, label="label")
    read(source)
    pq.write_table(pa.table({"a": X[:9, 0], "b": X[:9, 1], "label": Y[:9]}), path)
    with pytest.raises(ValueError, match="gave 9 rows in this pass and 1000 before"):
        read(source)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="any more"):
        read(source)


# Dask -------------------------------------------------------------------------------------------------


def test_nan_in_chunk_7():
    bad = X.copy()
    bad[712, 1] = np.nan
    with pytest.raises(ValueError, match="chunk 7, row 12: feature 1 is nan"):
        read(DaskSource(da.from_array(bad, chunks=(100, 3)), Y))


def test_bad_dask_collections():
    lazy = da.from_array(X, chunks=(100, 3))
    with pytest.raises(ValueError, match="X has 1000 rows and y has 999"):
        DaskSource(lazy, Y[:-1])
    with pytest.raises(TypeError, match="X must be a Dask array"):
        DaskSource(X, Y)
    with pytest.raises(ValueError, match="must be a Dask array where"):
        DaskSource(lazy[lazy[:, 0] > 0], Y)
    with pytest.raises(ValueError, match="chunks must be alike"):
        DaskSource(lazy[lazy[:, 0] > 0], da.from_array(Y, chunks=300))
    with pytest.raises(ValueError, match="no rows"):
        read(DaskSource(lazy[lazy[:, 0] > 99], da.from_array(Y, chunks=100)[lazy[:, 0] > 99]))
    frame = dd.from_pandas(pd.DataFrame({"a": X[:, 0], "town": Y, "label": Y}), npartitions=3)
    with pytest.raises(ValueError, match="column 'town' is of type"):
        DaskSource.from_dataframe(frame, label="label")
    with pytest.raises(ValueError, match="no column 'z'"):
        DaskSource.from_dataframe(frame, label="z")
    with pytest.raises(ValueError, match="there must be a feature"):
        DaskSource.from_dataframe(frame, label="label", columns=["label"])


def test_missing_values_of_a_dataframe_are_named():
    frame = pd.DataFrame({"a": pd.array([1, 2, None, 4], dtype="Int64"), "label": [1, 2, 3, 4]})
    with pytest.raises(ValueError, match="partition 1, row 0: feature 'a' is nan"):
        read(DaskSource.from_dataframe(dd.from_pandas(frame, npartitions=2), label="label"))
