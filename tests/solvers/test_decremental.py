"""DOLSVM, DBLSVM, DOLSSVM and DBLSSVM of the decremental paper, and the models that forget by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squaresvm import LSSVC, LSSVR, LagrangianSVC, RelaxedLSSVC
from squaresvm.linalg.lapack import NotPositiveSemidefiniteError
from squaresvm.operators import PrecomputedOperator
from squaresvm.problem import Bias
from squaresvm.solution import Solution
from squaresvm.solvers import DBLSSVM, DBLSVM, DOLSSVM, DOLSVM, Lagrangian
from squaresvm.solvers.decremental import StoredInverse, decremental_for
from support import oracle, problems

M, TOL = 24, 1e-9
RULES = {"DOLSVM": DOLSVM, "DBLSVM": DBLSVM, "DOLSSVM": DOLSSVM, "DBLSSVM": DBLSSVM}
GONE = {"DOLSVM": [5], "DBLSVM": [2, 19, 7], "DOLSSVM": [0], "DBLSSVM": [23, 1, 2, 3]}


def make(K, y, costs, loss, A):
    return problems.problem_of(PrecomputedOperator(K), y, costs, loss, A)


def whole_and_rest(loss, A, C, gone):
    """Return problem and optimum of all rows, and of those that stay."""
    X = problems.rows("random", m=M)
    K = problems.CASES["rbf"](X, np.ones(M)).K
    y, costs = problems.signs(X), C * problems.weights_of("mixed", M)
    found = []
    for rows in (np.arange(M), np.setdiff1d(np.arange(M), gone)):
        system = (K[np.ix_(rows, rows)], y[rows], costs[rows], loss, A)
        found += [make(*system), oracle.solve(*system)]
    return found


def beginning(best, gone):
    """Return the multipliers of the rows that stay, as they were."""
    return Solution(beta=np.delete(best.beta, gone)[:, None], bias=np.zeros(1))


class TestInverse:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(2, 12), st.data())
    def test_blocks_of_nine_are_the_inverse_of_what_stays(self, m, data):
        gone = np.array(data.draw(st.lists(st.integers(0, m - 1), min_size=1, max_size=m - 1, unique=True)))
        root = np.random.default_rng(m).normal(size=(m, m))
        Q = root @ root.T + np.eye(m)
        rest = np.setdiff1d(np.arange(m), gone)
        found = StoredInverse(np.linalg.inv(Q), Bias.free()).without(gone).values
        np.testing.assert_allclose(found @ Q[np.ix_(rest, rest)], np.eye(rest.size), atol=1e-9)

    def test_rows_come_back(self):
        root = np.random.default_rng(0).normal(size=(9, 9))
        Q = root @ root.T + 0.1 * np.eye(9)
        whole = StoredInverse(np.linalg.inv(Q), Bias.none())
        again = whole.without(np.array([7, 8])).joined(Q[:7, 7:], Q[7:, 7:])
        np.testing.assert_allclose(again.values, whole.values, rtol=1e-8, atol=1e-10)
        assert whole.is_fresh
        assert not again.is_fresh

    def test_a_block_that_is_not_definite_is_no_inverse(self):
        values = np.diag([1.0, -1.0, 1.0])
        with pytest.raises(np.linalg.LinAlgError):
            StoredInverse(values, Bias.none()).without(np.array([1]))

    def test_an_indefinite_kernel_is_told(self):
        problem = make(-np.eye(3), np.array([1.0, -1.0, 1.0]), np.full(3, 10.0), oracle.SQUARED, oracle.FREE)
        with pytest.raises(NotPositiveSemidefiniteError):
            StoredInverse.of(problem)


PENALTIES = (0.0, 1e-2, 1.0, 1e4, np.inf)
#: The Lagrangian SVM has no free bias.
CASES = [(name, A) for name in RULES for A in PENALTIES if "SSVM" in name or A > 0]


@pytest.mark.parametrize(("name", "A"), CASES)
@pytest.mark.parametrize("C", [1.0 / M, 1.0, 30.0])
def test_each_ends_at_the_optimum_of_the_rows_that_stay(name, A, C):
    loss, gone = oracle.SQUARED if "SSVM" in name else oracle.HINGE, GONE[name]
    whole, before, rest, best = whole_and_rest(loss, A, C, gone)
    found = RULES[name]().forget(
        rest, StoredInverse.of(whole), np.array(gone), tol=TOL, start=beginning(before, gone)
    )
    assert rest.certify(found, TOL).residual <= TOL
    np.testing.assert_allclose(found.beta[:, 0], best.beta, atol=1e-6 * max(1.0, abs(best.beta).max()))
    np.testing.assert_allclose(rest.decision(found)[:, 0], best.decision, atol=1e-6)
    assert found.factor.size == rest.n_rows


def test_twelve_without_the_border_is_another_solution():
    """(12) subtracts b from the targets: without it 1'alpha does not vanish."""
    whole, _, rest, best = whole_and_rest(oracle.SQUARED, 0.0, 2.0, [4])
    inverse = StoredInverse.of(whole).without(np.array([4]))
    alpha, b = inverse.bordered(rest.targets)
    assert b[0] == pytest.approx(best.bias, abs=1e-9)
    assert abs(alpha.sum()) < 1e-10 < abs((inverse.values @ rest.targets).sum())


