"""Active sets that empty, and rows of one class only: the optimum all the same."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm import RLSSVC, LagrangianSVC
from squaresvm.factors import Moments
from squaresvm.judging.leave_one_out import fixed_set, leave_one_out
from squaresvm.operators import LinearOperator, PrecomputedOperator
from squaresvm.problem import Loss, Problem
from squaresvm.solution import Solution, Status
from squaresvm.solvers import ActiveSet, ConjugateGradient, Newton
from support import oracle, problems

TOL = 1e-10


def test_moments_without_any_row_left_are_zero():
    random = np.random.default_rng(0)
    moments = Moments.of(random.normal(size=(5, 2)), np.full(5, 0.3), random.normal(size=(5, 1)))
    nothing = moments.minus(moments)
    assert nothing.total == 0.0
    assert not np.any(nothing.scatter)
    assert not np.any(nothing.mean)
    assert nothing.loss_of_digits() == np.inf


def test_leave_one_out_where_the_linear_search_empties_its_set():
    model = RLSSVC(kernel="linear").fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    assert model.loo_score() == pytest.approx(1 / 3)


def single_row_class(seed, kernel, C, A):
    """Return a problem with one row of a class, its matrix and its labels."""
    random = np.random.default_rng(seed)
    m = int(random.integers(3, 9))
    X = random.normal(size=(m, 2)) * 10.0 ** random.integers(-2, 3)
    y = np.full(m, 1.0 if seed % 2 else -1.0)
    y[random.integers(m)] *= -1.0
    K = oracle.kernel_matrix(kernel, X, X, gamma=0.5)
    operator = LinearOperator(X) if kernel == "linear" else PrecomputedOperator(K)
    bias = problems.bias_of(A)
    return Problem(operator, y[:, None], np.full(m, C), Loss.SQUARED_HINGE, bias), K, y


@pytest.mark.parametrize("A", problems.BIASES.values(), ids=problems.BIASES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3])
def test_leave_one_out_of_a_single_row_class(kernel, C, A):
    for seed in range(11):
        problem, K, y = single_row_class(seed, kernel, C, A)
        solver = Newton() if kernel == "linear" else ActiveSet()
        solution = solver.solve(problem, tol=TOL, max_iter=None)
        found = leave_one_out(problem, solution, TOL)[:, 0]
        for row in range(y.size):
            rest = np.delete(np.arange(y.size), row)
            if problem.bias.is_free and np.unique(y[rest]).size == 1:
                wanted = y[rest[0]]
            else:
                best = oracle.solve(K[np.ix_(rest, rest)], y[rest], np.full(rest.size, C), oracle.HINGE, A)
                wanted = float(K[row, rest] @ best.beta + best.bias)
            assert found[row] == pytest.approx(wanted, abs=1e-6 * max(1.0, abs(wanted))), (seed, row)
        assert np.isfinite(fixed_set(problem, solution)).all()


@pytest.mark.parametrize("solver", [ActiveSet(), ActiveSet(reuse="switches"), ConjugateGradient()])
def test_rows_of_one_class_and_a_free_bias(solver):
    """From wherever it starts, the label of the rows: what a penalised bias tends to as A vanishes."""
    X = np.random.default_rng(0).normal(size=(6, 2))
    y = np.full((6, 1), -1.0)
    start = Solution(beta=0.1 * y, bias=np.array([-3.0]))
    found = {}
    for A in (None, 1e-9):
        bias = problems.bias_of(0.0 if A is None else A)
        problem = Problem(PrecomputedOperator(X @ X.T), y, np.ones(6), Loss.SQUARED_HINGE, bias)
        solution = solver.solve(problem, tol=1e-8, max_iter=None, start=start)
        found[A] = problem.decision(solution)[:, 0]
    np.testing.assert_allclose(found[None], -1.0, rtol=0, atol=0)
    np.testing.assert_allclose(found[1e-9], -1.0, rtol=0, atol=1e-6)


def test_a_linear_kernel_is_never_called_indefinite():
    """Sums that rows were subtracted from have errors of the size that they once had."""
    X = np.random.default_rng(9).normal(size=(100, 3)) * 1e7
    certificate = LagrangianSVC(kernel="linear", C=1e3).fit(X, X[:, 0] > 0).certificate_
    assert certificate.status in (Status.CONVERGED, Status.PRECISION)
    assert certificate.gap <= 1e-3 * certificate.objective
