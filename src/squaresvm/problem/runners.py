"""Passes over rows in memory, on as many threads as there are processors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.sparse as sp

from squaresvm.problem.passes import RowBlock
from squaresvm.problem.products import is_wide
from squaresvm.problem.survey import Sample
from squaresvm.rows.labels import indicator_signs, sign_columns, value_columns
from squaresvm.runtime.resources import in_order, is_compiled, thread_count, threads_for_blas
from squaresvm.streaming import Block, Source
from squaresvm.typing import FloatArray, Matrix

__all__ = ["COMPILED_SIZE", "Encoding", "MemoryRunner", "SourceRunner", "is_worth_compiling"]

T = TypeVar("T")

#: Bytes of the rows of a block: few enough that NumPy finds them, and what it makes of them, in the cache;
#: compiled loops make nothing of them, and it is the blocks that should be few.
_BLOCK_BYTES, _COMPILED_BYTES = 2 * 2**20, 16 * 2**20
#: Bytes of rows from which on threads are worth starting.
_THREADED_BYTES, _WIDE_BYTES = 16 * 2**20, 4 * 2**20
#: Rows of a block at least, where nothing is formed of n x n numbers.
_LEAST_ROWS = 64
#: Numbers in dense rows from which on compiled loops are used.
COMPILED_SIZE = 4_000_000
#: Rows of a block that forms n x n numbers, for each feature: at least, and at most where each thread has
#: several of those.
_SQUARES = 2, 8
#: Rows of which a part tells enough about the Hessian.
_MANY_ROWS = 200_000
#: Rows that are many times the sample are worth a sample: of so many at least, for each feature, and one out
#: of so many. Less than from a stream will do, as a pass more costs little.
_SAMPLE_SHARE, _LEAST_SAMPLE, _SAMPLE_A_FEATURE, _SAMPLED = 8, 2000, 30, 100


class MemoryRunner:
    """Blocks of rows in memory.

    Parameters
    ----------
    Z : array or CSR matrix of shape (m, n)
    targets : ndarray of shape (m, k)
    costs : ndarray of shape (m,)
    compiled : bool, optional
        Whether to use compiled loops; where the rows are many, if it is not given.
    """

    def __init__(
        self, Z: Matrix, targets: FloatArray, costs: FloatArray, compiled: bool | None = None
    ) -> None:
        self.Z = Z
        self.targets = targets
        self.costs = costs
        m = max(1, int(Z.shape[0]))
        row_bytes: float = 12 * Z.nnz / m if sp.issparse(Z) else Z.itemsize * Z.shape[1]
        self._compiled = compiled if compiled is not None else is_worth_compiling(Z, targets.shape[1], m)
        block_bytes = _COMPILED_BYTES if self._compiled else _BLOCK_BYTES
        self._few = max(_LEAST_ROWS, int(block_bytes / max(8.0, row_bytes)))
        # Sums of n x n numbers a block must be few beside the rows themselves.
        least, most = (times * int(Z.shape[1]) for times in _SQUARES)
        self._many = max(256, min(most, max(least, m // (4 * thread_count()))), self._few)
        if row_bytes * m < _THREADED_BYTES:
            self._many = m
        # Of many features there are many passes, none of which forms anything: they bear more threads.
        if row_bytes * m < (_WIDE_BYTES if is_wide(Z.shape[1]) else _THREADED_BYTES):
            self._few = m

    @property
    def n_features(self) -> int:
        """Number of features, n."""
        return int(self.Z.shape[1])

    @property
    def n_columns(self) -> int:
        """Number of columns of targets, k."""
        return int(self.targets.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return int(self.targets.shape[0])

    @property
    def passes_are_cheap(self) -> bool:
        """Whether several passes cost less than the Hessian of all rows: they are in memory, and many."""
        return self.n_rows > _MANY_ROWS

    @property
    def rows_stay(self) -> bool:
        """Yes: they are in memory."""
        return True

    def _piece(self, start: int, rows: int) -> RowBlock:
        part = slice(start, min(start + rows, self.n_rows))
        return RowBlock(_rows(self.Z, part), self.targets[part], self.costs[part], self._compiled, start)

    def map(self, task: Callable[[RowBlock], T]) -> Iterator[T]:
        """Yield `task(block)` for every block, in order."""
        rows = self._many if getattr(task, "forms_squares", False) else self._few
        starts = range(0, self.n_rows, rows)
        if len(starts) == 1:
            # So small that threads inside the products cost more time than they save.
            with threads_for_blas():
                result = task(self._piece(0, rows))
            yield result
            return
        jobs = (partial(_run, task, self._piece, start, rows) for start in starts)
        if self._compiled:
            yield from in_order(jobs)
            return
        # The blocks are what runs side by side: threads inside their products would be in the way.
        with threads_for_blas():
            yield from in_order(jobs)

    def sample(self, size: int) -> RowBlock | None:
        """Return at most so many rows at random, each standing for several; None where there are few."""
        m = self.n_rows
        size = min(size, max(_LEAST_SAMPLE, _SAMPLE_A_FEATURE * self.n_features, m // _SAMPLED))
        if m < _SAMPLE_SHARE * size:
            return None
        rows = np.sort(np.random.default_rng(0).choice(m, size, replace=False))
        costs = self.costs[rows] * (m / size)
        return RowBlock(self.Z[rows], self.targets[rows], costs, self._compiled)


def is_worth_compiling(Z: Matrix, n_columns: int, n_rows: int) -> bool:
    """Return whether rows such as those of Z are so many that compiled loops pay for being loaded."""
    dense = isinstance(Z, np.ndarray) and Z.flags.c_contiguous and Z.dtype in (np.float64, np.float32)
    return dense and n_columns == 1 and n_rows * Z.shape[1] >= COMPILED_SIZE and is_compiled()


def _rows(Z: Matrix, part: slice) -> Matrix:
    """Return some rows, which are neighbours, without copying them."""
    if not sp.issparse(Z):
        return Z[part]
    if part.stop - part.start == Z.shape[0]:
        return Z
    first, last = Z.indptr[part.start], Z.indptr[part.stop]
    indptr = Z.indptr[part.start : part.stop + 1] - first
    entries = (Z.data[first:last], Z.indices[first:last], indptr)
    return sp.csr_matrix(entries, shape=(part.stop - part.start, Z.shape[1]), copy=False)


def _run(task: Callable[[RowBlock], T], block: Callable[[int, int], RowBlock], start: int, rows: int) -> T:
    return task(block(start, rows))


@dataclass(frozen=True, eq=False)
class Encoding:
    """How labels and weights become targets and costs.

    Parameters
    ----------
    classes : ndarray or None
        Sorted labels; None for regression.
    class_costs : ndarray
        C times the weight of each class; C alone for regression.
    n_values : int, default=1
        Values of each row, for regression.
    has_labels : bool, default=False
        Whether these values say by 0 and 1 which labels a row has.
    """

    classes: np.ndarray[Any, Any] | None
    class_costs: FloatArray
    n_values: int = 1
    has_labels: bool = False

    @property
    def n_columns(self) -> int:
        """Number of columns of targets."""
        if self.classes is None:
            return self.n_values
        return 1 if self.classes.size == 2 else int(self.classes.size)

    def targets(self, codes: np.ndarray[Any, Any]) -> FloatArray:
        """Return a column of +1 and -1 for each class, one for two, given places among the classes."""
        return sign_columns(codes, np.arange(max(self.n_columns, 2)))

    def encode(self, y: np.ndarray[Any, Any], weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return targets and costs.

        Raises
        ------
        ValueError
            For a label that no earlier pass has seen.
        """
        if self.classes is None:
            targets = indicator_signs(y) if self.has_labels else value_columns(y)
            if targets.shape[1] != self.n_values:
                raise ValueError(
                    f"{targets.shape[1]} values a row, where there were {self.n_values}: the data has changed"
                )
            return targets, self._weighed(None, y.shape[0], weights)
        if self.classes.size == 2:
            codes = y == self.classes[1]
            known = codes | (y == self.classes[0])
        else:
            codes = np.minimum(np.searchsorted(self.classes, y), self.classes.size - 1)
            known = self.classes[codes] == y
        if not known.all():
            raise ValueError(f"label {y[~known][0]!r} was not there in the first pass: the data has changed")
        return self.targets(codes), self._weighed(codes, y.shape[0], weights)

    def _weighed(
        self, codes: np.ndarray[Any, Any] | None, rows: int, weights: FloatArray | None
    ) -> FloatArray:
        """Return the costs; where they are all the same, one number seen many times."""
        if np.all(self.class_costs == self.class_costs[0]):
            costs = np.broadcast_to(self.class_costs[0], rows)
        else:
            assert codes is not None
            costs = self.class_costs[codes.astype(np.intp)]
        return costs if weights is None else costs * weights


