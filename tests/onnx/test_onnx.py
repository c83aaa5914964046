"""Graphs of `to_onnx`, run by onnxruntime, against the models that they came from."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import onnx
from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, Nystrom, ProximalSVC, RelaxedLSSVC, Window, to_onnx
from squaresvm.onnx import graphs as export
from squaresvm.streaming import ArraySource

CLASSIFIERS = [
    LSSVC(C=3.0),
    RelaxedLSSVC(C=3.0, A=0.3),
    ProximalSVC(C=3.0),
    LagrangianSVC(C=3.0, A=0.3),
    LagrangianSVC(C=3.0, augment=True),
    RLSSVC(C=3.0, fit_intercept=False),
]
KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf", "gamma": 0.7},
    "poly": {"kernel": "poly", "gamma": 0.4, "degree": 2, "coef0": 0.6},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.02, "coef0": 0.1},
    "laplacian": {"kernel": "laplacian", "gamma": 0.4},
}


def data(classes=2, m=70, n=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=m)
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


def run(graph, X):
    """Return the outputs by name, as onnxruntime computes them."""
    onnx.checker.check_model(graph, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def assert_agrees(model, X, **options):
    kind = np.dtype(options.get("dtype", np.float64))
    X = X.astype(kind)
    found = run(to_onnx(model, **options), X)
    assert list(found) == ["label", "decision", "probabilities"]
    np.testing.assert_array_equal(found["label"], model.predict(X))
    np.testing.assert_allclose(found["decision"], model.decision_function(X), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), rtol=0, atol=1e-5)
    assert found["decision"].dtype == found["probabilities"].dtype == kind
    best = found["probabilities"].argmax(axis=1)
    np.testing.assert_array_equal(model.classes_[best], found["label"])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "estimator", CLASSIFIERS, ids=lambda e: f"{type(e).__name__}-{getattr(e, 'augment', '')}"
)
def test_every_classifier_agrees(estimator, kernel, classes):
    X, y = data(classes)
    model = type(estimator)(**{**estimator.get_params(), **KERNELS[kernel]}).fit(X, y)
    assert_agrees(model, data(seed=1)[0], dtype=np.float32 if classes == 2 else np.float64)


@pytest.mark.parametrize("dtype", [np.float32, "float64"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_regression_agrees(kernel, dtype):
    X, _ = data()
    model = LSSVR(C=20.0, **KERNELS[kernel]).fit(X, 100.0 + X[:, 0] * X[:, 1])
    new = data(seed=1)[0].astype(dtype)
    found = run(to_onnx(model, dtype=dtype), new)
    assert list(found) == ["value"]
    assert found["value"].dtype == dtype
    np.testing.assert_allclose(
        found["value"], model.predict(new), rtol=1e-6 if dtype == np.float32 else 1e-11
    )


@pytest.mark.parametrize("C", [1e-6, 1e8])
def test_double_precision_is_kept_for_any_C(C):
    X, y = data(3)
    model = LSSVC(C=C, gamma=0.5).fit(X, y)
    new = data(seed=1)[0]
    decision = model.decision_function(new)
    found = run(to_onnx(model), new)["decision"]
    # Multipliers may be many times larger than f, and both sums round.
    scale = np.abs(model.dual_coef_).sum()
    assert np.abs(found - decision).max() <= 1e-13 * max(scale, 1.0)


@pytest.mark.parametrize(
    "names",
    [
        np.array(["no", "yes"]),
        np.array(["grün", "rot", "żółty"], dtype=object),
        np.array([False, True]),
        np.array([-1.0, 1.0]),
        np.array([3, 200, 255], dtype=np.uint8),
    ],
    ids=["strings", "unicode", "booleans", "floats", "bytes"],
)
def test_labels_of_every_type(names):
    X, y = data(len(names))
    model = LSSVC().fit(X, names[y])
    found = run(to_onnx(model), X)["label"]
    assert found.tolist() == model.predict(X).tolist()


def test_labels_without_a_type_in_onnx():
    X, y = data()
    model = LSSVC().fit(X, np.array([1, 2**64 - 1], dtype=np.uint64)[y])
    with pytest.raises(ValueError, match="labels such as 1 have no type in ONNX"):
        to_onnx(model)


@pytest.mark.parametrize("estimator", [LSSVC, RLSSVC])
@pytest.mark.parametrize("classes", [2, 4])
def test_models_fitted_from_a_stream(estimator, classes):
    X, y = data(classes)
    model = estimator(kernel="linear", C=2.0).fit(ArraySource(X, y, block_rows=16))
    assert_agrees(model, data(seed=1)[0])


def test_regression_from_a_stream():
    X, _ = data()
    model = LSSVR(kernel="linear").fit(ArraySource(X, X @ np.arange(4.0)))
    np.testing.assert_allclose(run(to_onnx(model), X)["value"], model.predict(X), rtol=1e-12)


def test_without_calibration_there_are_no_probabilities_and_it_says_so():
    X, y = data()
    model = LSSVC(kernel="linear").fit(ArraySource(X, y)).learn(X[:5], y[:5])
    with pytest.warns(UserWarning, match="no probabilities: calibrating probabilities anew needs the rows"):
        graph = to_onnx(model)
    found = run(graph, X)
    assert list(found) == ["label", "decision"]
    np.testing.assert_array_equal(found["label"], model.predict(X))


def test_after_learning_and_forgetting_only_what_is_held_is_in_the_graph():
    X, y = data(3)
    X[7] = 123.456
    model = LSSVC(gamma=0.2).fit(X[:50], y[:50]).learn(X[50:], y[50:])
    entry = np.float64(2.0 * 123.456).tobytes()  # The graph has 2 Z'.
    assert entry in to_onnx(model).SerializeToString()
    model.forget([7])
    assert entry not in to_onnx(model).SerializeToString()
    assert_agrees(model, data(seed=1)[0])


def test_rows_without_coefficients_are_left_out():
    X, y = data()
    weights = np.ones(len(y))
    weights[:3] = 0.0
    model = RLSSVC(C=10.0, gamma=0.3).fit(X, y, weights)
    assert model.support_.size < len(y) - 3
    graph = to_onnx(model).graph
    held = [tuple(array.dims) for array in graph.initializer]
    assert (4, model.support_.size) in held
    assert not any(len(y) in shape for shape in held)
    assert_agrees(model, data(seed=1)[0])


def test_no_support_rows_at_all():
    X = data()[0]
    model = LSSVR(gamma=0.5).fit(X, np.full(len(X), 2.5))
    assert model.support_.size == 0
    np.testing.assert_allclose(run(to_onnx(model), X)["value"], 2.5, rtol=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_sparse_rows_and_a_single_new_one(kernel):
    X, y = data()
    X[np.abs(X) < 0.7] = 0.0
    model = LSSVC(**KERNELS[kernel]).fit(sp.csr_matrix(X), y)
    assert_agrees(model, X)
    assert_agrees(model, X[:1])
    assert run(to_onnx(model), X[:0])["probabilities"].shape == (0, 2)


def test_one_column_and_two_rows():
    model = LSSVC(kernel="laplacian").fit([[0.0], [1.0]], ["a", "b"])
    assert_agrees(model, np.array([[0.1], [0.6], [3.0]]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_largest_probability_is_that_of_the_label_at_ties(classes, dtype):
    # On and beside the boundary, where rounding hides the lead beside 1/2.
    X = np.array([[-1.0], [1.0], [0.0]][:classes]).repeat(3, axis=0) + np.tile(
        [[-0.1], [0.0], [0.1]], (classes, 1)
    )
    y = np.arange(classes).repeat(3)
    model = LSSVC(kernel="linear").fit(X, y)
    root = -model.intercept_[0] / model.coef_[0, 0] if classes == 2 else 0.5
    new = (root + np.linspace(-1, 1, 41)[:, None] * 10.0 ** np.arange(-20, -3)).reshape(-1, 1).astype(dtype)
    found = run(to_onnx(model, dtype=dtype), new)
    np.testing.assert_array_equal(found["probabilities"].argmax(axis=1), found["label"])


def test_names_and_versions():
    pandas = pytest.importorskip("pandas")
    X, y = data()
    model = LSSVC().fit(pandas.DataFrame(X, columns=["a", "b", "c", "ä"]), y)
    graph = to_onnx(model)
    assert [(entry.domain, entry.version) for entry in graph.opset_import] == [("", 17)]
    assert graph.producer_name == "squaresvm"
    assert {entry.key: entry.value for entry in graph.metadata_props} == {
        "feature_names": '["a", "b", "c", "\\u00e4"]'
    }
    assert all(node.domain == "" for node in graph.graph.node)


def test_exporting_changes_nothing():
    X, y = data(3)
    model = RLSSVC().fit(X, y)
    model.predict_proba(X)
    before = pickle.dumps(model)
    to_onnx(model)
    assert pickle.dumps(model) == before


# Bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("precomputed", "a precomputed kernel has no formula"),
        (lambda X, Z: X @ Z.T, "a callable kernel is Python"),
    ],
    ids=["precomputed", "callable"],
)
def test_kernels_without_operators(kernel, message, tmp_path):
    X, y = data()
    model = LSSVC(kernel=kernel).fit(X @ X.T if kernel == "precomputed" else X, y)
    with pytest.raises(ValueError, match=message):
        to_onnx(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_fitted_estimator():
    X, y = data()
    with pytest.raises(NotFittedError):
        to_onnx(LSSVC())
    with pytest.raises(TypeError, match="got PCA"):
        to_onnx(make_pipeline(StandardScaler(), PCA()).fit(X, y))
    window = Window(LSSVC(), size=60).fit(X, y)
    with pytest.raises(TypeError, match="got Window"):
        to_onnx(window)
    assert_agrees(window.estimator_, X)


@pytest.mark.parametrize("dtype", ["float16", int, "rubbish", object()])
def test_other_types(dtype):
    X, y = data()
    with pytest.raises(ValueError, match="dtype must be 'float64' or 'float32'"):
        to_onnx(LSSVC().fit(X, y), dtype=dtype)


def test_more_than_a_file_can_hold(monkeypatch):
    X, y = data()
    model = LSSVC().fit(X, y)
    monkeypatch.setattr(export, "_MOST_BYTES", 8 * 70 * 5 - 1)
    with pytest.raises(ValueError, match="70 support rows of 4 columns are more than the 2 GiB"):
        to_onnx(model)
    monkeypatch.setattr(export, "_MOST_BYTES", 8 * 70 * 5)
    to_onnx(model)


def test_without_the_package(monkeypatch):
    X, y = data()
    model = LSSVC().fit(X, y)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install '.*\[onnx\]'"):
        to_onnx(model)


def test_importing_the_package_imports_none_of_it():
    code = (
        "import sys, squaresvm, squaresvm.estimators; "
        "assert not {'onnx', 'onnxruntime', 'matplotlib'} & set(sys.modules), 'imported'; "
        "assert 'to_onnx' in dir(squaresvm); squaresvm.to_onnx; "
        "assert 'onnx' not in sys.modules; "
        "assert not hasattr(squaresvm, 'to_rubbish')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# The file --------------------------------------------------------------------------------------------------


def test_the_file_is_the_graph(tmp_path):
    X, y = data()
    model = LSSVC().fit(X, y)
    path = tmp_path / "model.onnx"
    graph = to_onnx(model, path)
    assert path.read_bytes() == graph.SerializeToString()
    assert list(tmp_path.iterdir()) == [path]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    path.chmod(0o640)
    to_onnx(model.forget([3]) and model, str(path))
    assert path.stat().st_mode & 0o777 == 0o640
    assert run(onnx.load(path), X)["label"].tolist() == model.predict(X).tolist()


def test_a_write_that_fails_leaves_the_former_file(tmp_path, monkeypatch):
    X, y = data()
    path = tmp_path / "model.onnx"
    path.write_bytes(b"former")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        to_onnx(LSSVC().fit(X, y), path)
    assert path.read_bytes() == b"former"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("where", ["", "missing/model.onnx"])
def test_paths_that_are_no_file(tmp_path, where):
    X, y = data()
    with pytest.raises(ValueError, match="must be a file in a folder that exists"):
        to_onnx(LSSVC().fit(X, y), tmp_path / where)


# Pipelines ---------------------------------------------------------------------------------------------

STEPS = [
    FeatureUnion([("a", StandardScaler()), ("b", MinMaxScaler())]),
    FunctionTransformer(),
    MaxAbsScaler(),
    MinMaxScaler(),
    Normalizer(),
    Nystrom(12, random_state=0),
    OrdinalEncoder(),
    PCA(2, random_state=0),
    QuantileTransformer(n_quantiles=10),
    RobustScaler(),
    StandardScaler(),
    VarianceThreshold(),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
@pytest.mark.parametrize(
    "model", [LSSVC(C=2.0, gamma=0.3), LSSVR(kernel="linear")], ids=lambda m: type(m).__name__
)
def test_a_pipeline_is_one_graph_from_raw_rows_to_answers(step, model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    y = (X[:, 0] > 0).astype(int)
    X[3, 2] = np.nan
    pipeline = make_pipeline(SimpleImputer(), clone(step), clone(model)).fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(pipeline).SerializeToString())
    found = dict(zip([each.name for each in session.get_outputs()], session.run(None, {"X": X}), strict=True))
    if "value" in found:
        assert_allclose(found["value"], pipeline.predict(X), atol=1e-10)
    else:
        assert_array_equal(found["label"], pipeline.predict(X))
        assert_allclose(found["decision"], pipeline.decision_function(X), atol=1e-10)
        assert_allclose(found["probabilities"], pipeline.predict_proba(X), atol=1e-5)


def test_a_pipeline_of_columns_has_an_input_for_each():
    frame = pd.DataFrame(
        {"age": [20.0, np.nan, 40.0, 60.0] * 5, "town": ["Ulm", "Bonn"] * 10, "n": range(20)}
    )
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    columns = ColumnTransformer(
        [("n", numbers, ["n", "age"]), ("t", OneHotEncoder(handle_unknown="ignore"), ["town"])]
    )
    pipeline = make_pipeline(columns, LSSVR(gamma=0.5)).fit(frame, np.arange(20.0))
    graph = to_onnx(pipeline, example=frame[:1])
    feeds = {"age": frame[["age"]].to_numpy(), "n": frame[["n"]].to_numpy(dtype=float)}
    feeds["town"] = frame[["town"]].to_numpy(dtype=object)
    (values,) = onnxruntime.InferenceSession(graph.SerializeToString()).run(None, feeds)
    assert_allclose(values, pipeline.predict(frame), atol=1e-10)
    with pytest.raises(ValueError, match="example="):
        to_onnx(pipeline)
    with pytest.raises(ValueError, match="no column 'age'"):
        to_onnx(pipeline, example=frame[["town"]])


def test_steps_without_a_graph_are_named_and_nothing_is_written(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 3))
    steps = ((PolynomialFeatures(), "float32"), (FunctionTransformer(np.abs), "'functiontransformer'"))
    for step, words in (*steps, (SimpleImputer(add_indicator=True), "add_indicator")):
        X[0, 0] = np.nan if isinstance(step, SimpleImputer) else 0.0
        pipeline = make_pipeline(step, LSSVC()).fit(X, X[:, 1] > 0)
        with pytest.raises(ValueError, match=words):
            to_onnx(pipeline, tmp_path / "it.onnx")
    assert not list(tmp_path.iterdir())
