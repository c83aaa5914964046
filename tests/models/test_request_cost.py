"""What a request can cost at most, in operations: rows chosen to change as much as they can."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm import RLSSVC, LagrangianSVC
from squaresvm.operators import PrecomputedOperator
from squaresvm.problem import Bias, Loss, Problem
from squaresvm.solution import Solution
from squaresvm.solvers import ActiveSet
from support import oracle, problems

M = 160


def noisy(m=M, seed=0):
    X = problems.rows("random", m=m, seed=seed)
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * np.random.default_rng(seed).normal(size=m) > 0, 1, -1)
    return X, y


def chosen_to_hurt(model, X, count):
    """Rows by what an adversary sees: the largest multipliers, and the neighbours of the largest."""
    size = np.zeros(len(X))
    size[model.support_] = np.abs(model.dual_coef_[0])
    worst = int(np.argmax(size))
    near = np.argsort(np.square(X - X[worst]).sum(axis=1))
    one_side = np.flatnonzero(model.predict(X) == model.predict(X[[worst]])[0])
    return {
        "largest": np.argsort(-size)[:count],
        "neighbours": near[:count],
        "of one class": one_side[np.argsort(-size[one_side])][:count],
    }


@pytest.mark.parametrize("cls", [RLSSVC, LagrangianSVC], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize("count", [1, 10, 70])
def test_no_choice_of_rows_costs_more_than_a_refit_and_five_steps(cls, C, count):
    X, y = noisy()
    settings = {"C": C, "gamma": 0.3}
    for name, gone in chosen_to_hurt(cls(**settings).fit(X, y), X, count).items():
        model = cls(**settings).fit(X, y)
        active = model.support_.size
        model.forget(gone)
        rest = np.setdiff1d(np.arange(M), gone)
        refit = cls(**settings).fit(X[rest], y[rest])
        work = (model._state.solution.work or {"factor": 0.0})["factor"]
        most = refit._state.solution.work["factor"] + 5.0 * active**3 / 3.0
        assert work <= most, f"{name}: {work / most:.2f} of the bound"
        np.testing.assert_allclose(model.decision_function(X), refit.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("A", [oracle.FREE, 0.5], ids=["free", "penalised"])
@pytest.mark.parametrize("allowance", [1e-6, 1.0])
def test_a_search_that_has_spent_its_allowance_begins_anew_and_ends_at_the_optimum(A, allowance):
    X, y = noisy()
    K, costs = oracle.kernel_matrix("rbf", X, X, gamma=0.3), np.full(M, 3.0)
    bias = Bias.free() if A == oracle.FREE else Bias.penalised(A)
    problem = Problem(PrecomputedOperator(K), y[:, None] * 1.0, costs, Loss.SQUARED_HINGE, bias)
    # Multipliers of the other labels: every set on the way is wrong.
    start = Solution(beta=-np.abs(np.linspace(1.0, 30.0, M))[:, None] * y[:, None], bias=np.array([9.0]))
    cold = ActiveSet().solve(problem, tol=1e-9, max_iter=None)
    found = ActiveSet(allowance=allowance).solve(problem, tol=1e-9, max_iter=None, start=start)
    best = oracle.solve(K, y, costs, oracle.HINGE, A)
    np.testing.assert_allclose(problem.decision(found)[:, 0], best.decision, atol=1e-6)
    assert found.n_iter > cold.n_iter
    assert found.work["factor"] <= cold.work["factor"] + (allowance + 1.0) * 2.0 * M**3 / 3.0


def test_bad_allowance():
    with pytest.raises(ValueError, match="allowance"):
        ActiveSet(allowance=0.0)
