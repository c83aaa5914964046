"""On a cluster: the task goes to the blocks, and a worker that dies changes nothing."""

from __future__ import annotations

import os
import signal
import time

import dask
import dask.array as da
import numpy as np
import pytest

from squaresvm.streaming import ArraySource, DaskSource, MappedSource

pytest.importorskip("distributed")

RNG = np.random.default_rng(1)
#: Whole numbers, whose sums of products are exact in any order: so every process finds the same bits.
X, Y = RNG.integers(-99, 100, size=(1000, 3)).astype(float), RNG.choice(["a", "b"], 1000)


def gram(block):
    return block.X.T @ block.X


def with_process(block):
    return os.getpid(), block.first


def array_source(chunk=100):
    return DaskSource(*dask.persist(da.from_array(X, chunks=(chunk, 3)), da.from_array(Y, chunks=chunk)))


def test_tasks_run_on_the_workers_and_results_come_in_order(client):
    source = array_source()
    found = list(source.map(with_process))
    assert [first for _, first in found] == list(range(0, 1000, 100))
    assert os.getpid() not in {process for process, _ in found}
    for block, expected in zip(source.map(gram), ArraySource(X, Y, block_rows=100).map(gram), strict=True):
        np.testing.assert_array_equal(block, expected)


def test_dataframes_and_transformed_blocks(client):
    # Not above: the workers import this module too.
    import dask.dataframe as dd
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame(X, columns=list("uvw")).assign(label=Y), npartitions=4)
    source = MappedSource(DaskSource.from_dataframe(frame, label="label", columns=["w", "u"]), np.cbrt)
    total = sum(source.map(gram))
    Z = np.cbrt(X[:, [2, 0]])
    np.testing.assert_allclose(total, Z.T @ Z, rtol=1e-12)
    assert (source.n_rows, source.n_features) == (1000, 2)


def test_an_error_on_a_worker_names_the_chunk(client):
    bad = X.copy()
    bad[712, 1] = np.nan
    with pytest.raises(ValueError, match="chunk 7, row 12: feature 1 is nan"):
        list(DaskSource(da.from_array(bad, chunks=(100, 3)), Y).map(gram))

    def fails(block):
        raise ValueError("no such luck")

    with pytest.raises(ValueError, match=r"chunk \d, rows 0 to 99: no such luck"):
        list(array_source().map(fails))


def test_a_pass_that_is_given_up_leaves_nothing_behind(client):
    results = array_source(10).map(gram)
    next(results)
    results.close()
    assert len(list(array_source().map(gram))) == 10


class DiesOnce:
    """A task that takes its worker with it, the first time that it comes to row 500."""

    def __init__(self, mark):
        self.mark = mark

    def __call__(self, block):
        if block.first == 500 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        return gram(block)


def test_a_worker_that_is_killed_in_mid_pass_changes_nothing(client, tmp_path):
    source = array_source(50)
    before = list(source.map(gram))
    found = list(source.map(DiesOnce(tmp_path / "dead")))
    assert (tmp_path / "dead").exists()
    assert len(found) == len(before) == 20
    for one, other in zip(found, before, strict=True):
        np.testing.assert_array_equal(one, other)
