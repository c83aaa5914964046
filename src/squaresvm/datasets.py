"""Generators of the artificial data sets of the papers: checkerboard, two spirals, NDC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize
from scipy.special import ndtr
from sklearn.utils import check_random_state

from squaresvm.runtime.arguments import check_between, check_integer, check_positive

__all__ = ["make_checkerboard", "make_ndc", "make_two_spirals", "ndc_blocks"]

Labels: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = npt.NDArray[np.floating[Any]]
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None

# Rows made at a time: large enough to be fast, small enough for the temporaries to stay in cache.
_CHUNK = 1 << 14


def make_checkerboard(
    n_samples: int = 1000,
    *,
    n_squares: int = 4,
    side: float = 200.0,
    random_state: RandomState = None,
) -> tuple[npt.NDArray[np.float64], Labels]:
    """Draw points from a checkerboard, labelled by the colour of their square.

    The defaults are those of the LSVM paper: 1000 points, 4 x 4 squares, a board of 200 x 200.
    Fresh points to test on come from another call with another seed.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of points, uniform on the board.
    n_squares : int, default=4
        Squares along each side; at least 2.
    side : float, default=200.0
        Length of the board's side. One corner is the origin.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness, as in scikit-learn.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The points.
    y : ndarray of shape (n_samples,)
        Labels -1 and +1; the square at the origin is +1.

    Examples
    --------
    >>> from squaresvm.datasets import make_checkerboard
    >>> X, y = make_checkerboard(random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 2), [-1, 1])
    """
    n_samples = check_integer("n_samples", n_samples, 1)
    n_squares = check_integer("n_squares", n_squares, 2)
    side = check_positive("side", side)
    unit = _generator(random_state).random((n_samples, 2))
    column, row = np.floor(unit * n_squares).astype(np.int64).T
    return unit * side, _labels((column + row) % 2 == 0)


def make_two_spirals(
    n_samples: int = 360,
    *,
    turns: float = 3.0,
    radius: float = 6.5,
    noise: float = 0.0,
    random_state: RandomState = None,
) -> tuple[npt.NDArray[np.float64], Labels]:
    """Place points on two intertwined spirals, one for each class.

    The points stand at equal angles from the inner to the outer end. More points on the same curves
    come from a larger `n_samples`: ``2 * (k * 179 + 1)`` are the default 360 points and k - 1 more
    between any two neighbours.

    Parameters
    ----------
    n_samples : int, default=360
        Number of points on both spirals together; where it is odd, class +1 has one more.
    turns : float, default=3.0
        Full turns of each spiral.
    radius : float, default=6.5
        Distance of the outer ends from the origin; the inner ends are at 1/13 of it. At the default
        the arms are 1 apart, which a kernel exp(-d^2) resolves at C = 1; at a radius of 5 it no
        longer does.
    noise : float, default=0.0
        Standard deviation of normal noise on each coordinate.
    random_state : int, RandomState, Generator or None, default=None
        Source of the noise, as in scikit-learn. Without noise nothing is random.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The points, the classes in turn.
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Examples
    --------
    >>> from squaresvm.datasets import make_two_spirals
    >>> X, y = make_two_spirals()
    >>> X.shape, int((y == 1).sum())
    ((360, 2), 180)
    """
    n_samples = check_integer("n_samples", n_samples, 2)
    turns = check_positive("turns", turns)
    radius = check_positive("radius", radius)
    noise = check_positive("noise", noise, zero=True)

    sign = np.where(np.arange(n_samples) % 2 == 0, 1, -1)
    t = np.empty(n_samples)  # 0 at the inner end, 1 at the outer
    t[0::2] = np.linspace(0.0, 1.0, (n_samples + 1) // 2)
    t[1::2] = np.linspace(0.0, 1.0, n_samples // 2)
    angle = 2 * np.pi * turns * t
    # The second spiral is the first turned by half a turn, that is, its mirror image in the origin.
    r = sign * radius * (1 + 12 * t) / 13
    X = np.column_stack((r * np.cos(angle), r * np.sin(angle)))
    if noise:
        X += noise * _generator(random_state).standard_normal(X.shape)
    return X, _labels(sign > 0)


def make_ndc(
    n_samples: int,
    n_features: int = 10,
    *,
    n_centers: int = 100,
    separability: float = 0.7,
    dtype: npt.DTypeLike = np.float64,
    random_state: RandomState = None,
) -> tuple[Rows, Labels]:
    """Draw normally distributed clusters (NDC), of which a given share is linearly separable.

    Centres are uniform in a box and labelled by a random hyperplane that halves them. A row is of
    either class with equal chance, belongs to one of its centres, and lies around it with a normal
    deviation whose size differs from centre to centre. The larger these sizes, the more rows end up
    on the wrong side.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    n_features : int, default=10
        Number of columns.
    n_centers : int, default=100
        Number of clusters; at least 2.
    separability : float, default=0.7
        Share of the distribution that a linear classifier of least squared hinge loss gets right,
        between 0.5 and 1, both excluded. Fitted to few rows it does better on those rows.
    dtype : {float64, float32}, default=float64
        Type of `X`.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness, as in scikit-learn. It decides the clusters as well as the rows: for a
        test set, draw more rows and split them.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    See Also
    --------
    ndc_blocks : The same rows, block by block.

    Examples
    --------
    >>> from squaresvm.datasets import make_ndc
    >>> X, y = make_ndc(500, 5, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((500, 5), [-1, 1])
    """
    blocks = ndc_blocks(
        n_samples,
        n_features,
        block_size=n_samples,
        n_centers=n_centers,
        separability=separability,
        dtype=dtype,
        random_state=random_state,
    )
    return next(blocks)


def ndc_blocks(
    n_samples: int,
    n_features: int = 10,
    *,
    block_size: int = 100_000,
    n_centers: int = 100,
    separability: float = 0.7,
    dtype: npt.DTypeLike = np.float64,
    random_state: RandomState = None,
) -> Iterator[tuple[Rows, Labels]]:
    """Draw the rows of `make_ndc` block by block, for data that do not fit in memory.

    The rows depend on the seed and not on `block_size`: the blocks one below the other are what
    `make_ndc` returns for the same seed.

    Parameters
    ----------
    n_samples : int
        Number of rows in all.
    n_features : int, default=10
        Number of columns.
    block_size : int, default=100_000
        Rows a block; the last may have fewer.
    n_centers, separability, dtype, random_state
        As in `make_ndc`.

    Yields
    ------
    X : ndarray of shape (rows of the block, n_features)
        The rows, newly allocated for each block.
    y : ndarray of shape (rows of the block,)
        Labels -1 and +1.

    See Also
    --------
    make_ndc : All rows at once.

    Examples
    --------
    >>> from squaresvm.datasets import ndc_blocks
    >>> [X.shape for X, y in ndc_blocks(250, 3, block_size=100, random_state=0)]
    [(100, 3), (100, 3), (50, 3)]
    """
    n_samples = check_integer("n_samples", n_samples, 1)
    n_features = check_integer("n_features", n_features, 1)
    block_size = check_integer("block_size", block_size, 1)
    n_centers = check_integer("n_centers", n_centers, 2)
    separability = check_between("separability", separability, 0.5, 1.0)
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {np.dtype(dtype)}.")
    random = _generator(random_state)
    clusters = _Clusters.draw(n_features, n_centers, separability, random).astype(np.dtype(dtype))
    # A generator of its own, so that bad input is reported by the call and not at the first block.
    return _blocks(clusters, n_samples, block_size, *random.spawn(2))


def _blocks(
    clusters: _Clusters,
    n_samples: int,
    block_size: int,
    picks: np.random.Generator,
    noise: np.random.Generator,
) -> Iterator[tuple[Rows, Labels]]:
    # Two streams, each read in the order of the rows: so the rows do not depend on the blocks.
    n_centers, n_features = clusters.centers.shape
    for start in range(0, n_samples, block_size):
        size = min(block_size, n_samples - start)
        X = np.empty((size, n_features), clusters.centers.dtype)
        y = np.empty(size, np.int64)
        for low in range(0, size, _CHUNK):
            part = X[low : low + _CHUNK]
            center = picks.choice(n_centers, size=len(part), p=clusters.weights)
            noise.standard_normal(out=part, dtype=part.dtype.type)
            part *= clusters.spreads[center, None]
            part += clusters.centers[center]
            y[low : low + _CHUNK] = clusters.labels[center]
        yield X, y


@dataclass(frozen=True)
class _Clusters:
    """Where the clusters are, how wide, of which class, and how likely."""

    centers: Rows
    spreads: Rows
    labels: Labels
    weights: npt.NDArray[np.float64]

    @classmethod
    def draw(
        cls, n_features: int, n_centers: int, separability: float, random: np.random.Generator
    ) -> _Clusters:
        centers = random.uniform(-1.0, 1.0, (n_centers, n_features))
        normal = random.standard_normal(n_features)
        height = centers @ normal
        # Half-way between the two centres in the middle: no centre lies on the hyperplane.
        middle = n_centers // 2
        offset = np.sort(height)[middle - 1 : middle + 1].mean()
        labels = _labels(height > offset)
        weights = 0.5 / np.where(labels > 0, n_centers - middle, middle)
        clusters = cls(centers, random.uniform(0.5, 1.5, n_centers), labels, weights)
        factor = _spread(clusters, normal, offset, separability)
        return replace(clusters, spreads=clusters.spreads * factor)

    def astype(self, dtype: np.dtype[Any]) -> _Clusters:
        centers, spreads = self.centers.astype(dtype), self.spreads.astype(dtype)
        return replace(self, centers=centers, spreads=spreads)


def _spread(clusters: _Clusters, normal: Rows, offset: float, separability: float) -> float:
    """Return the factor on the spreads at which the share `separability` is linearly separable.

    That is the share which the linear classifier of least expected squared hinge loss gets right.
    No sample is needed: within a cluster 1 - y f(x) is normal, so loss and share are sums over
    clusters.
    """
    weights, sign = clusters.weights, clusters.labels
    # Principal axes of the centres, in which the covariance of the rows is diagonal at any factor.
    # The weighted mean of the labels is zero, so the least-squares fit passes through the mean.
    mean, root = weights @ clusters.centers, np.sqrt(weights)[:, None]
    U, sv, Vt = np.linalg.svd(root * (clusters.centers - mean), full_matrices=False)
    Z = U * sv / root
    generating = np.append(Vt @ normal, mean @ normal - offset)
    generating /= np.min(sign * (Z @ generating[:-1] + generating[-1]))

    def loss(plane: Rows, sigma: Rows) -> tuple[float, Rows]:
        w, norm = plane[:-1], np.linalg.norm(plane[:-1])
        u, tau = 1.0 - sign * (Z @ w + plane[-1]), sigma * norm  # mean, deviation of 1 - y f(x)
        tail, density = ndtr(u / tau), np.exp(-0.5 * (u / tau) ** 2) / np.sqrt(2 * np.pi)
        value = weights @ ((u**2 + tau**2) * tail + u * tau * density)
        by_u = -2.0 * weights * sign * (u * tail + tau * density)
        by_norm = 2.0 * weights @ (tau * tail * sigma)
        return float(value), np.append(Z.T @ by_u + by_norm * w / norm, by_u.sum())

    def excess(log_factor: float) -> float:
        sigma = np.exp(log_factor) * clusters.spreads
        fitted = np.append(Z.T @ (weights * sign) / (sv**2 + weights @ sigma**2), 0.0)
        # The first is near the optimum where clusters are small, the second where they are wide.
        start = min(generating, fitted, key=lambda plane: loss(plane, sigma)[0])
        plane = minimize(loss, start, (sigma,), "L-BFGS-B", jac=True).x
        d = (Z @ plane[:-1] + plane[-1]) / np.linalg.norm(plane[:-1])
        return float(weights @ ndtr(sign * d / sigma)) - separability

    return float(np.exp(brentq(excess, np.log(1e-9), np.log(1e9), xtol=1e-6)))


def _labels(positive: npt.NDArray[np.bool_]) -> Labels:
    return np.where(positive, 1, -1).astype(np.int64)


def _generator(random_state: RandomState) -> np.random.Generator:
    # A Generator draws normal numbers much faster than a RandomState and splits into streams.
    # Seeding it from a draw advances the caller's state, so that a second call gives other data.
    if isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state.integers(2**32, size=4))
    draws = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(draws)
