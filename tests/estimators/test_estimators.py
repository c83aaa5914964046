"""The estimators' promises: shapes, attributes, and each model's own formula written out naively."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC, Status
from support import oracle, problems

#: Estimator class -> loss and penalty of the bias, at parameters away from the defaults.
MODELS = {
    LSSVC: (oracle.SQUARED, oracle.FREE, {}),
    RelaxedLSSVC: (oracle.SQUARED, 0.3, {"A": 0.3}),
    LagrangianSVC: (oracle.HINGE, 0.3, {"A": 0.3}),
    RLSSVC: (oracle.HINGE, oracle.FREE, {}),
}
CLASSIFIERS = [*MODELS, ProximalSVC]
M = 24
KERNELS = ["linear", "rbf", "poly", "cubic", "laplacian"]


def kernel_parameters(name):
    return {"kernel": "poly" if name == "cubic" else name, **problems.PARAMETERS.get(name, {})}


def naive_kernel(name, X, Z):
    parameters = kernel_parameters(name)
    return oracle.kernel_matrix(parameters.pop("kernel"), X, Z, **parameters)


@pytest.fixture
def binary():
    X = problems.rows(m=M)
    return X, np.where(problems.signs(X) > 0, "yes", "no")


@pytest.fixture
def three():
    X = problems.rows(m=M)
    return X, np.array(["b", "c", "a"])[np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2, [0.0, 0.8])]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_is_the_model_of_the_table(cls, kernel, intercept, binary):
    X, labels = binary
    loss, A, parameters = MODELS[cls]
    A = A if intercept else oracle.NONE
    model = cls(C=3.0, fit_intercept=intercept, tol=1e-9, **parameters, **kernel_parameters(kernel))
    model.fit(X, labels)
    y = np.where(labels == "yes", 1.0, -1.0)
    best = oracle.solve(naive_kernel(kernel, X, X), y, np.full(M, 3.0), loss, A)
    new = problems.rows(m=9, seed=8)
    expected = naive_kernel(kernel, new, X) @ best.beta + best.bias
    np.testing.assert_allclose(model.decision_function(new), expected, rtol=0, atol=1e-8)
    assert model.predict(new).tolist() == np.where(expected > 0, "yes", "no").tolist()
    assert model.intercept_ == pytest.approx([best.bias], abs=1e-8)
    beta = np.zeros(M)
    beta[model.support_] = model.dual_coef_[0]
    np.testing.assert_allclose(beta, best.beta, rtol=0, atol=1e-8 * abs(best.beta).max())
    assert model.certificate_.objective == pytest.approx(best.objective, rel=1e-9)
    assert model.certificate_.status is Status.CONVERGED


@pytest.mark.parametrize("cls", CLASSIFIERS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
class TestAttributes:
    def test_two_classes(self, cls, kernel, binary):
        X, labels = binary
        model = cls(kernel=kernel).fit(X, labels)
        n_support = model.support_.size
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.dual_coef_.shape == (1, n_support)
        assert model.support_vectors_.shape == (n_support, 3)
        np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
        assert model.intercept_.shape == (1,)
        assert model.decision_function(X[:5]).shape == (5,)
        assert model.ids_.tolist() == list(range(M))
        assert model.C_ == 1.0
        assert model.class_weight_.tolist() == [1.0, 1.0]
        assert model.n_features_in_ == 3

    def test_three_classes(self, cls, kernel, three):
        X, labels = three
        model = cls(kernel=kernel).fit(X, labels)
        assert model.classes_.tolist() == ["a", "b", "c"]
        assert model.dual_coef_.shape == (3, model.support_.size)
        assert model.intercept_.shape == (3,)
        decision = model.decision_function(X[:5])
        assert decision.shape == (5, 3)
        assert model.predict(X[:5]).tolist() == model.classes_[decision.argmax(axis=1)].tolist()

    def test_three_classes_are_three_binary_fits(self, cls, kernel, three):
        """One factor, one set of sums, yet the same as one class against the rest at a time."""
        X, labels = three
        weights = problems.weights_of("mixed", M)
        together = cls(kernel=kernel, C=5.0, tol=1e-9).fit(X, labels, sample_weight=weights)
        residuals = []
        for column, label in enumerate(together.classes_):
            alone = cls(kernel=kernel, C=5.0, tol=1e-9).fit(X, labels == label, sample_weight=weights)
            np.testing.assert_allclose(
                together.decision_function(X)[:, column], alone.decision_function(X), rtol=0, atol=1e-9
            )
            assert together.intercept_[column] == pytest.approx(alone.intercept_[0], abs=1e-9)
            residuals.append(alone.certificate_.residual)
        assert together.certificate_.residual <= max(1e-9, 10 * max(residuals))

    def test_coefficients_of_the_decision_function(self, cls, kernel, three):
        """f(x) = sum dual_coef_i k(x_i, x) + b, and w x + b where the kernel is linear."""
        X, labels = three
        model = cls(kernel=kernel).fit(X, labels)
        new = problems.rows(m=7, seed=8)
        gamma = {} if kernel == "linear" else {"gamma": model.gamma_}
        near = oracle.kernel_matrix(kernel, new, model.support_vectors_, **gamma)
        expected = near @ model.dual_coef_.T + model.intercept_
        np.testing.assert_allclose(model.decision_function(new), expected, rtol=0, atol=1e-10)
        if kernel == "linear":
            assert model.coef_.shape == (3, 3)
            np.testing.assert_allclose(new @ model.coef_.T + model.intercept_, expected, rtol=0, atol=1e-10)
            with pytest.raises(AttributeError, match="has no gamma"):
                _ = model.gamma_
        else:
            assert not hasattr(model, "coef_")
            with pytest.raises(AttributeError, match="only with kernel='linear'"):
                _ = model.coef_

    def test_says_which_solver_and_why(self, cls, kernel, binary):
        X, labels = binary
        model = cls(kernel=kernel).fit(X, labels)
        assert model.solver_ in ("direct", "active-set", "newton")
        assert str(M) in model.solver_reason_
        by_name = cls(kernel=kernel, solver=model.solver_).fit(X, labels)
        assert by_name.solver_reason_ == "asked for by name"
        np.testing.assert_allclose(
            by_name.decision_function(X), model.decision_function(X), rtol=0, atol=1e-10
        )
        if model.solver_ == "direct":
            assert model.n_iter_ == 1
        assert isinstance(model.n_iter_, int)
        assert model.n_iter_ >= 1

    def test_nothing_before_fit(self, cls, kernel):
        model = cls(kernel=kernel)
        for name in ("support_", "dual_coef_", "intercept_", "certificate_", "classes_", "ids_", "solver_"):
            with pytest.raises(NotFittedError, match=f"{name}.*call 'fit' first"):
                getattr(model, name)
        with pytest.raises(NotFittedError):
            model.predict([[1.0, 2.0, 3.0]])


class TestSquaredHingeIsSparse:
    @pytest.mark.parametrize("cls", [RLSSVC, LagrangianSVC])
    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_rows_beyond_the_margin_have_no_part(self, cls, kernel):
        X = problems.rows(m=60)
        y = problems.signs(X, noise=0.3)
        model = cls(kernel=kernel, C=50.0, tol=1e-9).fit(X, y)
        margin = y * model.decision_function(X)
        outside = np.setdiff1d(np.arange(60), model.support_)
        assert 0 < outside.size < 60
        assert (margin[outside] >= 1 - 1e-8).all()
        assert (margin[model.support_] < 1 + 1e-8).all()
        np.testing.assert_allclose(
            y[model.support_] * model.dual_coef_[0], 50.0 * (1 - margin[model.support_]), rtol=0, atol=1e-5
        )


@pytest.mark.parametrize("weighted", [False, True])
def test_nonlinear_proximal_is_equation_12(weighted, binary):
    """f(x) = k(x, X) W K beta + 1'beta with (K W K' + 1 1' + diag(1/C)) beta = y, A = 1."""
    X, labels = binary
    y = np.where(labels == "yes", 1.0, -1.0)
    W = problems.weights_of("mixed" if weighted else "equal", M)
    model = ProximalSVC(C=2.0, gamma=0.4).fit(X, labels, sample_weight=W)
    K = oracle.kernel_matrix("rbf", X, X, gamma=0.4)
    H = K @ np.diag(W) @ K.T + np.ones((M, M)) + np.diag(1.0 / (2.0 * W))
    beta = np.linalg.solve(H, y)
    new = problems.rows(m=9, seed=8)
    near = oracle.kernel_matrix("rbf", new, X, gamma=0.4)
    expected = near @ (W * (K @ beta)) + beta.sum()
    np.testing.assert_allclose(model.decision_function(new), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.dual_coef_[0], W * (K @ beta), rtol=0, atol=1e-9)
    assert model.intercept_[0] == pytest.approx(beta.sum(), abs=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid", "laplacian", "callable"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_augment_is_a_column_of_minus_one(kernel, form, binary):
    """The LSVM paper's model: k([x, -1], [z, -1]) and no other bias; 'scale' from the plain columns.

    C is small because a sigmoid is not semidefinite.
    """
    X, labels = binary

    def function(a, b):
        product = a @ b.T
        return (np.asarray(product.todense() if sp.issparse(product) else product) + 0.5) ** 2

    parameters = {"gamma": "scale", "coef0": 0.2, "degree": 2, "C": 0.1, "tol": 1e-9}
    parameters["kernel"] = function if kernel == "callable" else kernel
    model = LagrangianSVC(augment=True, **parameters).fit(form(X), labels)
    new = problems.rows(m=9, seed=8)

    def wide(a):
        return np.hstack([a, np.full((len(a), 1), -1.0)])

    parameters["gamma"] = 1.0 / (3 * X.var())
    explicit = RLSSVC(fit_intercept=False, **parameters).fit(wide(X), labels)
    np.testing.assert_allclose(
        model.decision_function(form(new)), explicit.decision_function(wide(new)), rtol=0, atol=1e-8
    )


class TestRegression:
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_is_the_squared_loss(self, kernel, intercept):
        X, weights = problems.rows(m=M), problems.weights_of("mixed", M)
        y = 50.0 + 10.0 * np.sin(X[:, 0]) + X[:, 1]
        model = LSSVR(C=3.0, fit_intercept=intercept, **kernel_parameters(kernel))
        model.fit(X, y, sample_weight=weights)
        A = oracle.FREE if intercept else oracle.NONE
        best = oracle.solve(naive_kernel(kernel, X, X), y, 3.0 * weights, oracle.SQUARED, A)
        new = problems.rows(m=9, seed=8)
        expected = naive_kernel(kernel, new, X) @ best.beta + best.bias
        np.testing.assert_allclose(model.predict(new), expected, rtol=1e-8, atol=1e-7)
        assert model.predict(new).shape == (9,)
        assert model.dual_coef_.shape == (1, M)
        assert not hasattr(model, "decision_function")
        assert not hasattr(model, "classes_")

    def test_one_row_is_its_value_everywhere(self):
        """With a free bias the best fit to a single value is that value."""
        for kernel in ("linear", "rbf"):
            model = LSSVR(kernel=kernel).fit([[1.0, 2.0]], [5.0])
            np.testing.assert_allclose(model.predict([[1.0, 2.0], [-3.0, 0.0]]), 5.0, rtol=1e-12)

    @pytest.mark.parametrize("value", [-7.0, 0.1, 1e6])
    @pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_constant_values(self, kernel, C, value):
        """beta is zero but for rounding, and rounding is no reason for a warning."""
        model = LSSVR(C=C, **kernel_parameters(kernel))
        model.fit(problems.rows(m=M), np.full(M, value), sample_weight=problems.weights_of("mixed", M))
        np.testing.assert_allclose(model.predict(problems.rows(m=5, seed=1)), value, rtol=1e-9)
        assert model.certificate_.status in (Status.CONVERGED, Status.PRECISION)

    def test_integer_and_boolean_targets(self):
        X = problems.rows(m=M)
        whole = np.arange(M)
        np.testing.assert_array_equal(
            LSSVR().fit(X, whole).predict(X), LSSVR().fit(X, whole.astype(float)).predict(X)
        )


class TestInputs:
    @pytest.mark.parametrize("cls", [*CLASSIFIERS, LSSVR], ids=lambda cls: cls.__name__)
    @pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
    @pytest.mark.parametrize("width", [np.int32, np.int64])
    def test_sparse_rows_of_either_index_width(self, cls, kernel, width):
        X = problems.rows(m=M)
        X[X < 0] = 0.0
        y = problems.signs(X)
        rows = sp.csr_matrix(X)
        rows.indices, rows.indptr = rows.indices.astype(width), rows.indptr.astype(width)
        dense, sparse = (cls(kernel=kernel, tol=1e-9).fit(form, y) for form in (X, rows))
        np.testing.assert_allclose(sparse.predict(rows), dense.predict(X), rtol=0, atol=1e-8)
        np.testing.assert_allclose(sparse.predict(X), dense.predict(X), rtol=0, atol=1e-8)

    def test_what_load_svmlight_file_returns(self, data_folder):
        """Its int64 indices, which SVC refuses."""
        X, y = load_svmlight_file(str(data_folder / "a1a.svm"))
        assert X.indices.dtype == np.int64
        for kernel in ("linear", "rbf"):
            model = RLSSVC(kernel=kernel, gamma=1 / 119).fit(X[:200], y[:200])
            assert model.score(X[200:400], y[200:400]) > 0.75

    def test_sparse_rows_with_duplicate_unsorted_entries(self):
        data, indices, indptr = [1.0, 2.0, 0.5, 3.0, -1.0, 1.0], [2, 0, 2, 1, 0, 1], [0, 3, 4, 5, 6]
        rows = sp.csr_matrix((data, indices, indptr), shape=(4, 3))
        kept = rows.indices.copy()
        y = [0, 1, 0, 1]
        for kernel in ("rbf", "laplacian", "linear"):
            sparse, dense = (LSSVC(kernel=kernel).fit(form, y) for form in (rows, rows.toarray()))
            np.testing.assert_allclose(
                sparse.decision_function(rows), dense.decision_function(rows.toarray()), atol=1e-12
            )
        assert np.array_equal(rows.indices, kept)  # The caller's matrix was not sorted in place.

    @pytest.mark.parametrize("cls", [*CLASSIFIERS, LSSVR], ids=lambda cls: cls.__name__)
    def test_the_model_keeps_its_own_rows(self, cls, binary):
        X, _ = binary
        y = problems.signs(X)
        model = cls().fit(X, y)
        before, new = model.predict(X.copy()), X.copy()
        X[:] = 0.0
        np.testing.assert_array_equal(model.predict(new), before)

    def test_inputs_are_not_written_to(self, binary):
        X, y = binary
        K, weights = problems.cauchy(X, X), np.linspace(0.0, 1.0, M)
        kept = X.copy(), K.copy(), weights.copy(), y.copy()
        for cls in CLASSIFIERS:
            for kernel, rows in (("linear", X), ("rbf", X), ("precomputed", K)):
                cls(kernel=kernel).fit(rows, y, sample_weight=weights).decision_function(rows)
        for now, then in zip((X, K, weights, y), kept, strict=True):
            assert np.array_equal(now, then)

    def test_own_ids(self, binary):
        X, y = binary
        names = [f"row-{i}" for i in range(M)]
        assert LSSVC().fit(X, y, ids=names).ids_.tolist() == names


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_too_few_iterations_warn_and_stay_honest(kernel):
    X = problems.rows(m=40, n=2)
    y = problems.signs(X)
    model = RLSSVC(kernel=kernel, C=1e6, max_iter=1)
    with pytest.warns(ConvergenceWarning, match=r"ended with max_iter: residual .*raise max_iter"):
        model.fit(X, y)
    assert model.certificate_.status is Status.MAX_ITER
    assert model.certificate_.residual > 1e-6
    assert model.n_iter_ == 1
    assert (
        model.certificate_.gap
        >= model.certificate_.objective - RLSSVC(kernel=kernel, C=1e6).fit(X, y).certificate_.objective
    )


def test_refit_resolves_anew_and_fit_forgets_the_past(binary):
    X, y = binary
    model = LSSVC(gamma="scale").fit(X, y)
    gamma = model.gamma_
    model.set_params(gamma=0.1)
    assert model.gamma_ == gamma  # A number taken at fit stays until fit or refit.
    assert model.refit() is model
    assert model.gamma_ == 0.1
    fresh = LSSVC(gamma=0.1).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), rtol=0, atol=1e-10)
    assert model.fit(X[:, :2], y).n_features_in_ == 2
