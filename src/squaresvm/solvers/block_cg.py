"""Conjugate gradients for several right-hand sides at once, and K + diag(1/C) as they see it.

`KernelSystem` has quick products, exact products and a preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from squaresvm.linalg.lapack import NotPositiveSemidefiniteError
from squaresvm.operators import SingleKernel
from squaresvm.problem import Problem
from squaresvm.runtime.resources import available_memory, threads_for_blas
from squaresvm.solvers.preconditioner import (
    Preconditioner,
    choose_rank,
    expected_iterations,
    expected_work,
    make_preconditioner,
    rank_bytes,
)
from squaresvm.typing import BoolArray, FloatArray, IntArray

__all__ = [
    "KernelSystem",
    "NotDefiniteError",
    "conjugate_gradients",
    "conjugate_steps",
    "forecast",
    "largest_entry",
    "preconditioned_norm",
]

#: Iterations without a new least residual after which products are too imprecise to go on.
_PATIENCE = 300


class NotDefiniteError(ValueError):
    """A direction of negative curvature was met.

    Parameters
    ----------
    reached : ndarray
        X as it was before.
    """

    def __init__(self, reached: FloatArray) -> None:
        super().__init__("conjugate gradients met a direction of negative curvature")
        self.reached = reached


Operation = Callable[[FloatArray, IntArray], FloatArray]
Measure = Callable[[FloatArray, FloatArray], FloatArray]


def largest_entry(R: FloatArray, descent: FloatArray) -> FloatArray:
    """Return the largest entry of each residual."""
    return np.asarray(np.abs(R).max(axis=0, initial=0.0))


def preconditioned_norm(R: FloatArray, descent: FloatArray) -> FloatArray:
    """Return the root of r' inv(M) r: the size of each residual as the preconditioner measures it."""
    return np.sqrt(np.maximum(descent, 0.0))


def conjugate_gradients(
    product: Operation,
    precondition: Operation,
    rhs: FloatArray,
    goal: FloatArray,
    limit: int,
    tell: Callable[[int, FloatArray, FloatArray], bool] = lambda *_: False,
    measure: Measure = largest_entry,
) -> tuple[FloatArray, int]:
    """Return X with H X close to `rhs`, and the iterations taken.

    One call of `product` serves all columns; those that have reached their goal drop out. Each column may
    have an H of its own. The steps are those of Polak and Ribiere, which bear a preconditioner and products
    with rounding of their own.

    Parameters
    ----------
    product, precondition : callable
        H V and inv(M) V for V of shape (m, q), given V and which columns of `rhs` its columns belong to.
    rhs : ndarray of shape (m, k)
    goal : ndarray of shape (k,)
        Size of the residual that is wanted of each column.
    limit : int
        Largest number of iterations.
    tell : callable, optional
        Given the iteration, X and the residual; True stops.
    measure : callable, optional
        The size of residuals R, given R and r' inv(M) r of each; their largest entry by default.

    Raises
    ------
    NotDefiniteError
        If H or M is seen not to be positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> H = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> X, count = conjugate_gradients(lambda V, columns: H @ V, lambda V, columns: V,
    ...                                np.array([[3.0], [4.0]]), np.array([1e-12]), 10)
    >>> X.round(9).ravel().tolist(), count
    ([1.0, 1.0], 2)
    """
    X, R = np.zeros_like(rhs), rhs.copy()
    todo = np.arange(rhs.shape[1])
    Z = precondition(R, todo)
    descent = _inner(R, Z)
    stay = measure(R, descent) > goal
    todo, P, descent = todo[stay], Z[:, stay], descent[stay]
    least, since = np.full(rhs.shape[1], np.inf), np.zeros(rhs.shape[1], dtype=np.intp)
    iteration = 0
    while todo.size and iteration < limit:
        iteration += 1
        HP = product(P, todo)
        curvature = _inner(P, HP)
        if not (np.isfinite(curvature).all() and (curvature > 0).all() and (descent > 0).all()):
            raise NotDefiniteError(X)
        step = descent / curvature
        # A copy of some columns takes longer than all else that is done with them.
        now = slice(None) if todo.size == rhs.shape[1] else todo
        X[:, now] += step * P
        change = step * HP
        R[:, now] -= change
        if tell(iteration, X, R):
            break
        left = R[:, now]
        Z = precondition(left, todo)
        turn = np.maximum(-_inner(change, Z) / descent, 0.0)
        P, descent = Z + turn * P, _inner(left, Z)
        size = measure(left, descent)
        better = size < least[todo]
        least[todo] = np.minimum(size, least[todo])
        since[todo] = np.where(better, 0, since[todo] + 1)
        stay = (size > goal[todo]) & (since[todo] < _PATIENCE)
        todo, P, descent = todo[stay], P[:, stay], descent[stay]
    return X, iteration


