"""Pipelines around our models: saved, loaded, asked to learn and forget; no file makes anything else."""

from __future__ import annotations

import io
import json
import os
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, Nystrom, OneVsOne, Window
from squaresvm.cli.app import app
from squaresvm.files import ModelFileError, container

skops_io = pytest.importorskip("skops.io")

TRANSFORMERS = [
    Binarizer(),
    FeatureUnion([("scaled", StandardScaler()), ("same", "passthrough")]),
    FunctionTransformer(),
    KBinsDiscretizer(n_bins=3, quantile_method="averaged_inverted_cdf"),
    MaxAbsScaler(),
    MinMaxScaler(),
    Normalizer(),
    Nystrom(15, random_state=0),
    OneHotEncoder(handle_unknown="ignore"),
    OrdinalEncoder(),
    PCA(2, random_state=0),
    PolynomialFeatures(2),
    PowerTransformer(),
    QuantileTransformer(n_quantiles=10),
    RobustScaler(),
    SimpleImputer(add_indicator=True),
    StandardScaler(),
    TruncatedSVD(2, random_state=0),
    VarianceThreshold(),
]


def rows_and_labels(m=40):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(m, 3))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=m) > 0, "yes", "no")


def people(m=40):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 80, m).astype(float),
            "town": rng.choice(["Ulm", "Bonn", "Köln"], m),
            "pay": rng.normal(3000, 500, m),
            "note": rng.choice(["likes long walks", "no walks", "long notes"], m),
        }
    )
    frame.loc[2, "age"] = np.nan
    frame.loc[4, "town"] = None
    return frame, np.where(frame["pay"] > 3000, "much", "little")


def columns():
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include=np.number)),
            ("towns", OneHotEncoder(handle_unknown="ignore"), ["town"]),
            ("words", TfidfVectorizer(), "note"),
        ]
    )


@pytest.mark.parametrize("step", TRANSFORMERS, ids=lambda step: type(step).__name__)
def test_saved_and_loaded_it_gives_the_same_bits_and_goes_on(step, tmp_path):
    X, y = rows_and_labels()
    pipeline = make_pipeline(step, LSSVC(C=3.0, gamma=0.4)).fit(X, y)
    squaresvm.save(pipeline, tmp_path / "it.model")
    again = squaresvm.load(tmp_path / "it.model")
    assert isinstance(again, Pipeline)
    assert [name for name, _ in again.steps] == [name for name, _ in pipeline.steps]
    assert_array_equal(again.decision_function(X), pipeline.decision_function(X))
    assert squaresvm.verify(tmp_path / "it.model").ok
    own = getattr(step, "landmark_indices_", [])
    gone = [row for row in range(len(y)) if row not in own][:2]
    receipt = squaresvm.forget(again, gone)
    squaresvm.learn(again, X[gone], y[gone])
    assert_allclose(again.decision_function(X), pipeline.decision_function(X), atol=1e-8)
    assert again[-1].receipts_[-1].kept == receipt.kept  # The sealed receipts say what the steps keep.


@pytest.mark.parametrize(
    "model", [RLSSVC(), LagrangianSVC(kernel="linear"), OneVsOne(LSSVC()), LSSVC(kernel="linear")], ids=repr
)
def test_every_model_may_end_a_pipeline_of_columns(model, tmp_path):
    frame, y = people()
    pipeline = make_pipeline(columns(), model).fit(frame, y)
    squaresvm.save(pipeline, tmp_path / "it.model")
    assert_array_equal(squaresvm.load(tmp_path / "it.model").predict(frame), pipeline.predict(frame))


def test_forgetting_through_a_pipeline_is_a_fit_behind_the_same_steps():
    frame, _ = people()
    y, gone = frame["pay"].to_numpy() / 1000, [1, 4, 7]
    pipeline = make_pipeline(columns(), LSSVR(C=5.0, gamma=0.2)).fit(frame, y)
    before = pipeline[0].transform(frame)
    receipt = squaresvm.forget(pipeline, gone, verify=True)
    rest = np.delete(np.arange(len(y)), gone)
    fitted = LSSVR(C=5.0, gamma=0.2).fit(before[rest], y[rest])
    assert_allclose(pipeline.predict(frame), fitted.predict(before), atol=1e-9)
    assert receipt.rows == 3
    assert not receipt.sampled
    said = "\n".join(receipt.kept)
    for path, what in (
        ("columntransformer.numbers.simpleimputer", "cells without one"),
        ("columntransformer.numbers.standardscaler", "mean and deviation"),
        ("columntransformer.towns", "levels"),
        ("columntransformer.words", "words"),
    ):
        assert f"step '{path}'" in said
        assert what in said
    assert pipeline[-1].receipts_[-1].kept == receipt.kept


