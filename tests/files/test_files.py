"""Models that are saved and loaded: the same in every bit, and as able to learn and forget."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, Window
from squaresvm.files import ModelFileError
from squaresvm.operators.computed import OnDemandOperator
from squaresvm.solvers import ActiveSet, TwoSmo
from support import histories
from support.histories import PROBES, History, data, loo_values, values
from support.remains import Remains
from support.round_trips import again, same
from support.secrets import CASES, ID, LABEL, VALUE, WEIGHT, prepared

M = 24
COMBINATIONS = [each for each in histories.combinations() if each[1] != "callable"]


def assert_same_model(loaded, model, X):
    assert type(loaded) is type(model)
    assert {name: str(value) for name, value in loaded.get_params().items()} == {
        name: str(value) for name, value in model.get_params().items()
    }
    assert same(values(loaded, X), values(model, X))
    assert loaded.ids_.tolist() == model.ids_.tolist()
    assert [type(name) for name in loaded.ids_.tolist()] == [type(name) for name in model.ids_.tolist()]
    assert (loaded.solver_, loaded.solver_reason_) == (model.solver_, model.solver_reason_)
    assert loaded.n_iter_ == model.n_iter_
    mine, theirs = loaded.certificate_, model.certificate_
    assert mine.status is theirs.status
    # Computed anew from the rows in their order, in which sums may end in another last digit, and of several
    # classes another one may be the worst by rounding.
    assert mine.residual == pytest.approx(theirs.residual, abs=1e-11)
    if values(model, X).ndim == 1:
        assert mine.objective == pytest.approx(theirs.objective, rel=1e-12)
    if hasattr(model, "classes_"):
        assert loaded.classes_.tolist() == model.classes_.tolist()
        assert loaded.classes_.dtype.kind == model.classes_.dtype.kind
        assert same(loaded.class_weight_, model.class_weight_)


def history(name, kernel, kind, **more):
    X, y = data(kind, M, seed=3)
    weights = histories.weights_with_zeros(M, seed=4)
    ids = [f"row {i}" for i in range(M)]
    return History(histories.estimator(name, kernel, **more), kernel, X, y, weights, ids)


class TestRoundTrip:
    @pytest.mark.parametrize(("name", "kernel", "kind"), COMBINATIONS)
    def test_is_the_same_and_goes_on(self, tmp_path, name, kernel, kind):
        h = history(name, kernel, kind)
        h.forget(["row 3"])
        if kind != "regression":
            h.model.predict_proba(h.at(PROBES))
        queries = h.at(PROBES)
        loaded = again(h.model, tmp_path, factor=kind != "binary")
        assert_same_model(loaded, h.model, queries)
        if kind != "regression":
            assert same(loaded.predict_proba(queries), h.model.predict_proba(queries))
        h.model = loaded
        h.forget(["row 5"])
        X, y = data(kind, 2, seed=8)
        h.learn(X, y, ids=["new", "newer"])
        h.assert_as_if_never_seen()
        loaded.flush()
        if not histories.is_hinge(name):  # Those solve anew for each row.
            assert loaded.loo_score() <= 1.0

    @pytest.mark.parametrize("factor", [False, True])
    @pytest.mark.parametrize("name", ["LSSVC", "RelaxedLSSVC", "LSSVR"])
    def test_leave_one_out(self, tmp_path, name, factor):
        h = history(name, "rbf", "regression" if name == "LSSVR" else "multi")
        loaded = again(h.model, tmp_path, factor=factor)
        assert np.allclose(loo_values(loaded), loo_values(h.model), rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian"])
    def test_single_precision(self, tmp_path, kernel, convert):
        X, y = data("binary", M, seed=0)
        X = convert(X.astype(np.float32))
        model = LSSVC(kernel=kernel).fit(X, y)
        loaded = again(model, tmp_path)
        assert loaded._state.rows.base.dtype == np.float32
        assert_same_model(loaded, model, X)

    def test_rows_in_fortran_order(self, tmp_path, monkeypatch):
        monkeypatch.setattr(squaresvm.rows, "LARGE_BYTES", 10)  # Larger rows are not copied.
        X, y = data("binary", M, seed=0)
        model = LSSVC().fit(np.asfortranarray(X), y)
        loaded = again(model, tmp_path)
        assert loaded._state.rows.base.flags.f_contiguous
        assert_same_model(loaded, model, X)

    @pytest.mark.parametrize(
        "labels",
        [
            np.array([False, True]),
            np.array([-1, 1], dtype=np.int8),
            np.array([2**40, 3]),
            np.array([0.0, 1.0]),
            np.array(["no", "\u00e4\U0001f600"]),
            np.array(["a", "b"], dtype=object),
            np.array(["a", "b", "b\u0301"]),
        ],
        ids=["flags", "int8", "int64", "float", "text", "objects", "three"],
    )
    def test_kinds_of_labels(self, tmp_path, labels):
        X, _ = data("binary", M, seed=0)
        y = labels[np.arange(M) % labels.size]
        model = LSSVC().fit(X, y)
        loaded = again(model, tmp_path)
        assert_same_model(loaded, model, X)
        assert loaded.classes_.dtype == model.classes_.dtype
        loaded.learn(X[:1], y[:1])

    @pytest.mark.parametrize(
        "ids",
        [range(100, 100 + M), [f"n\u00b0 {i}" for i in range(M)], [2**70 + i for i in range(M)], None],
        ids=["numbers", "text", "large", "arrivals"],
    )
    def test_kinds_of_ids(self, tmp_path, ids):
        X, y = data("binary", M, seed=0)
        model = LSSVC().fit(X, y, ids=ids)
        loaded = again(model, tmp_path)
        assert_same_model(loaded, model, X)
        gone = loaded.ids_.tolist()[4]
        assert loaded.forget([gone]).remaining == M - 1
        if ids is None:
            loaded.learn(X[:1], y[:1])
            assert loaded.ids_.tolist()[-1] == M

    def test_numbers_and_text_as_ids(self, tmp_path):
        X, _ = data("binary", 4, seed=0)
        model = LSSVR().fit(X, np.arange(4.0), ids=[1, "1", "x", -(2**80)])
        loaded = again(model, tmp_path)
        assert loaded.forget(["1"]).ids == ("1",)
        assert loaded.ids_.tolist() == [1, "x", -(2**80)]

    def test_column_names(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        X, y = data("binary", M, seed=0)
        frame = pandas.DataFrame(X, columns=["a", "b", "c", "\u00e9"])
        loaded = again(LSSVC().fit(frame, y), tmp_path)
        assert loaded.feature_names_in_.tolist() == ["a", "b", "c", "\u00e9"]
        with pytest.raises(ValueError, match="feature names"):
            loaded.predict(frame[["b", "a", "c", "\u00e9"]])

    @pytest.mark.parametrize("C", [1e-6, 1e8])
    def test_one_row_and_far_off_C(self, tmp_path, C):
        model = LSSVR(C=C, fit_intercept=False).fit([[1.5]], [2.0])
        assert_same_model(again(model, tmp_path, factor=True), model, np.array([[0.3], [1.5]]))

    def test_class_weights(self, tmp_path):
        X, y = data("multi", M, seed=0)
        model = LSSVC(class_weight={"low": 2.0, "high": 0.5}).fit(X, y)
        loaded = again(model, tmp_path)
        assert loaded.class_weight == {"low": 2.0, "high": 0.5}
        assert_same_model(loaded, model, X)

    @pytest.mark.parametrize(
        ("estimator", "solver"),
        [
            (LagrangianSVC, ActiveSet(n_sv_max=5, reuse="switches")),
            (squaresvm.RelaxedLSSVC, TwoSmo(memory=12345, trace=True)),
            (RLSSVC, "active-set"),
        ],
    )
    def test_solver_with_options(self, tmp_path, estimator, solver):
        X, y = data("binary", M, seed=0)
        loaded = again(estimator(solver=solver).fit(X, y), tmp_path)
        assert loaded.solver == solver
        assert loaded._state.settings.solver == solver
        loaded.refit()

    @pytest.mark.parametrize("robust", [2, squaresvm.Robust(rounds=1, c1=1.0, c2=2.0)])
    def test_robust_weights(self, tmp_path, robust):
        X, y = data("regression", M, seed=0)
        y[3] += 50.0
        model = LSSVR(robust=robust).fit(X, y, sample_weight=np.linspace(0.5, 1.5, M))
        loaded = again(model, tmp_path)
        assert_same_model(loaded, model, X)
        assert loaded.robust == robust
        assert same(loaded.robust_weights_, model.robust_weights_)
        assert np.allclose(loaded.refit().predict(X), model.refit().predict(X), rtol=1e-12)

    def test_parameters_set_after_fit_are_kept_apart(self, tmp_path):
        X, y = data("binary", M, seed=0)
        model = LSSVC(C=2.0).fit(X, y).set_params(C=7.0, gamma=0.5)
        loaded = again(model, tmp_path)
        assert (loaded.C, loaded.C_, loaded.gamma) == (7.0, 2.0, 0.5)
        assert same(loaded.decision_function(X), model.decision_function(X))
        assert loaded.refit().C_ == 7.0

    def test_numpy_numbers_as_parameters(self, tmp_path):
        X, y = data("binary", M, seed=0)
        model = LSSVC(C=np.float32(0.5), degree=np.int64(2), gamma=np.float64(0.25)).fit(X, y)
        assert again(model, tmp_path).get_params()["gamma"] == 0.25

    def test_rows_too_many_for_a_factor(self, tmp_path, monkeypatch):
        X, y = data("binary", M, seed=0)
        model = squaresvm.RelaxedLSSVC(solver=TwoSmo(memory=64)).fit(X, y)
        assert isinstance(model._state.problem.operator, OnDemandOperator)
        assert_same_model(again(model, tmp_path, factor=True), model, X)

    @pytest.mark.parametrize("by_age", [False, True])
    def test_window(self, tmp_path, by_age):
        X, y = data("regression", M, seed=0)
        times = np.arange(M) / 2.0 if by_age else None
        window = Window(LSSVR(C=5.0), size=4.5 if by_age else 9).fit(X, y, times=times)
        loaded = again(window, tmp_path)
        assert isinstance(loaded, Window)
        assert (loaded.size, loaded.estimator.C) == (window.size, 5.0)
        assert_same_model(loaded.estimator_, window.estimator_, X)
        later = {"times": [M / 2.0]} if by_age else {}
        for each in (window, loaded):
            each.learn(X[:1], y[:1], **later)
        assert loaded.ids_.tolist() == window.ids_.tolist()
        assert np.allclose(loaded.predict(X), window.predict(X), rtol=1e-12)

    def test_saving_changes_nothing(self, tmp_path):
        h = history("LSSVC", "rbf", "binary")
        h.forget(["row 1", "row 2"])
        before = h.model.decision_function(PROBES)
        again(h.model, tmp_path)
        assert same(h.model.decision_function(PROBES), before)
        h.forget(["row 4"])
        h.assert_as_if_never_seen()

    def test_a_stored_factor_is_used(self, tmp_path):
        X, y = data("binary", 60, seed=0)
        plain, stored = LSSVC().fit(X, y), tmp_path / "stored"
        stored.mkdir()
        assert again(plain, stored).forget([3]).refactored
        receipt = again(plain, stored, factor=True).forget([3])
        assert not receipt.refactored
        plain.forget([4, 5])  # Leaves gaps: the factor is made in order when it is saved.
        plain.learn(X[:3], y[:3])
        loaded = again(plain, stored, factor=True)
        assert not loaded.forget([7]).refactored
        assert loaded.certificate_.residual < 1e-10

    def test_a_wrong_factor_is_found_out(self, tmp_path):
        X, y = data("binary", 60, seed=0)
        loaded = again(LSSVC().fit(X, y), tmp_path, factor=True)
        loaded._state.solution.factor.inverse.store.room(60)[30:, :30] *= 1.5
        receipt = loaded.forget([3, 4, 5])
        assert receipt.refactored
        assert receipt.residual < 1e-6


class TestRefused:
    def refused(self, model, tmp_path, match, error=ValueError):
        path = tmp_path / "a.model"
        path.write_text("old")
        with pytest.raises(error, match=match):
            squaresvm.save(model, path)
        assert path.read_text() == "old"
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.model"]

    def test_what_no_file_can_hold(self, tmp_path):
        X, y = data("binary", M, seed=0)
        cauchy = histories.KERNELS["callable"][0]["kernel"]
        self.refused(LSSVC(kernel=cauchy).fit(X, y), tmp_path, "callable kernel cannot be saved")
        tuples = [(i, "x") for i in range(M)]
        self.refused(LSSVC().fit(X, y, ids=tuples), tmp_path, "ids of type tuple cannot be saved")
        dates = np.arange(M).astype("datetime64[D]")
        self.refused(LSSVC().fit(X, y, ids=dates), tmp_path, "ids of type datetime64")
        state = np.random.RandomState(0)
        self.refused(LSSVC(random_state=state).fit(X, y), tmp_path, "give a seed")
        called = TwoSmo(callback=lambda progress: False)
        self.refused(squaresvm.RelaxedLSSVC(solver=called).fit(X, y), tmp_path, "callback")

    def test_solver_of_somebody_else(self, tmp_path):
        class Mine(type(squaresvm.solvers.choose.SOLVERS["direct"])):
            pass

        X, y = data("binary", M, seed=0)
        self.refused(LSSVC(solver=Mine()).fit(X, y), tmp_path, "solver of type Mine")

    def test_not_fitted_or_no_model(self, tmp_path):
        self.refused(LSSVC(), tmp_path, "not fitted", NotFittedError)
        self.refused(Window(LSSVC(), 3), tmp_path, "not fitted", NotFittedError)
        self.refused("model", tmp_path, "a str cannot be saved")

    def test_places(self, tmp_path):
        X, y = data("binary", M, seed=0)
        model = LSSVC().fit(X, y)
        with pytest.raises(OSError, match="nowhere"):
            squaresvm.save(model, tmp_path / "nowhere" / "a.model")
        with pytest.raises(OSError, match="directory"):
            squaresvm.save(model, tmp_path)
        with pytest.raises(FileNotFoundError):
            squaresvm.load(tmp_path / "a.model")
        with pytest.raises(OSError, match="directory"):
            squaresvm.load(tmp_path)
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ModelFileError, match="not a regular file"):
            squaresvm.load(tmp_path / "pipe")


@pytest.mark.parametrize("arrives", ["fit", "learn"])
@pytest.mark.parametrize(("name", "kernel"), [case for case in CASES if case[1] != "callable"])
def test_nothing_of_a_forgotten_row_is_in_the_file(tmp_path, name, kernel, arrives):
    secret = prepared(name, kernel, arrives)
    path = tmp_path / "a.model"

    def found(numbers, texts):
        squaresvm.save(secret.model, path, factor=True)
        raw = path.read_bytes()
        search = Remains(raw)
        return [n for n in numbers if struct.pack("<d", n) in raw or repr(n).encode() in raw] + [
            text for text in texts if search.text(text)
        ]

    regression = isinstance(secret.model, LSSVR)
    numbers = [WEIGHT, *([VALUE] if regression else [])]
    numbers += list(secret.kernel_values if kernel == "precomputed" else secret.row)
    texts = [ID] if regression else [ID, LABEL]
    assert WEIGHT in found(numbers, texts)
    assert ID in found(numbers, texts)
    secret.history.forget([ID])
    assert found(numbers, texts) == []
    assert [n for n in secret.derived if abs(n) > 1e-9 and struct.pack("<d", n) in path.read_bytes()] == []


def test_weight_of_a_class_that_is_gone(tmp_path):
    X, y = data("multi", M, seed=0)
    y = np.where(np.arange(M) == 7, LABEL, y)
    model = LSSVC(class_weight={LABEL: 3.0, "low": 2.0}).fit(X, y)
    model.forget([7])
    loaded = again(model, tmp_path)
    assert loaded.class_weight == {"low": 2.0}
    assert not Remains((tmp_path / "a.model").read_bytes()).text(LABEL)
