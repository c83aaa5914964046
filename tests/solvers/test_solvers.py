"""Exact solvers beyond the table of ``test_contract.py``: columns, starts, limits, and the choice."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from squaresvm.operators import LinearOperator
from squaresvm.solution import Solution, Status
from squaresvm.solvers.choose import SOLVERS, choose
from support import oracle, problems
from support.contract import (
    EXACT,
    GOOD,
    TOL,
    Cell,
    M,
    assert_is_the_optimum,
    assert_mismatch_is_declared,
    facts_of,
)

EPS = np.finfo(float).eps


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("A", problems.BIASES.values(), ids=problems.BIASES.keys())
@pytest.mark.parametrize("loss", [oracle.SQUARED, oracle.HINGE])
def test_optimum_known_by_construction(name, loss, A, C):
    known = problems.known(loss, A, C)
    solver, problem = SOLVERS[name], known.problem
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    solution = solver.solve(problem, tol=TOL, max_iter=None)
    accuracy = max(1e-8, 100 * EPS * oracle.condition(known.K, known.costs, A))
    np.testing.assert_allclose(solution.beta[:, 0], known.beta, rtol=0, atol=accuracy * abs(known.beta).max())
    assert solution.bias[0] == pytest.approx(known.bias, abs=accuracy)
    assert problem.certify(solution, TOL).status in GOOD


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("bias", problems.BIASES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("loss", [oracle.SQUARED, oracle.HINGE])
def test_columns_are_solved_as_if_alone(name, loss, kernel, bias):
    X, W = problems.rows(m=M), problems.weights_of("mixed", M)
    Y = np.column_stack([problems.signs(X, seed=seed) for seed in (0, 3, 4)])
    case, A = problems.CASES[kernel](X, W), problems.BIASES[bias]
    problem = problems.problem_of(case.operator, Y, 10.0 * W, loss, A)
    solver = SOLVERS[name]
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    solution = solver.solve(problem, tol=TOL, max_iter=None)
    beta, decision = problem.multipliers(solution), problem.decision(solution)
    assert beta.shape == decision.shape == (M, 3)
    assert solution.bias.shape == (3,)
    for column in range(3):
        best = oracle.solve(case.K, Y[:, column], 10.0 * W, loss, A)
        np.testing.assert_allclose(beta[:, column], best.beta, rtol=0, atol=1e-8 * abs(best.beta).max())
        np.testing.assert_allclose(decision[:, column], best.decision, rtol=0, atol=1e-8)
        assert solution.bias[column] == pytest.approx(best.bias, abs=1e-8)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("A", [1e-6, 1e6], ids=["all-but-free", "all-but-none"])
@pytest.mark.parametrize("loss", [oracle.SQUARED, oracle.HINGE])
def test_extreme_penalties_of_the_bias(name, loss, A, kernel):
    """The bias is kept apart from H, so a small A costs no more digits than a free bias does."""
    X, W = problems.rows(m=M), problems.weights_of("mixed", M)
    case, y = problems.CASES[kernel](X, W), problems.signs(X)
    problem = problems.problem_of(case.operator, y, W, loss, A)
    solver = SOLVERS[name]
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    solution = solver.solve(problem, tol=TOL, max_iter=None)
    best = oracle.solve(case.K, y, W, loss, A)
    np.testing.assert_allclose(problem.decision(solution)[:, 0], best.decision, rtol=0, atol=1e-8)
    assert problem.certify(solution, TOL).status in GOOD


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("loss", [oracle.SQUARED, oracle.HINGE])
@pytest.mark.parametrize("where", ["optimum", "elsewhere"])
def test_a_start_changes_nothing_but_the_way(name, kernel, loss, where):
    cell = Cell(loss, oracle.FREE, kernel, "mixed", 1e4)
    problem = cell.problem()
    solver = SOLVERS[name]
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    best = facts_of(cell).best
    beta = best.beta if where == "optimum" else 100.0 * np.random.default_rng(0).normal(size=M)
    start = Solution(beta=beta[:, None], bias=np.array([best.bias]))
    solution = solver.solve(problem, tol=TOL, max_iter=None, start=start)
    assert_is_the_optimum(cell, problem, solution)
    cold = solver.solve(cell.problem(), tol=TOL, max_iter=None)
    assert where != "optimum" or solution.n_iter <= cold.n_iter


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kernel", ["linear", "cubic"])
def test_max_iter_is_kept_and_the_residual_stays_honest(name, kernel):
    """At C = 1e8 no search is done after one iteration; what it returns is judged as it is."""
    cell = Cell(oracle.HINGE, oracle.FREE, kernel, "mixed", 1e8)
    problem, facts = cell.problem(), facts_of(cell)
    solver = SOLVERS[name]
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    solution = solver.solve(problem, tol=TOL, max_iter=1)
    assert solution.n_iter == 1
    certificate = problem.certify(solution, TOL)
    assert certificate.status is Status.MAX_ITER
    beta, bias = problem.multipliers(solution)[:, 0], solution.bias[0]
    true = oracle.residual(facts.K, facts.y, facts.costs, cell.loss, cell.A, beta, bias)
    assert certificate.residual == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", [831, 1180])
def test_a_set_without_rows_on_the_way(name, seed):
    """All rows are beyond the margin after one of the steps: the paper divides by zero there."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(3, 12)), int(rng.integers(1, 3))
    X = rng.normal(size=(m, n)) * 10 ** rng.uniform(-1, 2)
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    costs = np.full(m, 10 ** rng.uniform(-2, 8))
    problem = problems.problem_of(LinearOperator(X), y, costs, oracle.HINGE, oracle.FREE)
    solver = SOLVERS[name]
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    solution = solver.solve(problem, tol=TOL, max_iter=None)
    best = oracle.solve(X @ X.T, y, costs, oracle.HINGE, oracle.FREE)
    np.testing.assert_allclose(problem.decision(solution)[:, 0], best.decision, rtol=0, atol=1e-6)
    assert problem.certify(solution, TOL).status in GOOD


def every_kind():
    """Yield a problem of each loss, bias and kernel."""
    losses, biases = (oracle.SQUARED, oracle.HINGE), problems.BIASES.values()
    for loss, A, kernel in product(losses, biases, problems.CASES):
        yield Cell(loss, A, kernel, "equal", 1.0).problem()


class TestChoice:
    def test_auto_fits_and_says_why(self):
        for problem in every_kind():
            solver, reason = choose(problem, "auto")
            assert solver.accepts(problem)
            assert str(problem.loss) in reason
            assert str(M) in reason

    def test_by_name_and_by_object(self):
        problem = Cell(oracle.SQUARED, oracle.FREE, "rbf", "equal", 1.0).problem()
        assert choose(problem, "direct") == (SOLVERS["direct"], "asked for by name")
        assert choose(problem, SOLVERS["direct"])[0] is SOLVERS["direct"]

    def test_every_problem_has_a_solver(self):
        for problem in every_kind():
            assert any(solver.accepts(problem) for solver in SOLVERS.values())

    def test_names_are_the_keys(self):
        assert {name: solver.name for name, solver in SOLVERS.items()} == {name: name for name in SOLVERS}
