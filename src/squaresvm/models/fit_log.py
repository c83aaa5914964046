"""What a fit says of itself on standard error, where ``verbose`` asks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TextIO

from squaresvm.runtime.progress import Pace, print_line
from squaresvm.solution import Certificate
from squaresvm.solvers.base import Callback, Progress, Solver

__all__ = ["FitLog"]


class FitLog:
    """Tells which solver was taken, how its search goes, and how it ended.

    Parameters
    ----------
    name : str
        Of the estimator.
    verbose : int
        From 2 on every iteration is told; below, at most five a second.
    stream : file, optional
        Where to write; standard error by default.
    """

    def __init__(self, name: str, verbose: int, stream: TextIO | None = None) -> None:
        self.name = name
        self._pace = Pace(0.0) if verbose > 1 else Pace(starts_now=False)
        self._stream = stream
        self._columns = 1

    def began(self, solver: str, reason: str, columns: int = 1) -> None:
        """Tell which solver was taken, and why."""
        self._columns = columns
        self._say(f"squaresvm: {self.name} with solver {solver!r}: {reason}")

    def listening(self, solver: Solver) -> Solver:
        """Return the solver with one more who hears of its iterations, where it tells of any."""
        if "callback" not in getattr(solver, "__dataclass_fields__", {}):
            return solver
        options: Any = solver
        heard: Solver = replace(options, callback=self._beside(options.callback))
        return heard

    def _beside(self, callback: Callback | None) -> Callback:
        def hear(progress: Progress) -> bool | None:
            self._tell(progress)
            return None if callback is None else callback(progress)

        return hear

    def _tell(self, progress: Progress) -> None:
        if not self._pace.is_due():
            return
        which = f"column {progress.column} of targets, " if self._columns > 1 else ""
        self._say(
            f"squaresvm: {which}iteration {progress.iteration}, residual {progress.residual:.1e}, "
            f"objective {progress.objective:.6g}, {progress.seconds:.2f} s"
        )

    def ended(self, certificate: Certificate) -> None:
        """Tell what the certificate says."""
        self._say(f"squaresvm: {certificate}")

    def _say(self, line: str) -> None:
        print_line(line, self._stream)
