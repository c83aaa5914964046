"""Every exact solver against every problem: the oracle's answer, or the declared mismatch.

The papers' own algorithms, which end at `tol` and no further, are in ``test_papers_algorithms.py``.
"""

from __future__ import annotations

import contextlib
from functools import cache
from itertools import product

import numpy as np
import pytest

from squaresvm.linalg.definite import NotPositiveSemidefiniteError
from squaresvm.operators import LinearOperator
from squaresvm.problem import Loss
from squaresvm.solution import Solution, Status
from squaresvm.solvers.choose import SOLVERS, choose
from support import oracle, problems

EPS = np.finfo(float).eps
#: Solvers that end at the exact optimum, whatever C is.
EXACT = ("direct", "active-set", "newton")
M = 18
TOL = 1e-8
GOOD = (Status.CONVERGED, Status.PRECISION)
CELLS = list(
    product(
        (oracle.SQUARED, oracle.HINGE),
        problems.BIASES,
        problems.CASES,
        ("equal", "mixed"),
        (1e-6, 1.0, 1e4, 1e8),
    )
)


@cache
def cell_of(loss, bias, kernel, weights, C, kind="random"):
    """Return operator-independent facts of a cell: K, y, costs, A, the optimum, the accuracy due."""
    X, W = problems.rows(kind, m=M), problems.weights_of(weights, M)
    K = problems.CASES[kernel](X, W).K
    y, costs, A = problems.signs(X), C * W, problems.BIASES[bias]
    if np.linalg.eigvalsh(K + np.diag(1.0 / costs))[0] <= 0:
        return K, y, costs, A, None, None
    accuracy = max(1e-8, 100 * EPS * oracle.condition(K, costs, A))
    return K, y, costs, A, oracle.solve(K, y, costs, loss, A), accuracy


def problem_of(loss, bias, kernel, weights, C, kind="random"):
    """Return a new problem of the cell: what one solver leaves in an operator, another must not find."""
    _, y, costs, A, _, _ = cell_of(loss, bias, kernel, weights, C, kind)
    case = problems.CASES[kernel](problems.rows(kind, m=M), problems.weights_of(weights, M))
    return problems.problem_of(case.operator, y, costs, loss, A)


def assert_mismatch_is_declared(solver, problem):
    with pytest.raises(ValueError, match=f"solver '{solver.name}' solves ") as caught:
        choose(problem, solver.name)
    message = str(caught.value)
    assert solver.solves in message
    fitting = message.split("Solvers that fit: ")[1]
    assert fitting == ", ".join(repr(s.name) for s in SOLVERS.values() if s.accepts(problem))
    assert fitting, "no solver fits"


def assert_is_the_optimum(problem, solution, facts, loss):
    K, y, costs, A, best, accuracy = facts
    beta, bias = problem.multipliers(solution)[:, 0], solution.bias[0]
    np.testing.assert_allclose(beta, best.beta, rtol=0, atol=accuracy * abs(best.beta).max())
    decision = problem.decision(solution)[:, 0]
    np.testing.assert_allclose(
        decision, best.decision, rtol=0, atol=accuracy * max(1, abs(best.decision).max())
    )
    assert bias == pytest.approx(best.bias, abs=accuracy * max(1.0, abs(best.bias)))
    # What was reported is what is true, but for rounding.
    certificate = problem.certify(solution, TOL)
    assert certificate.status in GOOD
    rounding = problem.rounding(solution)[0]
    true = oracle.residual(K, y, costs, loss, A, beta, bias)
    assert true <= max(TOL, rounding) + rounding
    assert certificate.objective == pytest.approx(best.objective, rel=accuracy)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("loss", "bias", "kernel", "weights", "C"), CELLS)
def test_every_solver_on_every_problem(name, loss, bias, kernel, weights, C):
    facts = cell_of(loss, bias, kernel, weights, C)
    problem = problem_of(loss, bias, kernel, weights, C)
    solver = SOLVERS[name]
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    if facts[4] is None:
        assert_indefinite_kernel_is_told(solver, problem)
        return
    solution = solver.solve(problem, tol=TOL, max_iter=None)
    assert_is_the_optimum(problem, solution, facts, loss)


