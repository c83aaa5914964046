"""Dask arrays and dataframes: the task goes to where the blocks are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Generic, TypeVar, cast

import numpy as np

from squaresvm.readers import Place
from squaresvm.runtime.extras import install_line
from squaresvm.runtime.resources import in_order
from squaresvm.streaming.source import Block, checked_block, named

__all__ = ["DaskSource"]

T = TypeVar("T")

#: Results that travel together: one journey each would take longer than most tasks.
_GATHERED = 64


class DaskSource:
    """Blocks of Dask arrays, or of a Dask dataframe (`DaskSource.from_dataframe`).

    With a `distributed` client at hand, tasks run on its workers, beside the blocks, and one result a block
    travels; what a worker that dies held is computed again by the scheduler. Without a client, tasks run on
    threads. A collection that is not persisted is computed again in every pass: call `persist()` on it
    first where the cluster's memory holds it. Needs Dask: `pip install 'squaresvm[dask]'`.

    Parameters
    ----------
    X : dask array of shape (m, n)
        Features; a block is a chunk of rows. Sizes of chunks may be unknown: a first pass counts them.
    y : dask array or array-like of shape (m,)
        Labels or values.
    sample_weight : dask array or array-like of shape (m,), optional
        Weights, finite and not negative; None: all one.

    Examples
    --------
    >>> import dask.array as da
    >>> from squaresvm.streaming import DaskSource
    >>> X = da.arange(10, chunks=4).reshape(5, 2).astype(float)
    >>> source = DaskSource(X, [1, -1, 1, -1, 1])
    >>> source.n_rows, source.n_features, sum(source.map(lambda block: block.X.sum().item()))
    (5, 2, 45.0)
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        _dask()
        self._parts = _array_parts(X, y, sample_weight)

    @classmethod
    def from_dataframe(
        cls, df: Any, *, label: str, weight: str | None = None, columns: Sequence[str] | None = None
    ) -> DaskSource:
        """Return a source of the partitions of a Dask dataframe.

        Parameters
        ----------
        df : dask dataframe
            The rows.
        label : str
            Name of the column of labels or values.
        weight : str, optional
            Name of the column of sample weights.
        columns : sequence of str, optional
            Names of the features; all other columns where it is not given.

        Returns
        -------
        DaskSource

        Examples
        --------
        >>> import dask.dataframe as dd, pandas as pd
        >>> from squaresvm.streaming import DaskSource
        >>> frame = pd.DataFrame({"age": [31.0, 47.0, 5.0], "sick": ["no", "yes", "no"]})
        >>> source = DaskSource.from_dataframe(dd.from_pandas(frame, npartitions=2), label="sick")
        >>> source.feature_names, sum(source.map(lambda block: block.X.sum().item()))
        (('age',), 83.0)
        """
        _dask()
        source = cls.__new__(cls)
        source._parts = _frame_parts(df, label, weight, columns)
        return source

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self._parts.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where the sizes of chunks are unknown and no pass was made."""
        rows = self._parts.rows
        return None if rows is None else sum(rows)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of a dataframe's columns that are features."""
        return self._parts.names

    def map(self, task: Callable[[Block], T]) -> Iterator[T]:
        """Yield `task(block)` for every block, in order; tasks run where the blocks are."""
        client = _client()
        if self._parts.rows is None:
            self._count_rows(client)
        if not self.n_rows:
            raise ValueError("the Dask collection has no rows")
        nodes = self._nodes(task)
        run = (
            in_order(partial(_compute, node) for node in nodes) if client is None else _gather(client, nodes)
        )
        try:
            for rows, result in run:
                if rows:
                    yield cast(T, result)
        finally:
            run.close()

    def on_workers(self) -> DaskRows | None:
        """Return the features of the blocks as the workers of a cluster hold them; None without a cluster.

        They are held until what is returned is dropped, and made again where a worker dies.
        """
        client = _client()
        if client is None:
            return None
        if self._parts.rows is None:
            self._count_rows(client)
        assert self._parts.rows is not None
        return DaskRows(client, client.compute(self._nodes(_features)), self._parts.rows)

    def _nodes(self, task: Callable[[Block], T]) -> list[Any]:
        """Return one lazy result a block."""
        delayed = _dask().delayed
        parts = self._parts
        assert parts.rows is not None
        # One node that all others name: a task may carry much, and should travel once.
        work = delayed(_Work(task, parts.decode, parts.unit, parts.n_features, parts.names), pure=False)
        run = delayed(_run, pure=False)
        firsts = accumulate(parts.rows, initial=0)
        blocks = enumerate(zip(parts.blocks, parts.rows, firsts, strict=False))
        return [run(work, number, rows, first, *block) for number, (block, rows, first) in blocks]

    def _count_rows(self, client: Any) -> None:
        dask = _dask()
        lengths = [dask.delayed(len, pure=False)(block[0]) for block in self._parts.blocks]
        counted = client.gather(client.compute(lengths)) if client else dask.compute(*lengths)
        self._parts.rows = [int(count) for count in counted]


