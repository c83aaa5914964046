"""Each correction at the papers' own parameters and at others: as printed, formulas miss the optimum.

What ends where is told by the problem's certificate: a formula is right if its residual is that of rounding.
"""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator
from squaresvm.solution import Solution
from squaresvm.solvers import Direct, SesquiSmo, Substitution, Sumt, TwoSmo
from support import oracle, problems

M = 50
#: gamma, C and A: those of the relaxed paper's Table 1, and others.
PLACES = [(1.0, 1.0, 1e4), (0.3, 2.0, 0.5), (0.05, 100.0, 3.0), (1.0, 0.05, 0.02)]
places = pytest.mark.parametrize(("gamma", "C", "A"), PLACES)
RIGHT, WRONG = 1e-9, 1e-5


class Place:
    """Unbalanced points, so that the bias matters, with the matrices of the formulas."""

    def __init__(self, gamma, C, A, loss=oracle.SQUARED):
        X = problems.rows(m=M)
        self.y = np.where(problems.signs(X) + (np.arange(M) % 3 == 0) > 0, 1.0, -1.0)
        operator = DenseOperator(Kernel("rbf", gamma=gamma), X)
        self.K = oracle.kernel_matrix("rbf", X, X, gamma=gamma)
        self.C, self.A, self.D, self.e = C, A, np.diag(self.y), np.ones(M)
        self.problem = problems.problem_of(operator, self.y, np.full(M, C), loss, A)
        self.best = oracle.solve(self.K, self.y, np.full(M, C), loss, A)
        self.H = self.K + np.eye(M) / C

    def residual(self, beta, b=None):
        bias = beta.sum() / self.A if b is None else b
        return self.problem.certify(Solution(beta=beta[:, None], bias=np.array([bias])), 1e-6).residual


@places
def test_21_needs_the_labels_in_front_of_1_over_a(gamma, C, A):
    at = Place(gamma, C, A)
    ends = [at.D @ at.H @ at.D + 1.0 / A, at.D @ (at.H + 1.0 / A) @ at.D]
    printed, right = (at.residual(at.y * np.linalg.solve(Q, at.e)) for Q in ends)
    assert right < RIGHT
    assert printed > WRONG


@places
def test_28_to_31_need_lambda_over_c(gamma, C, A):
    """The point where no update moves any more: H without its ridge, or with it."""
    at = Place(gamma, C, A)
    fixed = [np.linalg.lstsq(at.H - shift + 1.0 / A, at.y)[0] for shift in (np.eye(M) / C, np.zeros((M, M)))]
    printed, right = (at.residual(beta) for beta in fixed)
    assert right < RIGHT
    assert printed > WRONG
    found = TwoSmo().solve(at.problem, tol=RIGHT, max_iter=None)
    np.testing.assert_allclose(found.beta[:, 0], at.best.beta, atol=1e-6 * abs(at.best.beta).max())


@places
def test_step_1_needs_the_label_in_front_of_f(gamma, C, A):
    at = Place(gamma, C, A)
    lam = at.y * at.best.beta
    np.testing.assert_allclose(lam, C * (1.0 - at.y * at.best.decision), atol=1e-7 * C)
    assert (abs(lam - C * (1.0 - at.best.decision))[at.y < 0] > WRONG * C).all()


@places
def test_7_needs_the_labels_beside_k(gamma, C, A):
    at = Place(gamma, C, oracle.FREE)
    for G, is_right in ((at.D @ at.K @ at.D, True), (at.K, False)):
        left = np.block([[np.zeros((1, 1)), -at.y[None]], [at.y[:, None], G + np.eye(M) / C]])
        solved = np.linalg.solve(left, np.append(0.0, at.e))
        assert (at.residual(at.y * solved[1:], solved[0]) < RIGHT) == is_right
    found = Direct().solve(at.problem, tol=RIGHT, max_iter=None)
    np.testing.assert_allclose(found.beta[:, 0], at.best.beta, atol=1e-7 * abs(at.best.beta).max())


@places
def test_10_needs_the_labels_in_front_of_w(gamma, C, A):
    at = Place(gamma, C, 1.0)
    v = np.linalg.solve(np.eye(M) / C + at.D @ (at.K @ at.K.T + 1.0) @ at.D, at.e)
    w, b, q = at.D @ at.K.T @ at.D @ v, at.e @ at.D @ v, v / C
    assert abs(at.D @ (at.K @ at.D @ w + b) + q - at.e).max() < 1e-8
    assert abs(at.D @ at.K @ w + b + q - at.e).max() > WRONG


