"""Where the papers are wrong: each printed formula beside the right one, where the optimum is known.

The numbers are those of theory.md's list. A test fails if the printed formula were the one in use;
test_printed_formulas.py has them at the papers' parameters and at others.
"""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator
from squaresvm.solution import Status
from squaresvm.solvers import ActiveSet, Direct, PenaltyFlow, SesquiSmo, Substitution, TwoSmo
from support import oracle, problems

M, C, A = 60, 2.0, 0.5


@pytest.fixture(scope="module")
def data():
    """Sixty points, unbalanced, so that the bias matters."""
    X = problems.rows(m=M)
    y = np.where(problems.signs(X) + (np.arange(M) % 3 == 0) > 0, 1.0, -1.0)
    return X, y, oracle.kernel_matrix("rbf", X, X, gamma=0.3)


def problem_of(data, loss, A_=A, cost=C):
    X, y, _ = data
    return problems.problem_of(DenseOperator(Kernel("rbf", gamma=0.3), X), y, np.full(M, cost), loss, A_)


def primal(K, y, beta, b, loss=oracle.SQUARED, A_=A, cost=C):
    f = K @ beta + b
    xi = y - f if loss == oracle.SQUARED else np.maximum(0.0, 1.0 - y * f)
    return 0.5 * (beta @ K @ beta + A_ * b**2 + cost * xi @ xi)


# Correction 1 ------------------------------------------------------------------------------------------


def updates(K, y, numerator, sweeps=2000):
    """Run update (31) in random order with a numerator of one's choice; return beta."""
    lam, rng = np.zeros(M), np.random.default_rng(0)
    h = np.diag(K) + 1.0 / A + 1.0 / C
    for _ in range(sweeps):
        for k in rng.permutation(M):
            f = (K[k] + 1.0 / A) @ (y * lam)
            lam[k] += numerator(y[k], f, lam[k]) / h[k]
    return y * lam


def test_1_the_update_needs_lambda_over_C(data):
    """(28)-(31) drop lambda_k / C: their updates end at another point, with a far larger objective."""
    _, y, K = data
    best = oracle.solve(K, y, np.full(M, C), oracle.SQUARED, A)
    printed = updates(K, y, lambda y_k, f, lam: 1.0 - y_k * f)
    right = updates(K, y, lambda y_k, f, lam: 1.0 - y_k * f - lam / C, sweeps=500)
    np.testing.assert_allclose(right, best.beta, rtol=0, atol=1e-8)
    assert primal(K, y, printed, printed.sum() / A) > 1.1 * best.objective
    found = TwoSmo().solve(problem_of(data, oracle.SQUARED), tol=1e-9, max_iter=None)
    np.testing.assert_allclose(found.beta[:, 0], best.beta, rtol=0, atol=1e-7)


def test_1_the_constraint_of_the_proximal_svm(data):
    """(11)-(12) follow from D (K D w + e b) + q = e, and not from (10) as printed."""
    _, y, K = data
    D, e = np.diag(y), np.ones(M)
    v = np.linalg.solve(np.eye(M) / C + D @ (K @ K.T + np.outer(e, e)) @ D, e)
    w, b = D @ K.T @ D @ v, e @ D @ v
    q = v / C

    def misses(constraint):
        return np.abs(constraint + q - e).max()

    assert misses(D @ (K @ D @ w + e * b)) < 1e-9
    assert misses(D @ (K @ K.T) @ D @ w + e * b) > 0.1
    # The same through the library: coefficients W K beta, that is D w, and b = 1'beta.
    X = data[0]
    case = problems.CASES["proximal"](X, np.ones(M))
    gamma = problems.PARAMETERS["rbf"]["gamma"]
    K = oracle.kernel_matrix("rbf", X, X, gamma=gamma)
    v = np.linalg.solve(np.eye(M) / C + D @ (K @ K.T + np.outer(e, e)) @ D, e)
    problem = problems.problem_of(case.operator, y, np.full(M, C), oracle.SQUARED, 1.0)
    for solver in (Direct(), TwoSmo()):
        found = solver.solve(problem, tol=1e-10, max_iter=None)
        np.testing.assert_allclose(case.operator.expand(found.beta)[:, 0], D @ (D @ K.T @ D @ v), atol=1e-6)
        assert found.bias[0] == pytest.approx(e @ D @ v, abs=1e-7)


