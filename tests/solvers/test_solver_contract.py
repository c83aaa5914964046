"""What every solver in ``SOLVERS`` owes, exact or not: the right answer, or an honest word about a wrong one.

A solver that is added there is tested here without further ado. How close the exact ones come is in
``test_solvers.py``.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from squaresvm.solution import Status
from squaresvm.solvers.choose import SOLVERS, choose
from support import oracle, problems

M = 18
TOL = 1e-8
#: K of low and of full rank, and C from where all solvers are quick to where most are not.
CELLS = list(
    product((oracle.SQUARED, oracle.HINGE), problems.BIASES, ("linear", "rbf", "cubic"), (1e-6, 1.0, 1e8))
)


def rows_and_weights(kernel):
    return problems.rows(m=M), problems.weights_of("equal" if kernel == "linear" else "mixed", M)


@cache
def optimum(loss, bias, kernel, C):
    X, W = rows_and_weights(kernel)
    K, y, A = problems.CASES[kernel](X, W).K, problems.signs(X), problems.BIASES[bias]
    return K, y, C * W, A, oracle.solve(K, y, C * W, loss, A)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(("loss", "bias", "kernel", "C"), CELLS)
def test_right_or_honest_or_a_declared_mismatch(name, loss, bias, kernel, C):
    K, y, costs, A, best = optimum(loss, bias, kernel, C)
    operator = problems.CASES[kernel](*rows_and_weights(kernel)).operator
    problem = problems.problem_of(operator, y, costs, loss, A)
    solver = SOLVERS[name]
    if not solver.accepts(problem):
        with pytest.raises(ValueError, match=f"solver '{name}' solves .*Solvers that fit: '"):
            choose(problem, name)
        return
    # H is definite in all of these, so an error would be wrong whatever it says. Ten thousand steps of the
    # fixed point, which it takes at large C, show no more than two thousand.
    limit = 2000 if name == "lagrangian" and C > 1.0 else None
    solution = solver.solve(problem, tol=TOL, max_iter=limit)
    certificate = problem.certify(solution, TOL)
    beta, bias_found = problem.multipliers(solution)[:, 0], solution.bias[0]
    rounding = problem.rounding(solution)[0]
    true = oracle.residual(K, y, costs, loss, A, beta, bias_found)
    assert certificate.residual == pytest.approx(true, rel=1e-3, abs=rounding)
    reached = oracle.objective(K, y, costs, loss, A, beta, bias_found)
    # A model in w is not quite the model of its multipliers, by 1e-12 of the objective at C = 1e8.
    assert certificate.gap >= (reached - best.objective) * (1 - 1e-6) - 1e-10 * reached
    if certificate.status in (Status.CONVERGED, Status.PRECISION):
        # An answer within tol is an answer, up to what a residual of tol leaves open.
        accuracy = max(1e-7, 100 * np.finfo(float).eps * oracle.condition(K, costs, A))
        scale = max(1.0, abs(best.decision).max())
        np.testing.assert_allclose(
            problem.decision(solution)[:, 0], best.decision, rtol=0, atol=accuracy * scale
        )
    else:
        assert certificate.status is Status.MAX_ITER
        assert C > 1.0, "at C = 1 and below there is no excuse"
