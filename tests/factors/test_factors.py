"""Factors of M = [H, 1; 1', -A] against its exact inverse, and as rows come and go."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm.factors import CholeskyFactor, Moments, MomentsFactor
from squaresvm.family import Bias
from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator, KernelStore, PrecomputedOperator
from squaresvm.solution import Solution, Status
from support import oracle, problems

M = 17
EPS = np.finfo(float).eps
every_bias = pytest.mark.parametrize("A", problems.BIASES.values(), ids=problems.BIASES.keys())


def data(m=M, seed=0):
    """Return K, three columns of targets and costs."""
    X = problems.rows(m=m, seed=seed)
    Y = np.column_stack([problems.signs(X), np.sin(X[:, 0]), 5.0 + X[:, 1]])
    return oracle.kernel_matrix("rbf", X, X, gamma=0.4), Y, 7.0 * problems.weights_of("mixed", m)


def factor_of(K, costs, A):
    store = KernelStore(len(K), lambda rows, columns: K[rows, columns])
    return CholeskyFactor.build(store, np.arange(len(K)), 1.0 / costs, problems.bias_of(A))


def assert_solves(solution, K, Y, costs, A, accuracy=1e-10):
    for column, y in enumerate(Y.T):
        best = oracle.solve(K, y, costs, oracle.SQUARED, A)
        atol = accuracy * max(1.0, abs(best.beta).max())
        np.testing.assert_allclose(solution.beta[:, column], best.beta, rtol=0, atol=atol)
        assert solution.bias[column] == pytest.approx(best.bias, abs=accuracy * max(1.0, abs(best.bias)))


@every_bias
class TestCholesky:
    def test_solves_all_columns_at_once(self, A, block_size):
        K, Y, costs = data()
        factor = factor_of(K, costs, A)
        assert_solves(factor.solve(Y), K, Y, costs, A)
        assert factor.jitter == 0.0

    def test_residual_is_what_is_missing(self, A):
        K, Y, costs = data()
        rng = np.random.default_rng(0)
        beta, bias = rng.normal(size=(M, 3)), np.zeros(3) if A == oracle.NONE else rng.normal(size=3)
        rows, border = factor_of(K, costs, A).residual(Solution(beta=beta, bias=bias), Y)
        np.testing.assert_allclose(rows, Y - K @ beta - beta / costs[:, None] - bias, atol=1e-12)
        missing = 0.0 if A == oracle.NONE else A * bias - beta.sum(axis=0)
        np.testing.assert_allclose(border, np.broadcast_to(missing, 3), atol=1e-12)

    def test_one_refinement_repairs_a_spoilt_solution(self, A):
        K, Y, costs = data()
        factor = factor_of(K, costs, A)
        good = factor.solve(Y)
        spoilt = Solution(beta=good.beta * 1.01, bias=good.bias * 0.98)
        assert_solves(factor.refine(spoilt, Y), K, Y, costs, A)

    def test_diagonal_of_the_inverse(self, A, block_size):
        K, _, costs = data()
        expected = oracle.inverse_diagonal(K, costs, A)
        np.testing.assert_allclose(factor_of(K, costs, A).diag_inverse(), expected, rtol=1e-10)

    def test_leave_one_out(self, A):
        """y_i - f^(-i)(x_i) = beta_i / N_ii, against m fits."""
        K, Y, costs = data()
        factor = factor_of(K, costs, A)
        y = Y[:, 1]
        beta = factor.solve(Y).beta[:, 1]
        expected = oracle.leave_one_out(K, y, costs, oracle.SQUARED, A)
        np.testing.assert_allclose(y - beta / factor.diag_inverse(), expected, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("gone", [[4], [0, 16, 7], list(range(2, 14))], ids=len)
    def test_removed_rows(self, A, gone, block_size):
        K, Y, costs = data()
        factor = factor_of(K, costs, A)
        solution = factor.solve(Y)
        smaller, left = factor.remove(np.array(gone), solution)
        rest = np.setdiff1d(np.arange(M), gone)
        part = K[np.ix_(rest, rest)]
        assert_solves(left, part, Y[rest], costs[rest], A)
        assert_solves(smaller.solve(Y[rest]), part, Y[rest], costs[rest], A)
        expected = oracle.inverse_diagonal(part, costs[rest], A)
        np.testing.assert_allclose(smaller.diag_inverse(), expected, rtol=1e-9)
        # The view of before is as good as it was.
        assert_solves(factor.solve(Y), K, Y, costs, A)

    @pytest.mark.parametrize("count", [1, 3, 9])
    def test_appended_rows(self, A, count, block_size):
        K, Y, costs = data()
        held, new = np.arange(M - count), np.arange(M - count, M)
        operator = PrecomputedOperator(K[np.ix_(held, held)])
        factor = CholeskyFactor.build(
            operator.store(), operator.slots, 1.0 / costs[held], problems.bias_of(A)
        )
        solution = factor.solve(Y[held])
        joined, cross, corner = operator.joined(K[new])
        shortfall = Y[new] - cross.T @ solution.beta - solution.bias
        slots = joined.slots[-count:]
        larger, grown = factor.append(slots, cross, corner, 1.0 / costs[new], shortfall, solution)
        assert_solves(grown, K, Y, costs, A)
        assert_solves(larger.solve(Y), K, Y, costs, A)
        np.testing.assert_allclose(larger.diag_inverse(), oracle.inverse_diagonal(K, costs, A), rtol=1e-9)

    def test_many_removals_repaired_and_rebuilt(self, A, block_size):
        """Corrections wait, are worked in, wait again; a rebuilt factor ends at the same place."""
        K, Y, costs = data(40)
        operator = PrecomputedOperator(K)
        factor = CholeskyFactor.build(operator.store(), operator.slots, 1.0 / costs, problems.bias_of(A))
        solution, rest = factor.solve(Y), np.arange(40)
        for turn in range(20):
            position = (7 * turn) % rest.size
            factor, solution = factor.remove(np.array([position]), solution)
            rest = np.delete(rest, position)
            if turn % 6 == 5:
                factor = factor.repaired()
        part = K[np.ix_(rest, rest)]
        assert_solves(solution, part, Y[rest], costs[rest], A, accuracy=1e-9)
        assert_solves(factor.repaired().solve(Y[rest]), part, Y[rest], costs[rest], A, accuracy=1e-9)
        assert_solves(factor.rebuilt().solve(Y[rest]), part, Y[rest], costs[rest], A)


@every_bias
class TestSingularInFloatingPoint:
    """Equal rows at C = 1e8: K + diag(1/C) is definite on paper only."""

    def problem(self, A, C):
        X = problems.rows("duplicated", m=20)
        X[3] = X[0]
        K, y = oracle.kernel_matrix("rbf", X, X, gamma=0.4), np.sin(np.arange(20))
        return problems.problem_of(PrecomputedOperator(K), y, np.full(20, C), oracle.SQUARED, A), K

    @pytest.mark.parametrize("C", [1e8, 1e14, 1e17])
    def test_answers_with_a_residual_that_is_true(self, A, C):
        problem, K = self.problem(A, C)
        factor = factor_of(K, problem.costs, A)
        solution = factor.solve(problem.targets)
        for _ in range(3):
            solution = factor.refine(solution, problem.targets)
        assert np.isfinite(solution.beta).all()
        certificate = problem.certify(solution, tol=1e-6)
        true = oracle.residual(
            K, problem.targets[:, 0], problem.costs, oracle.SQUARED, A, solution.beta[:, 0], solution.bias[0]
        )
        slack = problem.rounding(solution)[0]
        assert certificate.residual == pytest.approx(true, rel=1e-3, abs=slack)
        assert C > 1e8 or certificate.status in (Status.CONVERGED, Status.PRECISION)
        assert factor.jitter <= 1e-9


@every_bias
@pytest.mark.parametrize("C", [1e3, 1e8])
def test_indefinite_matrices_are_refused(A, C):
    K, _, _ = data()
    lowest = np.linalg.eigvalsh(K)[0]
    with pytest.raises(ValueError, match="choose a positive semidefinite kernel, or a smaller C"):
        factor_of(K - (lowest + 0.01) * np.eye(M), np.full(M, C), A)


def test_a_ridge_that_makes_up_for_an_indefinite_kernel_is_enough():
    """What must be definite is H, not K."""
    K = -0.5 * np.eye(M)
    Y, costs = data()[1], np.ones(M)
    np.testing.assert_allclose(factor_of(K, costs, oracle.NONE).solve(Y).beta, 2.0 * Y, rtol=1e-12)


@every_bias
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
class TestMoments:
    """The same for linear models, in sums over rows."""

    def linear(self, m=M):
        X = problems.rows(m=m) + np.array([3.0, 0.0, -2.0])
        return X, *data(m)[1:]

    def test_minimum_is_the_solution_in_w(self, A, form, block_size):
        X, Y, costs = self.linear()
        w, b = MomentsFactor(Moments.of(form(X), costs, Y), problems.bias_of(A)).minimum()
        for column, y in enumerate(Y.T):
            best = oracle.solve(X @ X.T, y, costs, oracle.SQUARED, A)
            np.testing.assert_allclose(w[:, column], X.T @ best.beta, rtol=0, atol=1e-10)
            assert b[column] == pytest.approx(best.bias, abs=1e-10)

    def test_gradient_vanishes_there_and_is_the_derivative_elsewhere(self, A, form):
        X, Y, costs = self.linear()
        factor = MomentsFactor(Moments.of(form(X), costs, Y), problems.bias_of(A))
        for slope in factor.gradient(*factor.minimum()):
            np.testing.assert_allclose(slope, 0.0, atol=1e-9)
        w, b = np.full((3, 3), 0.2), np.zeros(3) if A == oracle.NONE else np.full(3, -0.3)
        error = costs[:, None] * (Y - X @ w - b)
        dw, db = factor.gradient(w, b)
        np.testing.assert_allclose(dw, w - X.T @ error, rtol=1e-10)
        # Without a bias there is no direction b to fall in.
        expected = np.zeros(3) if A == oracle.NONE else A * b - error.sum(axis=0)
        np.testing.assert_allclose(db, expected, rtol=1e-10)

    def test_leverage_gives_the_diagonal_of_the_inverse(self, A, form, block_size):
        X, Y, costs = self.linear()
        factor = MomentsFactor(Moments.of(form(X), costs, Y), problems.bias_of(A))
        diagonal = costs * (1.0 - costs * factor.leverage(form(X)))
        np.testing.assert_allclose(diagonal, oracle.inverse_diagonal(X @ X.T, costs, A), rtol=1e-8)

    def test_sums_add_and_subtract(self, A, form):
        X, Y, costs = self.linear(30)
        parts = [Moments.of(form(X[s]), costs[s], Y[s]) for s in (slice(0, 18), slice(18, 30))]
        joined = MomentsFactor(parts[0].plus(parts[1]), problems.bias_of(A)).minimum()
        whole = Moments.of(form(X), costs, Y)
        direct = MomentsFactor(whole, problems.bias_of(A)).minimum()
        rest = MomentsFactor(whole.minus(parts[1]), problems.bias_of(A)).minimum()
        alone = MomentsFactor(parts[0], problems.bias_of(A)).minimum()
        for found, expected in zip((*joined, *rest), (*direct, *alone), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)

    def test_no_rows_at_all(self, A, form):
        """Nothing but 1/2 |w|^2 is left: w goes to 0, and a free bias stays where it is."""
        nothing = Moments.of(form(np.empty((0, 3))), np.empty(0), np.empty((0, 1)))
        dw, db = MomentsFactor(nothing, problems.bias_of(A)).step(-np.ones((3, 1)), np.zeros(1))
        np.testing.assert_allclose(dw, -1.0)
        np.testing.assert_allclose(db, 0.0)


def test_large_means_cost_no_digits():
    """Sums around the means: 1e6 in every entry is no more than a shift of the bias."""
    X = problems.rows(m=M)
    _, Y, costs = data()
    near = MomentsFactor(Moments.of(X, costs, Y), problems.bias_of(oracle.FREE)).minimum()[0]
    far = MomentsFactor(Moments.of(X + 1e6, costs, Y), problems.bias_of(oracle.FREE)).minimum()[0]
    np.testing.assert_allclose(far, near, rtol=0, atol=1e-8)


def test_factor_shares_the_buffer_of_the_kernel():
    X = problems.rows(m=60)
    operator = DenseOperator(Kernel("rbf", gamma=0.4), X)
    factor = CholeskyFactor.build(operator.store(), operator.slots, np.ones(60), problems.bias_of(0.0))
    assert factor.inverse.store is operator.store()
    K = oracle.kernel_matrix("rbf", X, X, gamma=0.4)
    b = np.ones((60, 1))
    np.testing.assert_allclose(operator.matmul(b), K @ b, rtol=1e-12)


def test_a_hessian_of_large_columns_is_at_least_the_identity():
    """Sums of 1e19 have lost the one on the diagonal, and rounding has left a negative eigenvalue."""
    scatter = 1e19 * np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, -1e-3]])
    sums = Moments(2.0, np.zeros(3), scatter, np.zeros(1), np.ones((3, 1)), np.ones(1))
    w, _ = MomentsFactor(sums, Bias.none()).step(np.array([[1.0], [1.0], [1.0]]), np.zeros(1))
    np.testing.assert_allclose(w.ravel(), [0.5e-19, 0.5e-19, 1.0], rtol=1e-6, atol=1e-8)