# Correction 2 ------------------------------------------------------------------------------------------


def test_2_sesquismo_must_clip(data):
    """Without the clip lambda goes below zero, and the updates are those of 2SMO."""
    _, y, K = data
    best = oracle.solve(K, y, np.full(M, 50.0), oracle.HINGE, A)
    plain = oracle.solve(K, y, np.full(M, 50.0), oracle.SQUARED, A)
    assert (y * plain.beta < -0.1).any()
    assert primal(K, y, plain.beta, plain.bias, oracle.HINGE, cost=50.0) > best.objective
    found = SesquiSmo().solve(problem_of(data, oracle.HINGE, cost=50.0), tol=1e-9, max_iter=None)
    assert (y * found.beta[:, 0] >= 0).all()
    np.testing.assert_allclose(found.beta[:, 0], best.beta, atol=1e-6)


# Correction 5 ------------------------------------------------------------------------------------------


def rest_point(K, y, penalty):
    """Return the minimiser of (44) at a given penalty: 1'beta and the bias, the exact way."""
    H = K + np.eye(M) / C
    v, u = np.linalg.solve(H, y), np.linalg.solve(H, np.ones(M))
    s = np.clip(v.sum() / u.sum(), -penalty, penalty)
    return v - s * u, s


def test_5_not_any_penalty_is_exact(data):
    """(44) is exact from |b*| on. At half of it, the flow stays infeasible for ever."""
    _, y, K = data
    best = oracle.solve(K, y, np.full(M, C), oracle.SQUARED, oracle.FREE)
    assert abs(best.bias) > 1e-3
    low, _ = rest_point(K, y, 0.5 * abs(best.bias))
    assert abs(low.sum()) > 1e-3
    high, b = rest_point(K, y, 1.01 * abs(best.bias))
    assert abs(high.sum()) < 1e-10
    assert b == pytest.approx(best.bias)
    # The library begins at half of |b*| and raises it.
    problem = problem_of(data, oracle.SQUARED, oracle.FREE)
    solver = PenaltyFlow(penalty=0.5 * abs(best.bias), trace=True)
    found = solver.solve(problem, tol=1e-10, max_iter=None)
    assert abs(solver.solve(problem, tol=1e-10, max_iter=3).beta.sum()) > 1e-3
    np.testing.assert_allclose(found.beta[:, 0], best.beta, atol=1e-8)
    assert found.bias[0] == pytest.approx(best.bias, abs=1e-8)
    # And it does not chatter: once 1'beta has vanished, it stays so.
    balance = np.abs([entry.balance for entry in found.trace])
    first = int(np.flatnonzero(balance < 1e-9)[0])
    assert (balance[first:] < 1e-9).all()


# Correction 6 ------------------------------------------------------------------------------------------


def substituted(G, y, alpha, beta):
    """Return the symmetric part of the Hessian of (58), as printed."""
    m = len(y)
    W = G + (alpha - 2.0 / m) * np.outer(y, y) @ G + beta * np.outer(y, y)
    return 0.5 * (W + W.T)


def test_6_a_large_alpha_does_not_help(data):
    """yy'DPD is not positive semidefinite: the larger alpha, the more negative the smallest eigenvalue."""
    _, y, K = data
    G = np.outer(y, y) * (K + np.eye(M) / C)
    product = np.outer(y, y) @ G
    assert np.linalg.eigvalsh(0.5 * (product + product.T))[0] < -1.0
    smallest = [np.linalg.eigvalsh(substituted(G, y, alpha, 0.0))[0] for alpha in (1.0, 100.0)]
    assert smallest[0] < -1.0
    assert smallest[1] < 50 * smallest[0]