def assert_indefinite_kernel_is_told(solver, problem):
    """A clear error or a clear status; where H is not definite, the squared loss has no least point."""
    if problem.loss is Loss.SQUARED:
        with pytest.raises(ValueError, match="positive semidefinite"):
            solver.solve(problem, tol=TOL, max_iter=None)
        return
    # The rows that the squared hinge ends with may well have a definite H of their own: then this is a
    # stationary point. If not, an error on the way, or a certificate that does not claim success.
    with contextlib.suppress(NotPositiveSemidefiniteError):
        solution = solver.solve(problem, tol=TOL, max_iter=None)
        used = np.flatnonzero(problem.multipliers(solution)[:, 0])
        H = problem.operator.block(used, used) + np.diag(1.0 / problem.costs[used])
        definite = np.linalg.eigvalsh(H)[0] > 0
        assert definite or problem.certify(solution, TOL).status not in GOOD


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kind", ["duplicated", "constant", "deficient"])
@pytest.mark.parametrize(
    ("loss", "bias", "kernel", "C"),
    list(
        product(
            (oracle.SQUARED, oracle.HINGE),
            problems.BIASES,
            ("linear", "linear-sparse", "rbf", "cubic"),
            (1.0, 1e8),
        )
    ),
)
def test_rows_that_make_k_singular(name, kind, loss, bias, kernel, C):
    problem = problem_of(loss, bias, kernel, "mixed", C, kind)
    solver = SOLVERS[name]
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    solution = solver.solve(problem, tol=TOL, max_iter=None)
    assert_is_the_optimum(problem, solution, cell_of(loss, bias, kernel, "mixed", C, kind), loss)


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
    cell = (loss, "free", kernel, "mixed", 1e4)
    problem, facts = problem_of(*cell), cell_of(*cell)
    solver = SOLVERS[name]
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    best = facts[4]
    beta = best.beta if where == "optimum" else 100.0 * np.random.default_rng(0).normal(size=M)
    start = Solution(beta=beta[:, None], bias=np.array([best.bias]))
    solution = solver.solve(problem, tol=TOL, max_iter=None, start=start)
    assert_is_the_optimum(problem, solution, facts, loss)
    cold = solver.solve(problem_of(*cell), tol=TOL, max_iter=None)
    assert where != "optimum" or solution.n_iter <= cold.n_iter


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kernel", ["linear", "cubic"])
def test_max_iter_is_kept_and_the_residual_stays_honest(name, kernel):
    """At C = 1e8 no search is done after one iteration; what it returns is judged as it is."""
    cell = (oracle.HINGE, "free", kernel, "mixed", 1e8)
    problem, (K, y, costs, A, _, _) = problem_of(*cell), cell_of(*cell)
    solver = SOLVERS[name]
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    solution = solver.solve(problem, tol=TOL, max_iter=1)
    assert solution.n_iter == 1
    certificate = problem.certify(solution, TOL)
    assert certificate.status is Status.MAX_ITER
    true = oracle.residual(
        K, y, costs, oracle.HINGE, A, problem.multipliers(solution)[:, 0], solution.bias[0]
    )
    assert certificate.residual == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", [831, 1180])
def test_a_set_without_rows_on_the_way(name, seed):
    """theory.md 7: an empty support set occurs. All rows are beyond the margin after one of the steps."""
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


class TestChoice:
    def test_auto_fits_and_says_why(self):
        for loss, bias, kernel in product((oracle.SQUARED, oracle.HINGE), problems.BIASES, problems.CASES):
            problem = problem_of(loss, bias, kernel, "equal", 1.0)
            solver, reason = choose(problem, "auto")
            assert solver.accepts(problem)
            assert str(problem.loss) in reason
            assert str(M) in reason

    def test_by_name_and_by_object(self):
        problem = problem_of(oracle.SQUARED, "free", "rbf", "equal", 1.0)
        assert choose(problem, "direct") == (SOLVERS["direct"], "asked for by name")
        assert choose(problem, SOLVERS["direct"])[0] is SOLVERS["direct"]

    def test_every_problem_has_a_solver(self):
        for loss, bias, kernel in product((oracle.SQUARED, oracle.HINGE), problems.BIASES, problems.CASES):
            problem = problem_of(loss, bias, kernel, "equal", 1.0)
            assert any(solver.accepts(problem) for solver in SOLVERS.values())

    def test_names_are_the_keys(self):
        assert {name: solver.name for name, solver in SOLVERS.items()} == {name: name for name in SOLVERS}
