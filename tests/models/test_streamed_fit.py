"""Models fitted from a stream are those fitted in memory, whatever the rows come from."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import r2_score

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, ProximalSVC, RelaxedLSSVC, Status
from squaresvm.models import source_fit as streamed
from squaresvm.problem import runners as memory
from squaresvm.problem import runners as passes_over_sources
from squaresvm.runtime.progress import PassProgress
from squaresvm.solvers import newton
from squaresvm.streaming import ArraySource, BlockSource, ParquetSource
from support.row_sources import KINDS, SIZE, WITHOUT_WEIGHTS, Blocks, M, N, rows, source_of

#: What is fitted: both losses, every bias, two and three classes, values.
SUBJECTS = {
    "LSSVC": (LSSVC(C=2.0), "two"),
    "LSSVC, three classes": (LSSVC(C=0.3, class_weight="balanced"), "three"),
    "RelaxedLSSVC": (RelaxedLSSVC(C=5.0, A=0.3), "three"),
    "ProximalSVC": (ProximalSVC(C=0.5), "two"),
    "LSSVR": (LSSVR(C=3.0), "regression"),
    "LSSVR without a bias": (LSSVR(C=3.0, fit_intercept=False), "regression"),
    "RLSSVC": (RLSSVC(C=3.0), "two"),
    "RLSSVC, three classes": (RLSSVC(C=0.5, class_weight={0.0: 2.0, 2.0: 0.5}), "three"),
    "LagrangianSVC": (LagrangianSVC(C=2.0, A=0.3), "three"),
    "LagrangianSVC without a bias": (LagrangianSVC(C=2.0, fit_intercept=False), "two"),
}
every_subject = pytest.mark.parametrize("subject", SUBJECTS)


def subject_of(name):
    model, problem = SUBJECTS[name]
    return clone(model).set_params(kernel="linear"), problem


def assert_same_model(one, other, close=1e-8):
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=close)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=0, atol=close)


def passes(model):
    return model._state.solution.work["passes"]


# The same coefficients --------------------------------------------------------------------------------


#: Every source with its weights, where it holds any, for one subject of each kind; every subject for two.
CROSSED = [
    *(
        (subject, kind, kind not in WITHOUT_WEIGHTS)
        for subject in ("LSSVC, three classes", "LSSVR", "RLSSVC", "LagrangianSVC")
        for kind in KINDS
    ),
    *((subject, kind, kind == "csr") for subject in SUBJECTS for kind in ("csr", "blocks")),
]


@pytest.mark.parametrize(("subject", "kind", "weighted"), dict.fromkeys(CROSSED))
def test_every_source_gives_the_model_of_the_rows_in_memory(subject, kind, weighted, tmp_path):
    model, problem = subject_of(subject)
    X, y, weights = rows(problem)
    weights = weights if weighted else None
    in_memory = clone(model).fit(X, y, weights)
    assert model.fit(source_of(kind, X, y, weights, tmp_path)) is model
    assert_same_model(model, in_memory)
    assert model.certificate_.status is Status.CONVERGED
    if problem != "three":  # Of several classes it is that of the worst, and rounding says which.
        assert model.certificate_.objective == pytest.approx(in_memory.certificate_.objective, rel=1e-9)
    assert model.n_features_in_ == N
    if problem != "regression":
        np.testing.assert_array_equal(model.classes_, in_memory.classes_)
        np.testing.assert_allclose(model.class_weight_, in_memory.class_weight_)


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
@every_subject
def test_from_a_sample_on(subject, compiled, monkeypatch):
    # As only large data goes: a sample is solved first.
    for module in (streamed, newton):
        monkeypatch.setattr(module, "_SAMPLE_A_FEATURE", 1)
    monkeypatch.setattr(streamed, "_SAMPLE", 60)
    monkeypatch.setattr(newton, "_LEAST_SAMPLE", 60)
    model, problem = subject_of(subject)
    X, y, weights = rows(problem)
    in_memory = clone(model).fit(X, y, weights)
    if compiled:
        for module in (memory, passes_over_sources):
            monkeypatch.setattr(module, "COMPILED_SIZE", 1)
    model.fit(BlockSource(Blocks(X, y, weights)))
    assert_same_model(model, in_memory)
    assert model.certificate_.status is Status.CONVERGED


def test_labels_may_be_words():
    X, y, _ = rows("three")
    words = np.array(["left", "middle", "right"])[y.astype(int)]
    model = RLSSVC(kernel="linear").fit(ArraySource(X, words, block_rows=SIZE))
    assert_same_model(model, RLSSVC(kernel="linear").fit(X, words))
    assert model.predict(X[:5]).dtype.kind == "U"


def test_many_classes_need_no_warning():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), np.arange(300) % 26
    model = LSSVC(kernel="linear").fit(ArraySource(X, y, block_rows=SIZE))
    assert_same_model(model, LSSVC(kernel="linear").fit(X, y))


def test_passes_are_counted_and_few():
    X, y, weights = rows("two")
    weights[:SIZE] = 0.0  # A block without any row of the problem.
    blocks = Blocks(X, y, weights)
    model = LSSVC(kernel="linear").fit(BlockSource(blocks, n_features=N))
    # The survey, the sums, the gradient there, the residual; and one more where rounding asks for it.
    assert passes(model) == blocks.passes
    assert 4 <= blocks.passes <= 5


def test_names_of_features_are_kept(tmp_path):
    X, y, _ = rows("two")
    source = source_of("parquet", X, y, None, tmp_path)
    model = LSSVC(kernel="linear").fit(source)
    assert model.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    model.fit(ArraySource(X, y))
    assert not hasattr(model, "feature_names_in_")


def test_columns_in_another_order_are_refused(tmp_path):
    X, y, _ = rows("two")
    model = LSSVC(kernel="linear").fit(source_of("parquet", X, y, None, tmp_path))
    swapped = ParquetSource(tmp_path / "rows.parquet", label="label", columns=["x0", "x2", "x1", "x3"])
    for use in (model.predict, model.decision_function, model.score):
        with pytest.raises(ValueError, match=r"feature 1 of the source is 'x2'.*fitted on 'x1'"):
            use(swapped)


# Using the model --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("subject", ["LSSVC", "LagrangianSVC", "LSSVR"])
def test_sources_are_decided_on_as_arrays_are(subject, kind, tmp_path):
    model, problem = subject_of(subject)
    X, y, weights = rows(problem)
    weights = None if kind in WITHOUT_WEIGHTS else weights
    model.fit(X, y)
    source = source_of(kind, X, y, weights, tmp_path)
    labels = list(model.predict(source))
    assert len(labels) > 1
    np.testing.assert_allclose(np.concatenate(labels), model.predict(X), rtol=0, atol=1e-12)
    assert model.score(source) == pytest.approx(model.score(X, y, weights), rel=1e-12)
    if problem != "regression":
        decided = np.concatenate(list(model.decision_function(source)))
        np.testing.assert_allclose(decided, model.decision_function(X), rtol=0, atol=1e-12)


def test_kernel_models_decide_on_sources_too():
    X, y, _ = rows("two")
    model = RLSSVC(gamma=0.5).fit(X[:80], y[:80])
    source = ArraySource(X, y, block_rows=SIZE)
    np.testing.assert_array_equal(np.concatenate(list(model.predict(source))), model.predict(X))
    assert model.score(source) == model.score(X, y)


def test_a_score_far_from_zero_keeps_its_digits():
    X, y, _ = rows("regression")
    y = y + 1e7
    model = LSSVR(kernel="linear").fit(X, y)
    assert model.score(ArraySource(X, y)) == pytest.approx(r2_score(y, model.predict(X)), rel=1e-6)


@pytest.mark.parametrize("subject", ["LSSVC", "LSSVC, three classes", "RLSSVC", "LagrangianSVC"])
def test_probabilities_are_close_to_those_in_memory(subject):
    model, problem = subject_of(subject)
    X, y, _ = rows(problem)
    in_memory = clone(model).fit(X, y).predict_proba(X)
    found = model.fit(ArraySource(X, y, block_rows=SIZE)).predict_proba(X)
    np.testing.assert_allclose(found, in_memory, rtol=0, atol=1e-3)
    model.set_params(class_weight=None).fit(ArraySource(X, y, block_rows=SIZE))
    likeliest = model.classes_[model.predict_proba(X).argmax(axis=1)]
    np.testing.assert_array_equal(likeliest, model.predict(X))


@every_subject
def test_pickles_and_copies(subject):
    model, problem = subject_of(subject)
    X, y, weights = rows(problem)
    model.fit(ArraySource(X, y, weights, block_rows=SIZE))
    for other in (pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)):
        assert_same_model(model, other, close=0.0)
        assert other.certificate_ == model.certificate_
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        if model._state.sums is not None:
            other.learn(X[:5], y[:5])
            assert np.abs(other.coef_ - model.coef_).max() > 0.0


# Sums that learn and forget -----------------------------------------------------------------------------

BY_SUMS = [name for name in SUBJECTS if not name.startswith(("RLSSVC", "Lagrangian"))]


@given(
    subject=st.sampled_from(BY_SUMS),
    requests=st.lists(
        st.tuples(st.booleans(), st.integers(0, M // 30 - 1)),
        min_size=1,
        max_size=8,
        unique_by=lambda r: r[1],
    ),
)
def test_requests_in_any_order_equal_a_fresh_fit(subject, requests):
    model, problem = subject_of(subject)
    X, y, weights = rows(problem)
    weights = weights + 0.5
    parts = [slice(30 * i, 30 * i + 30) for i in range(M // 30)]
    # What is to be learned is not there yet.
    held = np.ones(M, dtype=bool)
    for learns, i in requests:
        held[parts[i]] = not learns
    if held.sum() < 2 * 30:
        held[parts[-1]] = True
        requests = [r for r in requests if r[1] != M // 30 - 1]
    # The weights of classes are numbers taken at fit.
    model.set_params(**({"class_weight": {0.0: 2.0}} if problem == "three" else {}))
    model.fit(ArraySource(X[held], y[held], weights[held], block_rows=SIZE))
    for learns, i in requests:
        step = model.learn if learns else model.forget_rows
        step(X[parts[i]], y[parts[i]], weights[parts[i]])
        held[parts[i]] = learns
    assert_same_model(model, clone(model).fit(X[held], y[held], weights[held]))
    assert model.certificate_.residual <= 1e-8
    assert model._state.n_rows == held.sum()


def test_a_receipt_tells_what_is_left():
    X, y, _ = rows("two")
    model = LSSVC(kernel="linear").fit(ArraySource(X, y))
    receipt = model.forget_rows(X[:7], y[:7])
    assert (len(receipt.ids), receipt.remaining) == (7, M - 7)
    assert receipt.residual <= 1e-8


def test_rows_of_weight_zero_change_nothing():
    X, y, _ = rows("two")
    model = LSSVC(kernel="linear").fit(ArraySource(X, y))
    before = model.coef_.copy()
    model.learn(X[:3], y[:3], np.zeros(3))
    np.testing.assert_array_equal(model.coef_, before)


# Progress -----------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that says it is a terminal, or not."""

    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_for_terminals_only(is_terminal, monkeypatch):
    stream = Terminal(is_terminal)
    monkeypatch.setattr("sys.stderr", stream)
    X, y, _ = rows("two")
    RLSSVC(kernel="linear").fit(BlockSource(Blocks(X, y)))
    said = stream.getvalue()
    assert ("squaresvm: pass 1" in said) == is_terminal
    assert said == "" or said.endswith("\r")  # The line has been cleared.


def test_progress_tells_rows_and_passes(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr("squaresvm.runtime.progress.time.monotonic", lambda: next(clock))
    stream = Terminal(True)
    progress = PassProgress(1000, stream)
    for count in (0, 500, 1000, 0, 250):
        progress(count)
    lines = [line.strip() for line in stream.getvalue().split("\r") if line.strip()]
    assert lines == [
        "squaresvm: pass 1, 0 of 1,000 (0%) rows",
        "squaresvm: pass 1, 500 of 1,000 (50%) rows",
        "squaresvm: pass 1, 1,000 of 1,000 (100%) rows",
        "squaresvm: pass 2, 0 of 1,000 (0%) rows",
        "squaresvm: pass 2, 250 of 1,000 (25%) rows",
    ]