def test_6_definite_exactly_above_the_bound(data):
    """With alpha = 0 and beta > y'Gy / M^2 it is Fletcher's penalty; its minimiser is the LS-SVM."""
    _, y, K = data
    G = np.outer(y, y) * (K + np.eye(M) / C)
    bound = y @ G @ y / M**2
    assert np.linalg.eigvalsh(substituted(G, y, 0.0, 1.01 * bound))[0] > 0
    assert np.linalg.eigvalsh(substituted(G, y, 0.0, 0.99 * bound))[0] < 0
    best = oracle.solve(K, y, np.full(M, C), oracle.SQUARED, oracle.FREE)
    d = np.ones(M) - y * y.sum() / M
    lam = np.linalg.solve(substituted(G, y, 0.0, 2.0 * bound), d)
    np.testing.assert_allclose(y * lam, best.beta, atol=1e-9)
    problem = problem_of(data, oracle.SQUARED, oracle.FREE)
    with pytest.raises(ValueError, match="penalty must be greater than"):
        Substitution(penalty=0.99 * bound).solve(problem, tol=1e-9, max_iter=None)
    found = Substitution(penalty=1.5 * bound).solve(problem, tol=1e-10, max_iter=None)
    np.testing.assert_allclose(found.beta[:, 0], best.beta, atol=1e-8)
    assert found.bias[0] == pytest.approx(best.bias, abs=1e-8)


# Correction 7: tests/test_cycling.py has the cycles by the hundred; here is one, from the paper's own steps.


def test_7_the_iteration_without_a_line_search_cycles():
    """Half of these go round in circles at C = 1e4; the line search ends at the optimum."""
    cycling = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20, 4))
        y = np.where(X[:, 0] + 0.3 * rng.normal(size=20) > 0, 1.0, -1.0)
        if abs(y.sum()) < 20 and goes_round(X @ X.T, y, 1e4):
            cycling.append((X, y))
    assert len(cycling) >= 10
    for X, y in cycling:
        operator = DenseOperator(Kernel("linear"), X)
        problem = problems.problem_of(operator, y, np.full(20, 1e4), oracle.HINGE, oracle.FREE)
        solution = ActiveSet().solve(problem, tol=1e-6, max_iter=None)
        assert problem.certify(solution, 1e-6).status is Status.CONVERGED


def goes_round(K, y, cost):
    seen, S = set(), np.ones(len(y), dtype=bool)
    while S.any() and S.tobytes() not in seen:
        seen.add(S.tobytes())
        n = int(S.sum())
        left = np.ones((n + 1, n + 1))
        left[:n, :n], left[n, n] = K[np.ix_(S, S)] + np.eye(n) / cost, 0.0
        solved = np.linalg.solve(left, np.append(y[S], 0.0))
        now = y * (K[:, S] @ solved[:n] + solved[n]) < 1.0
        if np.array_equal(now, S):
            return False
        S = now
    return bool(S.any())


# Correction 8 ------------------------------------------------------------------------------------------


def test_8_a_cap_below_the_number_of_support_vectors(data):
    """The paper keeps the n_SVmax largest errors: its best then is a wrong answer, silently."""
    _, y, K = data
    best = oracle.solve(K, y, np.full(M, C), oracle.HINGE, oracle.FREE)
    cap = int(np.count_nonzero(np.abs(best.beta) > 1e-9)) // 2
    S = np.argsort(-np.abs(best.beta))[:cap]
    left = np.ones((cap + 1, cap + 1))
    left[:cap, :cap], left[cap, cap] = K[np.ix_(S, S)] + np.eye(cap) / C, 0.0
    solved = np.linalg.solve(left, np.append(y[S], 0.0))
    beta = np.zeros(M)
    beta[S] = solved[:cap]
    assert primal(K, y, beta, solved[cap], oracle.HINGE, 0.0) > 1.01 * best.objective
    problem = problem_of(data, oracle.HINGE, oracle.FREE)
    found = ActiveSet(n_sv_max=cap).solve(problem, tol=1e-9, max_iter=None)
    assert found.work["growths"] >= 1
    np.testing.assert_allclose(found.beta[:, 0], best.beta, atol=1e-7)
