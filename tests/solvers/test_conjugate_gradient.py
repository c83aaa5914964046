"""Conjugate gradients against the factor: the same answer within the certificate, whatever the blocks."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, RelaxedLSSVC
from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator, OnDemandOperator, SingleKernel
from squaresvm.operators import single as tiles
from squaresvm.operators.single import Tiles
from squaresvm.runtime import resources
from squaresvm.solution import Outcome, Status
from squaresvm.solvers import ConjugateGradient, block_cg, choose, preconditioner
from squaresvm.solvers.block_cg import NotDefiniteError, conjugate_gradients
from squaresvm.solvers.preconditioner import choose_rank, rank_bytes
from support import oracle, problems

GOOD = (Status.CONVERGED, Status.PRECISION)
M = 60


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of a few rows, two threads, and cg on kernel values on demand from the first row on."""
    monkeypatch.setattr(tiles, "TILE", {4: 23, 8: 31})
    monkeypatch.setattr(tiles, "thread_count", lambda: 2)
    monkeypatch.setattr(preconditioner, "thread_count", lambda: 2)
    monkeypatch.setattr(choose, "_SINGLE_ROWS", 1)


def problem_of(kind, loss, A, C, classes=1, kernel="rbf", on_demand=True, weights="mixed"):
    X = problems.rows(kind, m=M)
    y = np.column_stack([problems.signs(X, seed=seed) for seed in range(classes)])
    kernel = Kernel("poly" if kernel == "cubic" else kernel, **problems.PARAMETERS[kernel])
    operator = (OnDemandOperator if on_demand else DenseOperator)(kernel, X)
    return problems.problem_of(operator, y, C * problems.weights_of(weights, M), loss, A)


