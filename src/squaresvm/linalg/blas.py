"""BLAS on parts of one Fortran-ordered buffer, in place, and products with rows by that BLAS.

The wrappers in :mod:`scipy.linalg` copy every argument that is not contiguous, so a triangular factor
that lives in one corner of a larger buffer could not be updated where it lies. SciPy publishes the
addresses of the routines it was linked with (:mod:`scipy.linalg.cython_blas`, documented for exactly
this use); calling them with a leading dimension needs no copy, and no compiler.

Every matrix argument is a float64 array whose first stride is one element: a Fortran-ordered array, or
any rectangular part of one. Calls release the interpreter lock. `times` and `gram` take
rows of any kind, dense or sparse.

NumPy brings a BLAS of its own beside SciPy's, each with its threads, and these go on spinning for a while
after each product. Where products and factorisations follow one another, the threads of the two stand in
each other's way: a linear fit of a few thousand rows took ten times as long on two processors. So whatever
is large enough for threads goes to the BLAS that the factorisations use.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cython_blas, cython_lapack

from squaresvm.typing import FloatArray, Matrix

__all__ = [
    "add_gram",
    "char",
    "gram_update",
    "integer",
    "matrix",
    "multiply_add",
    "multiply_triangular_in_place",
    "product",
    "real",
    "routine",
    "solve_triangular_in_place",
    "symmetric_product",
    "times",
]


@cache
def routine(name: str) -> Any:
    """Return the BLAS or LAPACK routine `name` as a function of pointers."""
    table = cython_blas.__pyx_capi__
    capsule = table[name] if name in table else cython_lapack.__pyx_capi__[name]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = get_name(capsule)
    arguments = signature.decode().split("(")[1].count("*")
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)
    return prototype(get_pointer(capsule, signature))


def char(flag: str) -> Any:
    """Return a flag for BLAS."""
    return ctypes.byref(ctypes.c_char(flag.encode()))


def integer(value: int) -> Any:
    """Return an integer for BLAS."""
    return ctypes.byref(ctypes.c_int(value))


def real(value: float) -> Any:
    """Return a number for BLAS."""
    return ctypes.byref(ctypes.c_double(value))


def matrix(a: FloatArray) -> tuple[Any, Any]:
    """Return the address and the leading dimension of a column-major part of a buffer."""
    if a.dtype != np.float64 or a.ndim != 2 or (a.strides[0] != 8 and a.shape[0] > 1):
        raise TypeError("expected a two-dimensional float64 array with contiguous columns")
    leading = a.strides[1] // 8 if a.shape[1] > 1 else a.shape[0]
    return ctypes.c_void_p(a.ctypes.data), integer(max(leading, a.shape[0], 1))


#: Columns of a panel: within it the triangle is updated by dsyrk, below it the rectangle by dgemm, whose
#: threads share their work more evenly (a quarter faster at m = 2,000, a twentieth at 4,000, on two threads).
_PANEL = 1024


def gram_update(c: FloatArray, a: FloatArray, alpha: float = 1.0) -> None:
    """Add alpha a a' to the lower triangle of `c`; the strict upper triangle is left.

    Parameters
    ----------
    c : ndarray of shape (m, m)
    a : ndarray of shape (m, k)
        It may be the transpose of a column-major part.
    alpha : float, default=1.0
    """
    if a.size == 0:
        return
    if c.shape != (a.shape[0], a.shape[0]):
        raise ValueError(f"shapes {c.shape} and {a.shape} do not fit")
    for start in range(0, c.shape[0], _PANEL):
        stop = start + _PANEL
        panel = a[start:stop]
        _triangle_update(c[start:stop, start:stop], panel, alpha)
        multiply_add(c[stop:, start:stop], a[stop:], panel.T, alpha)


def _triangle_update(c: FloatArray, a: FloatArray, alpha: float) -> None:
    """Add alpha a a' to the lower triangle of `c` by one call."""
    flag, pa, lda = _operand(a)
    pc, ldc = matrix(c)
    extents = (integer(c.shape[0]), integer(a.shape[1]))
    routine("dsyrk")(char("L"), ctypes.byref(flag), *extents, real(alpha), pa, lda, real(1.0), pc, ldc)


