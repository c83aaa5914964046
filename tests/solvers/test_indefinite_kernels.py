"""Kernels that are not semidefinite are refused by every solver, and no others are."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from squaresvm import LSSVR
from squaresvm.linalg.lapack import NotPositiveSemidefiniteError
from squaresvm.operators import PrecomputedOperator
from squaresvm.problem import Bias, Loss, Problem
from squaresvm.solution import Status
from squaresvm.solvers.choose import SOLVERS

BIASES = {"penalised": Bias.penalised(1.0), "none": Bias.none()}


def indefinite(seed, C, bias):
    """Return a squared hinge problem whose H has an eigenvalue well below zero; None where it has not."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(int(random.integers(5, 30)), 3))
    K = -np.sqrt(np.square(X[:, None] - X).sum(axis=2)) + random.uniform(0, 3)
    y = np.where(X[:, 0] + random.normal(size=len(X)) > 0, 1.0, -1.0)
    if np.linalg.eigvalsh(K + np.eye(len(X)) / C)[0] > -1e-6 or abs(y.sum()) == y.size:
        return None
    return Problem(PrecomputedOperator(K), y[:, None], np.full(y.size, C), Loss.SQUARED_HINGE, bias)


@pytest.mark.parametrize("bias", BIASES.values(), ids=BIASES)
@pytest.mark.parametrize("name", ["sesquismo", "active-set", "lagrangian", "cg"])
def test_the_squared_hinge_refuses_them(name, bias):
    cases = [indefinite(seed, C, bias) for seed in range(8) for C in (0.5, 10.0)]
    refused = [problem for problem in cases if problem is not None]
    assert len(refused) >= 8
    for problem in refused:
        with pytest.raises(NotPositiveSemidefiniteError, match="choose a positive semidefinite kernel"):
            SOLVERS[name].solve(problem, tol=1e-6, max_iter=None)


@pytest.mark.parametrize("row", [None, 3])
def test_the_message_survives_a_pickle(row):
    error = NotPositiveSemidefiniteError(row)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert ("row 3" in str(again)) == (row == 3)


@pytest.mark.parametrize("seed", [4, 5, 10])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_sumt_does_not_take_rounding_for_negative_curvature(seed, kernel):
    """Below what float64 gives the search ends for want of digits, and says so."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(int(random.integers(3, 15)), 2))
    z = random.normal(size=len(X)) * 10.0 ** random.integers(-3, 9)
    model = LSSVR(solver="sumt", kernel=kernel, C=100.0, tol=1e-17).fit(X, z)
    assert model.certificate_.status is Status.PRECISION
