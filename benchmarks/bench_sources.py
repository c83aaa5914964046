"""A pass over Parquet files with a trivial task against reading them alone with PyArrow: one run.

python benchmarks/bench_sources.py [rows, 20000000]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from squaresvm.datasets import ndc_blocks
from squaresvm.streaming import ParquetSource

FILE_ROWS, N_FEATURES, REPEATS = 1_000_000, 10, 3


def write(folder, rows):
    """Write the rows block by block, one file a million of them."""
    for number, (X, y) in enumerate(ndc_blocks(rows, N_FEATURES, block_size=FILE_ROWS, random_state=0)):
        columns = {f"x{j}": X[:, j] for j in range(N_FEATURES)}
        table = pa.table({**columns, "label": y.astype(np.int8)})
        # Random digits do not compress: compression would only be in the way of both readers.
        pq.write_table(
            table, Path(folder, f"part-{number:03}.parquet"), compression="none", use_dictionary=False
        )


def read_alone(folder):
    """Read every column of every file and drop it, one row group at a time, on all of PyArrow's threads."""
    rows = 0
    for path in sorted(Path(folder).glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                rows += file.read_row_group(group).num_rows
    return rows


def stream_alone(folder, block_rows):
    """Read the files in batches of as many rows as a block has."""
    rows = 0
    for path in sorted(Path(folder).glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            rows += sum(batch.num_rows for batch in file.iter_batches(batch_size=block_rows))
    return rows


def column_sums(block):
    return block.X.sum(axis=0)


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(rows):
    with tempfile.TemporaryDirectory() as folder:
        write(folder, rows)
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
        print(f"{rows:,} x {N_FEATURES} float64 in Parquet files of {size:,.0f} MB")
        print(f"  peak memory after writing them: {peak_megabytes():.0f} MB")
        source = ParquetSource(folder, label="label")
        read_alone(folder)  # Both from the page cache.
        ours = np.median([timed(lambda: sum(source.map(column_sums))) for _ in range(REPEATS)])
        print(f"  pass with column sums: {ours:.2f} s, {size / ours:,.0f} MB/s")
        print(f"  peak memory after the passes: {peak_megabytes():.0f} MB")
        for name, peer in (("by row groups", read_alone), ("in batches", lambda f: stream_alone(f, 95_325))):
            alone = np.median([timed(lambda peer=peer: peer(folder)) for _ in range(REPEATS)])
            print(f"  PyArrow alone, {name}: {alone:.2f} s; the pass reaches {alone / ours:.2f} of its rate")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000)
