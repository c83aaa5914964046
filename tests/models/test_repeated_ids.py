"""Ids that several rows have: an id leaves with all of its rows, and the model equals a fit of the rest."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, OneVsOne, Window, check_absence, check_chain, prune
from support import histories
from support.commands import people, run, told
from support.histories import PLAIN, PROBES, History, data, values, weights_with_zeros

NAMES = ["anna", "bert", 7, ("ward", 3)]


def kind_of(name):
    return "regression" if histories.is_regression(name) else "multi"


def grown(name, kernel, seed, steps):
    """Return a history of requests with few ids for many rows, and the largest number of rows that left."""
    rng = np.random.default_rng(seed)
    X, y = data(kind_of(name), 30, seed)
    ids = [(i, "first") if i < 9 else NAMES[rng.integers(4)] for i in range(30)]
    # The first rows have ids of their own and all classes, so that no class leaves.
    y[:9] = y[:9] if kind_of(name) == "regression" else np.resize(["low", "mid", "high"], 9)
    weights = np.ones(30) if kernel == "precomputed" else np.append(np.ones(9), weights_with_zeros(21, seed))
    history = History(histories.estimator(name, kernel), kernel, X, y, weights, ids)
    most = 0
    for step in steps:
        held = Counter(name for name in history.ids if name in NAMES)
        if step < 4 and NAMES[step] in held:
            receipt = history.forget([NAMES[step]])
            assert receipt.ids == (NAMES[step],)
            assert receipt.rows == held[NAMES[step]]
            assert receipt.remaining == len(history.ids)
            most = max(most, receipt.rows)
        else:
            new = data(kind_of(name), 3, seed + step)
            history.learn(*new, ids=[NAMES[step % 4], NAMES[(step + 1) % 4], NAMES[step % 4]])
    return history, most


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("name", PLAIN)
def test_histories_equal_a_fit_of_the_rest(name, kernel):
    history, most = grown(name, kernel, 3, [1, 5, 2, 1, 6, 0])
    assert most > 1
    history.assert_as_if_never_seen()


@given(
    st.sampled_from(["LSSVC-balanced", "RLSSVC", "LSSVR"]),
    st.integers(0, 1000),
    st.lists(st.integers(0, 7), max_size=6),
)
@settings(max_examples=15, deadline=None)
def test_any_history(name, seed, steps):
    history, _ = grown(name, "rbf", seed, steps)
    history.assert_as_if_never_seen()
    assert check_chain(history.model.receipts_) == []
    assert squaresvm.verify(history.model).ok


def customers(m=40, seed=0, cls=LSSVC, kind="multi", **parameters):
    """Return a model whose rows belong to few customers, with its rows, labels and ids."""
    X, y = data(kind, m, seed)
    ids = np.array([f"c{i}" for i in np.random.default_rng(seed).integers(12, size=m)])
    return cls(**{"C": 3.0, "gamma": 0.3, **parameters}).fit(X, y, ids=ids), X, y, ids


def assert_equal_values(model, other, atol=1e-8):
    np.testing.assert_allclose(values(model, PROBES), values(other, PROBES), rtol=0, atol=atol)


class TestRequests:
    @pytest.mark.parametrize(
        ("wanted", "error", "match"),
        [
            (["c1", "c2", "c1"], ValueError, "id 'c1' is given twice"),
            (["c1", "nobody"], KeyError, "no row with id 'nobody' is held"),
            ([f"c{i}" for i in range(12)], ValueError, "all rows"),
            ("c1", ValueError, "sequence of ids"),
        ],
        ids=["twice", "unknown", "all", "string"],
    )
    @pytest.mark.parametrize("paired", [False, True], ids=["plain", "pairs"])
    def test_bad_ones_change_nothing(self, paired, wanted, error, match):
        model, X, y, ids = customers()
        model = OneVsOne(model).fit(X, y, ids=ids) if paired else model
        before = model.decision_function(X)
        with pytest.raises(error, match=None if paired and "all" in match else match):
            model.forget(wanted)
        assert model.ids_.tolist() == ids.tolist()
        np.testing.assert_array_equal(model.decision_function(X), before)

    def test_no_row_is_left_even_where_all_rows_are_one_customers_but_two(self):
        X, y = data("binary", 20, 1)
        y[:2] = ["no", "yes"]
        model = LSSVC(gamma=0.3).fit(X, y, ids=["a", "b"] + ["c"] * 18)
        assert model.forget(["c"]).rows == 18
        assert_equal_values(model, LSSVC(gamma=0.3).fit(X[:2], y[:2]))

    def test_equal_rows_with_equal_ids_are_counted_one_by_one(self):
        X, y = data("binary", 12, 1)
        X, y, ids = np.vstack([X, X]), np.concatenate([y, y]), [*range(12), *range(12)]
        model = LSSVC(gamma=0.3).fit(X, y, ids=ids)
        assert model.forget([3]).rows == 2
        assert squaresvm.verify(model).ok
        assert squaresvm.verify(model, data=(np.delete(X, [3, 15], axis=0), np.delete(y, [3, 15]))).ok
        assert not squaresvm.verify(model, data=(np.delete(X, 3, axis=0), np.delete(y, 3))).ok

    def test_the_receipt_and_the_proof_are_of_the_id(self):
        model, *_ = customers()
        with pytest.raises(ValueError, match="a row with id 'c4' is held"):
            model.prove_absence("c4")
        model.forget(["c4", "c5"])
        last = model.receipts_[-1]
        assert len(last.id_hashes) == 2 < last.rows
        proof = model.prove_absence("c4")
        assert proof.id_hash == last.id_hashes[0]
        assert check_absence(proof, last.commitment) == []
        assert check_chain(model.receipts_) == []

    def test_pruning_drops_rows_and_not_ids(self):
        model, X, y, ids = customers()
        plain = LSSVC(C=3.0, gamma=0.3).fit(X, y)
        pruned, alike = prune(model, budget=20, share=0.2), prune(plain, budget=20, share=0.2)
        assert [each.rows for each in pruned.rounds] == [each.rows for each in alike.rounds]
        assert [each.score for each in pruned.rounds] == [each.score for each in alike.rounds]
        assert pruned.model.ids_.tolist() == ids[alike.model.ids_].tolist()
        assert squaresvm.verify(pruned.model).ok


class TestFiles:
    @pytest.mark.parametrize("paired", [False, True], ids=["plain", "pairs"])
    @pytest.mark.parametrize("cls", [LSSVC, RLSSVC])
    def test_round_trip_goes_on(self, tmp_path, cls, paired):
        model, X, y, ids = customers(cls=cls, tol=1e-10)
        model = OneVsOne(model).fit(X, y, ids=ids) if paired else model
        model.forget(["c2"])
        squaresvm.save(model, tmp_path / "m.model")
        back = squaresvm.load(tmp_path / "m.model")
        assert back.ids_.tolist() == model.ids_.tolist()
        assert squaresvm.verify(tmp_path / "m.model").ok
        assert back.forget(["c3"]).rows == int((ids == "c3").sum()) > 1
        rest = ~np.isin(ids, ["c2", "c3"])
        assert_equal_values(back, type(model)(**model.get_params(deep=False)).fit(X[rest], y[rest]))


class TestWindow:
    @pytest.mark.parametrize("paired", [False, True], ids=["plain", "pairs"])
    def test_by_count_drops_rows_and_not_ids(self, paired):
        _, X, y, ids = customers(60)
        inner = LSSVC(C=3.0, gamma=0.3)
        inner = OneVsOne(inner) if paired else inner
        window = Window(inner, size=25).fit(X[:30], y[:30], ids=ids[:30])
        for i in range(30, 60, 5):
            window.learn(X[i : i + 5], y[i : i + 5], ids=ids[i : i + 5])
        assert window.ids_.tolist() == ids[35:].tolist()
        assert_equal_values(window, inner.fit(X[35:], y[35:]))
        assert squaresvm.verify(window).ok  # An id that is still held has not left with an older row.

    def test_by_age_forgets_an_id_with_its_times(self):
        X, y = data("regression", 40, 2)
        ids, times = np.arange(40) % 7, np.arange(40) / 2
        window = Window(LSSVR(gamma=0.3), size=15.0)
        window.fit(X[:20], y[:20], ids=ids[:20], times=times[:20])
        window.learn(X[20:], y[20:], ids=ids[20:], times=times[20:])
        rest = np.flatnonzero((times > times[-1] - 15.0) & (ids != 4))
        assert window.forget([4]).remaining == rest.size
        assert window.times_.tolist() == times[rest].tolist()
        assert_equal_values(window.estimator_, LSSVR(gamma=0.3).fit(X[rest], y[rest]))
        assert check_chain(window.receipts_) == []

    def test_receipts_name_ids_of_which_nothing_is_left(self):
        X, y = data("regression", 6, 2)
        window = Window(LSSVR(gamma=0.3), size=3).fit(X[:3], y[:3], ids=["a", "b", "a"])
        window.learn(X[3:4], y[3:4], ids=["c"])  # "a" has a row left.
        assert [len(each.id_hashes) for each in window.receipts_[-1:]] == [0]
        assert squaresvm.verify(window).ok
        window.learn(X[4:], y[4:], ids=["c", "d"])  # "b" and the other row of "a" leave.
        assert len(window.receipts_[-1].id_hashes) == 2
        assert squaresvm.verify(window).ok


class TestPairs:
    def test_one_customer_in_many_classes(self):
        _, X, y, ids = customers(60)
        model = OneVsOne(LSSVC(C=3.0, gamma=0.3)).fit(X[:50], y[:50], ids=ids[:50])
        model.learn(X[50:], y[50:], ids=ids[50:])
        assert len(set(y[ids == "c6"])) > 1
        receipt = model.forget(["c6", "c1"])
        rest = ~np.isin(ids, ["c6", "c1"])
        assert (receipt.ids, receipt.rows) == (("c6", "c1"), int((~rest).sum()))
        fresh = OneVsOne(LSSVC(C=3.0, gamma=0.3)).fit(X[rest], y[rest])
        assert_equal_values(model, fresh)
        np.testing.assert_allclose(model.loo_decision_function(), fresh.loo_decision_function(), atol=1e-8)
        np.testing.assert_allclose(
            model.cross_decision_function(4), fresh.cross_decision_function(4), atol=1e-8
        )
        assert squaresvm.verify(model, data=(X[rest], y[rest])).ok


class TestIndexOfAFrame:
    @pytest.mark.parametrize("paired", [False, True], ids=["plain", "pairs"])
    def test_serves_as_ids(self, paired):
        _, X, y, ids = customers()
        frame = pd.DataFrame(X, columns=list("pqrs"), index=ids)
        model = OneVsOne(LSSVC(gamma=0.3)) if paired else LSSVC(gamma=0.3)
        model.fit(frame[:30], y[:30], ids="index")
        model.learn(frame[30:35], y[30:35], ids="index")
        model.partial_fit(frame[35:], y[35:], ids="index")
        assert model.ids_.tolist() == ids.tolist()
        assert model.forget(["c3"]).rows == int((ids == "c3").sum())

    def test_of_several_levels_and_rows_that_wait(self):
        X, y = data("binary", 12, 0)
        y[:] = np.repeat(["no", "yes"], 6)
        index = pd.MultiIndex.from_product([["u", "v"], [1, 2], [0, 0, 0]]).droplevel(2)
        frame = pd.DataFrame(X, index=index)
        model = LSSVC(gamma=0.3).partial_fit(frame[:6], y[:6], classes=["no", "yes"], ids="index")
        model.partial_fit(frame[6:], y[6:], ids="index")
        assert model.ids_.tolist() == index.tolist()
        assert model.forget([("u", 2)]).rows == 3

    def test_in_a_window(self):
        X, y = data("regression", 6, 0)
        frame = pd.DataFrame(X, index=[1, 1, 2, 2, 3, 3])
        window = Window(LSSVR(gamma=0.3), size=4).fit(frame[:4], y[:4], ids="index")
        assert window.learn(frame[4:], y[4:], ids="index").ids_.tolist() == [2, 2, 3, 3]

    @pytest.mark.parametrize("ids", ["index", "Index"])
    def test_bare_arrays_and_other_words_are_refused(self, ids):
        X, y = data("binary", 12, 0)
        frame = pd.DataFrame(X, columns=list("pqrs"), index=["a"] * 12)
        match = (
            "index of a pandas data frame, and X is of type ndarray" if ids == "index" else "sequence of ids"
        )
        for model in (LSSVC(gamma=0.3), OneVsOne(LSSVC(gamma=0.3))):
            with pytest.raises(ValueError, match=match):
                model.fit(X, y, ids=ids)
            model.fit(frame, y, ids="index")
            with pytest.raises(ValueError, match=match):
                model.learn(X if ids == "index" else frame, y, ids=ids)
            assert model.ids_.size == 12


class TestCommands:
    def test_a_column_that_repeats(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        head, *lines = people(40)
        cells = [line.split(",", 1)[1] for line in lines]
        first = [f"{i % 9},{rest}" for i, rest in enumerate(cells[:30])]
        later = [f"{name},{rest}" for name, rest in zip(["4", "new", "4", "11"], cells[30:], strict=False)]
        (tmp_path / "a.csv").write_text("\n".join([head, *first]))
        (tmp_path / "b.csv").write_text("\n".join([head, *later]))
        run("train", "a.csv", "--id", "name", "-o", "m.model")
        run("learn", "m.model", "b.csv")
        told_of = told("forget", "m.model", "--ids", "4,new")
        assert (told_of["ids"], told_of["rows"], told_of["remaining"]) == ([4, "new"], 6, 28)
        assert set(squaresvm.load("m.model").ids_.tolist()) == {0, 1, 2, 3, 5, 6, 7, 8, 11}
        assert squaresvm.verify("m.model").ok
        assert "id 3 is given twice" in run("forget", "m.model", "--ids", "3,3", code=2).output

    def test_numbers_beside_text_stay_text(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        head, *lines = people(24)
        cells = [line.split(",", 1)[1] for line in lines]
        names = [*["7", "anna", "bert"] * 7, "7", "7", "7"]
        table = [f"{name},{rest}" for name, rest in zip(names, cells, strict=True)]
        (tmp_path / "a.csv").write_text("\n".join([head, *table[:21]]))
        (tmp_path / "b.csv").write_text("\n".join([head, *table[21:]]))
        run("train", "a.csv", "--id", "name", "-o", "m.model")
        run("learn", "m.model", "b.csv")
        assert told("forget", "m.model", "--ids", "7")["rows"] == 10
