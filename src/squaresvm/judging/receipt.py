"""What a forgetting request returns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from squaresvm.runtime.progress import duration

__all__ = ["Receipt"]


@dataclass(frozen=True)
class Receipt:
    """Proof that rows were forgotten: the model equals one that was never shown them, to `residual`.

    Parameters
    ----------
    ids : tuple of hashables
        The rows that left. The receipt is the only place that still knows them.
    remaining : int
        Rows held now.
    residual : float
        Scaled violation of the optimality conditions on the remaining rows.
    sampled : bool
        Whether the residual was taken from random combinations of all rows, or from some rows of a large
        linear model (True), or from every remaining row (False).
    refactored : bool
        Whether drift was found and the factor was made anew.
    seconds : float
        What the request took.
    classes_gone : tuple of hashables
        Classes whose last row left with this request.
    rows : int
        How many rows left.
    checked : int
        How many numbers the residual was taken from: every remaining row, or where it was sampled, so many
        combinations or rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import LSSVC
    >>> model = LSSVC().fit(*load_iris(return_X_y=True))
    >>> receipt = model.forget([3, 17])
    >>> receipt.remaining, receipt.residual < 1e-10
    (148, True)
    """

    ids: tuple[Hashable, ...]
    remaining: int
    residual: float
    sampled: bool
    refactored: bool
    seconds: float
    classes_gone: tuple[Hashable, ...] = field(default=())
    rows: int = 0
    checked: int = 0

    def __str__(self) -> str:
        """Return the receipt in one line."""
        count = self.rows or len(self.ids)
        rows = "1 row" if count == 1 else f"{count} rows"
        scope = f"{self.checked} samples" if self.sampled else "all rows"
        return (
            f"forgot {rows} in {duration(self.seconds)}, {self.remaining} remain; "
            f"residual {self.residual:.1e} on {scope}"
        )
