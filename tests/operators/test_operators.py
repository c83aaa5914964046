"""Every operator against the matrix that it stands for, whole and cut into small blocks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm.kernels import Kernel
from squaresvm.operators import (
    DenseOperator,
    KernelStore,
    LinearOperator,
    PrecomputedOperator,
    ProximalOperator,
    SubsetOperator,
)
from support import oracle, problems

M = 19
CLOSE = {"rtol": 1e-11, "atol": 1e-12}


@pytest.fixture(params=problems.CASES.keys())
def case(request, block_size):
    """An operator that nobody has asked for anything yet, and its K."""
    weights = problems.weights_of("mixed", M)
    return problems.CASES[request.param](problems.rows(m=M), weights)


@pytest.fixture(params=[1, 3], ids=["one-column", "three-columns"])
def b(request):
    return np.random.default_rng(5).normal(size=(M, request.param))


def test_matmul(case, b):
    product = case.operator.matmul(b)
    assert product.shape == b.shape
    np.testing.assert_allclose(product, case.K @ b, **CLOSE)


def test_diagonal(case):
    np.testing.assert_allclose(case.operator.diagonal(), np.diagonal(case.K), **CLOSE)
    assert case.operator.n_rows == M


def test_block(case):
    rows, columns = np.array([17, 2, 2, 9]), np.array([0, 17, 5])
    block = case.operator.block(rows, columns)
    np.testing.assert_allclose(block, case.K[np.ix_(rows, columns)], **CLOSE)
    block[:] = np.nan  # A new array: whoever asked may write to it.
    np.testing.assert_allclose(case.operator.block(rows, columns), case.K[np.ix_(rows, columns)], **CLOSE)


def test_answers_do_not_depend_on_what_was_asked_before(case, b):
    case.operator.store()
    np.testing.assert_allclose(case.operator.matmul(b), case.K @ b, **CLOSE)
    everything = np.arange(M)
    np.testing.assert_allclose(case.operator.block(everything, everything), case.K, **CLOSE)
    np.testing.assert_allclose(case.operator.diagonal(), np.diagonal(case.K), **CLOSE)


@pytest.mark.parametrize("store_first", [False, True])
def test_magnitude(case, b, store_first):
    """Rows that are not computed are 0; the largest, which rounding is judged by, is always computed."""
    if store_first:
        case.operator.store()
    expected = np.abs(case.K) @ np.abs(b)
    size = case.operator.magnitude(b)
    computed = size != 0
    np.testing.assert_allclose(size[computed], expected[computed], **CLOSE)
    np.testing.assert_allclose(size.max(axis=0), expected.max(axis=0), **CLOSE)


def test_features_are_a_factor_of_k(case):
    Z = case.operator.features
    if isinstance(case.operator, LinearOperator) and case.operator.X.shape[1] < M:
        Z = Z.toarray() if sp.issparse(Z) else Z
        np.testing.assert_allclose(Z @ Z.T, case.K, **CLOSE)
    else:
        assert Z is None


class TestStore:
    """K in one buffer, with room in the other triangle to lend."""

    LOWER = np.tril_indices(M)

    def test_lends_k_to_be_overwritten_as_often_as_asked(self, case, b):
        store = case.operator.store()
        for _ in range(3):
            room = store.lend()
            np.testing.assert_allclose(room[self.LOWER], case.K[self.LOWER], **CLOSE)
            room[self.LOWER] = np.nan  # What a tenant leaves behind.
            np.testing.assert_allclose(store.matmul(b), case.K @ b, **CLOSE)
            np.testing.assert_allclose(store.magnitude(b), np.abs(case.K) @ np.abs(b), **CLOSE)
            np.testing.assert_allclose(store.diagonal, np.diagonal(case.K), **CLOSE)
            np.testing.assert_allclose(store.column(7), case.K[:, 7], **CLOSE)

    @pytest.mark.parametrize("lent_first", [False, True])
    def test_blocks_of_any_shape(self, case, lent_first):
        if not lent_first:
            case.operator.matmul(np.ones((M, 1)))  # K is held whole until somebody wants the room.
        store = case.operator.store()
        for rows, columns in (([3, 18, 0], [5]), ([4], [18, 4, 2]), ([1, 1], [0, 1])):
            block = store.block(np.array(rows), np.array(columns))
            np.testing.assert_allclose(block, case.K[np.ix_(rows, columns)], **CLOSE)

    def test_lending_changes_no_answer_of_the_operator(self, case, b):
        expected = case.operator.matmul(b)
        case.operator.store().lend()[self.LOWER] = np.nan
        np.testing.assert_allclose(case.operator.matmul(b), expected, **CLOSE)
        np.testing.assert_allclose(case.operator.diagonal(), np.diagonal(case.K), **CLOSE)

    def test_takes_the_memory_of_one_square_matrix(self):
        m = 400
        store = KernelStore(m, lambda rows, columns: np.eye(m)[rows, columns])
        room = store.lend()
        assert np.shares_memory(room, store.room(m))
        assert room.base.nbytes < 1.15 * 8 * m * m

    def test_rows_come_and_go(self, block_size):
        """Slots are emptied, taken again, and added behind the last, with the room lent or not."""
        X = problems.rows(m=30)
        K = problems.cauchy(X, X)
        for lent in (False, True):
            store = KernelStore(M, lambda rows, columns: K[:M, :M][rows, columns], lent=lent)
            store.clear(np.array([4, 9]))
            now = K[:M, :M].copy()
            now[[4, 9]] = now[:, [4, 9]] = 0.0
            np.testing.assert_allclose(store.matmul(np.eye(M)), now, **CLOSE)
            slots, new = np.array([9, M, M + 1]), np.array([20, 21, 22])
            cross = K[:M, new].copy()
            cross[[4, 9]] = 0.0
            store.put(slots, cross, K[np.ix_(new, new)])
            taken = np.arange(M + 2)
            taken[slots] = new
            expected = K[np.ix_(taken, taken)].copy()
            expected[4] = expected[:, 4] = 0.0
            np.testing.assert_allclose(store.matmul(np.eye(M + 2)), expected, **CLOSE)
            np.testing.assert_allclose(
                store.lend()[np.tril_indices(M + 2)], expected[np.tril_indices(M + 2)], **CLOSE
            )


def test_an_operator_of_some_rows(case, b):
    """What an active set works on: it shrinks and grows in its own store."""
    rows = np.array([2, 3, 5, 8, 13, 1])
    part = SubsetOperator(case.operator, rows)
    np.testing.assert_allclose(part.matmul(b[rows]), case.K[np.ix_(rows, rows)] @ b[rows], **CLOSE)
    part = part.shrunk(np.array([True, False, True, True, False, True]))
    part, cross, corner = part.grown(np.array([17, 0, 4]))
    now = np.array([2, 5, 8, 1, 17, 0, 4])
    assert part.rows.tolist() == now.tolist()
    np.testing.assert_allclose(cross, case.K[np.ix_([2, 5, 8, 1], [17, 0, 4])], **CLOSE)
    np.testing.assert_allclose(corner, case.K[np.ix_([17, 0, 4], [17, 0, 4])], **CLOSE)
    np.testing.assert_allclose(part.matmul(b[now]), case.K[np.ix_(now, now)] @ b[now], **CLOSE)
    np.testing.assert_allclose(part.diagonal(), np.diagonal(case.K)[now], **CLOSE)
    everything = np.arange(now.size)
    np.testing.assert_allclose(part.block(everything, everything), case.K[np.ix_(now, now)], **CLOSE)


class TestNewRows:
    def expected(self, name, X, Z):
        name, parameters = ("poly" if name == "cubic" else name), problems.PARAMETERS.get(name, {})
        return oracle.kernel_matrix(name, X, Z, **parameters)

    @pytest.mark.parametrize("name", ["rbf", "poly", "cubic", "sigmoid", "laplacian"])
    def test_kernels(self, name, block_size):
        X, new = problems.rows(m=M), problems.rows(m=7, seed=1)
        beta = np.random.default_rng(2).normal(size=(M, 2))
        beta[4:9] = 0.0  # Rows without a part in f are left out, and must not shift the others.
        function = "poly" if name == "cubic" else name
        operator = DenseOperator(Kernel(function, **problems.PARAMETERS[name]), X)
        assert np.array_equal(operator.expand(beta), beta)
        expected = self.expected(name, new, X) @ beta
        np.testing.assert_allclose(operator.cross(new, beta), expected, **CLOSE)
        np.testing.assert_array_equal(operator.cross(new, np.zeros((M, 2))), np.zeros((7, 2)))

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
    def test_linear(self, form):
        X, new = problems.rows(m=M), problems.rows(m=7, seed=1)
        beta = np.random.default_rng(2).normal(size=(M, 2))
        operator = LinearOperator(form(X))
        np.testing.assert_allclose(
            operator.cross(form(new), operator.expand(beta)), new @ X.T @ beta, **CLOSE
        )

    def test_precomputed(self):
        K, new = np.eye(M), np.random.default_rng(1).normal(size=(7, M))
        beta = np.random.default_rng(2).normal(size=(M, 2))
        np.testing.assert_allclose(PrecomputedOperator(K).cross(new, beta), new @ beta, **CLOSE)

    def test_proximal_expands_to_landmarks(self, block_size):
        """f(x) = k(x, X) W K beta, relaxed paper (10) to (12)."""
        X, new = problems.rows(m=M), problems.rows(m=7, seed=1)
        weights = problems.weights_of("mixed", M)
        beta = np.random.default_rng(2).normal(size=(M, 2))
        operator = ProximalOperator(DenseOperator(Kernel("rbf", gamma=0.4), X), weights)
        inner = oracle.kernel_matrix("rbf", X, X, gamma=0.4)
        expanded = operator.expand(beta)
        np.testing.assert_allclose(expanded, weights[:, None] * (inner @ beta), **CLOSE)
        near = oracle.kernel_matrix("rbf", new, X, gamma=0.4)
        np.testing.assert_allclose(operator.cross(new, expanded), near @ expanded, **CLOSE)


def test_the_callers_matrix_is_never_written_to():
    K = problems.cauchy(problems.rows(m=M), problems.rows(m=M))
    kept = K.copy()
    operator = PrecomputedOperator(K)
    operator.store().lend()[:] = 0.0
    operator.block(np.arange(M), np.arange(M))[:] = 0.0
    operator.matmul(np.ones((M, 1)))[:] = 0.0
    assert np.array_equal(K, kept)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_norms_of_linear_rows_are_kept_and_nobody_can_change_them(form):
    X = problems.rows(m=M)
    operator = LinearOperator(form(X))
    first = operator.diagonal()
    assert operator.diagonal() is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0.0
    np.testing.assert_allclose(first, (X**2).sum(axis=1), **CLOSE)


def test_float32_linear_rows_are_computed_in_float64():
    X = problems.rows(m=M).astype(np.float32)
    exact = X.astype(np.float64)
    b = np.random.default_rng(3).normal(size=(M, 2))
    np.testing.assert_allclose(LinearOperator(X).matmul(b), exact @ (exact.T @ b), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(LinearOperator(X).cross(X, b), exact @ (exact.T @ b), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("sparse", [False, True])
def test_predictions_on_several_threads_are_those_on_one(sparse, monkeypatch):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(2100, 6)), rng.normal(size=(3000, 6))
    if sparse:
        X, new = sp.csr_matrix(X * (X > 0.5)), sp.csr_matrix(new * (new > 0.5))
    kernel, coefficients = Kernel("rbf", gamma=0.2), rng.normal(size=(2100, 2))
    coefficients[::3] = 0.0
    values = {}
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        values[threads] = DenseOperator(kernel, X).cross(new, coefficients)
    np.testing.assert_allclose(values["1"], values["2"], atol=1e-10)
    np.testing.assert_allclose(values["1"], kernel(new, X) @ coefficients, atol=1e-10)
