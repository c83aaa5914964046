"""The verifier on receipts: histories that are honest raise no alarm, and whatever is forged is named."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import squaresvm
from squaresvm import LSSVC, RLSSVC, AbsenceProof, Receipt, check_absence
from squaresvm.cli.app import app
from support import forgeries
from support.forged import arrays_of, opened, with_arrays


@pytest.mark.parametrize("seed", range(60))
def test_forgeries_are_caught_and_honest_histories_are_not(seed, tmp_path):
    """More of this is in benchmarks/bench_forgeries.py."""
    case = forgeries.honest(seed, tmp_path)
    assert case.verdict().faults == ()
    for kind in forgeries.KINDS:
        faults = case.forged(kind, np.random.default_rng(seed))
        assert faults != (), f"{kind}: {case.describe()}"
    kind = forgeries.KINDS[seed % len(forgeries.KINDS)]
    if kind not in forgeries.NEEDS_RECEIPTS:  # The file alone tells.
        assert case.forged(kind, np.random.default_rng(seed), is_alone=True) != (), kind


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    model = RLSSVC(C=3.0).fit(X, X[:, 0] > 0, ids=[f"p{i}" for i in range(40)])
    model.forget(["p3"])
    squaresvm.save(model, tmp_path / "a.model")
    return tmp_path / "a.model"


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


def test_receipts_are_printed_kept_and_compared(path, tmp_path):
    kept = tmp_path / "receipts.jsonl"
    kept.write_text(run("receipts", path).stdout)
    lines = [Receipt.from_json(json.loads(line)) for line in kept.read_text().splitlines()]
    assert [receipt.kind for receipt in lines] == ["fit", "forget"]
    run("verify", path, "--receipts", kept)
    done = json.loads(run("forget", path, "--ids", "p5,p6", "--verify", "--json").stdout)
    assert (done["checked"], done["sampled"], done["remaining"]) == (37, False, 37)
    run("verify", path, "--receipts", kept)
    other = tmp_path / "other.model"
    squaresvm.save(LSSVC().fit(np.eye(4), [0, 1, 0, 1]), other)
    assert "receipt 1, which was given, is missing" in run("verify", other, "--receipts", kept, code=1).stdout
    kept.write_text(kept.read_text().replace('"rows": 1', '"rows": 2'))
    assert "that was given is edited" in run("verify", path, "--receipts", kept, code=1).stdout
    kept.write_text("{}\n")
    line = run("verify", path, "--receipts", kept, code=2).stderr
    assert f"{kept}: line 1: it is not a receipt" in line
    kept.write_text("")
    assert "holds no receipts" in run("verify", path, "--receipts", kept, code=2).stderr


def test_receipts_are_moved_to_a_file(path, tmp_path):
    kept = tmp_path / "kept.jsonl"
    first = run("receipts", path).stdout
    (anchor,) = map(json.loads, run("receipts", path, "--anchor", kept).stdout.splitlines())
    assert (anchor["kind"], anchor["before"]["receipts"]) == ("anchor", 2)
    assert [json.loads(line) for line in kept.read_text().splitlines()] == [
        json.loads(line) for line in first.splitlines()
    ]
    run("forget", path, "--ids", "p5")
    run("verify", path, "--receipts", kept, "--absent", "p3")
    kept.write_text(first.splitlines()[0] + "\n")
    done = run("verify", path, "--receipts", kept, code=1)
    assert "receipt 0, which was given, cannot be held against the anchor, receipt 2" in done.stdout
    before = path.read_bytes()
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    for wrong in (path, tmp_path / "rows.csv", tmp_path):
        assert str(wrong) in run("receipts", path, "--anchor", wrong, code=2).stderr
    assert path.read_bytes() == before


def test_absence_is_printed(path):
    verdict = json.loads(run("verify", path, "--absent", "p3", "--json").stdout)["verdict"]
    proof = AbsenceProof.from_json(verdict["absence"])
    commitment = squaresvm.load(path).receipts_[-1].commitment
    assert check_absence(proof, commitment) == []
    assert "the id is not held: proof of" in run("verify", path, "--absent", "p3").stdout
    assert "a row with id 'p4' is held" in run("verify", path, "--absent", "p4", code=1).stdout


def test_the_proof_is_printed_for_whoever_asked(path):
    lines = run("verify", path, "--absent", "p3").stdout.splitlines()
    (line,) = [line.removeprefix("Proof of absence: ") for line in lines if line.startswith("Proof of")]
    commitment = squaresvm.load(path).receipts_[-1].commitment
    assert check_absence(AbsenceProof.from_json(json.loads(line)), commitment) == []


def test_receipts_as_forget_returns_them_are_compared_too(tmp_path):
    """They are not sealed: nobody is accused of editing them, and what they say of their request counts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    model = LSSVC().fit(X, X[:, 0] > 0)
    receipt = model.forget([3])
    assert not receipt.hash
    for given in (receipt, receipt.to_json(), [receipt.to_json(), model.receipts_[0]]):
        verdict = squaresvm.verify(model, receipts=given)
        assert verdict.ok
        assert any("receipt 1, which was given, is not sealed" in note for note in verdict.notes)
    other = "receipt 1 of the model is another one than the one that was given"
    for changes in (
        {"remaining": 38},
        {"time": "2020-01-01T00:00:00+00:00"},
        {"id_hashes": ()},
        {"residual": 1.0},
    ):
        assert squaresvm.verify(model, receipts=receipt.but(**changes)).faults == (other,)
    fresh = LSSVC().fit(np.delete(X, 3, axis=0), np.delete(X[:, 0] > 0, 3))
    assert "which was given, is missing" in squaresvm.verify(fresh, receipts=receipt).faults[0]
    model.anchor_receipts()
    (fault,) = squaresvm.verify(model, receipts=receipt).faults
    assert (
        fault
        == "receipt 1, which was given, was never sealed and cannot be held against the anchor, receipt 2"
    )
    assert model.forget([5], verify=True).hash  # Sealed at once.


