"""What every solver owes on a problem whose optimum is known: facts, and assertions on answers."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from squaresvm.linalg.lapack import NotPositiveSemidefiniteError
from squaresvm.problem import Loss
from squaresvm.solution import Status
from squaresvm.solvers.choose import SOLVERS, choose
from support import oracle, problems

TOL = 1e-8
M = 18
EPS = np.finfo(float).eps
GOOD = (Status.CONVERGED, Status.PRECISION)
#: Solvers that end at the exact optimum, whatever C is.
EXACT = ("direct", "active-set", "newton")


@dataclass(frozen=True)
class Cell:
    """A problem of the table, by what it is made of."""

    loss: str
    A: float
    kernel: str
    weights: str
    C: float
    kind: str = "random"

    def __str__(self):
        """Return the name of the cell in a test's name."""
        return f"{self.loss}-A={self.A:g}-{self.kernel}-{self.weights}-C={self.C:g}-{self.kind}"

    def problem(self):
        """Return a new problem: what one solver leaves in an operator, another must not find."""
        facts, X = facts_of(self), problems.rows(self.kind, m=M)
        operator = problems.CASES[self.kernel](X, problems.weights_of(self.weights, M)).operator
        return problems.problem_of(operator, facts.y, facts.costs, self.loss, self.A)


@dataclass(frozen=True, eq=False)
class Facts:
    """K, labels and costs of a cell, its optimum, and the norm and condition of its system.

    `best` is None where H is not positive definite.
    """

    K: np.ndarray
    y: np.ndarray
    costs: np.ndarray
    best: object
    #: 100 eps times the condition of the bordered system: the accuracy due of an exact solver.
    accuracy: float
    #: Largest row sum of |inverse| of the bordered system.
    inverse: float


@cache
def facts_of(cell):
    """Return what is known of a cell."""
    X, W = problems.rows(cell.kind, m=M), problems.weights_of(cell.weights, M)
    K, y, costs = problems.CASES[cell.kernel](X, W).K, problems.signs(X), cell.C * W
    H = K + np.diag(1.0 / costs)
    if np.linalg.eigvalsh(H)[0] <= 0:
        return Facts(K, y, costs, None, np.nan, np.nan)
    if cell.A != oracle.NONE:
        border = np.ones((M, 1))
        H = np.block([[H, border], [border.T, np.array([[-cell.A]])]])
    accuracy = max(1e-8, 100 * EPS * oracle.condition(K, costs, cell.A))
    inverse = float(np.abs(np.linalg.inv(H)).sum(axis=1).max())
    return Facts(K, y, costs, oracle.solve(K, y, costs, cell.loss, cell.A), accuracy, inverse)


def assert_mismatch_is_declared(solver, problem):
    """Assert that a problem that is not the solver's is refused, with the names of those that fit."""
    with pytest.raises(ValueError, match=f"solver '{solver.name}' solves ") as caught:
        choose(problem, solver.name)
    message = str(caught.value)
    assert solver.solves in message
    fitting = message.split("Solvers that fit: ")[1]
    assert fitting == ", ".join(repr(s.name) for s in SOLVERS.values() if s.accepts(problem))
    assert fitting, "no solver fits"


def assert_indefinite_kernel_is_told(solver, problem):
    """Assert a clear error or status; where H is not definite, the squared loss has no least point."""
    if problem.loss is Loss.SQUARED:
        with pytest.raises(NotPositiveSemidefiniteError):
            solver.solve(problem, tol=TOL, max_iter=None)
        return
    # The rows that the squared hinge ends with may well have a definite H of their own: then this is a
    # stationary point. If not, an error on the way, or a certificate that does not claim success.
    with contextlib.suppress(NotPositiveSemidefiniteError):
        solution = solver.solve(problem, tol=TOL, max_iter=None)
        used = np.flatnonzero(problem.multipliers(solution)[:, 0])
        H = problem.operator.block(used, used) + np.diag(1.0 / problem.costs[used])
        definite = np.linalg.eigvalsh(H)[0] > 0
        assert definite or problem.certify(solution, TOL).status not in GOOD


def assert_certificate_is_true(cell, problem, solution):
    """Assert that residual and gap are what they claim to be; return the certificate."""
    facts, certificate = facts_of(cell), problem.certify(solution, TOL)
    beta, bias = problem.multipliers(solution)[:, 0], solution.bias[0]
    system = (facts.K, facts.y, facts.costs, cell.loss, cell.A)
    true = oracle.residual(*system, beta, bias)
    assert certificate.residual == pytest.approx(true, rel=1e-3, abs=problem.rounding(solution)[0])
    reached = oracle.objective(*system, beta, bias)
    # A model in w is not quite the model of its multipliers, by 1e-12 of the objective at C = 1e8.
    assert certificate.gap >= (reached - facts.best.objective) * (1 - 1e-6) - 1e-10 * reached
    return certificate


def assert_within_the_certificate(cell, problem, solution, residual):
    """Assert that multipliers and f are no further from the optimum than the residual allows."""
    facts = facts_of(cell)
    beta, best = problem.multipliers(solution)[:, 0], facts.best
    # A defect of each row, of the sum, and for the hinge of the bounds, each in the certificate's units.
    scale = np.abs(beta).sum()
    if np.isfinite(cell.A):
        scale += cell.A * abs(solution.bias[0])
    scale = max(1.0, scale)
    if cell.loss == oracle.HINGE:
        scale *= max(1.0, 1.0 / float((facts.K.diagonal() + 1.0 / facts.costs).min()))
    bound = 10 * facts.inverse * residual * scale + facts.accuracy * max(1.0, abs(best.beta).max())
    np.testing.assert_allclose(beta, best.beta, rtol=0, atol=bound)
    # The gap bounds the objective, and |w - w*|^2 and the slacks by it: f by K_ii.
    gap = float(problem.gap(solution)[0])
    size = np.sqrt(np.abs(facts.K.diagonal()).max()) + 1.0 / np.sqrt(facts.costs.min())
    reach = facts.accuracy * max(1.0, abs(best.decision).max()) + 10 * size * np.sqrt(2.0 * gap)
    np.testing.assert_allclose(problem.decision(solution)[:, 0], best.decision, rtol=0, atol=reach)


def assert_is_the_optimum(cell, problem, solution):
    """Assert that an exact solver has reached the optimum to what the condition of the system allows."""
    facts = facts_of(cell)
    best, accuracy = facts.best, facts.accuracy
    beta, decision = problem.multipliers(solution)[:, 0], problem.decision(solution)[:, 0]
    np.testing.assert_allclose(beta, best.beta, rtol=0, atol=accuracy * abs(best.beta).max())
    scale = max(1.0, abs(best.decision).max())
    np.testing.assert_allclose(decision, best.decision, rtol=0, atol=accuracy * scale)
    assert solution.bias[0] == pytest.approx(best.bias, abs=accuracy * max(1.0, abs(best.bias)))
    certificate, rounding = problem.certify(solution, TOL), problem.rounding(solution)[0]
    assert certificate.status in GOOD
    assert certificate.residual <= max(TOL, rounding) + rounding
    assert certificate.objective == pytest.approx(best.objective, rel=accuracy)