class TestTiles:
    @pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
    @pytest.mark.parametrize("name", ["rbf", "poly", "laplacian", "linear"])
    @pytest.mark.parametrize("columns", [1, 5])
    def test_products(self, form, name, columns, small_tiles):
        X = problems.rows("constant", m=50)
        kernel = Kernel(name, **problems.PARAMETERS.get(name, {}))
        K, b = kernel(X, X), np.random.default_rng(0).normal(size=(50, columns))
        np.testing.assert_allclose(Tiles(kernel, form(X)).matmul(b), K @ b, atol=1e-12)
        size = (np.abs(K) @ np.abs(b)).max()
        for memory in (0, 1e9):
            single = SingleKernel(kernel, form(X), memory)
            assert single.is_held == bool(memory)
            np.testing.assert_allclose(single.matmul(b), K @ b, rtol=0, atol=3e-7 * size)
        np.testing.assert_allclose(single.columns(np.array([3, 40])), K[:, [3, 40]], atol=1e-13)

    @pytest.mark.parametrize(("scale", "offset"), [(1.0, 1e5), (1e3, 0.0)])
    def test_rows_far_from_the_origin_or_from_each_other(self, scale, offset, small_tiles):
        """Exponents of a million have no digit left in float32: they are taken in float64 then."""
        X = np.repeat(scale * problems.rows(m=25), 2, axis=0) + offset
        X[::2] += 1e-3
        kernel = Kernel("rbf", gamma=0.4)
        distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
        K, b = np.exp(-0.4 * distances), np.ones((50, 1))
        np.testing.assert_allclose(SingleKernel(kernel, X, 1e9).matmul(b), K @ b, rtol=0, atol=1e-5)

    def test_a_callable_kernel_runs_on_one_thread(self, small_tiles):
        assert Tiles(Kernel(problems.cauchy), problems.rows()).threads == 1

    def test_a_product_is_not_taken_twice(self, monkeypatch):
        operator = OnDemandOperator(Kernel("rbf", gamma=0.4), problems.rows(m=M))
        b = np.ones((M, 2))
        first = operator.matmul(b)
        first_copy = first.copy()
        first[:] = np.nan  # The caller's own.
        monkeypatch.setattr(Tiles, "matmul", lambda *_: pytest.fail("computed again"))
        np.testing.assert_array_equal(operator.matmul(b.copy()), first_copy)
        assert pickle.loads(pickle.dumps(operator))._last is None
        operator.clear(np.array([0]))
        assert operator._last is None

    def test_blas_gets_its_threads_back(self):
        with resources.threads_for_blas(), resources.threads_for_blas():
            assert resources.threads_for_blas._users == 2
        assert resources.threads_for_blas._users == 0
        with pytest.raises(ZeroDivisionError):
            resources.on_threads(lambda t, threads: 1 // (t - 1), 2)
        assert resources.threads_for_blas._users == 0


class TestRightOrHonest:
    """Low ranks, kernel values on demand and float32: where the contract suite has the matrix itself."""

    @pytest.mark.parametrize(
        ("loss", "bias", "C", "kind"),
        [
            *product((oracle.SQUARED, oracle.HINGE), problems.BIASES, (1e-6, 1.0, 1e2, 1e8), ["random"]),
            *product((oracle.SQUARED, oracle.HINGE), ["free"], (1.0, 1e8), ("duplicated", "constant")),
        ],
    )
    def test_equals_the_optimum_within_the_certificate(self, loss, bias, C, kind, small_tiles):
        A = problems.BIASES[bias]
        problem = problem_of(kind, loss, A, C)
        limit = None if C <= 1e2 else 100
        solution = ConjugateGradient(rank=8).solve(problem, tol=1e-7, max_iter=limit)
        certificate = problem.certify(solution, 1e-7)
        assert not problem.operator.is_held
        if certificate.status not in GOOD:
            assert certificate.status is Status.MAX_ITER
            assert C > 1e2, "there is no excuse"
            return
        K = Kernel("rbf", gamma=0.4)(problem.operator.X, problem.operator.X)
        best = oracle.solve(K, problem.targets[:, 0], problem.costs, loss, A)
        decision = problem.decision(solution)[:, 0]
        accuracy = 1e-5 if C <= 1e2 else 1e-3
        np.testing.assert_allclose(decision, best.decision, rtol=0, atol=accuracy)

    @pytest.mark.parametrize(
        ("loss", "bias"), [*product([oracle.SQUARED], problems.BIASES), (oracle.HINGE, "free")]
    )
    def test_columns_are_solved_as_if_alone(self, loss, bias, small_tiles):
        problem = problem_of("random", loss, problems.BIASES[bias], 3.0, classes=4)
        solver = ConjugateGradient(rank=8)
        together = solver.solve(problem, tol=1e-8, max_iter=None)
        for index in range(1, 4, 2):
            alone = solver.solve(problem.column(index), tol=1e-8, max_iter=None)
            np.testing.assert_allclose(together.beta[:, [index]], alone.beta, rtol=0, atol=1e-5)

    @pytest.mark.parametrize("loss", [oracle.SQUARED, oracle.HINGE])
    def test_blocks_threads_rank_and_memory_change_nothing_beyond_the_certificate(self, loss, monkeypatch):
        found = []
        for tile, count, rank, memory in ((512, 1, 20, None), (19, 2, 20, None), (13, 3, 7, 12_000)):
            monkeypatch.setattr(tiles, "TILE", {4: tile, 8: tile + 3})
            monkeypatch.setattr(tiles, "thread_count", lambda count=count: count)
            monkeypatch.setattr(preconditioner, "thread_count", lambda count=count: count)
            problem = problem_of("random", loss, oracle.FREE, 5.0, classes=3)
            solution = ConjugateGradient(rank=rank, memory=memory).solve(problem, tol=1e-9, max_iter=None)
            assert problem.certify(solution, 1e-9).status in GOOD
            found.append(problem.decision(solution))
        np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-7)
        np.testing.assert_allclose(found[2], found[0], rtol=0, atol=1e-7)

    def test_constant_and_tiny_targets(self, small_tiles):
        """1'beta of constant targets is all rounding; values of 1e-9 are as good as values of one."""
        X = problems.rows(m=M)
        operator = OnDemandOperator(Kernel("rbf", gamma=0.4), X)
        for y in (np.full(M, 7.0), 1e-9 * X[:, 0], 1e9 + X[:, 0]):
            for A in (oracle.FREE, 0.3, oracle.NONE):
                problem = problems.problem_of(operator, y, np.ones(M), oracle.SQUARED, A)
                solution = ConjugateGradient(rank=8).solve(problem, tol=1e-7, max_iter=None)
                assert problem.certify(solution, 1e-7).status in GOOD

    def test_warm_start_needs_next_to_nothing(self, small_tiles):
        for loss in (oracle.SQUARED, oracle.HINGE):
            problem = problem_of("random", loss, oracle.FREE, 5.0)
            solver = ConjugateGradient(rank=8)
            cold = solver.solve(problem, tol=1e-9, max_iter=None)
            warm = solver.solve(problem, tol=1e-8, max_iter=None, start=cold)
            assert warm.n_iter == 1 < cold.n_iter
            np.testing.assert_allclose(warm.beta, cold.beta, atol=1e-7)
            bad = ConjugateGradient(rank=8).solve(
                problem, tol=1e-9, max_iter=None, start=pickle.loads(pickle.dumps(_noise(problem)))
            )
            np.testing.assert_allclose(problem.decision(bad), problem.decision(cold), atol=1e-6)


