"""Receipts: what they say, that a chain shows any change to itself, and that digests are of the rows held."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, OneVsOne, Receipt, Window, check_absence, check_chain
from squaresvm.evidence.chain import check_known
from squaresvm.evidence.hashes import AbsenceProof, Tree, digest_of, id_hash, lanes_of, row_hashes
from squaresvm.streaming import ArraySource
from support.histories import ESTIMATORS
from support.receipts import history, rehashed, rows
from support.round_trips import again


def digest(model):
    """Return the digest of the rows held, from the rows."""
    held, key = model._state.rows, model._log.key
    given = held.weights if held.given is None else held.given
    return digest_of(lanes_of(row_hashes(key, held.X, held.y, given, held.ids.values)))


def test_what_receipts_say():
    model = history()
    chain = model.receipts_
    assert [r.number for r in chain] == list(range(6))
    assert [r.kind for r in chain] == ["fit", "learn", "forget", "forget", "refit", "learn"]
    assert [(r.rows_before, r.remaining) for r in chain] == [
        (0, 20),
        (20, 30),
        (30, 29),
        (29, 26),
        (26, 26),
        (26, 27),
    ]
    assert [len(r.id_hashes) for r in chain] == [0, 0, 1, 3, 0, 0]
    assert chain[2].id_hashes == (id_hash(model._log.key, 3),)
    assert all(r.ids == () and r.classes_gone == () for r in chain)
    assert all(r.checked == r.remaining and not r.sampled for r in chain)
    assert chain[-1].resolved["gamma"] == model.gamma_
    assert chain[-1].versions["squaresvm"] == squaresvm.__version__
    assert check_chain(chain) == []
    assert model.receipts_ == chain


@pytest.mark.parametrize("name", list(ESTIMATORS))
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_digests_are_those_of_the_rows_after_each_request(name, kernel, tmp_path):
    """A log that is asked after every request, and one that is asked once, say the same."""
    cls, options = ESTIMATORS[name]
    X, y = rows()
    y = X[:, 1] if cls is LSSVR else y
    lazy, eager = (cls(kernel=kernel, **options).fit(X[:20], y[:20]) for _ in range(2))
    eager._log = lazy._log  # The same key.
    seen = [eager.receipts_[-1].digest]
    for request in (lambda m: m.learn(X[20:], y[20:]), lambda m: m.forget([3, 5]), lambda m: m.refit()):
        request(lazy)
        request(eager)
        seen.append(eager.receipts_[-1].digest)
        assert seen[-1] == digest(eager)
        eager = again(eager, tmp_path)
    assert [r.digest for r in lazy.receipts_] == seen
    assert check_chain(lazy.receipts_) == check_chain(eager.receipts_) == []
    assert pickle.loads(pickle.dumps(lazy)).receipts_ == lazy.receipts_
    assert lazy.receipts_[-1].commitment == eager.receipts_[-1].commitment


def test_no_id_and_no_class_is_in_what_others_read(tmp_path):
    X, y = rows()
    y = y.astype("U9")
    y[[2, 7]] = "unheard"
    model = LSSVC().fit(X, y, ids=[f"person {i}" for i in range(30)])
    receipt = model.forget(["person 2", "person 7"])
    assert receipt.ids == ("person 2", "person 7")
    assert receipt.classes_gone == ("unheard",)
    text = json.dumps([r.to_json() for r in (*model.receipts_, receipt)])
    assert "person" not in text
    assert "unheard" not in text
    squaresvm.save(model, tmp_path / "a.model")
    assert b"person 7" not in (tmp_path / "a.model").read_bytes()


def test_verify_seals_at_once():
    X, y = rows(300)
    model = LSSVC().fit(X, y)
    receipt = model.forget([3], verify=True)
    assert receipt.ids == (3,)
    assert not receipt.sampled
    assert receipt.checked == 299
    assert receipt.hash == model.receipts_[-1].hash == receipt.hashed()


def test_json_there_and_back():
    for receipt in history().receipts_:
        found = Receipt.from_json(json.loads(json.dumps(receipt.to_json())))
        assert found == receipt
        assert found.hashed() == found.hash


@pytest.mark.parametrize(
    "change",
    [
        {"number": "3"},
        {"kind": "forgot"},
        {"time": "yesterday"},
        {"rows": 1.5},
        {"id_hashes": [3]},
        {"moved": []},
        {"more": 1},
        {"residual": "small"},
        {"sampled": 0},
    ],
)
def test_what_is_no_receipt_is_refused(change):
    said = history().receipts_[3].to_json()
    with pytest.raises(ValueError, match=r"not a receipt|Invalid isoformat"):
        Receipt.from_json({**said, **change})
    for wrong in (None, [], {}, {"number": 3}):
        with pytest.raises(ValueError, match="not a receipt"):
            Receipt.from_json(wrong)


# Chains ------------------------------------------------------------------------------------------------

CHAIN = history().receipts_


@given(place=st.integers(1, 4))
def test_a_receipt_that_was_dropped_is_named(place):
    chain = [r for r in CHAIN if r.number != place]
    assert check_chain(chain)[0] == f"receipt {place} is missing: number {place + 1} stands in its place"


def test_a_first_receipt_that_was_dropped_is_named():
    assert check_chain(CHAIN[1:])[0] == "receipt 0 is missing: number 1 stands in its place"


@given(places=st.lists(st.integers(0, 5), min_size=2, max_size=2, unique=True))
def test_receipts_that_were_swapped_are_named(places):
    chain = list(CHAIN)
    i, j = sorted(places)
    chain[i], chain[j] = chain[j], chain[i]
    assert "swapped" in check_chain(chain)[0]
    assert f"number {j} stands where {i} should" in check_chain(chain)[0]


@given(place=st.integers(0, 5), seal=st.booleans(), data=st.data())
def test_a_receipt_that_was_edited_is_named(place, seal, data):
    name, value = data.draw(
        st.sampled_from(
            [
                ("remaining", 7),
                ("residual", 0.5),
                ("time", "2020-01-01T00:00:00+00:00"),
                ("id_hashes", ("ab",)),
                ("digest", "0" * 64),
                ("kept", ("nothing",)),
                ("moved", {"gamma": 0.5}),
            ]
        )
    )
    chain = list(CHAIN)
    chain[place] = replace(chain[place], **{name: value})
    if seal:
        chain[place] = rehashed(chain[place])
    faults = check_chain(chain)
    if not seal:
        assert faults[0] == f"receipt {place} was edited: its hash is not that of what it says"
    elif place < 5:
        assert any(f"receipt {place} was edited or replaced" in fault for fault in faults)
    assert check_known(chain, CHAIN)  # Who kept the receipts sees it in any case.
    assert check_known(CHAIN, CHAIN) == []


@given(place=st.integers(0, 5))
def test_a_receipt_that_was_added_is_named(place):
    twice = [*CHAIN[: place + 1], *CHAIN[place:]]
    assert any(f"receipt {place} was added: the number occurs 2 times" in f for f in check_chain(twice))
    forged = rehashed(replace(CHAIN[place], number=6, previous="f" * 64))
    assert "receipt 6 was added" in check_chain([*CHAIN, forged])[0]
    assert check_known(CHAIN, [forged])


def test_a_receipt_that_does_not_add_up_is_named():
    forged = replace(CHAIN[5], rows=2)
    assert any("does not add up" in fault for fault in check_chain([*CHAIN[:5], rehashed(forged)]))


# Hashes ------------------------------------------------------------------------------------------------


def test_rows_are_hashed_by_their_numbers():
    X, y = rows()
    X[X < 0.3] = 0.0
    ids = np.arange(30)
    plain = list(row_hashes(b"k", X, y, np.ones(30), ids))
    assert list(row_hashes(b"k", sp.csr_matrix(X), y, None, ids)) == plain
    wider = np.hstack([X, np.zeros((30, 2))])
    assert list(row_hashes(b"k", wider, y, None, ids)) == plain
    assert len(set(plain)) == 30
    for other in (
        row_hashes(b"j", X, y, None, ids),
        row_hashes(b"k", X * (1 + 1e-15), y, None, ids),
        row_hashes(b"k", X, y[::-1], None, ids),
        row_hashes(b"k", X, y, np.full(30, 2.0), ids),
        row_hashes(b"k", X, y, None, ids + 1),
        row_hashes(b"k", X[:, ::-1], y, None, ids),
    ):
        assert not set(list(other)[1:3]) & set(plain)


# Absence -----------------------------------------------------------------------------------------------


@given(held=st.sets(st.integers(0, 60), max_size=40), asked=st.integers(0, 60))
def test_absence_is_proved_of_those_and_only_those_that_are_absent(held, asked):
    def leaf(n):
        return bytes.fromhex(id_hash(b"key", n)), bytes([n]) * 32

    tree, mark = Tree(map(leaf, held)), id_hash(b"key", asked)
    if asked in held:
        with pytest.raises(ValueError, match="the id is held"):
            tree.prove_absence(mark)
        return
    proof = AbsenceProof.from_json(json.loads(json.dumps(tree.prove_absence(mark).to_json())))
    assert check_absence(proof, tree.root) == []
    assert Tree(map(leaf, sorted(held, reverse=True))).root == tree.root
    assert check_absence(proof, Tree(map(leaf, held | {asked})).root)
    for other in held:
        assert check_absence(replace(proof, id_hash=id_hash(b"key", other)), tree.root)
    for change in ({"index": proof.index + 1}, {"count": proof.count + 1}, {"right": proof.left}):
        assert check_absence(replace(proof, **change), tree.root)
    assert check_absence(replace(proof, left_path=(*proof.left_path, "00")), tree.root)
    assert "damaged" in check_absence(replace(proof, left=("zz", "00")), tree.root)[0]


def test_absence_of_rows_of_a_model():
    model = history()
    proof = model.prove_absence(3)
    assert check_absence(proof, model.receipts_[-1].commitment) == []
    assert proof.id_hash in model.receipts_[2].id_hashes
    with pytest.raises(ValueError, match="a row with id 5 is held"):
        model.prove_absence(5)
    model.forget([5])
    assert check_absence(model.prove_absence(5), model.receipts_[-1].commitment) == []
    assert check_absence(proof, model.receipts_[-1].commitment)  # Of the rows as they were before.
    streamed = LSSVC(kernel="linear").fit(ArraySource(*rows()))
    with pytest.raises(ValueError, match="keeps none"):
        streamed.prove_absence(3)


def test_streams_and_windows_have_receipts():
    X, y = rows()
    model = LSSVC(kernel="linear").fit(ArraySource(X, y))
    model.learn(X[:3], y[:3])
    assert model.forget_rows(X[:2], y[:2]).rows == 2
    assert [(r.kind, r.remaining, r.digest) for r in model.receipts_] == [
        ("fit", 30, ""),
        ("learn", 33, ""),
        ("forget", 31, ""),
    ]
    assert check_chain(model.receipts_) == []
    window = Window(RLSSVC(), size=20).fit(X[:20], y[:20])
    window.learn(X[20:], y[20:])
    assert [r.kind for r in window.receipts_] == ["fit", "learn", "forget"]
    assert check_chain(window.receipts_) == []


def test_refit_is_due_when_numbers_have_moved():
    X, y = rows(100)
    X[90:] *= 10.0
    model = LSSVC(class_weight="balanced").fit(X, y)
    assert model.refit_due() == ()
    model.forget(range(90, 100))
    assert "gamma" in model.refit_due()
    assert model.refit_due(share=1e6) == ()
    assert model.receipts_[-1].moved["gamma"] > 1.0
    assert model.refit().refit_due() == ()
    with pytest.raises(ValueError, match="share"):
        model.refit_due(share=0.0)


@pytest.mark.parametrize("model", [LSSVC(), OneVsOne(LSSVC())])
def test_refit_is_due_when_columns_of_a_pipeline_have_moved(model):
    X, y = rows(60)
    X[50:, 1] += 30.0
    X[:, 2] = 5.0  # No deviation: it never moves.
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    squaresvm.forget(pipeline, [3])
    last = pipeline.steps[-1][1]
    moved = last.receipts_[-1].moved["columns"]
    assert set(moved) == {"x0", "x1", "x2"}
    assert max(abs(v) for pair in moved.values() for v in pair) < 0.1
    receipt = squaresvm.forget(pipeline, range(50, 60), verify=True)
    assert "StandardScaler" in receipt.kept[0]
    scaler, rest = pipeline.steps[0][1], np.delete(X, [3, *range(50, 60)], axis=0)
    expected = (rest.mean(axis=0) - scaler.mean_) / scaler.scale_, rest.std(axis=0) / scaler.scale_
    for column in (0, 1):
        found = receipt.moved["columns"][f"x{column}"]
        assert found == pytest.approx([expected[0][column], expected[1][column] - 1.0], abs=0.006)
    assert receipt.moved["columns"]["x2"] == [0.0, 0.0]
    assert "x1" in last.refit_due()


def test_a_copy_goes_its_own_way():
    import copy

    model = history()
    other = copy.copy(model)
    model.forget([5])
    other.forget([6])
    assert check_chain(model.receipts_) == check_chain(other.receipts_) == []
    assert [r.hash for r in model.receipts_[:6]] == [r.hash for r in other.receipts_[:6]]
    assert model.receipts_[6].hash != other.receipts_[6].hash
