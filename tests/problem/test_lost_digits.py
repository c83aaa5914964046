"""Where float64 is too imprecise the certificate says how wrong f may be, and warns where that matters."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from squaresvm import LSSVR, RLSSVC, Certificate, LagrangianSVC, RelaxedLSSVC, Status
from squaresvm.operators import LinearOperator, PrecomputedOperator
from squaresvm.solution import Solution
from support import oracle, problems

every_bias = pytest.mark.parametrize("A", problems.BIASES.values(), ids=list(problems.BIASES))
every_loss = pytest.mark.parametrize("loss", problems.LOSSES, ids=str)


def rows_of_large_scale():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 4))
    return X, np.where(X[:, 0] + 0.8 * rng.normal(size=30) > 0, 1, -1)


@pytest.mark.parametrize("scale", [1e6, 1e8, 1e10])
def test_large_columns_end_at_the_optimum(scale):
    X, y = rows_of_large_scale()
    certificate = LagrangianSVC(kernel="linear").fit(X * scale, y).certificate_
    # Without the weight of 1/2 |w|^2, which is nothing at these scales.
    assert certificate.objective == pytest.approx(5.7791, abs=1e-4)
    assert certificate.gap < 1e-6 * certificate.objective
    assert certificate.decision_error is not None
    assert certificate.decision_error < 1e-3


@every_loss
@every_bias
@pytest.mark.parametrize("linear", [False, True])
def test_the_error_of_decision_values_is_within_its_bound(loss, A, linear):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 4))
    y = np.where(X[:, 0] + rng.normal(size=20) > 0, 1.0, -1.0)
    costs = rng.uniform(0.5, 20.0, 20)
    K = X @ X.T
    best = oracle.solve(K, y, costs, loss, A)
    operator = LinearOperator(X) if linear else PrecomputedOperator(K)
    problem = problems.problem_of(operator, y, costs, loss, A)
    tightest = np.inf
    for size in (1e-6, 1e-3, 0.1):
        noise = size * rng.normal(size=20) * best.beta
        bias = np.array([0.0 if A == oracle.NONE else best.bias * (1.0 + size)])
        if linear:
            solution = Solution(primal=(X.T @ (best.beta + noise))[:, None], bias=bias)
        else:
            solution = Solution(beta=(best.beta + noise)[:, None], bias=bias)
        away = np.abs(problem.decision(solution)[:, 0] - best.decision).max()
        bound = problem.certify(solution, tol=1e-14).decision_error
        assert bound is not None
        assert away <= bound
        tightest = min(tightest, bound / away)
    assert tightest < 1e3


def test_a_converged_fit_needs_no_bound():
    X, y = rows_of_large_scale()
    certificate = RLSSVC(kernel="linear").fit(X, y).certificate_
    assert certificate.status is Status.CONVERGED
    assert certificate.decision_error is None
    assert certificate.concern is None


@pytest.mark.parametrize(
    ("status", "error", "warned"),
    [
        (Status.CONVERGED, None, False),
        (Status.PRECISION, 0.09, False),
        (Status.PRECISION, 0.11, True),
        (Status.PRECISION, np.inf, True),
        (Status.PRECISION, np.nan, True),
        (Status.MAX_ITER, 1e-9, True),
        (Status.STOPPED, 3.0, False),
    ],
)
def test_what_is_worth_a_warning(status, error, warned):
    assert (Certificate(1e-3, 1e-3, 1.0, status, error).concern is not None) == warned


def test_garbage_for_want_of_digits_warns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) * 1e5
    y = np.where(X[:, 0] + 1e5 * rng.normal(size=40) > 0, 1, -1)
    model = RelaxedLSSVC(kernel="poly", degree=3, gamma=1.0, coef0=1.0, C=1e8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    certificate = model.certificate_
    said = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    assert said == (certificate.concern is not None)
    assert certificate.status is not Status.CONVERGED


def test_the_sum_of_multipliers_is_measured_and_not_excused():
    # Slacks of 1e-12 at C = 1e10: 1'beta is the rounding of y and f, and large beside |beta|_1.
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 2))
    y = 1000.0 + X @ np.array([1.0, -2.0]) + 1e-11 * rng.normal(size=200)
    model = LSSVR(kernel="linear", C=1e10, tol=1e-12).fit(X, y)
    w, b = model.coef_.ravel().astype(np.longdouble), np.longdouble(model.intercept_[0])
    xi = y.astype(np.longdouble) - X.astype(np.longdouble) @ w - b
    share = float(abs(xi.sum()) / np.abs(xi).sum())
    assert share > 1e-6
    assert 0.1 * share < model.certificate_.residual
    assert model.certificate_.status is Status.PRECISION
