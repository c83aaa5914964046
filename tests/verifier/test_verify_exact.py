"""The verifier against 50 digits: its arithmetic, and every loss, bias, kernel, weighting and class."""

from __future__ import annotations

import warnings
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from squaresvm.streaming import ArraySource
from squaresvm.verifier.mathematics.wide import Wide, exponential, product, row_squares
from support import fifty_digits, problems, referee

#: How many digits must agree.
CLOSE = 1e-12
MODELS = {
    "squared, free": (LSSVC, {}),
    "squared, none": (LSSVC, {"fit_intercept": False}),
    "squared, penalised": (RelaxedLSSVC, {"A": 0.3}),
    "proximal": (ProximalSVC, {}),
    "hinge, free": (RLSSVC, {}),
    "hinge, penalised": (LagrangianSVC, {"A": 0.5}),
    "hinge, none": (LagrangianSVC, {"fit_intercept": False}),
    "hinge, augmented": (LagrangianSVC, {"augment": True}),
    "values": (LSSVR, {}),
}
KERNELS = {
    "linear": {},
    "rbf": {"gamma": 0.4},
    "poly": {"gamma": 0.5, "degree": 2, "coef0": 1.0},
    "sigmoid": {"gamma": 0.05, "coef0": 0.1},
    "laplacian": {"gamma": 0.3},
    "precomputed": {},
    "callable": {},
}


def made(kind, kernel, *, classes=2, weighted=False, columns=3, seed=0):
    """Return a fitted model with its rows, targets and sample weights times class weights."""
    rng = np.random.default_rng(seed)
    cls, options = MODELS[kind]
    X = rng.normal(size=(11, columns))
    y = np.arange(11) % classes
    if kind == "values":
        y = 3.0 * np.sin(X[:, 0]) + 0.1 * rng.normal(size=11)
    weights = rng.uniform(0.2, 3.0, 11) if weighted else np.ones(11)
    if weighted:
        weights[4] = 0.0
    given = X
    if kernel == "precomputed":
        given = problems.cauchy(X, X)
    name = problems.cauchy if kernel == "callable" else kernel
    model = cls(C=2.0, kernel=name, **KERNELS[kernel], **options)
    if weighted and kind != "values":
        model.set_params(class_weight={1: 1.7})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(given, y, sample_weight=weights)
    if weighted and kind != "values":
        weights = np.where(y == 1, 1.7, 1.0) * weights
    return model, X, y, weights


def truth(model, X, y, weights):
    """Return the residual of the worst column, objective and gap of all, and the dual objective."""
    held = np.flatnonzero(weights > 0)
    X, weights = X[held], weights[held]
    targets = referee.encoded(model, y)[held].astype(float)
    costs, A, hinge = model.C_ * weights, referee.penalty(model), referee.is_hinge(model)
    solution = model._state.solution
    found = []
    for j in range(targets.shape[1]):
        rest = (targets[:, j], costs, hinge, A)
        if solution.primal is not None:
            found.append(fifty_digits.judge_linear(X, *rest, solution.primal[:, j], solution.bias[j]))
            continue
        found.append(
            fifty_digits.judge(_kernel(model, X, weights), *rest, solution.beta[:, j], solution.bias[j])
        )
    with mpmath.workdps(50):
        return (
            max(each.residual for each in found),
            sum(each.objective for each in found),
            sum(each.gap for each in found),
            sum(each.dual for each in found),
        )


def _kernel(model, X, weights):
    K = _plain_kernel(model, X)
    is_proximal = isinstance(model, ProximalSVC) and model.kernel != "linear"
    return fifty_digits.proximal(K, weights) if is_proximal else K


def _plain_kernel(model, X):
    augmented = getattr(model, "augment", False)
    if callable(model.kernel) and augmented:
        X = np.column_stack([X, np.full(len(X), -1.0)])
    if model.kernel == "precomputed" or callable(model.kernel):
        return mpmath.matrix(problems.cauchy(X, X).tolist())
    if model.kernel == "linear":
        return fifty_digits.kernel_matrix("linear", X)
    coef0 = float(model.coef0) + (model.gamma_ if augmented else 0.0)
    return fifty_digits.kernel_matrix(model.kernel, X, model.gamma_, model.degree, coef0)


def agree(verdict, exact):
    residual, objective, gap, dual = exact
    with mpmath.workdps(50):
        assert abs(verdict.residual / residual - 1) < CLOSE
        assert abs(verdict.objective / objective - 1) < CLOSE
        assert abs(verdict.gap / gap - 1) < CLOSE
        assert abs(verdict.dual_objective / dual - 1) < CLOSE


def moved(model, size=1e-3):
    """Change the solution of a model a little everywhere, so that all terms of residual and gap are there."""
    rng = np.random.default_rng(1)
    solution = model._state.solution
    noise = {"bias": solution.bias + size if referee.penalty(model) != np.inf else solution.bias}
    for name in ("beta", "primal"):
        values = getattr(solution, name)
        if values is not None:
            noise[name] = values + size * rng.normal(size=values.shape)
    model._state = replace(
        model._state,
        solution=replace(solution, factor=None, **noise),
        known=type(model._state.known)(problem=model._state.known.problem),
    )
    return model


def cases():
    for kind in MODELS:
        for kernel in KERNELS:
            if kernel == "precomputed" and kind == "hinge, augmented":
                continue  # There are no rows to add a column to.
            yield kind, kernel