def test_the_index_of_a_data_frame_serves_as_ids_when_learning():
    frame, y = people()
    frame.index = [f"person {i}" for i in range(len(frame))]
    pipeline = make_pipeline(columns(), LSSVC())
    pipeline.fit(frame[:30], y[:30], lssvc__ids=frame.index[:30].to_numpy())
    squaresvm.learn(pipeline, frame[30:], y[30:], ids="index")
    assert squaresvm.forget(pipeline, ["person 3", "person 35"]).remaining == 38


def test_models_without_a_pipeline_are_asked_as_ever():
    X, y = rows_and_labels()
    model = LSSVC().fit(X, y)
    assert squaresvm.learn(model, X[:2], y[:2]) is model
    assert squaresvm.forget(model, [40, 41]).remaining == 40
    window = Window(LSSVC(), 30).partial_fit(X, y)
    pipeline = Pipeline([("scaler", StandardScaler().fit(X)), ("window", window)])
    squaresvm.forget(pipeline, [window.ids_[0]])
    assert "scaler" in window.estimator_.receipts_[-1].kept[0]
    with pytest.raises(TypeError, match=r"PCA.*cannot forget"):
        squaresvm.forget(make_pipeline(StandardScaler(), PCA()).fit(X), [1])


def test_a_new_fit_says_nothing_of_steps_that_were():
    X, y = rows_and_labels()
    pipeline = make_pipeline(StandardScaler(), LSSVC()).fit(X, y)
    squaresvm.forget(pipeline, [1])
    assert pipeline[-1].fit(X, y).receipts_[-1].kept == ()


# What holds rows, or cannot be saved -----------------------------------------------------------------------


def test_steps_that_hold_rows_refuse_to_forget_and_nothing_changes():
    X, y = rows_and_labels()
    pipeline = make_pipeline(KNNImputer(), LSSVC()).fit(X, y)
    with pytest.raises(ValueError, match=r"'knnimputer' \(KNNImputer\) holds training rows"):
        squaresvm.forget(pipeline, [3])
    assert pipeline[-1].ids_.size == 40
    mapped = make_pipeline(Nystrom(10, random_state=0), LSSVC(kernel="linear")).fit(X, y)
    landmark = int(mapped[0].landmark_indices_[0])
    with pytest.raises(ValueError, match=f"row {landmark} is a landmark of step 'nystrom'"):
        squaresvm.forget(mapped, [landmark])
    mapped[-1].fit(mapped[0].transform(X), y, ids=[f"p{i}" for i in range(40)])
    with pytest.raises(ValueError, match="ids of your own"):
        squaresvm.forget(mapped, ["p1"])


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            FunctionTransformer(np.abs),
            "'it' of the pipeline, a FunctionTransformer, cannot be saved: it calls a function",
        ),
        (KNNImputer(), "'it' of the pipeline, a KNNImputer, cannot be saved"),
        (
            ColumnTransformer([("logs", FunctionTransformer(np.abs), [0])]),
            "'it.logs' of the pipeline, a FunctionTransformer",
        ),
        (
            PCA(2, random_state=np.random.RandomState(0)),
            "step 'it' of the pipeline cannot be saved: it holds numpy",
        ),
        (
            ColumnTransformer([("levels", OneHotEncoder(feature_name_combiner=lambda a, b: f"{a}{b}"), [0])]),
            "step 'it.levels' of the pipeline cannot be saved: it holds",
        ),
    ],
    ids=["function", "neighbours", "function inside", "random state", "lambda"],
)
def test_what_cannot_be_saved_is_named_in_one_line_and_nothing_is_written(step, words, tmp_path):
    X, y = rows_and_labels()
    pipeline = Pipeline([("it", step), ("model", LSSVC())]).fit(X, y)
    with pytest.raises(ValueError, match="cannot be saved") as caught:
        squaresvm.save(pipeline, tmp_path / "it.model")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


# Hostile files ---------------------------------------------------------------------------------------------


class Bomb:
    """Makes a file when it is called, or made from a description."""

    def __setstate__(self, state):
        open(state["path"], "w").close()


def with_description(path, raw):
    """Put another description of the steps into a model file, whose checksum is right."""
    header, arrays, _ = container.read(path)
    container.write(path, header, {**arrays, "pipeline": np.frombuffer(raw, dtype=np.uint8)})


