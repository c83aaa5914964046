"""The certificate: the formulas of docs/family.rst, zero at the optimum, a true bound away from it."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm.operators import LinearOperator, PrecomputedOperator
from squaresvm.problem import Bias
from squaresvm.solution import Outcome, Solution, Status
from support import oracle, problems

EPS = np.finfo(float).eps
LOSS_AND_BIAS = [
    pytest.param(loss, A, id=f"{loss}-{bias}")
    for loss in (oracle.SQUARED, oracle.HINGE)
    for bias, A in problems.BIASES.items()
]
CS = [1e-6, 1.0, 1e4, 1e8]


def instance(loss, C=1.0, m=14):
    """Return K, y and costs of a problem without anything special."""
    X = problems.rows(m=m)
    y = problems.signs(X) if loss == oracle.HINGE else 3.0 * problems.rows(m=m, n=1, seed=5)[:, 0]
    K = oracle.kernel_matrix("rbf", X, X, gamma=0.4)
    return K, y, C * problems.weights_of("mixed", m)


def solution_of(beta, bias, A, **more):
    return Solution(beta=np.array(beta)[:, None], bias=np.array([0.0 if A == oracle.NONE else bias]), **more)


def points(answer, y, A, seed=0):
    """Return models around the optimum: scaled, shifted, perturbed, and far away."""
    rng = np.random.default_rng(seed)
    size = abs(answer.beta).max()
    b = 0.0 if A == oracle.NONE else answer.bias
    shift = 0.0 if A == oracle.NONE else 0.7
    noise = rng.normal(size=len(y))
    return {
        "zero": (0.0 * y, 0.0),
        "tenfold": (10.0 * answer.beta, b),
        "shifted": (answer.beta, b + shift),
        "near": (answer.beta + 1e-4 * size * noise, b),
        "far": (size * noise, b - shift),
        "wrong-signs": (-answer.beta, b),
    }


def dual_objective(K, y, costs, A, beta):
    penalty = 0.0 if A in (oracle.FREE, oracle.NONE) else beta.sum() ** 2 / (2 * A)
    return y @ beta - 0.5 * (beta @ K @ beta + beta @ (beta / costs)) - penalty


@pytest.mark.parametrize("C", CS)
@pytest.mark.parametrize(("loss", "A"), LOSS_AND_BIAS)
class TestFormulas:
    def test_residual_and_objective_are_the_oracles(self, loss, A, C):
        K, y, costs = instance(loss, C)
        problem = problems.problem_of(PrecomputedOperator(K), y, costs, loss, A)
        for beta, bias in points(oracle.solve(K, y, costs, loss, A), y, A).values():
            solution = solution_of(beta, bias, A)
            arguments = K, y, costs, loss, A, beta, solution.bias[0]
            assert problem.residual(solution)[0] == pytest.approx(oracle.residual(*arguments), rel=1e-10)
            assert problem.objective(solution)[0] == pytest.approx(oracle.objective(*arguments), rel=1e-10)
            certificate = problem.certify(solution, tol=1e-6)
            assert certificate.residual == problem.residual(solution)[0]
            assert certificate.objective == problem.objective(solution)[0]
            assert certificate.gap == problem.gap(solution)[0]

    def test_gap_bounds_the_distance_from_the_optimum(self, loss, A, C):
        K, y, costs = instance(loss, C)
        problem = problems.problem_of(PrecomputedOperator(K), y, costs, loss, A)
        best = oracle.solve(K, y, costs, loss, A)
        for name, (beta, bias) in points(best, y, A).items():
            solution = solution_of(beta, bias, A)
            reached = oracle.objective(K, y, costs, loss, A, beta, solution.bias[0])
            gap = problem.gap(solution)[0]
            assert gap >= (reached - best.objective) * (1 - 1e-9) - 1e-14 * reached, name
            # The definition, which loses digits where the gap is small, as the package's sum does not.
            dual = dual_objective(K, y, costs, A, problem.feasible(beta[:, None])[:, 0])
            assert gap == pytest.approx(reached - dual, abs=1e-9 * (reached + abs(dual))), name

    def test_gap_and_residual_vanish_at_the_optimum(self, loss, A, C):
        K, y, costs = instance(loss, C)
        problem = problems.problem_of(PrecomputedOperator(K), y, costs, loss, A)
        best = oracle.solve(K, y, costs, loss, A)
        solution = solution_of(best.beta, best.bias, A)
        assert problem.residual(solution)[0] <= problem.rounding(solution)[0]
        assert 0.0 <= problem.gap(solution)[0] <= 1e-9 * best.objective

    def test_a_feasible_point_is_feasible_and_leaves_feasible_points_alone(self, loss, A, C):
        K, y, costs = instance(loss, C)
        problem = problems.problem_of(PrecomputedOperator(K), y, costs, loss, A)
        best = oracle.solve(K, y, costs, loss, A)
        for beta, _ in points(best, y, A).values():
            feasible = problem.feasible(beta[:, None])[:, 0]
            if A == oracle.FREE:
                assert abs(feasible.sum()) <= 1e-14 * abs(beta).sum()
            if loss == oracle.HINGE:
                assert (y * feasible >= 0).all()
        kept = problem.feasible(best.beta[:, None])[:, 0]
        np.testing.assert_allclose(kept, best.beta, rtol=0, atol=1e-13 * abs(best.beta).max())


@pytest.mark.parametrize("C", CS)
@pytest.mark.parametrize(("loss", "A"), LOSS_AND_BIAS)
def test_optimum_known_by_construction(loss, A, C):
    """The certificate accepts an answer that no solver has touched."""
    known = problems.known(loss, A, C)
    solution = solution_of(known.beta, known.bias, A)
    certificate = known.problem.certify(solution, tol=1e-9)
    assert certificate.status is Status.CONVERGED
    assert certificate.gap <= 1e-12 * certificate.objective


class TestRejectsWhatAnUnscaledCertificatePasses:
    """Measured by y beta itself, the squared hinge is blind where C is small."""

    C = 1e-8

    def unscaled(self, K, y, costs, beta, bias):
        r = K @ beta + beta / costs + bias - y
        return np.abs(np.minimum(y * beta, y * r)).max()

    @pytest.mark.parametrize("A", problems.BIASES.values(), ids=problems.BIASES.keys())
    def test_ten_times_the_right_multipliers(self, A):
        K, y, costs = instance(oracle.HINGE, self.C)
        best = oracle.solve(K, y, costs, oracle.HINGE, A)
        wrong = solution_of(10 * best.beta, best.bias, A)
        problem = problems.problem_of(PrecomputedOperator(K), y, costs, oracle.HINGE, A)
        assert self.unscaled(K, y, costs, 10 * best.beta, wrong.bias[0]) < 1e-6  # It would have passed.
        certificate = problem.certify(wrong, tol=1e-6)
        assert certificate.residual > 1.0
        assert certificate.status is Status.MAX_ITER

    @pytest.mark.parametrize("loss", [oracle.SQUARED, oracle.HINGE])
    def test_multipliers_that_do_not_sum_to_zero(self, loss):
        """All within 1e-8 of the right ones, yet together they break 1'beta = 0."""
        K, y, costs = instance(loss, self.C)
        best = oracle.solve(K, y, costs, loss, oracle.FREE)
        # The free bias set right after the shift, the rows see next to nothing of it.
        off = best.beta + 0.05 * abs(best.beta).max() * (y > 0)
        wrong = solution_of(off, best.bias, oracle.FREE)
        problem = problems.problem_of(PrecomputedOperator(K), y, costs, loss, oracle.FREE)
        assert abs(off.sum()) < 1e-6  # What an unscaled test of the constraint would say.
        assert problem.certify(wrong, tol=1e-6).residual > 1e-3

    def test_scale_of_regression_targets(self):
        """The same relative error has the same residual, whatever the unit of y."""
        K, y, costs = instance(oracle.SQUARED)
        residuals = []
        for unit in (1e-6, 1.0, 1e6):
            best = oracle.solve(K, unit * y, costs, oracle.SQUARED, oracle.FREE)
            problem = problems.problem_of(PrecomputedOperator(K), unit * y, costs, oracle.SQUARED, 0.0)
            off = best.beta + 1e-3 * np.roll(best.beta, 1)
            residuals.append(problem.residual(solution_of(off, best.bias, 0.0))[0])
        assert residuals[0] > 1e-5
        np.testing.assert_allclose(residuals, residuals[0], rtol=1e-6)


