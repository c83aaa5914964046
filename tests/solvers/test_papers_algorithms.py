"""The papers' own algorithms: each ends at the optimum, within its certificate, or says that it did not."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from squaresvm import LSSVC, RLSSVC, LagrangianSVC, Status
from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator, LinearOperator
from squaresvm.problem import Loss
from squaresvm.solution import Solution
from squaresvm.solvers import (
    ActiveSet,
    Lagrangian,
    Newton,
    PenaltyFlow,
    SesquiSmo,
    Substitution,
    Sumt,
    TwoSmo,
)
from squaresvm.solvers.choose import SOLVERS, choose
from squaresvm.solvers.rlssvm import LDLFactor
from squaresvm.solvers.smo import MAX_SWEEPS
from support import oracle, problems

TOL = 1e-8
GOOD = (Status.CONVERGED, Status.PRECISION)
M = 24
PENALTIES = {"free": oracle.FREE, "0.01": 1e-2, "1": 1.0, "1e4": 1e4, "none": oracle.NONE}
FREE_BIAS = [Sumt(), Sumt(A0=1e4, rho=0.9), PenaltyFlow(), Substitution()]


def problem_of(loss, A, kernel, C):
    X, W = problems.rows(m=M), problems.weights_of("mixed", M)
    return problems.problem_of(problems.CASES[kernel](X, W).operator, problems.signs(X), C * W, loss, A)


@pytest.mark.parametrize("C", [1e3, 1e6])
@pytest.mark.parametrize("bias", ["0.01", "1", "none"])
@pytest.mark.parametrize("kernel", ["linear", "cubic", "proximal"])
@pytest.mark.parametrize("cls", [TwoSmo, SesquiSmo])
def test_updates_end_long_before_their_limit_where_k_has_a_low_rank(cls, kernel, bias, C):
    """Single updates alone need hundreds of sweeps here: how many is a matter of the last bits of K."""
    loss = oracle.HINGE if cls is SesquiSmo else oracle.SQUARED
    # At C = 1e6 support vectors still change where rounding begins: there it is enough that they end.
    share, tol = (3, TOL) if C == 1e3 else (1, 1e-6)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(M)
        X, W = problems.rows(m=M)[order], problems.weights_of("mixed", M)[order]
        y = problems.signs(problems.rows(m=M))[order]
        operator = problems.CASES[kernel](X, W).operator
        problem = problems.problem_of(operator, y, C * W, loss, PENALTIES[bias])
        solution = cls().solve(problem, tol=tol, max_iter=MAX_SWEEPS // share)
        assert problem.certify(solution, tol).status in GOOD


def test_a_callback_stops_conjugate_steps_too():
    for cls, loss in ((TwoSmo, oracle.SQUARED), (SesquiSmo, oracle.HINGE)):
        problem = problem_of(loss, oracle.NONE, "linear", 1e3)
        whole = cls(trace=True).solve(problem, tol=TOL, max_iter=None)
        told = [entry.iteration for entry in whole.trace]
        assert told == sorted(set(told))
        # By then updates have crawled for as long as they may.
        when = told[-2]
        stopped = cls(callback=lambda progress, when=when: progress.iteration >= when)
        solution = stopped.solve(problem, tol=TOL, max_iter=None)
        assert problem.certify(solution, TOL).status is Status.STOPPED
        assert solution.n_iter == when


@pytest.mark.parametrize("solver", FREE_BIAS, ids=["sumt", "sumt-0.9", "penalty-flow", "substitution"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_the_routes_to_a_free_bias_end_where_lssvc_does(solver, C):
    X, y = load_iris(return_X_y=True)
    exact = LSSVC(C=C, gamma=0.3).fit(X, y)
    model = LSSVC(C=C, gamma=0.3, tol=1e-9, solver=solver).fit(X, y)
    assert model.certificate_.status is Status.CONVERGED
    np.testing.assert_allclose(model.dual_coef_, exact.dual_coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, exact.intercept_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["2smo", "sesquismo", "lagrangian", "sumt", "penalty-flow", "substitution"])
class TestEachOfThem:
    def problem(self, name, targets=1, C=2.0):
        loss = oracle.HINGE if name in ("sesquismo", "lagrangian") else oracle.SQUARED
        A = oracle.FREE if name in ("sumt", "penalty-flow", "substitution") else 0.5
        X = problems.rows(m=M)
        y = np.column_stack([problems.signs(X, seed=seed) for seed in range(targets)])
        operator = DenseOperator(Kernel("rbf", gamma=0.4), X)
        return problems.problem_of(operator, y, np.full(M, C), loss, A)

    def test_columns_are_solved_as_if_alone(self, name):
        problem = self.problem(name, targets=3)
        together = SOLVERS[name].solve(problem, tol=1e-10, max_iter=None)
        for index in range(3):
            alone = SOLVERS[name].solve(problem.column(index), tol=1e-10, max_iter=None)
            np.testing.assert_allclose(together.beta[:, [index]], alone.beta, rtol=0, atol=1e-8)
            assert together.bias[index] == pytest.approx(alone.bias[0], abs=1e-8)

    def test_a_start_changes_nothing_but_the_way(self, name):
        problem = self.problem(name)
        cold = SOLVERS[name].solve(problem, tol=1e-10, max_iter=None)
        warm = SOLVERS[name].solve(problem, tol=1e-9, max_iter=None, start=cold)
        assert warm.n_iter <= cold.n_iter
        noise = Solution(beta=np.random.default_rng(0).normal(size=(M, 1)), bias=np.ones(1))
        other = SOLVERS[name].solve(problem, tol=1e-10, max_iter=None, start=noise)
        for solution in (warm, other):
            np.testing.assert_allclose(solution.beta, cold.beta, rtol=0, atol=1e-6)

    def test_max_iter_ends_the_search_honestly(self, name):
        problem = self.problem(name, C=1e4)
        solution = SOLVERS[name].solve(problem, tol=1e-10, max_iter=1)
        certificate = problem.certify(solution, 1e-10)
        assert solution.n_iter == 1
        assert np.isfinite(solution.beta).all()
        assert certificate.status is Status.MAX_ITER
        assert certificate.residual > 1e-10

    def test_a_callback_stops_it_and_the_model_is_usable(self, name):
        problem, told = self.problem(name, targets=2, C=100.0), []

        def callback(progress):
            told.append(progress)
            return progress.iteration == 2

        solver = type(SOLVERS[name])(callback=callback, trace=True)
        solution = solver.solve(problem, tol=1e-12, max_iter=None)
        certificate = problem.certify(solution, 1e-12)
        assert certificate.status is Status.STOPPED
        assert tuple(told) == solution.trace
        assert told[0].column == 0
        assert np.isfinite(problem.decision(solution)).all()

    def test_the_trace_ends_at_the_certificate(self, name):
        problem = self.problem(name, C=10.0)
        solver = type(SOLVERS[name])(trace=True)
        solution = solver.solve(problem, tol=1e-6, max_iter=None)
        trace, certificate = solution.trace, problem.certify(solution, 1e-6)
        assert [entry.iteration for entry in trace] == sorted(entry.iteration for entry in trace)
        assert all(a.seconds <= b.seconds for a, b in pairwise(trace))
        assert trace[-1].objective == pytest.approx(certificate.objective, rel=1e-4)
        assert all(np.isfinite(entry).all() for entry in trace)

    def test_regression_targets_and_scales(self, name):
        problem = self.problem(name)
        if problem.loss is not Loss.SQUARED:
            return  # Labels are +1 and -1 there.
        y = 1e6 + 1e3 * np.random.default_rng(0).normal(size=(M, 1))
        scaled = problems.problem_of(problem.operator, y, problem.costs, oracle.SQUARED, problem.bias.penalty)
        solution = SOLVERS[name].solve(scaled, tol=1e-9, max_iter=None)
        assert scaled.certify(solution, 1e-9).status in GOOD
        everyone = np.arange(M)
        K = problem.operator.block(everyone, everyone)
        best = oracle.solve(K, y[:, 0], problem.costs, oracle.SQUARED, problem.bias.penalty)
        np.testing.assert_allclose(scaled.decision(solution)[:, 0], best.decision, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Lagrangian(alpha=0.0), "alpha must be a number greater than 0"),
        (lambda: Lagrangian(alpha=np.nan), "alpha must be a number greater than 0"),
        (lambda: Lagrangian(stop="never"), "stop must be one of 'residual', 'step'"),
        (lambda: Sumt(rho=1.0), "rho must be a number between 0 and 1"),
        (lambda: Sumt(rho=0.0), "rho must be a number between 0 and 1"),
        (lambda: Sumt(A0=-1.0), "A0 must be a number greater than 0"),
        (lambda: PenaltyFlow(penalty=0.0), "penalty must be a number greater than 0"),
        (lambda: PenaltyFlow(step="long"), "step must be a number greater than 0"),
        (lambda: Substitution(penalty=-1.0), "penalty must be a number greater than 0"),
        (lambda: ActiveSet(n_sv_max=1), "n_sv_max must be an integer of at least 2"),
        (lambda: ActiveSet(n_sv_max=10.5), "n_sv_max must be an integer of at least 2"),
        (lambda: ActiveSet(reuse="always"), "reuse must be one of 'hybrid', 'switches', 'refactor'"),
        (lambda: TwoSmo(memory=0), "memory must be an integer of at least 1"),
        (lambda: SesquiSmo(callback=3), "callback must be a callable or None"),
        (lambda: SesquiSmo(trace="yes"), "trace must be True or False"),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_ranges_that_depend_on_the_problem():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    with pytest.raises(ValueError, match=r"alpha must be between 0 and 2 / max\(C_i\) = 0.2"):
        LagrangianSVC(C=10.0, solver=Lagrangian(alpha=0.2)).fit(X, y)
    with pytest.raises(ValueError, match=r"penalty must be greater than 1'H1 / m\^2 = "):
        LSSVC(solver=Substitution(penalty=1e-6)).fit(X, y)
    assert LagrangianSVC(C=10.0, solver=Lagrangian(alpha=0.19)).fit(X, y).solver_ == "lagrangian"


def test_mismatch_through_an_estimator():
    X, y = load_iris(return_X_y=True)
    fitting = "'direct', 'inverse', 'cg', 'sumt', 'penalty-flow', 'substitution'"
    with pytest.raises(ValueError, match=f"Solvers that fit: {fitting}"):
        LSSVC(solver=TwoSmo()).fit(X, y)


class TestOptions:
    def data(self):
        X, y = load_iris(return_X_y=True)
        return X[50:], y[50:]

    def test_the_papers_stopping_rule(self):
        X, y = self.data()
        model = LagrangianSVC(C=1.0, solver=Lagrangian(stop="step"), tol=1e-5).fit(X, y)
        exact = LagrangianSVC(C=1.0, solver="active-set").fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-3)

    def test_linear_fixed_point_needs_no_kernel_matrix(self, monkeypatch):
        X, y = self.data()
        monkeypatch.setattr(LinearOperator, "store", None)
        monkeypatch.setattr(LinearOperator, "block", None)
        model = LagrangianSVC(C=0.1, kernel="linear", solver="lagrangian").fit(X, y)
        exact = LagrangianSVC(C=0.1, kernel="linear", solver="newton").fit(X, y)
        np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-6)

    def test_sumt_traces_the_balance(self):
        X, y = self.data()
        model = LSSVC(solver=Sumt(rho=0.9, trace=True)).fit(X, y)
        balance = np.abs([entry.balance for entry in model.trace_])
        # 1'beta = A b falls with A; what is left of it at the end is within the certificate's tolerance.
        assert (np.diff(balance) <= model.tol * np.abs(model.dual_coef_).sum()).all()
        assert balance[-1] < 1e-3 * balance[0]
        assert model.n_iter_ == len(model.trace_) > 50

    def test_trace_is_kept_only_when_asked_for(self):
        X, y = self.data()
        with pytest.raises(AttributeError, match="trace_ exists only"):
            _ = LSSVC().fit(X, y).trace_

    def test_penalty_of_the_flow_is_raised(self):
        X, y = self.data()
        model = LSSVC(solver=PenaltyFlow(penalty=1e-6), tol=1e-9).fit(X, y)
        exact = LSSVC().fit(X, y)
        np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=1e-7)
        assert model.certificate_.status is Status.CONVERGED

    def test_no_convergence_warns(self):
        X, y = self.data()
        with pytest.warns(ConvergenceWarning, match="solver 'lagrangian' ended with max_iter"):
            model = LagrangianSVC(C=1e6, solver="lagrangian", max_iter=3).fit(X, y)
        assert model.n_iter_ == 3
        assert model.certificate_.residual > 1e-6
        assert np.isfinite(model.decision_function(X)).all()


class TestNewton:
    def test_trace_and_callback(self):
        X, y = load_iris(return_X_y=True)
        model = LagrangianSVC(kernel="linear", C=100.0, solver=Newton(trace=True)).fit(X[50:], y[50:])
        objectives = [entry.objective for entry in model.trace_]
        # An exact line search never goes uphill, but by the rounding of the objective itself.
        assert (np.diff(objectives) <= 1e-12 * objectives[0]).all()
        assert model.n_iter_ == len(objectives)
        early = Newton(callback=lambda progress: progress.iteration == 1)
        stopped = LagrangianSVC(kernel="linear", C=100.0, solver=early).fit(X[50:], y[50:])
        assert stopped.certificate_.status is Status.STOPPED
        assert stopped.n_iter_ == 1


def test_auto_takes_updates_where_they_win():
    operator = DenseOperator(Kernel("rbf"), np.zeros((20_000, 1)))
    y = np.where(np.arange(20_000) % 2 == 0, 1.0, -1.0)
    taken = {}
    for loss, A, C in product((oracle.SQUARED, oracle.HINGE), (oracle.FREE, 1.0), (1.0, 1e3)):
        problem = problems.problem_of(operator, y, np.full(20_000, C), loss, A)
        taken[loss, A, C] = choose(problem, "auto")[0].name
    assert taken.pop((oracle.SQUARED, 1.0, 1.0)) == "2smo"
    assert taken.pop((oracle.HINGE, 1.0, 1.0)) == "sesquismo"
    assert set(taken.values()) == {"direct", "active-set"}


class TestActiveSet:
    """RLSSVM: reuse of the factor, and the cap."""

    def problem(self, C=10.0, A=oracle.FREE, m=120):
        X = problems.rows(m=m)
        return problems.problem_of(
            DenseOperator(Kernel("rbf", gamma=0.4), X), problems.signs(X), np.full(m, C), oracle.HINGE, A
        )

    @pytest.mark.parametrize("A", [oracle.FREE, 0.3, oracle.NONE], ids=["free", "penalised", "none"])
    @pytest.mark.parametrize("cap", [None, 2, 10, 119, 500])
    @pytest.mark.parametrize("reuse", ["hybrid", "switches", "refactor"])
    def test_all_ways_end_at_the_same_point(self, reuse, cap, A):
        problem = self.problem(A=A)
        exact = ActiveSet().solve(problem, tol=1e-8, max_iter=None)
        found = ActiveSet(reuse=reuse, n_sv_max=cap).solve(problem, tol=1e-8, max_iter=None)
        assert problem.certify(found, 1e-8).status is Status.CONVERGED
        np.testing.assert_allclose(found.beta, exact.beta, rtol=0, atol=1e-7)

    def test_a_cap_that_is_too_small_grows(self):
        """Correction 8: the paper's own algorithm ends at a wrong answer here, without a word."""
        problem = self.problem()
        found = ActiveSet(n_sv_max=10).solve(problem, tol=1e-8, max_iter=None)
        support = int(np.count_nonzero(found.beta))
        assert support > 10
        assert 10 * 2 ** found.work["growths"] >= support
        enough = ActiveSet(n_sv_max=support + 20).solve(problem, tol=1e-8, max_iter=None)
        assert enough.work["growths"] == 0

    def test_reuse_saves_work_where_few_rows_change(self):
        problem = self.problem(m=400)
        exact = ActiveSet(reuse="refactor").solve(problem, tol=1e-8, max_iter=None)
        assert exact.work["factor"] == exact.work["refactoring"]
        for reuse in ("hybrid", "switches"):
            again = ActiveSet(reuse=reuse, n_sv_max=100).solve(problem, tol=1e-8, max_iter=None)
            assert again.work["factor"] < again.work["refactoring"]

    def test_no_support_vector_at_all(self):
        """All errors negative, or the first set empty: nothing is divided by zero."""
        X, y = np.array([[-50.0], [50.0]]), np.array([-1.0, 1.0])
        problem = problems.problem_of(
            DenseOperator(Kernel("linear"), X), y, np.full(2, 1e4), oracle.HINGE, 0.0
        )
        start = Solution(beta=np.array([[-1.0], [1.0]]), bias=np.zeros(1))
        for reuse in ("hybrid", "switches"):
            found = ActiveSet(reuse=reuse).solve(problem, tol=1e-8, max_iter=None, start=start)
            assert problem.certify(found, 1e-8).status is Status.CONVERGED

    def test_a_callback_stops_it(self):
        X, y = load_iris(return_X_y=True)
        model = RLSSVC(C=1e4, solver=ActiveSet(callback=lambda _: True, trace=True)).fit(X[50:], y[50:])
        assert model.certificate_.status is Status.STOPPED
        assert len(model.trace_) == model.n_iter_ == 1
        assert model.score(X[50:], y[50:]) > 0.8