def changed(raw, change):
    """Return a description by skops after a change of its schema."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            text = old.read(entry)
            if entry.filename == "schema.json":
                schema = json.loads(text)
                change(schema)
                text = json.dumps(schema).encode()
            new.writestr(entry.filename, text)
    return out.getvalue()


def node_of(schema, name):
    """Return the node of a class in a schema."""
    if isinstance(schema, dict):
        if schema.get("__class__") == name:
            return schema
        schema = list(schema.values())
    if isinstance(schema, list):
        return next((found for each in schema if (found := node_of(each, name)) is not None), None)
    return None


def turn_into(**entries):
    return lambda schema: node_of(schema, "StandardScaler").update(entries)


HOSTILE = {
    "a function": turn_into(__loader__="FunctionNode", __module__="os", __class__="getpid"),
    "a type": turn_into(__loader__="TypeNode", __module__="subprocess", __class__="Popen"),
    "a class of Python": turn_into(__module__="subprocess", __class__="Popen"),
    "another estimator": turn_into(__module__="sklearn.ensemble._forest", __class__="RandomForestClassifier"),
    "a method": turn_into(__loader__="MethodNode", __class__="StandardScaler"),
    "a partial": turn_into(__loader__="PartialNode"),
    "an operator": turn_into(__loader__="OperatorFuncNode", __module__="operator", __class__="methodcaller"),
    "a list of another kind": lambda schema: node_of(schema, "list").update(
        __module__="os", __class__="fspath"
    ),
    "an array of another kind": lambda schema: node_of(schema, "ndarray").update(
        __module__="builtins", __class__="exec"
    ),
    "no nodes": lambda schema: schema.clear(),
    "no such loader": turn_into(__loader__="NoNode"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_hostile_descriptions_are_refused_in_one_line(change, tmp_path):
    X, y = rows_and_labels()
    pipeline = make_pipeline(StandardScaler(), LSSVC()).fit(X, y)
    path = tmp_path / "it.model"
    squaresvm.save(pipeline, path)
    with_description(path, changed(container.read(path)[1]["pipeline"].tobytes(), change))
    with pytest.raises(ModelFileError, match="does not describe a model: its pipeline") as caught:
        squaresvm.load(path)
    assert "\n" not in str(caught.value)


def test_no_code_runs_at_load_even_of_classes_that_are_there(tmp_path):
    X, y = rows_and_labels()
    path, mark = tmp_path / "it.model", tmp_path / "ran"
    squaresvm.save(make_pipeline(StandardScaler(), LSSVC()).fit(X, y), path)
    bomb = Bomb()
    bomb.path = str(mark)
    log = FunctionTransformer(os.system, kw_args={"command": f"touch {mark}"})
    for step in (bomb, log, FunctionTransformer(np.log)):
        with_description(path, skops_io.dumps(Pipeline([("it", step), ("model", "passthrough")])))
        with pytest.raises(ModelFileError, match="its pipeline holds"):
            squaresvm.load(path)
    assert not mark.exists()


def test_a_description_that_is_damaged_or_compressed_is_refused(tmp_path):
    X, y = rows_and_labels()
    path = tmp_path / "it.model"
    squaresvm.save(make_pipeline(StandardScaler(), LSSVC()).fit(X, y), path)
    raw = container.read(path)[1]["pipeline"].tobytes()
    small = skops_io.dumps(
        make_pipeline(StandardScaler().fit(X), "passthrough"), compression=zipfile.ZIP_DEFLATED
    )
    for other in (b"nothing", raw[:-200], small, skops_io.dumps(StandardScaler()), skops_io.dumps([1, 2])):
        with_description(path, other)
        with pytest.raises(ModelFileError, match="its pipeline"):
            squaresvm.load(path)


# The command line ----------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path):
    """The file of a pipeline, and a table of people with their labels."""
    frame, y = people()
    pipeline = make_pipeline(columns(), LSSVC(kernel="linear")).fit(frame, y)
    squaresvm.save(pipeline, tmp_path / "people.model")
    frame.assign(label=y).to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.model", tmp_path / "people.csv", pipeline, frame


def said_by(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        app([str(each) for each in arguments])
    out, error = capsys.readouterr()
    return ended.value.code, out, error


def test_commands_work_on_the_file_of_a_pipeline(served, capsys):
    model, data, pipeline, frame = served
    code, out, _ = said_by(capsys, "predict", model, data)
    assert code == 0
    assert out.split() == pipeline.predict(frame).tolist()
    code, out, _ = said_by(capsys, "evaluate", model, data, "--json")
    assert code == 0
    assert json.loads(out)["figures"][0]["value"] == pytest.approx(
        pipeline.score(frame, pd.read_csv(data)["label"])
    )
    code, out, _ = said_by(capsys, "explain", model, data, "--row", 2)
    assert code == 0
    assert "towns__town_" in out
    code, out, _ = said_by(capsys, "inspect", model)
    assert code == 0
    assert "columntransformer.numbers.standardscaler (StandardScaler)" in out
    code, out, _ = said_by(capsys, "forget", model, "--ids", "3,5")
    assert code == 0
    assert "Kept: step 'columntransformer.towns' (OneHotEncoder): the levels" in out
    again = squaresvm.load(model)
    assert again[-1].ids_.size == 38
    squaresvm.forget(pipeline, [3, 5])
    assert_allclose(again.decision_function(frame), pipeline.decision_function(frame), atol=1e-10)
    assert said_by(capsys, "verify", model)[0] == 0
    code, out, _ = said_by(capsys, "receipts", model)
    assert "StandardScaler" in out.splitlines()[-1]


def test_commands_refuse_in_one_line_what_a_pipeline_cannot(served, capsys, tmp_path):
    model, data, *_ = served
    before = model.read_bytes()
    (tmp_path / "other.csv").write_text("age,town\n30,Ulm\n")
    for arguments, words in (
        (("learn", model, data), "is a pipeline from Python"),
        (("predict", model, tmp_path / "other.csv"), "'pay'"),
        (("verify", model, "--data", data), "from Python"),
        (("forget", model, "--ids", "99"), "99"),
    ):
        code, out, error = said_by(capsys, *arguments)
        assert (code, out) == (2, "")
        assert words in error
        assert len(error.splitlines()) == 1
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    "estimator", [LSSVC(kernel="linear", C=3.0), RLSSVC(kernel="linear", C=3.0), LSSVR()]
)
def test_a_landmark_is_dropped_and_the_model_follows(estimator, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] if isinstance(estimator, LSSVR) else X[:, 0] > 0.2
    steps = StandardScaler(), Nystrom(12, random_state=0)
    pipeline = make_pipeline(*steps, estimator).fit(X, y)
    landmarks = pipeline.steps[1][1].landmark_indices_
    gone = [int(landmarks[0]), int(landmarks[5]), *np.setdiff1d(np.arange(60), landmarks)[:2].tolist()]
    before = pipeline.predict(X)
    for rows, what in ((None, "is a landmark"), (X[::-1], "not those"), (X[:-1], "not those")):
        with pytest.raises(ValueError, match=what):
            squaresvm.forget(pipeline, gone, rows=rows)
    assert pipeline.predict(X).tolist() == before.tolist()
    receipt = squaresvm.forget(pipeline, gone, rows=X, verify=True)
    assert (receipt.ids, receipt.rows, receipt.remaining) == (tuple(gone), 4, 56)
    assert "Nystrom" in " ".join(receipt.kept)
    stay = np.delete(np.arange(60), gone)
    nystrom, last = pipeline.steps[1][1], pipeline.steps[2][1]
    assert nystrom.landmark_indices_.size == 10
    assert not set(nystrom.landmark_indices_.tolist()) & set(gone)
    assert last.ids_.tolist() == stay.tolist()
    features = pipeline[:-1].transform(X[stay])
    fresh = clone(estimator)
    if isinstance(estimator, LSSVR):
        fresh.set_params(gamma=last.gamma_)  # The number that was taken at fit.
    fresh.fit(features, y[stay])
    values = getattr(fresh, "decision_function", fresh.predict)(features)
    found = getattr(pipeline, "decision_function", pipeline.predict)(X[stay])
    np.testing.assert_allclose(found, values, rtol=0, atol=1e-6)
    assert squaresvm.verify(pipeline, receipts=last.receipts_, absent=gone[0]).ok
    squaresvm.save(pipeline, tmp_path / "p.model")
    again = squaresvm.load(tmp_path / "p.model")
    plain = np.setdiff1d(stay, landmarks)[:1].tolist()
    assert squaresvm.forget(again, plain, rows=X[stay]).remaining == 55
    left = int(again.steps[1][1].landmark_indices_[0])
    held = again.steps[2][1].ids_
    receipt = squaresvm.forget(again, [left], rows=X[held])  # Not sealed, and it says the same.
    assert receipt.kept == again.steps[2][1].receipts_[-1].kept
    assert {"StandardScaler", "Nystrom"} <= set(
        " ".join(receipt.kept).replace("(", " ").replace(")", " ").split()
    )
    assert squaresvm.verify(again, receipts=last.receipts_).ok
