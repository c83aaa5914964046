"""Bad input, item by item: a clear error, and an estimator that stays as it was, bit for bit.

A clear error says what is wrong (the value), where (the argument), and what would be right.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC, Status
from support import problems

CLASSIFIERS = [LSSVC, RelaxedLSSVC, ProximalSVC, LagrangianSVC, RLSSVC]
ALL = [*CLASSIFIERS, LSSVR]
PENALISED = [RelaxedLSSVC, LagrangianSVC]
M = 20
X = problems.rows(m=M)
Y = problems.signs(X)
K = problems.cauchy(X, X)

every = pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
every_classifier = pytest.mark.parametrize("cls", CLASSIFIERS, ids=lambda cls: cls.__name__)


def refused(model, message, *args, error=ValueError, **kwargs):
    """Assert that fit raises, and that nothing at all has changed."""
    decisions = model.predict(X)  # First, because what is computed on demand is kept.
    before = pickle.dumps(model)
    with pytest.raises(error, match=message):
        model.fit(*args, **kwargs)
    assert pickle.dumps(model) == before
    assert np.array_equal(model.predict(X), decisions)
    assert model.n_features_in_ == 3


def fitted(cls, **parameters):
    """Return a model with a past, whose parameters have been changed since."""
    return cls(C=2.0).fit(X[:, :3], Y, ids=range(100, 100 + M)).set_params(**parameters)


def with_value(value, row=2, column=1):
    rows = X.copy()
    rows[row, column] = value
    return rows


@every
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (with_value(np.nan), "Input X contains NaN"),
        (sp.csr_matrix(with_value(np.nan)), "Input X contains NaN"),
        (with_value(np.inf), "Input X contains infinity"),
        (with_value(-np.inf), "Input X contains infinity"),
        (X[:, 0], "(?s)Expected 2D array, got 1D array.*Reshape"),
        (X[None], "Found array with dim 3, while dim <= 2 is required"),
        (X[:-1], r"inconsistent numbers of samples: \[19, 20\]"),
        (X[:, :0], r"0 feature\(s\) \(shape=\(20, 0\)\) while a minimum of 1 is required"),
        (np.full((M, 3), "red"), "could not convert string to float.*red"),
        (1j * X, "Complex data not supported"),
    ],
    ids=["nan", "nan-sparse", "inf", "-inf", "1d", "3d", "fewer-rows", "no-columns", "text", "complex"],
)
def test_rows(cls, rows, message):
    refused(fitted(cls), message, rows, Y)


@every
def test_empty(cls):
    refused(fitted(cls), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1", X[:0], Y[:0])


@every
@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.where(Y > 0, np.nan, 1.0), "Input y contains NaN"),
        (None, "requires y to be passed, but the target y is None"),
    ],
    ids=["nan", "none"],
)
def test_targets(cls, targets, message):
    refused(fitted(cls), message, X, targets)


@every_classifier
def test_several_targets(cls):
    message = r"y with several columns must say by 0 and 1 which labels each row has; y\[2, 0\] is -1.0"
    refused(fitted(cls), message, X, np.column_stack([Y, Y]))


@every_classifier
@pytest.mark.parametrize(
    ("rows", "labels", "weights", "message"),
    [
        (X, np.full(M, "a"), None, "at least two classes with positive weight; got one class, 'a'"),
        (X[:1], Y[:1], None, "at least two classes with positive weight; got one class"),
        (X, Y, (Y > 0).astype(float), "at least two classes with positive weight; got one class, 1.0"),
        (X, Y + 0.3, None, "Unknown label type: continuous"),
    ],
    ids=["one-class", "one-row", "one-class-by-weight", "continuous"],
)
def test_labels(cls, rows, labels, weights, message):
    refused(fitted(cls), message, rows, labels, sample_weight=weights)


@pytest.mark.parametrize("values", [np.full(M, "a"), np.full(M, np.inf)], ids=["text", "infinite"])
def test_values_of_regression(values):
    refused(fitted(LSSVR), "could not convert string to float|Input y contains infinity", X, values)


@every
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(M - 1), r"sample_weight.shape == \(19,\), expected \(20,\)"),
        (np.ones((M, 2)), "Sample weights must be 1D array or scalar, got 2D array"),
        (np.where(Y > 0, -1.0, 1.0), "Negative values in data passed to `sample_weight`"),
        (np.where(Y > 0, np.nan, 1.0), "Input sample_weight contains NaN"),
        (np.where(Y > 0, np.inf, 1.0), "Input sample_weight contains infinity"),
        (np.zeros(M), "at least one non-zero|all rows have weight zero"),
        (["heavy"] * M, "could not convert string to float: 'heavy'"),
    ],
    ids=["short", "2d", "negative", "nan", "inf", "all-zero", "text"],
)
def test_sample_weights(cls, weights, message):
    refused(fitted(cls), message, X, Y, sample_weight=weights)


@every_classifier
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("even", "class_weight must be a dict, 'balanced' or None; got 'even'"),
        ({1.0: -2.0}, r"class_weight\[1.0\] must be a finite number at least 0; got -2.0"),
        ({7: 2.0}, "class_weight names 7, which is not a label in y"),
        ({1.0: 0.0}, "at least two classes with positive weight; got one class, -1.0"),
    ],
    ids=["unknown-name", "negative", "unknown-label", "one-class-left"],
)
def test_class_weights(cls, weights, message):
    refused(fitted(cls, class_weight=weights), message, X, Y)


NOT_POSITIVE = [0, 0.0, -1.0, np.nan, np.inf, "1", None, True]


@every
@pytest.mark.parametrize("value", NOT_POSITIVE, ids=repr)
@pytest.mark.parametrize("name", ["C", "gamma", "tol"])
def test_numbers_that_must_be_positive(cls, name, value):
    kind = "a number" if isinstance(value, str) and name == "gamma" else "a finite number greater than 0"
    refused(fitted(cls, **{name: value}), f"{name} must be .*{kind}; got {value!r}", X, Y)


@pytest.mark.parametrize("value", NOT_POSITIVE, ids=repr)
@pytest.mark.parametrize("cls", PENALISED, ids=lambda cls: cls.__name__)
def test_penalty_of_the_bias(cls, value):
    refused(fitted(cls, A=value), f"A must be a finite number greater than 0; got {value!r}", X, Y)


OTHER_PARAMETERS = [
    ("kernel", "gauss", "kernel must be one of 'linear', 'rbf',.* or a callable; got 'gauss'"),
    ("kernel", None, "kernel must be one of .*got None"),
    ("kernel", np.eye(3), "kernel must be one of "),
    ("gamma", "size", "gamma must be 'scale', 'auto' or a number; got 'size'"),
    ("degree", -1, "degree must be an integer of at least 0; got -1"),
    ("degree", 2.5, "degree must be an integer of at least 0; got 2.5"),
    ("coef0", np.nan, "coef0 must be a finite number; got nan"),
    ("coef0", "1", "coef0 must be a finite number; got '1'"),
    ("max_iter", 0, "max_iter must be an integer of at least 1; got 0"),
    ("max_iter", 1.5, "max_iter must be an integer of at least 1; got 1.5"),
    ("fit_intercept", "no", "fit_intercept must be True or False; got 'no'"),
    ("verbose", -1, "verbose must be an integer of at least 0; got -1"),
    ("verbose", "much", "verbose must be an integer of at least 0; got 'much'"),
    ("random_state", "dice", "random_state|cannot be used to seed"),
    ("solver", "smo", "solver must be one of 'auto', 'direct', .*got 'smo'"),
    ("solver", 3, "solver must be a name or a solver object; got 3"),
]


@every
@pytest.mark.parametrize(
    ("name", "value", "message"),
    OTHER_PARAMETERS,
    ids=[f"{name}={repr(value)[:5]}" for name, value, _ in OTHER_PARAMETERS],
)
def test_other_parameters(cls, name, value, message):
    refused(fitted(cls, **{name: value}), message, X, Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"A": 2.0}, "augment=True fixes the penalty of the bias: A must be 1; got 2.0"),
        ({"kernel": "precomputed"}, "augment=True needs the rows.*precomputed"),
        ({"fit_intercept": False}, "augment=True .*fit_intercept must be True"),
        ({"augment": "yes"}, "augment must be True or False; got 'yes'"),
    ],
    ids=["A", "precomputed", "no-intercept", "no-flag"],
)
def test_augment(parameters, message):
    refused(fitted(LagrangianSVC, **{"augment": True, **parameters}), message, K, Y)


@every
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (range(M - 1), r"ids must name each of the 20 rows; got shape \(19,\)"),
        ([[i] for i in range(M)], r"ids must be hashable; ids\[0\] is \[0\]"),
        ("abc", "ids must be a sequence of ids"),
        ("index", "ids='index' takes the index of a pandas data frame, and X is of type ndarray"),
        ([np.nan, *range(M - 1)], r"ids must equal themselves; ids\[0\] is nan"),
    ],
    ids=["short", "unhashable", "one-string", "no-frame", "nan"],
)
def test_ids(cls, ids, message):
    refused(fitted(cls), message, X, Y, ids=ids)


def test_a_solver_that_does_not_fit():
    message = (
        "solver 'direct' solves the squared loss with any bias; this is the squared hinge with free bias"
    )
    refused(fitted(RLSSVC, solver="direct"), message + ".*Solvers that fit: 'cg', 'active-set'", X, Y)
    message = (
        "solver 'active-set' solves the squared hinge.*; this is the squared loss.*Solvers that fit: 'direct'"
    )
    refused(fitted(LSSVC, solver="active-set"), message, X, Y)
    refused(fitted(LSSVC, solver="newton"), "solver 'newton' solves linear models", X, Y)


class TestKernels:
    NOT_CONVEX = "not positive.*not convex: choose a positive semidefinite kernel, or a smaller C"

    @pytest.mark.parametrize("cls", [LSSVC, RelaxedLSSVC, LSSVR, RLSSVC, LagrangianSVC])
    @pytest.mark.parametrize(
        "parameters",
        [
            {"kernel": "sigmoid", "gamma": 5.0, "coef0": -1.0, "C": 100.0},
            {"kernel": lambda a, b: -(a @ b.T), "C": 100.0},
        ],
        ids=["sigmoid", "minus-linear"],
    )
    def test_not_positive_semidefinite(self, cls, parameters):
        model = cls(**parameters)
        with pytest.raises(ValueError, match=self.NOT_CONVEX):
            model.fit(X, Y)
        assert not hasattr(model, "certificate_")

    @every
    def test_not_positive_semidefinite_after_a_fit(self, cls):
        if cls is ProximalSVC:
            model = fitted(cls, kernel="sigmoid", gamma=5.0, coef0=-1.0, C=100.0).fit(X, Y)
            assert model.certificate_.status is Status.CONVERGED  # K W K' is semidefinite whatever K is.
            return
        refused(fitted(cls, kernel="sigmoid", gamma=5.0, coef0=-1.0, C=100.0), self.NOT_CONVEX, X, Y)

    @every
    def test_precomputed_and_negative(self, cls):
        if cls is ProximalSVC:
            return_value = cls(kernel="precomputed").fit(-K, Y)
            np.testing.assert_allclose(
                return_value.decision_function(-K), cls(kernel="precomputed").fit(K, Y).decision_function(K)
            )
            return
        refused(fitted(cls, kernel="precomputed", C=100.0), self.NOT_CONVEX, -K, Y)

    @every
    def test_precomputed_and_not_square(self, cls):
        message = r"precomputed kernel must be a square matrix of the training rows; got shape \(20, 3\)"
        refused(fitted(cls, kernel="precomputed"), message, X, Y)

    @every
    def test_precomputed_and_not_symmetric(self, cls):
        crooked = K.copy()
        crooked[2, 5] += 1.0
        message = r"precomputed kernel must be symmetric; K\[2, 5\] = .* but K\[5, 2\] = "
        refused(fitted(cls, kernel="precomputed"), message, crooked, Y)

    @every
    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (
                lambda a, b: np.ones((3, 3)),
                r"returned shape \(3, 3\) for \d+ and \d+ rows; it must return shape",
            ),
            (lambda a, b: np.full((len(a), len(b)), np.nan), "the callable kernel returned NaN or infinity"),
            (lambda a, b: "no numbers", "the callable kernel failed on rows of shape"),
            (lambda a: a, "the callable kernel failed on rows of shape .*takes 1 positional argument"),
            (lambda a, b: 1j * (a @ b.T), "the callable kernel .*complex"),
        ],
        ids=["shape", "nan", "text", "one-argument", "complex"],
    )
    def test_callables(self, cls, function, message):
        # A lambda cannot be pickled, so the past is compared without it.
        model = fitted(cls)
        decisions = model.predict(X)
        before = pickle.dumps(model)
        model.set_params(kernel=function)
        with pytest.raises(ValueError, match=message):
            model.fit(X, Y)
        model.set_params(kernel="rbf")
        assert pickle.dumps(model) == before
        assert np.array_equal(model.predict(X), decisions)

    @every
    @pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
    def test_whatever_a_callable_raises_leaves_the_model_alone(self, cls, error):
        def fail(a, b):
            raise error

        model = fitted(cls)
        before = pickle.dumps(model)
        model.set_params(kernel=fail)
        with pytest.raises(error):
            model.fit(X[:10, :2], Y[:10])
        assert pickle.dumps(model.set_params(kernel="rbf")) == before


@every
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_values_whose_kernel_overflows(cls, kernel):
    """Finite rows, infinite kernel values: to be told in words, not by warnings out of NumPy and NaNs."""
    model = fitted(cls, kernel=kernel, gamma=1.0)
    refused(model, "(?i)overflow|too large|infinit", with_value(1e200), Y)


@every
@pytest.mark.parametrize(("C", "weight"), [(1e300, 1e300), (1e-300, 1e-300)], ids=["overflow", "underflow"])
def test_c_times_weight_out_of_range(cls, C, weight):
    model = fitted(cls, C=C)
    refused(model, "C.*weight|weight.*C", X, Y, sample_weight=np.full(M, weight))


@every
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X[:, :2], "X has 2 features, but .* is expecting 3 features"),
        (with_value(np.nan), "Input X contains NaN"),
        (X[0], "Expected 2D array, got 1D array"),
        (X[:0], r"0 sample\(s\)"),
    ],
    ids=["columns", "nan", "1d", "empty"],
)
def test_rows_to_predict(cls, rows, message):
    model = fitted(cls)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.predict(rows)
    assert pickle.dumps(model) == before
