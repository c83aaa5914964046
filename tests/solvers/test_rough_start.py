"""The rough solution that a search over active sets begins from: near the optimum, or of the squared loss."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator
from squaresvm.problem import Bias, Loss, Problem
from squaresvm.solvers import ActiveSet, Direct
from squaresvm.solvers.rough_start import _RoughEqualities, rough_start

M = 600
BIASES = {"free": Bias.free(), "penalised": Bias.penalised(2.0), "absent": Bias.none()}


def noisy(C, bias, loss=Loss.SQUARED_HINGE, weights=1.0):
    random = np.random.default_rng(0)
    X = random.normal(size=(M, 5))
    y = np.sign(X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * random.normal(size=M))
    operator = DenseOperator(Kernel("rbf", gamma=0.1), X)
    return Problem(operator, y[:, None], np.full(M, C) * weights, loss, bias)


@pytest.mark.parametrize("bias", BIASES.values(), ids=BIASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_at_moderate_costs_it_has_the_rows_with_an_error_of_the_optimum(bias, weighted):
    weights = np.random.default_rng(1).uniform(0.2, 1.0, M) if weighted else 1.0
    problem = noisy(1.0, bias, weights=weights)
    rough = rough_start(problem)
    best = ActiveSet().solve(problem, tol=1e-10, max_iter=None)
    y = problem.targets
    near = y * problem.decision(best) < 1.0
    # Equalities solved to a fiftieth leave single rows beside the margin: a twentieth of them at most.
    assert np.count_nonzero((y * problem.decision(rough) < 1.0) != near) <= 0.05 * M
    np.testing.assert_allclose(problem.decision(rough), problem.decision(best), atol=0.1)
    assert np.abs(rough.beta[:, 0]).max() > 0.0


@pytest.mark.parametrize("bias", BIASES.values(), ids=BIASES)
def test_where_the_sets_go_round_it_is_near_the_squared_loss_and_the_search_ends_at_the_optimum(bias):
    problem = noisy(1e5, bias)
    rough = rough_start(problem)
    # That of the squared loss has a multiplier for every row; where the sets rest, only rows with an error.
    assert np.count_nonzero(rough.beta) == M
    found = ActiveSet().solve(problem, tol=1e-8, max_iter=None)
    assert problem.certify(found, tol=1e-8).residual <= 1e-8


def test_a_row_without_an_error_is_left_out_of_a_set_at_rest():
    problem = noisy(1.0, Bias.free())
    rough = rough_start(problem)
    whole = Direct().solve(noisy(1.0, Bias.free(), Loss.SQUARED), tol=1e-10, max_iter=None)
    assert np.count_nonzero(rough.beta) < np.count_nonzero(whole.beta) == M


def test_few_rows_are_begun_with_all_of_them():
    problem = noisy(1.0, Bias.free())
    few = Problem(
        DenseOperator(problem.operator.kernel, problem.operator.X[:100]),
        problem.targets[:100],
        problem.costs[:100],
        problem.loss,
        problem.bias,
    )
    assert rough_start(few) is None


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize(("scale", "degree"), [(1e5, 3), (1e5, 5), (1e8, 2), (1e10, 5)])
def test_kernels_beyond_single_digits_end_without_a_warning_of_numpy_or_an_internal_error(scale, degree, C):
    random = np.random.default_rng(0)
    X = random.normal(size=(M, 5)) * scale
    y = np.where(X[:, 0] + X[:, 1] > 0.0, 1.0, -1.0)
    operator = DenseOperator(Kernel("poly", gamma=1.0, degree=degree), X)
    problem = Problem(operator, y[:, None], np.full(M, C), Loss.SQUARED_HINGE, Bias.free())
    # Such kernels cost most of the digits: what must not happen is a warning, which fails this test, a
    # solution without a number, or the word of a factorisation that gave up.
    solution = ActiveSet().solve(problem, tol=1e-8, max_iter=None)
    assert np.isfinite(solution.beta).all()
    assert np.isfinite(solution.bias).all()


def test_products_in_single_digits_hold_beyond_their_range():
    problem = noisy(1.0, Bias.free())
    large = Problem(problem.operator, problem.targets * 1e60, problem.costs, Loss.SQUARED_HINGE, problem.bias)
    rough = _RoughEqualities(large)
    active = np.ones(M, dtype=bool)
    solution = rough.solve(active, 60)
    K = problem.operator.full()
    exact = K @ solution.beta[:, 0] + solution.bias[0]
    np.testing.assert_allclose(rough.decision, exact, rtol=0.0, atol=1e-4 * np.abs(exact).max())
