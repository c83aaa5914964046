"""Products with rows: whatever their layout, the same numbers as NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm.linalg.blas import add_gram, multiply_add, times

SMALL, LARGE = (7, 5), (130, 90)


def laid_out(shape, layout):
    values = np.random.default_rng(0).standard_normal((2 * shape[0], 2 * shape[1]))
    parts = {
        "rows": np.ascontiguousarray(values[: shape[0], : shape[1]]),
        "columns": np.asfortranarray(values[: shape[0], : shape[1]]),
        "every other row": values[::2, : shape[1]],
        "every other column": values[: shape[0], ::2],
        "backwards": values[: shape[0], : shape[1]][::-1, ::-1],
        "float32": values[: shape[0], : shape[1]].astype(np.float32),
    }
    return parts[layout]


LAYOUTS = ["rows", "columns", "every other row", "every other column", "backwards", "float32"]


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("layout", LAYOUTS)
class TestLayouts:
    @pytest.mark.parametrize("columns", [None, 1, 3])
    def test_times(self, layout, shape, columns):
        X = laid_out(shape, layout)
        rng = np.random.default_rng(1)
        b = rng.standard_normal(shape[1] if columns is None else (shape[1], columns))
        found = times(X, b)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, X.astype(np.float64) @ b, atol=1e-12)
        np.testing.assert_allclose(times(X.T, times(X, b)), X.T.astype(np.float64) @ found, atol=1e-11)

    def test_times_a_matrix_of_any_layout(self, layout, shape):
        b = laid_out(shape, layout)
        X = np.random.default_rng(1).standard_normal((20, shape[0]))
        np.testing.assert_allclose(times(X, b), X @ b.astype(np.float64), atol=1e-12)
        np.testing.assert_allclose(times(X, b[:, 1]), X @ b[:, 1].astype(np.float64), atol=1e-12)

    def test_gram(self, layout, shape):
        X = laid_out(shape, layout).astype(np.float64)
        out = np.ones((shape[1], shape[1]), order="F")
        add_gram(out, X)
        add_gram(out, 2.0 * X)
        np.testing.assert_allclose(np.tril(out), np.tril(5.0 * X.T @ X + 1.0), atol=1e-11)


def test_sparse_rows():
    X = sp.random(200, 100, density=0.1, format="csr", random_state=0)
    b = np.random.default_rng(0).standard_normal((100, 3))
    np.testing.assert_allclose(times(X, b), X.toarray() @ b, atol=1e-12)
    np.testing.assert_allclose(times(X, b[:, 0]), X.toarray() @ b[:, 0], atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_no_rows_or_no_columns(shape):
    np.testing.assert_array_equal(times(np.zeros(shape), np.ones((shape[1], 2))), np.zeros((shape[0], 2)))


def test_one_column_may_be_any_column():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((6, 4)), rng.standard_normal((4, 3)), rng.standard_normal((6, 2))
    expected = c[:, [1]] - 2.0 * a @ b[:, [2]]
    view = c[:, 1:2]
    multiply_add(view, a, b[:, 2:3], alpha=-2.0)
    np.testing.assert_allclose(c[:, [1]], expected)


def test_a_column_that_runs_backwards_is_refused():
    a, b = np.ones((4, 4)), np.ones((4, 1))
    with pytest.raises(TypeError, match="forwards"):
        multiply_add(np.zeros((4, 1)), a, b[::-1])
