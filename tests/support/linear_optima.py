"""Linear problems solved in w and judged by the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm import Status
from squaresvm.operators import LinearOperator
from squaresvm.problem import Problem
from squaresvm.solvers.newton import Newton
from support import oracle, problems


def problem_of(Z, y, costs, loss, A):
    return Problem(LinearOperator(Z), y[:, None], costs, problems.LOSSES[loss], problems.bias_of(A))


def exact_rows(kind="random", m=16):
    """Return rows whose inner products float64 holds exactly: at C = 1e8 a referee needs all digits of K."""
    Z = np.round(256.0 * problems.rows("random" if kind == "deficient" else kind, m=m)) / 256.0
    if kind == "deficient":
        Z[:, 2] = Z[:, 0] + 2.0 * Z[:, 1]
    return Z


def assert_optimal(Z, y, costs, loss, A, start=None, close=1e-7):
    """Assert that Newton ends at the optimum that the referee finds in 50 digits."""
    problem, tol = problem_of(Z, y, costs, loss, A), 1e-8 if costs.max() < 1e6 else 1e-6
    found = Newton().solve(problem, tol=tol, max_iter=None, start=start)
    best = oracle.solve(Z @ Z.T, y, costs, loss, A)
    certificate = problem.certify(found, tol=tol)
    assert certificate.status in (Status.CONVERGED, Status.PRECISION)
    assert certificate.objective == pytest.approx(best.objective, rel=1e-7, abs=1e-12)
    np.testing.assert_allclose(problem.decision(found)[:, 0], best.decision, rtol=0, atol=close)
