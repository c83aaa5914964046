"""Columns that come and go without any effect on the model.

A column that is zero in every row held adds nothing to an inner product or a distance between them, so K,
the multipliers and the certificate stay as they are, and w has a zero there.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from squaresvm.estimators.requests import Updating
from squaresvm.models.model import Known
from squaresvm.models.state import State
from squaresvm.models.streamed import StreamedState
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["with_columns"]

Model = TypeVar("Model", bound=Updating)


def with_columns(model: Model, sources: IntArray) -> Model:
    """Return a model whose column j is column ``sources[j]`` of this one, or zero where that is -1.

    Parameters
    ----------
    model : estimator
        Fitted; its kernel is not precomputed.
    sources : ndarray of shape (columns,)
        Every column that is left out must be zero in all rows held.

    Returns
    -------
    estimator
        A copy; its factor is made again when asked for. Fitted from a stream it only predicts.
    """
    other = copy.copy(model.flush())
    state = other._state
    solution = replace(state.solution, factor=None)
    if solution.primal is not None:
        solution = replace(solution, primal=_moved(solution.primal.T, sources).T.copy())
    if isinstance(state, State):
        rows = replace(state.rows, base=_moved(state.rows.X, sources))
        # What does not depend on columns that are zero.
        known = Known(calibration=state.known.calibration, expansion=state.known.expansion)
        other._state = replace(state, rows=rows, solution=solution, operator=None, known=known)
    else:
        assert isinstance(state, StreamedState)
        # The sums are of the columns that were: the model predicts, and no more.
        other._state = replace(state, solution=solution, sums=None, n_features=int(sources.size))
    other.n_features_in_ = int(sources.size)
    return other


def _moved(base: Matrix, sources: IntArray) -> Matrix:
    kept = np.flatnonzero(sources >= 0)
    if not sp.issparse(base):
        out: FloatArray = np.zeros((base.shape[0], sources.size), dtype=base.dtype)
        out[:, kept] = base[:, sources[kept]]
        return out
    place = np.full(base.shape[1], -1, dtype=base.indices.dtype)
    place[sources[kept]] = kept
    entries = base.tocoo()
    stay = place[entries.col] >= 0
    triples = (entries.data[stay], (entries.row[stay], place[entries.col[stay]]))
    return sp.csr_matrix(triples, shape=(base.shape[0], sources.size))
