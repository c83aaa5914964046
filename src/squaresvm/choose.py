"""Which solver: the only module that knows them all."""

from __future__ import annotations

from squaresvm.problem import Loss, Problem
from squaresvm.solvers.active_set import ActiveSet
from squaresvm.solvers.base import Solver
from squaresvm.solvers.direct import Direct
from squaresvm.solvers.lagrangian import Lagrangian
from squaresvm.solvers.newton import Newton
from squaresvm.solvers.penalty_flow import PenaltyFlow
from squaresvm.solvers.sesqui_smo import SesquiSmo
from squaresvm.solvers.substitution import Substitution
from squaresvm.solvers.sumt import Sumt
from squaresvm.solvers.two_smo import TwoSmo

__all__ = ["SOLVERS", "choose"]

#: Solvers by the name that ``solver=`` takes.
SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        Direct(),
        TwoSmo(),
        Sumt(),
        PenaltyFlow(),
        Substitution(),
        SesquiSmo(),
        Lagrangian(),
        ActiveSet(),
        Newton(),
    )
}


def choose(problem: Problem, requested: str | Solver) -> tuple[Solver, str]:
    """Return the solver for a problem, and why it was taken.

    Parameters
    ----------
    problem : Problem
    requested : str or Solver
        ``'auto'``, a name out of ``SOLVERS``, or a solver with options of its own.

    Returns
    -------
    solver : Solver
    reason : str

    Raises
    ------
    ValueError
        If the requested solver does not solve this problem.
    """
    if isinstance(requested, str) and requested == "auto":
        return _automatic(problem)
    solver = SOLVERS[requested] if isinstance(requested, str) else requested
    if not solver.accepts(problem):
        fitting = ", ".join(repr(name) for name, other in SOLVERS.items() if other.accepts(problem))
        raise ValueError(
            f"solver {solver.name!r} solves {solver.solves}; this is the {problem}"
            f"{_features(problem)}. Solvers that fit: {fitting}"
        )
    return solver, "asked for by name"


def _features(problem: Problem) -> str:
    if problem.operator.features is not None:
        return ", linear"
    return ", reached through a kernel matrix"


def _automatic(problem: Problem) -> tuple[Solver, str]:
    features = problem.operator.features
    if problem.loss is Loss.SQUARED:
        if features is not None:
            return Direct(), (
                f"squared loss, linear, {features.shape[1]} columns for {problem.n_rows} rows: "
                "one small linear system in w"
            )
        return (
            Direct(),
            f"squared loss, {problem.n_rows} rows: one Cholesky factor is exact and kept",
        )
    if features is not None:
        return Newton(), (
            f"squared hinge, linear, {features.shape[1]} columns for {problem.n_rows} rows: "
            "Newton steps in w need few passes over the rows"
        )
    return (
        ActiveSet(),
        f"squared hinge, {problem.n_rows} rows: active sets end at the exact solution",
    )
