"""Models that were fitted from a stream, in files: the same, without a row, and they go on."""

from __future__ import annotations

import copy
import struct

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import squaresvm
from squaresvm import (
    LSSVC,
    LSSVR,
    RLSSVC,
    LagrangianSVC,
    ProximalSVC,
    RelaxedLSSVC,
)
from squaresvm.files import Record
from squaresvm.problem import products
from squaresvm.streaming import ArraySource
from support import forged
from support.histories import data
from support.remains import Remains
from support.round_trips import again, same
from support.secrets import ROW, VALUE, WEIGHT

M = 30


def header_of(folder):
    return forged.opened((folder / "a.model").read_bytes())[0]


def in_file(folder, numbers, texts=()):
    """Return which numbers and texts are in the file, in the bytes of arrays or written out."""
    raw = (folder / "a.model").read_bytes()
    found = [n for n in numbers if struct.pack("<d", n) in raw or repr(float(n)).encode() in raw]
    return found + [text for text in texts if Remains(raw).text(text)]


STREAMED = {
    "LSSVC": LSSVC(C=3.0),
    "balanced": LSSVC(C=3.0, class_weight="balanced"),
    "small C": LSSVC(C=1e-6),
    "large C": LSSVC(C=1e8, fit_intercept=False),
    "RelaxedLSSVC": RelaxedLSSVC(C=5.0, A=0.3),
    "ProximalSVC": ProximalSVC(C=0.7),
    "LSSVR": LSSVR(C=10.0),
    "RLSSVC": RLSSVC(C=2.0),
    "LagrangianSVC": LagrangianSVC(C=2.0, A=0.5, class_weight={"low": 3.0, "mid": 0.5}),
}


def streamed(name, kind=None, convert=np.asarray):
    model = clone(STREAMED[name]).set_params(kernel="linear")
    kind = kind or ("regression" if name == "LSSVR" else "multi")
    X, y = data(kind, M, seed=3)
    return model.fit(ArraySource(convert(X), y, np.linspace(0.5, 1.5, M))), convert(X), y


