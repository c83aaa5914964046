"""Factors as one flat array, and back: what a file holds of them."""

from __future__ import annotations

import numpy as np

from squaresvm.factors.cholesky import CholeskyFactor
from squaresvm.factors.slot_inverse import Form, SlotInverse
from squaresvm.family import Bias
from squaresvm.operators import KernelStore
from squaresvm.typing import FloatArray

__all__ = ["is_in_order", "packed", "unpacked"]


def is_in_order(factor: CholeskyFactor) -> bool:
    """Return whether a factor can be packed: current, of one form, settled, row i in slot i."""
    whole = factor.is_current and factor.inverse.form != Form.SPLIT
    settled = whole and factor.signs.size == 0 and not factor.is_shifted
    return settled and np.array_equal(factor.slots, np.arange(factor.extent))


def packed(factor: CholeskyFactor) -> tuple[str, FloatArray]:
    """Return what the room holds, by its name, and its lower triangle column by column."""
    room, m = factor.inverse.store.room(factor.extent), factor.extent
    return factor.inverse.form.name.lower(), np.concatenate([room[j:, j] for j in range(m)])


def unpacked(
    form: str, triangle: FloatArray, jitter: float, store: KernelStore, ridge: FloatArray, bias: Bias
) -> CholeskyFactor:
    """Return the factor that `packed` gave, in the room of a store that has row i in slot i."""
    inverse = SlotInverse(store)
    inverse.restore(Form[form.upper()], triangle, jitter)
    return CholeskyFactor.over(inverse, np.arange(store.size), ridge, bias)
