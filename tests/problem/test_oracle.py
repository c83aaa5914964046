"""The referee must be right before it judges others: here it meets brute force and SciPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from support import oracle, problems

LOSS_AND_BIAS = [
    pytest.param(loss, A, id=f"{loss}-{bias}")
    for loss in (oracle.SQUARED, oracle.HINGE)
    for bias, A in problems.BIASES.items()
]


def primal(parameters, K, y, costs, loss, A):
    """Return the objective as a function of (alpha, b), f = K alpha + b."""
    alpha, b = parameters[:-1], parameters[-1] if A != oracle.NONE else 0.0
    f = K @ alpha + b
    slack = y - f if loss == oracle.SQUARED else np.maximum(0.0, 1.0 - y * f)
    penalty = A * b**2 if A != oracle.NONE else 0.0
    return 0.5 * (alpha @ K @ alpha + penalty + costs @ slack**2)


@pytest.mark.parametrize(("loss", "A"), LOSS_AND_BIAS)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_no_general_optimiser_finds_a_lower_objective(loss, A, C):
    X = problems.rows(m=12)
    y, costs = problems.signs(X), C * problems.weights_of("mixed", 12)
    K = oracle.kernel_matrix("rbf", X, X, gamma=0.5)
    answer = oracle.solve(K, y, costs, loss, A)
    found = minimize(primal, np.zeros(13), (K, y, costs, loss, A), method="BFGS", options={"gtol": 1e-9})
    assert answer.objective <= found.fun * (1 + 1e-12)
    assert answer.objective == pytest.approx(found.fun, rel=1e-6)
    assert answer.objective == pytest.approx(
        primal(np.append(answer.beta, answer.bias), K, y, costs, loss, A), rel=1e-12
    )


@pytest.mark.parametrize("A", problems.BIASES.values(), ids=problems.BIASES.keys())
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_squared_hinge_against_all_active_sets(A, kernel):
    """Of the 2^8 sets exactly one passes the conditions, and its model is the answer."""
    X = problems.rows(m=8, n=2)
    y, costs = problems.signs(X), np.full(8, 5.0)
    K = oracle.kernel_matrix(kernel, X, X, gamma=0.5)
    passed = []
    for chosen in product([False, True], repeat=8):
        S = np.flatnonzero(chosen)
        if S.size == 0 or (A == oracle.FREE and abs(y[S].sum()) == S.size):
            continue  # 1'beta = 0 leaves a single side nothing but beta = 0.
        part = oracle.solve(K[np.ix_(S, S)], y[S], costs[S], oracle.SQUARED, A)
        f = K[:, S] @ part.beta + part.bias
        outside = np.setdiff1d(np.arange(8), S)
        if (y[S] * part.beta > 0).all() and (y[outside] * f[outside] >= 1).all():
            passed.append((f, part.bias))
    answer = oracle.solve(K, y, costs, oracle.HINGE, A)
    assert len(passed) == 1
    np.testing.assert_allclose(answer.decision, passed[0][0], rtol=1e-12)
    assert answer.bias == pytest.approx(passed[0][1], rel=1e-12)


@pytest.mark.parametrize(("loss", "A"), LOSS_AND_BIAS)
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e8])
def test_optimum_known_by_construction(loss, A, C):
    known = problems.known(loss, A, C)
    answer = oracle.solve(known.K, known.y, known.costs, loss, A)
    accuracy = max(1e-12, 1e2 * np.finfo(float).eps * oracle.condition(known.K, known.costs, A))
    np.testing.assert_allclose(answer.beta, known.beta, rtol=0, atol=accuracy * abs(known.beta).max())
    assert answer.bias == pytest.approx(known.bias, abs=accuracy)


def test_inverse_diagonal():
    X = problems.rows(m=10)
    K = oracle.kernel_matrix("poly", X, X, gamma=0.5, degree=2, coef0=1.0)
    costs = np.linspace(1.0, 3.0, 10)
    M = np.ones((11, 11))
    M[:10, :10], M[10, 10] = K + np.diag(1 / costs), -0.3
    np.testing.assert_allclose(
        oracle.inverse_diagonal(K, costs, 0.3), np.diagonal(np.linalg.inv(M))[:10], rtol=1e-10
    )


def test_residual_sees_rows_and_bias():
    known = problems.known(oracle.SQUARED, oracle.FREE)
    arguments = known.K, known.y, known.costs, oracle.SQUARED, oracle.FREE
    assert oracle.residual(*arguments, known.beta, known.bias) < 1e-14
    off = oracle.residual(*arguments, known.beta, known.bias + 0.5)
    assert off == pytest.approx(0.5 / abs(known.y).max(), rel=1e-12)
    # Against 1'beta only: in the null space of Z' the rows see beta through 1/C alone.
    pushed = known.beta + 1.0
    assert oracle.residual(*arguments, pushed, known.bias) >= len(pushed) / abs(pushed).sum() * (1 - 1e-12)
