"""Models with many features: Newton steps by conjugate gradients end where formed Hessians do."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.svm import LinearSVC

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, RelaxedLSSVC, Status
from squaresvm.datasets import make_ndc
from squaresvm.models import source_fit as streamed
from squaresvm.operators import LinearOperator
from squaresvm.problem import Loss, Problem, products
from squaresvm.problem import runners as memory
from squaresvm.problem.linear import LinearProblem
from squaresvm.problem.runners import MemoryRunner
from squaresvm.solvers import newton_hessian
from squaresvm.solvers.newton_hessian import ProductHessian
from squaresvm.streaming import ArraySource, BlockSource
from support import oracle, problems
from support.linear_optima import assert_optimal, exact_rows
from support.row_sources import SIZE, WITHOUT_WEIGHTS, Blocks, rows, source_of

every_loss = pytest.mark.parametrize("loss", problems.LOSSES, ids=str)
every_bias = pytest.mark.parametrize("A", problems.BIASES.values(), ids=list(problems.BIASES))
FORMS = {"dense": np.array, "float32": np.float32, "CSR": sp.csr_matrix}


@pytest.fixture
def wide(monkeypatch):
    """Have even two features count as many, and no Hessian formed."""
    monkeypatch.setattr(products, "WIDE", 1)

    def never(*_, **__):
        raise AssertionError("a Hessian was formed")

    monkeypatch.setattr(newton_hessian.FormedHessian, "at", never)


@pytest.fixture(params=["NumPy", "compiled"])
def loops(request, monkeypatch):
    """Go through the rows by NumPy, and by the compiled loops that only many rows are worth."""
    if request.param == "compiled":
        monkeypatch.setattr(memory, "COMPILED_SIZE", 1)
        monkeypatch.setattr(products, "_MANY_NUMBERS", 1)
    return request.param


# The products themselves ------------------------------------------------------------------------------


class Far(MemoryRunner):
    """Rows of which nothing can be remembered."""

    rows_stay = False


def linear_problem(kind, form, k, loss, A, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(0.5, 1.0, (150, 6))
    Z[:, 5] = 2.0
    Y = np.where(rng.normal(size=(150, k)) > 0, 1.0, -1.0)
    runner = kind(FORMS[form](Z), Y, rng.uniform(0.1, 3.0, 150))
    return LinearProblem(runner, problems.LOSSES[loss], problems.bias_of(A), np.ones(k))


def dense_hessian(problem, w, b, column):
    """Return the Hessian of a column, bordered by the bias, by its definition."""
    runner = problem.runner
    Z = runner.Z.toarray() if sp.issparse(runner.Z) else runner.Z.astype(np.float64)
    y, costs = runner.targets[:, column], runner.costs
    active = np.ones(y.size) if problem.loss is Loss.SQUARED else 1.0 * (y * (Z @ w + b) < 1.0)
    if problem.bias.is_absent:
        return np.eye(6) + (Z * (costs * active)[:, None]).T @ Z
    Z1 = np.column_stack([Z, np.ones(y.size)])
    ridge = np.diag([*np.ones(6), problem.bias.penalty])
    return ridge + (Z1 * (costs * active)[:, None]).T @ Z1


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [MemoryRunner, Far], ids=["near", "far"])
@every_bias
@every_loss
def test_a_step_is_that_of_the_whole_hessian(loops, loss, A, kind, form, k):
    problem = linear_problem(kind, form, k, loss, A)
    rng = np.random.default_rng(1)
    w, b = 0.3 * rng.normal(size=(6, k)), np.zeros(k) if A == oracle.NONE else 0.3 * rng.normal(size=k)
    point, hessian = ProductHessian.at(problem, w, b)
    at = problem.at(w, b)
    np.testing.assert_allclose(point.down_w, at.down_w, rtol=1e-10, atol=1e-10)
    step = hessian.step(point, np.full(k, 1e-13))
    exact = hessian.solve(hessian._reduced(point), np.arange(k), np.full(k, 1e-13))
    for j in range(k):
        H = dense_hessian(problem, w[:, j], b[j], j)
        R = np.linalg.inv(np.linalg.inv(H)[:6, :6])
        columns = np.array([j])
        found = np.hstack([hessian.times(np.eye(6)[:, [i]], columns) for i in range(6)])
        np.testing.assert_allclose(found, R, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(hessian._own(hessian._diagonal, columns)[:, 0], np.diag(R), rtol=1e-9)
        down = point.down_w[:, j] if A == oracle.NONE else np.append(point.down_w[:, j], point.down_b[j])
        best = np.linalg.solve(H, down)
        np.testing.assert_allclose(exact[:, j], best[:6], rtol=1e-8, atol=1e-10)
        # The step itself leaves a tenth of the gradient, and still goes down.
        assert 0.0 < step.decrement[j] <= down @ best * (1 + 1e-12)


@every_loss
def test_the_estimate_is_that_of_the_formed_hessian(loss):
    problem = linear_problem(MemoryRunner, "dense", 3, loss, 0.3)
    w, b = np.full((6, 3), 0.1), np.full(3, 0.2)
    point, hessian = ProductHessian.at(problem, w, b)
    formed = newton_hessian.FormedHessian.at(problem, w, b)[1]
    np.testing.assert_allclose(hessian.estimate(point), formed.estimate(point), rtol=1e-9)


# The optimum ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize("kind", ["random", "duplicated", "constant", "deficient", "twice"])
@every_bias
@every_loss
def test_any_cost_and_any_rows(wide, loss, A, kind, C):
    Z = exact_rows("random" if kind == "twice" else kind)
    if kind == "twice":
        Z[:, 2] = Z[:, 0]
    y = problems.signs(Z) if loss == oracle.HINGE else Z[:, 1] + np.sin(np.arange(16.0))
    # With tol = 1e-6, more is not promised of rows without a multiplier.
    assert_optimal(Z, y, C * problems.weights_of("mixed", 16), loss, A, close=1e-5 if C > 1.0 else 1e-6)


@pytest.mark.parametrize("A", [0.3, oracle.NONE], ids=["penalised", "none"])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e8])
@every_loss
def test_one_row(monkeypatch, loss, A, C):
    monkeypatch.setattr(products, "WIDE", 0)
    assert_optimal(np.array([[2.0]]), np.array([-1.0]), np.array([C]), loss, A)


@pytest.mark.parametrize("threshold", [40, 39], ids=["formed", "by products"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("C", [1e-2, 1e2])
def test_liblinear_at_either_side_of_the_threshold(loops, monkeypatch, threshold, form, C):
    monkeypatch.setattr(products, "WIDE", threshold)
    X, y = make_ndc(700, 40, random_state=1)
    X = FORMS[form](X / np.abs(X).max(axis=0))
    ours = LagrangianSVC(C=C, kernel="linear", tol=1e-9).fit(X, y)
    plain = X if sp.issparse(X) else X.astype(np.float64)
    peer = LinearSVC(C=C / 2, dual=False, tol=1e-12, max_iter=10_000).fit(plain, y)
    assert ours.solver_ == "newton"
    assert ("conjugate gradients" in ours.solver_reason_) == (threshold == 39)
    assert ours.certificate_.status is Status.CONVERGED
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("threshold", [20, 19], ids=["formed", "by products"])
def test_ridge_at_either_side_of_the_threshold(monkeypatch, threshold):
    monkeypatch.setattr(products, "WIDE", threshold)
    rng = np.random.default_rng(2)
    X, weights = rng.normal(1.0, 1.0, (200, 20)), rng.uniform(0.1, 3.0, 200)
    y = X @ rng.normal(size=20) + rng.normal(size=200)
    ours = LSSVR(C=0.7, kernel="linear", tol=1e-10).fit(X, y, weights)
    peer = Ridge(alpha=1 / 0.7, tol=1e-12).fit(X, y, weights)
    assert ours.solver_ == ("direct" if threshold == 20 else "newton")
    np.testing.assert_allclose(ours.coef_[0], peer.coef_, rtol=0, atol=1e-8)
    labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    ours = LSSVC(C=0.7, kernel="linear", tol=1e-10).fit(X, labels, weights)
    peer = RidgeClassifier(alpha=1 / 0.7).fit(X, labels, weights)
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=0, atol=1e-8)


def test_sparse_rows_stay_sparse(wide, monkeypatch):
    X = sp.random(300, 40, 0.1, format="csr", random_state=3)
    y = np.where(np.asarray(X @ np.linspace(-1, 1, 40)) > 0.0, 1, -1)
    with monkeypatch.context() as patch:
        for name in ("toarray", "todense"):
            patch.setattr(sp.csr_matrix, name, None)
        model = LagrangianSVC(kernel="linear", C=3.0).fit(X, y)
    assert model.certificate_.status is Status.CONVERGED


def test_few_products_far_away_and_a_superlinear_end(wide, monkeypatch):
    taken, solve = [], ProductHessian.solve
    times = ProductHessian.times

    def counted(self, V, columns):
        taken[-1] += 1
        return times(self, V, columns)

    def noted(self, rhs, columns, share):
        taken.append(0)
        return solve(self, rhs, columns, share)

    monkeypatch.setattr(ProductHessian, "times", counted)
    monkeypatch.setattr(ProductHessian, "solve", noted)
    X, y = make_ndc(2000, 60, random_state=0)
    X /= np.abs(X).max(axis=0)
    model = LagrangianSVC(kernel="linear", C=1.0, tol=1e-10).fit(X, y)
    assert model.certificate_.status is Status.CONVERGED
    assert model.n_iter_ < 20
    assert taken[0] < max(taken) / 2


# Many classes, weights, sources -----------------------------------------------------------------------

SUBJECTS = {
    "LSSVC": (LSSVC(C=0.3, class_weight="balanced"), "three"),
    "RelaxedLSSVC": (RelaxedLSSVC(C=5.0, A=0.3), "two"),
    "LSSVR": (LSSVR(C=3.0, fit_intercept=False), "regression"),
    "RLSSVC": (RLSSVC(C=0.5, class_weight={0.0: 2.0, 2.0: 0.5}), "three"),
    "LagrangianSVC": (LagrangianSVC(C=2.0, A=0.3), "two"),
    "LagrangianSVC without a bias": (LagrangianSVC(C=2.0, fit_intercept=False), "three"),
}


def reference(name, weights=True):
    """Return rows, and their model with the Hessian formed."""
    model, problem = SUBJECTS[name]
    X, y, weight = rows(problem)
    weight = weight if weights else None
    model = clone(model).set_params(kernel="linear", tol=1e-11)
    return X, y, weight, clone(model).fit(X, y, weight), model


def assert_same_model(one, other, close=1e-8):
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=close)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=0, atol=close)


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_model_of_the_formed_hessian(name, monkeypatch):
    X, y, weights, formed, model = reference(name)
    monkeypatch.setattr(products, "WIDE", 1)
    assert_same_model(model.fit(X, y, weights), formed)
    assert "conjugate gradients" in model.solver_reason_


CROSSED = [
    *((kind, "RLSSVC") for kind in ("array", "csr", "memmap", "parquet", "libsvm", "blocks", "dask")),
    *((kind, "LSSVC") for kind in ("float32", "parquet", "gzip", "dask")),
    *(("blocks", name) for name in SUBJECTS),
]


@pytest.mark.parametrize(("kind", "name"), CROSSED)
def test_every_source_gives_the_same_coefficients(kind, name, monkeypatch, tmp_path):
    X, y, weights, formed, model = reference(name, kind not in WITHOUT_WEIGHTS)
    monkeypatch.setattr(products, "WIDE", 1)
    model.fit(source_of(kind, X, y, weights, tmp_path))
    assert_same_model(model, formed)
    assert model.solver_ == "newton"
    assert "form no Hessian" in model.solver_reason_
    assert model.certificate_.status is Status.CONVERGED


def no_squares(*_, **__):
    raise AssertionError("sums of n x n numbers were formed")


def test_a_stream_of_many_columns_forms_no_sums(wide, monkeypatch):
    monkeypatch.setattr(products, "WIDE", 1)
    monkeypatch.setattr(streamed.MomentsFactor, "__init__", no_squares)
    X, y, _ = rows("two")
    model = LSSVC(kernel="linear").fit(ArraySource(X, y))
    before = model.coef_
    for request in (model.learn, model.forget_rows):
        with pytest.raises(ValueError, match=r"sums of 4 x 4 numbers.*solver='direct'"):
            request(X[:3], y[:3])
    assert np.array_equal(model.coef_, before)
    assert streamed._sample_size(10_000) * 10_000 * 8 < 2**29


def test_sums_are_formed_where_asked_for(wide, monkeypatch):
    X, y, _ = rows("two")
    model = LSSVC(kernel="linear", solver="direct", tol=1e-10).fit(ArraySource(X[:300], y[:300]))
    assert model.solver_ == "direct"
    model.learn(X[300:], y[300:])
    monkeypatch.setattr(products, "WIDE", 1000)
    assert_same_model(model, LSSVC(kernel="linear", tol=1e-10).fit(X, y))
    by_newton = LSSVC(kernel="linear", solver="newton", tol=1e-10)
    monkeypatch.undo()
    assert_same_model(by_newton.fit(ArraySource(X[:300], y[:300])).learn(X[300:], y[300:]), model)


def test_sums_that_do_not_fit_are_refused_before_they_are_formed(monkeypatch):
    monkeypatch.setattr("squaresvm.solvers.choose.available_memory", lambda: 100.0)
    X, y, _ = rows("two")
    model = LSSVC(kernel="linear", solver="direct")
    with pytest.raises(MemoryError, match=r"4 x 4 numbers.*solver='auto'"):
        model.fit(ArraySource(X, y))
    assert not hasattr(model, "coef_")
    model.set_params(solver="auto").fit(ArraySource(X, y))


@pytest.mark.parametrize("name", ["LSSVC", "RLSSVC"])
def test_learning_and_forgetting_in_memory(name, wide):
    X, y, weights, _, model = reference(name)
    model.fit(X[:200], y[:200], weights[:200])
    model.learn(X[200:], y[200:], weights[200:])
    model.forget(range(50))
    fresh = clone(model).fit(X[50:], y[50:], weights[50:])
    np.testing.assert_allclose(model.class_weight_ / fresh.class_weight_, 1.0, rtol=0.3)
    if name == "RLSSVC":
        assert_same_model(model, fresh, 1e-7)
    assert model.certificate_.residual <= 1e-10


@pytest.mark.parametrize("name", ["LSSVC", "RLSSVC"])
def test_probabilities_of_a_stream_are_near_those_of_exact_leverage(name, monkeypatch):
    X, y, weights, _, model = reference(name)
    model.set_params(class_weight=None)  # They would move the decision, and not the probabilities.
    exact = clone(model).fit(ArraySource(X, y, weights))
    monkeypatch.setattr(products, "WIDE", 1)
    model.fit(ArraySource(X, y, weights))
    found, best = model.predict_proba(X), exact.predict_proba(X)
    assert np.abs(found - best).max() < 0.02
    assert np.array_equal(model.classes_[found.argmax(axis=1)], model.predict(X))


def test_leverage_is_right_in_all_and_nearly_row_by_row():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(600, 120)) * rng.uniform(0.3, 3.0, (600, 1))
    costs = rng.uniform(0.1, 2.0, 600)
    y = np.where(rng.normal(size=600) > 0, 1.0, -1.0)[:, None]
    problem = Problem(LinearOperator(Z), y, costs, Loss.SQUARED, problems.bias_of(oracle.FREE)).linear
    hessian = ProductHessian.at(problem, np.zeros((120, 1)), np.zeros(1))[1]
    Z1 = np.column_stack([Z, np.ones(600)])
    H = (Z1 * costs[:, None]).T @ Z1 + np.diag([*np.ones(120), 0.0])
    exact = costs * np.einsum("ij,ij->i", Z1, np.linalg.solve(H, Z1.T).T)
    found = costs * hessian.leverage(Z, costs, 0)
    assert found.sum() == pytest.approx(exact.sum(), rel=0.05)
    assert np.abs(found - exact).max() < 0.1


def test_a_killed_fit_goes_on(monkeypatch, tmp_path):
    monkeypatch.setattr(products, "WIDE", 1)
    X, y, _, formed, model = reference("RelaxedLSSVC", weights=False)
    blocks = Blocks(X, y)

    def dies():
        if blocks.passes >= 14:
            raise OSError("the disk is gone")
        return blocks()

    path = tmp_path / "fit.npz"
    with pytest.raises(OSError, match="disk"):
        model.fit(BlockSource(dies), checkpoint=path)
    assert set(np.load(path).files) == {"purpose", "digest", "w", "b"}
    whole, rest = Blocks(X, y), Blocks(X, y)
    clone(model).fit(BlockSource(whole))
    assert_same_model(model.fit(BlockSource(rest), checkpoint=path), formed)
    assert rest.passes < whole.passes
    assert not path.exists()


def test_a_limit_on_products_still_goes_down(wide, monkeypatch):
    monkeypatch.setattr(newton_hessian, "_PRODUCTS", 2)
    X, y, weights, formed, model = reference("LagrangianSVC")
    monkeypatch.setattr(products, "WIDE", 1)
    assert_same_model(model.fit(X, y, weights), formed, 1e-7)
    assert y.size > SIZE


@pytest.mark.parametrize("kind", [MemoryRunner, Far], ids=["near", "far"])
def test_columns_of_two_hessians(kind):
    problem = linear_problem(kind, "dense", 3, oracle.HINGE, 0.3)
    ways = [(np.full((6, 3), size), np.full(3, size)) for size in (0.0, 0.3)]
    (_, one), (_, other) = (ProductHessian.at(problem, w, b) for w, b in ways)
    mixed = one.with_columns(other, np.array([False, True, False]))
    V, columns = np.arange(18.0).reshape(6, 3), np.arange(3)
    expected = np.where([False, True, False], other.times(V, columns), one.times(V, columns))
    np.testing.assert_allclose(mixed.times(V, columns), expected, rtol=1e-12)
    np.testing.assert_allclose(mixed._diagonal[:, 1], other._diagonal[:, 1])