def test_models_of_earlier_versions_have_no_receipts(path):
    from support.forged import sealed

    header, body = opened(path.read_bytes())
    del header["receipts"]
    path.write_bytes(sealed(header, body))
    verdict = squaresvm.verify(path)
    assert verdict.ok
    assert "the model has no receipts" in verdict.notes
    model = squaresvm.load(path)
    assert [receipt.kind for receipt in model.receipts_] == ["save"]
    model.forget(["p7"])
    assert squaresvm.verify(model).ok
    assert [receipt.kind for receipt in model.receipts_] == ["save", "forget"]


def test_rows_without_a_say_are_seen_by_the_digest(path):
    header, body = opened(path.read_bytes())
    arrays = arrays_of(header, body)
    idle = int(np.flatnonzero(arrays["beta"][:, 0] == 0.0)[0])
    arrays["rows"][idle] *= 1.0 + 1e-15
    path.write_bytes(with_arrays(header, arrays))
    assert any("is of other rows" in fault for fault in squaresvm.verify(path).faults)


def test_ids_that_change_places_where_rows_have_no_features(tmp_path):
    rng = np.random.default_rng(0)
    X, path = rng.normal(size=(12, 2)), tmp_path / "a.model"
    model = LSSVC(kernel="precomputed").fit(X @ X.T, np.arange(12) % 2, ids=[f"p{i}" for i in range(12)])
    model.forget(["p3"])
    squaresvm.save(model, path)
    assert squaresvm.verify(path, receipts=model.receipts_).ok
    header, body = opened(path.read_bytes())
    arrays = arrays_of(header, body)
    arrays["ids"][[0, 2]] = arrays["ids"][[2, 0]]  # Of the same class, with the same weight.
    path.write_bytes(with_arrays(header, arrays))
    assert any("is of another model" in fault for fault in squaresvm.verify(path).faults)


def test_command_line_models_keep_one_chain_while_levels_come_and_go(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=30), "town": rng.choice(["Ulm", "Bonn"], 30)})
    frame["label"] = np.where(frame["a"] + 0.3 * rng.normal(size=30) > 0, "yes", "no")
    frame.loc[4, "town"] = "Aachen"
    more = frame[:3].assign(town="Wien")
    frame.to_csv(tmp_path / "d.csv", index=False)
    more.to_csv(tmp_path / "more.csv", index=False)
    model, kept = tmp_path / "m.model", tmp_path / "r.jsonl"
    run("train", tmp_path / "d.csv", "-o", model, "--label", "label")
    run("learn", model, tmp_path / "more.csv")
    kept.write_text(run("receipts", model).stdout)
    run("forget", model, "--ids", "4,30,31,32")
    run("verify", model, "--receipts", kept)
    last = squaresvm.load(model).receipts_[-1]
    assert last.resolved["columns"] == 1
    assert set(last.moved["columns"]) == {"a"}
    assert "mean and deviation" in last.kept[0]
