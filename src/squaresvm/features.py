"""Features of a kernel from landmarks: linear models on them are kernel models, at any number of rows.

Landmarks are rows that stand for all (the Nystrom method).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from squaresvm.kernels import Kernel, KernelFunction, check_kernel, scale_gamma
from squaresvm.landmarks import LANDMARKS, choose_landmarks
from squaresvm.linalg.blas import product
from squaresvm.rows import canonical_csr
from squaresvm.runtime.arguments import check_integer, check_random_state_parameter
from squaresvm.runtime.extras import Documented
from squaresvm.runtime.resources import on_threads, thread_count, threads_for_blas
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["Nystrom"]

#: Landmarks, where no number is given and there are as many rows.
_DEFAULT = 100
#: Bytes of a block of kernel values, and rows from which on several threads share the work.
_BLOCK_BYTES, _THREADED_ROWS = 4 * 2**20, 4096
#: Strips of columns in a product with a triangular matrix: what is below the diagonal is left out of each.
_STRIPS = 8
#: gamma |x|^2 up to which exponents of the RBF kernel are taken in float32.
_SMALL_EXPONENT = 16.0
#: Landmarks up to which the threads of a BLAS, which go on spinning, cost more time than they save.
_QUIET_LANDMARKS = 1500
#: How far above the limit a bound on the least eigenvalue has to be, for the sake of its own rounding.
_CLEARLY = 10.0


class Nystrom(Documented, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features z(x) with z(x)'z(t) close to k(x, t), by the Nystrom method.

    With landmarks l_1 ... l_r out of the rows and W W' = inv(K_rr), K_rr = k(l, l),

        z(x) = k(x, l) W,    Z Z' = K_mr inv(K_rr) K_rm

    is the best approximation of K by functions of the landmarks; with all rows as landmarks it is K, and a
    linear model of the features is the kernel model. Where K_rr has eigenvalues below the rounding of the
    largest (of float32, where the rows are in it), their directions are left out: of landmarks that are
    alike, one counts, and there are fewer features than landmarks.

    Parameters
    ----------
    n_components : int, optional
        At most the number of rows. By default 100, or all rows where there are fewer.
    landmarks : {'uniform', 'k-means++', 'leverage', 'pivoted-cholesky'}, default='uniform'
        How landmarks are chosen among the rows: with equal chances; far from each other; by approximate
        leverage scores, that is by what a row adds to the others; or one after the other, always the row that
        the landmarks so far explain least. The second and the last look at ten rows a landmark, drawn with
        equal chances, and the last ends early where nothing is left to explain.
    kernel : str or callable, default='rbf'
        As in the estimators, but not ``'precomputed'``.
    gamma : float, 'scale' or 'auto', default='scale'
    degree : int, default=3
    coef0 : float, default=0.0
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    landmark_indices_ : ndarray of shape (r,)
        Which rows the landmarks are.
    landmarks_ : ndarray or CSR matrix of shape (r, n_features)
    gamma_ : float
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from squaresvm import Nystrom, RLSSVC
    >>> from squaresvm.datasets import make_checkerboard
    >>> X, y = make_checkerboard(2000, random_state=0)
    >>> model = make_pipeline(Nystrom(200, gamma=1e-3, random_state=0), RLSSVC(kernel="linear", C=1e4))
    >>> model.fit(X, y).score(X, y) > 0.95
    True
    """

    #: What goes with the file of the model: a :class:`squaresvm.files.Record`, which owns it.
    _record: Any = None

    def __init__(
        self,
        n_components: int | None = None,
        *,
        landmarks: str = "uniform",
        kernel: str | KernelFunction = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.landmarks = landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the landmarks among the rows.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (m, n)
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        X = canonical_csr(validate_data(self, X, **_RULES))
        count = self._count(int(X.shape[0]))
        kernel = self._kernel(X)
        kernel.check_range(X)
        chosen = choose_landmarks(self.landmarks, kernel, X, count, check_random_state(self.random_state))
        landmarks = X[chosen]
        self._adopt(kernel, chosen, landmarks, _root_of(kernel, landmarks))
        return self

    def forget(self, rows: Iterable[int]) -> int:
        """Drop the landmarks that are among some rows of the fit: nothing of these rows is left but in gamma.

        The features are then those of the other landmarks, by the gamma of the fit, so that a model of the
        features must be fitted anew on ``transform`` of the rows that remain. Where no landmark is dropped,
        features stay as they are, and it is enough that the model forgets the rows.

        Parameters
        ----------
        rows : iterable of int
            Numbers of rows of the fit, as in ``landmark_indices_``.

        Returns
        -------
        int
            How many landmarks were dropped.

        Raises
        ------
        ValueError
            If no landmark would be left: fit anew. Nothing has changed then.

        Examples
        --------
        >>> import numpy as np
        >>> from squaresvm import LSSVC, Nystrom
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> y, features = X[:, 0] > 0, Nystrom(20, random_state=0).fit(X)
        >>> gone = features.landmark_indices_[:2]
        >>> rest = np.delete(np.arange(60), gone)
        >>> features.forget(gone)
        2
        >>> model = LSSVC(kernel="linear").fit(features.transform(X[rest]), y[rest], ids=rest)
        """
        check_is_fitted(self)
        gone = np.asarray(list(rows))
        if gone.ndim != 1 or (gone.size and gone.dtype.kind not in "iu"):
            raise ValueError("rows must be numbers of rows of the fit, such as [3, 17]")
        (kept,) = np.nonzero(~np.isin(self.landmark_indices_, gone))
        dropped = int(self.landmark_indices_.size - kept.size)
        if not kept.size:
            raise ValueError("forgetting these rows would leave no landmark: fit anew on the others")
        if dropped:
            kernel, landmarks = self._map.kernel, self.landmarks_[kept].copy()
            self._adopt(kernel, self.landmark_indices_[kept], landmarks, _root_of(kernel, landmarks))
        return dropped

    def _adopt(self, kernel: Kernel, chosen: IntArray, landmarks: Matrix, root: np.ndarray[Any, Any]) -> None:
        self.landmark_indices_: IntArray = chosen
        self.landmarks_: Matrix = landmarks
        self.gamma_ = kernel.gamma
        self._map = _Map(kernel, landmarks, root)
        self._n_features_out = root.shape[1]

    def transform(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the features of rows, in float32 for rows in float32, else in float64.

        Safe to call from several threads at once.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (rows, n)

        Returns
        -------
        ndarray of shape (rows, n_features_out)
        """
        check_is_fitted(self)
        X = canonical_csr(validate_data(self, X, reset=False, **_RULES))
        return self._map(X)

    def _check_parameters(self) -> None:
        if self.n_components is not None:
            check_integer("n_components", self.n_components, 1)
        if self.landmarks not in LANDMARKS:
            names = ", ".join(map(repr, LANDMARKS))
            raise ValueError(f"landmarks must be one of {names}; got {self.landmarks!r}")
        check_kernel(self.kernel, self.gamma, self.degree, self.coef0)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                "Nystrom computes kernel values from rows, so kernel='precomputed' cannot be used"
            )
        check_random_state_parameter(self.random_state)

    def _count(self, n_rows: int) -> int:
        if self.n_components is None:
            return min(_DEFAULT, n_rows)
        if self.n_components > n_rows:
            raise ValueError(
                f"n_components={self.n_components} landmarks cannot be chosen out of {n_rows} rows "
                f"(n_samples={n_rows}): give at most as many as there are rows"
            )
        return int(self.n_components)

    def _kernel(self, X: Matrix) -> Kernel:
        gamma = self.gamma
        if gamma == "auto":
            gamma = 1.0 / X.shape[1]
        elif gamma == "scale":
            unused = callable(self.kernel) or self.kernel == "linear"
            gamma = 1.0 if unused else scale_gamma(X, np.ones(X.shape[0]))
        return Kernel(self.kernel, float(gamma), int(self.degree), float(self.coef0))

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


_RULES: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": (np.float64, np.float32),
}


def _root_of(kernel: Kernel, landmarks: Matrix) -> FloatArray:
    """Return the root W of the landmarks."""
    with threads_for_blas() if landmarks.shape[0] <= _QUIET_LANDMARKS else nullcontext():
        return _inverse_root(kernel(landmarks, landmarks), landmarks.dtype)


def _inverse_root(K: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """Return W with W W' = inv(K), over the eigenvalues of K that are more than rounding in the given type.

    That is U diag(s)^(-1/2), or an upper triangular matrix where all eigenvalues count.
    """
    K = 0.5 * (K + K.T)
    # In float32 the rounding of the features, not that of the eigenvalues, sets the limit.
    share = float(np.finfo(dtype).eps) * (K.shape[0] if dtype == np.float64 else 1)
    triangular = _triangular_root(K)
    if triangular is not None and _are_all_large(K, triangular, share):
        return triangular
    values, vectors = scipy.linalg.eigh(K)
    kept = values > share * float(np.abs(values).max())
    if not kept.any():
        raise ValueError(
            "the kernel matrix of the landmarks has no positive eigenvalue: choose another kernel"
        )
    if kept.all() and triangular is not None:
        return triangular
    return np.ascontiguousarray(vectors[:, kept] / np.sqrt(values[kept]))


def _triangular_root(K: FloatArray) -> FloatArray | None:
    """Return an upper triangular W with W W' = inv(K); None where K is not definite.

    Any root will do, and products with a triangular one take little more than half the time.
    """
    try:
        lower = scipy.linalg.cholesky(K, lower=True)
        inverse = scipy.linalg.solve_triangular(lower, np.eye(K.shape[0]), lower=True)
    except scipy.linalg.LinAlgError:
        return None
    return np.ascontiguousarray(inverse.T)


def _are_all_large(K: FloatArray, root: FloatArray, share: float) -> bool:
    """Return whether all eigenvalues are certainly above a share of the largest: they need not be computed.

    The largest one is at most |K|_F, and the least one at least 1 / |inv(K)|_F.
    """
    with np.errstate(all="ignore"):  # Squares beyond float64 tell nothing, and the eigenvalues are computed.
        size = float(np.linalg.norm(K)) * float(np.linalg.norm(product(root, root.T)))
    return _CLEARLY * share * size < 1.0


class _Map:
    """x -> k(x, landmarks) root, block by block; frozen, so that threads may share it."""

    def __init__(self, kernel: Kernel, landmarks: Matrix, root: np.ndarray[Any, Any]) -> None:
        self.kernel, self._landmarks = kernel, landmarks
        with np.errstate(over="ignore"):  # What is too large for rows in float32 may do for others.
            self._roots = {
                np.dtype(kind).name: root.astype(kind) for kind in (np.float64, np.float32)
            }  # By name: JSON has no other keys.
        self._is_triangular = root.shape[0] == root.shape[1] and not np.tril(root, -1).any()
        self._factors: dict[Any, np.ndarray[Any, Any]] = {}
        self._centre: np.ndarray[Any, Any] | None = None
        if kernel.function == "rbf" and not sp.issparse(landmarks):
            wide = np.asarray(landmarks, dtype=np.float64)
            self._centre = wide.mean(axis=0)
            scaled = np.sqrt(2.0 * kernel.gamma) * (wide - self._centre)
            half = -0.5 * np.einsum("ij,ij->i", scaled, scaled)
            right = np.vstack([scaled.T, np.ones_like(half), half])
            with np.errstate(over="ignore"):
                self._factors = {kind: right.astype(kind) for kind in self._roots}

    @property
    def root(self) -> np.ndarray[Any, Any]:
        """W, in double precision."""
        return self._roots["float64"]

    def __call__(self, X: Matrix) -> np.ndarray[Any, Any]:
        """Return the features of all rows."""
        dtype, rows = np.dtype(X.dtype), int(X.shape[0])
        root = self._roots[dtype.name]
        out = np.empty((rows, root.shape[1]), dtype=dtype)
        step = max(1, _BLOCK_BYTES // (dtype.itemsize * root.shape[0]))
        is_callable = callable(self.kernel.function)
        threads = 1 if is_callable or rows < _THREADED_ROWS else thread_count()

        def share(t: int, threads: int) -> None:
            buffer = np.empty((min(step, rows), root.shape[0]), dtype=dtype)
            for start in range(t * step, rows, threads * step):
                part = slice(start, min(start + step, rows))
                self._times_root(self._values(X[part], buffer[: part.stop - start]), root, out[part])

        on_threads(share, threads)
        return out

    def _times_root(
        self, values: np.ndarray[Any, Any], root: np.ndarray[Any, Any], out: np.ndarray[Any, Any]
    ) -> None:
        if not self._is_triangular:
            np.dot(values, root, out=out)
            return
        step = max(1, -(-root.shape[0] // _STRIPS))
        for start in range(0, root.shape[0], step):
            stop = min(start + step, root.shape[0])
            np.matmul(values[:, :stop], root[:stop, start:stop], out=out[:, start:stop])

    def _values(self, X: Matrix, out: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Write k(X, landmarks) into `out`; return it."""
        if self._centre is not None and not sp.issparse(X):
            scaled = np.sqrt(2.0 * self.kernel.gamma) * (X - self._centre)
            half = -0.5 * np.einsum("ij,ij->i", scaled, scaled)
            if out.dtype == np.float64 or -half.min() <= _SMALL_EXPONENT:
                left = np.column_stack([scaled, half, np.ones_like(half)]).astype(out.dtype, copy=False)
                np.dot(left, self._factors[out.dtype.name], out=out)
                np.minimum(out, 0.0, out=out)
                return np.exp(out, out=out)
        out[...] = self.kernel(X, self._landmarks)
        return out
