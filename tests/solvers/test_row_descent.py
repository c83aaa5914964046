"""Updates that carry w: the same optimum as by Newton, by the kernel matrix and by LinearSVC, without K."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

import squaresvm
from squaresvm import LSSVC, RLSSVC, LagrangianSVC, RelaxedLSSVC, Status
from squaresvm.kernels import Kernel
from squaresvm.operators import DenseOperator, LinearOperator
from squaresvm.problem import Loss, Problem
from squaresvm.runtime import resources
from squaresvm.solvers import SesquiSmo, TwoSmo
from squaresvm.solvers.choose import choose
from support import oracle, problems

every_loss = pytest.mark.parametrize("loss", problems.LOSSES, ids=str)
every_bias = pytest.mark.parametrize("A", problems.BIASES.values(), ids=list(problems.BIASES))
FORMS = {
    "dense": np.asarray,
    "float32": lambda X: sp.csr_matrix(X.astype(np.float32)),
    "CSR": sp.csr_matrix,
    "int64": lambda X: with_long_indices(sp.csr_matrix(X)),
}
TOL = 1e-9


def with_long_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def words(m, n, a_row=6, seed=0):
    """Return rows of a few words each, of which the first columns have more; labels follow some columns."""
    rng = np.random.default_rng(seed)
    columns = (n * rng.random((m, a_row)) ** 3).astype(int)
    values = rng.uniform(0.2, 1.0, (m, a_row)).astype(np.float32).astype(np.float64)
    X = sp.csr_matrix((values.ravel(), (np.repeat(np.arange(m), a_row), columns.ravel())), shape=(m, n))
    X.sum_duplicates()
    score = X @ rng.normal(size=n) + 0.3 * rng.normal(size=m)
    return X, np.where(score > np.median(score), 1, -1)


def updates(loss):
    return TwoSmo() if loss == oracle.SQUARED else SesquiSmo()


def problem_of(X, y, costs, loss, A):
    return problems.problem_of(LinearOperator(X), y, costs, loss, A)


@every_loss
@every_bias
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("m", "n"), [(30, 200), (60, 50), (120, 8), (2, 5)])
def test_the_optimum_of_the_oracle(loss, A, form, m, n):
    X, y = words(m, n)
    rng = np.random.default_rng(1)
    for C, weights in ((1e-3, np.ones(m)), (1.0, rng.uniform(0.1, 3.0, m)), (50.0, rng.uniform(0.5, 2.0, m))):
        problem = problem_of(FORMS[form](X.toarray()), y.astype(float), C * weights, loss, A)
        solution = updates(loss).solve(problem, tol=TOL, max_iter=None)
        assert problem.certify(solution, TOL).status in (Status.CONVERGED, Status.PRECISION)
        K = (X @ X.T).toarray()
        best = oracle.solve(K, y.astype(float), C * weights, loss, A)
        np.testing.assert_allclose(problem.decision(solution)[:, 0], best.decision, atol=1e-6)
        np.testing.assert_allclose(problem.multipliers(solution)[:, 0], best.beta, atol=1e-6 * max(1.0, C))


@every_loss
@every_bias
@pytest.mark.parametrize("C", [1e-6, 1e-2, 1.0, 1e2, 1e8])
def test_the_same_as_by_newton_and_by_the_kernel_matrix(loss, A, C):
    X, y = words(80, 300, seed=3)
    costs = C * np.random.default_rng(0).uniform(0.5, 2.0, 80)
    problem = problem_of(X, y.astype(float), costs, loss, A)
    dense = problems.problem_of(DenseOperator(Kernel("linear"), X.toarray()), y.astype(float), costs, loss, A)
    found = updates(loss).solve(problem, tol=1e-8, max_iter=None)
    by_newton = choose(problem, "newton")[0].solve(problem, tol=1e-8, max_iter=None)
    by_kernel = choose(dense, "auto")[0].solve(dense, tol=1e-8, max_iter=None)
    certificate = problem.certify(found, 1e-8)
    assert certificate.status in (Status.CONVERGED, Status.PRECISION)
    for other in (problem.certify(by_newton, 1e-8), dense.certify(by_kernel, 1e-8)):
        assert certificate.objective - certificate.gap <= other.objective * (1 + 1e-9)
        assert other.objective - other.gap <= certificate.objective * (1 + 1e-9)


@pytest.mark.parametrize("C", [0.05, 0.5, 5.0])
@pytest.mark.parametrize(("m", "n"), [(200, 700), (400, 150)])
def test_the_same_as_linear_svc(C, m, n):
    X, y = words(m, n, seed=5)
    peer = LinearSVC(C=C, dual=True, tol=1e-10, max_iter=100_000, random_state=0).fit(X, y)
    model = LagrangianSVC(kernel="linear", C=2 * C, solver="sesquismo", tol=1e-9).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=1e-6)
    assert model.solver_ == "sesquismo"
    np.testing.assert_allclose(X[model.support_].T @ model.dual_coef_[0], model.coef_[0], atol=1e-9)


@every_loss
def test_classes_do_not_depend_on_threads(loss, monkeypatch):
    X, _ = words(150, 400)
    y = np.random.default_rng(2).integers(0, 5, 150)
    make = partial(RelaxedLSSVC if loss == oracle.SQUARED else LagrangianSVC, kernel="linear", tol=1e-9)
    values = {}
    for threads in (1, 3):
        monkeypatch.setattr(resources, "thread_count", lambda threads=threads: threads)
        model = make(solver=updates(loss).name).fit(X, y)
        assert model.certificate_.status is Status.CONVERGED
        values[threads] = model.decision_function(X)
    np.testing.assert_allclose(values[1], values[3], atol=1e-7)


def test_a_wide_sparse_fit_holds_no_square_matrix():
    X, y = words(6000, 30_000, a_row=20)
    for make in (RLSSVC, LSSVC, LagrangianSVC):
        tracemalloc.start()
        model = make(kernel="linear", tol=1e-4).fit(X, y)
        model.forget([0, 1])
        model.learn(X[:2], y[:2])
        model.decision_function(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # m x m numbers are 288 MB, n x n 7,200 MB.
        assert peak < 60e6
        assert model.certificate_.status is Status.CONVERGED
        assert model.solver_ in ("2smo", "sesquismo")


@pytest.mark.parametrize("make", [LSSVC, RLSSVC, RelaxedLSSVC, LagrangianSVC])
def test_learning_and_forgetting_go_on_and_end_at_the_certificate(make, tmp_path):
    X, y = words(200, 1100, seed=7)
    solver = "2smo" if make in (LSSVC, RelaxedLSSVC) else "sesquismo"
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    weights[5] = 0.0
    model = make(kernel="linear", solver=solver, tol=1e-9, C=3.0)
    model.fit(X[:160], y[:160], sample_weight=weights[:160])
    model.learn(X[160:], y[160:], sample_weight=weights[160:])
    receipt = model.forget([3, 17, 100, 170])
    assert receipt.residual <= 1e-9
    assert model.solver_ == solver
    assert "continues from the multipliers held" in model.solver_reason_
    rest = np.setdiff1d(np.arange(200), [3, 17, 100, 170])
    fresh = make(kernel="linear", tol=1e-9, C=3.0).fit(X[rest], y[rest], sample_weight=weights[rest])
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-6)
    squaresvm.save(model, tmp_path / "words.model")
    loaded = squaresvm.load(tmp_path / "words.model")
    loaded.forget([8])
    model.forget([8])
    np.testing.assert_allclose(loaded.decision_function(X), model.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(model.loo_decision_function(), loaded.loo_decision_function(), atol=1e-6)


def test_rows_without_multipliers_leave_for_nothing():
    X, y = words(200, 600)
    model = LagrangianSVC(kernel="linear", solver="sesquismo", C=10.0).fit(X, y)
    idle = np.setdiff1d(model.ids_, model.support_)
    before = model.coef_.copy()
    model.forget(idle[:3])
    assert "had no multipliers" in model.solver_reason_
    np.testing.assert_array_equal(model.coef_, before)


def test_a_new_class_and_a_class_that_leaves():
    X, _ = words(120, 400)
    y = np.repeat([0, 1, 2], 40)
    model = RLSSVC(kernel="linear", solver="sesquismo", tol=1e-8).fit(X[:80], y[:80])
    model.learn(X[80:], y[80:])
    np.testing.assert_allclose(
        model.decision_function(X),
        RLSSVC(kernel="linear", tol=1e-8).fit(X, y).decision_function(X),
        atol=1e-5,
    )
    model.forget(np.arange(40))
    assert model.classes_.tolist() == [1, 2]
    fresh = RLSSVC(kernel="linear", tol=1e-8).fit(X[40:], y[40:])
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-5)


def unusual_rows(kind):
    X, y = words(90, 250, seed=11)
    X = X.tolil()
    if kind == "empty rows":
        X[[0, 7, 89]] = 0.0
    elif kind == "empty columns":
        X[:, :30] = 0.0
    elif kind == "one word in all rows":
        X[:, 3] = 1.0
    elif kind == "all rows empty":
        X[:] = 0.0
    elif kind == "doubled rows":
        X[45:] = X[:45]
    elif kind == "nearly one class":
        y = np.where(np.arange(90) == 4, -1, 1)
    X = X.tocsr()
    if kind == "duplicate entries":
        X = sp.csr_matrix(
            (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape, copy=False
        )
        assert not X.has_canonical_format
    return X, y


KINDS = [
    "empty rows",
    "empty columns",
    "one word in all rows",
    "all rows empty",
    "doubled rows",
    "nearly one class",
    "duplicate entries",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [LSSVC, RLSSVC, RelaxedLSSVC, LagrangianSVC])
def test_unusual_rows_get_the_answers_of_dense_ones(kind, make):
    X, y = unusual_rows(kind)
    solver = "2smo" if make in (LSSVC, RelaxedLSSVC) else "sesquismo"
    for C in (0.1, 20.0):
        model = make(kernel="linear", solver=solver, C=C, tol=1e-9).fit(X, y)
        dense = make(kernel="linear", C=C, tol=1e-9).fit(X.toarray(), y)
        assert model.certificate_.status is Status.CONVERGED
        np.testing.assert_allclose(
            model.decision_function(X), dense.decision_function(X.toarray()), atol=1e-6
        )


def test_columns_beyond_two_to_the_31():
    names = np.array([0, 2**33, 5, 2**40, 2**33, 7], dtype=np.int64)
    X = sp.csr_matrix((np.ones(6), names, np.array([0, 2, 4, 6], dtype=np.int64)), shape=(3, 2**41))
    small = sp.csr_matrix((np.ones(6), [0, 3, 1, 4, 3, 2], [0, 2, 4, 6]), shape=(3, 5))
    y = [1, -1, 1]
    for solver in ("auto", "2smo"):
        model = RelaxedLSSVC(kernel="linear", solver=solver, tol=1e-9).fit(X, y)
        same = RelaxedLSSVC(kernel="linear", tol=1e-9).fit(small, y)
        np.testing.assert_allclose(model.decision_function(X), same.decision_function(small), atol=1e-7)


class TestChoice:
    @staticmethod
    def problem(m, n, C, loss=Loss.SQUARED_HINGE, columns=1, a_row=20):
        X, y = words(m, n, a_row=a_row)
        targets = np.repeat(y[:, None].astype(float), columns, axis=1)
        return Problem(LinearOperator(X), targets, np.full(m, C), loss, problems.bias_of(1.0))

    @pytest.mark.parametrize("loss", list(Loss))
    @pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
    def test_wide_sparse_rows_go_by_updates(self, loss, C):
        solver, reason = choose(self.problem(6000, 20_000, C, loss), "auto")
        assert solver.name == ("2smo" if loss is Loss.SQUARED else "sesquismo")
        assert "maintains w" in reason
        assert "20000 columns for 6000 rows" in reason

    def test_narrow_rows_go_by_newton_unless_a_few_sweeps_do(self):
        assert choose(self.problem(6000, 200, 1e-3, a_row=60), "auto")[0].name == "sesquismo"
        assert choose(self.problem(6000, 200, 10.0, a_row=60), "auto")[0].name == "newton"
        assert choose(self.problem(6000, 200, 1e-3, Loss.SQUARED, a_row=60), "auto")[0].name == "direct"

    def test_the_squared_loss_with_a_large_c_goes_by_conjugate_gradients(self):
        assert choose(self.problem(6000, 2000, 1e3, Loss.SQUARED), "auto")[0].name == "newton"
        assert choose(self.problem(6000, 2000, 0.1, Loss.SQUARED), "auto")[0].name == "2smo"

    def test_without_a_compiler_no_loops(self, monkeypatch):
        monkeypatch.setattr("squaresvm.solvers.choose.is_compiled", lambda: False)
        assert choose(self.problem(6000, 20_000, 1.0), "auto")[0].name == "newton"

    def test_few_rows_keep_their_kernel_matrix(self):
        X, y = words(300, 900)
        model = RLSSVC(kernel="linear").fit(X, y)
        assert model.solver_ == "active-set"


def test_who_listens_hears_every_sweep():
    X, y = words(100, 300)
    model = LagrangianSVC(kernel="linear", solver=SesquiSmo(trace=True), tol=1e-8).fit(X, y)
    assert [entry.iteration for entry in model.trace_] == list(range(1, len(model.trace_) + 1))
    assert model.trace_[-1].objective <= model.trace_[0].objective
    assert model.trace_[-1].objective == pytest.approx(model.certificate_.objective, rel=1e-6)
    stopped = LagrangianSVC(kernel="linear", solver=SesquiSmo(callback=lambda p: p.iteration == 2)).fit(X, y)
    assert stopped.certificate_.status is Status.STOPPED


def test_where_updates_crawl_newton_goes_on_and_says_so():
    X, y = words(400, 10, a_row=5)
    model = LagrangianSVC(kernel="linear", C=1e4, solver="sesquismo").fit(X, y)
    assert "updates crawled" in model.solver_reason_
    assert model.certificate_.status is Status.CONVERGED
    assert model.forget([0]).residual <= model.tol


def test_the_loops_are_the_same_in_python(monkeypatch):
    X, y = words(25, 60)
    problem = problem_of(X, y.astype(float), np.full(25, 2.0), oracle.HINGE, 0.0)
    compiled = SesquiSmo().solve(problem, tol=1e-9, max_iter=None)
    from squaresvm.solvers import _loops

    for name in ("_shuffle", "_along", "_add", "row_updates"):
        loop = getattr(_loops, name)
        monkeypatch.setattr(_loops, name, getattr(loop, "py_func", loop))
    plain = SesquiSmo().solve(problem, tol=1e-9, max_iter=None)
    assert plain.n_iter == compiled.n_iter
    np.testing.assert_allclose(plain.beta, compiled.beta, atol=1e-9)
