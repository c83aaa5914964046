"""After every request `solver_`, `solver_reason_` and `n_iter_` say what ran, whatever was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.streaming import ArraySource

M = 30
#: Estimator, solver of the fit, and what learns and forgets afterwards; by name where these differ.
CASES = [
    (LSSVC(), "direct", "direct"),
    (LSSVC(solver="cg"), "cg", "direct"),
    (LSSVC(solver="sumt"), "sumt", "direct"),
    (LSSVC(kernel="linear"), "direct", "direct"),
    (LSSVC(kernel="linear", solver="newton"), "newton", "direct"),
    (RelaxedLSSVC(solver="2smo"), "2smo", "direct"),
    (ProximalSVC(), "direct", "direct"),
    (LagrangianSVC(solver="lagrangian"), "lagrangian", {"forget": "DOLSVM", "learn": "lagrangian"}),
    (LSSVC(solver="inverse"), "inverse", {"forget": "DOLSSVM", "learn": "inverse"}),
    (LagrangianSVC(kernel="linear", solver="lagrangian"), "lagrangian", "newton"),
    (LagrangianSVC(solver="sesquismo"), "sesquismo", "active-set"),
    (RLSSVC(), "active-set", "active-set"),
    (RLSSVC(kernel="linear"), "newton", "newton"),
]


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(M + 5, 3))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=M + 5) > 0, 1, -1)


@pytest.mark.parametrize(("model", "fitted", "updated"), CASES, ids=lambda case: str(case)[:40])
@pytest.mark.parametrize("request_", ["forget", "learn"])
def test_solver_and_reason(rows, model, fitted, updated, request_):
    X, y = rows
    by_inverse = isinstance(updated, dict)
    updated = updated[request_] if by_inverse else updated
    model.fit(X[:M], y[:M])
    assert model.solver_ == fitted
    # A row that counts, so that something has to be done.
    if request_ == "forget":
        beta = np.zeros(M)
        beta[model.support_] = np.abs(model.dual_coef_[0])
        model.forget([int(np.argmax(beta))])
    else:
        model.learn(X[M:], -y[M:])
    assert model.solver_ == updated
    asked = model.solver if isinstance(model.solver, str) else model.solver.name
    if asked not in ("auto", updated) and model.kernel != "linear" and not by_inverse:
        assert repr(asked) in model.solver_reason_
    assert ("asked for by name" in model.solver_reason_) == by_inverse
    assert model.n_iter_ >= (1 if updated == "direct" else 0)
    assert model.certificate_.residual <= model.tol


def test_rows_without_multipliers_leave_by_no_step_at_all(rows):
    X, y = rows
    model = RLSSVC(C=0.1, kernel="poly").fit(X[:M], y[:M])
    idle = np.setdiff1d(np.arange(M), model.support_)
    assert idle.size, "the case needs a row without a multiplier"
    model.forget([int(idle[0])])
    assert model.n_iter_ == 0
    assert "no multipliers" in model.solver_reason_


def test_a_streamed_model(rows):
    X, y = rows
    model = LSSVR(kernel="linear", solver="newton").fit(ArraySource(X[:M], 1e6 * y[:M]))
    assert model.solver_ == "newton"
    model.learn(X[M:], 1e6 * y[M:])
    assert model.solver_ == "direct"
    assert "sums" in model.solver_reason_
    assert model.certificate_.residual <= model.tol
