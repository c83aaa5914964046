"""Which solver: the only module that knows them all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from squaresvm.operators import OnDemandOperator
from squaresvm.problem import Loss, Problem
from squaresvm.solution import Solution
from squaresvm.solvers.active_set import ActiveSet
from squaresvm.solvers.base import Callback, Solver
from squaresvm.solvers.block_cg import forecast
from squaresvm.solvers.choose_linear import fits, for_features, largest, single_updates
from squaresvm.solvers.conjugate_gradient import ConjugateGradient
from squaresvm.solvers.decremental import ExplicitInverse
from squaresvm.solvers.direct import Direct
from squaresvm.solvers.lagrangian import Lagrangian
from squaresvm.solvers.newton import Newton
from squaresvm.solvers.penalty_flow import PenaltyFlow
from squaresvm.solvers.sesqui_smo import SesquiSmo
from squaresvm.solvers.substitution import Substitution
from squaresvm.solvers.sumt import Sumt
from squaresvm.solvers.two_smo import TwoSmo

__all__ = [
    "SOLVERS",
    "WithKernelHeld",
    "check_solver",
    "choose",
    "wants_rows",
]

#: Single updates are taken from this many rows on, where C K_ii is at most that much.
_MANY_ROWS, _MODERATE = 12_000, 10.0
#: From this many rows on, conjugate gradients take K in float32 and compute it anew where float64 is needed.
_SINGLE_ROWS = 3000
#: From this many rows on, 'auto' considers conjugate gradients: below, a factor that is kept is worth more.
_GRADIENT_ROWS = 6000
#: Nanoseconds per entry of K, measured: of a factor (by row), and of K in float32 and two exact products.
_FACTOR, _ENTRIES = 6e-3, 8.0
#: Conjugate gradients must be expected to take less than this share of the time of a factor.
_CLEARLY = 0.7
#: Iterations for the squared hinge, at so many rows, up to which they beat active sets and single updates.
_HINGE_ITERATIONS, _HINGE_ROWS = 20.0, 12_000
#: Iterations up to which they are taken where K does not fit, and a factor is out of the question.
_FEW_ITERATIONS = 200.0
#: Rows of a first active set, where the kernel matrix is not held.
_FIRST_SET = 2000

#: Solvers by the name that ``solver=`` takes.
SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        Direct(),
        ExplicitInverse(),
        ConjugateGradient(),
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


def check_solver(solver: Any) -> None:
    """Raise a ValueError unless `solver` is a known name or a solver."""
    if isinstance(solver, str):
        if solver != "auto" and solver not in SOLVERS:
            names = ", ".join(repr(name) for name in ("auto", *SOLVERS))
            raise ValueError(f"solver must be one of {names}; got {solver!r}")
    elif not hasattr(solver, "solve") or not hasattr(solver, "accepts"):
        raise ValueError(f"solver must be a name or a solver object; got {solver!r}")


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


def wants_rows(requested: str | Solver, n_rows: int) -> bool:
    """Return whether K of so many rows is better computed row by row than held.

    Parameters
    ----------
    requested : str or Solver
        As in `choose`.
    n_rows : int

    Returns
    -------
    bool
        For a solver that works on rows, whether K takes more than the memory that it was given; for
        ``'auto'``, whether K takes most of the memory that is free, or may never be needed in float64.
    """
    size = 8 * n_rows**2
    if isinstance(requested, str):
        if requested == "auto":
            return n_rows >= _GRADIENT_ROWS or not fits(n_rows)
        requested = SOLVERS[requested]
    if isinstance(requested, ConjugateGradient):
        return n_rows >= _SINGLE_ROWS
    return getattr(requested, "by_rows", False) and size > getattr(requested, "memory", 0)


def _features(problem: Problem) -> str:
    if problem.operator.features is not None:
        return ", linear"
    return ", reached through a kernel matrix"


def _by_rows(problem: Problem) -> tuple[Solver, str]:
    """Return the solver for a kernel matrix that is not held."""
    size = f"{problem.n_rows} rows, whose kernel matrix does not fit the free memory"
    if problem.loss == Loss.SQUARED:
        solver: Solver = Substitution() if problem.bias.is_free else TwoSmo()
        return solver, f"squared loss, {size}: updates need a row of it at a time"
    if problem.bias.is_free:
        return ActiveSet(n_sv_max=_FIRST_SET), f"squared hinge, {size}: active sets need that of support rows"
    return SesquiSmo(), f"squared hinge, {size}: updates need a row of it at a time"


def _updates_win(problem: Problem) -> bool:
    """Return whether single updates are several times faster than a factor: many rows and moderate C K_ii."""
    if problem.n_rows < _MANY_ROWS or problem.bias.is_free:
        return False
    return largest(problem) <= _MODERATE


def _gradients(problem: Problem) -> tuple[Solver, str] | None:
    """Return conjugate gradients and why, where they are expected to be the fastest; else None."""
    m, held = problem.n_rows, fits(problem.n_rows)
    rank, iterations, work = forecast(problem)
    if problem.loss == Loss.SQUARED_HINGE:
        wins = m >= _HINGE_ROWS and iterations <= _HINGE_ITERATIONS * m / _HINGE_ROWS
    elif held:
        wins = _ENTRIES * m**2 + work <= _CLEARLY * _FACTOR * m**3
    else:
        wins = iterations <= _FEW_ITERATIONS
    if not wins:
        return None
    size = f"{m} rows" if held else f"{m} rows, whose kernel matrix does not fit the free memory"
    return ConjugateGradient(), (
        f"{problem.loss}, {size}, C K_ii of {largest(problem):.3g}: some {iterations:.0f} iterations with a "
        f"preconditioner of rank {rank} take O(m^2) each, a factor O(m^3); the first request to learn, "
        "forget or leave one out makes one"
    )


def _automatic(problem: Problem) -> tuple[Solver, str]:
    operator = problem.operator
    if operator.features is not None:
        return for_features(problem, operator.features)
    if isinstance(operator, OnDemandOperator) and not operator.is_held:
        large = problem.n_rows >= _GRADIENT_ROWS
        taken = _gradients(problem) if large else None
        if taken is not None:
            return taken
        if not large or not fits(problem.n_rows):
            return _by_rows(problem)
        solver, reason = _for_held_kernel(problem)
        # A factor asks for K itself; updates and active sets would compute its rows again and again.
        return solver if isinstance(solver, Direct) else WithKernelHeld(solver), reason
    return _for_held_kernel(problem)


def _for_held_kernel(problem: Problem) -> tuple[Solver, str]:
    """Return the solver for a kernel matrix that is held, or fits."""
    if _updates_win(problem):
        return single_updates(problem), (
            f"{problem.loss}, {problem.n_rows} rows, {problem.bias}: updates of single multipliers take "
            "O(m^2) in all, a factor O(m^3)"
        )
    if problem.loss == Loss.SQUARED:
        return Direct(), f"squared loss, {problem.n_rows} rows: one Cholesky factor is exact and kept"
    return ActiveSet(), f"squared hinge, {problem.n_rows} rows: active sets end at the exact solution"


@dataclass(frozen=True)
class WithKernelHeld:
    """Another solver, on a kernel matrix that is held while it could be computed on demand.

    Parameters
    ----------
    solver : Solver
        One that takes a callback.
    callback : callable, optional
        See :class:`~squaresvm.solvers.Progress`.
    """

    solver: Solver
    callback: Callback | None = None

    @property
    def name(self) -> str:
        """Name of the solver itself."""
        return self.solver.name

    @property
    def solves(self) -> str:
        """The problems that it solves, in words."""
        return self.solver.solves

    def accepts(self, problem: Problem) -> bool:
        """Return whether the problem is one of those."""
        return self.solver.accepts(problem)

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int | None, start: Solution | None = None
    ) -> Solution:
        """Compute K, and return the solver's own solution."""
        if isinstance(problem.operator, OnDemandOperator):
            problem.operator.hold()
        options: Any = self.solver
        solver: Solver = options if self.callback is None else replace(options, callback=self.callback)
        return solver.solve(problem, tol=tol, max_iter=max_iter, start=start)
