"""Signatures of receipts: those of the key are valid, and no others."""

from __future__ import annotations

import stat
from dataclasses import replace

import numpy as np
import pytest

import squaresvm
from squaresvm import LSSVC, check_chain
from squaresvm.evidence.log import check_signatures, new_key, signed

pytest.importorskip("cryptography")


def fitted():
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = LSSVC().fit(X, X[:, 0] > 0)
    model.forget([3])
    return model


def test_signatures_are_of_the_key_and_of_what_is_said(tmp_path):
    public, other = new_key(tmp_path / "key.pem"), new_key(tmp_path / "other.pem")
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    model = fitted()
    assert check_signatures(model.receipts_, public) == ["receipt 0 is not signed", "receipt 1 is not signed"]
    model.sign_receipts(tmp_path / "key.pem")
    squaresvm.save(model, tmp_path / "a.model")
    again = squaresvm.load(tmp_path / "a.model")
    assert squaresvm.verify(again).ok
    assert check_chain(again.receipts_) == check_signatures(again.receipts_, public) == []
    assert check_signatures(again.receipts_, other) == [
        f"receipt {number} has no valid signature of this key" for number in (0, 1)
    ]
    edited = replace(again.receipts_[1], remaining=20)
    edited = replace(edited, hash=edited.hashed())
    assert check_signatures([edited], public) == ["receipt 1 has no valid signature of this key"]
    again.forget([5])
    assert check_signatures(again.receipts_, public) == ["receipt 2 is not signed"]
    again.sign_receipts(tmp_path / "other.pem")  # What is signed stays as it is.
    assert check_signatures(again.receipts_[:2], public) == check_signatures(again.receipts_[2:], other) == []


def test_what_is_no_key_is_refused(tmp_path):
    (tmp_path / "none.pem").write_text("no key")
    model = fitted()
    with pytest.raises(ValueError, match="holds no private key"):
        model.sign_receipts(tmp_path / "none.pem")
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        check_signatures(model.receipts_, "abc")
    new_key(tmp_path / "key.pem")
    with pytest.raises(FileExistsError):
        new_key(tmp_path / "key.pem")
    with pytest.raises(ValueError, match="not sealed"):
        signed([replace(model.receipts_[0], hash="")], tmp_path / "key.pem")
