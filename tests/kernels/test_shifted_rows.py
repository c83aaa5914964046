"""Distances do not depend on where the rows are: neither may kernels of them, but for rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm import LSSVC, RLSSVC
from squaresvm.kernels import Kernel, scale_gamma
from squaresvm.operators import OnDemandOperator, SingleKernel

SHIFTS = [0.0, 1e3, 1e6, 1e7]


def rows_at(shift, m=40, n=5, seed=0):
    """Return rows on a grid of 2^-20, which a shift of up to 1e7 keeps exactly."""
    rng = np.random.default_rng(seed)
    return np.round(rng.normal(size=(m, n)) * 2**20) / 2**20 + shift


def exact(name, X, Z, gamma):
    """Return the kernel from exact rational distances, rounded once."""
    out = np.empty((len(X), len(Z)))
    for i, x in enumerate(X.tolist()):
        for j, z in enumerate(Z.tolist()):
            apart = [Fraction(a) - Fraction(b) for a, b in zip(x, z, strict=True)]
            total = sum(d * d if name == "rbf" else abs(d) for d in apart)
            out[i, j] = np.exp(-gamma * float(total))
    return out


FORMS = {"dense": np.array, "CSR": sp.csr_matrix}


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
@pytest.mark.parametrize("form", FORMS)
def test_kernels_equal_those_of_exact_distances(name, shift, form):
    X, Z = rows_at(shift), rows_at(shift, 15, seed=1)
    made = FORMS[form]
    for rows, others in ((X, Z), (X, Z[:1]), (X[:1], Z), (X, X)):
        block = Kernel(name, gamma=0.3)(made(rows), made(others))
        np.testing.assert_allclose(block, exact(name, rows, others, 0.3), rtol=0, atol=3e-14)


@pytest.mark.parametrize("shift", SHIFTS)
def test_sparse_rows_with_one_large_column_stay_sparse_in_the_others(shift):
    X = rows_at(0.0, 60, 30)
    X[np.random.default_rng(2).random(X.shape) < 0.8] = 0.0
    X[:, 3] = rows_at(shift, 60, 1, seed=3)[:, 0]
    K = Kernel("rbf", gamma=0.1)(sp.csr_matrix(X), sp.csr_matrix(X[:20]))
    np.testing.assert_allclose(K, exact("rbf", X, X[:20], 0.1), rtol=0, atol=3e-14)


def test_products_in_float32_are_of_centred_rows():
    X = rows_at(1e6, 50)
    K = exact("rbf", X, X, 0.3)
    b = np.random.default_rng(0).normal(size=(50, 2))
    single = SingleKernel(Kernel("rbf", gamma=0.3), X, 1e9)
    np.testing.assert_allclose(single.matmul(b), K @ b, rtol=0, atol=1e-4)
    np.testing.assert_allclose(
        OnDemandOperator(Kernel("rbf", gamma=0.3), X).matmul(b), K @ b, rtol=0, atol=1e-12
    )


def test_rows_in_float32_are_compared_in_float64():
    X = rows_at(1000.0).astype(np.float32)
    block = Kernel("rbf", gamma=0.3)(X, X)
    np.testing.assert_allclose(block, exact("rbf", X, X, 0.3), rtol=0, atol=3e-14)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_scale_of_gamma_has_its_digits(form, dtype):
    X = rows_at(4096.0).astype(dtype)
    expected = 1.0 / (X.shape[1] * np.var(X.astype(np.longdouble)))
    assert scale_gamma(FORMS[form](X), np.ones(len(X))) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("Model", [LSSVC, RLSSVC])
@pytest.mark.parametrize("shift", [1e6, 1e7])
@pytest.mark.parametrize("form", FORMS)
def test_decisions_do_not_depend_on_where_the_rows_are(Model, shift, form):
    X, Z = rows_at(0.0, 80), rows_at(0.0, 30, seed=1)
    y = X[:, 0] * X[:, 1] > 0
    made = FORMS[form]
    here = Model(gamma=0.2, C=100.0).fit(X, y)
    there = Model(gamma=0.2, C=100.0).fit(made(X + shift), y)
    np.testing.assert_allclose(
        there.decision_function(made(Z + shift)), here.decision_function(Z), rtol=0, atol=1e-8
    )
    there.forget([3])
    there.learn(made(Z[:2] + shift), [True, False])
    here.forget([3])
    here.learn(Z[:2], [True, False])
    np.testing.assert_allclose(
        there.decision_function(made(Z + shift)), here.decision_function(Z), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("name", ["linear", "poly", "sigmoid"])
def test_other_kernels_are_not_centred(name):
    X = rows_at(3.0)
    inner = X @ X.T
    affine = 0.1 * inner + 1.0
    expected = {"linear": inner, "poly": affine**2, "sigmoid": np.tanh(affine)}[name]
    np.testing.assert_allclose(Kernel(name, 0.1, 2, 1.0)(X, X), expected, rtol=1e-13)