class DaskRows:
    """Blocks of rows that workers hold.

    Parameters
    ----------
    client : distributed.Client
    blocks : list of futures
        Of what `_run` returns.
    sizes : list of int
        Rows of each.
    """

    def __init__(self, client: Any, blocks: list[Any], sizes: list[int]) -> None:
        self._client = client
        self._blocks = [block for block, size in zip(blocks, sizes, strict=True) if size]
        self.sizes = [size for size in sizes if size]

    def meet(self, task: Callable[[int, dict[int, Any]], T], others: Sequence[Sequence[int]]) -> Iterator[T]:
        """Yield ``task(i, blocks)`` for every block i, given those that it meets, in order."""
        submit = partial(self._client.submit, pure=False)
        work = submit(_Carried, task)  # Travels once, and is made again where its worker dies.
        futures = [
            submit(_meet, work, i, list(met), [self._blocks[j] for j in met]) for i, met in enumerate(others)
        ]
        return cast(Iterator[T], _gathered(self._client, futures))


@dataclass(frozen=True, eq=False)
class _Carried(Generic[T]):
    """A task as a result that others name; a function itself would be taken for one to call."""

    task: Callable[[int, dict[int, Any]], T]


def _meet(work: _Carried[T], number: int, met: list[int], blocks: list[tuple[int, Any]]) -> T:
    return work.task(number, {other: X for other, (_, X) in zip(met, blocks, strict=True)})


def _features(block: Block) -> Any:
    return block.X


@dataclass(eq=False)
class _Parts:
    """Lazy blocks and what is known of them."""

    blocks: list[tuple[Any, ...]]
    rows: list[int] | None
    n_features: int
    names: tuple[str, ...] | None
    unit: str
    decode: Callable[..., tuple[Any, Any, Any]]
    # The cluster keeps persisted blocks only as long as somebody holds their collection.
    kept: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class _Work(Generic[T]):
    """All that a worker needs beside the block."""

    task: Callable[[Block], T]
    decode: Callable[..., tuple[Any, Any, Any]]
    unit: str
    n_features: int
    names: tuple[str, ...] | None


def _run(work: _Work[T], number: int, rows: int, first: int, *parts: Any) -> tuple[int, T | None]:
    """Check a block and do the task, on a worker or a thread."""
    X, y, weights = work.decode(*parts)
    place = Place(f"{work.unit} {number}", 0, X.shape[0])
    if X.shape[0] != rows:
        raise ValueError(f"{work.unit} {number} has {X.shape[0]} rows in this pass and had {rows} before")
    if rows == 0:
        return 0, None
    block = checked_block(
        X, y, weights, first=first, place=place, n_features=work.n_features, names=work.names
    )
    with named(block.place):
        return rows, work.task(block)


def _compute(node: Any) -> Any:
    # On this thread: the threads are those of the pass.
    return node.compute(scheduler="sync")


def _gather(client: Any, nodes: list[Any]) -> Any:
    """Yield the results of lazy nodes in order."""
    return _gathered(client, client.compute(nodes))


def _gathered(client: Any, futures: list[Any]) -> Any:
    """Yield results in order, some at a time; what is not needed any more is cancelled."""
    try:
        while futures:
            results = client.gather(futures[:_GATHERED])
            del futures[:_GATHERED]
            yield from results
    finally:
        client.cancel(futures)