class TestLDLFactor:
    def test_switches_and_appended_rows(self):
        rng = np.random.default_rng(0)
        B = rng.normal(size=(40, 40))
        A, factor = B @ B.T + np.eye(40), LDLFactor()
        rows = np.arange(30)
        factor.append(np.empty((0, 30)), A[:30, :30])
        for _ in range(5):
            gone = rng.choice(rows.size, size=4, replace=False)
            rows = rows[factor.remove(gone)]
            come = rng.permutation(np.setdiff1d(np.arange(40), rows))[:5]
            factor.append(A[np.ix_(rows, come)], A[np.ix_(come, come)])
            rows = np.concatenate([rows, come])
            L = np.tril(factor._L[: rows.size, : rows.size])
            product = (L * factor._D[: rows.size]) @ L.T  # (60)
            np.testing.assert_allclose(product, A[np.ix_(rows, rows)], rtol=0, atol=1e-11)
            solved = factor.solve(np.ones((rows.size, 1)))
            expected = scipy.linalg.solve(A[np.ix_(rows, rows)], np.ones((rows.size, 1)))
            np.testing.assert_allclose(solved, expected, rtol=1e-8)

    def test_the_worst_order_costs_what_the_paper_says(self):
        """5.3: 4/3 n (n - 1) (n + 1) operations to turn the order round, row by row."""
        n, factor, spent = 12, LDLFactor(), 0.0
        factor.append(np.empty((0, n)), np.eye(n) + 1.0)
        for size in range(n, 1, -1):  # The first row goes behind the last, where it stays.
            before = factor.work
            factor.remove(np.array([0]))
            assert factor.size == size - 1
            spent += factor.work - before
        assert spent == 4 * n * (n - 1) * (n + 1) / 3


def test_indefinite_kernels_are_told():
    """Single updates on a matrix with a negative eigenvalue: an error, and never NaN."""
    X = problems.rows(m=M)
    operator = DenseOperator(Kernel("sigmoid", gamma=2.0, coef0=-1.0), X)
    y = problems.signs(X)
    for solver, A in ((TwoSmo(), 1.0), (Sumt(), 0.0), (Substitution(), 0.0), (PenaltyFlow(), 0.0)):
        problem = problems.problem_of(operator, y, np.full(M, 1e3), oracle.SQUARED, A)
        with pytest.raises(ValueError, match="positive semidefinite"):
            solver.solve(problem, tol=1e-6, max_iter=None)