def multiply_add(c: FloatArray, a: FloatArray, b: FloatArray, alpha: float = 1.0) -> None:
    """Add alpha a b to `c`. `a` and `b` may be transposes of column-major parts.

    Parameters
    ----------
    c : ndarray of shape (m, n)
    a : ndarray of shape (m, k)
    b : ndarray of shape (k, n)
    alpha : float, default=1.0
    """
    if a.shape != (c.shape[0], b.shape[0]) or b.shape[1] != c.shape[1]:
        raise ValueError(f"shapes {c.shape}, {a.shape} and {b.shape} do not fit")
    if c.size == 0 or a.shape[1] == 0:
        return
    flag_a, pa, lda = _operand(a)
    if c.shape[1] == 1:
        sizes = a.shape if flag_a.value == b"N" else a.shape[::-1]
        rows, columns = integer(sizes[0]), integer(sizes[1])
        routine("dgemv")(
            ctypes.byref(flag_a), rows, columns, real(alpha), pa, lda, *_vector(b), real(1.0), *_vector(c)
        )
        return
    flag_b, pb, ldb = _operand(b)
    pc, ldc = matrix(c)
    flags = (ctypes.byref(flag_a), ctypes.byref(flag_b))
    extents = (integer(c.shape[0]), integer(c.shape[1]), integer(a.shape[1]))
    routine("dgemm")(*flags, *extents, real(alpha), pa, lda, pb, ldb, real(1.0), pc, ldc)


