"""Sample weights, class weights, weights of zero: C_i = C * weight_i * class weight, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC
from support import problems

CLASSIFIERS = [LSSVC, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC]
ALL = [*CLASSIFIERS, LSSVR]
KERNELS = ["linear", "rbf", "poly", "laplacian"]
M = 21


def values(model, X):
    """Return what the model computes, before labels hide small differences."""
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def data(cls, classes=2):
    X = problems.rows(m=M)
    if cls is LSSVR:
        return X, 5.0 + np.sin(X[:, 0]) + X[:, 1]
    if classes == 2:
        return X, np.where(problems.signs(X) > 0, "spam", "ham")
    return X, np.array([7, 3, 5])[np.digitize(X[:, 0], [-0.4, 0.4])]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_whole_weights_are_repeated_rows(cls, classes, kernel, form):
    """gamma='scale', counts and, for the nonlinear proximal model, landmarks included."""
    X, y = data(cls, classes)
    weights = np.random.default_rng(0).integers(0, 4, M)
    weights[:3] = [0, 2, 3]
    weighted = cls(kernel=kernel, C=2.0, tol=1e-9).fit(form(X), y, sample_weight=weights)
    repeated = cls(kernel=kernel, C=2.0, tol=1e-9).fit(
        form(np.repeat(X, weights, axis=0)), np.repeat(y, weights)
    )
    np.testing.assert_allclose(values(weighted, form(X)), values(repeated, form(X)), rtol=0, atol=1e-8)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, rtol=0, atol=1e-8)
    if classes == 2:  # Of several classes it is that of the largest residual, whichever rounding makes so.
        assert weighted.certificate_.objective == pytest.approx(repeated.certificate_.objective, rel=1e-8)
    if kernel != "linear":
        assert weighted.gamma_ == pytest.approx(repeated.gamma_, rel=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
class TestWeightZero:
    """Held, but no part of the problem."""

    def test_equals_the_fit_without_those_rows(self, cls, kernel):
        X, y = data(cls)
        weights = np.ones(M)
        weights[::4] = 0.0
        X[0] = 1e6  # A row that would move gamma='scale' and everything else.
        model = cls(kernel=kernel).fit(X, y, sample_weight=weights)
        rest = cls(kernel=kernel).fit(X[weights > 0], y[weights > 0])
        np.testing.assert_allclose(values(model, X[1:]), values(rest, X[1:]), rtol=0, atol=1e-9)
        assert model.certificate_.residual == pytest.approx(rest.certificate_.residual, abs=1e-9)
        assert model.certificate_.objective == pytest.approx(rest.certificate_.objective, rel=1e-9)
        assert not set(model.support_) & set(np.flatnonzero(weights == 0))
        assert model.ids_.size == M

    def test_positions_are_those_among_all_rows(self, cls, kernel):
        X, y = data(cls)
        weights = np.ones(M)
        weights[:5] = 0.0
        model = cls(kernel=kernel).fit(X, y, sample_weight=weights)
        assert model.support_.min() >= 5
        np.testing.assert_array_equal(model.support_vectors_, X[model.support_])


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_weight_zero_with_a_precomputed_kernel(cls):
    """New rows still bring a column for each row held."""
    X, y = data(cls)
    K, new = problems.cauchy(X, X), problems.cauchy(problems.rows(m=6, seed=8), X)
    weights = np.ones(M)
    weights[::4] = 0.0
    keep = np.flatnonzero(weights)
    model = cls(kernel="precomputed").fit(K, y, sample_weight=weights)
    rest = cls(kernel="precomputed").fit(K[np.ix_(keep, keep)], y[keep])
    np.testing.assert_allclose(values(model, new), values(rest, new[:, keep]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("cls", CLASSIFIERS, ids=lambda cls: cls.__name__)
def test_a_class_of_weight_zero_is_no_class(cls):
    X, y = data(cls, 3)
    model = cls().fit(X, y, sample_weight=(y != 7).astype(float))
    assert model.classes_.tolist() == [3, 5]
    rest = cls().fit(X[y != 7], y[y != 7])
    np.testing.assert_allclose(model.decision_function(X), rest.decision_function(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("cls", CLASSIFIERS, ids=lambda cls: cls.__name__)
class TestClassWeight:
    def test_dict_is_a_sample_weight_by_label(self, cls, kernel):
        X, y = data(cls, 3)
        sample_weight = problems.weights_of("mixed", M)
        by_class = cls(kernel=kernel, class_weight={7: 4.0, 3: 0.25}).fit(X, y, sample_weight=sample_weight)
        factors = np.array([{7: 4.0, 3: 0.25}.get(label, 1.0) for label in y.tolist()])
        by_row = cls(kernel=kernel).fit(X, y, sample_weight=sample_weight * factors)
        np.testing.assert_allclose(by_class.decision_function(X), by_row.decision_function(X), atol=1e-9)
        assert by_class.class_weight_.tolist() == [0.25, 1.0, 4.0]

    def test_balanced_weighs_all_classes_alike(self, cls, kernel):
        X, y = data(cls, 3)
        sample_weight = problems.weights_of("mixed", M)
        balanced = cls(kernel=kernel, class_weight="balanced").fit(X, y, sample_weight=sample_weight)
        totals = {label: sample_weight[y == label].sum() for label in (3, 5, 7)}
        expected = [sum(totals.values()) / (3 * totals[label]) for label in (3, 5, 7)]
        np.testing.assert_allclose(balanced.class_weight_, expected, rtol=1e-12)
        factors = np.array([dict(zip((3, 5, 7), expected, strict=True))[label] for label in y.tolist()])
        by_row = cls(kernel=kernel).fit(X, y, sample_weight=sample_weight * factors)
        np.testing.assert_allclose(balanced.decision_function(X), by_row.decision_function(X), atol=1e-9)

    def test_string_labels(self, cls, kernel):
        X, y = data(cls)
        by_class = cls(kernel=kernel, class_weight={"spam": 3.0}).fit(X, y)
        by_row = cls(kernel=kernel).fit(X, y, sample_weight=np.where(y == "spam", 3.0, 1.0))
        np.testing.assert_allclose(by_class.decision_function(X), by_row.decision_function(X), atol=1e-9)
        assert by_class.class_weight_.tolist() == [1.0, 3.0]

    def test_a_class_weight_of_zero_leaves_the_class_out(self, cls, kernel):
        X, y = data(cls, 3)
        model = cls(kernel=kernel, class_weight={5: 0.0}).fit(X, y)
        assert model.classes_.tolist() == [3, 7]
        rest = cls(kernel=kernel).fit(X[y != 5], y[y != 5])
        np.testing.assert_allclose(model.decision_function(X), rest.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("cls", CLASSIFIERS, ids=lambda cls: cls.__name__)
def test_balanced_does_not_count_rows_of_weight_zero(cls):
    X, y = data(cls)
    weights = np.ones(M)
    weights[y == "ham"] = (np.arange((y == "ham").sum()) < 3).astype(float)
    model = cls(class_weight="balanced").fit(X, y, sample_weight=weights)
    rest = cls(class_weight="balanced").fit(X[weights > 0], y[weights > 0])
    np.testing.assert_allclose(model.class_weight_, rest.class_weight_, rtol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), rest.decision_function(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_a_scalar_weight_scales_c(cls):
    X, y = data(cls)
    # The weights of a nonlinear proximal model are those of its landmarks too, so they scale K W K' as well.
    kernel = "linear" if cls is ProximalSVC else "rbf"
    heavy, large = cls(kernel=kernel, C=1.0).fit(X, y, sample_weight=3.0), cls(kernel=kernel, C=3.0).fit(X, y)
    np.testing.assert_allclose(values(heavy, X), values(large, X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_weights_over_sixteen_orders_of_magnitude(cls, kernel):
    """A row of weight 1e-8 is all but absent, and one of 1e8 is all but interpolated."""
    X, y = data(cls)
    weights = np.ones(M)
    weights[3], weights[4] = 1e-8, 1e8
    model = cls(kernel=kernel, tol=1e-7).fit(X, y, sample_weight=weights)
    without = cls(kernel=kernel, tol=1e-7).fit(np.delete(X, 3, 0), np.delete(y, 3), np.delete(weights, 3))
    np.testing.assert_allclose(values(model, X), values(without, X), rtol=0, atol=1e-4)
    if cls is LSSVR:
        assert model.predict(X[[4]])[0] == pytest.approx(y[4], abs=1e-5)
    else:
        sign = 1.0 if y[4] == "spam" else -1.0
        assert sign * model.decision_function(X[[4]])[0] >= 1 - 1e-4