def _inner(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->j", a, b))


def conjugate_steps(
    gradient: FloatArray,
    scales: FloatArray,
    product: Callable[[FloatArray], FloatArray],
    count: int,
    arrived: Callable[[FloatArray, FloatArray], bool],
) -> None:
    """Take conjugate steps of all multipliers at once, as long as the quadratic is seen to be convex.

    With scales C_i, the reciprocals of the ridge, all of H but K becomes the identity: a K of rank r then
    needs r + 1 steps, whatever the costs are, where single updates need sweeps by the hundred. With the
    reciprocals of the diagonal a few steps are worth a sweep where K is close to its diagonal.

    Parameters
    ----------
    gradient : ndarray of shape (m,)
        Where they begin.
    scales : ndarray of shape (m,)
        The steps go along the gradient times these: a 0 keeps a multiplier where it is.
    product : callable
        Of the matrix with a vector.
    count : int
        Most steps.
    arrived : callable
        Given how far the steps have come and the gradient there; returns whether to stop.
    """
    with suppress(NotDefiniteError):
        conjugate_gradients(
            lambda way, _: product(way[:, 0])[:, None],
            lambda left, _: scales[:, None] * left,
            -gradient[:, None],
            np.zeros(1),
            count,
            lambda _, X, R: arrived(X[:, 0].copy(), -R[:, 0]),
        )


#: Share of the free memory, multiples of one float32 m x m matrix, and bytes that are spent without asking.
_MEMORY_SHARE, _MATRICES, _SMALL = 0.7, 1.1, 2**28
#: C times the error of a product in float32 up to which refinement still converges.
_REFINABLE = 0.3
#: Reduction of the residual that one run of conjugate gradients is asked for, at most.
_REDUCTION = 1e-9

Tell = Callable[[int, FloatArray, FloatArray], bool]


@dataclass
class KernelSystem:
    """H = K + diag(1/C) for the columns of one problem.

    Parameters
    ----------
    problem : Problem
    preconditioner : Preconditioner
    rank : int
    single : SingleKernel or None
        K in float32; None where products are taken in float64.
    error : float
        How much of a residual a product in float32 may leave.
    notes : list of str
        What is worth telling of how the system was made and used.
    """

    problem: Problem
    preconditioner: Preconditioner
    rank: int
    single: SingleKernel | None
    error: float
    notes: list[str] = field(default_factory=list)
    work: dict[str, float] = field(default_factory=lambda: {"products": 0.0, "exact_products": 0.0})

    @classmethod
    def make(cls, problem: Problem, rank: int | None, memory: int | None) -> KernelSystem:
        """Return the system with a preconditioner within the memory; a ValueError says where none fits."""
        m = problem.n_rows
        budget = _default_memory(m) if memory is None else float(memory)
        error = _single_error(problem)
        room = budget - SingleKernel.bytes_held(m)
        held = room >= rank_bytes(m, rank or min(m, 64))
        chosen = min(rank, m) if rank else choose_rank(problem, room if held else budget, held)
        if chosen == 0 or rank_bytes(m, chosen) > budget:
            least = chosen or min(m, 64)
            raise ValueError(
                f"a preconditioner of rank {least} for {m} rows takes {rank_bytes(m, least) / 2**20:.1f} MB, "
                f"and memory={budget:.0f} allows {budget / 2**20:.1f} MB: raise memory, or lower rank"
            )
        # K is as close to itself in float32 as refinement needs, or is not worth the trouble.
        kernel = problem.operator.in_single(budget - rank_bytes(m, chosen)) if error <= _REFINABLE else None
        return cls._with(problem, chosen, kernel, error)

    @classmethod
    def _with(cls, problem: Problem, rank: int, single: SingleKernel | None, error: float) -> KernelSystem:
        everyone = np.arange(problem.n_rows)
        columns = single.columns if single else lambda chosen: problem.operator.block(everyone, chosen)
        made, note, work = make_preconditioner(problem, rank, columns)
        system = cls(problem, made, rank, single, error, [note] if note else [])
        system.work |= work
        return system

    def times(self, v: FloatArray) -> FloatArray:
        """Return K v by the quickest product at hand."""
        self.work["products"] += 1
        return self.single.matmul(v) if self.single else self.problem.operator.matmul(v)

    def exactly(self, v: FloatArray) -> FloatArray:
        """Return K v in float64, as the certificate has it."""
        self.work["exact_products"] += 1
        return self.problem.operator.matmul(v)

    def goal(self, wanted: FloatArray, rhs: FloatArray) -> FloatArray:
        """Return the residual to ask of conjugate gradients: what is wanted, or what products can give."""
        floor = min(0.1, max(self.error, 1e-6)) if self.single else _REDUCTION
        return np.maximum(wanted, floor * np.abs(rhs).max(axis=0, initial=0.0))

    def solve(
        self,
        rhs: FloatArray,
        wanted: FloatArray,
        limit: int,
        tell: Tell,
        preconditioner: Preconditioner | None = None,
        active: BoolArray | None = None,
    ) -> tuple[FloatArray, int]:
        """Return X with H X close to `rhs`, on the active rows, and the iterations taken."""
        ridge = self.problem.ridge[:, None]

        def product(v: FloatArray, columns: IntArray) -> FloatArray:
            out = self.times(v) + ridge * v
            if active is not None:
                out[~active] = 0.0
            return out

        made = preconditioner or self.preconditioner

        def precondition(v: FloatArray, columns: IntArray) -> FloatArray:
            return made.solve(v)

        try:
            # Threads of a BLAS go on spinning after each product, in the way of our own.
            with threads_for_blas():
                return conjugate_gradients(product, precondition, rhs, self.goal(wanted, rhs), limit, tell)
        except NotDefiniteError:
            if self.single is None:
                raise NotPositiveSemidefiniteError from None
            self.widen("products in float32 were not positive definite")
            return self.solve(rhs, wanted, limit, tell, preconditioner, active)

    def widen(self, why: str) -> bool:
        """Take products in float64 from now on; return whether they were in float32 before."""
        if self.single is None:
            return False
        self.single = None
        self.notes.append(f"{why}: those in float64 took over")
        return True


def forecast(problem: Problem) -> tuple[int, float, float]:
    """Return the rank that would be taken, and the iterations and nanoseconds to be expected."""
    memory = _default_memory(problem.n_rows)
    rank = choose_rank(problem, max(memory - SingleKernel.bytes_held(problem.n_rows), 0.0))
    held = rank > 0
    rank = rank or choose_rank(problem, memory, held)
    if rank == 0 or _single_error(problem) > _REFINABLE:
        return rank, float("inf"), float("inf")
    return rank, expected_iterations(problem, rank), expected_work(problem, rank, held)


def _default_memory(n_rows: int) -> float:
    return min(_MEMORY_SHARE * available_memory(), max(_MATRICES * 4.0 * n_rows**2, _SMALL))


def _single_error(problem: Problem) -> float:
    """Return C |K - K in float32|, relative to a residual: rounding errors add up like the root of m."""
    eps = float(np.finfo(np.float32).eps)
    largest = float(np.abs(problem.operator.diagonal()).max(initial=0.0))
    return 2.0 * eps * largest * float(np.sqrt(problem.n_rows)) * float(problem.costs.max())