class TestStreams:
    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
    @pytest.mark.parametrize("name", STREAMED)
    def test_is_the_same_and_goes_on(self, tmp_path, name, convert):
        model, X, y = streamed(name, convert=convert)
        loaded = again(model, tmp_path)
        assert type(loaded) is type(model)
        assert loaded.get_params() == model.get_params()
        assert loaded.certificate_ == model.certificate_
        assert (loaded.n_iter_, loaded.solver_reason_) == (model.n_iter_, model.solver_reason_)
        assert same(loaded.predict(X), model.predict(X))
        assert same(loaded.coef_, model.coef_)
        if name != "LSSVR":
            assert same(loaded.predict_proba(X), model.predict_proba(X))
            assert loaded.classes_.dtype == model.classes_.dtype
        weights = np.linspace(0.5, 1.5, M)[:4]
        if name in ("RLSSVC", "LagrangianSVC"):
            with pytest.raises(ValueError, match="by sums over the rows is for the squared loss"):
                loaded.learn(X[:4], y[:4], weights)
            return
        for each in (model, loaded):
            each.learn(X[4:9], y[4:9])
        assert same(loaded.coef_, model.coef_)
        receipts = [each.forget_rows(X[:4], y[:4], weights) for each in (model, loaded)]
        assert receipts[0].residual == receipts[1].residual
        assert receipts[0].remaining == receipts[1].remaining == M + 1
        assert same(loaded.coef_, model.coef_)
        assert same(loaded.intercept_, model.intercept_)
        assert loaded.certificate_ == model.certificate_
        once_more = again(loaded, tmp_path)
        assert same(once_more.coef_, model.coef_)
        for each in (model, once_more):
            each.forget_rows(X[4:6], y[4:6])
        assert same(once_more.coef_, model.coef_)

    def test_equals_a_fit_of_what_is_left(self, tmp_path):
        model, X, y = streamed("LSSVC")
        loaded = again(model, tmp_path)
        weights = np.linspace(0.5, 1.5, M)
        loaded.forget_rows(X[:6], y[:6], weights[:6])
        fresh = LSSVC(C=3.0, kernel="linear").fit(X[6:], y[6:], sample_weight=weights[6:])
        assert np.allclose(again(loaded, tmp_path).coef_, fresh.coef_, rtol=1e-9, atol=1e-11)

    @pytest.mark.parametrize(
        "labels", [np.array(["a", "\u00e4"], dtype=object), np.array([0.0, 1.0]), np.array([False, True])]
    )
    def test_kinds_of_labels(self, tmp_path, labels):
        X, _ = data("binary", M, seed=0)
        y = labels[np.arange(M) % 2]
        model = LSSVC(kernel="linear").fit(ArraySource(X, y))
        loaded = again(model, tmp_path)
        assert loaded.classes_.dtype == model.classes_.dtype
        assert loaded.predict(X).tolist() == model.predict(X).tolist()
        loaded.learn(X[:1], y[:1])

    def test_squared_loss_without_sums(self, tmp_path, monkeypatch):
        """As of many columns, whose scatter nobody wants to hold."""
        monkeypatch.setattr(products, "WIDE", 3)
        X, y = data("multi", M, seed=3)
        model = LSSVC(C=3.0, kernel="linear").fit(ArraySource(X, y))
        assert model._state.sums is None
        loaded = again(model, tmp_path)
        assert same(loaded.predict_proba(X), model.predict_proba(X))
        with pytest.raises(ValueError, match="not formed for so many columns"):
            loaded.learn(X[:4], y[:4])

    def test_a_copy_keeps_its_probabilities(self):
        model, X, _ = streamed("LSSVC")
        assert same(copy.copy(model).predict_proba(X), model.predict_proba(X))

    def test_column_names(self, tmp_path):
        X, y = data("binary", M, seed=0)
        model = LSSVC(kernel="linear").fit(ArraySource(X, y))
        model.feature_names_in_ = np.array(["a", "b", "c", "d"], dtype=object)  # As of a Parquet source.
        loaded = again(model, tmp_path)
        assert loaded.feature_names_in_.tolist() == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("name", ["LSSVC", "LSSVR"])
    def test_nothing_of_a_forgotten_row(self, tmp_path, name):
        kind = "regression" if name == "LSSVR" else "multi"
        X, y = data(kind, M, seed=0)
        weights = np.linspace(0.5, 1.5, M)
        X[6], weights[6] = ROW, WEIGHT
        y[6] = VALUE if name == "LSSVR" else "low"
        model = clone(STREAMED[name]).set_params(kernel="linear").fit(ArraySource(X, y, weights))
        model.predict_proba(X) if name == "LSSVC" else None
        before = model._state.sums
        derived = [*before._size, *before.mean, *before.spread, before.total, *model.coef_.ravel()]
        again(model, tmp_path)
        assert len(in_file(tmp_path, derived)) == len(derived)
        model.forget_rows(X[6:7], y[6:7], weights[6:7])
        again(model, tmp_path)
        assert in_file(tmp_path, [*derived, *ROW, WEIGHT, VALUE, *before._size]) == []
        assert "above" not in header_of(tmp_path)["arrays"]

    def test_what_the_sums_have_lost_is_kept_in_two_digits(self, tmp_path):
        X, y = data("regression", M, seed=0)
        X[0] *= 30.0
        model = LSSVR(kernel="linear").fit(ArraySource(X, y))
        model.forget_rows(X[:1], y[:1])
        lost = model._state.sums.loss_of_digits()
        assert lost > 2.0
        loaded = again(model, tmp_path)
        assert loaded._state.sums.loss_of_digits() == pytest.approx(float(f"{lost:.1e}"))
        assert repr(lost) not in str(header_of(tmp_path))

    def test_saving_many_times_does_not_wear_the_sums_out(self, tmp_path):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(400, 3)), rng.normal(size=400)
        model = LSSVR(kernel="linear").fit(ArraySource(X, y))
        for row in range(40):
            model = again(model, tmp_path)
            model.forget_rows(X[row : row + 1], y[row : row + 1])
        assert model._state.sums.loss_of_digits() < 2.0
        fresh = LSSVR(kernel="linear").fit(X[40:], y[40:])
        assert np.allclose(model.coef_, fresh.coef_, rtol=1e-10, atol=1e-12)

    def test_history_counts_rows(self, tmp_path):
        model, X, y = streamed("LSSVR")
        loaded = again(model, tmp_path)
        assert [(e.action, e.rows) for e in Record.of(loaded).history.events] == [("save", M)]
        loaded.learn(X[:2], y[:2])
        loaded = again(loaded, tmp_path)
        assert [(e.action, e.rows) for e in Record.of(loaded).history.events] == [("save", M + 2)]
        again(LSSVR(kernel="linear").fit(X, y), tmp_path)
        loaded = squaresvm.load(tmp_path / "a.model").fit(ArraySource(X, y))
        assert Record.of(loaded).history.events == ()  # It belongs to the rows of the file.
