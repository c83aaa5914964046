"""The generators of artificial data: are they what their names and their papers say?"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from squaresvm.datasets import make_checkerboard, make_ndc, make_two_spirals, ndc_blocks

RANDOM = {
    "checkerboard": lambda seed: make_checkerboard(300, random_state=seed),
    "spirals": lambda seed: make_two_spirals(300, noise=0.1, random_state=seed),
    "ndc": lambda seed: make_ndc(300, 4, random_state=seed),
}


@pytest.fixture(params=RANDOM.values(), ids=RANDOM.keys())
def make(request):
    return request.param


def test_an_int_seed_repeats(make):
    X, y = make(3)
    again, again_y = make(3)
    assert np.array_equal(X, again)
    assert np.array_equal(y, again_y)
    assert not np.array_equal(X, make(4)[0])


@pytest.mark.parametrize("kind", [np.random.RandomState, np.random.default_rng])
def test_a_random_state_moves_on(make, kind):
    state = kind(0)
    first, second = make(state)[0], make(state)[0]
    assert not np.array_equal(first, second)
    assert np.array_equal(first, make(kind(0))[0])


def test_no_seed_differs_from_call_to_call(make):
    assert not np.array_equal(make(None)[0], make(None)[0])


def test_labels_are_signs(make):
    X, y = make(0)
    assert len(X) == len(y) == 300
    assert X.dtype == np.float64
    assert y.dtype == np.int64
    assert set(y) == {-1, 1}


@pytest.mark.parametrize("n_squares", [2, 3, 4, 7])
def test_checkerboard_colours(n_squares):
    X, y = make_checkerboard(5000, n_squares=n_squares, side=30.0, random_state=1)
    assert X.min() >= 0
    assert X.max() <= 30.0
    # sin(pi t) changes its sign at every integer t: the colour without counting squares.
    waves = np.sin(np.pi * n_squares / 30.0 * X).prod(axis=1)
    assert np.array_equal(y, np.sign(waves))


def test_checkerboard_is_uniform():
    X, y = make_checkerboard(40_000, random_state=2)
    counts, *_ = np.histogram2d(*X.T, bins=4, range=[[0, 200], [0, 200]])
    # Each square is binomial with mean 2500 and deviation 48; 16 squares stay within 4 deviations.
    assert np.abs(counts - 2500).max() < 4 * 48.4
    assert abs(np.mean(y)) < 0.02


def ls_svm(X, y, C, Z):
    """Return the decision values at Z of the LS-SVM with exp(-d^2), from its bordered system."""
    m = len(y)
    M = np.ones((m + 1, m + 1))
    M[:m, :m] = rbf_kernel(X, gamma=1.0) + np.eye(m) / C
    M[m, m] = 0.0
    solution = np.linalg.solve(M, np.append(y, 0.0))
    return rbf_kernel(Z, X, gamma=1.0) @ solution[:m] + solution[m]


@pytest.mark.parametrize("radius", [6.5, 10.0])
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_spirals_are_solved_by_an_ls_svm(radius, C):
    X, y = make_two_spirals(radius=radius)
    between, sides = make_two_spirals(2 * (10 * 179 + 1), radius=radius)
    assert np.all(y * ls_svm(X, y, C, X) > 0)
    assert np.all(sides * ls_svm(X, y, C, between) > 0)


def test_spirals_of_other_sizes_lie_on_the_same_curves():
    X, y = make_two_spirals()
    finer, finer_y = make_two_spirals(2 * (5 * 179 + 1))
    for label in (-1, 1):
        np.testing.assert_allclose(X[y == label], finer[finer_y == label][::5], atol=1e-12)


def test_spirals_shape():
    X, y = make_two_spirals(1001, turns=2.0, radius=5.0)
    assert (y == 1).sum() == 501
    arm = X[y == 1]
    r = np.hypot(*arm.T)
    np.testing.assert_allclose((r[0], r[-1]), (5.0 / 13, 5.0))
    angle = np.unwrap(np.arctan2(arm[:, 1], arm[:, 0]))
    np.testing.assert_allclose(angle[-1] - angle[0], 2 * np.pi * 2)
    assert np.allclose(np.diff(r, 2), 0)


def test_spirals_noise_has_the_given_size():
    clean, _ = make_two_spirals(20_000)
    noisy, _ = make_two_spirals(20_000, noise=0.3, random_state=0)
    assert np.std(noisy - clean) == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize("separability", [0.6, 0.7, 0.9, 0.99])
@pytest.mark.parametrize(("n_features", "n_centers"), [(10, 100), (3, 7), (30, 20)])
def test_ndc_share_is_separable(separability, n_features, n_centers):
    X, y = make_ndc(40_000, n_features, n_centers=n_centers, separability=separability, random_state=0)
    judge = LinearSVC(dual=False).fit(X[::2], y[::2])
    assert judge.score(X[1::2], y[1::2]) == pytest.approx(separability, abs=0.015)
    assert abs(np.mean(y)) < 0.02


def test_ndc_rows_are_normal_clusters_of_differing_spread():
    X, y = make_ndc(9_000, 30, n_centers=12, separability=0.9999, random_state=3)
    # In 30 dimensions a dozen nearly separable clusters are far apart, so that KMeans finds them.
    found = KMeans(12, n_init=10, random_state=0).fit_predict(X)
    spreads = []
    for k in range(12):
        assert np.ptp(y[found == k]) == 0
        Z = X[found == k] - X[found == k].mean(axis=0)
        spreads.append(Z.std())
        np.testing.assert_allclose(Z.std(axis=0), Z.std(), rtol=0.1)
        assert np.mean((Z / Z.std()) ** 4) == pytest.approx(3.0, abs=0.1)
    assert max(spreads) < 3.1 * min(spreads)
    assert max(spreads) > 1.5 * min(spreads)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("block_size", [999, 20_000, 40_000, 100_000])
def test_ndc_blocks_are_the_rows_of_make_ndc(dtype, block_size):
    n = 50_001
    X, y = make_ndc(n, 3, n_centers=11, dtype=dtype, random_state=5)
    blocks = list(ndc_blocks(n, 3, n_centers=11, dtype=dtype, block_size=block_size, random_state=5))
    assert [len(b) for b, _ in blocks[:-1]] == [block_size] * (n // block_size)
    assert all(b.dtype == dtype for b, _ in blocks)
    assert np.array_equal(np.concatenate([b for b, _ in blocks]), X)
    assert np.array_equal(np.concatenate([b for _, b in blocks]), y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_checkerboard(0), "n_samples must be an integer of at least 1"),
        (lambda: make_checkerboard(10.0), "n_samples must be an integer of at least 1; got 10.0"),
        (lambda: make_checkerboard(True), "n_samples must be an integer of at least 1; got True"),
        (lambda: make_checkerboard(n_squares=1), "n_squares must be an integer of at least 2"),
        (lambda: make_checkerboard(side=0), "side must be a finite number greater than 0; got 0"),
        (lambda: make_checkerboard(side=np.nan), "side .* got nan"),
        (lambda: make_checkerboard(side=np.inf), "side .* got inf"),
        (lambda: make_checkerboard(side="9"), "side must be a finite number greater than 0; got '9'"),
        (lambda: make_checkerboard(random_state="x"), "cannot be used to seed"),
        (lambda: make_two_spirals(1), "n_samples must be an integer of at least 2"),
        (lambda: make_two_spirals(turns=-1), "turns must be .* greater than 0; got -1"),
        (lambda: make_two_spirals(radius=0.0), "radius must be .* greater than 0; got 0.0"),
        (lambda: make_two_spirals(noise=-0.1), "noise must be a finite number at least 0; got -0.1"),
        (lambda: make_ndc(0), "n_samples must be an integer of at least 1"),
        (lambda: make_ndc(10, 0), "n_features must be an integer of at least 1"),
        (lambda: make_ndc(10, n_centers=1), "n_centers must be an integer of at least 2"),
        (
            lambda: make_ndc(10, separability=0.5),
            "between 0.5 and 1, both excluded; got 0.5",
        ),
        (
            lambda: make_ndc(10, separability=1),
            "between 0.5 and 1, both excluded; got 1",
        ),
        (lambda: make_ndc(10, dtype=int), "dtype must be float64 or float32"),
        (lambda: ndc_blocks(10, block_size=0), "block_size must be an integer of at least 1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