def _noise(problem):
    from squaresvm.solution import Solution

    rng = np.random.default_rng(0)
    return Solution(beta=rng.normal(size=problem.targets.shape), bias=rng.normal(size=problem.n_columns))


class TestOptions:
    def test_max_iter_and_status(self, small_tiles):
        X, y = problems.rows(m=M), problems.signs(problems.rows(m=M))
        solver = ConjugateGradient(rank=2)
        for cls in (LSSVC, RLSSVC):
            with pytest.warns(ConvergenceWarning, match="solver 'cg' ended"):
                model = cls(C=50.0, tol=1e-10, max_iter=2, solver=solver).fit(X, y)
            assert model.certificate_.status is Status.MAX_ITER
            assert model.certificate_.residual > 1e-10
            assert model.n_iter_ <= 3

    @pytest.mark.parametrize("cls", [LSSVC, RLSSVC, RelaxedLSSVC])
    def test_callback_and_trace(self, cls, small_tiles):
        X, y = problems.rows(m=M), np.arange(M) % 3
        told = []
        solver = ConjugateGradient(rank=4, callback=told.append, trace=True)
        model = cls(C=5.0, solver=solver).fit(X, y)
        assert tuple(told) == model.trace_
        assert {entry.column for entry in told} == {0, 1, 2}
        assert all(np.isfinite(entry).all() for entry in told)
        for column in range(3):
            mine = [entry for entry in told if entry.column == column]
            assert mine[-1].residual < 1e-5
            iterations = [entry.iteration for entry in mine]
            assert iterations == sorted(iterations)
        worst = max(range(3), key=lambda column: told[-3 + column].residual)
        assert 0 <= worst < 3
        stopping = ConjugateGradient(rank=4, callback=lambda progress: progress.iteration >= 2)
        stopped = cls(C=5.0, tol=1e-10, solver=stopping).fit(X, y)
        assert stopped.certificate_.status is Status.STOPPED
        assert stopped.certificate_.residual > 1e-10

    def test_the_objective_told_is_the_certificates(self, small_tiles):
        X, y = problems.rows(m=M), problems.signs(problems.rows(m=M))
        for cls in (LSSVC, RLSSVC, LagrangianSVC):
            model = cls(C=5.0, solver=ConjugateGradient(rank=4, trace=True)).fit(X, y)
            assert model.trace_[-1].objective == pytest.approx(model.certificate_.objective, rel=1e-6)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"rank": 0}, "rank must be an integer of at least 1"),
            ({"memory": 0}, "memory must be an integer of at least 1"),
            ({"callback": 3}, "callback must be a callable"),
        ],
    )
    def test_bad_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            ConjugateGradient(**options)

    @pytest.mark.parametrize("options", [{"rank": 30, "memory": 5_000}, {"memory": 1_000}])
    def test_a_budget_too_small_for_the_rank(self, options):
        X, y = problems.rows(m=M), problems.signs(problems.rows(m=M))
        with pytest.raises(ValueError, match="raise memory, or lower rank"):
            LSSVC(solver=ConjugateGradient(**options)).fit(X, y)

    def test_ranks_grow_with_c_and_keep_to_the_memory(self):
        operator = DenseOperator(Kernel("rbf"), np.zeros((20_000, 1)))
        ranks = []
        for C in (1e-3, 1.0, 1e3):
            y, costs = np.ones(20_000), np.full(20_000, C)
            problem = problems.problem_of(operator, y, costs, oracle.SQUARED, oracle.FREE)
            ranks.append(choose_rank(problem, 1e12))
            limited = choose_rank(problem, 5e7)
            assert rank_bytes(20_000, limited) <= 5e7
            assert choose_rank(problem, 1e3) == 0
        assert ranks == sorted(set(ranks))

    def test_a_preconditioner_that_fails_is_rebuilt_and_says_so(self, small_tiles):
        """A kernel matrix of low rank, written down with eight digits, is not semidefinite any more."""
        X = problems.rows(m=M)
        K, y = np.round(X @ X.T, 8), problems.signs(X)
        model = LSSVC(kernel="precomputed", solver=ConjugateGradient(rank=30)).fit(K, y)
        exact = LSSVC(kernel="precomputed", solver="direct").fit(K, y)
        assert "failed to factor and was rebuilt with a jitter of" in model.solver_reason_
        assert model._state.solution.work["rebuilt"] >= 1
        np.testing.assert_allclose(model.decision_function(K), exact.decision_function(K), atol=1e-5)

    def test_an_indefinite_kernel_with_a_definite_problem(self, small_tiles):
        """No jitter helps the landmarks, and C is so small that H is definite all the same."""
        X, y = problems.rows(m=M), problems.signs(problems.rows(m=M))
        sigmoid = {"kernel": "sigmoid", "gamma": 2.0, "coef0": -1.0, "C": 0.02}
        for cls in (LSSVC, RLSSVC):
            model = cls(**sigmoid, solver=ConjugateGradient(rank=9)).fit(X, y)
            exact = cls(**sigmoid).fit(X, y)
            assert "the diagonal took its place" in model.solver_reason_
            np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-5)

    def test_float32_that_does_not_do_is_told(self, small_tiles, monkeypatch):
        monkeypatch.setattr(block_cg, "_single_error", lambda problem: 0.1)  # It is 200 in truth.
        problem = problem_of("duplicated", oracle.SQUARED, oracle.FREE, 1e8, weights="equal")
        solution = ConjugateGradient(rank=45).solve(problem, tol=1e-8, max_iter=None)
        assert "float64 took over" in solution.note
        assert problem.certify(solution, 1e-8).status in GOOD

    def test_indefinite_kernels_are_told(self, small_tiles):
        X = problems.rows(m=M)
        operator = OnDemandOperator(Kernel("sigmoid", gamma=2.0, coef0=-1.0), X)
        for loss in (oracle.SQUARED, oracle.HINGE):
            problem = problems.problem_of(operator, problems.signs(X), np.full(M, 1e3), loss, oracle.FREE)
            with pytest.raises(ValueError, match="positive semidefinite"):
                ConjugateGradient(rank=5).solve(problem, tol=1e-6, max_iter=None)

    def test_negative_curvature(self):
        H = np.diag([1.0, -1.0])
        with pytest.raises(NotDefiniteError):
            conjugate_gradients(
                lambda V, _: H @ V, lambda V, _: V, np.array([[1.0], [2.0]]), np.array([1e-9]), 9
            )


