"""BLAS and LAPACK in place: panels smaller than the matrix, parts of a buffer, nothing else touched."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm.linalg import lapack
from squaresvm.linalg.blas import (
    gram_update,
    multiply_add,
    multiply_triangular_in_place,
    solve_triangular_in_place,
    symmetric_product,
)
from squaresvm.linalg.lapack import (
    NotPositiveDefiniteError,
    cholesky_in_place,
    inverse_columns,
    invert_cholesky_in_place,
    tridiagonalise_in_place,
)

M = 23
#: One row at a time, a divisor and a non-divisor of the size, exactly the size, more than that, the default.
PANELS = [1, 4, 22, 23, 40, None]


def definite(m=M, seed=0):
    root = np.random.default_rng(seed).normal(size=(m, m + 3))
    return root @ root.T / m


def in_a_buffer(a):
    """Return a column-major buffer of noise, and the part of it that holds `a`."""
    buffer = np.asfortranarray(np.random.default_rng(9).normal(size=(a.shape[0] + 5, a.shape[1] + 4)))
    part = buffer[3 : 3 + a.shape[0], 1 : 1 + a.shape[1]]
    part[:] = a
    return buffer, part


def assert_only_lower_triangle_changed(before, after, row=3, column=1, m=M):
    may = np.zeros(before.shape, dtype=bool)
    may[row : row + m, column : column + m] = np.tril(np.ones((m, m), dtype=bool))
    assert np.array_equal(before[~may], after[~may])
    assert not np.array_equal(before[may], after[may])


@pytest.mark.parametrize("panel", PANELS)
def test_cholesky_of_a_part(panel):
    a = definite()
    buffer, part = in_a_buffer(a)
    part[np.triu_indices(M, 1)] = np.nan  # Neither read nor written.
    before = buffer.copy()
    cholesky_in_place(part, panel)
    np.testing.assert_allclose(np.tril(part), np.linalg.cholesky(a), rtol=1e-11, atol=1e-13)
    keep = ~np.isnan(before)
    assert np.isnan(buffer[~keep]).all()
    assert_only_lower_triangle_changed(np.nan_to_num(before), np.nan_to_num(buffer))


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("bad", [0, 3, 4, 5, 22])
def test_cholesky_names_the_first_bad_row(panel, bad):
    factor = np.linalg.cholesky(definite())
    signs = np.ones(M)
    signs[bad:] = -1.0  # L diag(signs) L' has its first negative pivot at this row.
    a = np.asfortranarray(factor * signs @ factor.T)
    with pytest.raises(NotPositiveDefiniteError, match=f"order {bad + 1} ") as caught:
        cholesky_in_place(a, panel)
    assert caught.value.row == bad


@pytest.mark.parametrize("panel", PANELS)
def test_inverse_from_the_factor(panel):
    a = definite()
    buffer, part = in_a_buffer(np.linalg.cholesky(a))
    part[np.triu_indices(M, 1)] = 7.0
    before = buffer.copy()
    invert_cholesky_in_place(part, panel)
    np.testing.assert_allclose(np.tril(part), np.tril(np.linalg.inv(a)), rtol=1e-8, atol=1e-10)
    assert_only_lower_triangle_changed(before, buffer)


@pytest.mark.parametrize("rows", [[0], [M - 1], [7, 3, M - 1, 0, 8], list(range(M))[::-1]])
@pytest.mark.parametrize("panel", [1, 4, M, 512])
def test_columns_of_the_inverse_factor(rows, panel, monkeypatch):
    monkeypatch.setattr(lapack, "_COLUMN_PANEL", panel)
    factor = np.linalg.cholesky(definite())
    _, part = in_a_buffer(factor + np.triu(np.full((M, M), np.nan), 1))
    found = inverse_columns(part, np.array(rows))
    np.testing.assert_allclose(found, np.linalg.inv(factor)[:, rows], rtol=1e-9, atol=1e-11)
    assert found.flags.f_contiguous


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("count", [1, 4])
def test_triangular_solve(side, transpose, count, block_size):
    factor = np.linalg.cholesky(definite())
    triangle = np.asfortranarray(factor + np.triu(np.full((M, M), np.nan), 1))
    right = np.random.default_rng(1).normal(size=(M, count) if side == "left" else (count, M))
    buffer, part = in_a_buffer(right)
    solve_triangular_in_place(triangle, part, side=side, transpose=transpose)
    T = factor.T if transpose else factor
    expected = np.linalg.inv(T) @ right if side == "left" else right @ np.linalg.inv(T)
    np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-11)
    fresh, inside = in_a_buffer(right)
    inside[:], part[:] = 0.0, 0.0
    assert np.array_equal(buffer, fresh)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("count", "alpha"), [(1, -1.0), (4, 0.5)])
def test_triangular_product(side, transpose, count, alpha):
    factor = np.linalg.cholesky(definite())
    triangle = np.asfortranarray(factor + np.triu(np.full((M, M), np.nan), 1))
    rhs = np.random.default_rng(1).normal(size=(M, count) if side == "left" else (count, M))
    buffer, part = in_a_buffer(rhs)
    outside = buffer.copy()
    multiply_triangular_in_place(triangle, part, side=side, transpose=transpose, alpha=alpha)
    T = factor.T if transpose else factor
    np.testing.assert_allclose(part, alpha * (T @ rhs if side == "left" else rhs @ T), rtol=1e-12, atol=1e-13)
    part[:] = rhs
    assert np.array_equal(buffer, outside)


def test_shapes_that_do_not_fit_a_triangle():
    for work in (multiply_triangular_in_place, solve_triangular_in_place):
        with pytest.raises(ValueError, match="do not fit"):
            work(np.eye(3, order="F"), np.ones((2, 1), order="F"))


@pytest.mark.parametrize("transposed", [False, True])
def test_gram_update_adds_to_the_lower_triangle(transposed):
    a = np.random.default_rng(2).normal(size=(M, 6))
    a = np.ascontiguousarray(a) if transposed else np.asfortranarray(a)
    buffer, part = in_a_buffer(definite())
    before = buffer.copy()
    expected = np.tril(part - 0.5 * a @ a.T)
    gram_update(part, a, alpha=-0.5)
    np.testing.assert_allclose(np.tril(part), expected, rtol=1e-13, atol=1e-14)
    assert_only_lower_triangle_changed(before, buffer)


@pytest.mark.parametrize("transposed", [False, True])
def test_multiply_add(transposed):
    rng = np.random.default_rng(3)
    a = np.asfortranarray(rng.normal(size=(M, 6)))
    b = np.asfortranarray(rng.normal(size=(5, 6))).T if transposed else rng.normal(size=(6, 5)).copy("F")
    buffer, part = in_a_buffer(rng.normal(size=(M, 5)))
    outside = buffer.copy()
    expected = part + 2.0 * a @ b
    multiply_add(part, a, b, alpha=2.0)
    np.testing.assert_allclose(part, expected, rtol=1e-13, atol=1e-14)
    outside[3 : 3 + M, 1:6] = part
    assert np.array_equal(buffer, outside)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("columns", [1, 3])
def test_symmetric_product_reads_one_triangle(lower, columns):
    a = definite()
    _, part = in_a_buffer(a)
    part[np.triu_indices(M, 1) if lower else np.tril_indices(M, -1)] = np.nan
    b = np.random.default_rng(4).normal(size=(M, columns))
    np.testing.assert_allclose(symmetric_product(part, b, lower=lower), a @ b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "matrix",
    [np.eye(3, dtype=np.float32, order="F"), np.arange(9.0).reshape(3, 3), np.ones(3)],
    ids=["float32", "row-major", "vector"],
)
def test_refuses_what_it_would_misread(matrix):
    with pytest.raises(TypeError, match="float64 array with contiguous columns"):
        solve_triangular_in_place(np.eye(3, order="F"), matrix)


def test_one_row_and_no_rows():
    one = np.array([[9.0]])
    cholesky_in_place(one)
    assert one[0, 0] == 3.0
    invert_cholesky_in_place(one)
    assert one[0, 0] == pytest.approx(1 / 9)
    empty = np.empty((0, 0), order="F")
    cholesky_in_place(empty)
    assert symmetric_product(empty, np.empty((0, 2)), lower=True).shape == (0, 2)


@pytest.mark.parametrize("m", [1, 2, M])
def test_tridiagonal_form_of_a_part(m):
    a = definite(m)
    buffer, part = in_a_buffer(a)
    part[np.triu_indices(m, 1)] = np.nan  # Not read.
    before = buffer.copy()
    diagonal, beside = tridiagonalise_in_place(part)
    T = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    np.testing.assert_allclose(part @ T @ part.T, a, rtol=0, atol=1e-13)
    np.testing.assert_allclose(part @ part.T, np.eye(m), rtol=0, atol=1e-14)
    outside = np.ones(buffer.shape, dtype=bool)
    outside[3 : 3 + m, 1 : 1 + m] = False
    assert np.array_equal(before[outside], buffer[outside])