def test_the_papers_step_five_stops_by_its_epsilon():
    """Table 1's parameters: lambda = 1.9/C, C = 1/m, epsilon = 1e-5."""
    whole, before, rest, best = whole_and_rest(oracle.HINGE, np.inf, 1.0 / M, [4])
    rule = DOLSVM(Lagrangian(stop="step"))
    found = rule.forget(rest, StoredInverse.of(whole), np.array([4]), tol=1e-5, start=beginning(before, [4]))
    assert found.outcome == "finished"
    np.testing.assert_allclose(found.beta[:, 0], best.beta, atol=1e-4)


@pytest.mark.parametrize(("count", "name"), [(1, "O"), (2, "B"), (9, "B")])
def test_one_row_is_online_and_several_are_a_batch(count, name):
    assert decremental_for("squared loss", count, "inverse").name == f"D{name}LSSVM"
    rule = decremental_for("squared hinge", count, Lagrangian(alpha=0.1))
    assert rule.name == f"D{name}LSVM"
    assert rule.iteration.alpha == 0.1


MODELS = [
    LSSVC(solver="inverse", C=3.0, gamma=0.5),
    RelaxedLSSVC(solver="inverse", A=0.05),
    LSSVC(solver="inverse", kernel="laplacian", fit_intercept=False),
    LagrangianSVC(solver="lagrangian", A=0.3, gamma=0.5),
    LagrangianSVC(solver=Lagrangian(alpha=0.7), augment=True, kernel="poly", degree=2, C=0.5),
]


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    X[11] = X[10]
    X[:, 2] = 1.0
    return X, (X[:, 0] + 0.4 * rng.normal(size=60) > 0).astype(int)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model)[:60])
def test_a_history_of_requests_equals_a_fit(rows, model):
    X, y = rows
    model.fit(X[:50], y[:50])
    fitted = type(model)(**{**model.get_params(), "gamma": model.gamma_, "solver": "auto"})
    names = ("DOLSSVM", "DBLSSVM") if model.solver == "inverse" else ("DOLSVM", "DBLSVM")
    receipt = model.forget([10])
    assert (model.solver_, receipt.rows, receipt.checked) == (names[0], 1, 49)
    model.forget([0, 1, 2])
    assert model.solver_ == names[1]
    model.learn(X[50:], y[50:])
    model.forget(list(range(20, 40)))
    keep = np.setdiff1d(np.arange(60), [10, 0, 1, 2, *range(20, 40)])
    fitted.fit(X[keep], y[keep])
    np.testing.assert_allclose(model.decision_function(X), fitted.decision_function(X), atol=2e-5)
    assert model.certificate_.residual <= model.tol


def test_classes_come_and_go_with_one_inverse(rows):
    X, _ = rows
    y = np.arange(60) % 3
    for model in (LSSVC(solver="inverse"), LagrangianSVC(solver="lagrangian")):
        model.fit(X[:59], y[:59]).forget(np.flatnonzero(y[:59] == 2).tolist())
        assert model.classes_.tolist() == [0, 1]
        assert model.certificate_.residual <= model.tol
        model.learn(X[59:], y[59:])
        assert model.classes_.tolist() == [0, 1, 2]
        assert model.certificate_.residual <= model.tol


def test_nothing_of_a_forgotten_row_stays_in_the_old_inverse(rows):
    X, y = rows
    model = LSSVR(solver="inverse").fit(X, y)
    old = model._state.solution.factor
    model.forget([3])
    assert not old.values.any()
    assert model._state.solution.factor.size == 59


def test_a_drifted_inverse_is_computed_anew(rows):
    X, y = rows
    model = LSSVC(solver="inverse").fit(X, y)
    model._state.solution.factor.values[:] *= 1.5
    receipt = model.forget([3])
    assert receipt.refactored
    assert receipt.residual <= model.tol


def test_an_inverse_that_is_of_no_use_fails_no_request(rows):
    X, y = rows
    model = LagrangianSVC(solver="lagrangian").fit(X, y)
    model.forget([0])
    model._state.solution.factor.values[:] *= -1.0
    receipt = model.forget([3])
    assert receipt.refactored
    assert receipt.residual <= model.tol


def test_a_fixed_point_that_ends_too_early_says_so(rows):
    X, y = rows
    model = LagrangianSVC(solver="lagrangian", C=1e5)
    with pytest.warns(match="lagrangian"):
        model.set_params(max_iter=20).fit(X, y)
    with pytest.warns(match="DOLSVM"):
        model.forget([0])
    assert model.certificate_.status == "max_iter"