def _dask() -> Any:
    try:
        import dask
        import dask.delayed
    except ImportError:
        raise ImportError(f"Dask collections need Dask: {install_line('dask')}") from None
    return dask


def _dask_array() -> Any:
    import dask.array

    return dask.array


def _client() -> Any:
    """Return the distributed client that is in use, or None."""
    if "distributed" not in sys.modules:
        return None  # Whoever made a client has imported it.
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


def _array_parts(X: Any, y: Any, weights: Any) -> _Parts:
    """Return the chunks of arrays, each with its part of y and of the weights."""
    da = _dask_array()
    if not isinstance(X, da.Array):
        raise TypeError(f"X must be a Dask array, got {type(X).__name__}")
    if X.ndim != 2 or np.isnan(X.shape[1]):
        raise ValueError(f"X must have two dimensions and a known number of features; got shape {X.shape}")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})  # A row must not be spread over chunks.
    columns = [_beside(X, y, "y")]
    if weights is not None:
        columns.append(_beside(X, weights, "sample_weight"))
    kept = (X, *columns)
    # Together, so that what X and y are both made from is made once.
    X, *columns = _dask().optimize(X, *columns)
    lazy = [array.to_delayed(optimize_graph=False).ravel().tolist() for array in (X, *columns)]
    sizes = X.chunks[0]
    rows = None if any(np.isnan(size) for size in sizes) else [int(size) for size in sizes]
    return _Parts(list(zip(*lazy, strict=True)), rows, int(X.shape[1]), None, "chunk", _array_block, kept)


def _beside(X: Any, values: Any, name: str) -> Any:
    """Return y or weights in the same chunks as the rows of X."""
    da = _dask_array()
    sizes = X.chunks[0]
    is_known = not any(np.isnan(size) for size in sizes)
    if not isinstance(values, da.Array):
        if not is_known:
            raise ValueError(f"{name} must be a Dask array where the sizes of X's chunks are unknown")
        values = da.from_array(np.asarray(values), chunks=-1)
    if values.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got shape {values.shape}")
    if is_known and not np.isnan(values.shape[0]):
        if values.shape[0] != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and {name} has {values.shape[0]}")
        return values.rechunk((sizes,))
    if values.numblocks[0] != X.numblocks[0]:
        raise ValueError(
            f"{name} has {values.numblocks[0]} chunks and X has {X.numblocks[0]}: where sizes are unknown, "
            "chunks must be alike"
        )
    return values


def _array_block(X: Any, y: Any, weights: Any = None) -> tuple[Any, Any, Any]:
    return X, y, weights


def _frame_parts(df: Any, label: str, weight: str | None, columns: Sequence[str] | None) -> _Parts:
    """Return the partitions of a dataframe, less the columns that are not needed."""
    others = [name for name in (label, weight) if name is not None]
    features = tuple(columns if columns is not None else (name for name in df.columns if name not in others))
    missing = [name for name in (*features, *others) if name not in df.columns]
    if missing:
        raise ValueError(f"the dataframe has no column {missing[0]!r}")
    if not features or len({*features, *others}) < len(features) + len(others):
        raise ValueError("a column can be a feature, the label or the weight, and there must be a feature")
    for name in (*features, *others[1:]):
        if getattr(df.dtypes[name], "kind", "O") not in "fiub":
            raise ValueError(
                f"column {name!r} is of type {df.dtypes[name]}; features and weights must be numbers: leave "
                "it out of columns, or encode it first"
            )
    blocks = [(part,) for part in df[[*features, *others]].to_delayed()]
    decode = partial(_frame_block, features=list(features), label=label, weight=weight)
    return _Parts(blocks, None, len(features), features, "partition", decode, (df,))


def _frame_block(frame: Any, *, features: list[str], label: str, weight: str | None) -> tuple[Any, Any, Any]:
    kinds = [np.dtype(getattr(kind, "numpy_dtype", kind)) for kind in frame[features].dtypes]
    narrow = all(kind.kind == "f" and kind.itemsize <= 4 for kind in kinds)
    dtype = np.float32 if narrow else np.float64
    X = frame[features].to_numpy(dtype=dtype, na_value=np.nan)
    weights = None if weight is None else frame[weight].to_numpy(dtype=np.float64, na_value=np.nan)
    return X, np.asarray(frame[label]), weights
