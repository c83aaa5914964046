"""Newton's method by passes ends at the optimum that other routes find, from anywhere."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import RidgeClassifier
from sklearn.svm import LinearSVC

from squaresvm import LSSVC, LagrangianSVC, Status
from squaresvm.datasets import make_ndc
from squaresvm.operators import LinearOperator
from squaresvm.problem import Loss, Problem
from squaresvm.problem import runners as memory
from squaresvm.solution import Solution
from squaresvm.solvers import newton
from squaresvm.solvers.newton import Newton
from support import oracle, problems
from support.linear_optima import assert_optimal, exact_rows, problem_of

every_loss = pytest.mark.parametrize("loss", problems.LOSSES, ids=str)
every_bias = pytest.mark.parametrize("A", problems.BIASES.values(), ids=list(problems.BIASES))


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize("kind", ["random", "duplicated", "constant", "deficient"])
@every_bias
@every_loss
def test_any_cost_and_any_rows(loss, A, kind, C):
    Z = exact_rows(kind)
    y = problems.signs(Z) if loss == oracle.HINGE else Z[:, 1] + np.sin(np.arange(16.0))
    assert_optimal(Z, y, C * problems.weights_of("mixed", 16), loss, A, close=1e-6)


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e8])
@every_bias
def test_rows_that_a_plane_separates(A, C):
    Z = exact_rows()
    y = np.where(Z[:, 0] > 0.1, 1.0, -1.0)
    Z[:, 0] += 0.5 * y
    assert_optimal(Z, y, np.full(16, C), oracle.HINGE, A, close=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
@every_bias
def test_bad_starts(A, size):
    Z = exact_rows()
    rng = np.random.default_rng(1)
    bias = np.zeros(1) if A == oracle.NONE else size * rng.normal(size=1)
    start = Solution(primal=size * rng.normal(size=(3, 1)), bias=bias)
    assert_optimal(Z, problems.signs(Z), np.full(16, 10.0), oracle.HINGE, A, start)


@pytest.mark.parametrize("A", [0.3, oracle.NONE], ids=["penalised", "none"])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e8])
@every_loss
def test_one_row(loss, A, C):
    assert_optimal(np.array([[2.0]]), np.array([-1.0]), np.array([C]), loss, A)


def test_a_start_in_multipliers():
    Z = exact_rows()
    y = problems.signs(Z)
    assert_optimal(
        Z, y, np.ones(16), oracle.HINGE, 0.3, Solution(beta=5.0 * y[:, None], bias=np.array([2.0]))
    )


# Many rows -----------------------------------------------------------------------------------------------


@pytest.fixture(params=["plain", "thinned", "compiled and thinned", "streamed sample"])
def route(request, monkeypatch):
    """Send small problems the ways that only large ones go."""
    if request.param != "plain":
        monkeypatch.setattr(newton, "_LEAST_SAMPLE", 60)
        monkeypatch.setattr(newton, "_SAMPLE_A_FEATURE", 1)
    if "thinned" in request.param:
        monkeypatch.setattr(memory, "_MANY_ROWS", 100)
    if "compiled" in request.param:
        monkeypatch.setattr(memory, "COMPILED_SIZE", 1)
    return request.param


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize("form", [np.array, np.float32, sp.csr_matrix], ids=["float64", "float32", "CSR"])
def test_many_rows_against_liblinear(route, form, C):
    X, y = make_ndc(3000, 6, random_state=1)
    X = form(X / np.abs(X).max(axis=0))
    ours = LagrangianSVC(C=C, kernel="linear").fit(X, y)
    rows = X if sp.issparse(X) else X.astype(np.float64)
    peer = LinearSVC(C=C / 2, dual=False, tol=1e-12, max_iter=10_000).fit(rows, y)
    assert ours.solver_ == "newton"
    assert ours.certificate_.status is Status.CONVERGED
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4])
@every_bias
def test_a_thinned_hessian_ends_where_the_full_one_does(A, C, monkeypatch):
    X, y = make_ndc(2000, 5, random_state=2)
    X /= np.abs(X).max(axis=0)
    costs = C * problems.weights_of("mixed", 2000)
    full = Newton().solve(problem_of(X, y, costs, oracle.HINGE, A), tol=1e-9, max_iter=None)
    monkeypatch.setattr(newton, "_LEAST_SAMPLE", 40)
    monkeypatch.setattr(newton, "_SAMPLE_A_FEATURE", 1)
    monkeypatch.setattr(memory, "_MANY_ROWS", 100)
    problem = problem_of(X, y, costs, oracle.HINGE, A)
    found = Newton().solve(problem, tol=1e-9, max_iter=None)
    assert problem.certify(found, tol=1e-9).status in (Status.CONVERGED, Status.PRECISION)
    np.testing.assert_allclose(problem.decision(found), problem.decision(full), rtol=0, atol=1e-7)


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_squared_loss_against_ridge_regression(C, compiled, monkeypatch):
    if compiled:
        monkeypatch.setattr(memory, "COMPILED_SIZE", 1)
    X, y = make_ndc(1000, 6, random_state=3)
    weights = problems.weights_of("mixed", 1000)
    ours = LSSVC(C=C, kernel="linear").fit(X, y, weights)
    peer = RidgeClassifier(alpha=1.0 / C, solver="cholesky").fit(X, y, weights)
    np.testing.assert_allclose(ours.coef_[0], peer.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, rtol=1e-7, atol=1e-10)


def test_several_columns_are_those_of_each_alone():
    X = problems.rows(m=300, n=4)
    codes = np.digitize(X[:, 0] + 0.5 * X[:, 1], [-0.5, 0.6])
    targets = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    costs = 3.0 * problems.weights_of("mixed", 300)
    bias = problems.bias_of(oracle.FREE)
    together = Problem(LinearOperator(X), targets, costs, Loss.SQUARED_HINGE, bias)
    found = Newton().solve(together, tol=1e-9, max_iter=None)
    for j in range(3):
        alone = Newton().solve(together.column(j), tol=1e-9, max_iter=None)
        np.testing.assert_allclose(found.primal[:, [j]], alone.primal, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.bias[[j]], alone.bias, rtol=0, atol=1e-9)


@pytest.mark.parametrize("C", [0.03, 1.0, 5.0])
@pytest.mark.parametrize("A", [0.3, 1.0, 4.0])
def test_the_fixed_point_of_the_paper_and_newton_agree(A, C):
    X, y = make_ndc(500, 4, random_state=4)
    X /= np.abs(X).max(axis=0)
    found = [
        LagrangianSVC(C=C, A=A, kernel="linear", solver=solver, tol=1e-10, max_iter=20_000).fit(X, y)
        for solver in ("lagrangian", "newton")
    ]
    np.testing.assert_allclose(found[0].coef_, found[1].coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found[0].intercept_, found[1].intercept_, rtol=0, atol=1e-8)
