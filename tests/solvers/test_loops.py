"""The compiled coordinate updates, from which large squared hinge problems start."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from squaresvm import RLSSVC, LagrangianSVC, Status
from support import oracle, problems

M = 30
LIMIT = 100_000


@pytest.fixture(scope="module")
def compiled():
    from squaresvm.solvers import _loops as compiled

    return compiled


def small_problem():
    X = problems.rows(m=M)
    K = oracle.kernel_matrix("rbf", X, X, gamma=0.4)
    return K, problems.signs(X), 5.0 * problems.weights_of("mixed", M)


@pytest.mark.parametrize("beyond", [1.0, 1.25, 1.9])
@pytest.mark.parametrize("A", [0.3, oracle.NONE], ids=["penalised", "none"])
def test_single_updates_end_at_the_optimum(compiled, A, beyond):
    K, y, costs = small_problem()
    inverse_A = 0.0 if A == oracle.NONE else 1.0 / A
    beta, gradient, ridge = np.zeros(M), -y, 1.0 / costs
    h = np.diagonal(K) + ridge + inverse_A
    shift, drift = np.full(M, inverse_A), np.zeros(M)
    updates, missing = compiled.greedy_updates(
        K.ravel(), M, np.arange(M), beyond / h, ridge, shift, drift, beta, gradient, y, h, 1e-10, LIMIT
    )
    assert missing == -1
    best = oracle.solve(K, y, costs, oracle.HINGE, A)
    assert updates < LIMIT
    np.testing.assert_allclose(beta, best.beta, rtol=0, atol=1e-8)
    # The gradient was carried along all the way.
    np.testing.assert_allclose(gradient, K @ beta + beta * ridge + inverse_A * beta.sum() - y, atol=1e-12)


def test_updates_of_pairs_end_at_the_optimum(compiled):
    K, y, costs = small_problem()
    beta, gradient, ridge = np.zeros(M), -y, 1.0 / costs
    h = np.diagonal(K) + ridge
    updates, *missing = compiled.pairwise_updates(
        K.ravel(), M, np.arange(M), h, ridge, 0.0, y, beta, gradient, 1e-10, 100_000
    )
    assert missing == [-1, -1]
    best = oracle.solve(K, y, costs, oracle.HINGE, oracle.FREE)
    assert updates < 100_000
    np.testing.assert_allclose(beta, best.beta, rtol=0, atol=1e-8)
    assert abs(beta.sum()) < 1e-12
    assert (y * beta >= 0).all()


def test_updates_stop_when_told(compiled):
    K, y, costs = small_problem()
    beta, ridge = np.zeros(M), 1.0 / costs
    h = np.diagonal(K) + ridge
    none = np.zeros(M)
    done, _ = compiled.greedy_updates(
        K.ravel(), M, np.arange(M), 1.0 / h, ridge, none, none, beta, -y, y, h, 1e-10, 3
    )
    assert done == 3
    assert 1 <= np.count_nonzero(beta) <= 3


@pytest.mark.parametrize("cls", [RLSSVC, LagrangianSVC], ids=lambda cls: cls.__name__)
def test_large_problems_end_at_the_same_optimum(cls):
    """More rows than the 2,000 up to which nothing is compiled."""
    X = problems.rows(m=2100, n=5)
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * problems.rows(m=2100, n=1, seed=7)[:, 0] > 0, 1, -1)
    model = cls(C=2.0, gamma=0.2).fit(X, y)
    assert model.certificate_.status is Status.CONVERGED
    assert model.certificate_.gap <= 1e-9 * model.certificate_.objective
    if cls is RLSSVC:
        K = rbf_kernel(X, gamma=0.2)
        peer = SVC(kernel="precomputed", C=1e12, tol=1e-6).fit(K + np.eye(2100) / 2.0, y)
        np.testing.assert_allclose(
            model.decision_function(X[:200]), peer.decision_function(K[:200]), rtol=0, atol=1e-4
        )


def test_small_fits_import_no_compiler():
    """Numba takes half a second to import and more to compile: not for m <= 2,000."""
    code = (
        "import sys, numpy as np, squaresvm as s\n"
        "X = np.random.default_rng(0).normal(size=(50, 3)); y = np.sign(X[:, 0])\n"
        "for cls in (s.LSSVC, s.RLSSVC, s.LagrangianSVC, s.ProximalSVC, s.RelaxedLSSVC, s.LSSVR):\n"
        "    for kernel in ('linear', 'rbf'):\n"
        "        cls(kernel=kernel).fit(X, y).predict(X)\n"
        "print(sorted({'numba', 'dask', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