@pytest.mark.parametrize(("loss", "A"), LOSS_AND_BIAS)
def test_certificate_of_a_model_in_w(loss, A):
    """A linear model has no beta: C_i times the signed slack takes its place."""
    X = problems.rows(m=15)
    _, y, costs = instance(loss, m=15)
    K = X @ X.T
    problem = problems.problem_of(LinearOperator(X), y, costs, loss, A)
    w, b = np.array([0.3, -0.2, 0.5]), 0.0 if A == oracle.NONE else 0.1
    solution = Solution(primal=w[:, None], bias=np.array([b]))
    slack = y - X @ w - b
    beta = costs * (np.where(y * slack > 0, slack, 0.0) if loss == oracle.HINGE else slack)
    np.testing.assert_allclose(problem.multipliers(solution)[:, 0], beta, rtol=1e-12)
    expected = oracle.residual(K, y, costs, loss, A, beta, b)
    assert problem.residual(solution)[0] == pytest.approx(expected, rel=1e-10)
    penalty = 0.0 if A == oracle.NONE else A * b**2
    objective = 0.5 * (w @ w + penalty + (beta**2 / costs).sum())
    assert problem.objective(solution)[0] == pytest.approx(objective, rel=1e-12)
    best = oracle.solve(K, y, costs, loss, A)
    assert problem.gap(solution)[0] >= objective - best.objective
    optimum = Solution(primal=(X.T @ best.beta)[:, None], bias=np.array([best.bias]))
    assert problem.gap(optimum)[0] <= 1e-12 * best.objective
    assert problem.residual(optimum)[0] < 1e-12


