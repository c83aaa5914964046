"""Other libraries' models that are ours under another name, at other scales: docs/family.rst lists them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_svmlight_file, make_classification
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeClassifier, RidgeClassifierCV
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:150], y[:150]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("c", [0.05, 1.0])
def test_linear_svc_is_linear_lagrangian_at_twice_its_c(cancer, c):
    """LIBLINEAR's loss has no factor 1/2, and its intercept is a column of ones: A = 1."""
    X, y = cancer
    weights = np.linspace(0.5, 2.0, len(y))
    peer = LinearSVC(C=c, loss="squared_hinge", dual=False, intercept_scaling=1, tol=1e-12, max_iter=100_000)
    peer.fit(X, y, sample_weight=weights)
    ours = LagrangianSVC(C=2 * c, A=1.0, kernel="linear", tol=1e-10).fit(X, y, sample_weight=weights)
    # LIBLINEAR's own stopping rule leaves 2e-8.
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=0, atol=1e-7)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, rtol=0, atol=1e-7)


@pytest.mark.parametrize("C", [0.5, 20.0])
def test_hard_margin_svc_on_k_plus_ridge_is_rlssvc(cancer, C):
    X, y = cancer
    K = rbf_kernel(X, gamma=0.02)
    peer = SVC(kernel="precomputed", C=1e12, tol=1e-9).fit(K + np.eye(len(y)) / C, y)
    ours = RLSSVC(C=C, gamma=0.02, tol=1e-10).fit(X, y)
    # LIBSVM keeps kernel values as float32.
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(K), rtol=0, atol=5e-6)
    assert set(ours.support_) == set(peer.support_)
    theirs = np.argsort(peer.support_)  # By class there, by row here.
    np.testing.assert_allclose(ours.dual_coef_, peer.dual_coef_[:, theirs], rtol=0, atol=5e-5)


def test_hard_margin_svc_on_splice(data_folder):
    """At the size and to the accuracy that the speed comparison asks for."""
    X, y = load_svmlight_file(str(data_folder / "splice.svm"))
    X = StandardScaler().fit_transform(X.toarray())
    K = rbf_kernel(X, gamma=1 / 60)
    peer = SVC(kernel="precomputed", C=1e12, tol=1e-6).fit(K + np.eye(len(y)), y)
    ours = RLSSVC(C=1.0, gamma=1 / 60).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(K), rtol=0, atol=1e-5)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_ridge_classifier_is_linear_lssvc(request, data, C):
    X, y = request.getfixturevalue(data)
    weights = np.linspace(0.5, 2.0, len(y))
    peer = RidgeClassifier(alpha=1 / C, solver="cholesky").fit(X, y, sample_weight=weights)
    ours = LSSVC(C=C, kernel="linear").fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), rtol=0, atol=1e-11)
    np.testing.assert_allclose(ours.coef_, np.atleast_2d(peer.coef_), rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, rtol=0, atol=1e-11)


@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_is_linear_lssvr(cancer, intercept):
    X, _ = cancer
    y = 100.0 + X @ np.arange(X.shape[1]) + np.sin(X[:, 0])
    peer = Ridge(alpha=0.2, fit_intercept=intercept, solver="cholesky").fit(X, y)
    ours = LSSVR(C=5.0, kernel="linear", fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=1e-10)


def test_ridge_cv_stores_our_leave_one_out_errors(cancer):
    X, y = cancer
    C, t = 3.0, np.where(y == 1, 1.0, -1.0)
    peer = RidgeClassifierCV(alphas=[1 / C], store_cv_results=True).fit(X, y)
    ours = LSSVC(C=C, kernel="linear").fit(X, y).loo_decision_function()
    np.testing.assert_allclose((t - ours) ** 2, peer.cv_results_[:, 0, 0], rtol=1e-9)


