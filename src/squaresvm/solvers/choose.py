"""Which solver: the only module that knows them all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.operators import DistributedOperator, OnDemandOperator
from squaresvm.problem import Loss, Problem
from squaresvm.problem.products import is_wide
from squaresvm.problem.runners import COMPILED_SIZE
from squaresvm.runtime.resources import available_memory, is_compiled, thread_count
from squaresvm.solution import Solution
from squaresvm.solvers.active_set import ActiveSet
from squaresvm.solvers.base import Callback, Solver
from squaresvm.solvers.block_cg import forecast
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
from squaresvm.typing import Matrix

__all__ = [
    "SOLVERS",
    "WithKernelHeld",
    "check_solver",
    "choose",
    "choose_for_source",
    "single_updates",
    "updates_win",
    "wants_features",
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
#: Share of the free memory that a kernel matrix may take before 'auto' computes its rows on demand.
_MEMORY_SHARE = 0.7
#: Steps of Newton's method, and of active sets, that a forecast counts on.
_NEWTON_STEPS, _SET_STEPS = 10.0, 20.0
#: Operations of Newton's method by products from which on active sets are considered: some seconds.
_SLOW_WORK = 1e10

#: Solvers that carry w on linear kernels, where they are asked for by name.
_CARRY_W = ("2smo", "sesquismo", "newton")
#: Wide rows above which 'auto' forms no kernel matrix of a linear model.
_SPARSE_ROWS, _DENSE_ROWS = 2000, 4000
#: Columns up to which w is never too large.
_MANY_COLUMNS = 2**24
#: Numbers in sparse and in dense rows from which on compiled updates pay for being loaded.
_SPARSE_NUMBERS, _DENSE_NUMBERS = 100_000, COMPILED_SIZE
#: C K_ii up to which updates are faster than conjugate gradients for the squared loss, with fewer columns
#: than rows.
_EASY = 10.0
#: C K_ii up to which a few sweeps do where the Hessian of more than so many columns could be formed.
_VERY_EASY, _NARROW = 0.5, 50

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
    """Return the solver for a problem, and why it was taken; a ValueError says which would do.

    Parameters
    ----------
    problem : Problem
    requested : str or Solver
        ``'auto'``, a name out of ``SOLVERS``, or a solver with options of its own.
    """
    if isinstance(requested, str) and requested == "auto":
        return _automatic(problem)
    solver = SOLVERS[requested] if isinstance(requested, str) else requested
    if not solver.accepts(problem):
        fitting = ", ".join(repr(name) for name, other in SOLVERS.items() if other.accepts(problem))
        raise ValueError(
            f"solver {solver.name!r} solves {solver.solves}; this is the {problem}, "
            f"{'reached through a kernel matrix' if problem.operator.features is None else 'linear'}. "
            f"Solvers that fit: {fitting}"
        )
    return solver, "asked for by name"


def wants_rows(requested: str | Solver, n_rows: int) -> bool:
    """Return whether K of so many rows is better computed row by row than held.

    For a solver that works on rows, whether K takes more than the memory that it was given; for ``'auto'``,
    whether K takes most of the memory that is free, or may never be needed in float64.
    """
    size = 8 * n_rows**2
    if isinstance(requested, str):
        if requested == "auto":
            return n_rows >= _GRADIENT_ROWS or not _fits(n_rows)
        requested = SOLVERS[requested]
    if isinstance(requested, ConjugateGradient):
        return n_rows >= _SINGLE_ROWS
    return getattr(requested, "by_rows", False) and size > getattr(requested, "memory", 0)


def wants_features(requested: str | Solver, X: Matrix) -> bool:
    """Return whether a linear model of wide rows is better solved on the rows than on their kernel matrix.

    For solvers that carry w; for ``'auto'``, where there are so many rows that K costs more than that.
    """
    name = requested if isinstance(requested, str) else requested.name
    if name != "auto":
        return name in _CARRY_W and _w_fits(X)
    return X.shape[0] > (_SPARSE_ROWS if sp.issparse(X) else _DENSE_ROWS) and _w_fits(X)


def _w_fits(X: Matrix) -> bool:
    """Return whether w is not far larger than the rows are: sparse ones may name any column up to 2^31."""
    return bool(X.shape[1] <= max(_entries(X), _MANY_COLUMNS))


def _fits(n_rows: int) -> bool:
    """Return whether K fits the free memory with room to spare."""
    return 8 * n_rows**2 <= _MEMORY_SHARE * available_memory()


def _largest(problem: Problem) -> float:
    """Return the largest C_i K_ii."""
    return float((problem.costs * problem.operator.diagonal()).max())


def _by_rows(problem: Problem) -> tuple[Solver, str]:
    """Return the solver for a kernel matrix that is not held."""
    size = f"{problem.n_rows} rows, whose kernel matrix does not fit the free memory"
    if problem.loss == Loss.SQUARED:
        solver: Solver = Substitution() if problem.bias.is_free else TwoSmo()
        return solver, f"squared loss, {size}: coordinate descent needs one row of it at a time"
    if problem.bias.is_free:
        return ActiveSet(n_sv_max=_FIRST_SET), f"squared hinge, {size}: active sets need a part of it only"
    return SesquiSmo(), f"squared hinge, {size}: coordinate descent needs one row of it at a time"


def _gradients(problem: Problem) -> tuple[Solver, str] | None:
    """Return conjugate gradients and why, where they are expected to be the fastest; else None."""
    m, held = problem.n_rows, _fits(problem.n_rows)
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
        f"{problem.loss}, {size}, C K_ii of {_largest(problem):.3g}: some {iterations:.0f} iterations with a "
        f"preconditioner of rank {rank} take O(m^2) each, a factor O(m^3); the first request to learn, "
        "forget or leave one out computes one"
    )


def _automatic(problem: Problem) -> tuple[Solver, str]:
    operator = problem.operator
    if operator.features is not None:
        return _for_features(problem, operator.features)
    if isinstance(operator, DistributedOperator):
        return ConjugateGradient(), (
            f"{problem.loss}, {problem.n_rows} rows on a cluster: products with their kernel matrix run "
            "where the rows are, and no machine holds it"
        )
    if isinstance(operator, OnDemandOperator) and not operator.is_held:
        large = problem.n_rows >= _GRADIENT_ROWS
        taken = _gradients(problem) if large else None
        if taken is not None:
            return taken
        if not large or not _fits(problem.n_rows):
            return _by_rows(problem)
        solver, reason = _for_held_kernel(problem)
        # A factor asks for K itself; updates and active sets would compute its rows again and again.
        return solver if isinstance(solver, Direct) else WithKernelHeld(solver), reason
    return _for_held_kernel(problem)


def _for_held_kernel(problem: Problem) -> tuple[Solver, str]:
    """Return the solver for a kernel matrix that is held, or fits."""
    if problem.n_rows >= _MANY_ROWS and not problem.bias.is_free and _largest(problem) <= _MODERATE:
        return single_updates(problem), (
            f"{problem.loss}, {problem.n_rows} rows, {problem.bias}: updates of single multipliers take "
            "O(m^2) in all, a factor O(m^3)"
        )
    if problem.loss == Loss.SQUARED:
        return Direct(), f"squared loss, {problem.n_rows} rows: one Cholesky factor is exact and kept"
    return ActiveSet(), f"squared hinge, {problem.n_rows} rows: active sets end at the exact solution"


def _for_features(problem: Problem, features: Matrix) -> tuple[Solver, str]:
    """Return the solver for a linear model whose rows are at hand."""
    size = f"{problem.loss}, linear, {features.shape[1]} columns for {problem.n_rows} rows"
    if not is_wide(features.shape[1]):
        if problem.loss == Loss.SQUARED:
            return Direct(), f"{size}: one small linear system in w"
        if _few_sweeps(problem, features):
            return SesquiSmo(), (
                f"{size}, C K_ii of {_largest(problem):.2g}: a few sweeps of coordinate descent that "
                "maintains w, each update at the cost of one row's entries"
            )
        return Newton(), f"{size}: Newton steps in w need few passes over the rows"
    if updates_win(problem, features):
        return single_updates(problem), (
            f"{size}: coordinate descent that maintains w costs one row's entries per update, and forms "
            "neither a kernel matrix nor a Hessian in w"
        )
    if problem.loss == Loss.SQUARED_HINGE:
        products, work = _product_forecast(problem, features)
        by_sets = _set_work(problem.n_rows, features)
        slow = features.shape[1] < problem.n_rows and work > _SLOW_WORK
        if slow and by_sets < work and _fits(problem.n_rows):
            return ActiveSet(), (
                f"{size}: conjugate gradients for Newton steps in w would take some {products:.0f} products "
                f"with the rows, {work / by_sets:.0f} times the work of active sets on XX', which end at the "
                "exact solution"
            )
    return Newton(), (
        f"{size}: conjugate gradients for Newton steps in w take passes over the rows, and form no Hessian"
    )


def single_updates(problem: Problem) -> Solver:
    """Return the solver that updates one multiplier at a time."""
    return TwoSmo() if problem.loss == Loss.SQUARED else SesquiSmo()


def _few_sweeps(problem: Problem, features: Matrix) -> bool:
    """Return whether single updates take a few sweeps over sparse rows: less than forming a Hessian."""
    few = sp.issparse(features) and features.shape[1] > _NARROW and problem.n_columns == 1
    return few and _entries(features) >= _SPARSE_NUMBERS and is_compiled() and _largest(problem) <= _VERY_EASY


def updates_win(problem: Problem, features: Matrix) -> bool:
    """Return whether single updates that carry w are taken on wide rows.

    Measured on sparse rows; for dense ones above 4,000 rows it is an estimate.
    """
    m, n = features.shape
    numbers = _SPARSE_NUMBERS if sp.issparse(features) else _DENSE_NUMBERS
    if _entries(features) < numbers or not is_compiled():
        return False
    if n >= m:
        return True
    # Dense rows go by products of BLAS; the squared loss, a linear system, by conjugate gradients where C is
    # large.
    return sp.issparse(features) and (problem.loss == Loss.SQUARED_HINGE or _largest(problem) <= _EASY)


def _product_forecast(problem: Problem, features: Matrix) -> tuple[float, float]:
    """Return how many products Newton's method by conjugate gradients takes, and their operations.

    A step takes about the root of the condition number of I + Z'CZ: 1 + C K_ii (1 + sqrt(m / n))^2 for rows
    without order.
    """
    m, n = features.shape
    diagonal = float((problem.costs * problem.operator.diagonal()).mean())
    condition = 1.0 + diagonal * (1.0 + np.sqrt(m / n)) ** 2
    products = _NEWTON_STEPS * np.sqrt(condition) * problem.n_columns
    return products, 4.0 * products * _entries(features)


def _set_work(m: int, features: Matrix) -> float:
    """Return the operations of active sets on XX': that matrix, and a factor of half the rows a step."""
    return 2.0 * m * _entries(features) + _SET_STEPS * (0.5 * m) ** 3