@dataclass(frozen=True, eq=False)
class _OnBlock(Generic[T]):
    """A task on runner, as one on blocks: what travels to where the blocks are."""

    task: Callable[[RowBlock], T]
    encoding: Encoding
    compiled: bool

    def __call__(self, block: Block) -> tuple[int, T | None]:
        """Return the number of rows, and the result; None where no row has a weight."""
        X, y, weights = block.X, block.y, block.weights
        if weights is not None and not weights.all():
            held = np.flatnonzero(weights)
            if held.size == 0:
                return block.rows, None
            X, y, weights = X[held], y[held], weights[held]
        targets, costs = self.encoding.encode(y, weights)
        compiled = self.compiled and isinstance(X, np.ndarray)
        return block.rows, self.task(RowBlock(X, targets, costs, compiled))


class SourceRunner:
    """Blocks of a source.

    Parameters
    ----------
    source : Source
    encoding : Encoding
    rows : int
        Rows of positive weight.
    sample : Sample
        Some of them.
    watch : callable, optional
        Called with the rows that a pass has come to so far, 0 at its start.
    """

    def __init__(
        self,
        source: Source,
        encoding: Encoding,
        rows: int,
        sample: Sample,
        watch: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self.source = source
        self.encoding = encoding
        self.rows = rows
        self._sample = sample
        self._watch = watch
        size = rows * source.n_features
        self._compiled = encoding.n_columns == 1 and size >= COMPILED_SIZE and is_compiled()

    @property
    def n_features(self) -> int:
        """Number of features, n."""
        return self.source.n_features

    @property
    def n_columns(self) -> int:
        """Number of columns of targets, k."""
        return self.encoding.n_columns

    @property
    def passes_are_cheap(self) -> bool:
        """No: rows are read anew in each."""
        return False

    @property
    def rows_stay(self) -> bool:
        """No: a row is known to nobody between passes."""
        return False

    def map(self, task: Callable[[RowBlock], T]) -> Iterator[T]:
        """Yield `task(block)` for every block, in order."""
        seen = 0
        self._watch(0)
        for rows, result in self.source.map(_OnBlock(task, self.encoding, self._compiled)):
            seen += rows
            self._watch(seen)
            if result is not None:
                yield result

    def sample(self, size: int) -> RowBlock | None:
        """Return the sample that the first pass took, each row standing for several."""
        sample = self._sample.lowest(size)
        if sample.ranks.size >= self.rows:
            return None
        targets, costs = self.encoding.encode(sample.y, sample.weights)
        return RowBlock(sample.X, targets, costs * (self.rows / sample.ranks.size), self._compiled)
