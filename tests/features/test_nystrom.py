"""Nystrom features: equal to the kernel with all rows as landmarks, and close to it with some."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, Nystrom
from squaresvm.kernels import Kernel
from squaresvm.landmarks import LANDMARKS
from squaresvm.runtime import resources
from support import forged, oracle, problems
from support.remains import Remains

KERNELS = {
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.7, "degree": 2, "coef0": 0.5},
    "laplacian": {"gamma": 0.2},
    "linear": {},
}


@parametrize_with_checks([Nystrom(), Nystrom(3, landmarks="leverage", kernel="laplacian")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("landmarks", LANDMARKS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["random", "duplicated", "constant"])
def test_all_rows_as_landmarks_give_the_kernel(landmarks, kernel, kind):
    X = problems.rows(kind, m=40)
    features = Nystrom(40, landmarks=landmarks, kernel=kernel, **KERNELS[kernel]).fit_transform(X)
    K = Kernel(kernel, **KERNELS[kernel])(X, X)
    assert features.shape[1] <= 40
    np.testing.assert_allclose(features @ features.T, K, rtol=0, atol=1e-10 * np.abs(K).max())


@pytest.mark.parametrize("cls", [LSSVC, RLSSVC, LSSVR])
@pytest.mark.parametrize("C", [0.1, 30.0])
def test_a_linear_model_of_all_landmarks_is_the_kernel_model(cls, C):
    X, new = problems.rows(m=60), problems.rows(m=25, seed=1)
    y = problems.signs(X) if cls is not LSSVR else X[:, 0] ** 2
    exact = cls(C=C, gamma=0.4, tol=1e-9).fit(X, y)
    model = make_pipeline(Nystrom(60, gamma=0.4), cls(C=C, kernel="linear", tol=1e-9)).fit(X, y)
    values = "predict" if cls is LSSVR else "decision_function"
    np.testing.assert_allclose(getattr(model, values)(new), getattr(exact, values)(new), atol=1e-6)


@pytest.mark.parametrize("landmarks", LANDMARKS)
def test_more_landmarks_come_closer(landmarks):
    X = problems.rows(m=300, n=2)
    K = Kernel("rbf", gamma=0.5)(X, X)
    errors = []
    for count in (5, 20, 80):
        Z = Nystrom(count, landmarks=landmarks, gamma=0.5, random_state=0).fit_transform(X)
        errors.append(np.linalg.norm(K - Z @ Z.T, 2))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_the_same_landmarks_give_the_same_kernel_as_scikit_learn():
    X, new = problems.rows(m=80), problems.rows(m=30, seed=1)
    peer = Nystroem(gamma=0.4, n_components=15, random_state=0).fit(X)
    model = Nystrom(15, gamma=0.4, random_state=0).fit(X)
    # Theirs are a permutation's first; the approximation depends on the landmarks alone.
    ours = Nystrom(15, gamma=0.4).fit(X[peer.component_indices_])
    theirs, own = peer.transform(new), ours.transform(new)
    np.testing.assert_allclose(own @ own.T, theirs @ theirs.T, atol=1e-9)
    assert np.unique(model.landmark_indices_).size == 15
    np.testing.assert_array_equal(model.landmarks_, X[model.landmark_indices_])


@pytest.mark.parametrize("landmarks", LANDMARKS)
def test_sparse_rows(landmarks):
    X = problems.rows(m=50)
    X[np.abs(X) < 0.7] = 0.0
    X[0, 0] = 1.0
    dense = Nystrom(12, landmarks=landmarks, gamma=0.4, random_state=3).fit(X)
    sparse = Nystrom(12, landmarks=landmarks, gamma=0.4, random_state=3).fit(sp.csr_matrix(X))
    a, b = dense.transform(X), sparse.transform(sp.csr_matrix(X))
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-8)
    mixed = sparse.transform(X)
    np.testing.assert_allclose(mixed, b, atol=1e-8)


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_float32_stays_float32_and_is_close(offset):
    """Features may turn with their eigenvectors; the kernel that they stand for may not."""
    X = problems.rows(m=200) + offset
    narrow = Nystrom(40, gamma=0.2, random_state=0).fit(X.astype(np.float32))
    wide = Nystrom(40, gamma=0.2, random_state=0).fit(X)
    Z, exact = narrow.transform(X.astype(np.float32)), wide.transform(X)
    assert Z.dtype == np.float32
    assert exact.dtype == np.float64
    K = Kernel("rbf", gamma=0.2)(X, X)
    error, reference = (np.linalg.norm(K - F.astype(float) @ F.T, 2) for F in (Z, exact))
    assert error < 1.5 * reference + 0.05


def test_leverage_sees_outliers_and_the_crowd():
    rng = np.random.default_rng(0)
    X = np.vstack([0.1 * rng.normal(size=(950, 5)), 2 * rng.normal(size=(50, 5)) + 4])
    for seed in range(5):
        chosen = Nystrom(40, landmarks="leverage", gamma=0.2, random_state=seed).fit(X).landmark_indices_
        # With equal chances two of forty would be outliers.
        assert 5 < (chosen >= 950).sum() < 40


def test_distant_rows_in_float32():
    """gamma |x|^2 of a million has no digit left in float32, and the kernel is one on the diagonal."""
    X = (1e3 * problems.rows(m=60)).astype(np.float32)
    Z = Nystrom(60, gamma=1.0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, np.eye(60), atol=1e-4)


def test_duplicates_and_a_single_row():
    X = np.repeat(problems.rows(m=6), 5, axis=0)
    for landmarks in LANDMARKS:
        model = Nystrom(20, landmarks=landmarks, gamma=0.4, random_state=0).fit(X)
        Z = model.transform(X)
        assert Z.shape[1] == len(model.get_feature_names_out()) <= 6
    assert Nystrom(1).fit_transform(X[:1]).shape == (1, 1)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("gamma", [1.0, 1e-1, 1e-2, 1e-3, 1e-4])
def test_features_are_as_many_as_eigenvalues_above_rounding(gamma, kind):
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(kind)
    features = Nystrom(40, gamma=gamma, random_state=0).fit(X)
    K = Kernel("rbf", gamma, 3, 0.0)(features.landmarks_, features.landmarks_)
    values = np.linalg.eigvalsh(0.5 * (K + K.T).astype(np.float64))
    limit = np.finfo(kind).eps * values.max() * (40 if kind == np.float64 else 1)
    # Near the limit it is the rounding of the eigenvalues that decides.
    sure, perhaps = np.count_nonzero(values > 2.0 * limit), np.count_nonzero(values > 0.5 * limit)
    assert sure <= features.transform(X[:1]).shape[1] <= perhaps


def test_blocks_and_threads_change_nothing(monkeypatch):
    X = problems.rows(m=9000)
    model = Nystrom(50, gamma=0.3, random_state=0).fit(X)
    whole = model.transform(X)
    monkeypatch.setattr("squaresvm.features.thread_count", lambda: 3)
    np.testing.assert_allclose(model.transform(X), whole, atol=1e-12)
    monkeypatch.setattr("squaresvm.features._BLOCK_BYTES", 8 * 50 * 7)
    np.testing.assert_allclose(model.transform(X[:5000]), whole[:5000], atol=1e-12)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(model.transform, np.array_split(X[:4000], 8)))
    np.testing.assert_allclose(np.vstack(parts), whole[:4000], atol=1e-12)
    assert resources.threads_for_blas._users == 0


def test_random_state_and_pickle():
    X = problems.rows(m=50)
    for landmarks in LANDMARKS:
        a = Nystrom(9, landmarks=landmarks, random_state=4).fit(X)
        b = Nystrom(9, landmarks=landmarks, random_state=4).fit(X)
        np.testing.assert_array_equal(a.landmark_indices_, b.landmark_indices_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a)).transform(X), a.transform(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 51}, "n_components=51 landmarks cannot be chosen out of 50 rows"),
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"landmarks": "random"}, "landmarks must be one of 'uniform', 'k-means"),
        ({"kernel": "precomputed"}, "computes kernel values from rows"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"kernel": lambda A, B: -np.ones((len(A), len(B)))}, "no positive eigenvalue"),
    ],
)
def test_bad_input(parameters, message):
    with pytest.raises(ValueError, match=message):
        Nystrom(**parameters).fit(problems.rows(m=50))


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("sparse", [False, True])
def test_forgotten_components_are_gone(kernel, sparse, tmp_path):
    """Features are those of the other landmarks, and no number of a forgotten row is left."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 4))
    rows = sp.csr_matrix(X) if sparse else X
    features = Nystrom(12, kernel=kernel, coef0=1.0, random_state=0).fit(rows)
    gone = features.landmark_indices_[[1, 5]]
    others = np.setdiff1d(np.arange(40), features.landmark_indices_)
    before = features.transform(rows)
    assert features.forget(others) == 0
    np.testing.assert_array_equal(features.transform(rows), before)
    assert features.forget([*gone, int(others[0])]) == 2
    assert not np.isin(gone, features.landmark_indices_).any()
    left = X[features.landmark_indices_]
    naive = oracle.kernel_matrix(kernel, X, left, features.gamma_, 3, 1.0)
    inverse = np.linalg.inv(oracle.kernel_matrix(kernel, left, left, features.gamma_, 3, 1.0))
    Z = features.transform(rows)
    np.testing.assert_allclose(
        Z @ Z.T, naive @ inverse @ naive.T, rtol=0, atol=1e-8 * np.abs(naive).max() ** 2
    )
    remains = Remains(features)
    assert not any(remains.number(value) for value in X[gone].ravel())
    squaresvm.save(features, tmp_path / "n.model")
    assert squaresvm.load(tmp_path / "n.model").transform(rows).tobytes() == Z.tobytes()
    with pytest.raises(ValueError, match="leave no landmark"):
        features.forget(range(40))
    with pytest.raises(ValueError, match="numbers of rows"):
        features.forget(["a"])
    assert features.transform(rows).tobytes() == Z.tobytes()


def test_files_with_the_older_name_of_n_components(tmp_path):
    X = problems.rows(m=50)
    model = Nystrom(n_components=7, random_state=0).fit(X)
    squaresvm.save(model, tmp_path / "new")
    header, body = forged.opened((tmp_path / "new").read_bytes())
    header["parameters"]["n_landmarks"] = header["parameters"].pop("n_components")
    (tmp_path / "old").write_bytes(forged.sealed(header, body))
    loaded = squaresvm.load(tmp_path / "old")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
