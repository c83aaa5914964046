"""What the verifier says of a model."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Claim", "Verdict"]


@dataclass(frozen=True)
class Claim:
    """What a certificate says.

    Parameters
    ----------
    residual, gap, objective : float
        As in :class:`squaresvm.Certificate`.
    status : str
        'converged', 'precision', 'max_iter' or 'stopped'.
    """

    residual: float
    gap: float
    objective: float
    status: str


@dataclass(frozen=True)
class Verdict:
    """What a model claims, what is true, and how far it is from the optimum of exactly its rows.

    Parameters
    ----------
    model : str
        Which model it is.
    rows : int
        Rows of positive weight that everything was computed on: all of them, never a sample.
    claimed : Claim
        What the model's certificate says, or the file's that it came from. Of several classes or pairs, the
        worst residual and the sums, as everywhere.
    residual, gap, objective : float
        The same, computed from the definitions in about 100 bits.
    dual_objective : float
        Of the feasible point that the gap was taken with: no model has an objective below it.
    residual_rounding, gap_rounding, objective_rounding : float
        How far what a certificate says, computed in float64, may be from this: rounding of sums and products
        of the sizes that occur.
    decision_error : float or None
        No decision value at the rows is farther than this from that of the optimum of the same rows; None
        where there is no such bound.
    faults : tuple of str
        What is false, and where, a sentence each.
    notes : tuple of str
        What is worth knowing and is no fault.
    parts : tuple of Verdict
        Of a model of pairs of classes, the verdict on each.

    Examples
    --------
    >>> import squaresvm
    >>> from sklearn.datasets import load_iris
    >>> model = squaresvm.LSSVC().fit(*load_iris(return_X_y=True))
    >>> verdict = squaresvm.verify(model)
    >>> verdict.ok, verdict.rows, verdict.residual < 1e-6
    (True, 150, True)
    """

    model: str
    rows: int
    claimed: Claim
    residual: float
    gap: float
    objective: float
    dual_objective: float
    residual_rounding: float
    gap_rounding: float
    objective_rounding: float
    decision_error: float | None
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    parts: tuple[Verdict, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing that is claimed was found to be false."""
        return not self.faults

    @property
    def agrees(self) -> bool:
        """Whether residual, gap and objective are those that are claimed, but for rounding."""
        return all(
            abs(true - said) <= rounding
            for true, said, rounding in (
                (self.residual, self.claimed.residual, self.residual_rounding),
                (self.gap, self.claimed.gap, self.gap_rounding),
                (self.objective, self.claimed.objective, self.objective_rounding),
            )
        )

    @property
    def findings(self) -> list[str]:
        """Faults, then notes."""
        return [*self.faults, *self.notes]

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON: numbers that JSON has none for are None."""
        found = {"ok": self.ok, "agrees": self.agrees, **asdict(self)}
        found["parts"] = [part.to_json() for part in self.parts]
        return {name: _finite(value) for name, value in found.items()}

    def __str__(self) -> str:
        """Return the verdict in a few lines."""
        error = "no bound" if self.decision_error is None else f"{self.decision_error:.2e}"
        said = self.claimed
        lines = [
            f"{self.model}, {self.rows} rows: {'all true' if self.ok else 'FALSE'}",
            f"  {'':<16}{'claimed':>14}{'true':>14}{'rounding':>14}",
            _line("residual", said.residual, self.residual, self.residual_rounding),
            _line("gap", said.gap, self.gap, self.gap_rounding),
            _line("objective", said.objective, self.objective, self.objective_rounding),
            f"  decision values at the rows are within {error} of those of the optimum",
        ]
        return "\n".join([*lines, *(f"  - {finding}" for finding in self.findings)])


def _line(name: str, said: float, true: float, rounding: float) -> str:
    return f"  {name:<16}{said:>14.6e}{true:>14.6e}{rounding:>14.1e}"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    return list(value) if isinstance(value, tuple) else value
