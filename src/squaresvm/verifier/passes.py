"""Passes over the rows of a model in w, held or read from a source, in pieces that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import scipy.sparse as sp

from squaresvm.streaming import Block, Source
from squaresvm.verifier.mathematics.judgement import Passes, Tally, joined
from squaresvm.verifier.mathematics.subject import Rows
from squaresvm.verifier.reading import Fitted, targets_and_weights

__all__ = ["passes_over"]

#: Arrays of the size of a piece that are there at one time, about.
_ARRAYS = 24


def passes_over(fitted: Fitted, source: Source | None, max_memory: float) -> Passes:
    """Return what makes a pass; a piece and what is computed of it take `max_memory` bytes at most."""

    def over(task: Callable[[Rows], Tally]) -> Tally:
        by_pieces = _ByPieces(task, fitted, max_memory)
        if fitted.rows is not None:
            return by_pieces.rows(fitted.rows)
        found = [] if source is None else (each for each in source.map(by_pieces) if each is not None)
        whole: Tally | None = None
        for each in found:
            whole = each if whole is None else joined(whole, each)
        if whole is None:
            raise ValueError("the data has no rows of positive weight: there is nothing to verify")
        return whole

    return over


@dataclass(frozen=True, eq=False)
class _ByPieces:
    """A task on rows of a model's problem, as one on blocks of a source."""

    task: Callable[[Rows], Tally]
    of: Fitted
    max_memory: float

    def __call__(self, block: Block) -> Tally | None:
        """Return what the task says of a block; None where no row has a weight."""
        try:
            y, weights = targets_and_weights(block.y, block.weights, self.of.classes, self.of.class_weight)
        except LookupError as error:
            label = error.args[0]
            raise ValueError(
                f"{block.place}: the model knows no class {label!r}: this is other data"
            ) from None
        if self.of.has_labels:
            y = np.where(y > 0.0, 1.0, -1.0)
        held = np.flatnonzero(weights)
        if held.size == 0:
            return None
        whole = held.size == weights.size
        return self.rows(Rows(block.X, y, weights) if whole else Rows(block.X[held], y[held], weights[held]))

    def rows(self, rows: Rows) -> Tally:
        """Return what the task says of rows."""
        return reduce(joined, map(self.task, self._pieces(rows)))

    def _pieces(self, rows: Rows) -> Iterator[Rows]:
        (m, n), k = rows.Z.shape, rows.targets.shape[1]
        entries = rows.Z.nnz / max(1, m) if sp.issparse(rows.Z) else n
        count = int(max(16, self.max_memory / (8 * _ARRAYS * (entries + 2 * k))))
        for start in range(0, m, count):
            part = slice(start, start + count)
            Z = rows.Z[part].astype(np.float64, copy=False)
            yield Rows(Z, rows.targets[part], rows.weights[part])