def _vector(x: FloatArray) -> tuple[Any, Any]:
    """Return the address of one column, and the distance between its values."""
    if x.dtype != np.float64 or (x.strides[0] <= 0 and x.shape[0] > 1):
        raise TypeError("expected a float64 array that runs forwards")
    return ctypes.c_void_p(x.ctypes.data), integer(x.strides[0] // 8 if x.shape[0] > 1 else 1)


def _operand(a: FloatArray) -> tuple[Any, Any, Any]:
    """Return the flag, address and leading dimension of a matrix or of a transpose."""
    transposed = a.strides[0] != 8 and a.shape[0] > 1
    pointer, leading = matrix(a.T if transposed else a)
    return ctypes.c_char(b"T" if transposed else b"N"), pointer, leading


#: Rows of a panel where a triangular system is solved for one column.
_VECTOR_PANEL = 512


def solve_triangular_in_place(
    lower: FloatArray, rhs: FloatArray, *, side: str = "left", transpose: bool = False, alpha: float = 1.0
) -> None:
    """Overwrite `rhs` by alpha inv(L) rhs, inv(L') rhs, or with ``side='right'`` rhs inv(L), rhs inv(L').

    Parameters
    ----------
    lower : ndarray of shape (m, m)
        Only the lower triangle is read.
    rhs : ndarray of shape (m, k), or (k, m) for the right side
    side : {'left', 'right'}, default='left'
    transpose : bool, default=False
    alpha : float, default=1.0
        A factor, at no cost for more than one column.
    """
    if rhs.size == 0:
        return
    if lower.shape[0] != rhs.shape[0 if side == "left" else 1]:
        raise ValueError(f"shapes {lower.shape} and {rhs.shape} do not fit")
    if side == "left" and rhs.shape[1:] == (1,) and lower.shape[0] > _VECTOR_PANEL:
        _solve_vector(lower, rhs, transpose)
        rhs *= alpha
        return
    _by_triangle("dtrsm", lower, rhs, side, transpose, alpha)


def _solve_vector(lower: FloatArray, x: FloatArray, transpose: bool) -> None:
    """Overwrite one column by the solution, panel by panel.

    It takes as long as L takes to be read. BLAS shares out a product with a vector among its threads, and
    not the solution of a triangular system.
    """
    m = lower.shape[0]
    panels = [slice(start, min(start + _VECTOR_PANEL, m)) for start in range(0, m, _VECTOR_PANEL)]
    for panel in reversed(panels) if transpose else panels:
        rest = slice(panel.stop, m)
        if transpose:
            multiply_add(x[panel], lower[rest, panel].T, x[rest], alpha=-1.0)
        _by_triangle("dtrsm", lower[panel, panel], x[panel], "left", transpose)
        if not transpose:
            multiply_add(x[rest], lower[rest, panel], x[panel], alpha=-1.0)


def _by_triangle(
    name: str, lower: FloatArray, rhs: FloatArray, side: str, transpose: bool, alpha: float = 1.0
) -> None:
    a, lda = matrix(lower)
    b, ldb = matrix(rhs)
    routine(name)(
        char("L" if side == "left" else "R"),
        char("L"),
        char("T" if transpose else "N"),
        char("N"),
        integer(rhs.shape[0]),
        integer(rhs.shape[1]),
        real(alpha),
        a,
        lda,
        b,
        ldb,
    )


def multiply_triangular_in_place(
    lower: FloatArray, rhs: FloatArray, *, side: str = "left", transpose: bool = False, alpha: float = 1.0
) -> None:
    """Overwrite `rhs` by alpha L rhs, L' rhs, or with ``side='right'`` rhs L, rhs L'.

    The arguments are those of `solve_triangular_in_place`. Products take a third of what solutions of the
    same size do, where many columns wait for a small triangle: then its inverse pays for itself.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.blas import multiply_triangular_in_place
    >>> rhs = np.array([[1.0], [2.0]])
    >>> multiply_triangular_in_place(np.array([[2.0, 7.0], [1.0, 3.0]], order="F"), rhs)
    >>> rhs
    array([[2.],
           [7.]])
    """
    if rhs.size == 0:
        return
    if lower.shape[0] != rhs.shape[0 if side == "left" else 1]:
        raise ValueError(f"shapes {lower.shape} and {rhs.shape} do not fit")
    _by_triangle("dtrmm", lower, rhs, side, transpose, alpha)


def product(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a b, Fortran-ordered, by the BLAS of the factorisations; see :mod:`squaresvm.linalg.blas`.

    Parameters
    ----------
    a : ndarray of shape (m, k), row- or column-major
    b : ndarray of shape (k, n), row- or column-major

    Returns
    -------
    ndarray of shape (m, n)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.blas import product
    >>> product(np.ones((2, 3)), np.ones((3, 1)))
    array([[3.],
           [3.]])
    """
    out = np.zeros((a.shape[0], b.shape[1]), order="F")
    multiply_add(out, a, b)
    return out


#: Columns up to which S is read once for each of them: a product of matrices copies all of S first.
_FEW_COLUMNS = 6


def symmetric_product(a: FloatArray, b: FloatArray, *, lower: bool) -> FloatArray:
    """Return S b for the symmetric S held in one triangle of `a`, its diagonal included.

    Parameters
    ----------
    a : ndarray of shape (m, m)
    b : ndarray of shape (m, k)
    lower : bool
        Which triangle of `a` holds S.

    Returns
    -------
    ndarray of shape (m, k), Fortran-ordered
    """
    b = np.asfortranarray(b)
    if a.shape != (b.shape[0], b.shape[0]):
        raise ValueError(f"shapes {a.shape} and {b.shape} do not fit")
    out = np.zeros(b.shape, order="F")
    if b.size == 0:
        return out
    pa, lda = matrix(a)
    uplo, m = char("L" if lower else "U"), integer(a.shape[0])
    if b.shape[1] <= _FEW_COLUMNS:
        for j in range(b.shape[1]):
            x, y = _vector(b[:, j : j + 1]), _vector(out[:, j : j + 1])
            routine("dsymv")(uplo, m, real(1.0), pa, lda, *x, real(0.0), *y)
        return out
    pb, ldb = matrix(b)
    pc, ldc = matrix(out)
    n = integer(b.shape[1])
    routine("dsymm")(char("L"), uplo, m, n, real(1.0), pa, lda, pb, ldb, real(0.0), pc, ldc)
    return out


#: Multiplications up to which no BLAS wakes its threads, and NumPy's call is the shorter one.
_QUIET = 8192


def times(X: Matrix, b: FloatArray) -> FloatArray:
    """Return X b in float64.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, n)
    b : ndarray of shape (n,) or (n, k)

    Returns
    -------
    ndarray of shape (m,) or (m, k)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.blas import times
    >>> times(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]))
    array([-1., -1.])
    """
    if sp.issparse(X):
        return np.asarray(X @ b, dtype=np.float64)
    if X.size * (b.shape[1] if b.ndim == 2 else 1) <= _QUIET:
        return np.asarray(np.asarray(X, dtype=np.float64) @ b, dtype=np.float64)
    if b.ndim == 1:
        return product(_regular(X), _regular(b[:, None]))[:, 0]
    return product(_regular(X), _regular(b))


def add_gram(out: FloatArray, X: FloatArray) -> None:
    """Add X'X for a dense X to the lower triangle of `out`; what is above it is not to be read.

    Parameters
    ----------
    out : ndarray of shape (n, n), Fortran-ordered
    X : ndarray of shape (m, n)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.linalg.blas import add_gram
    >>> out = np.zeros((2, 2), order="F")
    >>> add_gram(out, np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> np.tril(out)
    array([[10.,  0.],
           [14., 20.]])
    """
    if X.size * X.shape[1] <= _QUIET:
        out += X.T @ X
    else:
        gram_update(out, np.asfortranarray(X.T))


def _regular(X: FloatArray) -> FloatArray:
    """Return a dense matrix in float64, row- or column-major: a slice of columns is neither."""
    dense = np.asarray(X, dtype=np.float64)
    return dense if 8 in dense.strides and min(dense.strides) > 0 else np.ascontiguousarray(dense)