class TestModels:
    """A model of conjugate gradients learns, forgets and leaves one out like any other."""

    @pytest.mark.parametrize("cls", [LSSVC, RLSSVC, LSSVR, RelaxedLSSVC])
    def test_learn_forget_and_leave_one_out(self, cls, small_tiles):
        X, new = problems.rows(m=M), problems.rows(m=4, seed=1)
        # Leaving one out of the squared hinge is a warm solve for each support row.
        classes = 2 if cls is RLSSVC else 3
        y = X[:, 0] ** 2 if cls is LSSVR else np.arange(M) % classes
        more = new[:, 0] ** 2 if cls is LSSVR else np.arange(4) % classes
        weights = problems.weights_of("mixed", M)
        model = cls(C=4.0, gamma=0.4, tol=1e-9, solver=ConjugateGradient(rank=9)).fit(X, y, weights)
        assert model.solver_ == "cg"
        loo = model.loo_predict() if cls is LSSVR else model.loo_decision_function()
        exact = cls(C=4.0, gamma=0.4, tol=1e-9).fit(X, y, weights)
        expected = exact.loo_predict() if cls is LSSVR else exact.loo_decision_function()
        np.testing.assert_allclose(loo, expected, atol=1e-5)
        receipt = model.forget([5, 17])
        assert receipt.residual < 1e-6
        model.learn(new, more)
        keep = np.delete(np.arange(M), [5, 17])
        fresh = cls(C=4.0, gamma=0.4, tol=1e-9).fit(
            np.vstack([X[keep], new]), np.concatenate([y[keep], more]), np.append(weights[keep], np.ones(4))
        )
        values = "predict" if cls is LSSVR else "decision_function"
        np.testing.assert_allclose(getattr(model, values)(X), getattr(fresh, values)(X), atol=1e-5)

    def test_a_linear_model_and_a_precomputed_kernel(self):
        X, y = problems.rows(m=M), problems.signs(problems.rows(m=M))
        solver = ConjugateGradient(rank=6)
        for C in (1e-2, 10.0):
            a = LSSVC(kernel="linear", C=C, tol=1e-9, solver=solver).fit(X, y)
            b = LSSVC(kernel="linear", C=C, tol=1e-9).fit(X, y)
            np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)
            K = problems.cauchy(X, X)
            a = RLSSVC(kernel="precomputed", C=C, tol=1e-9, solver=solver).fit(K, y)
            b = RLSSVC(kernel="precomputed", C=C, tol=1e-9).fit(K, y)
            np.testing.assert_allclose(a.decision_function(K), b.decision_function(K), atol=1e-6)


