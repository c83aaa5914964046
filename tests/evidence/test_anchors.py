"""Anchors: one receipt in place of many, which commits to them, so that files level off."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import squaresvm
from squaresvm import LSSVC, Receipt, check_chain
from squaresvm.evidence.chain import check_known
from squaresvm.evidence.receipt import append_receipts, read_receipts
from support.receipts import history, rehashed, rows


def test_an_anchor_stands_for_all_receipts_before_it(tmp_path):
    model, kept = history(), tmp_path / "kept.jsonl"
    earlier = model.anchor_receipts(kept)
    (anchor,) = model.receipts_
    assert (anchor.kind, anchor.number, anchor.previous) == ("anchor", 6, earlier[-1].hash)
    assert anchor.before == {"receipts": 6, "since": earlier[0].time, "learned": 31, "forgotten": 4}
    assert model.anchor_receipts(kept) == ()
    assert read_receipts(kept) == list(earlier)
    assert squaresvm.verify(model, receipts=kept, absent=3).ok
    model.forget([5])
    model.learn(*(part[:1] for part in rows()))
    assert check_chain(model.receipts_) == check_chain([*earlier, *model.receipts_]) == []
    again = pickle.loads(pickle.dumps(model))
    later = again.anchor_receipts(kept)
    assert again.receipts_[0].before == {**anchor.before, "receipts": 9, "learned": 32, "forgotten": 5}
    assert check_chain([*earlier, *later, *again.receipts_]) == []
    squaresvm.save(again, tmp_path / "a.model")
    assert squaresvm.load(tmp_path / "a.model").receipts_ == again.receipts_
    assert squaresvm.verify(tmp_path / "a.model", receipts=kept).ok
    assert Receipt.from_json(json.loads(json.dumps(anchor.to_json()))) == anchor


def test_files_level_off_where_receipts_are_anchored(tmp_path):
    X, y = rows(60)
    model, sizes = LSSVC().fit(X, y), []
    for name in range(40):
        model.forget([name])
        model.learn(X[name : name + 1], y[name : name + 1])
        if len(model.receipts_) >= 10:
            model.anchor_receipts(tmp_path / "kept.jsonl")
        squaresvm.save(model, tmp_path / "a.model")
        sizes.append((tmp_path / "a.model").stat().st_size)
    # The history has a short line a request; a receipt takes ten times as much.
    assert max(sizes[20:]) < max(sizes[:20]) + 20 * 200
    assert check_chain([*read_receipts(tmp_path / "kept.jsonl"), *model.receipts_]) == []


ANCHORED = history()
EARLIER = ANCHORED.anchor_receipts()
ANCHORED.forget([5])
LATER = ANCHORED.receipts_


@given(place=st.integers(0, 5))
def test_receipts_from_before_an_anchor_are_held_against_it(place):
    assert check_known(LATER, EARLIER[place:]) == []
    forged = list(EARLIER)
    forged[place] = rehashed(replace(forged[place], residual=0.25))
    assert f"receipt {place}, which was given, is another one" in " ".join(check_known(LATER, forged[place:]))
    if place < 5:  # One alone, or with a gap behind it, cannot be led to the anchor, and that is said.
        assert "cannot be held against the anchor" in check_known(LATER, [EARLIER[place]])[0]


def test_an_anchor_that_is_forged_is_named():
    anchor, after = LATER
    for change in (
        {"number": 5},
        {"previous": ""},
        {"remaining": 3},
        {"before": {**anchor.before, "receipts": 2}},
    ):
        forged = rehashed(replace(anchor, **change))
        faults = check_chain([forged, after])
        assert any("anchor" in fault or "missing" in fault for fault in faults), change
        assert check_known([forged, after], EARLIER) or any("does not follow" in f for f in faults)
    assert check_chain([after])[0] == "receipt 0 is missing: number 7 stands in its place"
    whole = [*EARLIER[:-1], *LATER]
    assert check_chain(whole)[0] == "receipt 5 is missing: number 6 stands in its place"
    for wrong in ({}, {"receipts": 6}, {**anchor.before, "learned": "31"}):
        with pytest.raises(ValueError, match="what it stands for"):
            Receipt.from_json({**anchor.to_json(), "before": wrong})


def test_a_line_half_written_goes_when_receipts_are_added(tmp_path):
    path = tmp_path / "kept.jsonl"
    append_receipts(path, EARLIER[:2])
    path.write_bytes(path.read_bytes() + b'{"number": 2, "ki')
    append_receipts(path, EARLIER[1:])
    assert read_receipts(path) == list(EARLIER)
