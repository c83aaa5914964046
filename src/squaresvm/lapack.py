"""BLAS and LAPACK on parts of one Fortran-ordered buffer, in place.

The wrappers in :mod:`scipy.linalg` copy every argument that is not contiguous, so a triangular factor
that lives in one corner of a larger buffer could not be updated where it lies. SciPy publishes the
addresses of the routines it was linked with (:mod:`scipy.linalg.cython_blas`, documented for exactly
this use); calling them with a leading dimension needs no copy, and no compiler.

Every matrix argument is a float64 array whose first stride is one element: a Fortran-ordered array, or
any rectangular part of one. Calls release the interpreter lock.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from squaresvm.typing import FloatArray, IntArray

__all__ = [
    "PANEL",
    "NotPositiveDefiniteError",
    "cholesky_in_place",
    "gram_update",
    "inverse_columns",
    "invert_cholesky_in_place",
    "multiply_add",
    "product",
    "solve_triangular_in_place",
    "symmetric_product",
    "tridiagonalise_in_place",
]

#: Rows handed to one LAPACK call. The OpenBLAS inside current NumPy and SciPy wheels crashes in a
#: threaded ``dpotrf`` above some 15,500 rows, so larger matrices go through panels of this many.
PANEL = 4096
#: Columns that LAPACK reduces together, for the size of its work space.
_BLOCK = 64
#: Rows of a panel where a triangular system is solved for one column.
_VECTOR_PANEL = 512


class NotPositiveDefiniteError(ValueError):
    """A Cholesky factorisation met a pivot that is not positive.

    Parameters
    ----------
    row : int
        Row of the pivot.
    """

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(f"the leading minor of order {row + 1} is not positive definite")


@cache
def _routine(name: str) -> Any:
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


def _char(flag: str) -> Any:
    return ctypes.byref(ctypes.c_char(flag.encode()))


def _int(value: int) -> Any:
    return ctypes.byref(ctypes.c_int(value))


def _real(value: float) -> Any:
    return ctypes.byref(ctypes.c_double(value))


def _matrix(a: FloatArray) -> tuple[Any, Any]:
    """Return the address and the leading dimension of a column-major part of a buffer."""
    if a.dtype != np.float64 or a.ndim != 2 or (a.strides[0] != 8 and a.shape[0] > 1):
        raise TypeError("expected a two-dimensional float64 array with contiguous columns")
    leading = a.strides[1] // 8 if a.shape[1] > 1 else a.shape[0]
    return ctypes.c_void_p(a.ctypes.data), _int(max(leading, a.shape[0], 1))


def _factor_panel(a: FloatArray, first_row: int) -> None:
    info = ctypes.c_int(0)
    pointer, leading = _matrix(a)
    _routine("dpotrf")(_char("L"), _int(a.shape[0]), pointer, leading, ctypes.byref(info))
    if info.value > 0:
        raise NotPositiveDefiniteError(first_row + info.value - 1)


def cholesky_in_place(a: FloatArray, panel: int | None = None) -> None:
    """Overwrite the lower triangle of `a` by L, where a = L L'; the strict upper triangle is left.

    Parameters
    ----------
    a : ndarray of shape (m, m), Fortran-ordered part of a buffer
        Symmetric, only the lower triangle is read.
    panel : int, default=PANEL
        Rows handed to LAPACK at once.

    Raises
    ------
    NotPositiveDefiniteError
        The lower triangle is then partly overwritten.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.lapack import cholesky_in_place
    >>> a = np.array([[4.0, 7.0], [2.0, 2.0]], order="F")
    >>> cholesky_in_place(a)
    >>> a
    array([[2., 7.],
           [1., 1.]])
    """
    m, panel = a.shape[0], panel or PANEL
    for start in range(0, m, panel):
        stop = min(start + panel, m)
        diagonal = a[start:stop, start:stop]
        _factor_panel(diagonal, start)
        below = a[stop:, start:stop]
        if below.shape[0]:
            solve_triangular_in_place(diagonal, below, side="right", transpose=True)
        # Right-looking: what the panel leaves of the trailing matrix, one block column at a time.
        for left in range(stop, m, panel):
            right = min(left + panel, m)
            rows = a[left:right, start:stop]
            gram_update(a[left:right, left:right], rows, alpha=-1.0)
            if right < m:
                multiply_add(a[right:, left:right], a[right:, start:stop], rows.T, alpha=-1.0)


def solve_triangular_in_place(
    lower: FloatArray, rhs: FloatArray, *, side: str = "left", transpose: bool = False
) -> None:
    """Overwrite `rhs` by inv(L) rhs, inv(L') rhs, or with ``side='right'`` rhs inv(L), rhs inv(L').

    Parameters
    ----------
    lower : ndarray of shape (m, m)
        Only the lower triangle is read.
    rhs : ndarray of shape (m, k), or (k, m) for the right side
    side : {'left', 'right'}, default='left'
    transpose : bool, default=False
    """
    if rhs.size == 0:
        return
    if lower.shape[0] != rhs.shape[0 if side == "left" else 1]:
        raise ValueError(f"shapes {lower.shape} and {rhs.shape} do not fit")
    if side == "left" and rhs.shape[1:] == (1,) and lower.shape[0] > _VECTOR_PANEL:
        _solve_vector(lower, rhs, transpose)
        return
    _solve_at_once(lower, rhs, side, transpose)


def inverse_columns(lower: FloatArray, columns: IntArray) -> FloatArray:
    """Return columns of inv(L), Fortran-ordered; nothing is done above their diagonal, where they are zero.

    Parameters
    ----------
    lower : ndarray of shape (m, m)
        Only the lower triangle is read.
    columns : ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.lapack import inverse_columns
    >>> inverse_columns(np.array([[2.0, 0.0], [1.0, 4.0]], order="F"), np.array([0]))
    array([[ 0.5  ],
           [-0.125]])
    """
    m, order = lower.shape[0], np.argsort(columns)
    ascending = columns[order]
    sorted_out = np.zeros((m, columns.size), order="F")
    sorted_out[ascending, np.arange(columns.size)] = 1.0
    for start in range(0, m, _VECTOR_PANEL):
        stop = min(start + _VECTOR_PANEL, m)
        begun = sorted_out[:, : np.searchsorted(ascending, stop)]
        if begun.size:
            _solve_at_once(lower[start:stop, start:stop], begun[start:stop], "left", False)
            _subtract_product(begun[stop:], lower[stop:, start:stop], begun[start:stop])
    out = np.empty_like(sorted_out)
    out[:, order] = sorted_out
    return out


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
            _subtract_product(x[panel], lower[rest, panel].T, x[rest])
        _solve_at_once(lower[panel, panel], x[panel], "left", transpose)
        if not transpose:
            _subtract_product(x[rest], lower[rest, panel], x[panel])


def _subtract_product(y: FloatArray, a: FloatArray, x: FloatArray) -> None:
    """Subtract a x from y; `a` may be the transpose of a column-major part."""
    if x.shape[1] != 1 or a.size == 0:
        multiply_add(y, a, x, alpha=-1.0)
        return
    flag, pointer, leading = _operand(a)
    sizes = a.shape if flag.value == b"N" else a.shape[::-1]
    px, py, one = ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), _int(1)
    arguments = (_int(sizes[0]), _int(sizes[1]), _real(-1.0), pointer, leading, px, one, _real(1.0), py, one)
    _routine("dgemv")(ctypes.byref(flag), *arguments)


def _solve_at_once(lower: FloatArray, rhs: FloatArray, side: str, transpose: bool) -> None:
    a, lda = _matrix(lower)
    b, ldb = _matrix(rhs)
    _routine("dtrsm")(
        _char("L" if side == "left" else "R"),
        _char("L"),
        _char("T" if transpose else "N"),
        _char("N"),
        _int(rhs.shape[0]),
        _int(rhs.shape[1]),
        _real(1.0),
        a,
        lda,
        b,
        ldb,
    )


def gram_update(c: FloatArray, a: FloatArray, alpha: float = 1.0) -> None:
    """Add alpha a a' to the lower triangle of `c`; the strict upper triangle is left.

    Parameters
    ----------
    c : ndarray of shape (m, m)
    a : ndarray of shape (m, k)
    alpha : float, default=1.0
    """
    if a.size == 0:
        return
    if c.shape != (a.shape[0], a.shape[0]):
        raise ValueError(f"shapes {c.shape} and {a.shape} do not fit")
    pa, lda = _matrix(a)
    pc, ldc = _matrix(c)
    _routine("dsyrk")(
        _char("L"),
        _char("N"),
        _int(c.shape[0]),
        _int(a.shape[1]),
        _real(alpha),
        pa,
        lda,
        _real(1.0),
        pc,
        ldc,
    )


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
    flag_b, pb, ldb = _operand(b)
    pc, ldc = _matrix(c)
    flags = (ctypes.byref(flag_a), ctypes.byref(flag_b))
    sizes = (_int(c.shape[0]), _int(c.shape[1]), _int(a.shape[1]))
    _routine("dgemm")(*flags, *sizes, _real(alpha), pa, lda, pb, ldb, _real(1.0), pc, ldc)


def _operand(a: FloatArray) -> tuple[Any, Any, Any]:
    """Return the flag, address and leading dimension of a matrix or of a transpose."""
    transposed = a.strides[0] != 8 and a.shape[0] > 1
    pointer, leading = _matrix(a.T if transposed else a)
    return ctypes.c_char(b"T" if transposed else b"N"), pointer, leading


def product(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a b, Fortran-ordered, by the same BLAS as the factorisations.

    NumPy brings a BLAS of its own, whose threads go on spinning for a while after each product: between two
    LAPACK calls that would cost several times the product itself.

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
    >>> from squaresvm.lapack import product
    >>> product(np.ones((2, 3)), np.ones((3, 1)))
    array([[3.],
           [3.]])
    """
    out = np.zeros((a.shape[0], b.shape[1]), order="F")
    multiply_add(out, a, b)
    return out


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
    pa, lda = _matrix(a)
    uplo, m = _char("L" if lower else "U"), _int(a.shape[0])
    if b.shape[1] == 1:
        one = _int(1)
        px, py = ctypes.c_void_p(b.ctypes.data), ctypes.c_void_p(out.ctypes.data)
        _routine("dsymv")(uplo, m, _real(1.0), pa, lda, px, one, _real(0.0), py, one)
        return out
    pb, ldb = _matrix(b)
    pc, ldc = _matrix(out)
    n = _int(b.shape[1])
    _routine("dsymm")(_char("L"), uplo, m, n, _real(1.0), pa, lda, pb, ldb, _real(0.0), pc, ldc)
    return out


