"""How the single updates begin: all multipliers at once, where K is close to its diagonal."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.linalg

from squaresvm.kernels import Kernel
from squaresvm.operators import OnDemandOperator, PrecomputedOperator, RowCache
from squaresvm.solvers.base import Crawling
from squaresvm.solvers.block_cg import conjugate_steps
from squaresvm.solvers.smo import beside_diagonal
from squaresvm.solvers.two_smo import FIRST_STEPS

M = 30


def system(seed, beside):
    """A definite matrix with so much beside its diagonal, and targets."""
    random = np.random.default_rng(seed)
    root = random.normal(size=(M, M))
    return np.diag(random.uniform(1.0, 3.0, M)) + beside * root @ root.T / M, random.choice([-1.0, 1.0], M)


def steps(gradient, scales, product, count=FIRST_STEPS):
    """Return where each conjugate step arrives, and the gradient there."""
    found = []
    conjugate_steps(gradient, scales, product, count, lambda *where: found.append(where))
    return found


@pytest.mark.parametrize("beside", [0.01, 1.0, 100.0])
def test_steps_are_those_of_conjugate_gradients(beside):
    H, y = system(0, beside)
    inverse_h = 1.0 / np.diagonal(H)
    found = steps(-y, inverse_h, lambda beta: H @ beta)
    assert len(found) == 3
    for count, (beta, gradient) in enumerate(found, start=1):
        expected, _ = scipy.sparse.linalg.cg(H, y, maxiter=count, rtol=0.0, M=np.diag(inverse_h))
        np.testing.assert_allclose(beta, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(gradient, H @ beta - y, rtol=1e-9, atol=1e-9 * (1.0 + beside))


def test_no_step_where_there_is_nothing_to_gain_or_no_minimum():
    H, y = system(1, 1.0)
    inverse_h = 1.0 / np.diagonal(H)
    assert steps(np.zeros(M), inverse_h, lambda beta: H @ beta) == []
    assert steps(-y, inverse_h, lambda beta: -(H @ beta)) == []


def test_who_is_near_its_diagonal():
    near, far = np.eye(M) + 0.1, np.eye(M) + 1.0
    for K, expected in ((near, True), (far, False), (np.eye(1), True)):
        rows = RowCache(PrecomputedOperator(K), 2**20)
        assert (beside_diagonal(rows, 1.0 / np.diagonal(K)) < 1.0) is expected
    on_demand = OnDemandOperator(Kernel("rbf", gamma=1e6), np.arange(float(M))[:, None])
    assert np.isnan(beside_diagonal(RowCache(on_demand, 2**20), np.ones(M)))


@pytest.mark.parametrize("rank", [1, 3, 10])
def test_a_low_rank_needs_one_step_more_than_its_rank(rank):
    random = np.random.default_rng(rank)
    Z, y = random.normal(size=(M, rank)), random.choice([-1.0, 1.0], M)
    costs = 10.0 ** random.uniform(-1, 1, M)
    H = Z @ Z.T + np.diag(1.0 / costs)
    found = [beta for beta, _ in steps(-y, costs, lambda beta: H @ beta, rank + 1)]
    before, last = (np.abs(H @ beta - y).max() for beta in found[-2:])
    assert last < 1e-6
    assert before > 1e3 * last


def test_a_scale_of_zero_holds_a_multiplier():
    H, y = system(2, 1.0)
    free = np.arange(M) % 3 > 0
    *_, (beta, gradient) = steps(-y, free.astype(float), lambda beta: H @ beta, M)
    assert (beta[~free] == 0.0).all()
    np.testing.assert_allclose(beta[free], np.linalg.solve(H[np.ix_(free, free)], y[free]), rtol=1e-6)
    np.testing.assert_allclose(gradient, H @ beta - y, atol=1e-9)


def test_who_crawls():
    assert not any(Crawling(10).after(0.7**sweep) for sweep in range(100))
    slow, crawling = Crawling(10), [False] * 10 + [True]
    assert [slow.after(0.99**sweep) for sweep in range(33)] == 3 * crawling
