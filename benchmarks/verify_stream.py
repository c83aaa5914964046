"""A linear model of a million rows, verified from Parquet by a child process that may use 1 GB.

    python benchmarks/verify_stream.py [--rows 1000000] [--columns 20] [--limit 1024]

The parent writes the rows and fits the model; the child loads the model file and runs `squaresvm verify` on
the Parquet file, its data segment limited by the operating system, and reports its time and peak memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHILD = """
import resource, sys, time
limit = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
import json, squaresvm
start = time.perf_counter()
verdict = squaresvm.verify(sys.argv[1], sys.argv[2], label="label")
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"verdict": verdict.to_json(), "seconds": seconds, "peak": peak}))
"""


def write_rows(path: Path, rows: int, columns: int) -> None:
    """Write rows of two classes that overlap, in pieces."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    direction, names = rng.normal(size=columns), [f"x{j}" for j in range(columns)]
    writer = None
    for start in range(0, rows, 100_000):
        X = rng.normal(size=(min(100_000, rows - start), columns))
        y = np.where(X @ direction + 2.0 * rng.normal(size=len(X)) > 0.0, 1, -1)
        table = pa.table({**dict(zip(names, X.T, strict=True)), "label": y})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def main() -> None:
    """Write, fit, and verify in a child for both losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--limit", type=int, default=1024, help="MB of data segment of the child")
    options = parser.parse_args()
    import squaresvm
    from squaresvm.streaming import ParquetSource

    with tempfile.TemporaryDirectory() as folder:
        data, path = Path(folder, "rows.parquet"), Path(folder, "a.model")
        write_rows(data, options.rows, options.columns)
        for cls in (squaresvm.LSSVC, squaresvm.RLSSVC):
            start = time.perf_counter()
            model = cls(kernel="linear").fit(ParquetSource(data, label="label"))
            fit = time.perf_counter() - start
            squaresvm.save(model, path, overwrite=True)
            command = [sys.executable, "-c", CHILD, str(path), str(data), str(options.limit * 2**20)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            verdict = found["verdict"]
            print(
                f"{cls.__name__}: {verdict['rows']} rows x {options.columns}, fit {fit:.1f} s, verified in "
                f"{found['seconds']:.1f} s with a peak of {found['peak']:.0f} MB (limit {options.limit} MB): "
                f"ok {verdict['ok']}, residual {verdict['claimed']['residual']:.2e} claimed, "
                f"{verdict['residual']:.2e} true"
            )
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"the parent, which wrote and fitted, had a peak of {used:.0f} MB")


if __name__ == "__main__":
    main()
