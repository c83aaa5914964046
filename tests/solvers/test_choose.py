"""What 'auto' takes: a choice by the numbers of the problem, with its reason, and without side effects."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm import LagrangianSVC, Status
from squaresvm.family import Bias, Loss
from squaresvm.kernels import Kernel
from squaresvm.operators import LinearOperator, OnDemandOperator
from squaresvm.problem import Problem
from squaresvm.solvers.choose import choose, choose_for_source


def wide_problem(m, n, C, loss=Loss.SQUARED_HINGE, sparse=False):
    rng = np.random.default_rng(0)
    X = sp.random(m, n, 0.01, format="csr", rng=rng) if sparse else rng.normal(size=(m, n))
    y = np.where(rng.normal(size=(m, 1)) > 0, 1.0, -1.0)
    return Problem(LinearOperator(X), y, np.full(m, C), loss, Bias.penalised(1.0))


def test_many_columns_and_a_large_C_go_by_active_sets():
    solver, reason = choose(wide_problem(1500, 1100, 1e3), "auto")
    assert solver.name == "active-set"
    assert "active sets on XX'" in reason
    assert "1100 columns for 1500 rows" in reason


@pytest.mark.parametrize(
    ("m", "n", "C", "sparse"),
    [(1500, 1100, 1e-4, False), (3000, 2000, 1.0, True), (1200, 1100, 1e-3, False)],
)
def test_few_products_stay_with_newton(m, n, C, sparse):
    assert choose(wide_problem(m, n, C, sparse=sparse), "auto")[0].name == "newton"


def test_the_optimum_of_a_hard_wide_problem_is_reached():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1300, 1100))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=1300) > 0, 1, -1)
    model = LagrangianSVC(kernel="linear", C=1e3).fit(X, y)
    assert model.solver_ == "active-set"
    assert model.certificate_.status is Status.CONVERGED
    assert model.certificate_.gap < 1e-6 * model.certificate_.objective
    assert model.coef_.shape == (1, 1100)
    np.testing.assert_allclose(model.decision_function(X[:3]), X[:3] @ model.coef_[0] + model.intercept_[0])


@pytest.mark.parametrize("loss", list(Loss))
def test_choosing_computes_no_kernel(monkeypatch, loss):
    monkeypatch.setattr("squaresvm.solvers.choose._GRADIENT_ROWS", 50)
    monkeypatch.setattr("squaresvm.solvers.choose._gradients", lambda problem: None)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, :1] > 0, 1.0, -1.0)
    operator = OnDemandOperator(Kernel("rbf", 0.5), X)
    problem = Problem(operator, y, np.ones(60), loss, Bias.free())
    solver, _ = choose(problem, "auto")
    assert not operator.is_held
    solution = solver.solve(problem, tol=1e-8, max_iter=None)
    assert operator.is_held
    assert problem.certify(solution, 1e-8).status is Status.CONVERGED


@pytest.mark.parametrize(
    ("loss", "requested", "n", "name", "word"),
    [
        (Loss.SQUARED, "auto", 10, "direct", "sums"),
        (Loss.SQUARED, "auto", 5000, "newton", "conjugate gradients"),
        (Loss.SQUARED, "newton", 10, "newton", "few passes"),
        (Loss.SQUARED, "direct", 5, "direct", "sums"),
        (Loss.SQUARED_HINGE, "auto", 10, "newton", "few passes"),
        ("squared hinge", "auto", 10, "newton", "few passes"),
    ],
)
def test_a_source_is_chosen_for_in_the_same_place(loss, requested, n, name, word):
    found, reason = choose_for_source(loss, requested, n)
    assert found == name
    assert word in reason


@pytest.mark.parametrize(("loss", "requested"), [(Loss.SQUARED_HINGE, "direct"), (Loss.SQUARED, "2smo")])
def test_a_source_has_no_other_solvers(loss, requested):
    with pytest.raises(ValueError, match="a source is fitted with solver="):
        choose_for_source(loss, requested, 10)
