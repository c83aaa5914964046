"""BLAS on parts of one Fortran-ordered buffer, in place.

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

from squaresvm.typing import FloatArray

__all__ = [
    "char",
    "gram_update",
    "integer",
    "matrix",
    "multiply_add",
    "product",
    "real",
    "routine",
    "symmetric_product",
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
    pa, lda = matrix(a)
    pc, ldc = matrix(c)
    routine("dsyrk")(
        char("L"),
        char("N"),
        integer(c.shape[0]),
        integer(a.shape[1]),
        real(alpha),
        pa,
        lda,
        real(1.0),
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


def product(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a b, Fortran-ordered, by the BLAS of the factorisations; see :mod:`squaresvm.linalg.products`.

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
    if b.shape[1] == 1:
        routine("dsymv")(uplo, m, real(1.0), pa, lda, *_vector(b), real(0.0), *_vector(out))
        return out
    pb, ldb = matrix(b)
    pc, ldc = matrix(out)
    n = integer(b.shape[1])
    routine("dsymm")(char("L"), uplo, m, n, real(1.0), pa, lda, pb, ldb, real(0.0), pc, ldc)
    return out