class TestStatus:
    """converged, precision, max_iter, stopped: what each means."""

    def judged(self, away, tol, outcome=Outcome.FINISHED, C=1.0):
        known = problems.known(oracle.SQUARED, oracle.FREE, C)
        solution = solution_of(known.beta, known.bias + away, oracle.FREE, outcome=outcome)
        return known.problem.certify(solution, tol), known.problem.rounding(solution)[0]

    def test_converged_whatever_the_solver_says(self):
        for outcome in Outcome:
            assert self.judged(0.0, 1e-6, outcome)[0].status is Status.CONVERGED

    def test_max_iter_even_if_the_solver_says_finished(self):
        for outcome in (Outcome.FINISHED, Outcome.MAX_ITER):
            assert self.judged(1e-3, 1e-6, outcome)[0].status is Status.MAX_ITER

    def test_stopped(self):
        assert self.judged(1e-3, 1e-6, Outcome.STOPPED)[0].status is Status.STOPPED

    def test_precision_is_above_tol_and_within_rounding(self):
        certificate, rounding = self.judged(1e-14, 1e-18)
        assert 1e-18 < certificate.residual <= rounding
        assert certificate.status is Status.PRECISION

    def test_rounding_is_theorys_bound(self):
        K, y, costs = instance(oracle.SQUARED)
        beta, b = problems.rows(m=14, n=1, seed=3)[:, 0], -0.4
        problem = problems.problem_of(PrecomputedOperator(K), y, costs, oracle.SQUARED, oracle.FREE)
        size = (np.abs(K) @ np.abs(beta) + np.abs(beta) / costs + abs(b) + np.abs(y)).max()
        expected = 100 * EPS * size / np.abs(y).max()
        assert problem.rounding(solution_of(beta, b, 0.0))[0] == pytest.approx(expected, rel=1e-12)

    @pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
    @pytest.mark.parametrize("away", [np.nan, np.inf], ids=["nan", "inf"])
    def test_a_number_that_is_not_one_is_no_success(self, away):
        """An infinite residual is not within rounding, even where that is infinite too."""
        assert self.judged(away, 1e-6)[0].status is Status.MAX_ITER

    def test_every_status_says_what_to_do(self):
        texts = {status.advice for status in Status}
        assert len(texts) == len(Status)
        assert "max_iter" in Status.MAX_ITER.advice


def test_the_worst_of_several_columns_counts():
    K, y, costs = instance(oracle.SQUARED)
    good = oracle.solve(K, y, costs, oracle.SQUARED, oracle.FREE)
    Y = np.column_stack([y, y, y])
    problem = problems.problem_of(PrecomputedOperator(K), Y, costs, oracle.SQUARED, oracle.FREE)
    beta, bias = np.column_stack([good.beta] * 3), np.full(3, good.bias)
    bias[1] += 0.5
    certificate = problem.certify(Solution(beta=beta, bias=bias), tol=1e-6)
    alone = problem.column(1).certify(Solution(beta=beta[:, [1]], bias=bias[[1]]), tol=1e-6)
    assert certificate.residual == pytest.approx(alone.residual, rel=1e-12)
    assert certificate.column == 1
    assert certificate.status is Status.MAX_ITER
    # Objective and gap are sums over the columns.
    assert certificate.gap == pytest.approx(alone.gap, rel=1e-9)
    assert certificate.objective == pytest.approx(alone.objective + 2 * good.objective, rel=1e-12)


def test_constant_zero_targets_do_not_divide_by_zero():
    K, _, costs = instance(oracle.SQUARED)
    problem = problems.problem_of(PrecomputedOperator(K), np.zeros(14), costs, oracle.SQUARED, oracle.FREE)
    certificate = problem.certify(solution_of(np.zeros(14), 0.0, oracle.FREE), tol=1e-6)
    assert certificate.residual == certificate.gap == certificate.objective == 0.0
    assert certificate.status is Status.CONVERGED


def test_biases_and_problems_say_what_they_are():
    known = problems.known(oracle.HINGE, 0.3)
    assert str(known.problem) == "squared hinge with penalised bias (A = 0.3)"
    assert Bias.free().is_free
    assert Bias.none().is_absent
    assert not Bias.penalised(2.0).is_free
