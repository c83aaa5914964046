"""Which solver for a linear model, on its rows in memory or by passes over a source."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from squaresvm.problem import Loss, Problem
from squaresvm.problem.products import is_wide
from squaresvm.problem.runners import COMPILED_SIZE
from squaresvm.runtime.jit import is_compiled
from squaresvm.runtime.resources import available_memory, thread_count
from squaresvm.solvers.active_set import ActiveSet
from squaresvm.solvers.base import Solver
from squaresvm.solvers.direct import Direct
from squaresvm.solvers.newton import Newton
from squaresvm.solvers.sesqui_smo import SesquiSmo
from squaresvm.solvers.two_smo import TwoSmo
from squaresvm.typing import Matrix

__all__ = [
    "choose_for_source",
    "fits",
    "for_features",
    "largest",
    "single_updates",
    "updates_win",
    "wants_features",
]

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


def wants_features(requested: str | Solver, X: Matrix) -> bool:
    """Return whether a linear model of wide rows is better solved on the rows than on their kernel matrix.

    Parameters
    ----------
    requested : str or Solver
        As in `choose`.
    X : array or CSR matrix

    Returns
    -------
    bool
        For solvers that carry w; for ``'auto'``, where there are so many rows that K costs more than that.
    """
    name = requested if isinstance(requested, str) else requested.name
    if name != "auto":
        return name in _CARRY_W and _w_fits(X)
    return X.shape[0] > (_SPARSE_ROWS if sp.issparse(X) else _DENSE_ROWS) and _w_fits(X)


def _w_fits(X: Matrix) -> bool:
    """Return whether w is not far larger than the rows are: sparse ones may name any column up to 2^31."""
    return bool(X.shape[1] <= max(_entries(X), _MANY_COLUMNS))


def fits(n_rows: int) -> bool:
    """Return whether K fits the free memory with room to spare."""
    return 8 * n_rows**2 <= _MEMORY_SHARE * available_memory()


def largest(problem: Problem) -> float:
    """Return the largest C_i K_ii."""
    return float((problem.costs * problem.operator.diagonal()).max())


#: What fits a linear model by passes over a source.
_BY_PASSES = {Loss.SQUARED: ("direct", "newton"), Loss.SQUARED_HINGE: ("newton",)}


def choose_for_source(loss: Loss, requested: object, n_features: int) -> tuple[str, str]:
    """Return the name of the solver for a linear model whose rows are read in passes, and why it was taken.

    Parameters
    ----------
    loss : Loss
    requested : object
        What ``solver=`` was given: ``'auto'`` or a name. Solvers with options of their own do not go by
        passes.
    n_features : int

    Returns
    -------
    name : str
        ``'direct'``: one system from sums of n x n numbers; ``'newton'``: steps in w.
    reason : str

    Raises
    ------
    ValueError
        If the requested solver does not go by passes.
    MemoryError
        If sums were asked for by name, and there is no room for them.
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
            "conjugate gradients for Newton steps in w need no matrix of columns by columns"
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
            f"numbers, and {free / 2**30:.1f} GB are free: leave solver='auto', which needs none of them"
        )


def for_features(problem: Problem, features: Matrix) -> tuple[Solver, str]:
    """Return the solver for a linear model whose rows are at hand."""
    size = f"{problem.loss}, linear, {features.shape[1]} columns for {problem.n_rows} rows"
    if not is_wide(features.shape[1]):
        if problem.loss == Loss.SQUARED:
            return Direct(), f"{size}: one small linear system in w"
        if _few_sweeps(problem, features):
            return SesquiSmo(), (
                f"{size}, C K_ii of {largest(problem):.2g}: a few sweeps of updates that carry w, at the "
                "cost of the entries of one row each"
            )
        return Newton(), f"{size}: Newton steps in w need few passes over the rows"
    if updates_win(problem, features):
        return single_updates(problem), (
            f"{size}: updates of single multipliers that carry w cost the entries of one row, and need "
            "neither a kernel matrix nor one of columns by columns"
        )
    if problem.loss == Loss.SQUARED_HINGE:
        products, work = _product_forecast(problem, features)
        by_sets = _set_work(problem.n_rows, features)
        if (
            features.shape[1] < problem.n_rows
            and work > _SLOW_WORK
            and by_sets < work
            and fits(problem.n_rows)
        ):
            return ActiveSet(), (
                f"{size}: conjugate gradients for Newton steps in w would take some {products:.0f} products "
                f"with the rows, {work / by_sets:.0f} times the work of active sets on XX', which end at the "
                "exact solution"
            )
    return Newton(), (
        f"{size}: conjugate gradients for Newton steps in w take passes over the rows, and no matrix of "
        "columns by columns"
    )


def single_updates(problem: Problem) -> Solver:
    """Return the solver that updates one multiplier at a time."""
    return TwoSmo() if problem.loss == Loss.SQUARED else SesquiSmo()


def _few_sweeps(problem: Problem, features: Matrix) -> bool:
    """Return whether single updates take a few sweeps over sparse rows: less than forming a Hessian."""
    few = sp.issparse(features) and features.shape[1] > _NARROW and problem.n_columns == 1
    return few and _entries(features) >= _SPARSE_NUMBERS and is_compiled() and largest(problem) <= _VERY_EASY


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
    return sp.issparse(features) and (problem.loss == Loss.SQUARED_HINGE or largest(problem) <= _EASY)


def _product_forecast(problem: Problem, features: Matrix) -> tuple[float, float]:
    """Return how many products Newton's method by conjugate gradients takes, and their operations.

    A step takes about the root of the condition number, which is that of I + Z'CZ for rows without order:
    1 + C K_ii (1 + sqrt(m / n))^2.
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
