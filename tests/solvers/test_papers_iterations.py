"""The plain iteration of the RLSSVM paper, and the implicit Lagrangian of the LSVM paper."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from sklearn.exceptions import ConvergenceWarning

from squaresvm import RLSSVC
from squaresvm.operators import PrecomputedOperator
from squaresvm.solvers import ActiveSet, Lagrangian
from squaresvm.solvers.lagrangian import implicit_lagrangian
from support import oracle, problems


def problem_of(A, C, m=20, kernel="rbf"):
    """Return a problem of the squared hinge and its optimum."""
    X = problems.rows("random", m=m)
    K = problems.CASES[kernel](X, np.ones(m)).K
    system = (K, problems.signs(X), C * problems.weights_of("mixed", m), oracle.HINGE, A)
    return problems.problem_of(PrecomputedOperator(K), *system[1:]), oracle.solve(*system)


class TestPlainSets:
    @pytest.mark.parametrize("reuse", ["hybrid", "switches", "refactor"])
    @pytest.mark.parametrize("A", [oracle.FREE, 0.3, oracle.NONE])
    @pytest.mark.parametrize("C", [1e-6, 0.1, 1.0, 100.0])
    def test_it_ends_at_the_optimum(self, reuse, A, C):
        problem, best = problem_of(A, C)
        found = ActiveSet(plain=True, reuse=reuse).solve(problem, tol=1e-9, max_iter=None)
        assert found.outcome == "finished"
        assert found.n_iter <= 10  # As the paper says of its own problems.
        np.testing.assert_allclose(found.beta[:, 0], best.beta, atol=1e-8 * max(1e-3, abs(best.beta).max()))
        assert problem.certify(found, 1e-9).residual <= 1e-9

    def test_where_it_goes_round_it_says_so_and_the_line_search_does_not(self):
        went_round = 0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(20, 4))
            y = np.where(X[:, 0] + 0.3 * rng.normal(size=20) > 0, 1, -1)
            K = X @ X.T
            model = RLSSVC(kernel="precomputed", C=1e4, solver=ActiveSet(plain=True))
            try:
                model.fit(K, y)
            except ConvergenceWarning:
                went_round += 1
                exact = RLSSVC(kernel="precomputed", C=1e4, solver="active-set").fit(K, y)
                assert exact.certificate_.status in ("converged", "precision")
        assert went_round >= 3

    def test_the_reason_tells_of_a_round(self):
        rng = np.random.default_rng(1)
        for _ in range(40):
            X = rng.normal(size=(20, 4))
            y = np.where(X[:, 0] + 0.3 * rng.normal(size=20) > 0, 1.0, -1.0)
            operator = PrecomputedOperator(X @ X.T)
            problem = problems.problem_of(operator, y, np.full(20, 1e4), oracle.HINGE, oracle.FREE)
            found = ActiveSet(plain=True).solve(problem, tol=1e-6, max_iter=None)
            if found.outcome == "max_iter":
                assert "goes round" in found.note
                assert problem.certify(found, 1e-6).status == "max_iter"
                return
        pytest.fail("none of forty problems goes round")

    def test_a_cap_below_the_number_of_support_vectors_mostly_goes_round(self):
        problem, best = problem_of(oracle.FREE, 1.0, m=40)
        count = int(np.count_nonzero(best.beta))
        enough = ActiveSet(plain=True, n_sv_max=count + 5).solve(problem, tol=1e-9, max_iter=None)
        np.testing.assert_allclose(enough.beta[:, 0], best.beta, atol=1e-7)
        small = ActiveSet(plain=True, n_sv_max=count // 2).solve(problem, tol=1e-9, max_iter=None)
        assert problem.certify(small, 1e-9).status == "max_iter"
        grown = ActiveSet(n_sv_max=count // 2).solve(problem, tol=1e-9, max_iter=None)
        np.testing.assert_allclose(grown.beta[:, 0], best.beta, atol=1e-7)


class TestImplicitLagrangian:
    @pytest.mark.parametrize("A", [0.3, oracle.NONE])
    @pytest.mark.parametrize("C", [0.2, 3.0])
    def test_gradient_and_minimum(self, A, C):
        problem, best = problem_of(A, C, m=12)
        y, everyone = problem.targets[:, 0], np.arange(12)
        H = problem.operator.block(everyone, everyone) + np.diag(problem.ridge) + 1.0 / A
        values = np.linalg.eigvalsh(H)
        small, large = 0.5 * values[0], 2.0 * values[-1]
        rng = np.random.default_rng(0)
        u, optimum = rng.normal(size=12), y * best.beta

        def at(u, alpha=large):
            return implicit_lagrangian(problem, y * u, alpha)

        dual = 0.5 * best.beta @ H @ best.beta - y @ best.beta  # (11)
        for alpha in (small, large):
            slope = approx_fprime(u, lambda u, alpha=alpha: at(u, alpha)[0], 1e-7)
            np.testing.assert_allclose(at(u, alpha)[1], slope, rtol=1e-4, atol=1e-4 * abs(slope).max())
            assert abs(at(optimum, alpha)[1]).max() < 1e-6 * values[-1] / alpha
            assert at(optimum, alpha)[0] == pytest.approx(dual, rel=1e-6)
        # Above the largest eigenvalue it is a minimum without any bound; with a small alpha a maximum.
        beside = [optimum + 1e-2 * rng.normal(size=12) for _ in range(20)]
        assert all(at(u)[0] > dual for u in beside)
        assert all(at(u, small)[0] < dual for u in beside)
        found = minimize(at, np.zeros(12), jac=True, method="BFGS", options={"maxiter": 5000, "gtol": 1e-8})
        np.testing.assert_allclose(y * found.x, best.beta, atol=1e-3 * max(1.0, abs(best.beta).max()))
        fixed_point = Lagrangian().solve(problem, tol=1e-9, max_iter=100_000)
        np.testing.assert_allclose(fixed_point.beta[:, 0], best.beta, atol=1e-6)