def invert_cholesky_in_place(lower: FloatArray, panel: int | None = None) -> None:
    """Overwrite the Cholesky factor in the lower triangle by the lower triangle of inv(L L').

    Parameters
    ----------
    lower : ndarray of shape (m, m)
        The strict upper triangle is left as it is.
    panel : int, default=PANEL
        Rows handed to LAPACK at once.
    """
    m, panel = lower.shape[0], panel or PANEL
    starts = range(0, m, panel)
    # inv(L), block row by block row: inv(L)_ij = -inv(L_ii) sum_{k=j}^{i-1} L_ik inv(L)_kj.
    for start in starts:
        stop = min(start + panel, m)
        diagonal = lower[start:stop, start:stop]
        if start:
            row = np.zeros((stop - start, start), order="F")
            for left in range(0, start, panel):
                right = min(left + panel, start)
                block = np.tril(lower[left:right, left:right])
                multiply_add(row[:, left:right], lower[start:stop, left:right], block, alpha=-1.0)
                if right < start:
                    multiply_add(
                        row[:, left:right],
                        lower[start:stop, right:start],
                        lower[right:start, left:right],
                        alpha=-1.0,
                    )
            solve_triangular_in_place(diagonal, row)
            lower[start:stop, :start] = row
        _lapack_triangle("dtrtri", diagonal, unit_flag=True)
    # N = inv(L)' inv(L), lower triangle, block column by block column from the top.
    for start in starts:
        stop = min(start + panel, m)
        below = lower[stop:, start:stop]
        diagonal = lower[start:stop, start:stop]
        for left in range(0, start, panel):
            right = min(left + panel, start)
            block = np.asfortranarray(np.tril(diagonal).T @ lower[start:stop, left:right])
            if stop < m:
                block += below.T @ lower[stop:, left:right]
            lower[start:stop, left:right] = block
        _lapack_triangle("dlauum", diagonal)
        if stop < m:
            gram_update(diagonal, np.asfortranarray(below.T))


