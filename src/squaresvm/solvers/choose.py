"""Which solver: the only module that knows them all."""

from __future__ import annotations

from squaresvm.operators import OnDemandOperator
from squaresvm.problem import Loss, Problem
from squaresvm.problem.products import is_wide
from squaresvm.runtime.memory import available_memory
from squaresvm.solvers.active_set import ActiveSet
from squaresvm.solvers.base import Solver
from squaresvm.solvers.conjugate_gradient import ConjugateGradient
from squaresvm.solvers.direct import Direct
from squaresvm.solvers.kernel_system import forecast
from squaresvm.solvers.lagrangian import Lagrangian
from squaresvm.solvers.newton import Newton
from squaresvm.solvers.penalty_flow import PenaltyFlow
from squaresvm.solvers.sesqui_smo import SesquiSmo
from squaresvm.solvers.substitution import Substitution
from squaresvm.solvers.sumt import Sumt
from squaresvm.solvers.two_smo import TwoSmo

__all__ = ["SOLVERS", "choose", "wants_rows"]

#: Share of the free memory that a kernel matrix may take before 'auto' computes its rows on demand.
_MEMORY_SHARE = 0.7
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
            return n_rows >= _GRADIENT_ROWS or not _fits(n_rows)
        requested = SOLVERS[requested]
    if isinstance(requested, ConjugateGradient):
        return n_rows >= _SINGLE_ROWS
    return getattr(requested, "by_rows", False) and size > getattr(requested, "memory", 0)


def _fits(n_rows: int) -> bool:
    """Return whether K fits the free memory with room to spare."""
    return 8 * n_rows**2 <= _MEMORY_SHARE * available_memory()


def _features(problem: Problem) -> str:
    if problem.operator.features is not None:
        return ", linear"
    return ", reached through a kernel matrix"


def _by_rows(problem: Problem) -> tuple[Solver, str]:
    """Return the solver for a kernel matrix that is not held."""
    size = f"{problem.n_rows} rows, whose kernel matrix does not fit the free memory"
    if problem.loss is Loss.SQUARED:
        solver: Solver = Substitution() if problem.bias.is_free else TwoSmo()
        return solver, f"squared loss, {size}: updates need a row of it at a time"
    if problem.bias.is_free:
        return ActiveSet(n_sv_max=_FIRST_SET), f"squared hinge, {size}: active sets need that of support rows"
    return SesquiSmo(), f"squared hinge, {size}: updates need a row of it at a time"


def _updates_win(problem: Problem) -> bool:
    """Return whether single updates are several times faster than a factor: many rows and moderate C K_ii."""
    if problem.n_rows < _MANY_ROWS or problem.bias.is_free:
        return False
    return _largest(problem) <= _MODERATE


def _gradients(problem: Problem) -> tuple[Solver, str] | None:
    """Return conjugate gradients and why, where they are expected to be the fastest; else None."""
    m, fits = problem.n_rows, _fits(problem.n_rows)
    rank, iterations, work = forecast(problem)
    if problem.loss is Loss.SQUARED_HINGE:
        wins = m >= _HINGE_ROWS and iterations <= _HINGE_ITERATIONS * m / _HINGE_ROWS
    elif fits:
        wins = _ENTRIES * m**2 + work <= _CLEARLY * _FACTOR * m**3
    else:
        wins = iterations <= _FEW_ITERATIONS
    if not wins:
        return None
    size = f"{m} rows" if fits else f"{m} rows, whose kernel matrix does not fit the free memory"
    return ConjugateGradient(), (
        f"{problem.loss}, {size}, C K_ii of {_largest(problem):.3g}: some {iterations:.0f} iterations with a "
        f"preconditioner of rank {rank} take O(m^2) each, a factor O(m^3); the first request to learn, "
        "forget or leave one out makes one"
    )


def _largest(problem: Problem) -> float:
    return float((problem.costs * problem.operator.diagonal()).max())


def _automatic(problem: Problem) -> tuple[Solver, str]:
    features, operator = problem.operator.features, problem.operator
    if isinstance(operator, OnDemandOperator) and not operator.is_held:
        large = problem.n_rows >= _GRADIENT_ROWS
        taken = _gradients(problem) if large else None
        if taken is not None:
            return taken
        if not large or not _fits(problem.n_rows):
            return _by_rows(problem)
        if problem.loss is Loss.SQUARED_HINGE or _updates_win(problem):
            operator.hold()
    if features is None and _updates_win(problem):
        solver: Solver = TwoSmo() if problem.loss is Loss.SQUARED else SesquiSmo()
        return solver, (
            f"{problem.loss}, {problem.n_rows} rows, {problem.bias}: updates of single multipliers take "
            "O(m^2) in all, a factor O(m^3)"
        )
    if features is not None and is_wide(features.shape[1]):
        return Newton(), (
            f"{problem.loss}, linear, {features.shape[1]} columns for {problem.n_rows} rows: conjugate "
            "gradients for Newton steps in w take passes over the rows, and no matrix of columns by columns"
        )
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
