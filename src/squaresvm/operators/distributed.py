"""K of rows that a cluster holds: products with it run where the rows are, and it is held nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Protocol, TypeAlias

import numpy as np

from squaresvm.kernels import Kernel
from squaresvm.operators.computed import OnDemandOperator
from squaresvm.operators.single import SingleKernel
from squaresvm.rows.chunks import Features
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["DistributedOperator", "RowsElsewhere"]

#: Rows and columns of a block of kernel values, which is dropped when it has been used.
_TILE = 1024

#: What the rows of one block and of those that it meets add to a product: parts of it, by block.
Parts: TypeAlias = dict[int, FloatArray]


class RowsElsewhere(Protocol):
    """Blocks of rows, on workers."""

    @property
    def sizes(self) -> Sequence[int]:
        """Rows of each block."""
        ...

    def meet(
        self, task: Callable[[int, dict[int, Matrix]], Parts], others: Sequence[Sequence[int]]
    ) -> Iterator[Parts]:
        """Yield ``task(i, blocks)`` for every block i, given those that it meets, itself among them."""
        ...


class DistributedOperator(OnDemandOperator):
    """K = k(X, X) by blocks that workers compute, use twice and drop.

    Block i meets itself and the half of the others that follow it in a circle, so that each pair of blocks
    meets once, at the worker that holds the first of them.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (m, n), or Chunks
        The rows of the problem, here.
    elsewhere : RowsElsewhere
        All rows of the source, those of weight zero included.
    held : ndarray of shape (m,)
        Which of them are the rows of the problem.
    """

    def __init__(self, kernel: Kernel, X: Features, elsewhere: RowsElsewhere, held: IntArray) -> None:
        super().__init__(kernel, X)
        self._elsewhere, self._where = elsewhere, held

    def in_single(self, memory: float) -> SingleKernel | None:
        """Return None: products are in float64, wherever they run."""
        return None

    def matmul(self, b: FloatArray) -> FloatArray:
        """Return K b."""
        last = self._last
        if last is None or not np.array_equal(last[0], b):
            last = self._last = (b.copy(), self._product(b))
        return last[1].copy()

    def magnitude(self, b: FloatArray) -> FloatArray:
        """Return sum_j |K_ij b_j| for each row and column of b."""
        return self._product(np.abs(b), absolute=True)

    def _product(self, b: FloatArray, *, absolute: bool = False) -> FloatArray:
        sizes = self._elsewhere.sizes
        starts = list(accumulate(sizes, initial=0))
        whole = np.zeros((starts[-1], b.shape[1]))
        whole[self._where] = b
        parts = [whole[first:stop] for first, stop in pairwise(starts)]
        out = np.zeros_like(whole)
        task = partial(_met, _Blocks(self.kernel, parts, absolute))
        for found in self._elsewhere.meet(task, _pairs(len(sizes))):
            for block, values in found.items():
                out[starts[block] : starts[block + 1]] += values
        return out[self._where]


def _pairs(count: int) -> list[list[int]]:
    """Return which blocks each block meets: itself, and of each pair of others one the other."""
    half = count // 2
    return [
        [(i + step) % count for step in range(half + 1) if 2 * step < count or i < half] for i in range(count)
    ]


@dataclass(frozen=True, eq=False)
class _Blocks:
    """What a worker needs beside the rows."""

    kernel: Kernel
    b: list[FloatArray]
    absolute: bool


def _met(work: _Blocks, own: int, blocks: dict[int, Matrix]) -> Parts:
    """Return what K of a block's rows with those that it meets adds to the product."""
    out: Parts = {}
    for other, Z in blocks.items():
        _add(work, (own, blocks[own]), (other, Z), out)
    return out


def _add(work: _Blocks, own: tuple[int, Matrix], other: tuple[int, Matrix], out: Parts) -> None:
    (i, X), (j, Z) = own, other
    for part in _slices(X.shape[0]):
        for columns in _slices(Z.shape[0]):
            mine, theirs = work.b[i][part], work.b[j][columns]
            forward, back = bool(theirs.any()), i != j and bool(mine.any())
            if not (forward or back):
                continue
            K = work.kernel(X[part], Z[columns])
            if work.absolute:
                np.abs(K, out=K)
            if forward:
                _part(out, i, X.shape[0], theirs.shape[1])[part] += K @ theirs
            if back:
                _part(out, j, Z.shape[0], mine.shape[1])[columns] += K.T @ mine


def _part(out: Parts, block: int, rows: int, columns: int) -> FloatArray:
    return out.setdefault(block, np.zeros((rows, columns)))


def _slices(rows: int) -> list[slice]:
    return [slice(start, min(start + _TILE, rows)) for start in range(0, rows, _TILE)]
