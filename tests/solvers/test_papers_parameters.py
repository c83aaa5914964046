"""Each algorithm that a paper names, at the parameters of that paper, against the exact optimum.

At other parameters it is the contract table that asks the same of each solver.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from squaresvm.datasets import make_checkerboard, make_two_spirals
from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator, LinearOperator, ProximalOperator
from squaresvm.solution import Solution, Status
from squaresvm.solvers import (
    DBLSSVM,
    DBLSVM,
    DOLSSVM,
    DOLSVM,
    ActiveSet,
    Direct,
    ExplicitInverse,
    Lagrangian,
    PenaltyFlow,
    SesquiSmo,
    Substitution,
    Sumt,
    TwoSmo,
)
from squaresvm.solvers.decremental import StoredInverse
from support import oracle, problems

M, TOL = 24, 1e-8
SQUARED, HINGE, FREE, NONE = oracle.SQUARED, oracle.HINGE, oracle.FREE, oracle.NONE
X = problems.rows("random", m=M, n=6)
Y = problems.signs(X)
#: The LSVM paper's G = [A, -e], whose inner products hold the bias.
G = np.column_stack([X, -np.ones(M)])


def rbf(gamma):
    return DenseOperator(Kernel("rbf", gamma=gamma), X)


def poly(degree):
    return DenseOperator(Kernel("poly", gamma=1.0, degree=degree, coef0=0.0), G)


#: Table 1 has A = 1e4, and Figures 1 and 2 less, where the plain rule takes the longer, the smaller A is.
RULES = [(rule, A) for rule in (None, "cyclic", "random", "largest") for A in (1e4, 1.0)] + [(None, 0.01)]
RELAXED = [
    (solver(plain=rule), loss, A, rbf(1.0), 1.0)
    for (solver, loss), (rule, A) in product(((TwoSmo, SQUARED), (SesquiSmo, HINGE)), RULES)
]
SUMT = {"A0": 1e4, "rho": 0.9}
RELAXED += [
    (solver, SQUARED, FREE, rbf(1.0), 1.0)
    for solver in (Sumt(**SUMT), Sumt(bias="rows", **SUMT), PenaltyFlow(), Substitution())
]
PROXIMAL = (ProximalOperator(rbf(1.0), np.ones(M)), LinearOperator(X))
RELAXED += [(Direct(), SQUARED, 1.0, operator, 1.0) for operator in PROXIMAL]
LSVM = [
    *((Lagrangian(), HINGE, NONE, LinearOperator(G), nu) for nu in (1.0 / M, 0.03, 0.1)),  # Tables 1 to 3.
    *((Lagrangian(), HINGE, NONE, poly(degree), nu) for degree, nu in ((2, 0.1), (3, 0.01))),  # Table 4.
]
RLSSVM = [
    (ActiveSet(**options), HINGE, FREE, operator, C)
    for options in ({}, {"reuse": "switches"}, {"plain": True, "reuse": "switches"})
    for operator, C in (  # Table 3, L2-loss.
        *((LinearOperator(X), C) for C in (1e-3, 1e-1, 1.0, 10.0)),
        *((rbf(g), C) for C, g in ((10, 1.6e-2), (1, 2.5e-2), (10, 2.5e-2), (100, 2.5e-5), (1e3, 1e-5))),
    )
]


def assert_optimal(problem, found, best, tol=TOL):
    assert problem.certify(found, tol).status in (Status.CONVERGED, Status.PRECISION)
    size = abs(best.beta).max()
    np.testing.assert_allclose(problem.multipliers(found)[:, 0], best.beta, rtol=0, atol=1e-5 * size)
    np.testing.assert_allclose(problem.decision(found)[:, 0], best.decision, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("solver", "loss", "A", "operator", "C"), RELAXED + LSVM + RLSSVM)
def test_it_ends_at_the_optimum(solver, loss, A, operator, C):
    everyone, costs = np.arange(M), np.full(M, float(C))
    best = oracle.solve(operator.block(everyone, everyone), Y, costs, loss, A)
    problem = problems.problem_of(operator, Y, costs, loss, A)
    assert_optimal(problem, solver.solve(problem, tol=TOL, max_iter=20_000), best)


def test_the_lsvm_papers_checkerboard_is_out_of_reach_of_its_iteration_and_says_so():
    """Figure 2, nu = 1e5 and exp(-2e-4 d^2): the paper took 100,000 iterations."""
    rows, colours = make_checkerboard(200, random_state=0)
    operator, y = DenseOperator(Kernel("rbf", gamma=2e-4), rows), np.where(colours > 0, 1.0, -1.0)
    problem = problems.problem_of(operator, y, np.full(200, 1e5), HINGE, NONE)
    found = Lagrangian().solve(problem, tol=1e-6, max_iter=100)
    assert problem.certify(found, 1e-6).status is Status.MAX_ITER
    exact = ActiveSet().solve(problem, tol=1e-6, max_iter=None)
    assert problem.certify(exact, 1e-6).status in (Status.CONVERGED, Status.PRECISION)


@pytest.mark.parametrize("solver", [Direct(), ExplicitInverse()], ids=lambda solver: solver.name)
def test_the_ls_svm_papers_spirals(solver):
    """Figure 2, sigma = gamma = 1: (20) with (21), solved as it is printed."""
    rows, labels = make_two_spirals()
    m, y, kernel = len(labels), np.where(labels > 0, 1.0, -1.0), Kernel("rbf", gamma=1.0)
    omega = np.outer(y, y) * kernel(rows, rows)
    left = np.block([[np.zeros((1, 1)), -y[None]], [y[:, None], omega + np.eye(m)]])
    solved = np.linalg.solve(left, np.append(0.0, np.ones(m)))
    problem = problems.problem_of(DenseOperator(kernel, rows), y, np.ones(m), SQUARED, FREE)
    found = solver.solve(problem, tol=TOL, max_iter=None)
    np.testing.assert_allclose(found.beta[:, 0], y * solved[1:], atol=1e-10)
    assert found.bias[0] == pytest.approx(solved[0], abs=1e-10)


@pytest.mark.parametrize("gone", [[5], [2, 19, 7]], ids=["online", "batch"])
@pytest.mark.parametrize("loss", [SQUARED, HINGE])
def test_the_decremental_papers_four(loss, gone):
    """Tables 1 and 2: sigma = 2, C = 1/m, lambda = 1.9/C, stopped at 1e-5; and as far as the optimum."""
    A, rest, K = FREE if loss == SQUARED else NONE, np.delete(np.arange(M), gone), rbf(1 / 8)
    K = K.block(np.arange(M), np.arange(M))
    costs = np.full(M, 1.0 / M)
    whole = problems.problem_of(rbf(1 / 8), Y, costs, loss, A)
    before = oracle.solve(K, Y, costs, loss, A)
    best = oracle.solve(K[np.ix_(rest, rest)], Y[rest], costs[rest], loss, A)
    problem = problems.problem_of(
        DenseOperator(Kernel("rbf", gamma=1 / 8), X[rest]), Y[rest], costs[rest], loss, A
    )
    start = Solution(beta=before.beta[rest][:, None], bias=np.array([before.bias]))
    if loss == SQUARED:
        rules = [(DOLSSVM() if len(gone) == 1 else DBLSSVM(), TOL)]
    else:
        rule = DOLSVM if len(gone) == 1 else DBLSVM
        rules = [(rule(Lagrangian(stop="step")), 1e-5), (rule(), TOL)]
    for rule, tol in rules:
        found = rule.forget(problem, StoredInverse.of(whole), np.array(gone), tol=tol, start=start)
        np.testing.assert_allclose(found.beta[:, 0], best.beta, rtol=0, atol=100 * tol * abs(best.beta).max())
