"""The one table of solvers and problems: the oracle's answer within the certificate, or a declared mismatch.

A solver that is added to ``SOLVERS`` is tested here without further ado.
"""

from __future__ import annotations

from itertools import product

import pytest

from squaresvm.solution import Status
from squaresvm.solvers.choose import SOLVERS
from support import oracle, problems
from support.contract import (
    EXACT,
    GOOD,
    TOL,
    Cell,
    assert_certificate_is_true,
    assert_indefinite_kernel_is_told,
    assert_is_the_optimum,
    assert_mismatch_is_declared,
    assert_within_the_certificate,
    facts_of,
)

LOSSES = (oracle.SQUARED, oracle.HINGE)
#: The paper's fixed point takes ten thousand steps by default, and shows no more than in these.
STEPS = 2000


def cells(name):
    """Yield the problems of a solver: of all the same ones, and of exact ones the hard ones as well."""
    penalties = (oracle.FREE, 1e-2, 1.0, 1e4, oracle.NONE)
    kernels = ("linear", "rbf", "cubic", "precomputed", "proximal")
    for loss, A, kernel, C in product(LOSSES, penalties, kernels, (1e-3, 1.0, 1e3)):
        yield Cell(loss, A, kernel, "mixed", C)
    for loss, A, kernel, C in product(
        LOSSES, problems.BIASES.values(), ("linear", "rbf", "cubic"), (1e-6, 1e8)
    ):
        yield Cell(loss, A, kernel, "equal" if kernel == "linear" else "mixed", C)
    if name not in EXACT:
        return
    for loss, A, kernel, weights, C in product(
        LOSSES, problems.BIASES.values(), problems.CASES, ("equal", "mixed"), (1e-6, 1.0, 1e4, 1e8)
    ):
        yield Cell(loss, A, kernel, weights, C)
    singular = ("linear", "linear-sparse", "rbf", "cubic")
    for loss, A, kernel, C, kind in product(
        LOSSES, problems.BIASES.values(), singular, (1.0, 1e8), ("duplicated", "constant", "deficient")
    ):
        yield Cell(loss, A, kernel, "mixed", C, kind)


TABLE = [(name, cell) for name in SOLVERS for cell in dict.fromkeys(cells(name))]


@pytest.mark.parametrize(("name", "cell"), TABLE, ids=[f"{name}-{cell}" for name, cell in TABLE])
def test_right_within_the_certificate_or_honest_or_a_declared_mismatch(name, cell):
    solver, problem = SOLVERS[name], cell.problem()
    if not solver.accepts(problem):
        assert_mismatch_is_declared(solver, problem)
        return
    if facts_of(cell).best is None:
        assert_indefinite_kernel_is_told(solver, problem)
        return
    limit = STEPS if name == "lagrangian" and cell.C > 1.0 else None
    solution = solver.solve(problem, tol=TOL, max_iter=limit)
    certificate = assert_certificate_is_true(cell, problem, solution)
    if name in EXACT:
        assert_is_the_optimum(cell, problem, solution)
    elif certificate.status in GOOD:
        assert_within_the_certificate(cell, problem, solution, certificate.residual)
    else:
        assert certificate.status is Status.MAX_ITER
        assert certificate.residual > TOL
        # The rate of the fixed point tends to 1 as C grows; the others have no excuse up to C = 1e3.
        assert (1.0 if name == "lagrangian" else 1e3) < cell.C