@places
def test_31_must_be_cut_for_sesquismo(gamma, C, A):
    """Not cut, it ends at the squared loss's optimum: no answer where that has a multiplier below 0."""
    at, loss = Place(gamma, C, A, oracle.HINGE), Place(gamma, C, A)
    below = (at.y * loss.best.beta < -WRONG).any()
    assert (at.residual(loss.best.beta) > WRONG) == below
    found = SesquiSmo().solve(at.problem, tol=RIGHT, max_iter=None)
    assert (at.y * found.beta[:, 0] >= 0).all()
    np.testing.assert_allclose(found.beta[:, 0], at.best.beta, atol=1e-6 * abs(at.best.beta).max())


def test_31_not_cut_is_wrong_at_one_of_these_places():
    assert sum((Place(*place).best.beta * Place(*place).y < -WRONG).any() for place in PLACES) >= 1


@places
def test_42_at_a_large_a_has_all_but_no_bias(gamma, C, A):
    """b = 1'beta / A: at the paper's A it is not the LS-SVM's, and towards 0 it becomes that."""
    free = Place(gamma, C, oracle.FREE).best.bias
    large = Place(gamma, C, 1e4).best.bias
    assert abs(large) < 0.02 * abs(free)
    assert abs(Place(gamma, C, 1e-4).best.bias - free) < 0.02 * abs(free)


@places
def test_43_needs_the_slack(gamma, C, A):
    at = Place(gamma, C, oracle.FREE)
    printed = at.y - at.K @ at.best.beta
    right = printed - at.best.beta / C
    np.testing.assert_allclose(right, at.best.bias, atol=1e-7)
    assert np.ptp(printed) > WRONG  # Each row gives another bias.
    found = Sumt(bias="rows").solve(at.problem, tol=1e-8, max_iter=None)
    assert found.bias[0] == pytest.approx(at.best.bias, abs=1e-6)


@places
def test_44_is_exact_from_the_size_of_the_bias_on(gamma, C, A):
    at = Place(gamma, C, oracle.FREE)
    u, v = np.linalg.solve(at.H, at.e), np.linalg.solve(at.H, at.y)
    for share, is_exact in ((0.5, False), (0.99, False), (1.01, True), (100.0, True)):
        s = np.clip(v.sum() / u.sum(), -share * abs(at.best.bias), share * abs(at.best.bias))
        assert (at.residual(v - s * u, s) < RIGHT) == is_exact


@places
def test_58_misses_with_any_alpha_but_0(gamma, C, A):
    at = Place(gamma, C, oracle.FREE)
    G, yy = at.D @ at.H @ at.D, np.outer(at.y, at.y)
    bound = float(at.y @ G @ at.y) / M**2
    for alpha in (0.0, 1.0 / M, 4.0 / M):
        W = G + (alpha - 2.0 / M) * yy @ G + 3.0 * bound * yy
        W = 0.5 * (W + W.T)
        assert np.linalg.eigvalsh(W)[0] > 0
        d = at.e - at.y * at.y.sum() / M  # (53)
        moved = 0.5 * alpha * (at.y.sum() - M * at.best.bias) * at.y
        assert at.residual(at.y * np.linalg.solve(W, d + moved), at.best.bias) < 1e-8
        assert (at.residual(at.y * np.linalg.solve(W, d), at.best.bias) < 1e-8) == (alpha == 0.0)
        found = Substitution(alpha=alpha).solve(at.problem, tol=1e-8, max_iter=50_000)
        assert at.problem.certify(found, 1e-8).residual <= 1e-8


@places
def test_rlssvm_20_and_21_need_c_twice(gamma, C, A):
    rng = np.random.default_rng(1)
    P, S = rng.normal(size=(M, 4)), np.diag((np.arange(M) % 2).astype(float))

    def w_of(S):
        return C * np.linalg.solve(np.eye(4) + C * P.T @ S @ P, P.T @ S @ np.ones(M))

    w, inverse, row = w_of(S), np.linalg.inv(np.eye(4) + C * P.T @ S @ P), P[4]
    for delta in (1.0, 0.3):
        changed = S.copy()
        changed[4, 4] += delta
        error, way, reach = 1.0 - row @ w, inverse @ row, row @ inverse @ row
        right = w + C * delta * error * way / (1 + C * delta * reach)
        printed = w + delta * error * way / (1 + delta * reach)
        np.testing.assert_allclose(right, w_of(changed), atol=1e-10)
        assert (abs(printed - w_of(changed)).max() > WRONG) == (C != 1.0)


def test_the_cyclic_order_crawls_at_ordinary_kernels():
    """Standardised columns, gamma = 1/n, C = 1: the large eigenvector of K is its worst case."""
    X = problems.rows("random", m=300)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    operator = DenseOperator(Kernel("rbf", gamma=1.0 / X.shape[1]), X)
    problem = problems.problem_of(operator, problems.signs(X), np.ones(300), oracle.SQUARED, 1e4)
    updates = {
        rule: TwoSmo(plain=rule).solve(problem, tol=1e-3, max_iter=3000).work["updates"]
        for rule in ("cyclic", "random", "largest")
    }
    assert updates["cyclic"] > 3 * updates["random"] > 3 * updates["largest"]