def test_kernel_ridge_is_lssvr_without_bias_and_only_then(cancer):
    X, _ = cancer
    y = 3.0 + np.sin(X[:, 0])
    peer = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.05).fit(X, y)
    ours = LSSVR(C=10.0, gamma=0.05, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=1e-10)
    assert abs(LSSVR(C=10.0, gamma=0.05).fit(X, y).predict(X) - peer.predict(X)).max() > 1e-3


@pytest.mark.parametrize("gamma", ["scale", "auto"])
def test_gamma_is_that_of_svc(gamma):
    X, y = make_classification(60, 5, shift=2.0, scale=3.0, random_state=0)
    ours = RLSSVC(gamma=gamma).fit(X, y)
    by_name, by_number = SVC(gamma=gamma).fit(X, y), SVC(gamma=ours.gamma_).fit(X, y)
    np.testing.assert_allclose(by_name.decision_function(X), by_number.decision_function(X), rtol=1e-9)


class TestWithinTheFamily:
    """Models of the papers' table that coincide at special parameters."""

    def test_relaxed_tends_to_lssvc_as_a_vanishes(self, cancer):
        X, y = cancer
        limit = LSSVC(gamma=0.02).fit(X, y).decision_function(X)
        away = [
            abs(RelaxedLSSVC(gamma=0.02, A=A).fit(X, y).decision_function(X) - limit).max()
            for A in (1.0, 1e-2, 1e-4, 1e-8)
        ]
        assert away == sorted(away, reverse=True)
        assert away[0] > 1e-4
        assert away[-1] < 1e-8

    def test_relaxed_loses_its_bias_as_a_grows(self, cancer):
        X, y = cancer
        model = RelaxedLSSVC(gamma=0.02, A=1e8).fit(X, y)
        without = LSSVC(gamma=0.02, fit_intercept=False).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), without.decision_function(X), atol=1e-6)

    def test_linear_proximal_is_relaxed_at_a_equal_to_one(self, cancer):
        X, y = cancer
        proximal = ProximalSVC(C=0.7, kernel="linear").fit(X, y)
        relaxed = RelaxedLSSVC(C=0.7, kernel="linear", A=1.0).fit(X, y)
        np.testing.assert_allclose(proximal.coef_, relaxed.coef_, rtol=1e-12)

    def test_linear_augmented_lagrangian_is_the_plain_one(self, cancer):
        X, y = cancer
        plain = LagrangianSVC(C=0.7, kernel="linear").fit(X, y)
        augmented = LagrangianSVC(C=0.7, kernel="linear", augment=True).fit(X, y)
        np.testing.assert_allclose(augmented.decision_function(X), plain.decision_function(X), rtol=1e-12)

    @pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
    def test_augmented_distance_kernels_have_no_bias(self, cancer, kernel):
        X, y = cancer
        augmented = LagrangianSVC(kernel=kernel, augment=True).fit(X, y)
        without = RLSSVC(kernel=kernel, fit_intercept=False).fit(X, y)
        assert augmented.intercept_ == 0.0
        np.testing.assert_allclose(augmented.decision_function(X), without.decision_function(X), rtol=1e-10)

    @pytest.mark.parametrize("estimator", [LSSVC, RLSSVC, RelaxedLSSVC, LagrangianSVC, ProximalSVC])
    def test_precomputed_and_callable_are_the_named_kernel(self, cancer, estimator):
        X, y = cancer
        named = estimator(gamma=0.02, C=5.0, tol=1e-9).fit(X, y)
        K = rbf_kernel(X, gamma=0.02)
        precomputed = estimator(kernel="precomputed", C=5.0, tol=1e-9).fit(K, y)
        function = estimator(kernel=lambda a, b: rbf_kernel(a, b, gamma=0.02), C=5.0, tol=1e-9).fit(X, y)
        f = named.decision_function(X)
        np.testing.assert_allclose(precomputed.decision_function(K), f, rtol=0, atol=1e-9)
        np.testing.assert_allclose(function.decision_function(X), f, rtol=0, atol=1e-9)