class TestChoice:
    def choice(self, m, C, loss=oracle.SQUARED, A=oracle.FREE, operator=OnDemandOperator):
        lazy = operator(Kernel("rbf"), np.zeros((m, 1)))
        y = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
        return choose.choose(problems.problem_of(lazy, y, np.full(m, C), loss, A), "auto")

    def test_auto_takes_it_for_many_rows_and_moderate_c_and_says_why(self, monkeypatch):
        monkeypatch.setattr(choose, "available_memory", lambda: 1e12)
        monkeypatch.setattr(block_cg, "available_memory", lambda: 1e12)
        monkeypatch.setattr(OnDemandOperator, "hold", lambda self: None)
        for m, C, A in ((8000, 1.0, oracle.FREE), (20_000, 100.0, 1.0), (20_000, 1.0, oracle.NONE)):
            solver, reason = self.choice(m, C, A=A)
            assert solver.name == "cg"
            assert str(m) in reason
            assert "iterations" in reason
        assert self.choice(20_000, 1.0, oracle.HINGE)[0].name == "cg"
        assert self.choice(8000, 1e4)[0].name == "direct"
        assert self.choice(20_000, 1e8)[0].name == "direct"
        assert self.choice(20_000, 1e8, oracle.HINGE)[0].name == "active-set"
        assert self.choice(5000, 1.0, operator=DenseOperator)[0].name == "direct"
        assert not choose.wants_rows("auto", 5000)
        assert choose.wants_rows("auto", 20_000)

    def test_beyond_memory_it_is_taken_where_iterations_are_few(self, monkeypatch):
        monkeypatch.setattr(choose, "available_memory", lambda: 1e9)
        solver, reason = self.choice(20_000, 1.0)
        assert solver.name == "cg"
        assert "does not fit the free memory" in reason
        assert self.choice(20_000, 1e8)[0].name == "substitution"


@pytest.mark.slow
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_seven_thousand_rows(C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7000, 20))
    y = np.sign(X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=7000))
    model = LSSVC(C=C, solver="cg").fit(X, y)
    exact = LSSVC(C=C, solver="direct").fit(X, y)
    assert model.certificate_.status is Status.CONVERGED
    assert model._state.solution.outcome is Outcome.FINISHED
    np.testing.assert_allclose(model.decision_function(X[:500]), exact.decision_function(X[:500]), atol=1e-3)
    assert model.forget([3]).residual < 1e-5
