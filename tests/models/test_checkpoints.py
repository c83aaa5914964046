"""A fit from a stream that was cut off goes on where it stood, and never with the rows of another fit."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC
from squaresvm.models.checkpoint import Checkpoint
from squaresvm.streaming import ArraySource, BlockSource
from support.row_sources import Blocks, M, N, rows

X, Y, _ = rows("two")

MODELS = {"LSSVC": LSSVC(kernel="linear", C=0.1), "RLSSVC": RLSSVC(kernel="linear", C=3.0)}


@pytest.fixture(params=MODELS)
def model(request):
    """A model of either loss, not fitted."""
    return clone(MODELS[request.param])


def test_forgetting_nearly_all_is_refused_where_digits_are_lost():
    heavy = np.ones(M)
    heavy[:-20] = 1e13
    model = LSSVC(kernel="linear", C=1e-3).fit(ArraySource(X, Y, heavy))
    before = model._state
    with pytest.raises(ValueError, match="too few rows would remain"):
        model.forget_rows(X[:-20], Y[:-20], heavy[:-20])
    assert model._state is before


def test_models_in_memory_forget_by_ids():
    with pytest.raises(ValueError, match="held under ids"):
        LSSVC(kernel="linear").fit(X, Y).forget_rows(X[:1], Y[:1])


class StoppedError(Exception):
    """What ends a pass."""


class Stops(Blocks):
    """Blocks that fail at a given pass."""

    def __init__(self, at, *data):
        super().__init__(*data)
        self.at = at

    def __call__(self):
        self.passes += 1
        for number, block in enumerate(self.blocks):
            if self.passes == self.at and number == 3:
                raise StoppedError
            yield block


def interrupted(model, path, at=5, data=(X, Y)):
    with pytest.raises(StoppedError):
        model.fit(BlockSource(Stops(at, *data), n_features=N), checkpoint=path)
    assert path.exists()


def test_an_interrupted_fit_goes_on(model, tmp_path):
    path = tmp_path / "fit.ckpt"
    whole = Blocks(X, Y)
    expected = clone(model).fit(BlockSource(whole, n_features=N))
    interrupted(model, path, at=3 if isinstance(model, LSSVC) else 5)
    assert [item.name for item in tmp_path.iterdir()] == ["fit.ckpt"]
    rest = Blocks(X, Y)
    model.fit(BlockSource(rest, n_features=N), checkpoint=path)
    assert rest.passes < whole.passes
    assert not path.exists()
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=0, atol=1e-10)


def changed(array, place):
    """Return the array with one number in another last digit."""
    other = array.copy()
    other[place] = np.nextafter(other[place], np.inf)
    return other


def swapped(y):
    """Return labels of which two rows have changed theirs, so that all counts stay."""
    other = y.copy()
    pair = [np.flatnonzero(y == label)[0] for label in np.unique(y)]
    other[pair] = y[pair[::-1]]
    return other


@pytest.mark.parametrize(
    ("other", "data", "message"),
    [
        (RLSSVC(kernel="linear", C=4.0), (X, Y), "C differ"),
        (RLSSVC(kernel="linear", C=3.0, fit_intercept=False), (X, Y), "A differ"),
        (LagrangianSVC(kernel="linear", C=3.0), (X, Y), "A differ"),
        (LSSVC(kernel="linear", C=3.0), (X, Y), "loss differ"),
        (RLSSVC(kernel="linear", C=3.0, class_weight={1.0: 2.0}), (X, Y), "class_weight differ"),
        (RLSSVC(kernel="linear", C=3.0), (X[:-1], Y[:-1]), "rows"),
        (RLSSVC(kernel="linear", C=3.0), (X, 1.0 - Y), "counts"),
        (RLSSVC(kernel="linear", C=3.0), (X, np.where(Y == 1.0, 4.0, 0.0)), "labels differ"),
        (RLSSVC(kernel="linear", C=3.0), (X, Y, np.full(M, 2.0)), "weights differ"),
        (RLSSVC(kernel="linear", C=3.0), (changed(X, (7, 1)), Y), "data differ"),
        (RLSSVC(kernel="linear", C=3.0), (X[:, ::-1].copy(), Y), "data differ"),
        (RLSSVC(kernel="linear", C=3.0), (X, swapped(Y)), "data differ"),
    ],
)
def test_the_checkpoint_of_another_fit_is_refused(other, data, message, tmp_path):
    path = tmp_path / "fit.ckpt"
    interrupted(RLSSVC(kernel="linear", C=3.0), path)
    content = path.read_bytes()
    with pytest.raises(ValueError, match=f"another fit.*{message}"):
        other.fit(ArraySource(*data), checkpoint=path)
    assert path.read_bytes() == content
    assert not other.__sklearn_is_fitted__()


def one_array():
    file = io.BytesIO()
    np.save(file, np.ones(3))
    return file.getvalue()


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "garbled", "one array"])
def test_a_damaged_checkpoint_is_refused(damage, tmp_path):
    path = tmp_path / "fit.ckpt"
    interrupted(RLSSVC(kernel="linear", C=3.0), path)
    content = path.read_bytes()
    middle = len(content) // 2
    spoiled = {
        "truncated": content[:middle],
        "empty": b"",
        "text": b"no checkpoint at all",
        "one array": one_array(),
        "garbled": content[:middle]
        + bytes(255 - byte for byte in content[middle : middle + 60])
        + content[middle + 60 :],
    }[damage]
    path.write_bytes(spoiled)
    model = RLSSVC(kernel="linear", C=3.0)
    with pytest.raises(ValueError, match=r"fit\.ckpt is not a checkpoint, or is damaged"):
        model.fit(ArraySource(X, Y), checkpoint=path)
    assert path.read_bytes() == spoiled
    assert not model.__sklearn_is_fitted__()


def test_a_checkpoint_that_cannot_be_written_leaves_the_former_one(tmp_path, monkeypatch):
    checkpoint = Checkpoint.of(tmp_path / "fit.ckpt", {"C": "1"})
    checkpoint.write(w=np.ones(3))
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        checkpoint.write(w=np.zeros(3))
    assert [item.name for item in tmp_path.iterdir()] == ["fit.ckpt"]
    np.testing.assert_array_equal(checkpoint.read()["w"], np.ones(3))


def test_one_changed_row_between_kill_and_resume_is_noticed(tmp_path):
    """Sums of other rows would be taken for these: the model would be converged, and wrong to forget with."""
    path, values = tmp_path / "fit.ckpt", X[:, 0] + 0.1
    interrupted(LSSVR(kernel="linear"), path, at=3, data=(X, values))
    for data in ((changed(X, (11, 2)), values), (X, changed(values, 11))):
        with pytest.raises(ValueError, match=r"another fit \(data differ"):
            LSSVR(kernel="linear").fit(ArraySource(*data), checkpoint=path)
    order = np.random.default_rng(0).permutation(M)
    expected = LSSVR(kernel="linear").fit(X, values)
    # The same rows in another order, and sparse: the same fit.
    model = LSSVR(kernel="linear").fit(ArraySource(sp.csr_matrix(X[order]), values[order]), checkpoint=path)
    assert not path.exists()
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-8)


def test_what_killed_fits_left_half_written_is_removed(tmp_path):
    left = tmp_path / ".fit.ckpt.abc.part"
    left.write_bytes(b"sums of rows")
    LSSVR(kernel="linear").fit(ArraySource(X, X[:, 0]), checkpoint=tmp_path / "fit.ckpt")
    assert list(tmp_path.iterdir()) == []


def test_damage_anywhere_in_a_checkpoint_has_one_message(tmp_path):
    """Each file reads as it was or is refused: never other numbers, never another error."""
    checkpoint = Checkpoint.of(tmp_path / "fit.ckpt", {"C": "1"})
    held = {"w": np.arange(12.0).reshape(4, 3), "b": np.ones(3), "total": np.array(2.0)}
    checkpoint.write(**held)
    content = checkpoint.path.read_bytes()
    rng = np.random.default_rng(int(os.environ.get("SQUARESVM_SEED", "0")))
    refused = 0
    for _ in range(int(os.environ.get("SQUARESVM_DAMAGES", "400"))):
        checkpoint.path.write_bytes(damaged(content, rng))
        message, found = None, None
        try:
            found = checkpoint.read()
        except ValueError as error:
            message = str(error)
        if found is None:
            assert message.endswith("delete it to start again")
            refused += 1
        else:
            assert sorted(found) == sorted(held)
            assert all(np.array_equal(found[name], held[name]) for name in held)
    assert refused > 200


def damaged(content, rng):
    """Return a file of which bytes were changed, cut out, cut off or written twice."""
    spoiled, at = bytearray(content), int(rng.integers(len(content)))
    length = int(rng.integers(1, 40))
    kind = rng.integers(4)
    if kind == 0:
        spoiled[at : at + length] = rng.bytes(length)
    elif kind == 1:
        spoiled[at] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        del spoiled[at : at + length]
    else:
        spoiled[at:at] = spoiled[at : at + length]
    return bytes(spoiled[:at] if rng.random() < 0.1 else spoiled)


KILLED = """
import os, signal, sys
import numpy as np
from support.row_sources import Blocks, N, rows
from squaresvm import LSSVC, RLSSVC
from squaresvm.streaming import BlockSource

class Kills(Blocks):
    def __call__(self):
        self.passes += 1
        for number, block in enumerate(self.blocks):
            if self.passes == int(sys.argv[3]) and number == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            yield block

X, y, _ = rows("two")
model = {"LSSVC": LSSVC(kernel="linear", C=0.1), "RLSSVC": RLSSVC(kernel="linear", C=3.0)}[sys.argv[1]]
model.fit(BlockSource(Kills(X, y), n_features=N), checkpoint=sys.argv[2])
"""


def test_a_fit_that_is_killed_goes_on_from_its_checkpoint(model, tmp_path):
    path, at = tmp_path / "fit.ckpt", 3 if isinstance(model, LSSVC) else 5
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", KILLED, type(model).__name__, str(path), str(at)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, tests])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert path.exists()
    whole, rest = Blocks(X, Y), Blocks(X, Y)
    expected = clone(model).fit(BlockSource(whole, n_features=N))
    model.fit(BlockSource(rest, n_features=N), checkpoint=path)
    assert rest.passes < whole.passes
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=0, atol=1e-8)
    assert list(tmp_path.iterdir()) == []