def _lapack_triangle(name: str, a: FloatArray, unit_flag: bool = False) -> None:
    info = ctypes.c_int(0)
    pointer, leading = _matrix(a)
    flags = (_char("L"), _char("N")) if unit_flag else (_char("L"),)
    _routine(name)(*flags, _int(a.shape[0]), pointer, leading, ctypes.byref(info))
    if info.value > 0:
        raise NotPositiveDefiniteError(info.value - 1)


def tridiagonalise_in_place(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Overwrite the symmetric `a` by an orthogonal Q, where a = Q T Q', and return T.

    Parameters
    ----------
    a : ndarray of shape (m, m), Fortran-ordered part of a buffer
        Only the lower triangle is read.

    Returns
    -------
    diagonal : ndarray of shape (m,)
        Of T.
    beside : ndarray of shape (m - 1,)
        The entries of T next to its diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.lapack import tridiagonalise_in_place
    >>> a = np.array([[2.0, 3.0, 4.0], [3.0, 1.0, 0.0], [4.0, 0.0, 1.0]], order="F")
    >>> diagonal, beside = tridiagonalise_in_place(a)
    >>> np.round(np.abs(beside), 12)
    array([5., 0.])
    """
    m = a.shape[0]
    pointer, leading = _matrix(a)
    diagonal, beside, scale = np.empty(m), np.empty(max(m - 1, 0)), np.empty(max(m - 1, 1))
    work = np.empty(_BLOCK * max(m, 1))
    info = ctypes.c_int(0)
    tail = (ctypes.c_void_p(work.ctypes.data), _int(work.size), ctypes.byref(info))
    outputs = [ctypes.c_void_p(part.ctypes.data) for part in (diagonal, beside, scale)]
    _routine("dsytrd")(_char("L"), _int(m), pointer, leading, *outputs, *tail)
    _routine("dorgtr")(_char("L"), _int(m), pointer, leading, outputs[2], *tail)
    return diagonal, beside
