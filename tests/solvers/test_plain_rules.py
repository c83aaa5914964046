"""2SMO and SesquiSMO by the paper's plain rule, (43), and alpha of (55)-(58)."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm import LSSVC, LagrangianSVC, RelaxedLSSVC
from squaresvm.operators import PrecomputedOperator
from squaresvm.solvers import SesquiSmo, Substitution, Sumt, TwoSmo
from support import oracle, problems

M, TOL = 25, 1e-9
RULES = [("cyclic", True, 1), ("random", True, 1), ("largest", True, 1), ("cyclic", True, 4)]
RULES += [("random", True, 4), ("largest", True, 4), ("cyclic", False, 1), ("random", False, 3)]
LOSSES = [(oracle.SQUARED, TwoSmo), (oracle.HINGE, SesquiSmo)]


def problem_of(loss, A, C, m=M, kernel="rbf"):
    """Return a problem and its optimum."""
    X = problems.rows("random", m=m)
    K = problems.CASES[kernel](X, np.ones(m)).K
    system = (K, problems.signs(X), C * problems.weights_of("mixed", m), loss, A)
    return problems.problem_of(PrecomputedOperator(K), *system[1:]), oracle.solve(*system)


@pytest.mark.parametrize(("loss", "solver"), LOSSES)
@pytest.mark.parametrize(("plain", "checks", "parallel"), RULES)
@pytest.mark.parametrize(("A", "C"), [(1e4, 1.0), (0.3, 1.0), (1.0, 1e-6), (oracle.NONE, 3.0)])
def test_every_rule_ends_at_the_optimum(loss, solver, plain, checks, parallel, A, C):
    problem, best = problem_of(loss, A, C)
    rule = solver(plain=plain, checks=checks, parallel=parallel, seed=3)
    # Without checks it is the change that ends the updates: a finer tolerance gives the same certificate.
    found = rule.solve(problem, tol=TOL if checks else 1e-3 * TOL * C, max_iter=20_000)
    assert found.outcome == "finished"
    assert problem.certify(found, TOL).residual <= TOL
    scale = max(abs(best.beta).max(), 1e-12)
    np.testing.assert_allclose(found.beta[:, 0], best.beta, rtol=0, atol=1e-5 * scale)
    assert found.work["updates"] > 0


@pytest.mark.parametrize(("loss", "solver"), LOSSES)
@pytest.mark.parametrize("parallel", [2, 100])
def test_one_row_and_duplicated_rows(loss, solver, parallel):
    for kernel, m in (("rbf", 2), ("linear", 12)):
        problem, best = problem_of(loss, 0.7, 2.0, m=m, kernel=kernel)
        found = solver(plain="random", parallel=parallel).solve(problem, tol=TOL, max_iter=20_000)
        np.testing.assert_allclose(problem.decision(found)[:, 0], best.decision, atol=1e-6)


def test_small_a_costs_the_plain_rule_many_updates():
    """Figs. 1 and 2: the time falls with A, and levels off."""
    counts = []
    for A in (0.01, 1.0, 1e4):
        problem, _ = problem_of(oracle.SQUARED, A, 1.0, m=60)
        counts.append(TwoSmo(plain="largest").solve(problem, tol=1e-6, max_iter=20_000).work["updates"])
    assert counts[0] > 5 * counts[1] > 5 * counts[2]


def test_simultaneous_steps_overshoot_without_a_common_share():
    """The printed update, for all multipliers at once, is Jacobi's iteration: it diverges here."""
    problem, _ = problem_of(oracle.SQUARED, 0.1, 1.0)
    H = problem.operator.block(np.arange(M), np.arange(M)) + np.diag(problem.ridge) + 10.0
    jacobi = np.eye(M) - H / np.diag(H)[:, None]
    assert abs(np.linalg.eigvals(jacobi)).max() > 1.0
    found = TwoSmo(plain="cyclic", parallel=M).solve(problem, tol=1e-6, max_iter=20_000)
    assert problem.certify(found, 1e-6).residual <= 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plain": "best"}, "plain"),
        ({"checks": False}, "options of a plain rule"),
        ({"parallel": 2}, "options of a plain rule"),
        ({"plain": "cyclic", "parallel": 0}, "parallel"),
        ({"plain": "largest", "checks": False}, "needs checks=True"),
        ({"plain": "random", "seed": -1}, "seed"),
    ],
)
def test_bad_options(options, message):
    for solver in (TwoSmo, SesquiSmo):
        with pytest.raises(ValueError, match=message):
            solver(**options)


def test_estimators_and_rows_on_demand():
    X = problems.rows("random", m=40)
    y = problems.signs(X)
    for make, solver in ((RelaxedLSSVC, TwoSmo), (LagrangianSVC, SesquiSmo)):
        exact = make(A=2.0).fit(X, y)
        for plain in ("cyclic", "random", "largest"):
            model = make(A=2.0, solver=solver(plain=plain, memory=8 * 40 * 5), max_iter=5000).fit(X, y)
            assert model.solver_ == solver.name
            np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-4)


class TestBiasByRows:
    """(43): b from the rows themselves."""

    def test_the_slack_belongs_to_it(self):
        X = problems.rows("random", m=30)
        y = problems.signs(X)
        exact = LSSVC(C=0.5, gamma=0.4, tol=1e-10).fit(X, y)
        model = LSSVC(C=0.5, gamma=0.4, tol=1e-9, solver=Sumt(bias="rows")).fit(X, y)
        assert model.intercept_[0] == pytest.approx(exact.intercept_[0], abs=1e-7)
        beta = exact.dual_coef_[0]
        w_phi = exact.decision_function(X) - exact.intercept_[0]
        each = y - w_phi - beta / 0.5
        np.testing.assert_allclose(each, exact.intercept_[0], atol=1e-8)
        printed = y - w_phi  # Any row gives another b, and so does their mean over one class.
        assert np.ptp(printed) > 0.5
        assert abs(printed[y > 0].mean() - exact.intercept_[0]) > 0.1

    def test_bad_option(self):
        with pytest.raises(ValueError, match="bias"):
            Sumt(bias="mean")


class TestAlpha:
    """(55)-(58): alpha other than 0, with the correction of d."""

    @pytest.mark.parametrize("share", [0.5, 1.0, 2.0, -1.0, 3.0])
    @pytest.mark.parametrize("C", [0.1, 5.0])
    def test_every_alpha_ends_at_the_ls_svm(self, share, C):
        problem, best = problem_of(oracle.SQUARED, oracle.FREE, C)
        found = Substitution(alpha=share * 2.0 / M).solve(problem, tol=TOL, max_iter=20_000)
        assert problem.certify(found, TOL).residual <= TOL
        np.testing.assert_allclose(found.beta[:, 0], best.beta, atol=1e-6)
        assert found.bias[0] == pytest.approx(best.bias, abs=1e-7)

    def test_the_bound_of_the_penalty(self):
        problem, _ = problem_of(oracle.SQUARED, oracle.FREE, 2.0)
        for share in (0.0, 0.7, 4.0):
            everyone = np.arange(M)
            H = problem.operator.block(everyone, everyone) + np.diag(problem.ridge)
            s, alpha = H.sum(axis=1), share * 2.0 / M
            bound = (1.0 - share) ** 2 * H.mean()
            W = H + (0.5 * alpha - 1.0 / M) * np.add.outer(s, s) + bound * 1.0001
            assert np.linalg.eigvalsh(W)[0] > 0
            with pytest.raises(ValueError, match="penalty must be greater"):
                Substitution(alpha=alpha, penalty=0.9 * bound).solve(problem, tol=TOL, max_iter=None)
