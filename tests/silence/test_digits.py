"""Where digits run out: large scales, cancelling distances, asymmetric kernels.

The truth is the optimum in 50 digits, or the residual in extended precision, of the rows as they were given.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC
from squaresvm.streaming import ArraySource
from support import referee

TOL = 1e-6


def rows(m, seed=0, n=3, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    return X, np.where(X[:, 0] + noise * rng.normal(size=m) > 0, 1, -1)


def fitted(model, X, y):
    """Return the fitted model, and whether it warned that it has not converged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return model, any(issubclass(one.category, ConvergenceWarning) for one in caught)


def assert_right_or_warned(model, X, y):
    """Assert that f at the rows is good to a tenth of the targets' scale, or that the fit warned."""
    model, warned = fitted(model, X, y)
    off = max(
        np.abs(referee.truth(model, X, y).decision[:, k].astype(float) - answer.decision).max()
        for k, answer in enumerate(referee.exact(model, X, y))
    )
    assert warned or off <= 0.1, f"f is off by {off:.2g} under {model.certificate_}"


class TestLinearSquaredHingeAtLargeScale:
    def test_the_known_case_reaches_its_optimum(self):
        X, y = rows(30, seed=5, n=4, noise=0.8)
        model, warned = fitted(LagrangianSVC(kernel="linear"), X * 1e8, y)
        best = referee.exact(model, X * 1e8, y)[0].objective
        assert best == pytest.approx(5.779137, rel=1e-6)
        found = referee.truth_in_w(model, X * 1e8, y).objective
        assert warned or found <= best * (1 + 1e-3), model.certificate_

    def test_no_status_hides_a_wrong_f(self):
        """Eight random problems of 24 rows at each scale: an f off by a tenth comes with a warning."""
        for scale in (1e6, 1e7, 1e8):
            for seed in range(8):
                X, y = rows(24, seed, n=4, noise=0.8)
                assert_right_or_warned(LagrangianSVC(kernel="linear"), X * scale, y)


class TestActiveSetThatEmpties:
    def test_leaving_out_the_only_row_of_a_class(self):
        model = RLSSVC(kernel="linear").fit([[0.0], [1.0], [2.0]], [0, 1, 1])
        alone, middle, last = model.loo_decision_function()
        assert alone > 0, "a model that has seen class 1 alone says class 1"
        # Of two rows at a distance d, w = 2 d / (d^2 + 2) and f is zero half-way, at C = 1.
        assert middle == pytest.approx(0.0, abs=1e-9)
        assert last == pytest.approx(1.0, abs=1e-6)
        assert model.loo_score() in (pytest.approx(1 / 3), pytest.approx(2 / 3))

    @pytest.mark.parametrize("seed", range(6))
    def test_leave_one_out_of_a_class_of_one_row(self, seed):
        X, _ = rows(12, seed)
        y = np.r_[1, np.zeros(11, dtype=int)]
        values = RLSSVC(kernel="linear").fit(X, y).loo_decision_function()
        assert values.shape == (12,)
        assert values[0] < 0, "a model that has seen class 0 alone says class 0"

    def test_two_rows_far_apart(self):
        X, y = np.array([[-1e6], [1e6]]), np.array([0, 1])
        model = RLSSVC(kernel="linear", C=1e5).fit(X, y)
        best = referee.exact(model, X, y)[0]
        np.testing.assert_allclose(model.decision_function(X), best.decision, rtol=0, atol=1e-6)

    def test_a_linear_kernel_is_positive_semidefinite(self):
        X = np.random.default_rng(9).normal(size=(100, 3)) * 1e7
        y = X[:, 0] > 0
        model, warned = fitted(LagrangianSVC(kernel="linear", C=1e3), X, y)
        assert warned or (model.predict(X) == y).mean() > 0.95


