"""The same rows as every kind of source, for the tests of models that are fitted from them."""

from __future__ import annotations

import gzip

import numpy as np

from squaresvm.streaming import ArraySource, BlockSource, DaskSource, LibsvmSource, ParquetSource

M, N, SIZE = 330, 4, 50
#: Kinds of sources; those of text hold no weights.
KINDS = ("array", "float32", "csr", "memmap", "parquet", "libsvm", "gzip", "blocks", "dask")
WITHOUT_WEIGHTS = ("libsvm", "gzip")


def rows(problem, seed=0):
    """Return rows that float32 holds exactly, labels or values, and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(0.5, 1.0, (M, N)).astype(np.float32).astype(np.float64)
    X[rng.random((M, N)) < 0.2] = 0.0
    score = X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=M)
    if problem == "regression":
        y = score
    else:
        y = np.digitize(score, [0.3] if problem == "two" else [-1.0, 1.0]).astype(np.float64)
    return X, y, rng.integers(0, 4, M).astype(np.float64)


def write_parquet(path, X, y, weights=None):
    """Write rows as a Parquet file of several row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"label": y}
    if weights is not None:
        columns["weight"] = weights
    pq.write_table(pa.table(columns), path, row_group_size=80)


def write_libsvm(path, X, y, opener=open):
    """Write rows as LIBSVM text, every digit of them."""
    with opener(path, "wt") as file:
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            entries = " ".join(f"{j}:{value!r}" for j, value in enumerate(row, 1) if value != 0.0)
            file.write(f"{label!r} {entries}\n")


class Blocks:
    """A function of the user's that gives blocks, and counts the passes."""

    def __init__(self, X, y, weights=None, size=SIZE):
        cuts = [slice(start, start + size) for start in range(0, len(y), size)]
        self.blocks = [(X[cut], y[cut], None if weights is None else weights[cut]) for cut in cuts]
        self.passes = 0

    def __call__(self):
        self.passes += 1
        yield from self.blocks


def source_of(kind, X, y, weights, folder):
    """Return the rows as a source, in blocks of `SIZE` rows or so."""
    if kind in ("array", "float32", "csr"):
        import scipy.sparse as sp

        form = {"array": np.array, "float32": np.float32, "csr": sp.csr_matrix}[kind]
        return ArraySource(form(X), y, weights, block_rows=SIZE)
    if kind == "memmap":
        X.tofile(folder / "X.dat")
        mapped = np.memmap(folder / "X.dat", dtype=np.float64, mode="r", shape=X.shape)
        return ArraySource(mapped, y, weights, block_rows=SIZE)
    if kind == "parquet":
        path = folder / "rows.parquet"
        write_parquet(path, X, y, weights)
        weight = None if weights is None else "weight"
        return ParquetSource(path, label="label", weight=weight, block_rows=SIZE)
    if kind in WITHOUT_WEIGHTS:
        path = folder / ("rows.svm" if kind == "libsvm" else "rows.svm.gz")
        write_libsvm(path, X, y, open if kind == "libsvm" else gzip.open)
        return LibsvmSource(path, n_features=X.shape[1], zero_based=False, block_rows=SIZE)
    if kind == "blocks":
        return BlockSource(Blocks(X, y, weights))
    import dask.array as da

    parts = [da.from_array(X, chunks=(SIZE, X.shape[1])), da.from_array(y, chunks=SIZE)]
    return DaskSource(*parts, *(() if weights is None else (da.from_array(weights, chunks=SIZE),)))
