"""Random problems on which the iteration of the RLSSVM paper goes round in circles.

S -> S(e(S)) has no line search, so it can return to a set that it has seen. And where K is
rank-deficient, as linear and cubic kernels of few columns are, multipliers carried from set to set collect
parts from the null space of K that swamp the answer.
"""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator, LinearOperator
from squaresvm.solution import Solution, Status
from squaresvm.solvers.active_set_search import minimise_on_line
from squaresvm.solvers.choose import SOLVERS
from support import oracle, problems

COUNT = 300
KERNELS = ["linear", "cubic"]


def random_problem(seed, kernel):
    """Return rows and labels of problem number `seed`: small, noisy, more rows than the kernel has rank."""
    rng = np.random.default_rng([seed, KERNELS.index(kernel)])
    m = int(rng.integers(15, 40))
    X = rng.normal(size=(m, int(rng.integers(2, 5))))
    return X, problems.signs(X, noise=1.0, seed=seed)


def operator_of(kernel, X, solver):
    if kernel == "cubic":
        return DenseOperator(Kernel("poly", gamma=1.0, degree=3, coef0=0.0), X)
    # The solver in w takes the columns, the others K, without a hint that it is rank-deficient.
    return LinearOperator(X) if solver == "newton" else DenseOperator(Kernel("linear"), X)


def cycles(K, y, C):
    """Return whether the paper's iteration comes back to a set that was not its fixed point."""
    seen, S = set(), np.arange(len(y))
    b = 0.0
    while True:
        if S.size:
            M = np.ones((S.size + 1, S.size + 1))
            M[:-1, :-1], M[-1, -1] = K[np.ix_(S, S)] + np.eye(S.size) / C, 0.0
            solution = np.linalg.solve(M, np.append(y[S], 0.0))
            f, b = K[:, S] @ solution[:-1] + solution[-1], solution[-1]
        else:
            f = np.full(len(y), b)
        found = np.flatnonzero(y * f < 1.0)
        if np.array_equal(found, S):
            return False
        if found.tobytes() in seen:
            return True
        seen.add(found.tobytes())
        S = found


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_papers_iteration_cycles_on_some(kernel):
    """Else the tests below would show nothing."""
    cycling = 0
    for seed in range(COUNT):
        X, y = random_problem(seed, kernel)
        K = X @ X.T if kernel == "linear" else (X @ X.T) ** 3
        cycling += cycles(K, y, 1e4)
    assert cycling >= COUNT // 20


def carried(K, y, C):
    """Return where the same sets end with an exact line search if the multipliers are the iterate."""
    beta, b = np.zeros(len(y)), 0.0
    for _ in range(300):
        f = K @ beta + b
        S = np.flatnonzero(y * f < 1.0)
        if S.size == 0:
            break
        M = np.ones((S.size + 1, S.size + 1))
        M[:-1, :-1], M[-1, -1] = K[np.ix_(S, S)] + np.eye(S.size) / C, 0.0
        solved, full = np.linalg.solve(M, np.append(y[S], 0.0)), np.zeros(len(y))
        full[S] = solved[:-1]
        if np.array_equal(np.flatnonzero(y * (K @ full + solved[-1]) < 1.0), S):
            return full, solved[-1]
        way, margin = full - beta, 1.0 - y * f
        change = y * (K @ way + solved[-1] - b)
        slope = beta @ (K @ way) - C * np.maximum(margin, 0.0) @ change
        t = minimise_on_line(slope, way @ (K @ way), margin, change, np.full(len(y), C))
        if t <= 0.0:
            break
        beta, b = beta + t * way, b + t * (solved[-1] - b)
    return beta, b


def test_multipliers_that_are_carried_end_elsewhere_on_some():
    """Of the problems of rank-deficient kernels that all end optimal below."""
    missed = 0
    for seed in range(COUNT // 3):
        X, y = random_problem(seed, "cubic")
        operator, costs = operator_of("cubic", X, "active-set"), np.full(len(y), 1e8)
        problem = problems.problem_of(operator, y, costs, oracle.HINGE, oracle.FREE)
        beta, b = carried((X @ X.T) ** 3, y, 1e8)
        found = problem.certify(Solution(beta=beta[:, None], bias=np.array([b])), 1e-6)
        missed += found.status not in (Status.CONVERGED, Status.PRECISION)
    assert missed >= 2


@pytest.mark.parametrize("C", [1e4, 1e6, 1e8])
@pytest.mark.parametrize(
    ("name", "kernel"), [("active-set", "linear"), ("active-set", "cubic"), ("newton", "linear")]
)
def test_all_end_optimal(name, kernel, C):
    solver = SOLVERS[name]
    good = (Status.CONVERGED, Status.PRECISION) if C > 1e6 else (Status.CONVERGED,)
    failed = {}
    for seed in range(COUNT if C == 1e4 else COUNT // 3):
        X, y = random_problem(seed, kernel)
        costs = np.full(len(y), C)
        problem = problems.problem_of(operator_of(kernel, X, name), y, costs, oracle.HINGE, oracle.FREE)
        certificate = problem.certify(solver.solve(problem, tol=1e-6, max_iter=None), tol=1e-6)
        if certificate.status not in good:
            failed[seed] = str(certificate)
    assert not failed