def _entries(features: Matrix) -> float:
    return float(features.nnz if sp.issparse(features) else features.size)


#: What fits a linear model by passes over a source.
_BY_PASSES = {Loss.SQUARED: ("direct", "newton"), Loss.SQUARED_HINGE: ("newton",)}


def choose_for_source(loss: Loss, requested: object, n_features: int) -> tuple[str, str]:
    """Return the name of the solver for a linear model whose rows are read in passes, and why it was taken.

    ``'direct'`` is one system from sums of n x n numbers, ``'newton'`` steps in w: a ValueError says so to
    others, and a MemoryError where sums were asked for by name and there is no room for them.
    """
    fitting = _BY_PASSES[Loss(loss)]
    if not isinstance(requested, str) or requested not in ("auto", *fitting):
        names = " or ".join(repr(name) for name in (*fitting, "auto"))
        raise ValueError(f"a source is fitted with solver={names}; got {requested!r}")
    wide = is_wide(n_features)
    name = requested
    if name == "auto":
        name = "direct" if "direct" in fitting and not wide else "newton"
    if name == "newton":
        return name, (
            "conjugate gradients for Newton steps in w form no Hessian"
            if wide
            else "Newton steps in w need few passes"
        )
    if requested == "direct":
        _check_sums_fit(n_features)
    return name, "one system from sums over the rows"


def _check_sums_fit(n_features: int) -> None:
    # One for each block that is at work or waits, the total and what it becomes, the system and its factor.
    needed, free = 8 * n_features**2 * (thread_count() + 6), available_memory()
    if needed > free:
        raise MemoryError(
            f"solver='direct' needs about {needed / 2**30:.1f} GB for sums of {n_features} x {n_features} "
            f"numbers, and {free / 2**30:.1f} GB are free: use solver='auto', which does not form them"
        )


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
