"""A pass over Parquet files with a trivial task against reading them alone with PyArrow: one run.

python benchmarks/bench_sources.py [rows, 20000000]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from squaresvm.datasets import ndc_blocks
from squaresvm.streaming import ParquetSource

FILE_ROWS, N_FEATURES, REPEATS = 1_000_000, 10, 3


def write(folder, rows, compression="none"):
    """Write the rows block by block, one file a million of them."""
    for number, (X, y) in enumerate(ndc_blocks(rows, N_FEATURES, block_size=FILE_ROWS, random_state=0)):
        columns = {f"x{j}": X[:, j] for j in range(N_FEATURES)}
        table = pa.table({**columns, "label": y.astype(np.int8)})
        path = Path(folder, f"part-{number:03}.parquet")
        pq.write_table(table, path, compression=compression, use_dictionary=compression != "none")


def read_alone(folder):
    """Read every column of every file and drop it, one row group at a time, on all of PyArrow's threads."""
    rows = 0
    for path in sorted(Path(folder).glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                rows += file.read_row_group(group).num_rows
    return rows


def column_sums(block):
    return np.ones(block.rows) @ block.X


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def passes(folder):
    """Return the median seconds of a pass and the peak memory of this process in MB."""
    source = ParquetSource(folder, label="label")
    seconds = np.median([timed(lambda: sum(source.map(column_sums))) for _ in range(REPEATS)])
    return float(seconds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(rows):
    for compression in ("none", "snappy"):
        with tempfile.TemporaryDirectory() as folder:
            write(folder, rows, compression)
            size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
            read_alone(folder)  # Both from the page cache.
            alone = np.median([timed(lambda folder=folder: read_alone(folder)) for _ in range(REPEATS)])
            # In a process of its own, whose peak memory is that of the passes and nothing else.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                ours, peak = pool.submit(passes, folder).result()
        print(f"{rows:,} x {N_FEATURES} float64 in {size:,.0f} MB of Parquet, compression {compression}")
        print(f"  PyArrow alone, by row groups: {alone:.2f} s, {size / alone:,.0f} MB/s")
        print(f"  a pass with column sums: {ours:.2f} s, {size / ours:,.0f} MB/s, peak memory {peak:.0f} MB")
        print(f"  the pass reaches {alone / ours:.2f} of the rate of reading alone")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000)