class TestDistances:
    @pytest.mark.parametrize("shift", [1e6, 1e7])
    def test_a_shift_of_all_rows_changes_no_decision(self, shift):
        X, y = rows(40)
        shifted = X + shift
        near = shifted - shift  # The same rows to the last digit: the subtraction is exact.
        far = LSSVC(gamma=0.3).fit(shifted, y)
        assert referee.truth(far, shifted, y).residual <= 10 * TOL
        expected = LSSVC(gamma=0.3).fit(near, y).decision_function(near)
        np.testing.assert_allclose(far.decision_function(shifted), expected, rtol=0, atol=1e-6)

    def test_a_shift_survives_learn_and_forget(self):
        X, y = rows(45)
        X = X + 1e6
        model = LSSVC(gamma=0.3).fit(X[:40], y[:40]).learn(X[40:], y[40:])
        model.forget([1, 2])
        keep = np.setdiff1d(np.arange(45), [1, 2])
        assert referee.truth(model, X[keep], y[keep]).residual <= 10 * TOL


def unless_asymmetric(request):
    """Return what a request returns; None where it says that the kernel is not symmetric."""
    try:
        return request()
    except ValueError as error:
        if "symmetric" not in str(error):
            raise
        return None


class TestAsymmetry:
    def test_noise_in_one_triangle_is_refused_or_does_no_harm(self):
        rng = np.random.default_rng(0)
        X, y = rows(40)
        K = np.exp(-0.03 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
        K = K + np.triu(rng.uniform(-9e-9, 9e-9, size=K.shape), 1)
        model = unless_asymmetric(lambda: LSSVC(kernel="precomputed", C=1e6).fit(K, y))
        if model is None:
            return
        # Its residual on K as it was given, the mean of both triangles, which is the symmetric part.
        assert referee.truth(model, (K + K.T) / 2, y).residual <= 10 * TOL

    def test_noise_in_new_rows_is_judged_by_what_it_does(self):
        """An absolute 1e-8 is a percent of a kernel of size 1e-6."""
        X, y = rows(42)
        K = 1e-6 * np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
        model = LSSVC(kernel="precomputed", C=1e6).fit(K[:40, :40], y[:40])
        new = K[40:].copy()
        new[0, 41] += 9e-9
        whole = K.copy()
        whole[40, 41] = whole[41, 40] = (new[0, 41] + new[1, 40]) / 2
        learned = unless_asymmetric(lambda: model.learn(new, y[40:]))
        assert learned is None or referee.truth(model, whole, y).residual <= 10 * TOL


@pytest.mark.slow
def test_many_columns_take_the_solver_that_reaches_the_optimum():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 1100))
    y = np.where(X[:, 0] + rng.normal(size=1500) > 0, 1, -1)
    model, _ = fitted(LagrangianSVC(kernel="linear", C=1e3), X, y)
    assert model.certificate_.status == "converged"
    reference = LagrangianSVC(kernel="precomputed", C=1e3).fit(X @ X.T, y)
    assert model.certificate_.objective <= reference.certificate_.objective * (1 + 1e-4)


class TestLinearCertificates:
    """A status of 'converged' means that the residual, with beta = C times slack, is within tol."""

    @staticmethod
    def assert_honest(model, X, y):
        found = referee.truth_in_w(model, X, y).residual
        certificate = model.certificate_
        assert certificate.status != "converged" or found <= 10 * TOL, f"{certificate}, and truly {found:.1e}"

    @staticmethod
    def problem(seed, m, n, scale, shift, noise):
        rng = np.random.default_rng(seed)
        X = scale * rng.normal(size=(m, n)) + shift
        score = X @ rng.normal(size=n)
        return X, (score - score.mean()) / score.std() + noise * rng.normal(size=m)

    def test_of_fits(self):
        for seed in range(60):
            X, score = self.problem(seed, m=18, n=3, scale=10.0, shift=1e3, noise=0.5)
            self.assert_honest(LSSVC(kernel="linear", C=1e3).fit(X, score > 0), X, score > 0)

    def test_of_a_stream_after_rows_have_left(self):
        for seed in range(20):
            X, y = self.problem(seed, m=60, n=3, scale=1e3, shift=1e3, noise=0.5)
            model = LSSVR(kernel="linear", C=1e4).fit(ArraySource(X, y))
            model.forget_rows(X[:45], y[:45])
            self.assert_honest(model, X[45:], y[45:])
