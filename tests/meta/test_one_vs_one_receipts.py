"""Models of pairs of classes have one chain of receipts, and prove absence, like any other."""

from __future__ import annotations

import numpy as np
import pytest

import squaresvm
from squaresvm import LSSVC, LSSVCCV, RLSSVC, OneVsOne, Window, check_absence, check_chain
from support.forged import arrays_of, opened, with_arrays
from support.receipts import rows


def pairs_after_requests(**options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.array(["a", "b", "c"])[np.arange(40) % 3]
    weights = np.ones(40)
    weights[7] = 0.0
    model = OneVsOne(LSSVC(**options)).fit(X[:30], y[:30], weights[:30])
    model.learn(X[30:38], y[30:38])
    model.forget([3, 31])
    model.learn(X[38:], ["d", "d"])  # A class that nobody knew.
    return model


def test_models_of_pairs_have_one_chain(tmp_path):
    model = pairs_after_requests(class_weight="balanced")
    chain = model.receipts_
    assert [(r.kind, r.rows_before, r.remaining, len(r.id_hashes)) for r in chain] == [
        ("fit", 0, 30, 0),
        ("learn", 30, 38, 0),
        ("forget", 38, 36, 2),
        ("learn", 36, 38, 0),
    ]
    assert check_chain(chain) == []
    assert all(r.residual < 1e-6 for r in chain)
    assert set(chain[-1].moved) == {"gamma", "class_weight", "columns"}
    assert squaresvm.verify(model, receipts=chain, absent=3).ok
    squaresvm.save(model, tmp_path / "a.model")
    again = squaresvm.load(tmp_path / "a.model")
    assert again.receipts_ == chain
    receipt = again.forget([5, 7], verify=True)
    assert (receipt.number, receipt.remaining, receipt.sampled) == (4, 36, False)
    assert receipt.hash == again.receipts_[-1].hash
    assert check_absence(again.prove_absence(7), receipt.commitment) == []
    with pytest.raises(ValueError, match="is held"):
        again.prove_absence(8)
    assert again.refit().receipts_[-1].kind == "refit"
    assert again.refit_due() == ()
    verdict = squaresvm.verify(again, receipts=chain)
    assert verdict.ok
    assert "no receipts" not in " ".join(verdict.notes)


def test_a_class_of_a_pair_that_goes_takes_its_idle_rows_out_of_the_digest():
    model = pairs_after_requests()
    gone = [name for name, label in zip(model.ids_, model._votes.rows.y, strict=True) if label == "b"]
    receipt = model.forget([name for name in gone if name != 7])
    assert receipt.classes_gone == ("b",)
    assert receipt.ids == tuple(gone)
    assert squaresvm.verify(model).ok


def test_windows_of_pairs_have_receipts():
    X, y = rows(60)
    y = np.where(np.arange(60) % 3 == 0, "maybe", y)
    window = Window(OneVsOne(RLSSVC()), size=40, half_life=30.0).fit(X[:40], y[:40])
    window.learn(X[40:50], y[40:50])
    assert [r.kind for r in window.receipts_] == ["fit", "learn", "forget", "refit"]
    assert squaresvm.verify(window).ok
    assert check_chain(window.receipts_) == []


@pytest.mark.parametrize("what", ["row", "label", "pair", "id"])
def test_what_is_changed_in_a_model_of_pairs_contradicts_its_receipt(what, tmp_path):
    model = pairs_after_requests()
    squaresvm.save(model, tmp_path / "a.model")
    header, body = opened((tmp_path / "a.model").read_bytes())
    arrays = arrays_of(header, body)
    row = int(np.flatnonzero(arrays["weights"] == 0.0)[0])  # It has no say: only digests can tell.
    if what == "row":
        arrays["rows"][row, 0] += 1e-12
    elif what == "label":
        arrays["y"][row] = "c"
    elif what == "id":
        arrays["ids"][row] += 1 - 2 * (row > 0)
    else:
        header["pairs"][0]["settings"]["C"] *= 1.0 + 1e-15
    (tmp_path / "a.model").write_bytes(with_arrays(header, arrays))
    try:
        faults = squaresvm.verify(tmp_path / "a.model").faults
    except squaresvm.files.ModelFileError as error:  # Ids out of order, or a row that fits no pair.
        faults = (str(error),)
    assert faults


def test_pairs_that_were_searched_go_on_from_a_file(tmp_path):
    """Their gamma was chosen by scores: no number of the fit that could have moved."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    model = OneVsOne(LSSVCCV(Cs=[1.0, 2.0], gammas=[0.1, 0.3])).fit(X, y)
    squaresvm.save(model, tmp_path / "a.model")
    again = squaresvm.load(tmp_path / "a.model")
    again.forget([3], verify=True)
    assert [sorted(each.resolved) for each in again.receipts_] == [["columns", "figures"]] * 2
    assert squaresvm.verify(again, receipts=model.receipts_, absent=3).ok
