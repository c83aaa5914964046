"""Kernels against scikit-learn's, with every kind of input that scikit-learn's own readers return."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise
from sklearn.svm import SVC

from squaresvm.kernels import KERNEL_NAMES, Kernel, scale_gamma
from support import oracle

PARAMETERS = {"gamma": 0.3, "degree": 4, "coef0": 0.7}
PEERS = {
    "linear": lambda X, Z: pairwise.linear_kernel(X, Z),
    "rbf": lambda X, Z: pairwise.rbf_kernel(X, Z, gamma=0.3),
    "poly": lambda X, Z: pairwise.polynomial_kernel(X, Z, gamma=0.3, degree=4, coef0=0.7),
    "sigmoid": lambda X, Z: pairwise.sigmoid_kernel(X, Z, gamma=0.3, coef0=0.7),
    "laplacian": lambda X, Z: pairwise.laplacian_kernel(X, Z, gamma=0.3),
}


def sparse(kind, width):
    """Return a converter to compressed rows with indices of `width`."""

    def convert(X):
        S = kind(X)
        S.indices, S.indptr = S.indices.astype(width), S.indptr.astype(width)
        return S

    return convert


FORMS = {
    "dense": np.asarray,
    "column-major": np.asfortranarray,
    "csr-int32": sparse(sp.csr_matrix, np.int32),
    "csr-int64": sparse(sp.csr_matrix, np.int64),
    "csr-array-int64": sparse(sp.csr_array, np.int64),
}


def data():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(11, 4)), rng.normal(size=(7, 4))
    X[X < -0.5] = 0.0
    Z[Z < -0.5] = 0.0
    return X, Z


def test_every_named_kernel_has_a_peer():
    assert set(PEERS) == set(KERNEL_NAMES)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_agrees_with_scikit_learn(name, form):
    X, Z = data()
    block = Kernel(name, **PARAMETERS)(form(X), form(Z))
    assert block.dtype == np.float64
    np.testing.assert_allclose(block, PEERS[name](X, Z), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(block, oracle.kernel_matrix(name, X, Z, **PARAMETERS), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_float32_rows_give_float64_kernels(name, form):
    """The rows are rounded once, when they become float32, and nothing after that."""
    X, Z = (a.astype(np.float32) for a in data())
    block = Kernel(name, **PARAMETERS)(form(X), form(Z))
    assert block.dtype == np.float64
    expected = oracle.kernel_matrix(name, X.astype(np.float64), Z.astype(np.float64), **PARAMETERS)
    np.testing.assert_allclose(block, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_diagonal(name, form):
    X, _ = data()
    expected = np.diagonal(oracle.kernel_matrix(name, X, X, **PARAMETERS))
    np.testing.assert_allclose(Kernel(name, **PARAMETERS).diagonal(form(X)), expected, rtol=1e-12)


def test_sparse_against_dense_rows():
    X, Z = data()
    for name in ("linear", "rbf", "poly", "sigmoid"):
        kernel = Kernel(name, **PARAMETERS)
        np.testing.assert_allclose(kernel(sp.csr_matrix(X), Z), kernel(X, Z), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(kernel(X, sp.csr_matrix(Z)), kernel(X, Z), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_polynomial_degrees(degree):
    X, Z = data()
    kept = X.copy()
    block = Kernel("poly", gamma=0.5, degree=degree, coef0=-0.2)(X, Z)
    np.testing.assert_allclose(block, (0.5 * X @ Z.T - 0.2) ** degree, rtol=1e-12, atol=1e-14)
    assert np.array_equal(X, kept)


def test_rbf_of_a_row_with_itself_is_at_most_one():
    X = 1e6 + np.random.default_rng(0).normal(size=(50, 3))  # |x|^2 drowns the distances.
    assert Kernel("rbf", gamma=1.0)(X, X).max() <= 1.0


class TestCallable:
    def test_is_called_with_both_sets_of_rows(self):
        X, Z = data()
        np.testing.assert_array_equal(Kernel(lambda a, b: a @ b.T + 1.0)(X, Z), X @ Z.T + 1.0)

    def test_diagonal_is_that_of_the_matrix(self):
        X = np.random.default_rng(0).normal(size=(70, 2))
        np.testing.assert_allclose(
            Kernel(lambda a, b: np.exp(a @ b.T)).diagonal(X), np.exp((X**2).sum(axis=1)), rtol=1e-12
        )

    def test_integer_values_become_float64(self):
        block = Kernel(lambda a, b: np.ones((len(a), len(b)), dtype=int))(*data())
        assert block.dtype == np.float64

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (
                lambda a, b: np.ones((len(b), len(a))),
                r"returned shape \(7, 11\).*must return shape \(11, 7\)",
            ),
            (lambda a, b: np.ones(len(a)), r"returned shape \(11,\).*must return shape \(11, 7\)"),
            (lambda a, b: np.full((len(a), len(b)), np.nan), "returned NaN or infinity"),
            (lambda a, b: "nothing", r"failed on rows of shape \(11, 4\) and \(7, 4\)"),
        ],
        ids=["transposed", "flat", "nan", "no-numbers"],
    )
    def test_says_what_was_wrong(self, function, message):
        with pytest.raises(ValueError, match=message):
            Kernel(function)(*data())


class TestScaleGamma:
    """1 / (n_features * weighted variance), as docs/family.rst says."""

    @pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
    def test_is_that_of_svc(self, form):
        X, _ = data()
        y = np.arange(11) % 2
        gamma = scale_gamma(form(X), np.ones(11))
        ours, theirs = SVC(gamma=gamma).fit(X, y), SVC(gamma="scale").fit(X, y)
        np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-10)
        assert gamma == pytest.approx(1 / (4 * X.var()), rel=1e-13)

    @pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
    def test_weight_two_is_the_row_twice_and_weight_zero_is_no_row(self, form):
        X, _ = data()
        weights = np.ones(11)
        weights[2], weights[5] = 2.0, 0.0
        repeated = np.repeat(X, weights.astype(int), axis=0)
        assert scale_gamma(form(X), weights) == pytest.approx(
            scale_gamma(form(repeated), np.ones(len(repeated))), rel=1e-13
        )

    def test_does_not_lose_digits_far_from_zero(self):
        X = np.random.default_rng(0).normal(size=(5000, 3))
        assert scale_gamma(X + 1e7, np.ones(5000)) == pytest.approx(scale_gamma(X, np.ones(5000)), rel=1e-6)

    @pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
    def test_constant_rows(self, form):
        assert scale_gamma(form(np.full((5, 3), 0.1)), np.ones(5)) == 1.0

    @pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
    @pytest.mark.parametrize("largest", [1e200, np.finfo(np.float64).max])
    def test_features_beyond_the_range_of_squares_are_refused(self, form, largest):
        X = largest * np.random.default_rng(0).uniform(size=(10, 2))
        with pytest.raises(ValueError, match="out of the range of float64: scale the features"):
            scale_gamma(form(X), np.ones(10))


class TestAugmented:
    """k([x, -1], [z, -1]) without the extra column."""

    @pytest.mark.parametrize("name", [*KERNEL_NAMES, "callable"])
    @pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
    def test_equals_the_extra_column(self, name, form):
        X, Z = data()
        wide_X, wide_Z = (np.hstack([a, np.full((len(a), 1), -1.0)]) for a in (X, Z))

        def function(a, b):
            return np.asarray((a @ b.T).todense() if sp.issparse(a) else a @ b.T) ** 2

        kernel = Kernel(function if name == "callable" else name, **PARAMETERS)
        expected = kernel(wide_X, wide_Z)
        augmented, with_bias = kernel.augmented()
        # Of the linear kernel the column is the penalised bias, 1'beta / A at A = 1: it adds 1 to K.
        shift = 1.0 if with_bias else 0.0
        assert with_bias == (name == "linear")
        np.testing.assert_allclose(augmented(form(X), form(Z)) + shift, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_sparse_rows_of_many_columns_take_no_memory_for_each(kernel):
    """Rows may name any column up to 2^31; a vector of all columns would take 16 GB."""
    width = 2**31 - 2
    X = sp.csr_matrix(([1.0, 2.0, 3.0, -1.0], [5, width - 1, 7, 9], [0, 2, 3, 4]), shape=(3, width))
    Z = sp.csr_matrix(([4.0, 0.5, 2.0], [width - 1, 5, 9], [0, 1, 2, 3]), shape=(3, width))
    dense = {5: 0, 7: 1, 9: 2, width - 1: 3}
    narrow = [np.zeros((3, 4)), np.zeros((3, 4))]
    for wide, small in zip((X, Z), narrow, strict=True):
        coo = wide.tocoo()
        for row, column, value in zip(coo.row, coo.col, coo.data, strict=True):
            small[row, dense[int(column)]] = value
    own = Kernel(kernel, 0.3, 2, 1.0)
    np.testing.assert_allclose(own(X, Z), own(*narrow), rtol=1e-12, atol=0.0)
