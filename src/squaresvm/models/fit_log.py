"""What a fit says of itself: on standard error, where ``verbose`` asks for it, and to other listeners."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, TextIO

from squaresvm.runtime.progress import Pace, print_line
from squaresvm.solution import Certificate
from squaresvm.solvers.base import Callback, Progress, Solver

__all__ = ["FitListener", "FitListeners", "FitLog", "listening_with"]


class FitListener(Protocol):
    """Who is told how a fit goes."""

    def began(self, solver: str, reason: str, columns: int = 1) -> None:
        """Hear which solver was taken, and why."""
        ...

    def listening(self, solver: Solver) -> Solver:
        """Return the solver with one more who hears of its iterations, where it tells of any."""
        ...

    def ended(self, certificate: Certificate) -> None:
        """Hear what the certificate says."""
        ...


@dataclass(frozen=True)
class FitListeners:
    """Several who are told alike.

    Parameters
    ----------
    members : tuple of FitListener
    """

    members: tuple[FitListener, ...]

    def began(self, solver: str, reason: str, columns: int = 1) -> None:
        """Tell all which solver was taken, and why."""
        for member in self.members:
            member.began(solver, reason, columns)

    def listening(self, solver: Solver) -> Solver:
        """Return the solver with all who hear of its iterations."""
        for member in self.members:
            solver = member.listening(solver)
        return solver

    def ended(self, certificate: Certificate) -> None:
        """Tell all what the certificate says."""
        for member in self.members:
            member.ended(certificate)


def listening_with(solver: Solver, hear: Callback) -> Solver:
    """Return the solver with one more who hears of its iterations, where it tells of any.

    Parameters
    ----------
    solver : Solver
    hear : callable
        Stops the search by returning True, as does the callback that the solver has.
    """
    if "callback" not in getattr(solver, "__dataclass_fields__", {}):
        return solver
    options: Any = solver
    first: Callback | None = options.callback

    def both(progress: Progress) -> bool:
        stops = bool(hear(progress))
        return bool(first is not None and first(progress)) or stops

    heard: Solver = replace(options, callback=both)
    return heard


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
        return listening_with(solver, self._tell)

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