@pytest.mark.parametrize(("kind", "kernel"), list(cases()))
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_it_agrees_with_50_digits(kind, kernel, weighted):
    model, X, y, weights = made(kind, kernel, weighted=weighted)
    agree(squaresvm.verify(model), truth(model, X, y, weights))
    moved(model)
    agree(squaresvm.verify(model), truth(model, X, y, weights))


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind != "values"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_it_agrees_for_several_classes(kind, kernel):
    model, X, y, weights = made(kind, kernel, classes=3, weighted=True)
    agree(squaresvm.verify(model), truth(model, X, y, weights))
    agree(squaresvm.verify(moved(model)), truth(model, X, y, weights))


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind != "proximal"])
def test_it_agrees_for_linear_models_in_multipliers(kind):
    model, X, y, weights = made(kind, "linear", columns=20)
    assert model._state.solution.beta is not None
    agree(squaresvm.verify(moved(model)), truth(model, X, y, weights))


@pytest.mark.parametrize("kind", ["squared, free", "hinge, free", "hinge, penalised", "values"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_sparse_rows_give_the_same_digits(kind, kernel):
    model, X, _, _ = made(kind, kernel)
    first = squaresvm.verify(moved(model))
    rows = replace(model._state.rows, base=sp.csr_matrix(X))
    model._state = replace(model._state, rows=rows, known=type(model._state.known)())
    second = squaresvm.verify(model)
    for name in ("residual", "gap", "objective"):
        assert getattr(second, name) == pytest.approx(getattr(first, name), rel=1e-14)


@pytest.mark.parametrize(
    "kind", ["squared, free", "squared, none", "hinge, free", "hinge, penalised", "values"]
)
def test_a_pass_over_blocks_gives_the_same_digits(kind):
    model, X, y, weights = made(kind, "linear", weighted=True)
    sample = weights if kind == "values" else weights / np.where(y == 1, 1.7, 1.0)
    source = ArraySource(X, y, sample, block_rows=3)
    streamed = type(model)(**model.get_params()).fit(source)
    verdict = squaresvm.verify(streamed, source, max_memory=2**20)
    assert verdict.ok, verdict
    assert verdict.rows == 10
    agree(verdict, truth(streamed, X, y, weights))


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed"])
def test_tiles_of_any_size_give_the_same_digits(kernel, monkeypatch):
    model, X, y, weights = made("squared, free", kernel)
    exact = truth(moved(model), X, y, weights)
    for rows in (1, 2, 5, 11):
        monkeypatch.setattr("squaresvm.verifier.mathematics.kernel_values._LARGEST_TILE", rows)
        agree(squaresvm.verify(model), exact)


# The arithmetic ----------------------------------------------------------------------------------------


def _apart(wide, exact):
    return max(
        abs((mpmath.mpf(h) + mpmath.mpf(low)) / e - 1)
        for h, low, e in zip(wide.hi, wide.lo, exact, strict=True)
    )


def test_exp_has_98_bits():
    rng = np.random.default_rng(0)
    x = np.concatenate([-np.exp(rng.uniform(-40, 6.3, 400)), rng.uniform(0, 80, 50), [0.0]])
    wide = Wide(x, 1e-17 * x * rng.random(x.size))
    with mpmath.workdps(60):
        exact = [mpmath.exp(mpmath.mpf(h) + mpmath.mpf(low)) for h, low in zip(wide.hi, wide.lo, strict=True)]
        assert _apart(exponential(wide), exact) < 2.0**-97
    assert exponential(Wide.of(np.array([-1000.0]))).hi[0] == 0.0


def test_sums_products_and_quotients_have_100_bits():
    rng = np.random.default_rng(0)
    a, b = (Wide(v, 1e-17 * v * rng.random(200)) for v in 10.0 ** rng.uniform(-8, 8, (2, 200)))
    b = Wide(b.hi * rng.choice([-1, 1], 200), b.lo)
    with mpmath.workdps(60):
        p, q = ([mpmath.mpf(h) + mpmath.mpf(low) for h, low in zip(v.hi, v.lo, strict=True)] for v in (a, b))
        assert _apart(a + b, [x + y for x, y in zip(p, q, strict=True)]) < 2.0**-98
        assert _apart(a * b, [x * y for x, y in zip(p, q, strict=True)]) < 2.0**-100
        assert _apart(a / b, [x / y for x, y in zip(p, q, strict=True)]) < 2.0**-100
        assert _apart(a * b.hi, [x * mpmath.mpf(y) for x, y in zip(p, b.hi, strict=True)]) < 2.0**-100
        total = Wide.total(a - b)
        assert (
            abs((mpmath.mpf(float(total.hi)) + mpmath.mpf(float(total.lo))) / (sum(p) - sum(q)) - 1)
            < 2.0**-90
        )


@pytest.mark.parametrize("sparse", [(False, False), (True, False), (True, True)])
def test_products_are_exact_far_below_float64(sparse):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 300)) * 10.0 ** rng.uniform(-4, 4, (5, 300)) * (rng.random((5, 300)) < 0.5)
    B = rng.normal(size=(4, 300))
    A[2] = 0.0
    given = [sp.csr_matrix(M) if is_sparse else M for M, is_sparse in zip((A, B), sparse, strict=True)]
    found, squares = product(*given), row_squares(given[0])
    with mpmath.workdps(60):
        for i in range(5):
            row = [mpmath.mpf(v) for v in A[i]]
            for j in range(4):
                exact = sum(p * mpmath.mpf(q) for p, q in zip(row, B[j], strict=True))
                away = abs(mpmath.mpf(found.hi[i, j]) + mpmath.mpf(found.lo[i, j]) - exact)
                assert away <= 300 * 2.0**-102 * abs(A[i]).max() * abs(B[j]).max()
            away = abs(mpmath.mpf(squares.hi[i]) + mpmath.mpf(squares.lo[i]) - sum(v * v for v in row))
            assert away <= 300 * 2.0**-102 * abs(A[i]).max() ** 2
