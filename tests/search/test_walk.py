"""The default search on many rows: low-rank scores tell where to look, and what is chosen is exact."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

import squaresvm
from squaresvm import LSSVC, LSSVCCV, LSSVR, LSSVRCV
from squaresvm.kernels import Kernel
from squaresvm.search import walk
from squaresvm.search.grid import default_Cs
from squaresvm.search.paths import KernelPath
from squaresvm.search.walk import CellPath, can_be_low_rank, low_rank_path


def rows(m=120, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3))
    score = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=m)
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


@pytest.fixture
def walked(monkeypatch):
    """Have small rows searched as many are."""
    monkeypatch.setattr("squaresvm.search.searching.WALK_ROWS", 20)
    monkeypatch.setattr(walk, "_LANDMARKS", 40)


@pytest.mark.parametrize("free_bias", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_cells_are_the_same_as_by_the_decomposition(free_bias, weighted):
    X, y = rows()
    targets = np.where(y[:, None] == np.arange(2), 1.0, -1.0)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, 120) if weighted else np.ones(120)
    K = np.asfortranarray(Kernel("rbf", 0.5)(X, X))
    Cs = [1e-6, 0.1, 3.0, 1e4]
    by_cell = CellPath(K.copy(order="F"), targets, weights, free_bias=free_bias).left_out(Cs)
    by_path = KernelPath(K.copy(order="F"), targets, weights, free_bias=free_bias).left_out(Cs)
    for one, other in zip(by_cell, by_path, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8 * max(1.0, abs(other).max()))


def test_a_kernel_that_is_not_definite_has_no_values():
    K = np.asfortranarray(-np.eye(4))
    (found,) = CellPath(K, np.ones((4, 1)), np.ones(4), free_bias=True).left_out([10.0])
    assert found is None


def test_with_a_landmark_for_every_row_the_low_rank_values_are_exact():
    X, y = rows()
    targets, weights = np.where(y[:, None] > 0, 1.0, -1.0), np.random.default_rng(0).uniform(0.5, 2.0, 120)
    kernel = Kernel("rbf", 0.7)
    exact = CellPath(np.asfortranarray(kernel(X, X)), targets, weights, free_bias=True)
    coarse = low_rank_path(kernel, X, targets, weights, free_bias=True)
    for one, other in zip(exact.left_out([0.1, 10.0]), coarse.left_out([0.1, 10.0]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
def test_the_chosen_cell_is_exact_and_no_neighbour_is_better(walked, kernel):
    X, y = rows(classes=3)
    model = LSSVCCV(kernel=kernel).fit(X, y)
    results = model.cv_results_
    assert results["exact"][model.best_index_]
    assert results["rank_test_score"][model.best_index_] == 1
    assert 3 <= results["exact"].sum() < results["exact"].size
    assert len({tuple(cell.items()) for cell in results["params"]}) == results["exact"].size
    plain = LSSVC(kernel=kernel, **model.best_params_).fit(X, y)
    assert model.best_score_ == pytest.approx(plain.loo_score())
    for C in (model.C_ / np.sqrt(10), model.C_ * np.sqrt(10)):
        near = min(default_Cs(), key=lambda value, C=C: abs(np.log(value / C)))
        other = LSSVC(kernel=kernel, C=near, gamma=model.gamma_).fit(X, y)
        assert other.loo_score() <= model.best_score_ + 1e-12


def test_as_good_as_the_whole_grid_by_exact_values(walked):
    for X, y, make in (
        (*load_breast_cancer(return_X_y=True), LSSVCCV),
        (*load_diabetes(return_X_y=True), LSSVRCV),
    ):
        X, y = ((X - X.mean(axis=0)) / X.std(axis=0))[:200], y[:200]
        walked_to = make().fit(X, y)
        whole = make(Cs=default_Cs()).fit(X, y)
        assert whole.cv_results_["exact"].all()
        assert walked_to.best_score_ >= whole.best_score_ - 0.01


def test_files_keep_which_cells_were_exact(walked, tmp_path):
    X, y = rows()
    model = LSSVCCV().fit(X, y)
    squaresvm.save(model, tmp_path / "walked.model")
    loaded = squaresvm.load(tmp_path / "walked.model")
    np.testing.assert_array_equal(loaded.cv_results_["exact"], model.cv_results_["exact"])
    assert loaded.best_index_ == model.best_index_


def test_regression_and_weights_and_refinement(walked):
    X, _ = rows()
    y = np.sin(X[:, 0])
    weights = np.random.default_rng(3).uniform(0.5, 2.0, 120)
    weights[4] = 0.0
    model = LSSVRCV(refine=1).fit(X, y, sample_weight=weights)
    assert model.cv_results_["iter"].max() == 2
    assert model.cv_results_["exact"][model.best_index_]
    fresh = LSSVR(C=model.C_, gamma=model.gamma_).fit(X, y, sample_weight=weights)
    assert model.best_score_ == pytest.approx(fresh.loo_score(), abs=1e-9)


def test_beyond_the_rows_of_exact_cells_none_is_exact_and_the_model_is(walked, monkeypatch):
    monkeypatch.setattr(walk, "EXACT_ROWS", 100)
    monkeypatch.setattr(walk, "_SAMPLE", 80)
    X, y = rows()
    model = LSSVCCV().fit(X, y)
    assert not model.cv_results_["exact"].any()
    assert model.certificate_.residual <= model.tol
    assert model.score(X, y) > 0.9


def test_a_grid_of_the_caller_and_kernels_that_may_be_indefinite_stay_exact(walked):
    X, y = rows()
    assert LSSVCCV(Cs=[0.1, 1.0]).fit(X, y).cv_results_["exact"].all()
    assert LSSVCCV(gammas=[0.1, 1.0]).fit(X, y).cv_results_["exact"].all()
    assert not can_be_low_rank(Kernel("sigmoid", 0.1))
    assert not can_be_low_rank(Kernel("poly", 0.1, coef0=-1.0))
    assert not can_be_low_rank(None)


@pytest.mark.parametrize("n_jobs", [None, 1])
def test_beside_the_best_cell_only_a_smoother_one_is_left_to_landmarks(walked, n_jobs):
    X, y = rows(classes=3)
    results = LSSVCCV(n_jobs=n_jobs).fit(X, y).cv_results_
    best = int(np.flatnonzero(results["rank_test_score"] == 1)[0])
    Cs, gammas = (np.unique(results[f"param_{name}"].data) for name in ("C", "gamma"))
    C, gamma = (results["params"][best][name] for name in ("C", "gamma"))
    row, column = int(np.searchsorted(Cs, C)), int(np.searchsorted(gammas, gamma))
    exact = {
        tuple(cell.values()): bool(is_exact)
        for cell, is_exact in zip(results["params"], results["exact"], strict=True)
    }
    beside = [(i, column) for i in (row - 1, row + 1) if 0 <= i < Cs.size]
    beside += [(row, column + 1)] if column + 1 < gammas.size else []
    assert beside
    assert all(exact[Cs[i], gammas[j]] for i, j in beside)
