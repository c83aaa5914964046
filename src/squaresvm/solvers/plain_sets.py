"""The RLSSVM paper's iteration as it is printed: S -> S(e(S)), steps 1 to 5, without a line search."""

from __future__ import annotations

import numpy as np

from squaresvm.problem import Problem
from squaresvm.solution import Outcome, Solution
from squaresvm.solvers.base import Monitor, tell
from squaresvm.solvers.equalities import EqualitySystem, SwitchedSystem
from squaresvm.typing import BoolArray, FloatArray

__all__ = ["plain_active_sets"]


def plain_active_sets(
    problem: Problem,
    system: EqualitySystem | SwitchedSystem,
    first: BoolArray,
    cap: int | None,
    limit: int,
    monitor: Monitor,
) -> Solution:
    """Return where the paper's iteration comes to rest, or where it was when a set came back.

    Parameters
    ----------
    problem : Problem
        With one column of targets.
    system : EqualitySystem or SwitchedSystem
    first : ndarray of bool
        The first set.
    cap : int or None
        n_SVmax: no more rows than this are taken, in decreasing order of their errors.
    limit : int
        Iterations at most.
    monitor : Monitor

    Returns
    -------
    Solution
        Its `note` says so where the sets go round: then it is no optimum, and the certificate tells how far.
    """
    y, ridge = problem.targets[:, 0], problem.ridge
    active, seen, b = first, set[bytes](), 0.0  # Step 1: s_i = 1, or n_SVmax of them.
    beta, note, outcome, iteration = np.zeros(y.size), "", Outcome.MAX_ITER, 0
    while iteration < limit and not monitor.stopped:
        iteration += 1
        seen.add(active.tobytes())
        beta, b = system.solve(active, b)  # Steps 2 and 3: (48) by (58)-(59), theta_i = y_i beta_i.
        f = problem.operator.matmul(beta[:, None])[:, 0] + b  # (49)
        errors = 1.0 - y * f
        errors[active] = (y * ridge * beta)[active]  # (57), above: e_S = theta / C.
        now = _chosen(errors, cap)  # Step 4: (10).
        tell(problem, beta, b, f + ridge * beta - y, iteration, monitor)
        if np.array_equal(now, active):  # Step 5.
            outcome = Outcome.FINISHED
            break
        if now.tobytes() in seen:
            note = f"S -> S(e(S)) goes round: the set of iteration {iteration + 1} has been there before"
            break
        active = now
    if monitor.stopped:
        outcome = Outcome.STOPPED
    bias = np.array([b])
    return Solution(beta=beta[:, None], bias=bias, n_iter=max(iteration, 1), outcome=outcome, note=note)


def _chosen(errors: FloatArray, cap: int | None) -> BoolArray:
    """Return the rows whose indicator is one: those with an error, the largest where they are too many."""
    wanted = errors > 0.0  # (10)
    if cap is not None and int(wanted.sum()) > cap:
        kept = np.argsort(-errors, kind="stable")[:cap]
        wanted = np.zeros(errors.size, dtype=bool)
        wanted[kept] = True
    return wanted
